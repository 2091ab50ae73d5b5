//! Where etcd is, and how its members are spoken to.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use ropeway_transport::private_file;

/// The port on which etcd serves clients.
const PORT: u16 = 2379;

/// The pool's name among the keys of etcd, where none is given.
const POOL: &str = "ropeway";

/// The address of a pool: `etcd://[user[:password]@]host[:port][,host[:port]...][/pool]`.
#[derive(Clone, PartialEq, Eq)]
pub struct EtcdAddress {
    /// The members: `host:port`.
    pub(super) members: Vec<String>,
    /// What the keys of this pool begin with.
    pub(super) pool: String,
    /// The user, and the password if it is not in a file.
    pub(super) user: Option<(String, Option<String>)>,
}

/// The files for an etcd whose connections are encrypted, or that wants to know who asks.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct EtcdFiles {
    /// The certificates of those who sign for etcd's members. With it, connections are encrypted.
    pub authority: Option<PathBuf>,
    /// This broker's certificate, where etcd wants one, and its key.
    pub client: Option<(PathBuf, PathBuf)>,
    /// The password of the address's user, which nobody else may read.
    pub password: Option<PathBuf>,
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
        // A password may have any letters.
        let (user, rest) = match rest.rsplit_once('@') {
            None => (None, rest),
            Some((login, rest)) => {
                let (user, password) =
                    login.split_once(':').map_or((login, None), |(user, password)| (user, Some(password.to_owned())));
                if user.is_empty() {
                    return wrong("the user's name is empty");
                }
                (Some((user.to_owned(), password)), rest)
            }
        };
        let (hosts, pool) = rest.split_once('/').unwrap_or((rest, POOL));
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
        Ok(Self { members, pool: pool.to_owned(), user })
    }
}

impl EtcdAddress {
    /// Whether it has a password.
    pub fn has_password(&self) -> bool {
        self.user.as_ref().is_some_and(|(_, password)| password.is_some())
    }

    /// The user and the password, where etcd wants to know who asks.
    ///
    /// # Errors
    /// One sentence: there is a user without a password, or a password without a user.
    pub(super) fn login(&self, files: &EtcdFiles) -> Result<Option<(String, String)>, String> {
        match (&self.user, &files.password) {
            (None, None) => Ok(None),
            (Some((user, Some(password))), None) => Ok(Some((user.clone(), password.clone()))),
            (Some((user, None)), Some(path)) => {
                let text = private_file::read(path);
                let text = text.map_err(|error| format!("cannot read the password in {}: {error}", path.display()))?;
                Ok(Some((user.clone(), text.trim_end_matches(['\r', '\n']).to_owned())))
            }
            (Some((user, None)), None) => Err(format!(
                "the user '{user}' of etcd has no password; name the file that has it with --etcd-password"
            )),
            (Some((_, Some(_))), Some(_)) => {
                Err("there are two passwords for etcd, in its address and in a file".into())
            }
            (None, Some(_)) => Err("there is a password for etcd and no user; etcd://USER@HOST names one".into()),
        }
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
        let all = read("etcd://broker:s:/3cr@t@a:1,[::1]:2,c/rack/7").unwrap();
        assert_eq!(all.members, ["a:1", "[::1]:2", "c:2379"]);
        assert_eq!(
            (all.pool.as_str(), all.user.clone().unwrap()),
            ("rack/7", ("broker".into(), Some("s:/3cr@t".into())))
        );
        assert!(!format!("{all:?}").contains("3cr"), "{all:?}");
        assert_eq!(read("etcd://[fd00::1]").unwrap().members, ["[fd00::1]:2379"]);
        assert!(all.has_password() && !read("etcd://me@a").unwrap().has_password());
        for wrong in [
            "etcd://",
            "http://a:1",
            "etcd://a:b",
            "etcd://a,,b",
            "etcd://@a",
            "etcd://:p@a",
            "etcd://a b",
            "etcd://a/",
        ] {
            assert!(read(wrong).unwrap_err().contains("a store is etcd://"), "{wrong}");
        }
    }

    #[test]
    fn a_user_has_one_password() {
        let login = |text: &str, password: Option<&Path>| {
            let files = EtcdFiles { password: password.map(Path::to_owned), ..EtcdFiles::default() };
            text.parse::<EtcdAddress>().unwrap().login(&files)
        };
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("password");
        private_file::replace(&file, b" s3cret\n").unwrap();
        assert_eq!(login("etcd://a", None), Ok(None));
        assert_eq!(login("etcd://me:s3cret@a", None), Ok(Some(("me".into(), "s3cret".into()))));
        assert_eq!(login("etcd://me@a", Some(&file)), Ok(Some(("me".into(), " s3cret".into()))));
        for (text, file, told) in [
            ("etcd://me@a", None, "--etcd-password"),
            ("etcd://me:x@a", Some(&*file), "two passwords"),
            ("etcd://a", Some(&file), "no user"),
            ("etcd://me@a", Some(folder.path()), "cannot read the password in "),
        ] {
            let why = login(text, file).unwrap_err();
            assert!(why.contains(told) && !why.contains("s3cret"), "{why}");
        }
    }
}
