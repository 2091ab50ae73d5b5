//! Control groups: what all processes of a session together may take of the machine.
//!
//! Each worker is in a group of its own, which bounds its main memory and its tasks (processes and threads): those of
//! what it starts count, too, and cannot leave the group. The server makes the group before the worker is started, and
//! the worker enters it before it loads a driver. So a session begins without any of this.
//!
//! ```text
//! <where the server is>/ropeway-<server>/<n>      a worker
//! ```

pub(crate) mod hierarchy;
mod place;
mod sweep;

use std::cell::Cell;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use tracing::debug;

use hierarchy::{Controller, Own, Version};
use place::Place;
use sweep::{Doomed, FAREWELL};

/// The room between what a session may take and what the system lets its group take: the server ends a session that
/// takes too much with a sentence for its client, which the system does not. It has this part of the limit ...
const ROOM_PART: u64 = 16;

/// ... and these bytes. Files that are read count in a group, but make room for others.
const ROOM: u64 = 64 << 20;

/// What the group of a worker is bounded by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// The most bytes of main memory that a session may take.
    pub(crate) memory: u64,
    /// The most processes and threads.
    pub(crate) tasks: u64,
}

/// The control groups of one server's workers.
#[derive(Clone)]
pub(crate) struct Groups(Rc<Inner>);

struct Inner {
    places: Vec<Place>,
    bounds: Bounds,
    next: Cell<u64>,
    /// Groups to remove, in a thread of its own: processes that were killed take a while to go.
    doomed: Option<Sender<Doomed>>,
    swept: Receiver<()>,
}

impl Groups {
    /// Makes this server's, and removes those of servers that are gone.
    ///
    /// Beside them is why some resources have no bound, if so: part of a sentence for a person. Without any, there are
    /// no groups.
    ///
    /// # Errors
    /// The system's, for a thread.
    pub(crate) fn open(bounds: Bounds) -> io::Result<(Option<Self>, Vec<String>)> {
        let (doomed, to_remove) = channel();
        let mut hierarchies: Vec<(Own, Vec<Controller>)> = Vec::new();
        let mut missing = Vec::new();
        for controller in [Controller::Memory, Controller::Pids] {
            match Own::of(controller) {
                None => missing.push(format!("{}: no control groups can be seen", controller.name())),
                Some(own) => match hierarchies.iter_mut().find(|(other, _)| *other == own) {
                    Some((_, controllers)) => controllers.push(controller),
                    None => hierarchies.push((own, vec![controller])),
                },
            }
        }
        let mut places = Vec::new();
        for (own, controllers) in hierarchies {
            let names = controllers.iter().map(|controller| controller.name()).collect::<Vec<_>>().join(" and ");
            let abandoned = |folder, lock| drop(doomed.send(Doomed { folder, _lock: Some(lock) }));
            match Place::make(&own, controllers, abandoned) {
                Ok(place) => places.push(place),
                Err(why) => missing.push(format!("{names}: {why}")),
            }
        }
        if places.is_empty() {
            return Ok((None, missing));
        }
        let (done, swept) = channel();
        thread::Builder::new().name("group-sweeper".to_owned()).spawn(move || {
            sweep::run(&to_remove);
            let _ = done.send(());
        })?;
        let inner = Inner { places, bounds, next: Cell::new(0), doomed: Some(doomed), swept };
        Ok((Some(Self(Rc::new(inner))), missing))
    }

    /// Makes a group for one worker.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn for_worker(&self) -> io::Result<Group> {
        let number = self.0.next.get();
        self.0.next.set(number + 1);
        // What has been made is removed if something cannot be.
        let mut group = Group { parts: Vec::new(), of: self.clone() };
        for place in &self.0.places {
            let folder = place.folder.join(number.to_string());
            fs::create_dir(&folder)?;
            let part = Part { version: place.version, has_memory: false, folder };
            group.parts.push(part);
            for controller in &place.controllers {
                let Some(part) = group.parts.last_mut() else { continue };
                match controller {
                    Controller::Memory => {
                        part.has_memory = true;
                        part.bound_memory(self.0.bounds.memory)?;
                    }
                    Controller::Pids => fs::write(part.folder.join("pids.max"), self.0.bounds.tasks.to_string())?,
                }
            }
        }
        Ok(group)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Some(doomed) = self.doomed.take() {
            for place in &self.places {
                let _ = doomed.send(Doomed { folder: place.folder.clone(), _lock: None });
            }
        }
        let _ = self.swept.recv_timeout(FAREWELL);
    }
}

