//! Server addresses as people write them.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::net::{IpAddr, Ipv4Addr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use crate::SshHost;
use crate::VsockAddress;
use crate::tls::{Credentials, PublicKey, Ticket};

/// The TCP port of a server whose URL names none.
pub const DEFAULT_PORT: u16 = 7590;

/// Where a server is: `tls://host[:port]`, a ticket `ropeway://host[:port]/#...`, `tcp://host[:port]`, `unix:/path`,
/// `vsock://CID[:port]`, `ucx://host[:port]`, `ssh://[user@]host[:port]`, `local:`, or a bare `host[:port]`, which is encrypted unless it names this machine's
/// loopback.
#[derive(Clone, Debug)]
pub enum Endpoint {
    /// A TCP port of a host, encrypted with TLS.
    Tls {
        /// Host name or address, without the brackets of an IPv6 address.
        host: String,
        /// Port; 0 only when listening: any free one.
        port: u16,
        /// The key that the server must have, and what came with the address to be let in there. They are not a part of
        /// the address: they are not printed, and make no difference between endpoints.
        pass: Option<Arc<Pass>>,
    },
    /// A TCP port of a host, in plain text.
    Tcp {
        /// Host name or address, without the brackets of an IPv6 address.
        host: String,
        /// Port; 0 only when listening: any free one.
        port: u16,
    },
    /// A TCP port of a host, where a session opens that goes on over UCX; in plain text.
    Ucx {
        /// Host name or address, without the brackets of an IPv6 address.
        host: String,
        /// Port; 0 only when listening: any free one.
        port: u16,
    },
    /// A Unix socket.
    Unix(PathBuf),
    /// A port of a virtual machine, or of the machine that it runs on.
    Vsock(VsockAddress),
    /// A host where ssh starts the server when needed.
    Ssh(SshHost),
    /// The program's own server on this machine, started when needed.
    Local,
}

/// What an address says of a server besides where it is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Pass {
    /// The server's key, `tls://host/#KEY`: enough for who has another key to show there.
    Key(PublicKey),
    /// A ticket.
    Ticket(Ticket),
    /// Certificates: the server's key is not known before it shows its own.
    Certified(Credentials),
}

impl Pass {
    /// The server's key, where it is known.
    pub fn server(&self) -> Option<PublicKey> {
        match self {
            Self::Key(key) => Some(*key),
            Self::Ticket(ticket) => Some(ticket.server),
            Self::Certified(_) => None,
        }
    }
}

/// A server address that cannot be understood.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ParseEndpointError(String);

impl fmt::Display for ParseEndpointError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ParseEndpointError {}

/// An endpoint without its ticket.
#[derive(PartialEq, Eq, Hash)]
enum Address<'a> {
    Network(&'static str, &'a str, u16),
    Unix(&'a Path),
    Vsock(VsockAddress),
    Ssh(&'a SshHost),
    Local,
}

impl PartialEq for Endpoint {
    fn eq(&self, other: &Self) -> bool {
        self.address() == other.address()
    }
}

impl Eq for Endpoint {}

impl Hash for Endpoint {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.address().hash(state);
    }
}

