//! How a command uses memory objects.

use std::ops::Range;

use ropeway_protocol::image::ImagePart;
use ropeway_protocol::types::BufferRect;
use smallvec::SmallVec;

use crate::objects::memory::Memory;
use crate::residency::spans::{self, Spans};

/// One memory object of a command, and how the command accesses it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Use<'a> {
    pub memory: &'a Memory,
    pub access: Access,
    pub span: Span,
}

/// How it touches the span.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Access {
    /// It only reads.
    Read,
    /// It replaces all of it.
    Write,
    /// It may read, and may replace some of it.
    ReadWrite,
    /// The command does not need the present contents, and nobody needs them after it.
    Discard,
}

/// The bytes or elements that the command touches.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Span {
    /// Anything.
    Whole,
    /// An offset in a buffer, and the number of bytes from there on.
    Bytes(usize, usize),
    /// A region of a buffer.
    Rect(BufferRect),
    /// These elements of an image.
    Image(ImagePart),
}

impl<'a> Use<'a> {
    /// Describes a use that may read all of `memory`.
    pub(crate) fn read(memory: &'a Memory) -> Self {
        Self { memory, access: Access::Read, span: Span::Whole }
    }

    /// Describes a use that replaces some of `memory`.
    pub(crate) fn write_part(memory: &'a Memory) -> Self {
        Self { memory, access: Access::ReadWrite, span: Span::Whole }
    }

    /// So many bytes of a buffer.
    pub(crate) fn bytes(memory: &'a Memory, access: Access, offset: usize, size: usize) -> Self {
        Self { memory, access, span: Span::Bytes(offset, size) }
    }

    /// A region of a buffer.
    pub(crate) fn rect(memory: &'a Memory, access: Access, rect: BufferRect) -> Self {
        Self { memory, access, span: Span::Rect(rect) }
    }

    /// Part of an image.
    pub(crate) fn image(memory: &'a Memory, access: Access, part: ImagePart) -> Self {
        Self { memory, access, span: Span::Image(part) }
    }

    /// Returns the object whose storage it uses, which ranges of it, and how: a write that does not replace all of
    /// these ranges counts as reading and writing.
    pub(crate) fn of_storage(&self) -> (&'a Memory, SmallVec<[Range<u64>; 1]>, Access) {
        let (storage, offset) = self.memory.storage();
        let offset = offset as u64;
        let some_of = |ranges| (ranges, if self.access == Access::Write { Access::ReadWrite } else { self.access });
        let whole = |memory: &Memory| std::iter::once(offset..offset.saturating_add(memory.size() as u64)).collect();
        let exactly = |spans: Option<Spans>| match spans {
            Some((ranges, true)) => (ranges, self.access),
            Some((ranges, false)) => some_of(ranges),
            None => some_of(whole(self.memory)),
        };
        let (ranges, access) = match (self.span, storage.as_image()) {
            (span, Some(image)) => {
                let part = if let Span::Image(part) = span { part } else { image.like.whole() };
                exactly(spans::of_image(&image.like, &part))
            }
            (Span::Whole, None) => (whole(self.memory), self.access),
            (Span::Bytes(from, size), None) => {
                let from = offset.saturating_add(from as u64);
                (std::iter::once(from..from.saturating_add(size as u64)).collect(), self.access)
            }
            (Span::Rect(rect), None) => exactly(spans::of_rect(&rect, offset)),
            // An image in a buffer's memory, whose rows may lie apart.
            (Span::Image(_), None) => some_of(whole(self.memory)),
        };
        (storage, ranges, access)
    }
}
