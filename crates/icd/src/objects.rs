//! The objects behind handles: the client's objects, with the handles of the objects that they belong to.

use std::borrow::Cow;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use ropeway_abi::ropeway::CL_INVALID_SERVER_ROPEWAY;
use ropeway_abi::{
    CL_DEVICE_ADDRESS_BITS, CL_DEVICE_DEVICE_ENQUEUE_CAPABILITIES, CL_DEVICE_EXTENSIONS,
    CL_DEVICE_IMAGE_MAX_ARRAY_SIZE, CL_DEVICE_IMAGE_MAX_BUFFER_SIZE, CL_DEVICE_IMAGE_SUPPORT,
    CL_DEVICE_IMAGE2D_MAX_HEIGHT, CL_DEVICE_IMAGE2D_MAX_WIDTH, CL_DEVICE_IMAGE3D_MAX_DEPTH,
    CL_DEVICE_IMAGE3D_MAX_HEIGHT, CL_DEVICE_IMAGE3D_MAX_WIDTH, CL_DEVICE_MAX_MEM_ALLOC_SIZE,
    CL_DEVICE_MAX_ON_DEVICE_QUEUES, CL_DEVICE_MAX_WORK_GROUP_SIZE, CL_DEVICE_MAX_WORK_ITEM_SIZES,
    CL_DEVICE_MEM_BASE_ADDR_ALIGN, CL_DEVICE_NON_UNIFORM_WORK_GROUP_SUPPORT, CL_DEVICE_QUEUE_ON_DEVICE_MAX_SIZE,
    CL_DEVICE_QUEUE_ON_DEVICE_PROPERTIES, CL_DEVICE_QUEUE_ON_HOST_PROPERTIES, CL_DEVICE_QUEUE_REPLACEABLE_DEFAULT,
    CL_DEVICE_VERSION, CL_INVALID_COMMAND_BUFFER_KHR, CL_INVALID_COMMAND_QUEUE, CL_INVALID_CONTEXT, CL_INVALID_DEVICE,
    CL_INVALID_EVENT, CL_INVALID_KERNEL, CL_INVALID_MEM_OBJECT, CL_INVALID_PLATFORM, CL_INVALID_PROGRAM,
    CL_INVALID_SAMPLER, CL_INVALID_SEMAPHORE_KHR, CL_PLATFORM_NAME, cl_int,
};
use ropeway_client::{
    collectives, command_buffer, context, device, device_queue, event, kernel, memory, program, queue, sampler,
    semaphore, servers,
};

use crate::api::Raw;
use crate::handle::{Handle, Object};

/// `cl_platform_id`.
pub struct Platform {
    client: Arc<device::Platform>,
    /// Its own handle, with which its later devices are created.
    this: Raw,
    /// The devices created so far, in the order of the client's list.
    devices: Mutex<Vec<Handle<Device>>>,
}

/// `cl_server_ropeway`.
pub struct Server {
    pub client: Arc<servers::Server>,
}

/// `cl_device_id`.
pub struct Device {
    pub client: Arc<device::Device>,
    /// Platforms live for ever, so their handles need no reference.
    pub platform: Raw,
    /// The device that it is a part of.
    pub parent: Option<Handle<Device>>,
    pub limits: Limits,
}

/// Limits of a device that argument checks need.
pub struct Limits {
    pub max_work_group_size: u64,
    pub max_work_item_sizes: Vec<u64>,
    pub max_alloc: u64,
    /// CL_DEVICE_MEM_BASE_ADDR_ALIGN, in bytes; at least 1.
    pub base_alignment: u64,
    pub address_bits: u32,
    pub queue_properties: u64,
    /// Queues on it; `None` where it has none.
    pub device_queues: Option<DeviceQueueLimits>,
    pub non_uniform_work_groups: bool,
    /// Its version of OpenCL: major and minor.
    pub version: (u32, u32),
    /// Whether it has images at all, and how large they may be.
    pub images: Option<ImageLimits>,
}