impl Endpoint {
    fn address(&self) -> Address<'_> {
        match self {
            Self::Tls { host, port, .. } => Address::Network("tls", host, *port),
            Self::Tcp { host, port } => Address::Network("tcp", host, *port),
            Self::Ucx { host, port } => Address::Network("ucx", host, *port),
            Self::Unix(path) => Address::Unix(path),
            Self::Vsock(address) => Address::Vsock(*address),
            Self::Ssh(host) => Address::Ssh(host),
            Self::Local => Address::Local,
        }
    }

    /// The ticket's line where it has a ticket, which is a secret; else the address.
    pub fn with_secret(&self) -> String {
        match (self, self.pass()) {
            (Self::Tls { host, port, .. }, Some(Pass::Ticket(ticket))) => {
                format!("ropeway://{}/#{}", Authority(host, *port), ticket.secret_text())
            }
            _ => self.with_key(),
        }
    }

    /// The address with the server's key, where that is known.
    pub fn with_key(&self) -> String {
        match self.pass().and_then(Pass::server) {
            Some(key) => format!("{self}/#{}", key.text()),
            None => self.to_string(),
        }
    }

    /// What it says besides the address.
    pub fn pass(&self) -> Option<&Pass> {
        match self {
            Self::Tls { pass, .. } => pass.as_deref(),
            Self::Tcp { .. } | Self::Ucx { .. } | Self::Unix(_) | Self::Vsock(_) | Self::Ssh(_) | Self::Local => None,
        }
    }

    /// The same server, to be reached with certificates; an encrypted one.
    pub fn certified(self, credentials: Credentials) -> Self {
        match self {
            Self::Tls { host, port, .. } => {
                Self::Tls { host, port, pass: Some(Arc::new(Pass::Certified(credentials))) }
            }
            other => other,
        }
    }

    /// Where other machines reach who listens here: by the name of its `machine`, where it listens on all addresses.
    pub fn reached_at(&self, machine: &str) -> Self {
        let host = if is_unspecified(self.host()) { machine } else { self.host() }.to_owned();
        match self.clone() {
            Self::Tls { port, pass, .. } => Self::Tls { host, port, pass },
            Self::Tcp { port, .. } => Self::Tcp { host, port },
            Self::Ucx { port, .. } => Self::Ucx { host, port },
            other => other,
        }
    }

    /// The TCP port of Ropeway; 0 where there is none.
    pub fn port(&self) -> u16 {
        match self {
            Self::Tls { port, .. } | Self::Tcp { port, .. } | Self::Ucx { port, .. } => *port,
            Self::Unix(_) | Self::Vsock(_) | Self::Ssh(_) | Self::Local => 0,
        }
    }

    /// The host as a person would name it: the host of a TCP endpoint or of ssh, `localhost` for a Unix socket, `host`
    /// or `guest` for a vsock.
    pub fn host(&self) -> &str {
        match self {
            Self::Tls { host, .. } | Self::Tcp { host, .. } | Self::Ucx { host, .. } => host,
            Self::Ssh(SshHost { host, .. }) => host,
            Self::Unix(_) | Self::Local => "localhost",
            Self::Vsock(address) => address.machine(),
        }
    }

    /// Whether only processes of the same machine can reach it. A host name is judged by the addresses that it resolves
    /// to now.
    pub fn is_local(&self) -> bool {
        match self {
            Self::Unix(_) | Self::Local => true,
            Self::Vsock(address) => address.cid == VsockAddress::LOCAL,
            Self::Ssh(_) => false,
            Self::Tls { host, port, .. } | Self::Tcp { host, port } | Self::Ucx { host, port } => {
                (host.as_str(), *port)
                    .to_socket_addrs()
                    .is_ok_and(|mut addresses| addresses.all(|a| a.ip().to_canonical().is_loopback()))
            }
        }
    }
}

impl FromStr for Endpoint {
    type Err = ParseEndpointError;

    fn from_str(text: &str) -> Result<Self, ParseEndpointError> {
        let text = text.trim();
        // What follows may be a ticket's secret, whatever the address begins with. No message repeats it.
        let shown = text.split_once('#').map_or(text, |(address, _)| address);
        let wrong = |why: &str| ParseEndpointError(format!("'{shown}' is not a server address: {why}"));
        if let Some(path) = text.strip_prefix("unix:") {
            // unix:///path is the same as unix:/path.
            let path = path.strip_prefix("//").unwrap_or(path);
            if !path.starts_with('/') {
                return Err(wrong("a Unix socket needs an absolute path, as in unix:/run/ropeway.sock"));
            }
            // To the system, several slashes are one; so what is printed is read as the same path.
            return Ok(Self::Unix(PathBuf::from(format!("/{}", path.trim_start_matches('/')))));
        }
        if text == "local:" {
            return Ok(Self::Local);
        }
        if let Some(address) = text.strip_prefix("vsock://") {
            return VsockAddress::parse(address.trim_end_matches('/')).map(Self::Vsock).map_err(wrong);
        }
        let mut pass = None;
        let (scheme, rest) = match text.split_once("://") {
            Some(("ropeway", rest)) => {
                let wrong = |why: &str| ParseEndpointError(format!("the ticket is of no use: {why}"));
                let (address, secret) = rest
                    .split_once("/#")
                    .ok_or_else(|| wrong("it has no '/#' with keys behind it; copy all of its line"))?;
                let read = Ticket::from_secret_text(secret);
                let ticket = read.ok_or_else(|| wrong("it was not copied whole, or changed on its way"))?;
                pass = Some(Arc::new(Pass::Ticket(ticket)));
                (Some("tls"), address)
            }
            Some(("tls", rest)) if rest.contains("/#") => {
                let (address, key) = rest.split_once("/#").unwrap_or_default();
                let key = PublicKey::from_text(key).ok_or_else(|| wrong("what follows '/#' is not a server's key"))?;
                pass = Some(Arc::new(Pass::Key(key)));
                (Some("tls"), address)
            }
            Some((scheme @ ("tcp" | "tls" | "ucx" | "ssh"), rest)) => (Some(scheme), rest.trim_end_matches('/')),
            Some((scheme, _)) => {
                let scheme = scheme.split('#').next().unwrap_or_default();
                return Err(wrong(&format!(
                    "'{scheme}' is not a known kind of link; use tls://host:port, ssh://host, tcp://host:port, unix:/path, vsock://CID:port, ucx://host:port or local:"
                )));
            }
            None => (None, text),
        };
        let (user, rest) = match rest.rsplit_once('@') {
            Some((user, rest)) if scheme == Some("ssh") => (Some(user), rest),
            _ => (None, rest),
        };
        let (host, port) = host_and_port(rest).map_err(wrong)?;
        if scheme == Some("ssh") {
            return SshHost::of(user, host, port).map(Self::Ssh).map_err(wrong);
        }
        let port = match port {
            None => DEFAULT_PORT,
            Some(p) => p.parse().map_err(|_| wrong("its port is not a number from 0 to 65535"))?,
        };
        if host.is_empty() || host.contains(|c: char| c.is_whitespace() || c.is_control() || "/@#[]".contains(c)) {
            return Err(wrong("its host name is not one"));
        }
        let host = host.to_owned();
        Ok(match scheme {
            Some("tls") => Self::Tls { host, port, pass },
            Some("ucx") => Self::Ucx { host, port },
            None if !is_loopback(&host) => Self::Tls { host, port, pass },
            _ => Self::Tcp { host, port },
        })
    }
}

