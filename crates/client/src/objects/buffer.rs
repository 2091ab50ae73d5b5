//! Buffers.

use std::borrow::Cow;
use std::sync::Arc;

use ropeway_protocol::ids::{MemoryId, TransferId};
use ropeway_protocol::limits::MAX_EAGER;
use ropeway_protocol::messages::{CreateBuffer, CreateSubBuffer, CreateSvmBuffer, TransferCopied};
use ropeway_protocol::types::InitialContents;

use crate::base::host::{HostRange, HostSource, copy_in, gather};
use crate::base::ids::new_id;
use crate::base::status::Result;
use crate::objects::context::Context;
use crate::objects::home::Home;
use crate::objects::kind::Kind;
use crate::objects::memory::{Description, HOST_FLAGS, Memory};
use crate::objects::svm::Region;

/// How the first contents of a memory object travel.
pub(crate) struct FirstContents<'a> {
    /// The initial contents as the message that creates the object carries them.
    pub initial: InitialContents,
    /// The contents that travel with that message.
    pub tail: Cow<'a, [u8]>,
    /// The contents that follow that message.
    long: Option<(TransferId, &'a dyn HostSource)>,
}

impl<'a> FirstContents<'a> {
    pub(crate) fn new(contents: Option<&'a dyn HostSource>) -> Self {
        match contents {
            None => Self { initial: InitialContents::Undefined, tail: Cow::Borrowed(&[]), long: None },
            Some(short) if short.size() <= MAX_EAGER => {
                Self { initial: InitialContents::Tail, tail: gather(short, 0, short.size()), long: None }
            }
            Some(long) => {
                let transfer = TransferId(new_id());
                Self {
                    initial: InitialContents::Transfer(transfer),
                    tail: Cow::Borrowed(&[]),
                    long: Some((transfer, long)),
                }
            }
        }
    }

    /// Sends the contents that follow the message that creates the object.
    ///
    /// # Errors
    /// [`crate::SERVER_LOST`].
    pub(crate) fn follow(&self, home: &Home) -> Result<()> {
        self.long.map_or(Ok(()), |(transfer, long)| home.connection().send_transfer(transfer, long))
    }
}

impl Memory {
    /// Makes a buffer of `size` bytes. `contents`, of the same length, are the caller's again when this returns
    /// (CL_MEM_COPY_HOST_PTR, CL_MEM_USE_HOST_PTR); `host` is where it will be mapped (CL_MEM_USE_HOST_PTR).
    ///
    /// # Errors
    /// [`crate::SERVER_LOST`].
    pub fn buffer(
        context: &Arc<Context>,
        flags: u64,
        size: usize,
        contents: Option<&[u8]>,
        host: Option<Arc<dyn HostRange>>,
    ) -> Result<Arc<Self>> {
        let contents = contents.as_ref().map(|contents| contents as &dyn HostSource);
        Self::new(context, Description { flags, size, kind: Kind::Buffer, parent: None, host }, contents)
    }

    pub(crate) fn create_buffer(&self, home: &Home, contents: Option<&dyn HostSource>) -> Result<()> {
        let contents = FirstContents::new(contents);
        let create = CreateBuffer {
            buffer: self.id(home),
            context: home.context(),
            flags: self.flags() & !HOST_FLAGS,
            size: self.size() as u64,
            initial: contents.initial,
        };
        home.connection().post_with_tail(&create, &contents.tail)?;
        if let Some((transfer, long)) = contents.long
            && let Some((arena, at)) = self.located()
            && copy_in(arena, at, long)
        {
            return home.connection().post(&TransferCopied { transfer });
        }
        contents.follow(home)
    }

    /// Makes a sub-buffer: `size` bytes from `origin` on of `parent`, a buffer.
    ///
    /// # Errors
    /// [`crate::SERVER_LOST`].
    pub fn sub_buffer(parent: &Arc<Self>, flags: u64, origin: usize, size: usize) -> Result<Arc<Self>> {
        let (kind, of) = (Kind::SubBuffer { origin }, Some(Arc::clone(parent)));
        Self::new(parent.context(), Description { flags, size, kind, parent: of, host: None }, None)
    }

    pub(crate) fn create_sub_buffer(&self, home: &Home, origin: usize) -> Result<()> {
        home.connection().post(&CreateSubBuffer {
            memory: self.id(home),
            parent: self.ensure_parent(home)?.unwrap_or_default(),
            flags: self.flags() & !HOST_FLAGS,
            origin: origin as u64,
            size: self.size() as u64,
        })
    }

    /// Creates the object whose memory it uses in a home, if there is such an object and it is not there yet, and
    /// returns its name there.
    ///
    /// # Errors
    /// [`crate::SERVER_LOST`].
    pub(crate) fn ensure_parent(&self, home: &Home) -> Result<Option<MemoryId>> {
        let Some(parent) = self.parent() else { return Ok(None) };
        parent.ensure(home)?;
        Ok(Some(parent.id(home)))
    }

    /// A buffer of `size` bytes whose storage is `region` (clCreateBuffer with CL_MEM_USE_HOST_PTR).
    ///
    /// # Errors
    /// [`crate::SERVER_LOST`].
    pub fn over_svm(region: &Region, flags: u64, size: usize) -> Result<Arc<Self>> {
        let svm = region.memory();
        let home = svm.context().needs_one_home("shared virtual memory")?;
        let description = Description { flags, size, kind: Kind::Buffer, parent: None, host: Some(region.host()) };
        let (memory, ()) = Self::made_by(svm.context(), home, description, |memory| {
            home.connection().post(&CreateSvmBuffer {
                memory,
                svm: svm.id(home),
                flags: flags & !HOST_FLAGS,
                offset: region.offset() as u64,
                size: size as u64,
            })
        })?;
        Ok(memory)
    }
}
