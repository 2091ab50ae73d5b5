//! Mapped memory objects.
//!
//! The application sees memory of its own process: the memory it gave (CL_MEM_USE_HOST_PTR), or an allocation of the
//! buffer's size that is made at the first map and kept. Mapping reads into it, unmapping writes from it; only what the
//! map flags need is transferred, and what is there already is not read again ([`crate::objects::at_client`]). Where the
//! device has the buffer in memory that this process sees, that is what is mapped, and nothing is transferred.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use ropeway_abi::{
    CL_COMMAND_MAP_BUFFER, CL_COMMAND_MAP_IMAGE, CL_COMMAND_UNMAP_MEM_OBJECT, CL_COMPLETE, CL_INVALID_VALUE,
    CL_MAP_READ, CL_MAP_WRITE, CL_MAP_WRITE_INVALIDATE_REGION, CL_MEM_USE_HOST_PTR,
};
use ropeway_protocol::image::ImagePart;

use crate::base::host::{HostRange, Wanted};
use crate::base::region::Region;
use crate::base::status::{Result, SERVER_LOST};
use crate::commands::command::{Enqueued, Order};
use crate::objects::event::wait_for_all;
use crate::objects::kind::Image;
use crate::objects::mappings::Mapped;
use crate::objects::memory::Memory;
use crate::objects::part::Part;
use crate::objects::queue::Queue;

/// The part of a memory object that is mapped.
fn part<'a>(mapped: &Mapped, memory: &'a Memory) -> Part<'a> {
    match mapped.image {
        Some(part) => Part::Image(memory, part),
        None => Part::Bytes(memory, mapped.offset),
    }
}

/// The bytes of its storage that a mapped part of a buffer is.
fn bytes_of(mapped: &Mapped, memory: &Memory) -> Range<u64> {
    let begin = memory.storage().1.saturating_add(mapped.offset) as u64;
    begin..begin.saturating_add(mapped.region.len() as u64)
}

/// The bytes of a storage, which it names, that stay at the client when they are unmapped. `None` for images; for what
/// has a content size, of which less may come than is mapped; and for the application's own memory
/// (CL_MEM_USE_HOST_PTR), which programs change although it is not mapped, and into which each map brings what the
/// device has.
fn kept(mapped: &Mapped, memory: &Memory) -> Option<(u64, Range<u64>)> {
    let (storage, _) = memory.storage();
    let is_kept = mapped.image.is_none() && storage.is_buffer() && storage.flags() & CL_MEM_USE_HOST_PTR == 0;
    let is_whole = memory.content_size().is_none() && storage.content_size().is_none();
    (is_kept && is_whole).then(|| (storage.name(), bytes_of(mapped, memory)))
}

impl Queue {
    /// Maps `len` bytes of `buffer` at `offset` (clEnqueueMapBuffer); `allocate` makes memory of the buffer's size
    /// where it has none yet. Gives the address of the first byte mapped. If `blocking`, the bytes are there when this
    /// returns.
    ///
    /// # Errors
    /// CL_MEM_OBJECT_ALLOCATION_FAILURE, the command's error if blocking, [`crate::SERVER_LOST`].
    #[allow(clippy::too_many_arguments, reason = "the OpenCL call has as many")]
    pub fn enqueue_map(
        self: &Arc<Self>,
        buffer: &Memory,
        flags: u64,
        offset: usize,
        len: usize,
        blocking: bool,
        order: Order<'_>,
        allocate: impl FnOnce(Wanted) -> Option<Arc<dyn HostRange>>,
    ) -> Result<(usize, Enqueued)> {
        let mapped = Mapped { offset, region: Region::flat(len), image: None, writes: false };
        self.map(buffer, mapped, flags, blocking, (order, CL_COMMAND_MAP_BUFFER), allocate)
    }

    /// Maps part of an image (clEnqueueMapImage); as [`Queue::enqueue_map`].
    ///
    /// # Errors
    /// CL_INVALID_VALUE for what is no image, and those of [`Queue::enqueue_map`].
    pub fn enqueue_map_image(
        self: &Arc<Self>,
        image: &Memory,
        flags: u64,
        part: ImagePart,
        blocking: bool,
        order: Order<'_>,
        allocate: impl FnOnce(Wanted) -> Option<Arc<dyn HostRange>>,
    ) -> Result<(usize, Enqueued)> {
        let layout = image.as_image().and_then(Image::layout).ok_or(CL_INVALID_VALUE)?;
        let offset = layout.offset(part.origin.map(|n| n as usize)).ok_or(CL_INVALID_VALUE)?;
        let region = layout.region(part.region.map(|n| n as usize)).ok_or(CL_INVALID_VALUE)?;
        let mapped = Mapped { offset, region, image: Some(part), writes: false };
        self.map(image, mapped, flags, blocking, (order, CL_COMMAND_MAP_IMAGE), allocate)
    }

