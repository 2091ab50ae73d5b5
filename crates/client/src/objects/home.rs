//! Homes: the native contexts that a context consists of, one for each native platform among its devices.
//!
//! Names of objects are unique in this process. An object has the same name in all of its context's homes but for the
//! home's number in the upper bits, so that a message names it without looking anything up; in home 0, and so in every
//! context with one home, the name is the object's own. An object of a context with one home is made at the server at
//! once; otherwise it is made in each home when a command first needs it there, and [`CreatedIn`] knows where that was.

use std::sync::{Arc, Mutex, OnceLock};

use ropeway_abi::{
    CL_DEVICE_QUEUE_ON_HOST_PROPERTIES, CL_INVALID_DEVICE, CL_INVALID_OPERATION, CL_INVALID_VALUE,
    CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE,
};
use ropeway_protocol::ids::{ContextId, QueueId};
use ropeway_protocol::messages::{CreateQueue, OpenSlots, ReleaseContext, ReleaseQueue};
use smallvec::SmallVec;

use crate::base::ids::new_id;
use crate::base::status::Result;
use crate::base::sync::lock;
use crate::base::threads;
use crate::link::connection::Connection;
use crate::link::slots::Slots;
use crate::objects::device::Device;

/// Where a home's number begins in the names of objects.
const NUMBER_SHIFT: u32 = 48;

/// Most homes of one context.
const MOST_HOMES: usize = 1 << (u64::BITS - NUMBER_SHIFT);

/// One native context of a context: devices of one native platform of one server.
#[derive(Debug)]
pub struct Home {
    number: usize,
    connection: Arc<Connection>,
    /// The native platform's name in messages.
    platform: u32,
    context: ContextId,
    devices: Vec<Arc<Device>>,
    /// The queue for transfers that the client relays from and to this home, once there were any.
    relay_queue: Mutex<Option<QueueId>>,
    /// The context's slots, once the server was asked; `None` if it has none.
    slots: OnceLock<Option<Arc<Slots>>>,
}

impl Home {
    /// The homes of a context named `context` that has these devices.
    ///
    /// # Errors
    /// CL_INVALID_VALUE without devices, CL_INVALID_DEVICE where they are of more native platforms than there can be.
    pub(crate) fn of(context: u64, devices: &[Arc<Device>]) -> Result<Box<[Self]>> {
        let mut homes: Vec<Self> = Vec::new();
        for device in devices {
            match homes.iter_mut().find(|home| home.has(device)) {
                Some(home) => home.devices.push(Arc::clone(device)),
                None => homes.push(Self {
                    number: homes.len(),
                    connection: Arc::clone(device.connection()),
                    platform: device.native_index(),
                    context: ContextId(context | (homes.len() as u64) << NUMBER_SHIFT),
                    devices: vec![Arc::clone(device)],
                    relay_queue: Mutex::default(),
                    slots: OnceLock::new(),
                }),
            }
        }
        match homes.len() {
            0 => Err(CL_INVALID_VALUE),
            1..=MOST_HOMES => Ok(homes.into()),
            _ => Err(CL_INVALID_DEVICE),
        }
    }

    /// Whether a device belongs here.
    pub(crate) fn has(&self, device: &Device) -> bool {
        self.platform == device.native_index() && Arc::ptr_eq(&self.connection, device.connection())
    }

    /// Its place in [`crate::objects::context::Context::homes`].
    pub(crate) fn number(&self) -> usize {
        self.number
    }

    /// The name that an object has here.
    pub(crate) fn name(&self, object: u64) -> u64 {
        object | (self.number as u64) << NUMBER_SHIFT
    }

    /// The native context's name.
    pub(crate) fn context(&self) -> ContextId {
        self.context
    }

    /// The link to its server.
    pub(crate) fn connection(&self) -> &Arc<Connection> {
        &self.connection
    }

    /// The native platform's index: its name in messages.
    pub(crate) fn platform(&self) -> u32 {
        self.platform
    }

    /// Its devices, in the order in which the context was given them.
    pub(crate) fn devices(&self) -> &[Arc<Device>] {
        &self.devices
    }

    /// The context's slots, if client and server share memory and the devices have their own; one round trip at the first time.
    pub(crate) fn slots(&self) -> Option<&Arc<Slots>> {
        let arena = self.connection.arena()?;
        let ask = || Slots::new(arena, self.connection.call(&OpenSlots { context: self.context }).ok()?);
        self.slots.get_or_init(ask).as_ref()
    }

    /// Whether the context is known to have slots: its devices have memory of their own, all of its buffers' then.
    pub(crate) fn has_slots(&self) -> bool {
        matches!(self.slots.get(), Some(Some(_)))
    }

