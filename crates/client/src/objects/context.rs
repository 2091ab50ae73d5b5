//! Contexts.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use ropeway_abi::{CL_INVALID_DEVICE, CL_INVALID_OPERATION};
use ropeway_protocol::image::ImageFormat;
use ropeway_protocol::messages::{CallOff, CreateContext};
use smallvec::SmallVec;

use crate::base::callbacks::run_later;
use crate::base::ids::new_id;
use crate::base::status::{Result, SERVER_LOST};
use crate::base::sync::lock;
use crate::link::connection::Connection;
use crate::link::deferred_flush::{self, Bursts, MANY};
use crate::objects::at_client::AtClient;
use crate::objects::device::Device;
use crate::objects::home::Home;
use crate::objects::ways::Ways;

/// A context: a native context in each of its homes.
pub struct Context {
    homes: Box<[Home]>,
    devices: Vec<Arc<Device>>,
    on_destruction: Mutex<Vec<Box<dyn FnOnce() + Send>>>,
    formats: Mutex<Formats>,
    /// Held from when a command is planned until it is sent.
    planning: Mutex<Ways>,
    /// Whether an event of it was ever known to have failed.
    failures: AtomicBool,
    /// Whether the application ever made a user event in it.
    user_events: AtomicBool,
    /// Which contents of its memory objects are at the client.
    at_client: AtClient,
    /// The application's hold on it and on each of its queues: without any, nobody can enqueue commands.
    holds: AtomicUsize,
    bursts: Bursts,
}

/// The image formats that were asked for, by flags and type of image.
pub(crate) type Formats = HashMap<(u64, u32), Arc<[ImageFormat]>>;

impl std::fmt::Debug for Context {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.first_home().context())
    }
}

impl Context {
    /// Makes a context of `devices` (without duplicates). `on_error` hears of errors that the servers' implementations
    /// report.
    ///
    /// # Errors
    /// CL_INVALID_VALUE without devices, CL_INVALID_DEVICE for more native platforms than can be in one context,
    /// [`crate::SERVER_LOST`].
    pub fn new(devices: Vec<Arc<Device>>, on_error: Option<ContextCallback>) -> Result<Arc<Self>> {
        let homes = Home::of(new_id(), &devices)?;
        let planning = Mutex::new(Ways::new(homes.len()));
        // From here on, what was made is released with the context.
        let context = Self {
            homes,
            devices,
            on_destruction: Mutex::default(),
            formats: Mutex::default(),
            planning,
            failures: AtomicBool::new(false),
            user_events: AtomicBool::new(false),
            at_client: AtClient::default(),
            holds: AtomicUsize::new(1),
            bursts: Bursts::default(),
        };
        let mut made = Ok(());
        for home in &context.homes {
            if context.spans_homes() {
                home.connection().count_shared_context(true);
            }
            if let Some(listener) = &on_error {
                home.connection().listen(home.context(), Arc::clone(listener));
            }
            // Where one fails the others are made all the same, as all are released together.
            made = made.and(home.connection().post(&CreateContext {
                context: home.context(),
                platform: home.platform(),
                devices: home.devices().iter().map(|d| d.index()).collect(),
            }));
        }
        made.map(|()| Arc::new(context))
    }

    /// The application has made a queue.
    pub fn hold(&self) {
        self.holds.fetch_add(1, Ordering::Relaxed);
    }

    /// The application has released the context, or a queue of it. With the last, commands that wait for a stalled stream are
    /// called off: otherwise a context whose camera is silent would never end.
    pub fn let_go(&self) {
        if self.holds.fetch_sub(1, Ordering::AcqRel) > 1 {
            return;
        }
        for home in self.homes.iter().filter(|home| home.devices().iter().any(|device| device.is_custom())) {
            // A lost server has called off all.
            let _ = home.connection().post(&CallOff { context: home.context() });
            let _ = home.connection().flush();
        }
    }

    /// Its devices, in the order they were given.
    pub fn devices(&self) -> &[Arc<Device>] {
        &self.devices
    }

    /// Its name in this process.
    pub(crate) fn name(&self) -> u64 {
        self.first_home().context().0
    }

    pub(crate) fn at_client(&self) -> &AtClient {
        &self.at_client
    }

    /// Its homes: one for each native platform among its devices.
    pub(crate) fn homes(&self) -> &[Home] {
        &self.homes
    }

    /// All of them, as [`crate::objects::home::in_each`] takes them.
    pub(crate) fn all_homes(&self) -> SmallVec<[&Home; 1]> {
        self.homes.iter().collect()
    }

    /// The only home; `None` where there are several, and objects are made in each when they are first needed there.
    pub(crate) fn only_home(&self) -> Option<&Home> {
        match &*self.homes {
            [only] => Some(only),
            _ => None,
        }
    }

