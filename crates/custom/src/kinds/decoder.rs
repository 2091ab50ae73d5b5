//! Video decoders: `ropeway.decode.h264`, `ropeway.decode.hevc`, `ropeway.decode.av1`.

use std::sync::PoisonError;

use ropeway_abi::ropeway::custom;
use ropeway_codec::{Engine, Error, Kind as Reason, Limits, PixelFormat, VideoDecoder, video_library};
use serde::{Deserialize, Serialize};

use super::codecs::{CodecName, table};
use super::records::{ChunkRecord, FrameRecord, failure, format_number, pixel_format};
use super::states::States;
use crate::kind::{Call, Failure, Instance, Kind, Parameter, Passed, Signature};

table! {
    /// A `[[decoder]]` table of the operator's file.
    pub struct Declaration {
        /// The hardware that decodes, if it is not the processor.
        pub hardware: Option<Hardware>,
    }
}

/// Hardware as the operator's file names it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Hardware {
    /// `nvdec`: the decoder of an NVIDIA GPU.
    Nvdec,
}

impl Declaration {
    /// Holds it against what is allowed.
    ///
    /// # Errors
    /// One sentence.
    pub fn check(&self) -> Result<(), String> {
        self.check_common()
    }

    /// A decoder of one of its codecs.
    fn begin(&self, codec: CodecName) -> Result<VideoDecoder, Error> {
        let Self { max_width, max_height, threads, .. } = *self;
        let engine = match self.hardware {
            None => Engine::Processor,
            Some(Hardware::Nvdec) => Engine::Nvdec,
        };
        VideoDecoder::new(codec.codec(), engine, Limits { max_width, max_height, threads })
    }
}

/// A device that decodes video.
pub struct Decoder {
    declaration: Declaration,
}

impl Decoder {
    /// The device of a declaration that [`Declaration::check`] has passed.
    pub fn new(declaration: Declaration) -> Self {
        // Loaded while the worker waits for its client. Where the machine has none, commands say so.
        drop(video_library());
        Self { declaration }
    }
}

impl Kind for Decoder {
    fn name(&self) -> String {
        self.declaration.name.clone()
    }

    fn kernels(&self) -> Vec<Signature> {
        let signature = |codec: &CodecName| {
            let parameters = [
                Parameter::uint("stream"),
                Parameter::buffer("chunk", "uchar*", Passed::In, 0),
                Parameter::buffer("about_chunk", "cl_chunk_ropeway*", Passed::In, ChunkRecord::SIZE),
                Parameter::buffer("frame", "uchar*", Passed::Out, 0),
                Parameter::buffer("about_frame", "cl_frame_ropeway*", Passed::Out, FrameRecord::SIZE),
                Parameter::uint("format"),
            ];
            Signature::new(format!("ropeway.decode.{}", codec.text()), parameters)
        };
        self.declaration.codecs.iter().map(signature).collect()
    }

    fn prove(&self) -> Result<(), String> {
        if self.declaration.hardware.is_some() {
            for codec in &self.declaration.codecs {
                self.declaration.begin(*codec).map_err(|error| error.to_string())?;
            }
        }
        Ok(())
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
        let (kernel, number, format) = (call.kernel, call.uint(0), call.uint(5));
        let [_, chunk, about_chunk, frame, about_frame, _] =
            call.slices().try_into().expect("as many arguments as the signature has");
        let (frame, about_frame) = (frame.write(), about_frame.write());
        // Whatever happens, the record is that of this command.
        FrameRecord { format, ..FrameRecord::default() }.write(about_frame);
        let format = pixel_format(format)?;
        let about = ChunkRecord::read(about_chunk.read());
        let chunk = about.of(chunk.read())?;
        let stream = self.streams.get((kernel, number), Stream::is_over, || self.begin(kernel))?;
        let mut stream = stream.lock().unwrap_or_else(PoisonError::into_inner);
        let frames = stream.frames;
        stream.decode((chunk, about.sequence), format, frame, about_frame).map_err(|error| failure(&error))?;
        if chunk.is_empty() && stream.frames == frames {
            return Err(Failure::new(custom::CL_STREAM_END_ROPEWAY, "all frames of the stream have been given"));
        }
        Ok(())
    }
}

impl Opened {
    fn begin(&self, kernel: usize) -> Result<Stream, Failure> {
        let decoder = self.declaration.begin(self.declaration.codecs[kernel]).map_err(|error| failure(&error))?;
        Ok(Stream { decoder, frames: 0, unfit: None })
    }
}

struct Stream {
    decoder: VideoDecoder,
    /// Frames given so far.
    frames: u64,
    /// The chunk that has been decoded, and whose command had a buffer that was too small: its number and its bytes. It is not to be
    /// decoded again when the command is enqueued again.
    unfit: Option<(u64, Vec<u8>)>,
}

impl Stream {
    fn is_over(&self) -> bool {
        self.decoder.is_drained()
    }

    /// Gives the decoder a chunk, unless it is the one that it has had already, and takes a frame.
    fn decode(
        &mut self,
        (chunk, number): (&[u8], u64),
        format: PixelFormat,
        frame: &mut [u8],
        about_frame: &mut [u8],
    ) -> Result<(), Error> {
        let is_again = self.unfit.take().is_some_and(|(had, bytes)| had == number && bytes == chunk);
        let fed = if is_again { Ok(()) } else { self.decoder.feed(chunk) };
        // A decoder that is full makes room by giving a frame.
        let is_full = fed.as_ref().is_err_and(|error| error.kind() == Reason::Full);
        if !is_full {
            fed?;
        }
        let taken = self.take(format, frame, about_frame);
        let is_unfit = taken.as_ref().is_err_and(|error| error.kind() == Reason::BufferTooSmall);
        if is_full && !is_unfit {
            // This command has its end: what is wrong with the chunk is for a later one.
            if let Err(error) = self.decoder.feed(chunk) {
                self.decoder.put_off(error);
            }
        }
        if is_unfit && !is_full {
            self.unfit = Some((number, chunk.to_vec()));
        }
        taken
    }

    fn take(&mut self, format: PixelFormat, frame: &mut [u8], about_frame: &mut [u8]) -> Result<(), Error> {
        let Some(mut decoded) = self.decoder.frame()? else { return Ok(()) };
        let (width, height) = decoded.size();
        let mut record = FrameRecord {
            size: 0,
            sequence: self.frames,
            width,
            height,
            row_pitch: format.row_bytes(width) as u32,
            format: format_number(format),
        };
        // With its size in pixels, so that the program knows what buffer it takes.
        record.write(about_frame);
        record.size = decoded.write(format, frame)? as u64;
        decoded.take();
        record.write(about_frame);
        self.frames += 1;
        Ok(())
    }
}
