//! Images and samplers.

use std::sync::Arc;

use ropeway_protocol::image::{ImageFormat, ImagePart};
use ropeway_protocol::limits::MAX_EAGER;
use ropeway_protocol::messages::{
    CopyBufferToImage, CopyImage, CopyImageToBuffer, CreateImage, CreateSampler, FillImage, ImageFormats, MemoryStatus,
    ReleaseSampler, SamplerStatus,
};
use ropeway_protocol::types::InitialContents;
use ropeway_protocol::{CallId, Tail};

use super::buffers::DEVICE_FLAGS;
use crate::base::error::End;
use crate::base::error::unknown;
use crate::native::{self, Material};
use crate::objects::{Memory, MemoryKind};
use crate::queue_states::claim;
use crate::session::Session;
use crate::session::job::Job;

impl Session {
    pub(super) fn create_image(&mut self, m: CreateImage, tail: &mut dyn Tail) -> Result<(), End> {
        let context = self.context(m.context)?.clone();
        let bytes = m.like.bytes().ok_or_else(|| End::refused(format_args!("{} is too large", m.image)))?;
        let contents = match m.initial {
            InitialContents::Tail if tail.remaining() > MAX_EAGER || tail.remaining() as u64 != bytes => {
                return Err(End::refused(format_args!("first contents of {} that are not as long as it", m.image)));
            }
            InitialContents::Tail => Some(tail.read_to_vec()?),
            _ => None,
        };
        let of = match m.of {
            Some(id) => Some(self.memory(id)?.clone()),
            None => None,
        };
        // Memory of another object has been counted there.
        let charged = if of.is_some() { 0 } else { bytes };
        let mut make = || {
            let native = context.native.as_ref().map_err(|status| *status)?;
            self.allow_memory(charged)?;
            let material = match (&of, &contents) {
                (Some(of), _) => Material::Of(of.native.as_ref().map_err(|status| *status)?),
                (None, Some(contents)) => Material::Copied(contents),
                (None, None) => Material::Own,
            };
            native::Memory::image(native, m.flags & DEVICE_FLAGS, m.like, material).map(Arc::new)
        };
        let native = make();
        let charged = if native.is_ok() { charged } else { 0 };
        let image = Arc::new(Memory { native, context, kind: MemoryKind::Image(m.like), charged });
        self.claim_memory(m.image, image.clone())?;
        match m.initial {
            InitialContents::Transfer(transfer) => self.await_contents(m.image, &image, transfer),
            _ => Ok(()),
        }
    }

    pub(super) fn memory_status(&mut self, m: MemoryStatus, call: CallId<()>) -> Result<(), End> {
        let status = self.memory(m.memory)?.native.as_ref().map(|_| ()).map_err(|status| *status);
        self.start(Job::Done(status, call));
        Ok(())
    }

    pub(super) fn copy_image(&mut self, m: CopyImage) -> Result<(), End> {
        let total = self.objects();
        let (source, _) = self.image_part(m.source, ImagePart { origin: m.from, region: m.region })?;
        let (target, _) = self.image_part(m.target, ImagePart { origin: m.to, region: m.region })?;
        self.queue_states.enqueue(total, &m.command, |queue_state, waits, event| {
            Ok(queue_state.native().and_then(|queue| {
                let source = source.native.as_ref().map_err(|status| *status)?;
                let target = target.native.as_ref().map_err(|status| *status)?;
                queue.copy_image((source, m.from), (target, m.to), m.region, waits, event)
            }))
        })
    }

    pub(super) fn copy_image_to_buffer(&mut self, m: CopyImageToBuffer) -> Result<(), End> {
        let total = self.objects();
        let (source, part) = self.image_part(m.source, m.part)?;
        let target = self.buffer_range(m.target, m.offset, part.size())?;
        self.queue_states.enqueue(total, &m.command, |queue_state, waits, event| {
            Ok(queue_state.native().and_then(|queue| {
                let source = source.native.as_ref().map_err(|status| *status)?;
                let target = target.native.as_ref().map_err(|status| *status)?;
                queue.copy_image_to_buffer((source, &m.part), (target, m.offset), waits, event)
            }))
        })
    }

    pub(super) fn copy_buffer_to_image(&mut self, m: CopyBufferToImage) -> Result<(), End> {
        let total = self.objects();
        let (target, part) = self.image_part(m.target, m.part)?;
        let source = self.buffer_range(m.source, m.offset, part.size())?;
        self.queue_states.enqueue(total, &m.command, |queue_state, waits, event| {
            Ok(queue_state.native().and_then(|queue| {
                let source = source.native.as_ref().map_err(|status| *status)?;
                let target = target.native.as_ref().map_err(|status| *status)?;
                queue.copy_buffer_to_image((source, m.offset), (target, &m.part), waits, event)
            }))
        })
    }

    pub(super) fn fill_image(&mut self, m: FillImage) -> Result<(), End> {
        let total = self.objects();
        let (image, _) = self.image_part(m.image, m.part)?;
        self.queue_states.enqueue(total, &m.command, |queue_state, waits, event| {
            Ok(queue_state.native().and_then(|queue| {
                let image = image.native.as_ref().map_err(|status| *status)?;
                queue.fill_image(image, &m.part, m.color, waits, event)
            }))
        })
    }

    pub(super) fn create_sampler(&mut self, m: CreateSampler) -> Result<(), End> {
        let total = self.objects();
        let native = self.context(m.context)?.native.as_ref().map_err(|status| *status);
        let native = self.allow_object().and(native).and_then(|native| native::Sampler::new(native, m.like));
        claim(total, &mut self.samplers, m.sampler, Arc::new(native))
    }

    pub(super) fn sampler_status(&mut self, m: SamplerStatus, call: CallId<()>) -> Result<(), End> {
        let sampler = self.samplers.get(&m.sampler).ok_or_else(|| unknown(m.sampler))?;
        let status = Result::as_ref(sampler).map(|_| ()).map_err(|status| *status);
        self.start(Job::Done(status, call));
        Ok(())
    }

    pub(super) fn release_sampler(&mut self, m: ReleaseSampler) -> Result<(), End> {
        self.samplers.remove(&m.sampler).map(drop).ok_or_else(|| unknown(m.sampler))
    }

    pub(super) fn image_formats(&mut self, m: ImageFormats, call: CallId<Vec<ImageFormat>>) -> Result<(), End> {
        let context = self.context(m.context)?.clone();
        self.start(Job::ImageFormats(context, m.flags, m.image_type, call));
        Ok(())
    }
}
