//! Where etcd is, and how its members are spoken to.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// The port on which etcd serves clients.
const PORT: u16 = 2379;

/// The pool's name among the keys of etcd, where none is given.
const POOL: &str = "ropeway";

/// The address of a pool: `etcd://[user:password@]host[:port][,host[:port]...][/pool]`.
#[derive(Clone, PartialEq, Eq)]
pub struct EtcdAddress {
    /// The members: `host:port`.
    pub(super) members: Vec<String>,
    /// What the keys of this pool begin with.
    pub(super) pool: String,
    /// The user and the password.
    pub(super) login: Option<(String, String)>,
}

/// The files for an etcd whose connections are encrypted.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct EtcdFiles {
    /// The certificates of those who sign for etcd's members. With it, connections are encrypted.
    pub authority: Option<PathBuf>,
    /// This broker's certificate, where etcd wants one, and its key.
    pub client: Option<(PathBuf, PathBuf)>,
}

impl fmt::Debug for EtcdAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A password is nobody's to read.
        write!(f, "etcd://{}/{}", self.members.join(","), self.pool)
    }
}

impl FromStr for EtcdAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = |why: &str| Err(format!("{why}; a store is etcd://HOST:PORT,HOST:PORT"));
        let Some(rest) = text.strip_prefix("etcd://") else { return wrong("it does not begin with etcd://") };
        let (rest, pool) = rest.split_once('/').unwrap_or((rest, POOL));
        let (login, hosts) = match rest.rsplit_once('@') {
            None => (None, rest),
            Some((login, hosts)) => match login.split_once(':') {
                Some((user, password)) => (Some((user.to_owned(), password.to_owned())), hosts),
                None => return wrong("a user has a password"),
            },
        };
        let pool = pool.trim_matches('/');
        if pool.is_empty() {
            return wrong("the pool's name is empty");
        }
        let mut members = Vec::new();
        for host in hosts.split(',') {
            let has_port = host.rsplit_once(':').is_some_and(|(name, _)| !name.contains(':') || name.ends_with(']'));
            let member = if has_port { host.to_owned() } else { format!("{host}:{PORT}") };
            let (name, port) = member.rsplit_once(':').unwrap_or_default();
            let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-._[]:".contains(letter);
            if name.is_empty() || port.parse::<u16>().is_err() || !name.chars().all(is_plain) {
                return wrong(&format!("'{host}' is no address of a member of etcd"));
            }
            members.push(member);
        }
        Ok(Self { members, pool: pool.to_owned(), login })
    }
}

/// Reads one of the files.
pub(super) fn read(path: &Path) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(|error| format!("cannot read {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_name_members_a_pool_and_a_user() {
        let read = |text: &str| text.parse::<EtcdAddress>();
        let all = read("etcd://broker:s:3cr@t@a:1,[::1]:2,c/rack/7").unwrap();
        assert_eq!(all.members, ["a:1", "[::1]:2", "c:2379"]);
        assert_eq!((all.pool.as_str(), all.login.clone().unwrap().1.as_str()), ("rack/7", "s:3cr@t"));
        assert!(!format!("{all:?}").contains("3cr"), "{all:?}");
        assert_eq!(read("etcd://[fd00::1]").unwrap().members, ["[fd00::1]:2379"]);
        for wrong in ["etcd://", "http://a:1", "etcd://a:b", "etcd://a,,b", "etcd://me@a", "etcd://a b", "etcd://a/"] {
            assert!(read(wrong).unwrap_err().contains("a store is etcd://"), "{wrong}");
        }
    }
}
