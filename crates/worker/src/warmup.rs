//! Work that a worker does before its client comes, so that the client does not wait for it.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::sync::{Arc, OnceLock};

use ropeway_abi as cl;
use ropeway_custom::file::Declarations;
use ropeway_lease::property;
use ropeway_protocol::content::ContentHash;
use ropeway_protocol::handshake::{
    DEVICE_QUERIES, DeviceInfo, Opening, PlatformInfo, Property, Welcome, encode_opening,
};
use ropeway_protocol::ids::{ContextId, SessionId};
use ropeway_protocol::messages::ContextError;
use ropeway_protocol::types;
use ropeway_protocol::types::{Status, SubDevices};

use crate::base::allowance::DeviceSelector;
use crate::link::client::Client;
use crate::native::{self, Device, ErrorSink, Part, Place, Platform, StagedRead, SubDevice, Waits, process};
use crate::notify::notification::{Letterbox, Post, post};
use crate::objects;
use crate::options::WorkerOptions;

/// The environment variable set in workers: Ropeway's own OpenCL library offers no platforms to a process that has it.
const WORKER_MARK: &str = "ROPEWAY_WORKER";

/// The name of Ropeway's own platform.
const OWN_NAME: &str = "Ropeway";

/// Devices of each platform that a context is made for in advance.
const WARM_DEVICES: usize = 4;

/// clGetPlatformInfo's queries.
const PLATFORM_QUERIES: [std::ops::RangeInclusive<u32>; 2] = [0x0900..=0x0909, 0x0920..=0x0921];

/// Queries whose answer is a handle in this process: the client answers them itself.
pub const OWN_ANSWER: [u32; 3] = [cl::CL_DEVICE_PLATFORM, cl::CL_DEVICE_PARENT_DEVICE, cl::CL_DEVICE_REFERENCE_COUNT];

/// Passes on the error reports of a native context, once the client has a context for it.
pub struct ContextErrors {
    /// The client's context and its client.
    told: OnceLock<(ContextId, Arc<Client>)>,
    post: Post,
}

impl ErrorSink for ContextErrors {
    fn report(&self, text: &str) {
        let Some((context, client)) = self.told.get() else { return };
        client.keep_error(ContextError { context: *context, text: text.to_owned() });
        let client = client.clone();
        self.post.notify(Box::new(move || {
            let mut sending = client.outgoing.lock();
            client.forward_said(&mut sending)?;
            Ok(sending.send()?)
        }));
    }
}

/// A warm native platform.
pub struct WarmPlatform {
    native: Platform,
    devices: Vec<Device>,
    /// Parts of its devices that the client has made, by their index.
    parts: HashMap<u32, Arc<SubDevice>>,
    /// The index of the next part.
    next_part: u32,
}

impl WarmPlatform {
    fn new(native: Platform) -> Self {
        let devices = native.devices();
        let next_part = devices.len() as u32;
        Self { native, devices, parts: HashMap::new(), next_part }
    }

    /// The device of this index, or the part of one.
    fn device(&self, index: u32) -> Option<Device> {
        let part = || self.parts.get(&index).map(|part| part.device());
        self.devices.get(index as usize).copied().or_else(part)
    }
}

/// The state that is ready before the client comes.
pub struct Warm {
    /// The machine's platforms, as the welcome lists them.
    pub platforms: Vec<WarmPlatform>,
    welcome: Welcome,
    /// The welcome, as it is sent.
    pub encoded_welcome: Vec<u8>,
    /// The session's name.
    pub session: SessionId,
    /// Where native code's notifications go, ...
    post: Post,
    /// ... and where they come out, until somebody takes that.
    pub letterbox: Option<Letterbox>,
    contexts: HashMap<(u32, u32), (objects::Context, Arc<ContextErrors>)>,
    /// The machine's devices, in the order in which access rules number them, and parts of them with the same number.
    numbers: Vec<(Device, usize)>,
    /// Those that use a buffer's memory where it is; parts of them are tried no more, and count as others.
    in_place: Vec<Device>,
    /// Those that use the pages at the addresses of shared virtual memory, whatever these are; as `in_place`.
    svm_in_place: Vec<Device>,
    force_pinned: bool,
}

