//! Images.

use std::sync::Arc;

use ropeway_protocol::image::{ImageFormat, ImagePart};
use ropeway_protocol::messages::{CreateImage, ImageFormats, MemoryStatus};

pub use super::kind::{Image, Layout};
use crate::base::host::{HostRange, HostSource};
use crate::base::status::Result;
use crate::base::sync::lock;
use crate::objects::buffer::FirstContents;
use crate::objects::context::Context;
use crate::objects::home::{Home, in_each};
use crate::objects::kind::Kind;
use crate::objects::memory::{Description, HOST_FLAGS, Memory};

/// The memory behind a new image.
pub enum Material<'a> {
    /// Memory of its own, with these first contents (all elements), and mapped there.
    Own(Option<&'a dyn HostSource>, Option<Arc<dyn HostRange>>),
    /// A buffer's or image's memory.
    Of(&'a Arc<Memory>),
}

impl Memory {
    /// Makes an image.
    ///
    /// # Errors
    /// [`crate::SERVER_LOST`].
    pub fn image(
        context: &Arc<Context>,
        flags: u64,
        image: Image,
        size: usize,
        material: Material<'_>,
    ) -> Result<Arc<Self>> {
        let (contents, host, parent) = match material {
            Material::Own(contents, host) => (contents, host, None),
            Material::Of(parent) => (None, None, Some(Arc::clone(parent))),
        };
        Self::new(context, Description { flags, size, kind: Kind::Image(image), parent, host }, contents)
    }

    pub(crate) fn create_image(&self, home: &Home, image: &Image, contents: Option<&dyn HostSource>) -> Result<()> {
        let contents = FirstContents::new(contents);
        let create = CreateImage {
            image: self.id(home),
            context: home.context(),
            flags: self.flags() & !HOST_FLAGS,
            like: image.like,
            of: self.ensure_parent(home)?,
            initial: contents.initial,
        };
        home.connection().post_with_tail(&create, &contents.tail)?;
        contents.follow(home)
    }

    /// Asks the servers whether the object could be made, where the client cannot tell: success in one home is enough,
    /// as a native context with several devices needs only one that has it.
    ///
    /// # Errors
    /// The status of the native call, or [`crate::SERVER_LOST`].
    pub fn confirm(&self) -> Result<()> {
        let asked = in_each(self.context().all_homes(), |home| {
            self.ensure(home)?;
            home.connection().call(&MemoryStatus { memory: self.id(home) })
        });
        asked.into_iter().reduce(Result::or).unwrap_or(Ok(()))
    }

    /// How many bytes part of an image has.
    pub(crate) fn bytes_of(&self, part: ImagePart) -> usize {
        self.as_image().and_then(|image| image.like.region_bytes(part.region)).unwrap_or(0) as usize
    }

    /// The image's own properties; `None` for other memory objects.
    pub fn as_image(&self) -> Option<&Image> {
        match self.kind() {
            Kind::Image(image) => Some(image),
            _ => None,
        }
    }
}

impl Context {
    /// The formats of images of `image_type`, a CL_MEM_OBJECT_IMAGE…, made with `flags`; asked for once.
    ///
    /// # Errors
    /// The status of the native call, or [`crate::SERVER_LOST`].
    pub fn image_formats(&self, flags: u64, image_type: u32) -> Result<Arc<[ImageFormat]>> {
        let key = (flags & !HOST_FLAGS, image_type);
        if let Some(known) = lock(self.formats()).get(&key) {
            return Ok(Arc::clone(known));
        }
        let asked = in_each(self.all_homes(), |home| {
            home.connection().call(&ImageFormats { context: home.context(), flags: key.0, image_type })
        });
        // Formats that some of the context's devices have.
        let mut formats: Vec<ImageFormat> = Vec::new();
        let mut answered = Err(crate::SERVER_LOST);
        for answer in asked {
            answered = answered.or(answer.as_ref().map(|_| ()).map_err(|status| *status));
            for format in answer.unwrap_or_default() {
                if !formats.contains(&format) {
                    formats.push(format);
                }
            }
        }
        answered?;
        // Elements of unknown size cannot be moved.
        formats.retain(|format| format.element_size().is_some());
        let formats: Arc<[ImageFormat]> = formats.into();
        lock(self.formats()).insert(key, Arc::clone(&formats));
        Ok(formats)
    }
}
