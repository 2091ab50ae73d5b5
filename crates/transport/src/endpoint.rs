//! Server addresses as people write them.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, ToSocketAddrs};
use std::path::PathBuf;
use std::str::FromStr;

/// The TCP port of a server whose URL names none.
pub const DEFAULT_PORT: u16 = 7590;

/// Where a server is: `tcp://host[:port]`, `unix:/path`, `local:`, or a bare `host[:port]`.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Endpoint {
    /// A TCP port of a host.
    Tcp {
        /// Host name or address, without the brackets of an IPv6 address.
        host: String,
        /// Port; 0 only when listening: any free one.
        port: u16,
    },
    /// A Unix socket.
    Unix(PathBuf),
    /// The program's own server on this machine, started when needed.
    Local,
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

impl Endpoint {
    /// The TCP port; 0 where there is none.
    pub fn port(&self) -> u16 {
        match self {
            Self::Tcp { port, .. } => *port,
            Self::Unix(_) | Self::Local => 0,
        }
    }

    /// The host as a person would name it: the host of a TCP endpoint, `localhost` for a Unix socket.
    pub fn host(&self) -> &str {
        match self {
            Self::Tcp { host, .. } => host,
            Self::Unix(_) | Self::Local => "localhost",
        }
    }

    /// Whether only processes of the same machine can reach it. A host name is judged by the addresses that it resolves
    /// to now.
    pub fn is_local(&self) -> bool {
        match self {
            Self::Unix(_) | Self::Local => true,
            Self::Tcp { host, port } => (host.as_str(), *port)
                .to_socket_addrs()
                .is_ok_and(|mut addresses| addresses.all(|a| a.ip().to_canonical().is_loopback())),
        }
    }
}

impl FromStr for Endpoint {
    type Err = ParseEndpointError;

    fn from_str(text: &str) -> Result<Self, ParseEndpointError> {
        let text = text.trim();
        let wrong = |why: &str| ParseEndpointError(format!("'{text}' is not a server address: {why}"));
        if let Some(path) = text.strip_prefix("unix:") {
            // unix:///path is the same as unix:/path.
            let path = path.strip_prefix("//").unwrap_or(path);
            if !path.starts_with('/') {
                return Err(wrong("a Unix socket needs an absolute path, as in unix:/run/ropeway.sock"));
            }
            return Ok(Self::Unix(PathBuf::from(path)));
        }
        if text == "local:" {
            return Ok(Self::Local);
        }
        let rest = match text.split_once("://") {
            Some(("tcp", rest)) => rest.trim_end_matches('/'),
            Some((scheme, _)) => {
                return Err(wrong(&format!(
                    "'{scheme}' is not a known kind of link; use tcp://host:port, unix:/path or local:"
                )));
            }
            None => text,
        };
        let (host, port) = if let Some(rest) = rest.strip_prefix('[') {
            let (host, port) =
                rest.split_once(']').ok_or_else(|| wrong("the bracket of its IPv6 address is not closed"))?;
            let port = match port {
                "" => None,
                p => Some(p.strip_prefix(':').ok_or_else(|| wrong("after ']' only :port may follow"))?),
            };
            (host, port)
        } else if rest.parse::<IpAddr>().is_ok_and(|ip| ip.is_ipv6()) {
            (rest, None)
        } else {
            match rest.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (rest, None),
            }
        };
        let port = match port {
            None => DEFAULT_PORT,
            Some(p) => p.parse().map_err(|_| wrong("its port is not a number from 0 to 65535"))?,
        };
        if host.is_empty() || host.contains(|c: char| c.is_whitespace() || c == '/' || c == '@') {
            return Err(wrong("its host name is not one"));
        }
        Ok(Self::Tcp { host: host.to_owned(), port })
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, port } if host.contains(':') => write!(f, "tcp://[{host}]:{port}"),
            Self::Tcp { host, port } => write!(f, "tcp://{host}:{port}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
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

    fn tcp(host: &str, port: u16) -> Endpoint {
        Endpoint::Tcp { host: host.into(), port }
    }

    #[test]
    fn understands_what_people_write() {
        for (text, endpoint) in [
            ("tcp://gpu.lab:99", tcp("gpu.lab", 99)),
            ("tcp://gpu.lab", tcp("gpu.lab", DEFAULT_PORT)),
            (" gpu.lab ", tcp("gpu.lab", DEFAULT_PORT)),
            ("10.0.0.1:80", tcp("10.0.0.1", 80)),
            ("[::1]:80", tcp("::1", 80)),
            ("::1", tcp("::1", DEFAULT_PORT)),
            ("tcp://[fe80::1]", tcp("fe80::1", DEFAULT_PORT)),
            ("unix:/run/r.sock", Endpoint::Unix("/run/r.sock".into())),
            ("unix:///run/r.sock", Endpoint::Unix("/run/r.sock".into())),
            ("local:", Endpoint::Local),
            ("local", tcp("local", DEFAULT_PORT)),
        ] {
            assert_eq!(text.parse(), Ok(endpoint.clone()), "{text}");
            assert_eq!(endpoint.to_string().parse(), Ok(endpoint), "{text} printed");
        }
    }

    #[test]
    fn refuses_the_rest_with_a_sentence() {
        for text in ["", "http://x", "tcp://", "host:99999", "host:", "unix:relative", "[::1", "[::1]x", "a b", ":80"] {
            let error = text.parse::<Endpoint>().unwrap_err();
            assert!(error.to_string().contains("is not a server address"), "{text}: {error}");
        }
    }
}