/// The limits of queues on a device.
pub struct DeviceQueueLimits {
    /// CL_DEVICE_QUEUE_ON_DEVICE_PROPERTIES.
    pub properties: u64,
    /// CL_DEVICE_QUEUE_ON_DEVICE_MAX_SIZE, in bytes.
    pub max_size: u64,
    /// Whether another one can be made the default.
    pub replaceable_default: bool,
}

/// The largest images of a device, in elements.
pub struct ImageLimits {
    pub image_2d: [u64; 2],
    pub image_3d: [u64; 3],
    pub buffer: u64,
    pub array: u64,
}

/// `cl_context`.
pub struct Context {
    pub client: Arc<context::Context>,
    pub devices: Vec<Handle<Device>>,
    /// As they were given, with the final 0; empty if there were none.
    pub properties: Vec<isize>,
    /// The default queues on its devices. Each belongs to the context, which therefore does not hold it.
    pub default_queues: Mutex<Vec<DefaultQueue>>,
    /// Objects kept for collective operations. Not in the client's context, which the kept programs keep alive.
    pub scratch_cache: collectives::ScratchCache,
}

/// `cl_command_queue`.
pub struct Queue {
    pub client: Arc<queue::Queue>,
    pub context: Handle<Context>,
    pub device: Handle<Device>,
    /// As given to clCreateCommandQueueWithProperties, with the final 0; empty if there were none.
    pub properties: Vec<u64>,
}

/// `cl_command_queue`, one on the device.
pub struct DeviceQueue {
    pub client: Arc<device_queue::DeviceQueue>,
    pub context: Handle<Context>,
    pub device: Handle<Device>,
    /// As given to clCreateCommandQueueWithProperties, with the final 0.
    pub properties: Vec<u64>,
}

/// The default queue on a device of a context, as long as the application has it.
pub struct DefaultQueue {
    device: Handle<Device>,
    handle: Raw,
    /// Tells it from what comes after it under the same handle.
    client: Weak<device_queue::DeviceQueue>,
}

/// `cl_mem`.
pub struct Memory {
    pub client: Arc<memory::Memory>,
    pub context: Handle<Context>,
    /// The object whose memory it uses (CL_MEM_ASSOCIATED_MEMOBJECT).
    pub parent: Option<Handle<Memory>>,
    /// CL_MEM_PROPERTIES: as they were given, with the final 0; empty if there were none.
    pub properties: Vec<u64>,
}

/// `cl_sampler`.
pub struct Sampler {
    pub client: Arc<sampler::Sampler>,
    pub context: Handle<Context>,
    /// As given to clCreateSamplerWithProperties, with the final 0; empty if there were none.
    pub properties: Vec<u64>,
}

/// `cl_program`.
pub struct Program {
    pub client: Arc<program::Program>,
    pub context: Handle<Context>,
    pub devices: Vec<Handle<Device>>,
}

/// `cl_kernel`.
pub struct Kernel {
    pub client: Arc<kernel::Kernel>,
    pub program: Handle<Program>,
}

/// `cl_command_buffer_khr`.
pub struct CommandBuffer {
    pub client: command_buffer::CommandBuffer,
    pub queue: Handle<Queue>,
    /// As they were given, with the final 0; empty if there were none.
    pub properties: Vec<u64>,
}

/// `cl_semaphore_khr`.
pub struct Semaphore {
    pub client: semaphore::Semaphore,
    pub context: Handle<Context>,
    /// The one device on whose queues it is used.
    pub device: Handle<Device>,
    /// As they were given, with the final 0.
    pub properties: Vec<u64>,
}

/// `cl_event`.
pub struct Event {
    pub client: Arc<event::Event>,
    pub context: Handle<Context>,
    /// None for a user event.
    pub queue: Option<Handle<Queue>>,
}

/// Tags are arbitrary, but not numbers that turn up by chance.
macro_rules! objects {
    ($($type:ident $tag:literal $invalid:ident;)*) => {$(
        impl Object for $type {
            const TAG: u32 = u32::from_le_bytes(*$tag);
            const INVALID: cl_int = $invalid;
        }
    )*};
}

