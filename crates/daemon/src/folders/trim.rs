//! Keeps a client's compiler caches below their bound: what has not been used for longest goes first.

use std::cmp::Reverse;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::make;

/// A file of a cache, and how long ago it was used.
struct Entry {
    used: (i64, i64),
    bytes: u64,
    path: PathBuf,
}

/// Removes files from the caches in `home` until they have no more than `most` bytes together.
///
/// Meanwhile they are in `aside`, where no worker can be given them: it could put links in place of folders. A session
/// that begins then finds none of them.
///
/// # Errors
/// The file system's. What is left in `aside` goes with it.
pub(super) fn trim(home: &Path, aside: &Path, most: u64) -> io::Result<()> {
    let size = |entries: &[Entry]| entries.iter().map(|entry| entry.bytes).sum::<u64>();
    if size(&entries(home)) <= most {
        return Ok(());
    }
    make(aside)?;
    let mut taken = Vec::new();
    for cache in fs::read_dir(home)?.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
        // A session that has just begun may have it.
        if fs::rename(cache.path(), aside.join(cache.file_name())).is_ok() {
            taken.push(cache.file_name());
        }
    }
    let mut entries = entries(aside);
    let mut total = size(&entries);
    entries.sort_by_key(|entry| Reverse(entry.used));
    while let Some(entry) = entries.pop().filter(|_| total > most) {
        fs::remove_file(&entry.path)?;
        total -= entry.bytes;
    }
    for cache in taken {
        let there = aside.join(&cache);
        prune(&there);
        // A session that has ended meanwhile may have put its own there.
        if fs::rename(&there, home.join(&cache)).is_err() {
            fs::remove_dir_all(&there)?;
        }
    }
    Ok(())
}

/// All that is no folder, below this one. Links are not followed.
fn entries(folder: &Path) -> Vec<Entry> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let Ok(about) = entry.metadata() else { continue };
            if about.is_dir() {
                folders.push(entry.path());
                continue;
            }
            // Many file systems write down only now and then when a file was read.
            let used = (about.atime(), about.atime_nsec()).max((about.mtime(), about.mtime_nsec()));
            found.push(Entry { used, bytes: about.len(), path: entry.path() });
        }
    }
    found
}

/// Removes the folders below this one that have nothing in them.
fn prune(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            prune(&entry.path());
            // One with something in it stays.
            let _ = fs::remove_dir(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::time::{Duration, SystemTime};

    use super::*;

    fn file(path: &Path, bytes: u64, age: u64) {
        make(path.parent().unwrap()).unwrap();
        let file = File::create(path).unwrap();
        file.set_len(bytes).unwrap();
        let used = SystemTime::now() - Duration::from_secs(age);
        file.set_times(fs::FileTimes::new().set_accessed(used).set_modified(used)).unwrap();
    }

    #[test]
    fn what_was_not_used_for_longest_goes_first() {
        let root = tempfile::tempdir().unwrap();
        let (home, aside) = (root.path().join("home"), root.path().join("aside"));
        file(&home.join("0/a/old"), 100, 900);
        file(&home.join("0/b/new"), 100, 10);
        file(&home.join("1/older"), 100, 1000);
        file(&home.join("1/newer"), 100, 20);
        file(&home.join("of"), 0, 2000);
        std::os::unix::fs::symlink("/", home.join("1/link")).unwrap();
        trim(&home, &aside, 1000).unwrap();
        assert_eq!(entries(&home).len(), 6);
        trim(&home, &aside, 250).unwrap();
        let mut left: Vec<_> = entries(&home).into_iter().filter(|entry| entry.bytes == 100).collect();
        left.sort_by_key(|entry| Reverse(entry.used));
        let left: Vec<_> = left.into_iter().map(|entry| entry.path).collect();
        assert_eq!(left, [home.join("0/b/new"), home.join("1/newer")]);
        assert!(!home.join("0/a").exists() && home.join("of").exists());
        trim(&home, &aside, 0).unwrap();
        assert!(home.join("0").is_dir() && !home.join("0/b").exists());
        assert_eq!(fs::read_dir(&aside).unwrap().count(), 0);
    }
}