    /// Returns the queue for transfers between this home and others by way of the client. Nothing on it waits for an
    /// event that may never end.
    ///
    /// # Errors
    /// [`crate::SERVER_LOST`].
    pub(crate) fn relay_queue(&self) -> Result<QueueId> {
        let mut made = lock(&self.relay_queue);
        if let Some(queue) = *made {
            return Ok(queue);
        }
        let device = self.devices.first().ok_or(CL_INVALID_DEVICE)?;
        // Transfers need not wait for each other, if the device supports out-of-order execution.
        let properties = device.number(CL_DEVICE_QUEUE_ON_HOST_PROPERTIES) & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE;
        let queue = QueueId(self.name(new_id()));
        let (context, device) = (self.context, device.index());
        self.connection.post(&CreateQueue { queue, context, device, properties, priority: 0, throttle: 0 })?;
        *made = Some(queue);
        Ok(queue)
    }

    /// Releases the native context, and the relay queue if there is one.
    pub(crate) fn release(&self) {
        // A lost server has dropped all of it already.
        if let Some(queue) = lock(&self.relay_queue).take() {
            let _ = self.connection.post(&ReleaseQueue { queue });
        }
        let _ = self.connection.post(&ReleaseContext { context: self.context });
    }

    /// Whether its server can no longer be used.
    pub(crate) fn is_lost(&self) -> bool {
        self.connection.is_lost()
    }
}

/// In which homes of its context an object has been made: a bit for each.
#[derive(Default, Debug)]
pub(crate) struct CreatedIn(Mutex<SmallVec<[u64; 1]>>);

impl CreatedIn {
    /// Makes an object in a home where it does not exist yet. Nobody sees it as made before `make` has sent the message
    /// that makes it.
    ///
    /// # Errors
    /// Those of `make`; the object then counts as not made.
    pub(crate) fn ensure(&self, home: &Home, make: impl FnOnce() -> Result<()>) -> Result<()> {
        self.ensure_unless(home, |_| false, make)
    }

    fn ensure_unless(
        &self,
        home: &Home,
        refused: impl FnOnce(&[u64]) -> bool,
        make: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        let mut made = lock(&self.0);
        let (word, bit) = (home.number / 64, 1 << (home.number % 64));
        if made.get(word).is_some_and(|bits| bits & bit != 0) {
            return Ok(());
        }
        if refused(&made) {
            return Err(CL_INVALID_OPERATION);
        }
        make()?;
        while made.len() <= word {
            made.push(0);
        }
        made[word] |= bit;
        Ok(())
    }

    /// As [`Self::ensure`], for an object that can be in one home only.
    ///
    /// # Errors
    /// CL_INVALID_OPERATION when it is in another one; those of `make`.
    pub(crate) fn ensure_only(&self, home: &Home, make: impl FnOnce() -> Result<()>) -> Result<()> {
        let elsewhere = |made: &[u64]| made.iter().any(|bits| *bits != 0);
        self.ensure_unless(home, elsewhere, make)
    }

    /// Whether it has been made in a home.
    pub(crate) fn is_in(&self, home: &Home) -> bool {
        !self.among(std::slice::from_ref(home)).is_empty()
    }

    /// Those of `homes` in which it has been made.
    pub(crate) fn among<'a>(&self, homes: &'a [Home]) -> SmallVec<[&'a Home; 1]> {
        let made = lock(&self.0);
        let is_made = |home: &&Home| made.get(home.number / 64).is_some_and(|bits| bits & 1 << (home.number % 64) != 0);
        let mut among = SmallVec::new();
        for home in homes.iter().filter(is_made) {
            among.push(home);
        }
        among
    }
}

/// Does the same work in several homes at once and waits for all; returns the results in the order of the homes. A
/// single home needs no thread.
pub(crate) fn in_each<'a, H: AsRef<[&'a Home]>, R: Send>(homes: H, work: impl Fn(&'a Home) -> R + Sync) -> Vec<R> {
    let Some((first, others)) = homes.as_ref().split_first() else { return Vec::new() };
    if others.is_empty() {
        return vec![work(first)];
    }
    std::thread::scope(|scope| {
        let work = &work;
        let threads: Vec<_> = others
            .iter()
            .map(|&home| {
                let thread = std::thread::Builder::new().name("ropeway-home".into());
                (home, threads::start(|| thread.spawn_scoped(scope, move || work(home))))
            })
            .collect();
        let mut results = vec![work(first)];
        for (home, thread) in threads {
            // If no thread could be started, this one does the work; a panic in the other thread is raised again here.
            results.push(match thread {
                Ok(thread) => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
                Err(_) => work(home),
            });
        }
        results
    })
}
