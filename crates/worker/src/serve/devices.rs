//! Handling of the messages about devices.

use ropeway_abi as cl;
use ropeway_protocol::CallId;
use ropeway_protocol::messages::{CreateSubDevices, GetDeviceInfo, ReleaseSubDevice};
use ropeway_protocol::types::{Status, SubDevices};

use crate::base::error::End;
use crate::base::error::unknown;
use crate::session::Session;
use crate::session::job::Job;
use crate::warmup::OWN_ANSWER;

/// Most parts of devices that a session may have at a time.
const MAX_PARTS: usize = 1 << 12;

impl Session {
    pub(super) fn create_sub_devices(&mut self, m: CreateSubDevices, call: CallId<SubDevices>) -> Result<(), End> {
        let parts = self.warm.part_count();
        let is_full = || parts >= MAX_PARTS || self.common.limits.allow_object(self.objects() + parts).is_err();
        let reply = if m.make && is_full() {
            Err(cl::CL_OUT_OF_RESOURCES)
        } else {
            let divided = self.warm.divide(m.platform, m.device, &m.properties, m.make);
            divided.ok_or_else(|| unknown(format_args!("device {}", m.device)))?
        };
        self.answer(call, reply);
        Ok(())
    }

    pub(super) fn release_sub_device(&mut self, m: ReleaseSubDevice) -> Result<(), End> {
        match self.warm.drop_part(m.platform, m.device) {
            true => Ok(()),
            false => Err(unknown(format_args!("sub-device {}", m.device))),
        }
    }

    pub(super) fn get_device_info(&mut self, m: GetDeviceInfo, call: CallId<Vec<u8>>) -> Result<(), End> {
        let device =
            self.warm.device(m.platform, m.device).ok_or_else(|| unknown(format_args!("device {}", m.device)))?;
        let reply = if OWN_ANSWER.contains(&m.name) { Err(cl::CL_INVALID_VALUE) } else { device.info(m.name) };
        self.answer(call, reply);
        Ok(())
    }

    /// Queues a reply to be sent next.
    pub(super) fn answer<R: serde::Serialize + Send + 'static>(&mut self, call: CallId<R>, reply: Result<R, Status>) {
        self.start(Job::Run(Box::new(move |common| common.client.answer(&call, &reply))));
    }
}
