//! What each worker has for itself, where the server can give it.

use std::io;

use tracing::warn;

use crate::folders::{Folder, Folders};
use crate::groups::{Bounds, Group, Groups};
use crate::{ServeError, ServeOptions};

/// The folders and control groups of a server's workers.
#[derive(Clone, Default)]
pub(crate) struct Rooms {
    /// For temporary files and compilers' caches.
    pub(crate) folders: Option<Folders>,
    /// For bounds of memory and tasks.
    pub(crate) groups: Option<Groups>,
}

impl Rooms {
    /// Makes what this server can make, for sessions that may take `memory` bytes of main memory each. The log says what
    /// is missing.
    ///
    /// # Errors
    /// The system has no more threads.
    pub(crate) fn open(options: &ServeOptions, memory: u64) -> Result<Self, ServeError> {
        Ok(Self { folders: folders(options), groups: groups(options, memory)? })
    }

    /// Makes those of one worker.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn for_worker(&self) -> io::Result<(Option<Folder>, Option<Group>)> {
        let folder = self.folders.as_ref().map(Folders::for_worker).transpose()?;
        let group = self.groups.as_ref().map(Groups::for_worker).transpose();
        let group = group.map_err(|error| io::Error::new(error.kind(), format!("no control group for it: {error}")))?;
        Ok((folder, group))
    }
}

/// The folders of the workers. On a server that tells its clients apart, each client has caches of its own.
fn folders(options: &ServeOptions) -> Option<Folders> {
    let root = options.folders.as_deref()?;
    let user = options.worker_user.clone();
    // Another user cannot use the caches of this server's.
    let own_caches = options.state.is_some() || options.local_users.is_some() || user.is_some();
    let folders = Folders::open(root, own_caches, user, options.state.as_deref());
    let why = "workers share temporary files and compiler caches: no folders can be made for each";
    folders.inspect_err(|error| warn!(%error, folder = %root.display(), "{why}")).ok()
}

/// The control groups of the workers.
fn groups(options: &ServeOptions, memory: u64) -> Result<Option<Groups>, ServeError> {
    if !options.control_groups {
        return Ok(None);
    }
    let opened = Groups::open(Bounds { memory, tasks: options.session_tasks });
    let (groups, missing) = opened.map_err(|error| ServeError::System("start a thread", error))?;
    if !missing.is_empty() {
        warn!(
            "sessions have no control groups for all that they should have, so what a session starts has no bound of its own \
             ({}); docs/security.md says how to have them (Control groups)",
            missing.join("; ")
        );
    }
    Ok(groups)
}
