//! The devices of this machine, where it is a virtual one.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;

use super::{MAGIC, NAME, PartPlace};
use crate::shm::{Memory, Rings};

/// The most that a client tells of.
const MOST: usize = 8;

/// Where the system lists them.
const DEVICES: &str = "/sys/bus/pci/devices";

/// A page.
const PAGE: u64 = 4096;

/// A device that this process may use and that a server uses, too.
#[derive(Debug)]
pub(crate) struct Device {
    file: OwnedFd,
    pub(crate) name: [u8; NAME],
}

impl Device {
    /// All of this machine.
    pub(crate) fn all() -> Vec<Self> {
        Self::listed(Path::new(DEVICES))
    }

    /// Those that are listed in this folder. What cannot be read or used is none.
    pub(super) fn listed(folder: &Path) -> Vec<Self> {
        // Others order what is written to memory that is mapped as a device's in ways of their own.
        if !cfg!(target_arch = "x86_64") {
            return Vec::new();
        }
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries.filter_map(|entry| Self::at(&entry.path())).take(MOST).collect()
    }

    fn at(folder: &Path) -> Option<Self> {
        let says = |file: &str, id: &str| fs::read_to_string(folder.join(file)).is_ok_and(|text| text.trim() == id);
        // Red Hat's number for QEMU's devices, and the one of this.
        if !says("vendor", "0x1af4") || !says("device", "0x1110") {
            return None;
        }
        // The other one is slower where the host lets the guest decide how its memory is cached.
        let file = ["resource2_wc", "resource2"].iter().find_map(|file| open(&folder.join(file)).ok())?;
        let name = name_in(&file).ok()??;
        Some(Self { file, name })
    }

    /// Maps a client's ends of the rings in a part of it, for a link with this socket.
    ///
    /// # Errors
    /// The operating system's error; [`io::ErrorKind::InvalidData`] for a part that cannot be.
    pub(crate) fn rings(&self, place: PartPlace, socket: BorrowedFd<'_>) -> io::Result<Rings> {
        Rings::in_device(&self.file, place, socket)
    }
}

fn open(path: &Path) -> io::Result<OwnedFd> {
    OpenOptions::new().read(true).write(true).open(path).map(OwnedFd::from)
}

/// The name that a server has given a device; `None`: none uses it.
fn name_in(file: &OwnedFd) -> io::Result<Option<[u8; NAME]>> {
    // A file without a length is no memory.
    if File::from(file.try_clone()?).metadata()?.len() < PAGE {
        return Ok(None);
    }
    let memory = Memory::map(file, 0..PAGE)?;
    let mut head = [0; MAGIC.len() + NAME];
    memory.copy_out(0, &mut head);
    let name = head.strip_prefix(&MAGIC[..]).and_then(|name| name.try_into().ok());
    Ok(name)
}
