//! Platforms and devices, as the application sees them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};

use ropeway_abi::{CL_DEVICE_TYPE, CL_DEVICE_TYPE_CUSTOM};
use ropeway_protocol::handshake::{DEVICE_QUERIES, Property};
use ropeway_protocol::messages::{CreateSubDevices, DeviceTimer, GetDeviceInfo, ReleaseSubDevice};

use crate::base::status::{Result, Status};
use crate::base::sync::lock;
use crate::link::connection::Connection;

/// A platform as the application sees it: all of Ropeway's devices, or those of one native platform.
#[derive(Debug)]
pub struct Platform {
    /// It only grows: what the application has a handle of stays where it is.
    devices: Mutex<Vec<Arc<Device>>>,
    native: Option<NativePlatform>,
}

/// One native platform of one server.
#[derive(Clone, Debug)]
pub struct NativePlatform {
    connection: Arc<Connection>,
    index: u32,
}

/// One native device of one server, or a part of one.
#[derive(Debug)]
pub struct Device {
    platform: Weak<Platform>,
    native: NativePlatform,
    index: u32,
    part: Option<Part>,
    /// Answers to queries that the handshake did not tell.
    asked: Mutex<HashMap<u32, Result<Vec<u8>>>>,
}

/// The properties that only sub-devices have.
#[derive(Debug)]
struct Part {
    parent: Arc<Device>,
    properties: Vec<Property>,
}

impl Platform {
    /// Creates a platform without devices: for the devices of all servers, or of the one native platform that it stands
    /// for.
    pub(crate) fn new(native: Option<NativePlatform>) -> Arc<Self> {
        Arc::new(Self { devices: Mutex::default(), native })
    }

    /// Adds a native platform's devices.
    pub(crate) fn add(self: &Arc<Self>, native: &NativePlatform) {
        let count = native.info().devices.len() as u32;
        let made = (0..count).map(|index| Device::new(Arc::downgrade(self), native.clone(), index, None));
        lock(&self.devices).extend(made.map(Arc::new));
    }

    /// All devices that it has ever had, in the order in which they came; see [`Device::is_listed`].
    pub fn devices(&self) -> Vec<Arc<Device>> {
        lock(&self.devices).clone()
    }

    /// The one native platform that it stands for; `None` for the platform that holds all devices.
    pub fn native(&self) -> Option<&NativePlatform> {
        self.native.as_ref()
    }

    /// The address of its server, or of its servers with commas between them: a URL each.
    pub fn server_address(&self) -> String {
        let devices = self.devices();
        let mut addresses: Vec<_> = devices.iter().filter(|d| d.is_listed()).map(|d| d.server_address()).collect();
        addresses.dedup();
        addresses.join(",")
    }
}

impl NativePlatform {
    /// The native platforms of a server.
    pub(crate) fn all_of(connection: &Arc<Connection>) -> impl Iterator<Item = Self> {
        let count = connection.welcome().platforms.len() as u32;
        (0..count).map(|index| Self { connection: Arc::clone(connection), index })
    }

    fn info(&self) -> &ropeway_protocol::handshake::PlatformInfo {
        &self.connection.welcome().platforms[self.index as usize]
    }

    /// The native answer of clGetPlatformInfo for `param`: bytes, or an error code. `None`: never asked.
    pub fn property(&self, param: u32) -> Option<std::result::Result<&[u8], Status>> {
        find(&self.info().properties, param)
    }

    /// The name of the server's host as the client addresses it.
    pub fn host(&self) -> &str {
        self.connection.endpoint().host()
    }
}

/// This machine's clock, in nanoseconds (clGetHostTimer).
pub fn host_timer() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
}

impl PartialEq for NativePlatform {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.connection, &other.connection) && self.index == other.index
    }
}

impl Device {
    fn new(platform: Weak<Platform>, native: NativePlatform, index: u32, part: Option<Part>) -> Self {
        Self { platform, native, index, part, asked: Mutex::default() }
    }

    /// The device that it is a part of; `None` for a whole one.
    pub fn parent(&self) -> Option<&Arc<Self>> {
        self.part.as_ref().map(|part| &part.parent)
    }

    /// Whether it is a part of one of these devices, and is none of them itself.
    pub(crate) fn is_part_of_any(self: &Arc<Self>, devices: &[Arc<Self>]) -> bool {
        let among = |device: &Arc<Self>| devices.iter().any(|one| Arc::ptr_eq(one, device));
        !among(self) && std::iter::successors(self.parent(), |device| device.parent()).any(among)
    }

    /// Into how many parts `properties`, a list that ends with 0, divide it (clCreateSubDevices).
    ///
    /// # Errors
    /// The status of the native call, or [`crate::SERVER_LOST`].
    pub fn count_parts(&self, properties: &[i64]) -> Result<u32> {
        Ok(self.divide_with(properties, false)?.count)
    }

