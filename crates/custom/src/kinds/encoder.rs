//! Video encoders: `ropeway.encode.h264`, `ropeway.encode.hevc`, `ropeway.encode.av1`.

use std::sync::PoisonError;
use std::time::Instant;

use ropeway_abi::ropeway::custom;
use ropeway_codec::{PixelFormat, Settings, VideoEncoder, video_library};

use super::codecs::{CodecName, table, within};
use super::records::{ChunkRecord, failure, pixel_format};
use super::states::States;
use crate::kind::{Call, Failure, Instance, Kind, Parameter, Passed, Signature};

table! {
    /// An `[[encoder]]` table of the operator's file.
    pub struct Declaration {
        /// Frames in a second, by which a stream's bits are shared out.
        #[serde(default = "usual_rate")]
        pub rate: u32,
    }
}

fn usual_rate() -> u32 {
    30
}

impl Declaration {
    /// Holds it against what is allowed.
    ///
    /// # Errors
    /// One sentence.
    pub fn check(&self) -> Result<(), String> {
        self.check_common()?;
        within("rate", self.rate, 1000)
    }
}

/// A device that encodes video.
pub struct Encoder {
    declaration: Declaration,
}

impl Encoder {
    /// The device of a declaration that [`Declaration::check`] has passed.
    pub fn new(declaration: Declaration) -> Self {
        // Loaded while the worker waits for its client. Where the machine has none, commands say so.
        drop(video_library());
        Self { declaration }
    }
}

impl Kind for Encoder {
    fn name(&self) -> String {
        self.declaration.name.clone()
    }

    fn kernels(&self) -> Vec<Signature> {
        let signature = |codec: &CodecName| {
            let parameters = [
                Parameter::uint("stream"),
                Parameter::buffer("frame", "uchar*", Passed::In, 0).optional(),
                Parameter::uint("width"),
                Parameter::uint("height"),
                Parameter::uint("format"),
                Parameter::uint("kbit"),
                Parameter::buffer("chunk", "uchar*", Passed::Out, 0),
                Parameter::buffer("about_chunk", "cl_chunk_ropeway*", Passed::Out, ChunkRecord::SIZE),
            ];
            Signature::new(format!("ropeway.encode.{}", codec.text()), parameters)
        };
        self.declaration.codecs.iter().map(signature).collect()
    }

    fn open(&self) -> Box<dyn Instance> {
        Box::new(Opened { declaration: self.declaration.clone(), streams: States::new(self.declaration.streams) })
    }
}

struct Opened {
    declaration: Declaration,
    streams: States<Stream>,
}

impl Instance for Opened {
    fn run(&self, call: &mut Call) -> Result<(), Failure> {
        let kernel = call.kernel;
        let [number, width, height, format, kbit] = [0, 2, 3, 4, 5].map(|index| call.uint(index));
        let [_, frame, _, _, _, _, chunk, about] =
            call.slices().try_into().expect("as many arguments as the signature has");
        let (frame, chunk, about) = (frame.read(), chunk.write(), about.write());
        ChunkRecord::default().write(about);
        let key = (kernel, number);
        if (width, height) == (0, 0) {
            // The stream's end. One that is not there has ended already.
            if let Some(stream) = self.streams.find(key) {
                let mut stream = stream.lock().unwrap_or_else(PoisonError::into_inner);
                stream.encoder.end().map_err(|error| failure(&error))?;
                if stream.take(chunk, about)? {
                    return Ok(());
                }
                self.streams.forget(key);
            }
            return Err(Failure::new(custom::CL_STREAM_END_ROPEWAY, "all chunks of the stream have been given"));
        }
        let settings = self.settings(width, height, kbit)?;
        let format = pixel_format(format)?;
        let stream = self.streams.get(key, |_| false, || Stream::new(self.codec(kernel), settings))?;
        let mut stream = stream.lock().unwrap_or_else(PoisonError::into_inner);
        if stream.encoder.settings() != settings {
            *stream =
                Stream { chunks: stream.chunks, began: stream.began, ..Stream::new(self.codec(kernel), settings)? };
        }
        stream.encode(format, frame, chunk, about)
    }
}

impl Opened {
    fn codec(&self, kernel: usize) -> ropeway_codec::Codec {
        self.declaration.codecs[kernel].codec()
    }

    fn settings(&self, width: u32, height: u32, kbit: u32) -> Result<Settings, Failure> {
        let Declaration { max_width, max_height, threads, rate, .. } = &self.declaration;
        if width > *max_width || height > *max_height {
            let text = format!(
                "frames of {width} x {height} are too large; this encoder takes up to {max_width} x {max_height}"
            );
            return Err(Failure::new(custom::CL_FRAME_TOO_LARGE_ROPEWAY, text));
        }
        let bits_per_second = u64::from(kbit) * 1000;
        Ok(Settings { width, height, bits_per_second, frames_per_second: *rate, threads: *threads })
    }
}

struct Stream {
    encoder: VideoEncoder,
    /// Chunks given so far.
    chunks: u64,
    began: Instant,
    /// The last command had a buffer that was too small: its frame is encoded, and it is not to be encoded again when the command is
    /// enqueued again.
    is_unfit: bool,
}

impl Stream {
    fn new(codec: ropeway_codec::Codec, settings: Settings) -> Result<Self, Failure> {
        let encoder = VideoEncoder::new(codec, settings).map_err(|error| failure(&error))?;
        Ok(Self { encoder, chunks: 0, began: Instant::now(), is_unfit: false })
    }

    fn encode(&mut self, format: PixelFormat, frame: &[u8], chunk: &mut [u8], about: &mut [u8]) -> Result<(), Failure> {
        if !std::mem::take(&mut self.is_unfit) {
            self.encoder.feed(format, frame).map_err(|error| failure(&error))?;
        }
        self.take(chunk, about).map(drop)
    }

    /// Gives a chunk; false if there is none now.
    fn take(&mut self, chunk: &mut [u8], about: &mut [u8]) -> Result<bool, Failure> {
        let Some(bytes) = self.encoder.chunk().map_err(|error| failure(&error))? else { return Ok(false) };
        let (size, room) = (bytes.len(), chunk.len());
        let Some(place) = chunk.get_mut(..size) else {
            self.is_unfit = true;
            let text = format!("the chunk has {size} bytes, and its buffer has {room}");
            return Err(Failure::new(custom::CL_BUFFER_TOO_SMALL_ROPEWAY, text));
        };
        place.copy_from_slice(bytes);
        self.encoder.take();
        let time = self.began.elapsed().as_nanos().try_into().unwrap_or(u64::MAX);
        ChunkRecord { size: size as u64, sequence: self.chunks, dropped: 0, time }.write(about);
        self.chunks += 1;
        Ok(true)
    }
}
