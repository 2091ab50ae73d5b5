//! Hosts that ssh reaches, as `ssh://` names them.

use std::fmt;

/// Characters that no host or user name needs, and that a shell behind the user's `ssh` configuration (`ProxyCommand`)
/// would take for more than a name.
const REFUSED: &[char] =
    &['/', '@', '\'', '"', '`', '$', '\\', ';', '&', '<', '>', '|', '(', ')', '{', '}', ',', '#', '[', ']'];

/// A host as ssh knows it: `[user@]host[:port]`. The host may be a name that only the user's ssh configuration has.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct SshHost {
    /// The user there; `None`: whom ssh takes.
    pub user: Option<String>,
    /// Host name or address, without the brackets of an IPv6 address.
    pub host: String,
    /// The port of its ssh server; `None`: what ssh takes.
    pub port: Option<u16>,
}

impl SshHost {
    /// Checks the parts of an address, from which no option of `ssh` may come about.
    pub(crate) fn of(user: Option<&str>, host: &str, port: Option<&str>) -> Result<Self, &'static str> {
        let is_name = |name: &str| {
            let is_refused = |c: char| c.is_whitespace() || c.is_control() || REFUSED.contains(&c);
            !name.is_empty() && !name.starts_with('-') && !name.contains(is_refused)
        };
        if !is_name(host) {
            return Err("its host name is not one");
        }
        if user.is_some_and(|user| !is_name(user)) {
            return Err("its user name is not one");
        }
        let port = port.map(|port| port.parse().ok().filter(|port| *port != 0)).map(|port| port.ok_or(()));
        let port = port.transpose().map_err(|()| "its port is not a number from 1 to 65535")?;
        Ok(Self { user: user.map(str::to_owned), host: host.to_owned(), port })
    }

    /// The host with its user, as a person would write it behind `ssh`.
    pub fn destination(&self) -> String {
        match &self.user {
            Some(user) => format!("{user}@{}", self.host),
            None => self.host.clone(),
        }
    }
}

impl fmt::Display for SshHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ssh://")?;
        if let Some(user) = &self.user {
            write!(f, "{user}@")?;
        }
        match self.host.contains(':') {
            true => write!(f, "[{}]", self.host)?,
            false => f.write_str(&self.host)?,
        }
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

#[cfg(test)]
mod tests {
    use crate::Endpoint;

    #[test]
    fn what_ssh_would_take_for_an_option_or_a_shell_for_a_command_is_no_host() {
        for text in ["gpu.lab", "me@gpu.lab", "me@gpu.lab:2222", "alias", "[fe80::1]:22", "me@[::1]", "a_b%eth0"] {
            let text = format!("ssh://{text}");
            let endpoint: Endpoint = text.parse().unwrap();
            assert_eq!(endpoint.to_string(), text);
        }
        assert_eq!("ssh://gpu.lab/".parse::<Endpoint>().unwrap().to_string(), "ssh://gpu.lab");
        let options = ["-oProxyCommand=x", "me@-x", "-l@host"];
        let commands = ["h;id", "$(id)", "a b", "a\nb", "a|b", "x'@h", "[[a]"];
        for wrong in ["", "@host", "a@b@c", "me@", "h:0", "h:x"].into_iter().chain(options).chain(commands) {
            let error = format!("ssh://{wrong}").parse::<Endpoint>().unwrap_err();
            assert!(error.to_string().contains("is not a server address"), "{wrong}: {error}");
        }
    }
}