/// Parts host and port, which are not looked at.
fn host_and_port(text: &str) -> Result<(&str, Option<&str>), &'static str> {
    if let Some(rest) = text.strip_prefix('[') {
        let (host, port) = rest.split_once(']').ok_or("the bracket of its IPv6 address is not closed")?;
        let port = match port {
            "" => None,
            port => Some(port.strip_prefix(':').ok_or("after ']' only :port may follow")?),
        };
        return Ok((host, port));
    }
    if text.parse::<IpAddr>().is_ok_and(|ip| ip.is_ipv6()) {
        return Ok((text, None));
    }
    Ok(match text.split_once(':') {
        Some((host, port)) => (host, Some(port)),
        None => (text, None),
    })
}

/// Whether a host, as people write it, is this machine's loopback.
fn is_loopback(host: &str) -> bool {
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.to_canonical().is_loopback())
}

/// Whether a host stands for all addresses of a machine.
fn is_unspecified(host: &str) -> bool {
    host.parse::<IpAddr>().is_ok_and(|address| address.is_unspecified())
}

/// Host and port as URLs have them.
struct Authority<'a>(&'a str, u16);

impl fmt::Display for Authority<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(host, port) = self;
        if host.contains(':') { write!(f, "[{host}]:{port}") } else { write!(f, "{host}:{port}") }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tls { host, port, .. } => write!(f, "tls://{}", Authority(host, *port)),
            Self::Tcp { host, port } => write!(f, "tcp://{}", Authority(host, *port)),
            Self::Ucx { host, port } => write!(f, "ucx://{}", Authority(host, *port)),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Vsock(address) => address.fmt(f),
            Self::Ssh(host) => host.fmt(f),
            Self::Local => f.write_str("local:"),
        }
    }
}

