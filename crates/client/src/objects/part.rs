//! Parts of memory objects, and the messages that read and write them.

use ropeway_abi::CL_INVALID_VALUE;
use ropeway_protocol::ids::TransferId;
use ropeway_protocol::image::ImagePart;
use ropeway_protocol::messages::{
    ReadBuffer, ReadBufferRect, ReadImage, ReadSlot, WriteBuffer, WriteBufferRect, WriteBufferRectTransfer,
    WriteBufferTransfer, WriteImage, WriteImageTransfer, WriteSlot,
};
use ropeway_protocol::types::{BufferRect, Command};

use crate::base::status::Result;
use crate::link::slots::Slot;
use crate::objects::access::{Access, Use};
use crate::objects::home::Home;
use crate::objects::memory::Memory;

/// The part of a memory object that is read or written.
#[derive(Clone, Copy, Debug)]
pub enum Part<'a> {
    /// The bytes from this offset of a buffer; the host's region gives their number.
    Bytes(&'a Memory, usize),
    /// This region of a buffer, which has as many bytes as the host's memory.
    Rect(&'a Memory, BufferRect),
    /// These elements of an image, which have as many bytes as the host's memory.
    Image(&'a Memory, ImagePart),
}

impl<'a> Part<'a> {
    /// The use of the memory object by a command that moves these `size` bytes.
    pub(crate) fn touched(&self, access: Access, size: usize) -> Use<'a> {
        match *self {
            Self::Bytes(memory, offset) => Use::bytes(memory, access, offset, size),
            Self::Rect(memory, rect) => Use::rect(memory, access, rect),
            Self::Image(memory, part) => Use::image(memory, access, part),
        }
    }

    /// Writes bytes that travel with the command.
    pub(crate) fn post_write(&self, home: &Home, command: Command, bytes: &[u8]) -> Result<()> {
        let connection = home.connection();
        match *self {
            Self::Bytes(memory, offset) => {
                let (buffer, offset) = (memory.id(home), offset as u64);
                connection.post_with_tail(&WriteBuffer { command, buffer, offset }, bytes)
            }
            Self::Rect(memory, rect) => {
                connection.post_with_tail(&WriteBufferRect { command, buffer: memory.id(home), rect }, bytes)
            }
            Self::Image(memory, part) => {
                connection.post_with_tail(&WriteImage { command, image: memory.id(home), part }, bytes)
            }
        }
    }

    /// Writes `size` bytes that follow when they are asked for.
    pub(crate) fn post_write_transfer(
        &self,
        home: &Home,
        command: Command,
        size: usize,
        transfer: TransferId,
    ) -> Result<()> {
        let connection = home.connection();
        match *self {
            Self::Bytes(memory, offset) => {
                let (buffer, offset, size) = (memory.id(home), offset as u64, size as u64);
                connection.post(&WriteBufferTransfer { command, buffer, offset, size, transfer })
            }
            Self::Rect(memory, rect) => {
                connection.post(&WriteBufferRectTransfer { command, buffer: memory.id(home), rect, transfer })
            }
            Self::Image(memory, part) => {
                connection.post(&WriteImageTransfer { command, image: memory.id(home), part, transfer })
            }
        }
    }

    /// Writes the first `size` bytes of a slot, which is the server's from now on.
    ///
    /// # Errors
    /// CL_INVALID_VALUE for other parts than bytes of buffers; [`crate::SERVER_LOST`].
    pub(crate) fn post_write_slot(&self, home: &Home, command: Command, size: usize, slot: &Slot) -> Result<()> {
        let Self::Bytes(memory, offset) = *self else { return Err(CL_INVALID_VALUE) };
        let (buffer, offset, size) = (memory.id(home), offset as u64, size as u64);
        home.connection().post(&WriteSlot { command, buffer, offset, size, slot: slot.lend() })
    }

    /// Reads `size` bytes; those of a buffer into a slot, if one is lent for them.
    pub(crate) fn post_read(
        &self,
        home: &Home,
        command: Command,
        (size, slot): (usize, Option<u32>),
        transfer: TransferId,
    ) -> Result<()> {
        let connection = home.connection();
        match *self {
            Self::Bytes(memory, offset) => {
                let (buffer, offset, size) = (memory.id(home), offset as u64, size as u64);
                match slot {
                    Some(slot) => connection.post(&ReadSlot { command, buffer, offset, size, slot, transfer }),
                    None => connection.post(&ReadBuffer { command, buffer, offset, size, transfer }),
                }
            }
            Self::Rect(memory, rect) => {
                connection.post(&ReadBufferRect { command, buffer: memory.id(home), rect, transfer })
            }
            Self::Image(memory, part) => {
                connection.post(&ReadImage { command, image: memory.id(home), part, transfer })
            }
        }
    }
}
