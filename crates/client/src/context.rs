//! Contexts.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use ropeway_protocol::ids::ContextId;
use ropeway_protocol::image::ImageFormat;
use ropeway_protocol::messages::{CreateContext, ReleaseContext};

use crate::Result;
use crate::connection::{Connection, lock, run_later};
use crate::svm::Allocations;
use crate::system::{Device, one_home};

/// A context: devices of one native platform of one server.
pub struct Context {
    id: ContextId,
    connection: Arc<Connection>,
    devices: Vec<Arc<Device>>,
    /// Shared virtual memory. Each allocation keeps the context.
    pub(crate) svm: Allocations,
    on_destruction: Mutex<Vec<Box<dyn FnOnce() + Send>>>,
    formats: Mutex<Formats>,
}

/// The image formats that were asked for, by flags and type of image.
pub(crate) type Formats = HashMap<(u64, u32), Arc<[ImageFormat]>>;

impl std::fmt::Debug for Context {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.id)
    }
}

impl Context {
    /// Makes a context of `devices` (without duplicates). `on_error` hears of errors that the server's implementation reports.
    ///
    /// # Errors
    /// CL_INVALID_VALUE without devices, CL_INVALID_DEVICE for devices that cannot be in one context, [`crate::SERVER_LOST`].
    pub fn new(devices: Vec<Arc<Device>>, on_error: Option<ContextCallback>) -> Result<Arc<Self>> {
        one_home(&devices)?;
        let connection = Arc::clone(devices[0].connection());
        let id = ContextId(connection.new_id());
        if let Some(listener) = on_error {
            connection.listen(id, listener);
        }
        connection.post(&CreateContext {
            context: id,
            platform: devices[0].native_index(),
            devices: devices.iter().map(|d| d.index()).collect(),
        })?;
        Ok(Arc::new(Self {
            id,
            connection,
            devices,
            svm: Allocations::default(),
            on_destruction: Mutex::default(),
            formats: Mutex::default(),
        }))
    }

    /// Its devices, in the order they were given.
    pub fn devices(&self) -> &[Arc<Device>] {
        &self.devices
    }

    /// The link to its server.
    pub(crate) fn connection(&self) -> &Arc<Connection> {
        &self.connection
    }

    /// The image formats that are known.
    pub(crate) fn formats(&self) -> &Mutex<Formats> {
        &self.formats
    }

    pub(crate) fn id(&self) -> ContextId {
        self.id
    }

    /// Calls `callback` when the context is no more; the last one registered comes first (clSetContextDestructorCallback).
    pub fn on_destruction(&self, callback: Box<dyn FnOnce() + Send>) {
        lock(&self.on_destruction).push(callback);
    }
}

/// Told of errors in a context, in words (pfn_notify of clCreateContext).
pub type ContextCallback = Arc<dyn Fn(&str) + Send + Sync>;

impl Drop for Context {
    fn drop(&mut self) {
        self.connection.stop_listening(self.id);
        // A lost server has dropped it already.
        let _ = self.connection.post(&ReleaseContext { context: self.id });
        for callback in std::mem::take(&mut *lock(&self.on_destruction)).into_iter().rev() {
            run_later(callback);
        }
    }
}