/// The group of one worker. Dropping it, once the worker has ended, ends what is left in it and removes it.
pub(crate) struct Group {
    parts: Vec<Part>,
    of: Groups,
}

/// A group in one hierarchy.
struct Part {
    version: Version,
    /// Whether it bounds and counts memory.
    has_memory: bool,
    folder: PathBuf,
}

impl Group {
    /// Lets a worker's process find its group.
    pub(crate) fn prepare(&self, command: &mut Command) {
        for part in &self.parts {
            command.arg("--group").arg(&part.folder);
        }
    }

    /// Bounds the memory for a session that may take these bytes.
    pub(crate) fn bound_memory(&self, bytes: u64) {
        // A bound that is passed already would have the system kill the group at once; the server ends the session with a
        // sentence for its client.
        if self.taken().is_none_or(|taken| taken > bytes) {
            return;
        }
        if let Some(Err(error)) = self.memory().map(|part| part.bound_memory(bytes)) {
            debug!(%error, "a session's control group keeps the bound of all");
        }
    }

    /// Returns the main memory that all processes of the group hold, in bytes, resident or swapped, without what
    /// is read from files.
    pub(crate) fn taken(&self) -> Option<u64> {
        let part = self.memory()?;
        let stat = fs::read_to_string(part.folder.join("memory.stat")).ok()?;
        let sum = |names: &[&str]| names.iter().map(|name| field(&stat, name)).sum::<Option<u64>>();
        match part.version {
            Version::One => Some(sum(&["total_rss", "total_shmem"])? + field(&stat, "total_swap").unwrap_or(0)),
            Version::Two => {
                let swapped = fs::read_to_string(part.folder.join("memory.swap.current")).ok();
                Some(sum(&["anon", "shmem"])? + swapped.and_then(|text| text.trim().parse().ok()).unwrap_or(0))
            }
        }
    }

    /// Whether the system has killed a process of the group for want of memory.
    pub(crate) fn was_over(&self) -> bool {
        let events = |part: &Part| {
            let file = match part.version {
                Version::One => "memory.oom_control",
                Version::Two => "memory.events",
            };
            field(&fs::read_to_string(part.folder.join(file)).ok()?, "oom_kill")
        };
        self.memory().and_then(events).is_some_and(|kills| kills > 0)
    }

    fn memory(&self) -> Option<&Part> {
        self.parts.iter().find(|part| part.has_memory)
    }
}

impl Part {
    fn bound_memory(&self, bytes: u64) -> io::Result<()> {
        // Nothing is known of how much there is.
        if bytes == u64::MAX {
            return Ok(());
        }
        let most = bytes.saturating_add(bytes / ROOM_PART).saturating_add(ROOM);
        // Signed in the first version.
        let most = most.min(u64::MAX / 2).to_string();
        match self.version {
            Version::One => {
                fs::write(self.folder.join("memory.limit_in_bytes"), &most)?;
                // With swap; the system may have been started without that.
                match fs::write(self.folder.join("memory.memsw.limit_in_bytes"), &most) {
                    Err(error) if is_absent(&error) => Ok(()),
                    written => written,
                }
            }
            Version::Two => {
                fs::write(self.folder.join("memory.max"), &most)?;
                // A session whose process is killed has come to nothing: so that all of it ends.
                fs::write(self.folder.join("memory.oom.group"), "1")
            }
        }
    }
}

/// Whether a control file is not there: it cannot be made.
fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied)
}

/// The number behind a name in a control group's file.
fn field(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok())
}

impl Drop for Group {
    fn drop(&mut self) {
        for part in &self.parts {
            if let Some(doomed) = &self.of.0.doomed {
                let _ = doomed.send(Doomed { folder: part.folder.clone(), _lock: None });
            }
        }
    }
}

/// Moves this process, a worker, into its group.
///
/// # Errors
/// The system's.
pub(crate) fn enter(folder: &Path) -> io::Result<()> {
    place::enter(folder)
}

#[cfg(test)]
mod tests;