impl Warm {
    /// Initialises the machine's OpenCL and queries everything that the client will want to know. `step` is told of
    /// each native call that may take long.
    ///
    /// # Errors
    /// One sentence for the server's log.
    pub fn up(options: &WorkerOptions, step: &dyn Fn(&str)) -> Result<Self, String> {
        refuse_own_library();
        // The first hash detects the processor's features, which takes long on a virtual one.
        let _ = ContentHash::of(&[]);
        let (post, letterbox) = post();
        native::custom::offer(options.custom.clone().kinds()?);
        step("clGetPlatformIDs");
        let native = native::platforms()?.into_iter().filter(|platform| !is_own(*platform));
        let platforms: Vec<_> = native
            .map(|platform| {
                step(&format!("clGetDeviceIDs of {}", platform.text(cl::CL_PLATFORM_NAME)));
                WarmPlatform::new(platform)
            })
            .collect();
        step("clGetDeviceInfo");
        let session = SessionId(u64::from_le_bytes(random()?));
        let welcome = Welcome {
            features: 0,
            session,
            release: env!("CARGO_PKG_VERSION").to_owned(),
            host: options.host.clone(),
            little_endian: cfg!(target_endian = "little"),
            peer_address: options.peer_address.clone(),
            peer_key: options.peer_key.map(|key| *key.bytes()),
            lanes_secret: random()?,
            platforms: platforms.iter().map(describe).collect(),
        };
        let encoded_welcome = encode_opening(Opening::Welcome, &welcome);
        let mut warm = Self {
            platforms,
            welcome,
            encoded_welcome,
            session,
            post,
            letterbox: Some(letterbox),
            contexts: HashMap::new(),
            numbers: Vec::new(),
            in_place: Vec::new(),
            svm_in_place: Vec::new(),
            force_pinned: options.force_pinned,
        };
        let all = warm.platforms.iter().flat_map(|platform| &platform.devices);
        warm.numbers = all.copied().zip(0..).collect();
        let (mut in_place, mut svm_in_place) = (Vec::new(), Vec::new());
        for (index, platform) in warm.platforms.iter().enumerate() {
            for device in 0..platform.devices.len().min(WARM_DEVICES) {
                let name = platform.devices[device].name();
                step(&format!("clCreateContext for {name}"));
                // A device that refuses now (as it is taken by another process) is tried again when it is wanted.
                let (mut context, errors) = warm.make(platform, vec![(device as u32, platform.devices[device])]);
                if context.native.is_ok() {
                    // Done now, as otherwise the first read would wait for the pool.
                    step(&format!("clEnqueueMapBuffer of pinned memory for {name}"));
                    context.pool();
                    step(&format!("clEnqueueReadBuffer, the first command of {name}"));
                    // If this fails on a device, it fails again when the client uses the device.
                    let _ = first_command(&context);
                    if context.maps && !platform.native.is_custom() {
                        step(&format!("clCreateBuffer with CL_MEM_USE_HOST_PTR on {name}"));
                        context.in_place = tried(&context, native::uses_memory_in_place);
                        in_place.extend(context.in_place.then_some(platform.devices[device]));
                        if context.in_place && platform.devices[device].has_svm() {
                            step(&format!("clSVMAlloc on {name}"));
                            context.svm_in_place = tried(&context, native::uses_svm_in_place);
                            svm_in_place.extend(context.svm_in_place.then_some(platform.devices[device]));
                        }
                    }
                    warm.contexts.insert((index as u32, device as u32), (context, errors));
                }
            }
        }
        (warm.in_place, warm.svm_in_place) = (in_place, svm_in_place);
        Ok(warm)
    }

    /// Where native code's notifications go.
    pub fn post(&self) -> &Post {
        &self.post
    }

    /// What the client alone will know.
    pub fn lanes_secret(&self) -> [u8; 32] {
        self.welcome.lanes_secret
    }

    /// The names of the devices that the session sees.
    pub fn device_names(&self) -> Vec<String> {
        self.platforms.iter().flat_map(|platform| &platform.devices).map(|device| device.name()).collect()
    }

    /// The devices that are streams: their numbers and the streams' names, which are theirs.
    pub fn streams(&self, declared: &Declarations) -> Vec<(u32, String)> {
        let is_custom = |platform: &WarmPlatform| vec![platform.native.is_custom(); platform.devices.len()];
        let devices = self.platforms.iter().flat_map(|platform| platform.devices.iter().zip(is_custom(platform)));
        let named =
            (0..).zip(devices).filter(|(_, (_, is_custom))| *is_custom).map(|(n, (device, _))| (n, device.name()));
        named.filter(|(_, name)| declared.sources.iter().any(|source| source.name.as_ref() == Some(name))).collect()
    }

    /// What each device says of itself, as the broker's messages have it (JSON), in the order of their numbers.
    pub fn device_properties(&self) -> Vec<String> {
        let devices = self.welcome.platforms.iter().flat_map(|platform| &platform.devices);
        let text = |device: &DeviceInfo| {
            let answers =
                device.properties.iter().filter_map(|(query, answer)| Some((*query, answer.as_deref().ok()?)));
            property::to_text(&property::properties(answers))
        };
        devices.map(text).collect()
    }

