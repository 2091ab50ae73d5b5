//! A disk that is soon full.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::notes::skipped;

/// A small disk; taken away when dropped.
pub struct SmallDisk {
    folder: TempDir,
    bytes: usize,
}

impl SmallDisk {
    /// One of this size that is empty; skips the test where nobody may mount one.
    pub fn or_skip(bytes: usize) -> Option<Self> {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={bytes},mode=0700"), "ropeway-small-disk"]).arg(folder.path());
        if mount.output().is_ok_and(|mounted| mounted.status.success()) {
            return Some(Self { folder, bytes });
        }
        skipped("a small disk cannot be mounted: that takes root");
        None
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Fills it; what was written can be removed again.
    pub fn fill(&self) -> PathBuf {
        let all = self.path().join("all");
        assert!(fs::write(&all, vec![7; 2 * self.bytes]).is_err(), "the disk is larger than it was asked to be");
        all
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // It goes away once nobody uses it.
        let _ = Command::new("umount").arg("--lazy").arg(self.path()).status();
    }
}