objects! {
    Platform b"RWpl" CL_INVALID_PLATFORM;
    Device   b"RWde" CL_INVALID_DEVICE;
    Context  b"RWct" CL_INVALID_CONTEXT;
    Queue    b"RWqu" CL_INVALID_COMMAND_QUEUE;
    DeviceQueue b"RWdq" CL_INVALID_COMMAND_QUEUE;
    Memory   b"RWme" CL_INVALID_MEM_OBJECT;
    Sampler  b"RWsa" CL_INVALID_SAMPLER;
    Program  b"RWpr" CL_INVALID_PROGRAM;
    Kernel   b"RWke" CL_INVALID_KERNEL;
    Event    b"RWev" CL_INVALID_EVENT;
    Semaphore b"RWse" CL_INVALID_SEMAPHORE_KHR;
    CommandBuffer b"RWcb" CL_INVALID_COMMAND_BUFFER_KHR;
    Server   b"RWsv" CL_INVALID_SERVER_ROPEWAY;
}

impl Platform {
    /// Makes a platform's handle; the loader's word is that of `like`.
    ///
    /// # Errors
    /// CL_OUT_OF_HOST_MEMORY.
    pub fn make(client: &Arc<device::Platform>, like: Option<&Handle<Self>>) -> Result<Handle<Self>, cl_int> {
        let make = |slot| Self { client: Arc::clone(client), this: Raw::new(slot), devices: Mutex::default() };
        Handle::root_with(make, like)
    }

    pub fn client(&self) -> &device::Platform {
        &self.client
    }

    /// The devices that the application finds.
    pub fn devices(&self) -> Vec<Handle<Device>> {
        self.all_devices().into_iter().filter(|device| device.client.is_listed()).collect()
    }

    /// All devices that there ever were: their handles live as long as the process.
    pub fn all_devices(&self) -> Vec<Handle<Device>> {
        let all = self.client.devices();
        let mut devices = self.devices.lock().unwrap_or_else(PoisonError::into_inner);
        if devices.len() < all.len()
            && let Ok(this) = Handle::<Self>::find(self.this.get())
        {
            for client in all.iter().skip(devices.len()) {
                let device = Device::new(Arc::clone(client), self.this, None);
                let Ok(device) = Handle::new(&this, device) else { break };
                devices.push(device);
            }
        }
        devices.clone()
    }

    /// CL_PLATFORM_NAME: "Ropeway", or the native name and the server's host.
    pub fn name(&self) -> Cow<'static, str> {
        match self.client.native() {
            None => "Ropeway".into(),
            Some(native) => {
                let name = self.native_text(CL_PLATFORM_NAME).unwrap_or("unknown platform");
                format!("{name} [{}]", native.host()).into()
            }
        }
    }

    /// A property of the one native platform that this one stands for.
    pub fn native_bytes(&self, param: u32) -> Option<&[u8]> {
        self.client.native()?.property(param)?.ok()
    }

    /// The same for a string, without the NUL.
    pub fn native_text(&self, param: u32) -> Option<&str> {
        text_of(self.native_bytes(param)?)
    }
}

impl DefaultQueue {
    /// Makes `queue` the default one among these, in the place of another.
    pub fn set(all: &mut Vec<Self>, queue: &Handle<DeviceQueue>) {
        all.retain(|one| one.device != queue.device);
        let (device, handle) = (queue.device.clone(), Raw::new(queue.raw()));
        all.push(Self { device, handle, client: Arc::downgrade(&queue.client) });
    }

    /// The default queue on a device.
    pub fn find(all: &[Self], device: &Handle<Device>) -> Option<Handle<DeviceQueue>> {
        let one = all.iter().find(|one| one.device == *device)?;
        let queue = Handle::<DeviceQueue>::find(one.handle.get()).ok()?;
        std::ptr::eq(one.client.as_ptr(), Arc::as_ptr(&queue.client)).then_some(queue)
    }
}

/// A string property, without the NUL.
pub fn text_of(property: &[u8]) -> Option<&str> {
    std::str::from_utf8(property.strip_suffix(&[0]).unwrap_or(property)).ok()
}

