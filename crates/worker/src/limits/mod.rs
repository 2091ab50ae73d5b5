//! The limits of a session, and the client's news of what they stop.

pub mod clock;
pub mod share;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ropeway_abi as cl;
use ropeway_protocol::ids::EventId;
use ropeway_protocol::messages::Notice;
use ropeway_protocol::types::Status;

use crate::base::allowance::Allowance;
use crate::base::lock::lock;
use crate::limits::share::Share;
use crate::link::client::Client;

/// How long the client hears nothing more of a limit that it has been told of.
const QUIET: Duration = Duration::from_secs(5);

/// Objects are taken from the client's share so many at a time: one part in this many of all, ...
const PARTS: usize = 64;

/// ... and no more than this. Otherwise each command with an event would have to look at all sessions.
const MOST_AT_ONCE: usize = 256;

/// A resource with a limit.
#[derive(Clone, Copy)]
enum Resource {
    Memory,
    Objects,
}

/// The number of resources with a limit.
const RESOURCES: usize = 2;

/// The most that a session may have.
pub struct Limits {
    /// Bytes of buffers, and whose limit that is.
    memory: Option<(u64, String)>,
    /// Bytes of buffers of all sessions of the client.
    shared_memory: Option<u64>,
    /// Live objects, of all kinds together; in all sessions of the client, if it has a share.
    objects: usize,
    /// The live objects that the session may have as things stand.
    objects_now: AtomicUsize,
    /// The session's share, if its client may have other sessions.
    share: Option<Share>,
    /// Whose limits all others are, as part of a sentence.
    whose: String,
    client: Arc<Client>,
    /// When the client was last told of each limit.
    told: Mutex<[Option<Instant>; RESOURCES]>,
}

impl Limits {
    /// The limits that `allowance` sets; `memory_quota` is what the server's options allow any session.
    pub fn new(client: Arc<Client>, allowance: &Allowance, memory_quota: Option<u64>, share: Option<Share>) -> Self {
        let whose = whose(allowance);
        let of_server = memory_quota.map(|bytes| (bytes, "--session-memory of `ropeway serve`".to_owned()));
        let of_client = allowance.memory.map(|bytes| (bytes, whose.clone()));
        let memory = of_server.into_iter().chain(of_client).min_by_key(|(bytes, _)| *bytes);
        let shared_memory = allowance.memory.filter(|_| share.is_some());
        let objects = allowance.objects.map_or(usize::MAX, |most| usize::try_from(most).unwrap_or(usize::MAX));
        let is_shared = allowance.objects.is_some() && share.is_some();
        let objects_now = AtomicUsize::new(if is_shared { 0 } else { objects });
        Self { memory, shared_memory, objects, objects_now, share, whose, client, told: Mutex::default() }
    }

    /// Checks whether a session with `total` objects may have one more.
    ///
    /// # Errors
    /// CL_OUT_OF_RESOURCES: it may not, and its client was told whose limit that is.
    #[inline]
    pub fn allow_object(&self, total: usize) -> Result<(), Status> {
        if total < self.objects_now.load(Ordering::Relaxed) { Ok(()) } else { self.take_objects(total) }
    }

    /// Takes more of the client's share of objects, for a session with `total` of them.
    #[cold]
    fn take_objects(&self, total: usize) -> Result<(), Status> {
        let Some(share) = self.share.as_ref().filter(|_| total < self.objects) else {
            return Err(self.refuse_object());
        };
        for more in [self.at_once(), 1] {
            let wanted = total.saturating_add(more).min(self.objects);
            if share.raise(Resource::Objects as usize, wanted as u64, self.objects as u64).is_ok() {
                self.objects_now.store(wanted, Ordering::Relaxed);
                return Ok(());
            }
        }
        Err(self.refuse_object())
    }

    /// How many objects are taken at a time.
    fn at_once(&self) -> usize {
        (self.objects / PARTS).clamp(1, MOST_AT_ONCE)
    }

    /// Gives back what a session with `total` objects does not need of the client's share. Called when it has nothing
    /// to do, by the thread that carries out its commands, like all that takes objects.
    #[inline]
    pub fn settle(&self, total: impl FnOnce() -> usize) {
        if let Some(share) = &self.share
            && self.objects != usize::MAX
        {
            let (total, more) = (total(), self.at_once());
            if self.objects_now.load(Ordering::Relaxed) > total.saturating_add(2 * more) {
                let kept = total + more;
                self.objects_now.store(kept, Ordering::Relaxed);
                share.set(Resource::Objects as usize, kept as u64);
            }
        }
    }

