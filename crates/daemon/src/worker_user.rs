//! The user that workers run as, where the server is root's.

use std::ffi::CString;
use std::io;

use nix::unistd::{Gid, Uid, User, initgroups, setgid, setuid};

/// A user for workers, without root's files and rights.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WorkerUser {
    name: CString,
    user: Uid,
    group: Gid,
}

impl WorkerUser {
    /// The user of this name.
    ///
    /// # Errors
    /// One sentence for a person: there is none, it is root, or this process is not root's and stays who it is.
    pub fn named(name: &str) -> Result<Self, String> {
        if !rustix::process::geteuid().is_root() {
            return Err("only root's server can run workers as another user (--worker-user)".to_owned());
        }
        let user = User::from_name(name).map_err(|error| format!("cannot look up the user '{name}': {error}"))?;
        let user = user.ok_or_else(|| format!("this machine has no user '{name}'"))?;
        if user.uid.is_root() {
            return Err(format!("'{name}' is root: workers need a user that has fewer rights (--worker-user)"));
        }
        let name = CString::new(name).map_err(|_| "a user's name has a zero byte".to_owned())?;
        Ok(Self { name, user: user.uid, group: user.gid })
    }

    /// Makes this process the user's, for good, with its groups: those of devices among them.
    pub(crate) fn take_over(&self) -> io::Result<()> {
        initgroups(&self.name, self.group)?;
        setgid(self.group)?;
        setuid(self.user)?;
        Ok(())
    }

    /// Gives a file or folder to the user.
    pub(crate) fn own(&self, path: &std::path::Path) -> io::Result<()> {
        std::os::unix::fs::chown(path, Some(self.user.as_raw()), Some(self.group.as_raw()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_are_not_roots_and_not_nobodys() {
        let told = |name: &str| WorkerUser::named(name).unwrap_err();
        if rustix::process::geteuid().is_root() {
            assert!(told("root").contains("is root"));
            assert!(told("no such user here").contains("no user"));
        } else {
            assert!(told("root").contains("only root's server"));
        }
    }
}