    fn map(
        self: &Arc<Self>,
        memory: &Memory,
        mut mapped: Mapped,
        flags: u64,
        blocking: bool,
        (order, command): (Order<'_>, u32),
        allocate: impl FnOnce(Wanted) -> Option<Arc<dyn HostRange>>,
    ) -> Result<(usize, Enqueued)> {
        let range = memory.host_range(allocate)?;
        let address = range.address() + mapped.offset;
        if range.is_the_devices() {
            let event = self.enqueue_map_in_place(blocking, order, command)?;
            memory.mappings().add(mapped);
            return Ok((address, event));
        }
        mapped.writes = flags & (CL_MAP_WRITE | CL_MAP_WRITE_INVALIDATE_REGION) != 0;
        // A region mapped for writing keeps what the application does not write.
        let needs_contents = flags & (CL_MAP_READ | CL_MAP_WRITE) != 0;
        let at_client = self.context().at_client();
        let kept = kept(&mapped, memory);
        let is_here = |(storage, bytes): &(u64, Range<u64>)| {
            at_client.has(*storage, bytes) && !self.connection().look_whether_lost()
        };
        let event = if needs_contents && !mapped.writes && kept.as_ref().is_some_and(is_here) {
            self.enqueue_nothing(blocking, order, command)?
        } else if needs_contents {
            let coming = kept
                .filter(|_| !mapped.writes)
                .and_then(|(storage, bytes)| at_client.coming(storage, bytes, self.progress(), self.is_in_order()));
            let target = range.target(mapped.offset, mapped.region);
            let event = self.enqueue_read(part(&mapped, memory), target, blocking, order, command)?;
            match (coming, &event) {
                (Some(coming), _) if blocking => at_client.came(&coming),
                (Some(coming), Some(event)) => {
                    let context = Arc::downgrade(self.context());
                    let came = move |status| {
                        if let (CL_COMPLETE, Some(context)) = (status, context.upgrade()) {
                            context.at_client().came(&coming);
                        }
                    };
                    event.then(Box::new(came));
                }
                _ => {}
            }
            event
        } else {
            self.enqueue_empty(blocking, order, command)?
        };
        if mapped.writes && at_client.is_used() {
            at_client.changed_here(memory.storage_id(), &bytes_of(&mapped, memory));
        }
        memory.mappings().add(mapped);
        Ok((address, event))
    }

    /// Enqueues a map of what is the device's own memory.
    pub(super) fn enqueue_map_in_place(
        self: &Arc<Self>,
        blocking: bool,
        order: Order<'_>,
        command: u32,
    ) -> Result<Enqueued> {
        // A program that only maps is to hear, too, that the server is lost.
        if self.connection().look_whether_lost() {
            return Err(SERVER_LOST);
        }
        // Nor is it to see what was there before a blocking write on another queue, whose call has returned.
        self.connection().await_early(self.live())?;
        self.enqueue_nothing(blocking, order, command)
    }

    /// Enqueues an unmap of what the application has not written, or has written to the device's own memory.
    pub(super) fn enqueue_unmap_in_place(self: &Arc<Self>, order: Order<'_>, command: u32) -> Result<Enqueued> {
        // A marker without an event does nothing.
        if order.wants_event { self.enqueue_marker_as(order, command) } else { Ok(None) }
    }

    /// Enqueues a map of what is here already: without an event, it is noticed only by who waits for it.
    fn enqueue_nothing(self: &Arc<Self>, blocking: bool, order: Order<'_>, command: u32) -> Result<Enqueued> {
        let is_over = || {
            let nothing_before = self.is_in_order() && self.progress().is_over();
            nothing_before && self.open_transfers().load(Ordering::Acquire) == 0
        };
        if !order.wants_event && (!blocking || is_over() && order.waits.iter().all(|event| event.is_over())) {
            return Ok(None);
        }
        self.enqueue_empty(blocking, order, command)
    }

    /// Enqueues a command that moves nothing.
    pub(super) fn enqueue_empty(self: &Arc<Self>, blocking: bool, order: Order<'_>, command: u32) -> Result<Enqueued> {
        let wants_event = order.wants_event;
        let marker = Order { wants_event: wants_event || blocking, ..order };
        let event = self.enqueue_marker_as(marker, command)?;
        if blocking {
            let waited: Vec<_> = event.as_deref().into_iter().collect();
            wait_for_all(&waited)?;
        }
        Ok(event.filter(|_| wants_event))
    }

    /// Unmaps the region that begins at `address` (clEnqueueUnmapMemObject). Of a region that was mapped for reading
    /// only, or that is the device's own memory, nothing is sent but the event, if it is wanted.
    ///
    /// # Errors
    /// CL_INVALID_VALUE when nothing is mapped there, [`crate::SERVER_LOST`].
    pub fn enqueue_unmap(self: &Arc<Self>, buffer: &Memory, address: usize, order: Order<'_>) -> Result<Enqueued> {
        let (range, mapped) = buffer.mappings().remove(address).ok_or(CL_INVALID_VALUE)?;
        if !mapped.writes {
            return self.enqueue_unmap_in_place(order, CL_COMMAND_UNMAP_MEM_OBJECT);
        }
        let at_client = self.context().at_client();
        // Where the write might fail, the two sides might differ after it.
        let goes_well = order.waits.iter().all(|event| event.is_over());
        let coming = kept(&mapped, buffer)
            .filter(|_| goes_well)
            .and_then(|(storage, bytes)| at_client.coming(storage, bytes, self.progress(), self.is_in_order()));
        let source = range.source(mapped.offset, mapped.region);
        let event = self.enqueue_write(part(&mapped, buffer), source, false, order, CL_COMMAND_UNMAP_MEM_OBJECT)?;
        if let Some(coming) = coming {
            at_client.came(&coming.after_own_write());
        }
        Ok(event)
    }
}
