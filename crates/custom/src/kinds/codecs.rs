//! What tables of video decoders and of encoders have in common.

use ropeway_codec::Codec;
use serde::{Deserialize, Serialize};

/// The most streams of one context: each has threads and frames of its own.
const MOST_STREAMS: u32 = 256;

/// A table of the operator's file: the keys that decoders and encoders have in common, and its own. Not a struct within a struct, by which
/// serde forgets where in the file an error is.
macro_rules! table {
    ($(#[$about:meta])* pub struct $table:ident { $($(#[$of:meta])* pub $key:ident: $type:ty,)* }) => {
        $(#[$about])*
        #[derive(Clone, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct $table {
            /// The device's name.
            pub name: String,
            /// What it decodes, or into what it encodes: each is a kernel.
            #[serde(default = "crate::kinds::codecs::usual_codecs")]
            pub codecs: Vec<crate::kinds::codecs::CodecName>,
            /// Wider frames are refused. In pixels.
            #[serde(default = "crate::kinds::codecs::usual_width")]
            pub max_width: u32,
            /// Higher frames are refused. In pixels.
            #[serde(default = "crate::kinds::codecs::usual_height")]
            pub max_height: u32,
            /// Threads of each stream. With more than one, a decoder's frames come out some chunks later.
            #[serde(default = "crate::kinds::codecs::usual_threads")]
            pub threads: u32,
            /// Streams of one context at a time.
            #[serde(default = "crate::kinds::codecs::usual_streams")]
            pub streams: u32,
            $($(#[$of])* pub $key: $type,)*
        }

        impl $table {
            /// Holds the keys in common against what is allowed; the error is one sentence.
            fn check_common(&self) -> Result<(), String> {
                let sides = [("max_width", self.max_width), ("max_height", self.max_height)];
                crate::kinds::codecs::check(&self.codecs, sides, self.threads, self.streams)
            }
        }
    };
}
pub(super) use table;

/// What `check_common` of a table does.
pub(super) fn check(codecs: &[CodecName], sides: [(&str, u32); 2], threads: u32, streams: u32) -> Result<(), String> {
    if codecs.is_empty() {
        return Err("it has no codecs: name some of h264, hevc, av1".to_owned());
    }
    if (1..codecs.len()).any(|at| codecs[..at].contains(&codecs[at])) {
        return Err("it names a codec twice".to_owned());
    }
    for (name, side) in sides {
        within(name, side, 16384)?;
    }
    within("threads", threads, 64)?;
    within("streams", streams, MOST_STREAMS)
}

/// Holds a number of a table against 1 and the most that it may be; the error is one sentence.
pub(super) fn within(name: &str, number: u32, most: u32) -> Result<(), String> {
    if (1..=most).contains(&number) { Ok(()) } else { Err(format!("{name} = {number} cannot be: it is 1 to {most}")) }
}

pub(super) fn usual_streams() -> u32 {
    16
}

/// As many as there are processors, but no more than codecs have use for.
pub(super) fn usual_threads() -> u32 {
    std::thread::available_parallelism().map_or(1, |count| count.get().min(8) as u32)
}

pub(super) fn usual_width() -> u32 {
    4096
}

pub(super) fn usual_height() -> u32 {
    2304
}

pub(super) fn usual_codecs() -> Vec<CodecName> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_checked() {
        let check = |codecs: &[CodecName], width, threads, streams| {
            check(codecs, [("max_width", width), ("max_height", 2304)], threads, streams)
        };
        let all = usual_codecs();
        assert_eq!(check(&all, 4096, 1, 16), Ok(()));
        assert!(check(&[], 4096, 1, 16).unwrap_err().contains("no codecs"));
        assert!(check(&[CodecName::Av1; 2], 4096, 1, 16).unwrap_err().contains("twice"));
        assert_eq!(check(&all, 16385, 1, 16), Err("max_width = 16385 cannot be: it is 1 to 16384".to_owned()));
        assert_eq!(check(&all, 4096, 65, 16), Err("threads = 65 cannot be: it is 1 to 64".to_owned()));
        assert_eq!(check(&all, 4096, 1, 0), Err("streams = 0 cannot be: it is 1 to 256".to_owned()));
    }
}
