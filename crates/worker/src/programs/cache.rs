//! Program sources and binaries that clients sent, on disk under the names of their contents.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use ropeway_protocol::content::ContentHash;
use ropeway_protocol::limits::MAX_CONTENT;
use rustc_hash::FxHashMap;

use crate::base::budget::Budget;
use crate::base::lock::lock;

/// Prefix of files that are being written.
const PARTIAL: &str = "partial-";

/// The age from which a partial file counts as abandoned.
const ABANDONED: std::time::Duration = std::time::Duration::from_secs(3600);

/// A file used more recently than this keeps its time of last use.
const FRESH: std::time::Duration = std::time::Duration::from_secs(10);

static NEXT: AtomicU64 = AtomicU64::new(0);

/// The cache: a folder shared by all workers of a server, and the contents that this session received while the folder
/// failed.
#[derive(Debug)]
pub struct Cache {
    folder: Option<PathBuf>,
    max_bytes: u64,
    /// Contents that could not be written to the folder.
    kept: Mutex<Kept>,
    /// The budget of memory for the session's unfinished work. Contents take from it while they arrive and while they
    /// are kept.
    staged: Arc<Budget>,
}

/// Contents in memory.
#[derive(Debug, Default)]
struct Kept {
    contents: FxHashMap<ContentHash, Vec<u8>>,
    /// The names of the contents, oldest first.
    order: VecDeque<ContentHash>,
}

impl Cache {
    /// Makes a cache in `folder`, of at most `max_bytes`; without a folder, contents are kept in memory as long as the
    /// session lasts, or until other work needs their share of `staged`.
    pub fn new(folder: Option<PathBuf>, max_bytes: u64, staged: Arc<Budget>) -> Self {
        Self { folder, max_bytes, kept: Mutex::default(), staged }
    }

    /// Takes memory for an arriving piece of contents, which [`Cache::put`] gives back; contents kept in memory are
    /// dropped for it, the oldest first. Returns false if there is not enough.
    pub fn make_room(&self, len: usize) -> bool {
        while !self.staged.take(len) {
            let mut kept = lock(&self.kept);
            let oldest = kept.order.pop_front().and_then(|oldest| kept.contents.remove(&oldest));
            let Some(oldest) = oldest else { return false };
            self.staged.give_back(oldest.len());
        }
        true
    }

    /// The contents of this name, if they are held and whole.
    pub fn get(&self, hash: &ContentHash) -> Option<Vec<u8>> {
        if let Some(content) = lock(&self.kept).contents.get(hash) {
            return Some(content.clone());
        }
        let path = self.folder.as_ref()?.join(hash.hex());
        let file = File::open(&path).ok()?;
        let about = file.metadata().ok()?;
        let size = usize::try_from(about.len()).ok().filter(|size| *size <= MAX_CONTENT)?;
        let mut content = vec![0; size];
        let whole = (&file).read_exact(&mut content);
        if whole.is_err() || ContentHash::of(&content) != *hash {
            // The file was cut short by a full disk, or damaged: treat it as missing.
            let _ = fs::remove_file(&path);
            return None;
        }
        // The time of last use decides what is evicted first. On a read-only folder nothing is evicted either.
        let now = SystemTime::now();
        if about.modified().is_ok_and(|used| now.duration_since(used).unwrap_or(FRESH) >= FRESH) {
            let _ = file.set_modified(now);
        }
        Some(content)
    }

    /// Keeps contents whose name was checked, and for which [`Cache::make_room`] has taken memory. If the folder fails,
    /// they are kept in memory for this session.
    pub fn put(&self, hash: ContentHash, content: Vec<u8>) {
        let stored = match &self.folder {
            Some(folder) => self.store(folder, &hash, &content),
            None => Err(io::ErrorKind::NotFound.into()),
        };
        if stored.is_ok() {
            return self.staged.give_back(content.len());
        }
        let mut kept = lock(&self.kept);
        match kept.contents.insert(hash, content) {
            None => kept.order.push_back(hash),
            // The same contents were kept already.
            Some(before) => self.staged.give_back(before.len()),
        }
    }