    /// Records how many bytes of buffers the session has.
    pub fn has_memory(&self, taken: u64) {
        if let Some(share) = &self.share {
            share.set(Resource::Memory as usize, taken);
        }
    }

    /// As [`Limits::allow_object`], for the event of a command, if that has one.
    ///
    /// # Errors
    /// As [`Limits::allow_object`].
    #[inline]
    pub fn allow_event(&self, total: usize, event: Option<EventId>) -> Result<(), Status> {
        event.map_or(Ok(()), |_| self.allow_object(total))
    }

    #[cold]
    fn refuse_object(&self) -> Status {
        let (most, whose) = (self.objects, &self.whose);
        self.tell(Resource::Objects, || {
            let sessions = self.sessions();
            format!("{whose} allows {most} objects in {sessions}: one more was refused (CL_OUT_OF_RESOURCES)")
        });
        cl::CL_OUT_OF_RESOURCES
    }

    /// Checks whether a session with `taken` bytes of buffers may have `more`.
    ///
    /// # Errors
    /// CL_MEM_OBJECT_ALLOCATION_FAILURE: it may not, and its client was told whose limit that is.
    pub fn allow_memory(&self, taken: u64, more: u64) -> Result<(), Status> {
        let Some((most, whose)) = &self.memory else { return Ok(()) };
        let all = taken.saturating_add(more);
        let (most, whose, taken, sessions) = match self.share.as_ref().zip(self.shared_memory) {
            _ if all > *most => (*most, whose, taken, if self.is_own(*most) { self.sessions() } else { "a session" }),
            None => return Ok(()),
            Some((share, together)) => match share.raise(Resource::Memory as usize, all, together) {
                Ok(()) => return Ok(()),
                Err(taken) => (together, &self.whose, taken, self.sessions()),
            },
        };
        self.tell(Resource::Memory, || {
            let (most, more, taken) = (size_text(most), size_text(more), size_text(taken));
            format!(
                "{whose} allows {most} of buffers in {sessions}, of which {taken} are taken: {more} more were refused (CL_MEM_OBJECT_ALLOCATION_FAILURE)"
            )
        });
        Err(cl::CL_MEM_OBJECT_ALLOCATION_FAILURE)
    }

    /// Whether this is the client's limit of memory, not the server's.
    fn is_own(&self, most: u64) -> bool {
        self.shared_memory == Some(most)
    }

    /// What the client's limits are for, as part of a sentence.
    fn sessions(&self) -> &'static str {
        if self.share.is_some() { "all its sessions together" } else { "a session" }
    }

    /// Leaves a notice for the client, unless it has heard of this limit just now.
    fn tell(&self, resource: Resource, text: impl FnOnce() -> String) {
        let now = Instant::now();
        let told = &mut lock(&self.told)[resource as usize];
        if told.is_none_or(|at| now.duration_since(at) >= QUIET) {
            *told = Some(now);
            self.client.outgoing.leave(&Notice { text: text() });
        }
    }
}

/// Whose limits these are, as part of a sentence.
fn whose(allowance: &Allowance) -> String {
    allowance.client.as_ref().map_or_else(|| "the server".to_owned(), |name| format!("the ticket '{name}'"))
}

/// A number of bytes for a person.
fn size_text(bytes: u64) -> String {
    let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
    let exact = units.iter().find(|(shift, _)| bytes > 0 && bytes.trailing_zeros() >= *shift);
    let large = || units.iter().find(|(shift, _)| bytes >> shift >= 10);
    exact.or_else(large).map_or_else(|| format!("{bytes} bytes"), |(shift, unit)| format!("{} {unit}", bytes >> shift))
}

#[cfg(test)]
mod tests {
    use super::size_text;

    #[test]
    fn sizes_are_short() {
        let sizes = [0, 7, 1 << 10, 48 << 20, 64 << 20, 3 << 30, (64 << 20) + 1];
        let texts = sizes.map(size_text);
        assert_eq!(texts, ["0 bytes", "7 bytes", "1 KiB", "48 MiB", "64 MiB", "3 GiB", "64 MiB"].map(str::to_owned));
    }
}
