//! Mapped memory objects.
//!
//! The application sees memory of its own process: the memory it gave (CL_MEM_USE_HOST_PTR), or an allocation of the
//! buffer's size that is made at the first map and kept. Mapping reads into it, unmapping writes from it; only what the
//! map flags need is transferred.

use std::sync::Arc;

use ropeway_abi::{
    CL_COMMAND_MAP_BUFFER, CL_COMMAND_MAP_IMAGE, CL_COMMAND_UNMAP_MEM_OBJECT, CL_INVALID_VALUE, CL_MAP_READ,
    CL_MAP_WRITE, CL_MAP_WRITE_INVALIDATE_REGION,
};
use ropeway_protocol::image::ImagePart;

use crate::base::host::HostRange;
use crate::base::region::Region;
use crate::base::status::Result;
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
        allocate: impl FnOnce(usize) -> Option<Arc<dyn HostRange>>,
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
        allocate: impl FnOnce(usize) -> Option<Arc<dyn HostRange>>,
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
        allocate: impl FnOnce(usize) -> Option<Arc<dyn HostRange>>,
    ) -> Result<(usize, Enqueued)> {
        let range = memory.host_range(allocate)?;
        let address = range.address() + mapped.offset;
        mapped.writes = flags & (CL_MAP_WRITE | CL_MAP_WRITE_INVALIDATE_REGION) != 0;
        // A region mapped for writing keeps what the application does not write.
        let needs_contents = flags & (CL_MAP_READ | CL_MAP_WRITE) != 0;
        let event = if needs_contents {
            let target = range.target(mapped.offset, mapped.region);
            self.enqueue_read(part(&mapped, memory), target, blocking, order, command)?
        } else {
            let wants_event = order.wants_event;
            let marker = Order { wants_event: wants_event || blocking, ..order };
            let event = self.enqueue_marker_as(marker, command)?;
            if blocking {
                let waited: Vec<_> = event.as_deref().into_iter().collect();
                wait_for_all(&waited)?;
            }
            event.filter(|_| wants_event)
        };
        memory.mappings().add(mapped);
        Ok((address, event))
    }

    /// Unmaps the region that begins at `address` (clEnqueueUnmapMemObject).
    ///
    /// # Errors
    /// CL_INVALID_VALUE when nothing is mapped there, [`crate::SERVER_LOST`].
    pub fn enqueue_unmap(self: &Arc<Self>, buffer: &Memory, address: usize, order: Order<'_>) -> Result<Enqueued> {
        let (range, mapped) = buffer.mappings().remove(address).ok_or(CL_INVALID_VALUE)?;
        if mapped.writes {
            let source = range.source(mapped.offset, mapped.region);
            self.enqueue_write(part(&mapped, buffer), source, false, order, CL_COMMAND_UNMAP_MEM_OBJECT)
        } else {
            self.enqueue_marker_as(order, CL_COMMAND_UNMAP_MEM_OBJECT)
        }
    }
}
