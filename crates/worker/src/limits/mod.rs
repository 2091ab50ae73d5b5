//! The limits of a session, and the client's news of what they stop.

pub mod clock;

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ropeway_abi as cl;
use ropeway_protocol::ids::EventId;
use ropeway_protocol::messages::Notice;
use ropeway_protocol::types::Status;

use crate::base::allowance::Allowance;
use crate::base::lock::lock;
use crate::link::client::Client;

/// How long the client hears nothing more of a limit that it has been told of.
const QUIET: Duration = Duration::from_secs(5);

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
    /// Live objects, of all kinds together.
    objects: usize,
    /// Whose limits all others are, as part of a sentence.
    whose: String,
    client: Arc<Client>,
    /// When the client was last told of each limit.
    told: Mutex<[Option<Instant>; RESOURCES]>,
}

impl Limits {
    /// The limits that `allowance` sets; `memory_quota` is what the server's options allow any session.
    pub fn new(client: Arc<Client>, allowance: &Allowance, memory_quota: Option<u64>) -> Self {
        let whose = whose(allowance);
        let of_server = memory_quota.map(|bytes| (bytes, "--session-memory of `ropeway serve`".to_owned()));
        let of_client = allowance.memory.map(|bytes| (bytes, whose.clone()));
        let memory = of_server.into_iter().chain(of_client).min_by_key(|(bytes, _)| *bytes);
        let objects = allowance.objects.map_or(usize::MAX, |most| usize::try_from(most).unwrap_or(usize::MAX));
        Self { memory, objects, whose, client, told: Mutex::default() }
    }

    /// Checks whether a session with `total` objects may have one more.
    ///
    /// # Errors
    /// CL_OUT_OF_RESOURCES: it may not, and its client was told whose limit that is.
    #[inline]
    pub fn allow_object(&self, total: usize) -> Result<(), Status> {
        if total < self.objects { Ok(()) } else { Err(self.refuse_object()) }
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
            format!("{whose} allows a session {most} objects: one more was refused (CL_OUT_OF_RESOURCES)")
        });
        cl::CL_OUT_OF_RESOURCES
    }

    /// Checks whether a session with `taken` bytes of buffers may have `more`.
    ///
    /// # Errors
    /// CL_MEM_OBJECT_ALLOCATION_FAILURE: it may not, and its client was told whose limit that is.
    pub fn allow_memory(&self, taken: u64, more: u64) -> Result<(), Status> {
        let Some((most, whose)) = &self.memory else { return Ok(()) };
        if taken.checked_add(more).is_some_and(|all| all <= *most) {
            return Ok(());
        }
        self.tell(Resource::Memory, || {
            let (most, more, taken) = (size_text(*most), size_text(more), size_text(taken));
            format!(
                "{whose} allows a session {most} of buffers, and it has {taken}: {more} more were refused (CL_MEM_OBJECT_ALLOCATION_FAILURE)"
            )
        });
        Err(cl::CL_MEM_OBJECT_ALLOCATION_FAILURE)
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
