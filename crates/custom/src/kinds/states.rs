//! What a codec's device remembers from one command to the next: the states of a context's streams, by the numbers that the program has
//! given them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use ropeway_abi as cl;
use ropeway_codec::Codec;
use serde::{Deserialize, Serialize};

use crate::kind::Failure;

/// Streams of one context at one device, unless the operator's file says another number.
pub fn usual_streams() -> u32 {
    16
}

/// The most of them: each has threads and frames of its own.
const MOST_STREAMS: u32 = 256;

/// Threads of each stream, unless the operator's file says another number: as many as there are processors, but no more than
/// codecs have use for.
pub fn usual_threads() -> u32 {
    std::thread::available_parallelism().map_or(1, |count| count.get().min(8) as u32)
}

/// The largest frames, unless the operator's file says otherwise. In pixels.
pub fn usual_width() -> u32 {
    4096
}

/// As [`usual_width`].
pub fn usual_height() -> u32 {
    2304
}

/// All codecs.
pub fn usual_codecs() -> Vec<CodecName> {
    vec![CodecName::H264, CodecName::Hevc, CodecName::Av1]
}

/// A codec as the operator's file and kernels' names have it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CodecName {
    /// `h264`
    H264,
    /// `hevc`
    Hevc,
    /// `av1`
    Av1,
}

impl CodecName {
    /// The codec.
    pub fn codec(self) -> Codec {
        match self {
            Self::H264 => Codec::H264,
            Self::Hevc => Codec::Hevc,
            Self::Av1 => Codec::Av1,
        }
    }

    /// As it stands in kernels' names.
    pub fn text(self) -> &'static str {
        match self {
            Self::H264 => "h264",
            Self::Hevc => "hevc",
            Self::Av1 => "av1",
        }
    }
}

/// Holds what tables of decoders and of encoders have in common against what is allowed.
///
/// # Errors
/// One sentence.
pub fn check(codecs: &[CodecName], numbers: &[(&str, u32, u32)], streams: u32) -> Result<(), String> {
    if codecs.is_empty() {
        return Err("it has no codecs: name some of h264, hevc, av1".to_owned());
    }
    if (1..codecs.len()).any(|at| codecs[..at].contains(&codecs[at])) {
        return Err("it names a codec twice".to_owned());
    }
    for (name, number, most) in numbers.iter().copied().chain([("streams", streams, MOST_STREAMS)]) {
        if !(1..=most).contains(&number) {
            return Err(format!("{name} = {number} cannot be: it is 1 to {most}"));
        }
    }
    Ok(())
}

/// A kernel's place among those of its device, and the program's number for a stream.
pub type Key = (usize, u32);

/// The streams of one context.
pub struct States<S> {
    most: u32,
    all: Mutex<HashMap<Key, Arc<Mutex<S>>>>,
}

impl<S> States<S> {
    /// None yet, and no more than `most`.
    pub fn new(most: u32) -> Self {
        Self { most, all: Mutex::default() }
    }

    /// A stream's state, made by its first command. Where there are too many, one that `is_over` makes room.
    ///
    /// # Errors
    /// What `make` fails with; or there are too many.
    pub fn get(
        &self,
        key: Key,
        is_over: impl Fn(&S) -> bool,
        make: impl FnOnce() -> Result<S, Failure>,
    ) -> Result<Arc<Mutex<S>>, Failure> {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(stream) = all.get(&key) {
            return Ok(stream.clone());
        }
        if all.len() >= self.most as usize {
            // One that is locked has a command.
            all.retain(|_, stream| stream.try_lock().map_or(true, |state| !is_over(&state)));
        }
        if all.len() >= self.most as usize {
            let text =
                format!("this context has {} streams at the device already, and may have no more; end some", all.len());
            return Err(Failure::new(cl::CL_OUT_OF_RESOURCES, text));
        }
        let stream = Arc::new(Mutex::new(make()?));
        all.insert(key, stream.clone());
        Ok(stream)
    }

    /// A stream's state, if it has had a command.
    pub fn find(&self, key: Key) -> Option<Arc<Mutex<S>>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner).get(&key).cloned()
    }

    /// Forgets a stream.
    pub fn forget(&self, key: Key) {
        self.all.lock().unwrap_or_else(PoisonError::into_inner).remove(&key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_that_are_over_make_room() {
        let streams = States::new(2);
        let get =
            |number, over| streams.get((0, number), |state| *state, || Ok(over)).map(|stream| *stream.lock().unwrap());
        assert_eq!((get(1, false), get(2, true), get(1, true)), (Ok(false), Ok(true), Ok(false)));
        assert_eq!(get(3, false), Ok(false), "in the place of the second");
        assert_eq!(get(4, false).unwrap_err().status, cl::CL_OUT_OF_RESOURCES);
        streams.forget((0, 1));
        assert_eq!(get(4, false), Ok(false));
    }

    #[test]
    fn tables_are_checked() {
        let all = usual_codecs();
        assert_eq!(check(&all, &[("threads", 1, 64)], 16), Ok(()));
        assert!(check(&[], &[], 16).unwrap_err().contains("no codecs"));
        assert!(check(&[CodecName::Av1, CodecName::Av1], &[], 16).unwrap_err().contains("twice"));
        assert_eq!(check(&all, &[("threads", 65, 64)], 16), Err("threads = 65 cannot be: it is 1 to 64".to_owned()));
        assert_eq!(check(&all, &[], 0), Err("streams = 0 cannot be: it is 1 to 256".to_owned()));
    }
}
