//! The store of a single broker: one file, in the broker's state folder, by redb: a B-tree that is copied as it is
//! written, so that a broker that is killed at any time leaves the last whole state. It is Rust throughout, needs no
//! set-up, and takes one `fdatasync` for a transaction.

use std::fmt::Display;
use std::path::{Path, PathBuf};

use redb::{Database, Durability, ReadableDatabase as _, ReadableTable as _, TableDefinition};
use ropeway_lease::grant::LeaseId;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Change, Store, StoreError, Written};

/// The file's name.
pub const FILE: &str = "pool.redb";

/// The leases, by number, as JSON.
const LEASES: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("leases");

/// The servers, by key, as JSON.
const SERVERS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("servers");

/// What users have used, by name, as JSON.
const USAGE: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("usage");

/// Single numbers, by name.
const NUMBERS: TableDefinition<'_, &str, u64> = TableDefinition::new("numbers");

/// The highest number of a lease.
const LATEST: &str = "latest";

/// The file.
#[derive(Debug)]
pub struct Embedded {
    path: PathBuf,
    /// `None` after an error: it is opened anew, which finds its last whole state.
    database: Option<Database>,
}

impl Embedded {
    /// The file in this folder, made when it is missing.
    ///
    /// # Errors
    /// It cannot be made, is not one, or another broker has it.
    pub fn open(folder: &Path) -> Result<Self, StoreError> {
        let mut store = Self { path: folder.join(FILE), database: None };
        store.database()?;
        Ok(store)
    }

    fn wrong(path: &Path, what: &str, error: &dyn Display) -> StoreError {
        StoreError(format!("cannot {what} {}: {error}", path.display()))
    }

    fn database(&mut self) -> Result<&Database, StoreError> {
        let opened = match self.database.take() {
            Some(database) => database,
            None => {
                let opened = Database::create(&self.path);
                opened.map_err(|error| Self::wrong(&self.path, "open", &error))?
            }
        };
        Ok(self.database.insert(opened))
    }

    fn read_all(database: &Database) -> Result<Written, redb::Error> {
        let mut written = Written::default();
        let reading = database.begin_read()?;
        let is_missing = |error: &redb::TableError| matches!(error, redb::TableError::TableDoesNotExist(_));
        match reading.open_table(LEASES) {
            Ok(table) => {
                for entry in table.iter()? {
                    written.leases.push(read(entry?.1.value())?);
                }
            }
            Err(error) if is_missing(&error) => return Ok(written),
            Err(error) => return Err(error.into()),
        }
        for entry in reading.open_table(SERVERS)?.iter()? {
            written.servers.push(read(entry?.1.value())?);
        }
        match reading.open_table(USAGE) {
            Ok(table) => {
                for entry in table.iter()? {
                    written.usage.push(read(entry?.1.value())?);
                }
            }
            // It was written by a release that kept none.
            Err(error) if is_missing(&error) => {}
            Err(error) => return Err(error.into()),
        }
        let latest = reading.open_table(NUMBERS)?.get(LATEST)?;
        written.latest = LeaseId(latest.map_or(0, |number| number.value()));
        Ok(written)
    }

    fn write_all(database: &Database, changes: &[Change], now: bool) -> Result<(), redb::Error> {
        let mut writing = database.begin_write()?;
        writing.set_durability(if now { Durability::Immediate } else { Durability::None })?;
        {
            let mut leases = writing.open_table(LEASES)?;
            let mut servers = writing.open_table(SERVERS)?;
            let mut numbers = writing.open_table(NUMBERS)?;
            let mut usage = writing.open_table(USAGE)?;
            for change in changes {
                match change {
                    Change::Keep(record) => {
                        leases.insert(record.lease.0, &text(record)?[..])?;
                        let latest = numbers.get(LATEST)?.map_or(0, |number| number.value());
                        if record.lease.0 > latest {
                            numbers.insert(LATEST, record.lease.0)?;
                        }
                    }
                    Change::Forget(lease) => drop(leases.remove(lease.0)?),
                    Change::KeepUsage(used) => drop(usage.insert(used.user.as_str(), &text(used)?[..])?),
                    Change::KeepServer(about) => drop(servers.insert(about.key.as_str(), &text(about)?[..])?),
                }
            }
        }
        writing.commit()?;
        Ok(())
    }
}

fn text<T: Serialize>(value: &T) -> Result<Vec<u8>, redb::Error> {
    serde_json::to_vec(value).map_err(|error| redb::Error::Corrupted(error.to_string()))
}

fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, redb::Error> {
    serde_json::from_slice(bytes).map_err(|error| redb::Error::Corrupted(error.to_string()))
}

impl Store for Embedded {
    fn read(&mut self) -> Result<Written, StoreError> {
        let path = self.path.clone();
        Self::read_all(self.database()?).map_err(|error| Self::wrong(&path, "read", &error))
    }

    fn write(&mut self, changes: &[Change], now: bool) -> Result<(), StoreError> {
        let path = self.path.clone();
        Self::write_all(self.database()?, changes, now).map_err(|error| {
            self.database = None;
            Self::wrong(&path, "write to", &error)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::LeaseRecord;

    fn record(lease: u64, over: Option<&str>) -> LeaseRecord {
        LeaseRecord {
            lease: LeaseId(lease),
            user: "alice".into(),
            program: "p".into(),
            key: "k".into(),
            for_ms: 5,
            attached: true,
            over: over.map(str::to_owned),
            devices: vec![("s".into(), 1, "G".into(), 1000, 7)],
            priority: 3,
            expected_ms: Some(9),
        }
    }

    #[test]
    fn what_is_written_is_there_when_the_file_is_opened_again() {
        let folder = tempfile::tempdir().unwrap();
        let mut store = Embedded::open(folder.path()).unwrap();
        assert!(store.read().unwrap().leases.is_empty());
        let keep = |lease, over| Change::Keep(Box::new(record(lease, over)));
        store.write(&[keep(1, None), keep(2, None), keep(1, Some("it was released"))], true).unwrap();
        store.write(&[Change::Forget(LeaseId(2))], false).unwrap();
        store.write(&[], true).unwrap();
        assert!(Embedded::open(folder.path()).is_err(), "one broker has it");
        drop(store);
        let written = Embedded::open(folder.path()).unwrap().read().unwrap();
        assert_eq!((written.leases, written.latest), (vec![record(1, Some("it was released"))], LeaseId(2)));
    }

    #[test]
    fn what_is_no_store_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(FILE), b"no store at all, but a text that somebody has written").unwrap();
        let error = Embedded::open(folder.path()).unwrap_err().to_string();
        assert!(error.starts_with("cannot open"), "{error}");
    }
}