    /// Whether it has several homes.
    pub fn spans_homes(&self) -> bool {
        self.homes.len() > 1
    }

    /// Returns the only home, for features that contexts with several homes do not have.
    ///
    /// # Errors
    /// CL_INVALID_OPERATION where there are several.
    pub(crate) fn needs_one_home(&self, what: &str) -> Result<&Home> {
        self.only_home().ok_or_else(|| {
            crate::debug!("a context with devices of several servers or platforms has no {what}");
            CL_INVALID_OPERATION
        })
    }

    /// The first home.
    pub(crate) fn first_home(&self) -> &Home {
        // There always is one.
        &self.homes[0]
    }

    /// The home of one of its devices, or of a part of one.
    ///
    /// # Errors
    /// CL_INVALID_DEVICE for a device of no home.
    pub(crate) fn home_of(&self, device: &Device) -> Result<&Home> {
        self.homes.iter().find(|home| home.has(device)).ok_or(CL_INVALID_DEVICE)
    }

    /// The links to its servers; one that several homes share comes several times.
    pub(crate) fn connections(&self) -> impl Iterator<Item = &Arc<Connection>> {
        self.homes.iter().map(Home::connection)
    }

    /// Sends all that is pending in any home.
    pub(crate) fn flush_all(&self) {
        for connection in self.connections() {
            // A lost server has ended its events already.
            let _ = connection.flush();
        }
    }

    /// Sends all that is pending and waits for what happens in this process, not at a server.
    ///
    /// # Errors
    /// [`crate::SERVER_LOST`], when all of them are.
    pub(crate) fn wait_here(&self, mut over: impl FnMut() -> bool) -> Result<()> {
        if over() {
            return Ok(());
        }
        self.flush_all();
        self.first_home().connection().sleep_until(|| over() || self.homes.iter().all(Home::is_lost));
        if over() { Ok(()) } else { Err(SERVER_LOST) }
    }

    /// Sends all that is pending in homes other than this one: what the caller is about to wait for may depend on it.
    pub(crate) fn flush_others(&self, home: &Home) {
        for other in self.homes.iter().filter(|other| other.number() != home.number()) {
            // A lost server has ended its events already.
            let _ = other.connection().flush();
        }
    }

    /// Sends all that is pending, for a caller that has just posted to this home and waits for nothing.
    ///
    /// # Errors
    /// [`SERVER_LOST`].
    pub(crate) fn flush_from(&self, home: &Home) -> Result<()> {
        let is_burst = self.homes.len() >= MANY && self.bursts.go_on();
        if is_burst && self.homes.iter().all(|home| home.connection().leave_to_round()) {
            deferred_flush::hurry();
            return if home.is_lost() { Err(SERVER_LOST) } else { Ok(()) };
        }
        self.flush_others(home);
        home.connection().flush()
    }

    /// Locks planning, so that one command at a time is planned and sent, where there are several homes. The holder of
    /// the lock must not wait for a server.
    pub(crate) fn plan(&self) -> MutexGuard<'_, Ways> {
        lock(&self.planning)
    }

    /// Records that one of its events has failed, just before the failure becomes known.
    pub(crate) fn note_failure(&self) {
        self.failures.store(true, Ordering::SeqCst);
    }

    /// Whether an event of it may be known to have failed.
    pub(crate) fn has_failures(&self) -> bool {
        self.failures.load(Ordering::SeqCst)
    }

    /// Records that the application makes a user event: from now on, commands may wait for what is enqueued after them.
    pub(crate) fn note_user_event(&self) {
        self.user_events.store(true, Ordering::Release);
    }

    /// Whether the application ever had an event of its own here.
    pub(crate) fn has_user_events(&self) -> bool {
        self.user_events.load(Ordering::Acquire)
    }

    /// The image formats that are known.
    pub(crate) fn formats(&self) -> &Mutex<Formats> {
        &self.formats
    }

    /// Calls `callback` when the context is destroyed; the last one registered is called first
    /// (clSetContextDestructorCallback).
    pub fn on_destruction(&self, callback: Box<dyn FnOnce() + Send>) {
        lock(&self.on_destruction).push(callback);
    }
}

/// A callback that gets the errors in a context, as text (pfn_notify of clCreateContext).
pub type ContextCallback = Arc<dyn Fn(&str) + Send + Sync>;

impl Drop for Context {
    fn drop(&mut self) {
        for home in &self.homes {
            home.connection().stop_listening(home.context());
            home.release();
            if self.spans_homes() {
                home.connection().count_shared_context(false);
            }
        }
        for callback in std::mem::take(&mut *lock(&self.on_destruction)).into_iter().rev() {
            run_later(callback);
        }
    }
}
