//! Which virtual machines may use the server over vsock.

use std::str::FromStr;

use ropeway_transport::VsockAddress;

/// The machines that are let in: this one and, to a guest, its host always are, as whoever has these has the server.
/// A host's guests are strangers to each other and to their host.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Machines(Vec<Machine>);

/// Who is let in besides.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Machine {
    /// All virtual machines.
    Any,
    /// The one with this CID.
    Cid(u32),
}

impl FromStr for Machine {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse() {
            _ if text == "any" => Ok(Self::Any),
            Ok(cid) if cid > 0 && cid != VsockAddress::ANY => Ok(Self::Cid(cid)),
            _ => Err("a virtual machine is named by its number (CID), as its host has given it; or 'any'".to_owned()),
        }
    }
}

impl Machines {
    /// Lets in these.
    pub fn of(machines: &[Machine]) -> Self {
        Self(machines.to_vec())
    }

    /// Whether any are let in that are not always.
    pub(crate) fn has_guests(&self) -> bool {
        !self.0.is_empty()
    }

    /// Whether a machine's processes may use the server. Its CID is its host's word, which a guest cannot change.
    ///
    /// # Errors
    /// Why not: one sentence for a person.
    pub(crate) fn admit(&self, VsockAddress { cid, .. }: VsockAddress) -> Result<(), String> {
        let is_ours = matches!(cid, VsockAddress::LOCAL | VsockAddress::HOST);
        if is_ours || self.0.iter().any(|machine| matches!(machine, Machine::Any) || *machine == Machine::Cid(cid)) {
            return Ok(());
        }
        Err(format!(
            "the virtual machine {cid} may not use this server; whoever runs it can allow that (--allow-cid {cid} of `ropeway serve`)"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guests_are_let_in_by_their_numbers() {
        let from = |cid| VsockAddress { cid, port: 1024 };
        let some = Machines::of(&["3".parse().unwrap(), "70000".parse().unwrap()]);
        for cid in [VsockAddress::LOCAL, VsockAddress::HOST, 3, 70_000] {
            assert_eq!(some.admit(from(cid)), Ok(()), "{cid}");
        }
        for cid in [0, 4, 65_539, VsockAddress::ANY] {
            assert!(some.admit(from(cid)).unwrap_err().contains(&format!("virtual machine {cid} may not")));
        }
        assert!(Machines::default().admit(from(3)).unwrap_err().contains("--allow-cid 3"));
        assert_eq!(Machines::of(&["any".parse().unwrap()]).admit(from(4)), Ok(()));
        for wrong in ["", "0", "4294967295", "4294967296", "-1", "all", "host"] {
            assert!(wrong.parse::<Machine>().is_err(), "{wrong}");
        }
    }
}