    /// The number of a device, or of the device that it is a part of, among all of the machine's.
    pub fn number_of(&self, device: Device) -> Option<usize> {
        self.numbers.iter().find(|(of, _)| *of == device).map(|(_, number)| *number)
    }

    /// Leaves only the devices that one of these names, and the platforms that have some. To the client, the others are
    /// not there.
    pub fn restrict(&mut self, selectors: &[DeviceSelector]) {
        let mut number = 0;
        let mut selected = |device: &Device| {
            let (own, device_type) = (number, device.device_type());
            number += 1;
            selectors.iter().any(|selector| selector.selects(own, device_type, &device.name()))
        };
        let (mut platforms, mut contexts) = (Vec::new(), HashMap::new());
        let mut infos = Vec::new();
        let all = std::mem::take(&mut self.platforms).into_iter().zip(std::mem::take(&mut self.welcome.platforms));
        for (before, (platform, info)) in (0..).zip(all) {
            let (mut devices, mut described) = (Vec::new(), Vec::new());
            for (index, (device, info)) in (0..).zip(platform.devices.iter().zip(info.devices)) {
                if !selected(device) {
                    continue;
                }
                if let Some((mut context, errors)) = self.contexts.remove(&(before, index)) {
                    // Devices are known by their place in the list.
                    let place = devices.len() as u32;
                    context.devices = vec![(place, *device)];
                    contexts.insert((platforms.len() as u32, place), (context, errors));
                }
                devices.push(*device);
                described.push(info);
            }
            if !devices.is_empty() {
                let next_part = devices.len() as u32;
                platforms.push(WarmPlatform { devices, next_part, ..platform });
                infos.push(PlatformInfo { devices: described, ..info });
            }
        }
        (self.platforms, self.contexts, self.welcome.platforms) = (platforms, contexts, infos);
        self.encoded_welcome = encode_opening(Opening::Welcome, &self.welcome);
    }

    /// A new context.
    fn make(&self, platform: &WarmPlatform, devices: Vec<(u32, Device)>) -> (objects::Context, Arc<ContextErrors>) {
        let errors = Arc::new(ContextErrors { told: OnceLock::new(), post: self.post.clone() });
        let native: Vec<_> = devices.iter().map(|(_, device)| *device).collect();
        let native = native::Context::new(platform.native, &native, errors.clone());
        let mut context = objects::Context::new(native, devices, self.force_pinned);
        let all = |of: &[Device]| context.maps && context.devices.iter().all(|(_, device)| of.contains(device));
        (context.in_place, context.svm_in_place) = (all(&self.in_place), all(&self.svm_in_place));
        (context, errors)
    }

    /// A context of these devices, which are of `platform`: a warm one if there is one left. `None` when the platform
    /// or a device does not exist.
    pub fn context(
        &mut self,
        client: &Arc<Client>,
        id: ContextId,
        platform: u32,
        devices: &[u32],
    ) -> Option<Arc<objects::Context>> {
        let known = self.platforms.get(platform as usize)?;
        let native = devices.iter().map(|index| Some((*index, known.device(*index)?)));
        let native: Vec<_> = native.collect::<Option<_>>()?;
        let warm = match *devices {
            [] => return None,
            [device] => self.contexts.remove(&(platform, device)),
            _ => None,
        };
        // The context's devices stay as long as it does, whatever the client lets go.
        let parts = devices.iter().filter_map(|index| known.parts.get(index).cloned()).collect();
        let (mut context, errors) = match warm {
            Some(warm) => warm,
            None => self.make(self.platforms.get(platform as usize)?, native),
        };
        // It is set only here, once for each context, so this cannot fail.
        let _ = errors.told.set((id, client.clone()));
        context.parts = parts;
        Some(Arc::new(context))
    }

    /// As [`Warm::context`], where no context can be made: every use of it fails with `status`.
    pub fn no_context(&self, platform: u32, devices: &[u32], status: Status) -> Option<Arc<objects::Context>> {
        let named = devices.iter().map(|index| Some((*index, self.device(platform, *index)?)));
        let named: Vec<_> = named.collect::<Option<_>>()?;
        (!named.is_empty()).then(|| Arc::new(objects::Context::new(Err(status), named, self.force_pinned)))
    }

    /// The device of this index in a platform, or the part of one. `None` when there is none.
    pub fn device(&self, platform: u32, index: u32) -> Option<Device> {
        self.platforms.get(platform as usize)?.device(index)
    }

