//! Which users of this machine may use the server over its Unix sockets.

use nix::unistd::{Group, User};
use ropeway_transport::PeerUser;

/// The users and groups that are let in; the server's own user and root always are.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LocalUsers {
    users: Vec<u32>,
    groups: Vec<u32>,
}

impl LocalUsers {
    /// The users and groups of these names or numbers; `None` when there are none: whoever can open the socket may use
    /// it.
    ///
    /// # Errors
    /// A name that this machine does not have: one sentence for a person.
    pub fn of(users: &[String], groups: &[String]) -> Result<Option<Self>, String> {
        let user = |name: &String| match User::from_name(name) {
            Ok(Some(user)) => Ok(user.uid.as_raw()),
            Ok(None) => name.parse().map_err(|_| format!("this machine has no user '{name}'")),
            Err(error) => Err(format!("cannot look up the user '{name}': {error}")),
        };
        let group = |name: &String| match Group::from_name(name) {
            Ok(Some(group)) => Ok(group.gid.as_raw()),
            Ok(None) => name.parse().map_err(|_| format!("this machine has no group '{name}'")),
            Err(error) => Err(format!("cannot look up the group '{name}': {error}")),
        };
        if users.is_empty() && groups.is_empty() {
            return Ok(None);
        }
        let users = users.iter().map(user).collect::<Result<_, _>>()?;
        Ok(Some(Self { users, groups: groups.iter().map(group).collect::<Result<_, _>>()? }))
    }

    /// Whether a process may use the server.
    ///
    /// # Errors
    /// Why not: one sentence for a person.
    pub(crate) fn admit(&self, peer: &PeerUser) -> Result<(), String> {
        let ours = rustix::process::geteuid().as_raw();
        let is_known = peer.user == 0 || peer.user == ours || self.users.contains(&peer.user);
        if is_known || peer.groups.iter().any(|group| self.groups.contains(group)) {
            return Ok(());
        }
        Err(format!(
            "user {} may not use this server; whoever runs it can allow that (--allow-user, --allow-group of `ropeway serve`)",
            peer.user
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_known_by_themselves_or_by_a_group() {
        let none: [String; 0] = [];
        assert_eq!(LocalUsers::of(&none, &none), Ok(None));
        let allowed = LocalUsers::of(&["root".into(), "4711".into()], &["4712".into()]).unwrap().unwrap();
        let peer = |user, groups: &[u32]| PeerUser { user, groups: groups.to_vec() };
        assert!(allowed.admit(&peer(4711, &[1])).is_ok() && allowed.admit(&peer(0, &[])).is_ok());
        assert!(allowed.admit(&peer(9999, &[3, 4712])).is_ok());
        assert!(allowed.admit(&peer(9999, &[4711])).unwrap_err().contains("user 9999 may not"));
        assert!(LocalUsers::of(&["no such user".into()], &none).unwrap_err().contains("no user"));
        assert!(LocalUsers::of(&none, &["no such group".into()]).unwrap_err().contains("no group"));
    }
}
