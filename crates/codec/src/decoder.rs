//! Video decoders.

use std::collections::VecDeque;

use crate::convert::{Colours, Converter};
use crate::engine::Engine;
use crate::error::{Error, Kind};
use crate::headers;
use crate::libav::{Api, Chunk, Coder, Surface, Taken};
use crate::picture::{Codec, PixelFormat, within};

/// What a decoder may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Frames that are wider are refused. In pixels.
    pub max_width: u32,
    /// Frames that are higher are refused. In pixels.
    pub max_height: u32,
    /// How many threads the codec has; with more than one, it holds back about as many frames. Hardware has none, and holds back four
    /// frames with more than one.
    pub threads: u32,
}

/// How many decoded frames are kept for a caller who gives chunks and takes no frames, beside those that the codec keeps.
const MOST_READY: usize = 16;

/// How often in a row a codec that takes no chunk may give no frame either: dav1d does so once or twice.
const MOST_VAIN: usize = 64;

/// More frames than any codec holds back.
const MOST_HELD: usize = 256;

/// A decoder of one stream.
///
/// Chunks go in by `feed`, frames come out by `frame`, in the order in which they are shown: as many, and some chunks later.
/// A chunk that is broken is an error, and the next good one goes on as the codec can: mostly from the next key frame on. A codec
/// with several threads may say so some chunks later.
pub struct VideoDecoder {
    codec: Codec,
    engine: Engine,
    limits: Limits,
    api: &'static Api,
    coder: Coder,
    chunk: Chunk,
    converter: Converter,
    /// What came out, in order: frames with what the codec knew of the stream's colours then, once it has been asked, and failures in place
    /// of frames.
    ready: VecDeque<Result<(Surface, Option<Colours>), Error>>,
    spare: Vec<Surface>,
    state: State,
    /// The size that the stream's headers said last; none before the first.
    size: Option<(u32, u32)>,
    /// Whether the coder, one that keeps its stream's size, is of no use for the stream from its next headers on.
    is_stale: bool,
    /// Failures since the last frame.
    failures: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Running,
    /// The stream has ended, and frames are still coming out.
    Draining,
    Ended,
}

impl VideoDecoder {
    /// A decoder of a codec. Fails with [`Kind::NoLibrary`] where the machine has none, and with [`Kind::BadArgument`] where hardware does not
    /// take the codec, or no further stream.
    pub fn new(codec: Codec, engine: Engine, limits: Limits) -> Result<Self, Error> {
        if limits.max_width == 0 || limits.max_height == 0 || limits.threads == 0 {
            return Err(Error::new(
                Kind::BadArgument,
                "a decoder's largest width and height, and its threads, are 1 or more",
            ));
        }
        let api = Api::get()?;
        Ok(Self {
            codec,
            engine,
            limits,
            api,
            coder: open(api, codec, engine, limits)?,
            chunk: Chunk::new(api)?,
            converter: Converter::new(api),
            ready: VecDeque::new(),
            spare: Vec::new(),
            state: State::Running,
            size: None,
            is_stale: false,
            failures: 0,
        })
    }

    /// Gives the decoder a chunk; an empty one ends the stream, and what the decoder has held back comes out. A chunk after that
    /// begins a new stream; frames of the old one that were not taken, beyond the few that wait already, are lost.
    ///
    /// Fails with [`Kind::TooLarge`] before memory is taken for frames that are too large, with [`Kind::BadStream`] if the chunk, or
    /// one before it, cannot be decoded, and with [`Kind::Full`], the chunk not taken, where frames must be taken first.
    pub fn feed(&mut self, chunk: &[u8]) -> Result<(), Error> {
        if chunk.is_empty() {
            return self.end();
        }
        headers::check(self.codec, chunk)?;
        let size = headers::size(self.codec, chunk);
        if let Some(size) = size {
            within(self.codec, size, (self.limits.max_width, self.limits.max_height))?;
        }
        let is_renewed = self.engine.keeps_size()
            && size.is_some()
            && (self.is_stale || self.size.is_some_and(|had| Some(had) != size));
        if is_renewed && self.end().is_err() {
            // What has failed may fail again, and has no more frames then.
            self.state = State::Ended;
        }
        if self.state != State::Running {
            while self.ready.len() < MOST_READY && self.receive()? {}
            if is_renewed {
                self.note_colours();
                self.coder = open(self.api, self.codec, self.engine, self.limits)?;
                self.is_stale = false;
            } else {
                self.coder.restart();
            }
            self.state = State::Running;
        }
        self.size = size.or(self.size);
        self.chunk.fill(chunk)?;
        self.send(true).map(drop)
    }

