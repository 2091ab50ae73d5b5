//! What a command needs in its home before it can be sent there.
//!
//! In a context with one home all is there from the beginning. In one with several, the command's memory objects are made in its
//! home when they are first needed there.

#![allow(dead_code, reason = "what moves between homes is decided by these")]

use ropeway_protocol::image::ImagePart;
use ropeway_protocol::types::{BufferRect, Command};

use crate::Result;
use crate::memory::Memory;
use crate::queue::Queue;

/// What a command does with a memory object.
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
}

/// What it touches.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Span {
    /// Anything.
    Whole,
    /// So many bytes of a buffer from an offset on.
    Bytes(usize, usize),
    /// A region of a buffer.
    Rect(BufferRect),
    /// These elements of an image.
    Image(ImagePart),
}

impl<'a> Use<'a> {
    /// All of it may be read.
    pub(crate) fn read(memory: &'a Memory) -> Self {
        Self { memory, access: Access::Read, span: Span::Whole }
    }

    /// Some of it is replaced.
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
}

impl Queue {
    /// Sees to it that a command, which is about to be sent, finds in its home what it uses. In contexts with several homes only.
    ///
    /// # Errors
    /// [`crate::SERVER_LOST`]; CL_INVALID_OPERATION for what can only be used in another home.
    pub(crate) fn prepare(&self, uses: &[Use<'_>], _command: &mut Command) -> Result<()> {
        for one in uses {
            one.memory.ensure(self.home())?;
        }
        Ok(())
    }
}
