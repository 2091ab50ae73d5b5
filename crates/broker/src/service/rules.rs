//! `pool.toml` in the broker's state folder.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use tracing::{info, warn};

use crate::core::Rules;

/// The file's name.
const FILE: &str = "pool.toml";

/// The longest file, in bytes.
const MAX_BYTES: u64 = 1 << 20;

/// By what a file is known to have changed: when it was written, and its length.
type Stamp = Option<(SystemTime, u64)>;

/// The file with the pool's rules; where there is none, everything is as by default.
#[derive(Debug)]
pub(super) struct RulesFile {
    path: PathBuf,
    /// As it was when it was read.
    read: Stamp,
    /// As it was when it was last looked at.
    seen: Stamp,
}

impl RulesFile {
    /// The file in a folder, and its rules.
    ///
    /// # Errors
    /// One sentence: it cannot be read.
    pub(super) fn open(folder: &Path) -> Result<(Self, Rules), String> {
        let path = folder.join(FILE);
        let stamp = stamp(&path);
        let rules = read(&path)?;
        Ok((Self { path, read: stamp, seen: stamp }, rules))
    }

    /// Other rules than before, if the file has changed and has rested since it was looked at last: one that is being
    /// written is read once that is over. Where it has an error, the old rules stay.
    pub(super) fn changed(&mut self) -> Option<Rules> {
        let now = stamp(&self.path);
        let rests = std::mem::replace(&mut self.seen, now) == now;
        if !rests || self.read == now {
            return None;
        }
        self.read = now;
        match read(&self.path) {
            Ok(rules) => {
                info!("the pool's rules were read again");
                Some(rules)
            }
            Err(why) => {
                warn!("the pool's rules stay as they were: {why}");
                None
            }
        }
    }
}

fn stamp(path: &Path) -> Stamp {
    let about = fs::metadata(path).ok()?;
    Some((about.modified().ok()?, about.len()))
}

fn read(path: &Path) -> Result<Rules, String> {
    let wrong = |why: &str| format!("{}: {why}", path.display());
    match fs::metadata(path) {
        Ok(about) if about.len() > MAX_BYTES => return Err(wrong(&format!("it is longer than {MAX_BYTES} bytes"))),
        _ => {}
    }
    match fs::read_to_string(path) {
        Ok(text) => Rules::parse(&text).map_err(|why| wrong(&why)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Rules::default()),
        Err(error) => Err(wrong(&error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_read_again_once_it_rests() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(FILE);
        let (mut file, rules) = RulesFile::open(folder.path()).unwrap();
        assert_eq!(rules, Rules::default());
        assert!(file.changed().is_none());
        fs::write(&path, "[queue]\nplanned = 3\n").unwrap();
        assert!(file.changed().is_none(), "it may be half written");
        assert_eq!(file.changed().unwrap().queue.planned, 3);
        assert!(file.changed().is_none());
        // With an error, the old rules stay; without the file, there are none.
        fs::write(&path, "[queue]\nplanned = 30000\n").unwrap();
        assert!(file.changed().is_none() && file.changed().is_none() && file.changed().is_none());
        fs::remove_file(&path).unwrap();
        assert!(file.changed().is_none());
        assert_eq!(file.changed(), Some(Rules::default()));
        fs::write(&path, "[queue\n").unwrap();
        let why = RulesFile::open(folder.path()).unwrap_err();
        assert!(why.contains("pool.toml: TOML parse error") && !why.contains('\n'), "{why}");
    }
}
