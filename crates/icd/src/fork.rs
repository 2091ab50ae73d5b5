//! Descriptors that a forked child inherits and must not keep.
//!
//! A child has copies of this process's connections. The server would go on, and hold all that the session has, for as
//! long as the child lives, although the program is gone. So every child of `fork` begins by replacing them; it needs
//! to call nothing for that, and the parent's own are untouched.
//!
//! Processes started with `vfork`, `posix_spawn` or `fork` and `exec` have none to begin with: all are closed by
//! `exec`. Only a child that is made with the bare system call `clone`, past the C library, and does not `exec`, keeps
//! them.

use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::sync::OnceLock;

use ropeway_client::inherited;
use rustix::io::{DupFlags, dup3};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

/// A socket that was never connected, to be put in the place of those that were: their numbers stay taken, so that
/// whatever in the child still names one finds nothing of the child's own there.
static NOWHERE: OnceLock<Option<OwnedFd>> = OnceLock::new();

/// From now on children begin with that.
pub fn prepare() {
    NOWHERE.get_or_init(|| {
        let nowhere = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
            .inspect_err(|error| ropeway_client::error!("children of this process may keep its connections: {error}"));
        // SAFETY: the handler is a function without arguments that stays where it is, as the library's threads keep it
        // from being unloaded, and that does only what is allowed in the child of a process with several threads.
        let registered = unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
        if registered != 0 {
            ropeway_client::error!("children of this process may keep its connections: no memory");
        }
        nowhere.ok()
    });
}

/// Runs in the child before `fork` returns there. Any lock may be held by a thread that the child does not have: this
/// takes none, allocates nothing, and makes no calls but `dup3` and `close`.
extern "C" fn in_child() {
    for fd in inherited::all() {
        // SAFETY: the child's copy of a descriptor that its parent owns, and that nobody in the child reads or closes:
        // of the threads only this one is there, and the library turns it away.
        let copy = unsafe { OwnedFd::from_raw_fd(fd) };
        match NOWHERE.get() {
            Some(Some(nowhere)) => {
                // Its owner in the parent's memory, which the child has a copy of, is still its owner.
                let mut copy = ManuallyDrop::new(copy);
                let _ = dup3(nowhere.as_fd(), &mut copy, DupFlags::CLOEXEC);
            }
            Some(None) | None => drop(copy),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn a_child_does_not_keep_a_connection_open() {
        let (near, mut far) = UnixStream::pair().unwrap();
        let kept = inherited::Kept::from_children(&near);
        prepare();
        // SAFETY: the child only sleeps, in system calls, until it is killed.
        let child = unsafe { libc::fork() };
        assert!(child >= 0);
        if child == 0 {
            loop {
                // SAFETY: no conditions.
                unsafe { libc::pause() };
            }
        }
        drop(kept);
        drop(near);
        far.set_read_timeout(Some(std::time::Duration::from_secs(10))).unwrap();
        let ended = far.read(&mut [0]);
        let child = rustix::process::Pid::from_raw(child).unwrap();
        rustix::process::kill_process(child, rustix::process::Signal::KILL).unwrap();
        rustix::process::waitpid(Some(child), rustix::process::WaitOptions::empty()).unwrap();
        assert_eq!(ended.unwrap(), 0, "the end of the stream, although the child is there");
    }
}
