//! What a worker does before its client comes, so that the client does not wait for it.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, OnceLock};

use ropeway_abi as cl;
use ropeway_protocol::handshake::{DeviceInfo, Opening, PlatformInfo, Property, Welcome, encode_opening};
use ropeway_protocol::ids::{ContextId, SessionId};
use ropeway_protocol::types::Status;

use crate::WorkerOptions;
use crate::common::News;
use crate::native::{self, Device, ErrorSink, Platform, process};
use crate::objects;

/// Set in workers: Ropeway's own OpenCL library offers no platforms to a process that has it.
const WORKER_MARK: &str = "ROPEWAY_WORKER";

/// What Ropeway's own platform calls itself.
const OWN_NAME: &str = "Ropeway";

/// Devices of each platform that a context is made for in advance.
const WARM_DEVICES: usize = 4;

/// clGetPlatformInfo's queries.
const PLATFORM_QUERIES: [std::ops::RangeInclusive<u32>; 2] = [0x0900..=0x0909, 0x0920..=0x0921];

/// clGetDeviceInfo's queries: OpenCL 1.0 to 3.0 with Khronos extensions, then vendors' own: NVIDIA's, AMD's, Intel's,
/// ARM's and Qualcomm's.
const DEVICE_QUERIES: [std::ops::RangeInclusive<u32>; 13] = [
    0x1000..=0x1077,
    0x12A9..=0x12AB,
    0x12B9..=0x12BB,
    0x2031..=0x2035,
    0x204C..=0x204F,
    0x4000..=0x400A,
    0x4030..=0x404C,
    0x40A0..=0x40BF,
    0x40E0..=0x40E0,
    0x4104..=0x410F,
    0x417E..=0x4194,
    0x41E0..=0x41EE,
    0x4230..=0x4256,
];

/// Queries whose answer is a handle of this process's: the client answers them itself.
const OWN_ANSWER: [u32; 3] = [cl::CL_DEVICE_PLATFORM, cl::CL_DEVICE_PARENT_DEVICE, cl::CL_DEVICE_REFERENCE_COUNT];

/// Passes on what a native context has to say, once the client has a context for it.
pub struct ContextErrors {
    context: OnceLock<ContextId>,
    news: Sender<News>,
}

impl ErrorSink for ContextErrors {
    fn report(&self, text: &str) {
        if let Some(context) = self.context.get() {
            // The session may be over already.
            let _ = self.news.send(News::ContextError(*context, text.to_owned()));
        }
    }
}

/// A warm native platform.
pub struct WarmPlatform {
    native: Platform,
    /// Its devices, in native order.
    pub devices: Vec<Device>,
}

/// What is ready before the client comes.
pub struct Warm {
    /// The machine's platforms, as the welcome lists them.
    pub platforms: Vec<WarmPlatform>,
    /// The welcome as it travels.
    pub welcome: Vec<u8>,
    /// The session's name.
    pub session: SessionId,
    /// Where natively raised news come in.
    pub news: (Sender<News>, Receiver<News>),
    contexts: HashMap<(u32, u32), (objects::Context, Arc<ContextErrors>)>,
    force_pinned: bool,
}

impl Warm {
    /// Initialises the machine's OpenCL and asks it all that the client will want to know.
    ///
    /// # Errors
    /// One sentence for the server's log.
    pub fn up(options: &WorkerOptions) -> Result<Self, String> {
        process::set_env(WORKER_MARK, "1");
        let news = channel();
        let native = native::platforms()?.into_iter().filter(|platform| !is_own(*platform));
        let platforms: Vec<_> = native.map(|native| WarmPlatform { native, devices: native.devices() }).collect();
        let session = SessionId(random()?);
        let welcome = Welcome {
            features: 0,
            session,
            release: env!("CARGO_PKG_VERSION").to_owned(),
            host: options.host.clone(),
            platforms: platforms.iter().map(describe).collect(),
        };
        let welcome = encode_opening(Opening::Welcome, &welcome);
        let mut warm =
            Self { platforms, welcome, session, news, contexts: HashMap::new(), force_pinned: options.force_pinned };
        for (index, platform) in warm.platforms.iter().enumerate() {
            for device in 0..platform.devices.len().min(WARM_DEVICES) {
                // A device that refuses now (as it is taken by another process) is tried again when it is wanted.
                let (context, errors) = warm.make(platform, vec![(device as u32, platform.devices[device])]);
                if context.native.is_ok() {
                    // What a first read would otherwise wait for.
                    context.pool();
                    warm.contexts.insert((index as u32, device as u32), (context, errors));
                }
            }
        }
        Ok(warm)
    }

    /// A new context.
    fn make(&self, platform: &WarmPlatform, devices: Vec<(u32, Device)>) -> (objects::Context, Arc<ContextErrors>) {
        let errors = Arc::new(ContextErrors { context: OnceLock::new(), news: self.news.0.clone() });
        let native: Vec<_> = devices.iter().map(|(_, device)| *device).collect();
        let native = native::Context::new(platform.native, &native, errors.clone());
        (objects::Context::new(native, devices, self.force_pinned), errors)
    }

    /// A context of these devices, which are of `platform`: a warm one if there is one left. `None` when the platform or a
    /// device does not exist.
    pub fn context(&mut self, id: ContextId, platform: u32, devices: &[u32]) -> Option<Arc<objects::Context>> {
        let known = self.platforms.get(platform as usize)?;
        let native = devices.iter().map(|index| Some((*index, *known.devices.get(*index as usize)?)));
        let native: Vec<_> = native.collect::<Option<_>>()?;
        let warm = match *devices {
            [] => return None,
            [device] => self.contexts.remove(&(platform, device)),
            _ => None,
        };
        let (context, errors) = match warm {
            Some(warm) => warm,
            None => self.make(self.platforms.get(platform as usize)?, native),
        };
        // It is set here only, once for each context.
        let _ = errors.context.set(id);
        Some(Arc::new(context))
    }
}

fn is_own(platform: Platform) -> bool {
    [cl::CL_PLATFORM_NAME, cl::CL_PLATFORM_VENDOR].iter().any(|name| platform.text(*name).starts_with(OWN_NAME))
}

fn describe(platform: &WarmPlatform) -> PlatformInfo {
    let device = |device: &Device| DeviceInfo { properties: answers(&DEVICE_QUERIES, |name| device.info(name)) };
    PlatformInfo {
        properties: answers(&PLATFORM_QUERIES, |name| platform.native.info(name)),
        devices: platform.devices.iter().map(device).collect(),
    }
}

/// All answers but the plain "no such query".
fn answers(queries: &[std::ops::RangeInclusive<u32>], ask: impl Fn(u32) -> Result<Vec<u8>, Status>) -> Vec<Property> {
    let names = queries.iter().cloned().flatten().filter(|name| !OWN_ANSWER.contains(name));
    names.map(|name| (name, ask(name))).filter(|(_, answer)| *answer != Err(cl::CL_INVALID_VALUE)).collect()
}

fn random() -> Result<u64, String> {
    let mut bytes = [0; 8];
    let read = File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes));
    read.map_err(|error| format!("cannot read /dev/urandom for a session name: {error}"))?;
    Ok(u64::from_le_bytes(bytes))
}
