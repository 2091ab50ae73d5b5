//! Video encoders.

use std::ffi::{CStr, CString};

use crate::convert::Converter;
use crate::error::{Error, Kind};
use crate::libav::{Api, Chunk, Coder, Surface, Taken};
use crate::picture::{Codec, PixelFormat};

/// What an encoder makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Width of all frames, in pixels; even, as chroma has half of it.
    pub width: u32,
    /// Height of all frames, in pixels; even.
    pub height: u32,
    /// Bits that a second of the stream takes, more or less.
    pub bits_per_second: u64,
    /// Frames in a second, by which bits are shared out.
    pub frames_per_second: u32,
    /// How many threads the codec has.
    pub threads: u32,
}

/// Frames from one key frame to the next, in seconds: who joins a stream, or has lost some of it, waits no longer.
const KEY_SECONDS: u32 = 2;

/// Nobody encodes larger frames than AV1's level 6.3 has.
const LARGEST: u32 = 16384;

/// An encoder of one stream, set to give each frame's chunk at once where the codec can.
pub struct VideoEncoder {
    settings: Settings,
    coder: Coder,
    /// SVT-AV1 1.4 waits for ever when it is closed and has had no frame: so it is opened for the first one.
    is_open: bool,
    surface: Surface,
    converter: Converter,
    chunk: Chunk,
    waiting: bool,
    number: i64,
    ended: bool,
}

impl VideoEncoder {
    /// An encoder into a codec: x264, x265 and SVT-AV1, which begins with its first frame. Fails with [`Kind::NoLibrary`] where libavcodec lacks it.
    pub fn new(codec: Codec, settings: Settings) -> Result<Self, Error> {
        let Settings { width, height, bits_per_second, frames_per_second, threads } = settings;
        let even = |side: u32| (16..=LARGEST).contains(&side) && side.is_multiple_of(2);
        if !even(width) || !even(height) {
            let sentence =
                format!("frames of {width} x {height} cannot be encoded: sides are even, from 16 to {LARGEST}");
            return Err(Error::new(Kind::BadArgument, sentence));
        }
        if bits_per_second == 0 || bits_per_second > i32::MAX as u64 || frames_per_second == 0 || threads == 0 {
            let sentence = format!(
                "an encoder of {bits_per_second} bit/s and {frames_per_second} frames/s on {threads} threads cannot be"
            );
            return Err(Error::new(Kind::BadArgument, sentence));
        }
        let api = Api::get()?;
        let name: &[&CStr] = match codec {
            Codec::H264 => &[c"libx264"],
            Codec::Hevc => &[c"libx265"],
            Codec::Av1 => &[c"libsvtav1"],
        };
        let mut coder = Coder::encoder(api, name, format!("the {codec} encoder"))?;
        let format = if codec == Codec::H264 { api.formats.nv12 } else { api.formats.yuv420p };
        coder.set_video(width, height, format, frames_per_second)?;
        let rate = bits_per_second as i64;
        coder.set(c"b", rate)?;
        if codec != Codec::Av1 {
            coder.set(c"maxrate", rate)?;
            coder.set(c"bufsize", rate)?;
        }
        coder.set(c"g", i64::from(frames_per_second.saturating_mul(KEY_SECONDS)).min(i64::from(i32::MAX)))?;
        coder.set(c"threads", threads.into())?;
        match codec {
            Codec::H264 => {
                coder.set_text(c"preset", c"veryfast")?;
                coder.set_text(c"tune", c"zerolatency")?;
            }
            Codec::Hevc => {
                coder.set_text(c"preset", c"ultrafast")?;
                coder.set_text(c"tune", c"zerolatency")?;
                // x265 has its own log, which goes to standard error, and as many threads as there are cores. Those that begin the
                // next frame meanwhile would hold a frame back.
                coder.set_text(
                    c"x265-params",
                    &text(format!("log-level=none:repeat-headers=1:pools={threads}:frame-threads=1")),
                )?;
            }
            Codec::Av1 => {
                coder.set(c"preset", 10)?;
                // No frame refers to a later one: the only order in which SVT-AV1 holds few frames back. With it goes a constant rate.
                coder.set_text(c"svtav1-params", &text(format!("pred-struct=1:rc=2:lp={threads}")))?;
            }
        }
        Ok(Self {
            settings,
            coder,
            is_open: false,
            surface: Surface::with_memory(api, width, height, format)?,
            converter: Converter::new(api),
            chunk: Chunk::new(api)?,
            waiting: false,
            number: 0,
            ended: false,
        })
    }

    /// What it was made for.
    pub fn settings(&self) -> Settings {
        self.settings
    }

    /// Encodes a frame that lies in `frame` without gaps between its rows. Fails with [`Kind::Full`], the frame not taken, where
    /// chunks must be taken first.
    pub fn feed(&mut self, format: PixelFormat, frame: &[u8]) -> Result<(), Error> {
        if self.ended {
            return Err(Error::new(Kind::BadArgument, "the encoder's stream has been ended"));
        }
        self.surface.own()?;
        self.converter.read(frame, format, &mut self.surface)?;
        self.surface.set_number(self.number);
        if !self.is_open {
            self.coder.open()?;
            self.is_open = true;
        }
        let sent = self.send(true);
        if sent.is_err() && self.number == 0 {
            self.coder.leave();
        }
        sent?;
        self.number += 1;
        Ok(())
    }

    /// Ends the stream: what the encoder has held back comes out.
    pub fn end(&mut self) -> Result<(), Error> {
        if !self.ended {
            if self.is_open {
                self.send(false)?;
            }
            self.ended = true;
        }
        Ok(())
    }

    fn send(&mut self, frame: bool) -> Result<(), Error> {
        match self.coder.send_surface(frame.then_some(&self.surface))? {
            Taken::Later => Err(Error::new(Kind::Full, "the encoder's chunks wait to be taken before it goes on")),
            _ => Ok(()),
        }
    }

    /// The next chunk, if there is one already: an access unit with start codes, or AV1's temporal unit. It stays the next one until
    /// `take`.
    pub fn chunk(&mut self) -> Result<Option<&[u8]>, Error> {
        if !self.waiting && self.is_open {
            self.waiting = self.coder.receive_chunk(&mut self.chunk)? == Taken::Yes;
        }
        Ok(self.waiting.then(|| self.chunk.bytes()))
    }

    /// Goes on to the chunk behind it.
    pub fn take(&mut self) {
        self.waiting = false;
    }
}

fn text(text: String) -> CString {
    CString::new(text).unwrap_or_default()
}
