//! IVF: a file header, and before each temporal unit of AV1 its length and time.

use bytes::Bytes;

use super::error::CutError;
use super::pieces::{Body, fill};
use crate::declaration::Format;

/// Bytes of the file header, as far as its fields are known. It says its own length, which may be greater.
const FILE_HEADER: usize = 32;

/// Bytes of a unit's header.
const UNIT_HEADER: usize = 12;

/// What a unit is called in errors.
const UNIT: &str = "a temporal unit";

/// Cuts one.
#[derive(Debug)]
pub(super) struct Ivf {
    most: usize,
    header: Header,
    head: Vec<u8>,
    body: Body,
}

/// How much of the file header has come.
#[derive(Debug, PartialEq)]
enum Header {
    /// Not all of the known fields.
    Fields,
    /// So many bytes are left.
    Rest(usize),
    /// All of it.
    Whole,
}

impl Ivf {
    pub(super) fn new(most: usize) -> Self {
        Self { most, header: Header::Fields, head: Vec::new(), body: Body::default() }
    }

    pub(super) fn push(&mut self, mut bytes: &[u8], chunks: &mut impl Extend<Bytes>) -> Result<(), CutError> {
        while !bytes.is_empty() {
            match self.header {
                Header::Fields => {
                    if fill(&mut self.head, FILE_HEADER, &mut bytes) {
                        self.header = file_header(&self.head)?;
                        self.head.clear();
                    }
                }
                Header::Rest(left) => {
                    let now = left.min(bytes.len());
                    bytes = &bytes[now..];
                    self.header = if now == left { Header::Whole } else { Header::Rest(left - now) };
                }
                Header::Whole if self.body.is_open() => self.body.push(&mut bytes, chunks),
                Header::Whole => {
                    if fill(&mut self.head, UNIT_HEADER, &mut bytes) {
                        let length = self.head.first_chunk().copied().map_or(0, u32::from_le_bytes);
                        self.head.clear();
                        self.body.open(length, (UNIT, self.most), chunks)?;
                    }
                }
            }
        }
        Ok(())
    }

    pub(super) fn finish(&mut self) -> Result<(), CutError> {
        let whole = self.header == Header::Whole && self.head.is_empty() && !self.body.is_open();
        if whole {
            Ok(())
        } else {
            Err(CutError::Truncated(if self.header == Header::Whole { UNIT } else { "its header" }))
        }
    }
}

fn file_header(head: &[u8]) -> Result<Header, CutError> {
    let not = |why| Err(CutError::NotThat { format: Format::Ivf, why });
    let length = usize::from(u16::from_le_bytes([head[6], head[7]]));
    match (&head[..4], &head[4..6], &head[8..12]) {
        (b"DKIF", [0, 0], b"AV01") if length == FILE_HEADER => Ok(Header::Whole),
        (b"DKIF", [0, 0], b"AV01") if length > FILE_HEADER => Ok(Header::Rest(length - FILE_HEADER)),
        (b"DKIF", [0, 0], b"AV01") => not("its header says to be shorter than one is"),
        (b"DKIF", [0, 0], _) => not("it holds another codec than AV1"),
        (b"DKIF", ..) => not("it has an unknown version"),
        _ => not("it does not begin with DKIF"),
    }
}