    /// Ends the stream, if it has not ended.
    fn end(&mut self) -> Result<(), Error> {
        if self.state == State::Running {
            // What the codec has not looked at yet must not be the last that it sees: libavcodec's wrapper of dav1d takes the end
            // for one that has come already, and a frame would be lost.
            let mut vain = 0;
            while vain < 4 && self.ready.len() < MOST_HELD {
                vain += u32::from(!self.receive()? || self.failures > 0);
            }
            match self.send(false) {
                Ok(true) => self.state = State::Draining,
                Ok(false) => {}
                Err(error) => {
                    // Hardware that does not take the end has no frames to give.
                    if self.engine.keeps_size() && error.kind() != Kind::Full {
                        self.state = State::Ended;
                    }
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Sends the chunk, or the stream's end; false if that was sent already.
    fn send(&mut self, chunk: bool) -> Result<bool, Error> {
        let mut vain = 0;
        self.note_colours();
        loop {
            let sent = self.coder.send_chunk(chunk.then_some(&self.chunk));
            self.is_stale |= sent.is_err();
            match sent? {
                Taken::Yes => return Ok(true),
                Taken::Ended => return Ok(false),
                // The codec has frames to give first; or it goes on with the chunk before this one only when it is asked for frames.
                Taken::Later if vain < MOST_VAIN && self.ready.len() < MOST_READY => {
                    vain += usize::from(!self.receive()?);
                }
                Taken::Later => {
                    let sentence = format!("frames of the {} stream wait to be taken before it goes on", self.codec);
                    return Err(Error::new(Kind::Full, sentence));
                }
            }
        }
    }

    /// The next frame, if there is one already. It stays the next one until it is [taken](Decoded::take).
    ///
    /// Fails with [`Kind::BadStream`] or [`Kind::TooLarge`] where there was a chunk in its place that the codec could not decode or
    /// must not; asked again, it goes on behind that.
    pub fn frame(&mut self) -> Result<Option<Decoded<'_>>, Error> {
        if self.ready.is_empty() && !self.receive()? {
            return Ok(None);
        }
        if let Some(Err(_)) = self.ready.front()
            && let Some(Err(error)) = self.ready.pop_front()
        {
            return Err(error);
        }
        Ok(Some(Decoded(self)))
    }

    /// Puts a failure behind the frames that are ready: [`VideoDecoder::frame`] gives it in its turn.
    pub fn put_off(&mut self, failure: Error) {
        self.ready.push_back(Err(failure));
    }

    /// Whether the stream has been ended and all its frames are taken.
    pub fn is_drained(&self) -> bool {
        self.state == State::Ended && self.ready.is_empty()
    }

    /// Asks for the colours of frames that are ready, before the codec goes on. Often there are none: to ask takes libav as long as
    /// writing some rows.
    fn note_colours(&mut self) {
        for (_, colours) in self.ready.iter_mut().flatten() {
            colours.get_or_insert_with(|| colours_of(&mut self.coder));
        }
    }

    /// Gets a frame, or a failure in its place, from the codec; false if it has none now.
    fn receive(&mut self) -> Result<bool, Error> {
        if self.state == State::Ended {
            return Ok(false);
        }
        self.note_colours();
        let mut surface = match self.spare.pop() {
            Some(surface) => surface,
            None => Surface::new(self.api)?,
        };
        let came = match self.coder.receive_surface(&mut surface) {
            Ok(Taken::Yes) => {
                self.failures = 0;
                within(self.codec, surface.size(), (self.limits.max_width, self.limits.max_height))
                    .map(|()| (surface, None))
            }
            Ok(taken) => {
                self.spare.push(surface);
                if taken == Taken::Ended {
                    self.state = State::Ended;
                }
                return Ok(false);
            }
            Err(error) => {
                self.is_stale = true;
                self.failures += 1;
                // A codec that is drained fails at each frame that it lacks, hardware that has failed once for ever.
                if self.state == State::Draining && (self.engine.keeps_size() || self.failures > MOST_HELD) {
                    self.state = State::Ended;
                }
                Err(error)
            }
        };
        self.ready.push_back(came);
        Ok(true)
    }
}

/// A coder that takes chunks.
fn open(api: &'static Api, codec: Codec, engine: Engine, limits: Limits) -> Result<Coder, Error> {
    let name = engine.decoder(codec)?;
    let mut coder = Coder::decoder(api, &[name], format!("the {codec} stream"))?;
    match engine {
        Engine::Processor => coder.set(c"threads", limits.threads.into())?,
        Engine::Nvdec if limits.threads == 1 => coder.set_text(c"flags", c"+low_delay")?,
        Engine::Nvdec => {}
    }
    // A second fence behind `headers`, for what claims sizes where that does not look. Codecs have memory for whole blocks.
    let pixels = |side: u32| i64::from(side.next_multiple_of(128)) + 128;
    let most = pixels(limits.max_width).saturating_mul(pixels(limits.max_height));
    coder.set(c"max_pixels", most.min(i64::from(i32::MAX)))?;
    match coder.open() {
        Ok(()) => Ok(coder),
        Err(error) if engine == Engine::Processor => Err(error),
        // libav's reason is that of a library below it, and says as good as nothing.
        Err(error) => {
            let name = name.to_string_lossy();
            let sentence = format!(
                "{error}; the GPU or its driver may not decode {codec}, `ffmpeg -loglevel debug -c:v {name} -i FILE -f null -` says more"
            );
            Err(Error::new(error.kind(), sentence))
        }
    }
}

/// What the codec says of the colours of the frame that it has given last.
fn colours_of(coder: &mut Coder) -> Colours {
    Colours { matrix: coder.get(c"colorspace"), range: coder.get(c"color_range") }
}

/// A decoded frame, the next of its decoder.
pub struct Decoded<'a>(&'a mut VideoDecoder);

impl Decoded<'_> {
    fn surface(&self) -> Option<&Surface> {
        self.0.ready.front()?.as_ref().ok().map(|(surface, _)| surface)
    }

    /// Width and height, in pixels.
    pub fn size(&self) -> (u32, u32) {
        self.surface().map_or((0, 0), Surface::size)
    }

    /// Writes the frame to the beginning of `to` and says how many bytes it has: [`PixelFormat::bytes`] of its size. Fails with
    /// [`Kind::BufferTooSmall`], nothing written, if they are more than there is room for.
    ///
    /// NV12 has the samples as they were decoded, in the stream's own range; RGBA goes by the matrix and the range that the stream
    /// says it has (without that, those of BT.601). Where it says others from some frame on without having been ended, the few frames before
    /// that one which the codec held back go by the new ones.
    pub fn write(&mut self, format: PixelFormat, to: &mut [u8]) -> Result<usize, Error> {
        let VideoDecoder { converter, ready, coder, .. } = &mut *self.0;
        match ready.front_mut() {
            Some(Ok((surface, colours))) => {
                converter.write(surface, || *colours.get_or_insert_with(|| colours_of(coder)), format, to)
            }
            _ => Ok(0),
        }
    }

    /// Goes on to the frame behind it.
    pub fn take(self) {
        if let Some(Ok((mut surface, _))) = self.0.ready.pop_front() {
            // At once, so that the codec writes to memory that is still in the processor's cache.
            surface.clear();
            self.0.spare.push(surface);
        }
    }
}

#[cfg(test)]
#[path = "../tests/common/mod.rs"]
mod common;

#[cfg(test)]
mod tests {
    use super::common::{CODECS, Stream, decode, limits};
    use super::*;

    /// libav's limit, for claims that `headers` does not see.
    #[test]
    fn libav_itself_takes_no_frames_that_are_too_large() {
        let all = Limits { max_width: u32::MAX, max_height: u32::MAX, threads: 2 };
        for codec in CODECS {
            let stream = Stream::new(codec, (640, 352), 12);
            for (made_for, frames) in [(limits(2), 12), (Limits { max_width: 64, max_height: 64, threads: 2 }, 0)] {
                let mut decoder = VideoDecoder::new(codec, Engine::Processor, made_for).expect("a decoder");
                // Nothing else looks at sizes now.
                decoder.limits = all;
                let output = decode(&mut decoder, &stream.chunks, PixelFormat::Nv12);
                assert_eq!(output.frames.len(), frames, "{codec}");
                assert_eq!(output.failures.is_empty(), frames > 0, "{codec}");
            }
        }
    }
}