impl Default for Endpoint {
    /// The default port of this machine's loopback address.
    fn default() -> Self {
        Self::Tcp { host: Ipv4Addr::LOCALHOST.to_string(), port: DEFAULT_PORT }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tls::Identity;

    fn tcp(host: &str, port: u16) -> Endpoint {
        Endpoint::Tcp { host: host.into(), port }
    }

    fn tls(host: &str, port: u16) -> Endpoint {
        Endpoint::Tls { host: host.into(), port, pass: None }
    }

    fn vsock(cid: u32, port: u32) -> Endpoint {
        Endpoint::Vsock(VsockAddress { cid, port })
    }

    #[test]
    fn a_ticket_is_kept_and_never_shown() {
        let identity = || Identity::generate().unwrap();
        let ticket = Ticket { server: identity().public(), identity: identity(), lease: None };
        let line = format!("ropeway://gpu.lab:99/#{}", ticket.secret_text());
        let endpoint: Endpoint = line.parse().unwrap();
        assert_eq!((endpoint.clone(), endpoint.to_string().as_str()), (tls("gpu.lab", 99), "tls://gpu.lab:99"));
        assert_eq!(endpoint.with_secret(), line);
        let pinned: Endpoint = endpoint.with_key().parse().unwrap();
        assert_eq!(pinned.pass(), Some(&Pass::Key(ticket.server)));
        assert_eq!(pinned.with_secret(), pinned.with_key());
        for wrong in [&line[..line.len() - 1], &line.replace("/#", "/"), &line.replace(":99", ":x")] {
            let error = wrong.parse::<Endpoint>().unwrap_err().to_string();
            assert!(!error.contains(&ticket.secret_text()[..8]), "{error}");
        }
        // Whatever a person does to what comes before it.
        for scheme in ["tls", "tcp", "ucx", "ropewy", "ssh", "vsock"] {
            for host in ["gpu.lab:99/", "gpu.lab:x/", "gpu.lab:99", "/", ""] {
                let line = format!("{scheme}://{host}#{}", ticket.secret_text());
                let error = line.parse::<Endpoint>().unwrap_err().to_string();
                assert!(!error.contains(&ticket.secret_text()[..8]), "{error}");
            }
        }
    }

    #[test]
    fn understands_what_people_write() {
        for (text, endpoint) in [
            ("tcp://gpu.lab:99", tcp("gpu.lab", 99)),
            ("tcp://gpu.lab", tcp("gpu.lab", DEFAULT_PORT)),
            ("tls://gpu.lab", tls("gpu.lab", DEFAULT_PORT)),
            ("tls://[fe80::1]:7", tls("fe80::1", 7)),
            ("unix:////run//x", Endpoint::Unix("/run//x".into())),
            (" gpu.lab ", tls("gpu.lab", DEFAULT_PORT)),
            ("10.0.0.1:80", tls("10.0.0.1", 80)),
            ("127.0.0.1:80", tcp("127.0.0.1", 80)),
            ("localhost", tcp("localhost", DEFAULT_PORT)),
            ("[::1]:80", tcp("::1", 80)),
            ("::1", tcp("::1", DEFAULT_PORT)),
            ("tcp://[fe80::1]", tcp("fe80::1", DEFAULT_PORT)),
            ("unix:/run/r.sock", Endpoint::Unix("/run/r.sock".into())),
            ("unix:///run/r.sock", Endpoint::Unix("/run/r.sock".into())),
            ("vsock://2:7590", vsock(2, 7590)),
            ("vsock://3/", vsock(3, DEFAULT_PORT.into())),
            ("vsock://:99999", vsock(VsockAddress::ANY, 99_999)),
            ("vsock://4294967295:0", vsock(VsockAddress::ANY, 0)),
            ("ucx://gpu.lab", Endpoint::Ucx { host: "gpu.lab".into(), port: DEFAULT_PORT }),
            ("ucx://[fe80::1]:7", Endpoint::Ucx { host: "fe80::1".into(), port: 7 }),
            ("local:", Endpoint::Local),
            ("local", tls("local", DEFAULT_PORT)),
        ] {
            assert_eq!(text.parse(), Ok(endpoint.clone()), "{text}");
            assert_eq!(endpoint.to_string().parse(), Ok(endpoint), "{text} printed");
        }
    }

    #[test]
    fn who_listens_everywhere_is_reached_by_its_machines_name() {
        for (listens, reached) in [
            ("tls://0.0.0.0:7", "tls://rack:7"),
            ("tls://[::]:7", "tls://rack:7"),
            ("tls://[::1]:7", "tls://[::1]:7"),
            ("tcp://10.0.0.1:7", "tcp://10.0.0.1:7"),
            ("unix:/run/r.sock", "unix:/run/r.sock"),
            ("ucx://0.0.0.0:7", "ucx://rack:7"),
            ("vsock://:7", "vsock://:7"),
        ] {
            assert_eq!(listens.parse::<Endpoint>().unwrap().reached_at("rack").to_string(), reached);
        }
    }

    #[test]
    fn refuses_the_rest_with_a_sentence() {
        let hosts = ["a b", "a]b", "tls://[[a]", "tcp://a[:1", "a\u{1b}[1m"];
        let others = ["", "http://x", "tcp://", "host:99999", "host:", "unix:relative", "[::1", "[::1]x", ":80"];
        let vsocks =
            ["", "0:7", "host:7", "-1:7", "+2:7", "2:", "2:x", "2:4294967295", "4294967296:7", "2:7:7", "2 :7"];
        let vsocks = vsocks.map(|rest| format!("vsock://{rest}"));
        for text in hosts.into_iter().chain(others).chain(vsocks.iter().map(String::as_str)) {
            let error = text.parse::<Endpoint>().unwrap_err();
            assert!(error.to_string().contains("is not a server address"), "{text}: {error}");
        }
    }
}