    /// Its parts as `properties`, a list that ends with 0, divide it (clCreateSubDevices).
    ///
    /// # Errors
    /// The status of the native call, or [`crate::SERVER_LOST`].
    pub fn divide(self: &Arc<Self>, properties: &[i64]) -> Result<Vec<Arc<Self>>> {
        let parts = self.divide_with(properties, true)?.devices.into_iter().map(|made| {
            let part = Part { parent: Arc::clone(self), properties: made.properties };
            Arc::new(Self::new(Weak::clone(&self.platform), self.native.clone(), made.index, Some(part)))
        });
        Ok(parts.collect())
    }

    fn divide_with(&self, properties: &[i64], make: bool) -> Result<ropeway_protocol::types::SubDevices> {
        let (platform, device) = (self.native_index(), self.index);
        self.connection().call(&CreateSubDevices { platform, device, properties: properties.to_vec(), make })
    }

    /// The platform that the application found it in.
    pub fn platform(&self) -> Option<Arc<Platform>> {
        self.platform.upgrade()
    }

    /// The native platform that it belongs to.
    pub fn native_platform(&self) -> &NativePlatform {
        &self.native
    }

    /// The native answer of clGetDeviceInfo for `param`: bytes, or an error code. `None`: CL_INVALID_VALUE, or never
    /// asked.
    pub fn property(&self, param: u32) -> Option<std::result::Result<&[u8], Status>> {
        find(self.properties(), param)
    }

    /// Whether it is of CL_DEVICE_TYPE_CUSTOM.
    pub(crate) fn is_custom(&self) -> bool {
        let bits =
            self.property(CL_DEVICE_TYPE).and_then(std::result::Result::ok).and_then(|bytes| bytes.try_into().ok());
        bits.is_some_and(|bits| u64::from_ne_bytes(bits) & CL_DEVICE_TYPE_CUSTOM != 0)
    }

    fn properties(&self) -> &[Property] {
        match &self.part {
            Some(part) => &part.properties,
            None => self.native.info().devices.get(self.index as usize).map_or(&[], |info| &info.properties),
        }
    }

    /// Returns the native answer of clGetDeviceInfo for `param`. If the handshake did not bring it, asks the server
    /// once.
    ///
    /// # Errors
    /// The status of the native call, or [`crate::SERVER_LOST`].
    pub fn ask(&self, param: u32) -> Result<Vec<u8>> {
        if let Some(known) = self.property(param) {
            return known.map(<[u8]>::to_vec);
        }
        if DEVICE_QUERIES.iter().any(|queries| queries.contains(&param)) {
            return Err(ropeway_abi::CL_INVALID_VALUE);
        }
        if let Some(known) = lock(&self.asked).get(&param) {
            return known.clone();
        }
        let (platform, device) = (self.native_index(), self.index);
        let answer = self.connection().call(&GetDeviceInfo { platform, device, name: param });
        if !self.connection().is_lost() {
            lock(&self.asked).insert(param, answer.clone());
        }
        answer
    }

    /// A property that is a number of up to 8 bytes; 0 where the device does not have it.
    pub fn number(&self, param: u32) -> u64 {
        let Some(Ok(bytes)) = self.property(param) else { return 0 };
        let mut number = [0; 8];
        let len = bytes.len().min(8);
        number[..len].copy_from_slice(&bytes[..len]);
        u64::from_le_bytes(number)
    }

    /// The address of its server: a URL.
    pub fn server_address(&self) -> String {
        self.connection().configured().to_string()
    }

    /// Whether its server can still be used (CL_DEVICE_AVAILABLE).
    pub fn is_available(&self) -> bool {
        !self.connection().look_whether_lost()
    }

    /// Whether it is among the platform's devices: its server has not been disconnected.
    pub fn is_listed(&self) -> bool {
        !self.connection().is_closed()
    }

    /// The link to its server.
    pub fn connection(&self) -> &Arc<Connection> {
        &self.native.connection
    }

    /// The device's clock and this machine's at the same time, in nanoseconds (clGetDeviceAndHostTimer). One round
    /// trip.
    ///
    /// # Errors
    /// The status of the native call, or [`crate::SERVER_LOST`].
    pub fn timers(&self) -> Result<(u64, u64)> {
        let before = host_timer();
        let device = self.connection().call(&DeviceTimer { platform: self.native.index, device: self.index })?;
        // Half of the round trip lies before the server reads its clock.
        Ok((device, before.midpoint(host_timer())))
    }

    /// Its index in its native platform: its name in messages.
    pub(crate) fn index(&self) -> u32 {
        self.index
    }

    /// The native platform's index: its name in messages.
    pub(crate) fn native_index(&self) -> u32 {
        self.native.index
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        if self.part.is_some() {
            // A lost server has dropped it already.
            let _ = self.connection().post(&ReleaseSubDevice { platform: self.native_index(), device: self.index });
        }
    }
}

fn find(properties: &[Property], param: u32) -> Option<std::result::Result<&[u8], Status>> {
    let (_, value) = properties.iter().find(|(p, _)| *p == param)?;
    Some(match value {
        Ok(bytes) => Ok(bytes),
        Err(status) => Err(*status),
    })
}
