//! What a node keeps on disk of each claim that it has prepared, so that a driver that is started again goes on.
//!
//! ```text
//! claims/                 only root may enter
//!   UID/claim.json        whose lease it is, and what has to be done with it
//!   UID/tickets/servers   the host file, which containers see; the folder is what is mounted, as files in it are replaced
//! ```

use std::fs::{self, DirBuilder, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use ropeway_lease::grant::LeaseId;
use ropeway_transport::private_file;
use serde::{Deserialize, Serialize};

use crate::gone;

/// A claim that has a lease.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Record {
    /// The claim's namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// What tells it from others.
    pub uid: String,
    /// Its lease.
    pub lease: LeaseId,
    /// Its devices.
    pub devices: Vec<Granted>,
    /// The claim has no use for the lease any more, and the broker does not know that yet.
    #[serde(default)]
    pub is_left: bool,
}

/// A device of a claim.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Granted {
    /// The request of the claim that it is for.
    pub request: String,
    /// Its pool.
    pub pool: String,
    /// Its name there.
    pub device: String,
}

/// The folder with all of them.
#[derive(Clone, Debug)]
pub struct Records(PathBuf);

impl Records {
    /// Those in this folder, which is made.
    pub fn open(folder: &Path) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        fs::set_permissions(folder, Permissions::from_mode(0o700))?;
        Ok(Self(folder.to_owned()))
    }

    /// The record of the claim with this UID.
    pub fn load(&self, uid: &str) -> io::Result<Option<Record>> {
        match private_file::read(&self.file(uid)?) {
            Ok(text) => serde_json::from_str(&text).map(Some).map_err(io::Error::from),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Writes a record, so that it is there after a power cut.
    pub fn keep(&self, record: &Record) -> io::Result<()> {
        let file = self.file(&record.uid)?;
        self.make_folder(&record.uid)?;
        private_file::replace(&file, &serde_json::to_vec(record)?)
    }

    /// Removes everything of a claim.
    pub fn forget(&self, uid: &str) -> io::Result<()> {
        gone(fs::remove_dir_all(self.folder(uid)?))
    }

    /// All records. One that cannot be read is left out, and said.
    pub fn all(&self) -> io::Result<Vec<Record>> {
        let mut records = Vec::new();
        for entry in fs::read_dir(&self.0)? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            match self.load(&name) {
                Ok(record) => records.extend(record),
                Err(error) => tracing::warn!("the record of the claim {name} cannot be read: {error}"),
            }
        }
        Ok(records)
    }

    /// Where the host file of a claim is, as it is mounted into containers.
    pub fn tickets(&self, uid: &str) -> io::Result<PathBuf> {
        Ok(self.folder(uid)?.join("tickets"))
    }

    /// Writes the host file of a claim. In the container, programs of any user may read it: the node cannot know who they
    /// will be. Outside, only root gets into the folder.
    pub fn write_tickets(&self, uid: &str, text: &str) -> io::Result<()> {
        self.make_folder(uid)?;
        let folder = self.tickets(uid)?;
        let (fresh, file) = (self.folder(uid)?.join("servers.new"), folder.join("servers"));
        private_file::replace(&fresh, text.as_bytes())?;
        fs::set_permissions(&fresh, Permissions::from_mode(0o644))?;
        fs::rename(fresh, file)
    }

    /// Reads the host file of a claim.
    pub fn read_tickets(&self, uid: &str) -> io::Result<String> {
        fs::read_to_string(self.tickets(uid)?.join("servers"))
    }

    fn make_folder(&self, uid: &str) -> io::Result<()> {
        let folder = self.tickets(uid)?;
        DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
        fs::set_permissions(folder, Permissions::from_mode(0o755))
    }

    fn file(&self, uid: &str) -> io::Result<PathBuf> {
        Ok(self.folder(uid)?.join("claim.json"))
    }

    fn folder(&self, uid: &str) -> io::Result<PathBuf> {
        // It becomes the name of files.
        let is_name = !uid.is_empty() && uid.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        if is_name { Ok(self.0.join(uid)) } else { Err(io::Error::other(format!("'{uid}' is not the UID of a claim"))) }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    #[test]
    fn records_are_kept_and_only_containers_see_tickets() {
        let folder = tempfile::tempdir().unwrap();
        let records = Records::open(&folder.path().join("claims")).unwrap();
        let record = Record {
            namespace: "default".into(),
            name: "c".into(),
            uid: "0f-1".into(),
            lease: LeaseId(7),
            devices: vec![Granted { request: "r".into(), pool: "p".into(), device: "d".into() }],
            is_left: false,
        };
        assert_eq!(records.load("0f-1").unwrap(), None);
        records.write_tickets("0f-1", "ropeway://a/#b\n").unwrap();
        assert_eq!(records.all().unwrap(), [], "what has tickets only is not prepared");
        records.keep(&record).unwrap();
        assert_eq!(records.load("0f-1").unwrap().as_ref(), Some(&record));
        let again = Records::open(&folder.path().join("claims")).unwrap();
        assert_eq!(again.all().unwrap(), [record]);
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
        let tickets = records.tickets("0f-1").unwrap();
        assert_eq!((mode(&tickets), mode(&tickets.join("servers"))), (0o755, 0o644));
        assert_eq!(mode(&folder.path().join("claims")), 0o700);
        assert_eq!(mode(&folder.path().join("claims/0f-1/claim.json")), 0o600);
        assert_eq!(records.read_tickets("0f-1").unwrap(), "ropeway://a/#b\n");
        records.forget("0f-1").unwrap();
        records.forget("0f-1").unwrap();
        assert_eq!(records.all().unwrap(), []);
        for uid in ["", "../x", "a/b", "."] {
            assert!(records.load(uid).is_err(), "{uid}");
        }
    }
}
