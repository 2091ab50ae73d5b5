//! Streams as devices: the kernel `ropeway.stream.next` puts the next chunk of one into a buffer.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use ropeway_abi::ropeway::custom;
use ropeway_stream::queue::{Chunk, Fault};
use ropeway_stream::{Cancel, Declaration, Ended, Source};

use super::records::ChunkRecord;
use crate::kind::{Call, Failure, Instance, Kind, Parameter, Passed, Signature, Slice};

/// Opens the stream of this name, as [`ropeway_stream::feed::Feeds::open`] does.
pub type Opener = dyn Fn(&str) -> Result<OwnedFd, String> + Send + Sync;

/// How this process opens streams.
static OPENER: RwLock<Option<Arc<Opener>>> = RwLock::new(None);

/// Has streams opened by this from now on: a sandboxed process opens none by itself.
pub fn open_by(opener: Arc<Opener>) {
    *OPENER.write().unwrap_or_else(PoisonError::into_inner) = Some(opener);
}

/// A stream.
pub struct StreamSource {
    declaration: Declaration,
}

impl StreamSource {
    /// The device of the stream of this declaration.
    pub fn new(declaration: Declaration) -> Self {
        Self { declaration }
    }
}

impl Kind for StreamSource {
    fn name(&self) -> String {
        self.declaration.name.clone()
    }

    fn kernels(&self) -> Vec<Signature> {
        let chunk = Parameter::buffer("chunk", "uchar*", Passed::Out, 0);
        let about = Parameter::buffer("about", "cl_chunk_ropeway*", Passed::Out, ChunkRecord::SIZE);
        vec![Signature::new("ropeway.stream.next", [chunk, about])]
    }

    fn open(&self) -> Box<dyn Instance> {
        let stop = Cancel::new().map_err(|error| format!("a stream cannot be waited for: {error}"));
        Box::new(Opened { declaration: self.declaration.clone(), stop, source: Mutex::new(None) })
    }
}

/// A stream as one context has it: opened by its first command, and read from there on by one command at a time.
struct Opened {
    declaration: Declaration,
    stop: Result<Cancel, String>,
    source: Mutex<Option<Source>>,
}

impl Instance for Opened {
    fn run(&self, call: &mut Call) -> Result<(), Failure> {
        let lost = |why: String| Failure::new(custom::CL_STREAM_LOST_ROPEWAY, why);
        let stop = self.stop.as_ref().map_err(|why| lost(why.clone()))?;
        let mut slices = call.slices().into_iter();
        let (Some(chunk), Some(about)) = (slices.next().map(Slice::write), slices.next().map(Slice::write)) else {
            return Err(lost("the kernel has two arguments".to_owned()));
        };
        let mut held = self.source.lock().unwrap_or_else(PoisonError::into_inner);
        if stop.is_cancelled() {
            return Err(failure(&self.declaration, Ended::Cancelled, 0));
        }
        let source = match &mut *held {
            Some(source) => source,
            none => none.insert(open(&self.declaration).map_err(lost)?),
        };
        match source.next(stop, chunk.len()) {
            Ok(Chunk { bytes, sequence, dropped, time }) => {
                chunk[..bytes.len()].copy_from_slice(&bytes);
                let time = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
                ChunkRecord { size: bytes.len() as u64, sequence, dropped, time }.write(about);
                Ok(())
            }
            Err(ended) => {
                if ended == Ended::Cancelled {
                    // No command will ask for more. The context may stay for a while; the stream need not.
                    *held = None;
                }
                Err(failure(&self.declaration, ended, chunk.len()))
            }
        }
    }
    fn call_off(&self) {
        if let Ok(stop) = &self.stop {
            stop.cancel();
        }
    }
}

fn open(declaration: &Declaration) -> Result<Source, String> {
    let opener = OPENER.read().unwrap_or_else(PoisonError::into_inner).clone();
    let opener = opener.ok_or_else(|| format!("nobody opens the stream '{}' for this process", declaration.name))?;
    Source::over(declaration, opener(&declaration.name)?)
}

fn failure(declaration: &Declaration, ended: Ended, room: usize) -> Failure {
    let name = &declaration.name;
    match ended {
        Ended::End => Failure::new(custom::CL_STREAM_END_ROPEWAY, format!("the stream '{name}' has ended")),
        Ended::Cancelled => Failure::new(
            custom::CL_COMMAND_CANCELLED_ROPEWAY,
            format!("the wait for the stream '{name}' was cancelled, as its context was released"),
        ),
        Ended::TooLarge { bytes } => Failure::new(
            custom::CL_BUFFER_TOO_SMALL_ROPEWAY,
            format!("the next chunk of the stream '{name}' has {bytes} bytes, and the buffer {room}"),
        ),
        Ended::Failed(Fault { text, is_invalid: true }) => Failure::new(custom::CL_STREAM_INVALID_ROPEWAY, text),
        Ended::Failed(Fault { text, is_invalid: false }) => Failure::new(custom::CL_STREAM_LOST_ROPEWAY, text),
    }
}
