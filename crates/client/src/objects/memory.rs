//! Memory objects: what buffers, sub-buffers, images and pipes have in common.

use std::sync::{Arc, Mutex, OnceLock, Weak};

use ropeway_abi::{CL_MEM_ALLOC_HOST_PTR, CL_MEM_COPY_HOST_PTR, CL_MEM_OBJECT_ALLOCATION_FAILURE, CL_MEM_USE_HOST_PTR};
use ropeway_protocol::ids::MemoryId;
use ropeway_protocol::messages::{LocateBuffer, ReleaseMemory};
use ropeway_transport::Arena;

use crate::base::callbacks::run_later;
use crate::base::host::{HostRange, HostSource, Wanted, Within, gather};
use crate::base::ids::new_id;
use crate::base::status::Result;
use crate::base::sync::lock;
use crate::objects::context::Context;
use crate::objects::event_ref::EventRef;
use crate::objects::home::{CreatedIn, Home};
pub use crate::objects::kind::Kind;
use crate::objects::mappings::Mappings;
use crate::residency::Residency;
use crate::residency::spans;

/// Flags about the application's memory: at the server the object is an ordinary one.
pub(crate) const HOST_FLAGS: u64 = CL_MEM_USE_HOST_PTR | CL_MEM_COPY_HOST_PTR | CL_MEM_ALLOC_HOST_PTR;

/// A memory object.
pub struct Memory {
    id: u64,
    me: Weak<Memory>,
    context: Arc<Context>,
    made: CreatedIn,
    /// Its first contents, packed, until the first home gets them; only where there are several homes.
    first_contents: Mutex<Option<Vec<u8>>>,
    /// Which homes have its contents, where there are several and it has storage of its own.
    residency: Option<Mutex<Residency<EventRef>>>,
    flags: u64,
    size: usize,
    kind: Kind,
    parent: Option<Arc<Memory>>,
    /// The buffer that holds the number of meaningful bytes (clSetContentSizeBufferPoCL).
    content_size: Mutex<Option<Arc<Memory>>>,
    mappings: Mappings,
    /// Where it begins in memory that its server sees as well, once that was asked; `None` if it is elsewhere.
    place: OnceLock<Option<u64>>,
    on_destruction: Mutex<Vec<Box<dyn FnOnce() + Send>>>,
}

/// How a new memory object is described; see the methods of [`Memory`] of the same names.
pub(crate) struct Description {
    pub flags: u64,
    pub size: usize,
    pub kind: Kind,
    pub parent: Option<Arc<Memory>>,
    /// Where it is mapped, if that is given (CL_MEM_USE_HOST_PTR).
    pub host: Option<Arc<dyn HostRange>>,
}

impl std::fmt::Debug for Memory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", MemoryId(self.id))
    }
}

impl Memory {
    /// A memory object with these first contents, if any. A context with several homes keeps them until the first needs
    /// them.
    ///
    /// # Errors
    /// [`crate::SERVER_LOST`].
    pub(crate) fn new(
        context: &Arc<Context>,
        description: Description,
        contents: Option<&dyn HostSource>,
    ) -> Result<Arc<Self>> {
        let memory = Self::named(new_id(), context, description, contents.is_some());
        match context.only_home() {
            Some(home) => memory.made.ensure(home, || memory.create(home, contents))?,
            None => {
                let kept = contents.map(|contents| gather(contents, 0, contents.size()).into_owned());
                *lock(&memory.first_contents) = kept;
            }
        }
        Ok(memory)
    }

    /// As [`Self::new`], for an object that `create` makes at the server under the given name, in a context with one
    /// home.
    ///
    /// # Errors
    /// Those of `create`.
    pub(crate) fn made_by<R>(
        context: &Arc<Context>,
        home: &Home,
        description: Description,
        create: impl FnOnce(MemoryId) -> Result<R>,
    ) -> Result<(Arc<Self>, R)> {
        let id = new_id();
        let created = create(MemoryId(home.name(id)))?;
        let memory = Self::named(id, context, description, false);
        memory.made.ensure(home, || Ok(()))?;
        Ok((memory, created))
    }

