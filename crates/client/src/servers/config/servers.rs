//! Lists of servers: `ROPEWAY_SERVERS` and host files.

use std::fs;
use std::path::{Path, PathBuf};

use super::{Config, Source};

/// A host file longer than this is not one.
const MAX_HOST_FILE: u64 = 1 << 20;

/// Stands for those that are found on the local network.
const AUTO: &str = "auto";

/// Has the servers of this machine reached through sockets alone.
const NO_SHARED_MEMORY: &str = "shm:off";

/// Stands before the number of sockets that carry the bytes of a link between machines.
const SOCKETS: &str = "sockets:";

impl Config {
    /// Takes the servers of `ROPEWAY_SERVERS`.
    pub(super) fn read_list(&mut self, list: &str) {
        self.servers.clear();
        self.discover = false;
        self.source = Source::Environment;
        for entry in list.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
            self.add_server("ROPEWAY_SERVERS", entry);
        }
    }

    /// Takes the servers of a host file, or of all files named `servers` in the folders of a folder.
    pub(in crate::servers) fn read_host_file(&mut self, path: &Path) {
        self.servers.clear();
        self.discover = false;
        self.source = Source::HostFile(path.to_owned());
        if !path.is_dir() {
            self.add_host_file(path);
            return;
        }
        let mut files: Vec<PathBuf> = match fs::read_dir(path) {
            Ok(entries) => entries.flatten().map(|entry| entry.path().join("servers")).collect(),
            Err(error) => {
                let folder = path.display();
                self.problems
                    .push(format!("cannot read the folder of host files {folder} (ROPEWAY_HOSTFILE): {error}"));
                return;
            }
        };
        // The order of devices is the same in each program.
        files.sort();
        files.iter().for_each(|file| self.add_host_file(file));
    }

    fn add_host_file(&mut self, path: &Path) {
        let text = match read_bounded(path, MAX_HOST_FILE) {
            Ok(text) => text,
            Err(error) => {
                self.problems.push(format!("cannot read the host file {} (ROPEWAY_HOSTFILE): {error}", path.display()));
                return;
            }
        };
        for (number, line) in text.lines().enumerate() {
            let entry = without_comment(line).trim();
            if !entry.is_empty() {
                self.add_server(&format!("{}:{}", path.display(), number + 1), entry);
            }
        }
    }

    /// Adds one server, or notes what is wrong with it; `place` says where it is written.
    pub(super) fn add_server(&mut self, place: &str, entry: &str) {
        if entry == AUTO {
            self.discover = true;
            return;
        }
        if entry == NO_SHARED_MEMORY {
            self.shared_memory = false;
            return;
        }
        if let Some(count) = entry.strip_prefix(SOCKETS) {
            self.sockets = self.setting(place, Some(count.to_owned())).unwrap_or(self.sockets);
            return;
        }
        match entry.parse() {
            Ok(endpoint) if self.servers.contains(&endpoint) => {
                self.problems.push(format!("{place}: {endpoint} is listed twice; it is used once"));
            }
            Ok(endpoint) => self.servers.push(endpoint),
            Err(error) => self.problems.push(format!("{place}: {error}")),
        }
    }
}

/// A line up to its comment. What follows "/#" is a part of an address: a ticket's secret, or a server's key.
fn without_comment(line: &str) -> &str {
    let begins = |(at, _): &(usize, &str)| !line[..*at].ends_with('/');
    line.match_indices('#').find(begins).map_or(line, |(at, _)| &line[..at])
}

/// The text of a file of at most `limit` bytes.
pub(super) fn read_bounded(path: &Path, limit: u64) -> std::io::Result<String> {
    use std::io::Read;
    let mut text = String::new();
    let read = std::fs::File::open(path)?.take(limit + 1).read_to_string(&mut text)?;
    if read as u64 > limit {
        return Err(std::io::Error::other(format!("it is longer than {limit} bytes")));
    }
    Ok(text)
}
