//! The files with a server's certificate, its clients' authorities and what these have revoked, which are read again when
//! they are replaced.

use std::collections::BTreeSet;
use std::fs;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use ropeway_transport::tls::{CertificateFiles, Credentials};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};

/// What tells a file from the one before under its name: device, number, bytes, and when it was written and changed.
type Stamp = (u64, u64, u64, (i64, i64), (i64, i64));

/// The files, and whether anything happens where they are.
#[derive(Debug)]
pub(super) struct Certificates {
    files: CertificateFiles,
    /// Watches the folders of the files, and of those that they are links to.
    watch: OwnedFd,
    /// The files as they were read last.
    seen: Vec<Option<Stamp>>,
    /// Why they could not be used then.
    told: Option<String>,
}

impl Certificates {
    /// Reads the files, and watches them from then on.
    ///
    /// # Errors
    /// One sentence: one is of no use, or cannot be watched.
    pub(super) fn open(files: CertificateFiles) -> Result<(Self, Credentials), String> {
        let system = |error: rustix::io::Errno| format!("cannot watch the certificates: {error}");
        let watch = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).map_err(system)?;
        let mut this = Self { files, watch, seen: Vec::new(), told: None };
        // Before they are read, so that no change is missed.
        this.follow().map_err(system)?;
        this.seen = this.stamps();
        let credentials = Credentials::read(&this.files)?;
        Ok((this, credentials))
    }

    /// Watches the folders where the files are now.
    fn follow(&self) -> rustix::io::Result<()> {
        let kinds = WatchFlags::CLOSE_WRITE | WatchFlags::MOVED_TO | WatchFlags::CREATE | WatchFlags::ATTRIB;
        let folder = |path: &Path| match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
            _ => PathBuf::from("."),
        };
        let targets = self.files.all().filter_map(|path| fs::canonicalize(path).ok());
        let folders: BTreeSet<_> = self.files.all().map(folder).collect();
        for folder in &folders {
            inotify::add_watch(&self.watch, folder, kinds)?;
        }
        // A link may lead to where this server may read one file alone.
        for folder in targets.map(|path| folder(&path)).filter(|folder| !folders.contains(folder)) {
            let _ = inotify::add_watch(&self.watch, folder, kinds);
        }
        Ok(())
    }

    fn stamps(&self) -> Vec<Option<Stamp>> {
        let stamp = |path: &Path| {
            let about = fs::metadata(path).ok()?;
            let (written, changed) = ((about.mtime(), about.mtime_nsec()), (about.ctime(), about.ctime_nsec()));
            Some((about.dev(), about.ino(), about.len(), written, changed))
        };
        self.files.all().map(stamp).collect()
    }

    /// Takes in what has happened; whether a file may have become another. One that was begun has not, before it is
    /// closed; a link has.
    fn is_touched(&self) -> bool {
        let is_link = |path: &Path| path.symlink_metadata().is_ok_and(|about| about.is_symlink());
        let has_links = self.files.all().any(is_link);
        let mut events = [const { MaybeUninit::uninit() }; 4096];
        let mut reader = inotify::Reader::new(&self.watch, &mut events);
        let mut is_touched = false;
        while let Ok(event) = reader.next() {
            is_touched |= event.events() != ReadFlags::CREATE || has_links;
        }
        is_touched
    }

    /// Reads the files again, if one is another than before.
    pub(super) fn reread(&mut self) -> Option<Result<Credentials, String>> {
        if !self.is_touched() {
            return None;
        }
        // Links may lead elsewhere now. A folder that is gone is named by the error of reading.
        let _ = self.follow();
        let stamps = self.stamps();
        if stamps == self.seen {
            return None;
        }
        self.seen = stamps;
        Some(Credentials::read(&self.files))
    }

    /// What was read last is of use.
    pub(super) fn are_in_force(&mut self) {
        self.told = None;
    }

    /// Whether this is another reason than the last.
    pub(super) fn is_news(&mut self, why: &str) -> bool {
        let is_news = self.told.as_deref() != Some(why);
        self.told = Some(why.to_owned());
        is_news
    }
}

impl AsFd for Certificates {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.watch.as_fd()
    }
}