    /// Returns the client's side of an object that has been made in no home yet.
    fn named(id: u64, context: &Arc<Context>, description: Description, has_contents: bool) -> Arc<Self> {
        let Description { flags, size, kind, parent, host } = description;
        let has_storage = parent.is_none() && !matches!(kind, Kind::Pipe(_));
        let residency = (context.spans_homes() && has_storage).then(|| {
            Mutex::new(match &kind {
                Kind::Image(image) => {
                    let all = image.like.bytes().unwrap_or(0);
                    Residency::of_slices(all, spans::slice_of(&image.like).unwrap_or(all), has_contents)
                }
                _ => Residency::new(size as u64, has_contents),
            })
        });
        Arc::new_cyclic(|me| Self {
            id,
            me: Weak::clone(me),
            context: Arc::clone(context),
            made: CreatedIn::default(),
            first_contents: Mutex::default(),
            residency,
            content_size: Mutex::default(),
            flags,
            size,
            kind,
            parent,
            mappings: Mappings::new(host),
            place: OnceLock::new(),
            on_destruction: Mutex::default(),
        })
    }

    /// Makes it in a home where it does not exist yet, together with all that it is part of.
    ///
    /// # Errors
    /// [`crate::SERVER_LOST`]; CL_INVALID_OPERATION for a pipe that is in another home.
    pub(crate) fn ensure(&self, home: &Home) -> Result<()> {
        if let Kind::Pipe(pipe) = &self.kind {
            return self.made.ensure_only(home, || self.create_pipe(home, *pipe));
        }
        self.made.ensure(home, || {
            let mut contents = lock(&self.first_contents);
            self.create(home, contents.as_ref().map(|contents| contents as &dyn HostSource))?;
            if contents.take().is_some()
                && let Some(residency) = &self.residency
            {
                lock(residency).first_contents_at(home.number());
            }
            Ok(())
        })
    }

    /// Has it made at the server of a home.
    fn create(&self, home: &Home, contents: Option<&dyn HostSource>) -> Result<()> {
        match &self.kind {
            Kind::Buffer => self.create_buffer(home, contents),
            Kind::SubBuffer { origin } => self.create_sub_buffer(home, *origin),
            Kind::Image(image) => self.create_image(home, image, contents),
            Kind::Pipe(pipe) => self.create_pipe(home, *pipe),
        }
    }

    /// Its context.
    pub fn context(&self) -> &Arc<Context> {
        &self.context
    }

    /// CL_MEM_FLAGS, as the application gave them.
    pub fn flags(&self) -> u64 {
        self.flags
    }

    /// CL_MEM_SIZE, in bytes.
    pub fn size(&self) -> usize {
        self.size
    }

    /// The object's kind.
    pub fn kind(&self) -> &Kind {
        &self.kind
    }

    /// The object whose memory it uses (CL_MEM_ASSOCIATED_MEMOBJECT).
    pub fn parent(&self) -> Option<&Arc<Memory>> {
        self.parent.as_ref()
    }

    /// Whether functions that take buffers take it.
    pub fn is_buffer(&self) -> bool {
        matches!(self.kind, Kind::Buffer | Kind::SubBuffer { .. })
    }

    /// CL_MEM_OFFSET: where it begins in the buffer that it is part of, in bytes.
    pub fn offset(&self) -> usize {
        if let Kind::SubBuffer { origin } = self.kind { origin } else { 0 }
    }

    /// The object whose storage it uses, itself or what it is part of, and where it begins there.
    pub(crate) fn storage(&self) -> (&Self, usize) {
        match &self.parent {
            Some(parent) => {
                let (storage, offset) = parent.storage();
                (storage, offset.saturating_add(self.offset()))
            }
            None => (self, 0),
        }
    }

    /// Which homes have its contents.
    pub(crate) fn residency(&self) -> Option<&Mutex<Residency<EventRef>>> {
        self.residency.as_ref()
    }

    /// Where it is mapped.
    pub(crate) fn mappings(&self) -> &Mappings {
        &self.mappings
    }

    /// CL_MEM_MAP_COUNT.
    pub fn map_count(&self) -> usize {
        self.mappings.count()
    }

    /// The address where the buffer is mapped, or would be; `None` before the first map.
    pub fn host_address(&self) -> Option<usize> {
        if let Some(parent) = self.parent() {
            return Some(parent.host_address()? + self.offset());
        }
        self.mappings.range().map(|range| range.address())
    }