    /// Divides a device; `None` if it does not exist. Without `make`, only determines the number of parts.
    pub fn divide(
        &mut self,
        platform: u32,
        device: u32,
        properties: &[i64],
        make: bool,
    ) -> Option<Result<SubDevices, Status>> {
        let platform = self.platforms.get_mut(platform as usize)?;
        let device = platform.device(device)?;
        if !make {
            let count = SubDevice::count(device, properties);
            return Some(count.map(|count| SubDevices { count, devices: Vec::new() }));
        }
        let number = self.numbers.iter().find(|(of, _)| *of == device).map(|(_, number)| *number);
        Some(SubDevice::create(device, properties).map(|parts| {
            let devices = parts.into_iter().map(|part| {
                self.numbers.extend(number.map(|number| (part.device(), number)));
                let index = platform.next_part;
                platform.next_part += 1;
                let properties = device_properties(part.device());
                platform.parts.insert(index, Arc::new(part));
                types::SubDevice { index, properties }
            });
            let devices: Vec<_> = devices.collect();
            SubDevices { count: devices.len() as u32, devices }
        }))
    }

    /// Lets go of a part of a device; false when there is none of this index.
    pub fn drop_part(&mut self, platform: u32, index: u32) -> bool {
        let part = self.platforms.get_mut(platform as usize).and_then(|platform| platform.parts.remove(&index));
        // Its handle may become that of another part.
        self.numbers.retain(|(device, _)| part.as_ref().is_none_or(|part| part.device() != *device));
        part.is_some()
    }

    /// How many parts of devices there are.
    pub fn part_count(&self) -> usize {
        self.platforms.iter().map(|platform| platform.parts.len()).sum()
    }
}

/// Makes Ropeway's own OpenCL library, which the machine's loader may find, offer no platforms to this process.
pub fn refuse_own_library() {
    process::set_env(WORKER_MARK, "1");
}

/// Reads a few bytes: on its first command, a driver starts threads and creates what all later commands use.
fn first_command(context: &objects::Context) -> Result<(), Status> {
    const BYTES: [u8; 4] = [0; 4];
    let native = context.native.as_ref().map_err(|status| *status)?;
    let memory = native::Memory::buffer(native, cl::CL_MEM_READ_WRITE, BYTES.len() as u64, Some(&BYTES))?;
    let part = Part::Bytes { offset: 0, size: BYTES.len() as u64 };
    let queue = context.transfer_queue()?;
    let read = StagedRead::enqueue(queue, (&memory, &part), &Waits::none(), Place::of(&part, context.pool())?)?;
    queue.flush()?;
    read.event().wait()
}

/// What a trial on a warm context's device says; no where it fails.
fn tried(
    context: &objects::Context,
    trial: impl FnOnce(&native::Context, &Arc<native::Queue>) -> Result<bool, Status>,
) -> bool {
    let outcome = || trial(context.native.as_ref().map_err(|status| *status)?, context.transfer_queue()?);
    outcome().unwrap_or(false)
}

/// Whether this is the platform of Ropeway's own library, which the machine's loader lists.
pub fn is_own(platform: Platform) -> bool {
    if platform.is_custom() {
        return false;
    }
    [cl::CL_PLATFORM_NAME, cl::CL_PLATFORM_VENDOR].iter().any(|name| platform.text(*name).starts_with(OWN_NAME))
}

fn describe(platform: &WarmPlatform) -> PlatformInfo {
    let device = |device: &Device| DeviceInfo { properties: device_properties(*device) };
    PlatformInfo {
        properties: answers(&PLATFORM_QUERIES, |name| platform.native.info(name)),
        devices: platform.devices.iter().map(device).collect(),
    }
}

fn device_properties(device: Device) -> Vec<Property> {
    answers(&DEVICE_QUERIES, |name| device.info(name))
}

/// Returns all answers, including errors, except the plain "no such query".
fn answers(queries: &[std::ops::RangeInclusive<u32>], ask: impl Fn(u32) -> Result<Vec<u8>, Status>) -> Vec<Property> {
    let names = queries.iter().cloned().flatten().filter(|name| !OWN_ANSWER.contains(name));
    names.map(|name| (name, ask(name))).filter(|(_, answer)| *answer != Err(cl::CL_INVALID_VALUE)).collect()
}

fn random<const N: usize>() -> Result<[u8; N], String> {
    let mut bytes = [0; N];
    let read = File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes));
    read.map_err(|error| format!("cannot read /dev/urandom for a session's name and secret: {error}"))?;
    Ok(bytes)
}