    fn store(&self, folder: &Path, hash: &ContentHash, content: &[u8]) -> io::Result<()> {
        if content.len() as u64 > self.max_bytes {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        fs::create_dir_all(folder)?;
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let partial = folder.join(format!("{PARTIAL}{}-{number}", std::process::id()));
        let written = File::create(&partial).and_then(|mut file| file.write_all(content));
        let stored = written.and_then(|()| fs::rename(&partial, folder.join(hash.hex())));
        if stored.is_err() {
            // A full disk: leave nothing behind.
            let _ = fs::remove_file(&partial);
        }
        stored?;
        self.evict(folder)
    }

    /// Removes what was used longest ago until the rest is within bounds.
    fn evict(&self, folder: &Path) -> io::Result<()> {
        let mut files = Vec::new();
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            // Another worker may have evicted it just now.
            let Ok(meta) = entry.metadata() else { continue };
            let used = meta.modified()?;
            if entry.file_name().to_string_lossy().starts_with(PARTIAL) {
                if used.elapsed().is_ok_and(|age| age > ABANDONED) {
                    let _ = fs::remove_file(entry.path());
                }
                continue;
            }
            files.push((used, meta.len(), entry.path()));
        }
        let mut total: u64 = files.iter().map(|(_, len, _)| len).sum();
        files.sort();
        for (_, len, path) in files {
            if total <= self.max_bytes {
                break;
            }
            if fs::remove_file(path).is_ok() {
                total -= len;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let folder = std::env::temp_dir().join(format!("ropeway-cache-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&folder);
            Self(folder)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn cache(folder: Option<PathBuf>, max_bytes: u64) -> Cache {
        Cache::new(folder, max_bytes, Arc::new(Budget::new(1 << 20)))
    }

    fn put(cache: &Cache, content: &[u8]) -> ContentHash {
        let hash = ContentHash::of(content);
        assert!(cache.make_room(content.len()));
        cache.put(hash, content.to_vec());
        hash
    }

    #[test]
    fn gives_back_what_it_was_given() {
        let folder = Folder::new("plain");
        let hash = put(&cache(Some(folder.0.clone()), 1 << 20), b"kernel");
        assert_eq!(cache(Some(folder.0.clone()), 1 << 20).get(&hash).as_deref(), Some(&b"kernel"[..]));
        assert_eq!(cache(Some(folder.0.clone()), 1 << 20).get(&ContentHash::of(b"other")), None);
    }

    #[test]
    fn does_not_give_back_what_was_damaged() {
        let folder = Folder::new("damaged");
        let cache = cache(Some(folder.0.clone()), 1 << 20);
        let hash = put(&cache, b"kernel");
        fs::write(folder.0.join(hash.hex()), b"kerne").unwrap();
        assert_eq!(cache.get(&hash), None);
        assert!(!folder.0.join(hash.hex()).exists());
    }

    #[test]
    fn stays_within_its_bounds_and_keeps_what_was_used_last() {
        let folder = Folder::new("bounds");
        let cache = cache(Some(folder.0.clone()), 250);
        let old = put(&cache, &[1; 100]);
        let used = put(&cache, &[2; 100]);
        let past = SystemTime::now() - std::time::Duration::from_secs(60);
        for hash in [&old, &used] {
            File::options().write(true).open(folder.0.join(hash.hex())).unwrap().set_modified(past).unwrap();
        }
        assert!(cache.get(&used).is_some());
        let new = put(&cache, &[3; 100]);
        assert_eq!([old, used, new].map(|hash| cache.get(&hash).is_some()), [false, true, true]);
    }

    #[test]
    fn works_for_the_session_without_a_folder() {
        let cache = cache(Some("/proc/no-such-folder".into()), 1 << 20);
        let hash = put(&cache, b"kernel");
        assert!(cache.get(&hash).is_some());
    }
}
