//! The leases that are over, on disk: a server that is started again while there is no broker lets their holders in no
//! more, whatever their proofs say.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use ropeway_lease::grant::LeaseId;
use ropeway_transport::private_file;
use serde::{Deserialize, Serialize};
use tracing::warn;

/// The file's name in the server's state folder.
const FILE: &str = "leases.json";

/// Which leases are over, as far as a server knows.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(super) struct Known {
    /// Nothing is known of leases with a higher number.
    pub(super) latest: LeaseId,
    /// Of the others, those that are not over.
    pub(super) open: Vec<LeaseId>,
}

/// The file with what is known.
#[derive(Debug)]
pub(super) struct Kept {
    path: PathBuf,
    /// The broker's key: another broker's leases have the same numbers.
    broker: String,
    /// What was written last.
    written: Option<Known>,
    /// Whether it was said that nothing can be written.
    has_warned: bool,
}

#[derive(Serialize, Deserialize)]
struct Contents {
    broker: String,
    known: Known,
}

impl Kept {
    /// The file in this state folder, and what was known of the leases of the broker with this key.
    pub(super) fn open(state: &Path, broker: String) -> (Self, Option<Known>) {
        let path = state.join(FILE);
        let written = match read(&path) {
            Ok(contents) => contents.filter(|contents| contents.broker == broker).map(|contents| contents.known),
            Err(error) => {
                warn!("it is not known which leases are over until the broker is reached: {}: {error}", path.display());
                None
            }
        };
        (Self { path, broker, written: written.clone(), has_warned: false }, written)
    }

    /// Has this on disk when it returns; returns whether it is. Where it is not, the log says why.
    pub(super) fn keep(&mut self, known: Known) -> bool {
        if self.written.as_ref() == Some(&known) {
            return true;
        }
        let contents = Contents { broker: self.broker.clone(), known };
        let write = || private_file::replace(&self.path, &serde_json::to_vec(&contents)?);
        match write() {
            Ok(()) => (self.written, self.has_warned) = (Some(contents.known), false),
            Err(error) if !self.has_warned => {
                let path = self.path.display();
                warn!(
                    "a server that is started again without a broker will not know which leases are over: {path}: {error}"
                );
                self.has_warned = true;
            }
            Err(_) => {}
        }
        !self.has_warned
    }
}

fn read(path: &Path) -> io::Result<Option<Contents>> {
    match std::fs::read(path) {
        Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes)?)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_of_one_broker() {
        let folder = tempfile::tempdir().unwrap();
        let (mut kept, known) = Kept::open(folder.path(), "one".into());
        assert_eq!(known, None);
        let some = Known { latest: LeaseId(7), open: vec![LeaseId(3)] };
        assert!(kept.keep(some.clone()));
        assert_eq!(Kept::open(folder.path(), "one".into()).1, Some(some));
        assert_eq!(Kept::open(folder.path(), "other".into()).1, None);
        std::fs::write(folder.path().join(FILE), "{").unwrap();
        assert_eq!(Kept::open(folder.path(), "one".into()).1, None);
        let (mut nowhere, _) = Kept::open(&folder.path().join("gone"), "one".into());
        assert!(!nowhere.keep(Known::default()) && !nowhere.keep(Known::default()));
    }
}