    /// The application's memory where it is mapped; `allocate` makes memory of the object's size where there is none
    /// yet. Where the device has the object in memory that this process sees, that is what is wanted.
    ///
    /// # Errors
    /// CL_MEM_OBJECT_ALLOCATION_FAILURE.
    pub(crate) fn host_range(
        &self,
        allocate: impl FnOnce(Wanted) -> Option<Arc<dyn HostRange>>,
    ) -> Result<Arc<dyn HostRange>> {
        let range = self.mappings.range_or(|| {
            Ok(match self.parent() {
                // The same memory is at the same addresses, whichever object it is mapped by.
                Some(parent) => Some(Arc::new(Within { whole: parent.host_range(allocate)?, offset: self.offset() })),
                None => allocate(self.wanted(self.size())),
            })
        })?;
        range.ok_or(CL_MEM_OBJECT_ALLOCATION_FAILURE)
    }

    /// The memory that it is to be mapped to, `len` bytes.
    pub(crate) fn wanted(&self, len: usize) -> Wanted {
        match self.located() {
            Some((arena, at)) => Wanted::Shared(Arc::clone(arena), at, len),
            None => Wanted::Own(len),
        }
    }

    /// Where a buffer that is no part of another begins in memory that its server sees as well; one round trip at the first
    /// time. `None` if it is elsewhere.
    pub(crate) fn located(&self) -> Option<(&Arc<Arena>, u64)> {
        let home = self.context.only_home().filter(|_| self.may_be_located())?;
        let arena = home.connection().arena()?;
        if self.place.get().is_none() {
            let place = home.connection().call(&LocateBuffer { buffer: self.id(home) });
            let _ = self.place.set(place.ok().filter(|at| arena.has(*at, self.size)));
        }
        Some((arena, (*self.place.get()?)?))
    }

    /// Whether it is known to be there.
    pub(crate) fn is_located(&self) -> bool {
        matches!(self.place.get(), Some(Some(_)))
    }

    /// Whether it is known to be elsewhere: the devices have memory of their own.
    pub(crate) fn is_elsewhere(&self) -> bool {
        matches!(self.place.get(), Some(None)) || self.context.only_home().is_some_and(Home::has_slots)
    }

    /// Whether it may be there: where it is not, nobody has to be asked.
    pub(crate) fn may_be_located(&self) -> bool {
        if let Some(known) = self.place.get() {
            return known.is_some();
        }
        let may_have = |home: &Home| home.connection().arena().is_some() && !home.has_slots();
        self.context.only_home().is_some_and(may_have) && matches!((&self.kind, &self.parent), (Kind::Buffer, None))
    }

    /// From now on, only the first bytes of the buffer are meaningful, as many as the first 8 bytes of `size` say,
    /// little-endian: no others need to travel.
    pub fn set_content_size(&self, size: &Arc<Self>) {
        // The buffer that holds the number gets no content size of its own, so no two buffers keep each other alive.
        drop(lock(&size.content_size).take());
        *lock(&self.content_size) = Some(Arc::clone(size));
    }

    /// The buffer that holds the number of meaningful bytes.
    pub(crate) fn content_size(&self) -> Option<Arc<Self>> {
        lock(&self.content_size).clone()
    }

    /// Returns a number that is the same for all objects that share their memory: a buffer and its sub-buffers.
    pub fn storage_id(&self) -> u64 {
        self.parent.as_ref().map_or(self.id, |parent| parent.storage_id())
    }

    /// Returns a reference that can be held beyond a call.
    pub(crate) fn hold(&self) -> Option<Arc<Self>> {
        self.me.upgrade()
    }

    /// Its name in a home.
    pub(crate) fn id(&self, home: &Home) -> MemoryId {
        MemoryId(home.name(self.id))
    }

    /// Its name in this process: the same in all homes.
    pub(crate) fn name(&self) -> u64 {
        self.id
    }

    /// Calls `callback` when the object is destroyed; the last one registered is called first
    /// (clSetMemObjectDestructorCallback).
    pub fn on_destruction(&self, callback: Box<dyn FnOnce() + Send>) {
        lock(&self.on_destruction).push(callback);
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if self.parent.is_none() {
            self.context.at_client().forget(self.id);
        }
        for home in self.made.among(self.context.homes()) {
            // A lost server has dropped it already.
            let _ = home.connection().post(&ReleaseMemory { memory: self.id(home) });
        }
        for callback in std::mem::take(&mut *lock(&self.on_destruction)).into_iter().rev() {
            run_later(callback);
        }
    }
}