/// The device's OpenCL version, from "OpenCL 3.0 and what else there is to say".
fn version_of(device: &device::Device) -> (u32, u32) {
    let text = device.property(CL_DEVICE_VERSION).and_then(Result::ok).and_then(text_of);
    let number = text.and_then(|text| text.strip_prefix("OpenCL ")?.split_ascii_whitespace().next()?.split_once('.'));
    let parse = |(major, minor): (&str, &str)| Some((major.parse().ok()?, minor.parse().ok()?));
    number.and_then(parse).unwrap_or((1, 0))
}

impl Device {
    pub fn new(client: Arc<device::Device>, platform: Raw, parent: Option<Handle<Self>>) -> Self {
        let limits = Limits::of(&client);
        Self { client, platform, parent, limits }
    }

    /// Whether the native device has this extension.
    pub fn has_extension(&self, name: &str) -> bool {
        let extensions = self.client.property(CL_DEVICE_EXTENSIONS).and_then(Result::ok).and_then(text_of);
        extensions.unwrap_or_default().split_ascii_whitespace().any(|one| one == name)
    }
}

impl DeviceQueueLimits {
    fn of(device: &device::Device) -> Option<Self> {
        if device.number(CL_DEVICE_MAX_ON_DEVICE_QUEUES) == 0 {
            return None;
        }
        Some(Self {
            properties: device.number(CL_DEVICE_QUEUE_ON_DEVICE_PROPERTIES),
            max_size: device.number(CL_DEVICE_QUEUE_ON_DEVICE_MAX_SIZE),
            replaceable_default: match version_of(device) {
                // Before it could be asked, all had it.
                (2, minor) => minor >= 1,
                _ => device.number(CL_DEVICE_DEVICE_ENQUEUE_CAPABILITIES) & CL_DEVICE_QUEUE_REPLACEABLE_DEFAULT != 0,
            },
        })
    }
}

impl Limits {
    /// Since OpenCL 2.1 a launch of no work-items at all is no error.
    pub fn empty_ranges(&self) -> bool {
        self.version >= (2, 1)
    }

    fn of(device: &device::Device) -> Self {
        let sizes = device.property(CL_DEVICE_MAX_WORK_ITEM_SIZES).and_then(Result::ok).unwrap_or_default();
        let (sizes, _) = sizes.as_chunks();
        Self {
            max_work_group_size: device.number(CL_DEVICE_MAX_WORK_GROUP_SIZE),
            max_work_item_sizes: sizes.iter().copied().map(u64::from_le_bytes).collect(),
            base_alignment: (device.number(CL_DEVICE_MEM_BASE_ADDR_ALIGN) / 8).max(1),
            max_alloc: device.number(CL_DEVICE_MAX_MEM_ALLOC_SIZE),
            address_bits: device.number(CL_DEVICE_ADDRESS_BITS) as u32,
            queue_properties: device.number(CL_DEVICE_QUEUE_ON_HOST_PROPERTIES),
            device_queues: DeviceQueueLimits::of(device),
            non_uniform_work_groups: device.number(CL_DEVICE_NON_UNIFORM_WORK_GROUP_SUPPORT) != 0,
            version: version_of(device),
            images: (device.number(CL_DEVICE_IMAGE_SUPPORT) != 0).then(|| ImageLimits {
                image_2d: [CL_DEVICE_IMAGE2D_MAX_WIDTH, CL_DEVICE_IMAGE2D_MAX_HEIGHT].map(|name| device.number(name)),
                image_3d: [CL_DEVICE_IMAGE3D_MAX_WIDTH, CL_DEVICE_IMAGE3D_MAX_HEIGHT, CL_DEVICE_IMAGE3D_MAX_DEPTH]
                    .map(|name| device.number(name)),
                buffer: device.number(CL_DEVICE_IMAGE_MAX_BUFFER_SIZE),
                array: device.number(CL_DEVICE_IMAGE_MAX_ARRAY_SIZE),
            }),
        }
    }
}
