//! Asks one server who it is, and measures the link to it.
//!
//! Probing goes a step at a time, each in bounded time, so that an error can name the exact step.

use std::fmt;
use std::io::{self, ErrorKind, IoSlice};
use std::net::ToSocketAddrs;
use std::time::{Duration, Instant, SystemTime};

use ropeway_client::config::Config;
use ropeway_client::link::{OpenError, Way, greet};
use ropeway_client::reach::{Held, reach};
use ropeway_client::ssh::TunnelError;
use ropeway_daemon::access::server_clock;
use ropeway_protocol::handshake::{HandshakeError, Welcome};
use ropeway_protocol::messages::{Goodbye, Ping};
use ropeway_protocol::{FRAME_HEADER_LEN, FrameHeader, encode_call, encode_post, frame, limits};
use ropeway_transport::tls::TlsError;
use ropeway_transport::{Endpoint, Link, Sender, VsockAddress};
use rustix::net::sockopt::{Timeout, set_socket_timeout};

/// How long a server may take to answer, once it is connected.
const ANSWER: Duration = Duration::from_secs(15);

/// Round trips whose median is the latency.
const ROUND_TRIPS: usize = 31;

/// Bytes of bulk in one frame of a bandwidth measurement.
const PIECE: usize = limits::CHUNK;

/// Bandwidth is measured for about this long in each direction.
const MEASURE: Duration = Duration::from_millis(150);

/// Why a server is of no use.
#[derive(Debug)]
pub enum ProbeError {
    /// The host name has no address.
    Resolve(io::Error),
    /// Nobody answers at its address.
    Connect(io::Error),
    /// The ticket that was joined for it cannot be used.
    Ticket(io::Error),
    /// There is no encrypted connection to it.
    Tls(TlsError),
    /// The other side is not a server that this release can use.
    Handshake(HandshakeError),
    /// It is connected, and then fails.
    Link(io::Error),
}

impl ProbeError {
    /// Advice to a person.
    pub fn advice(&self, endpoint: &Endpoint) -> String {
        match (self, endpoint) {
            (Self::Resolve(_), _) => "check the spelling of the host name, or use its IP address".into(),
            (Self::Connect(_), Endpoint::Unix(path)) => {
                format!("start the server with `ropeway serve --listen unix:{}`", path.display())
            }
            (Self::Connect(_), Endpoint::Vsock(address)) => vsock_advice(*address),
            (Self::Connect(error) | Self::Link(error), Endpoint::Ucx { .. })
                if error.kind() == ErrorKind::Unsupported =>
            {
                "install UCX where it is missing; or go without it, by tcp:// and the same address".into()
            }
            (
                Self::Connect(error),
                Endpoint::Tls { port, .. } | Endpoint::Tcp { port, .. } | Endpoint::Ucx { port, .. },
            ) if error.kind() == ErrorKind::ConnectionRefused => {
                format!(
                    "start `ropeway serve` there; if it runs, see where it listens and whether port {port} is the right one"
                )
            }
            (Self::Connect(error), Endpoint::Ssh(host)) => match TunnelError::of(error) {
                Some(error) => error.advice.clone(),
                None => format!("`ssh {} ropeway --version` must print a version", host.destination()),
            },
            (Self::Connect(_), Endpoint::Local) => "`ropeway local` says why it cannot start".into(),
            (Self::Ticket(_), _) => "the ticket's file has to be put right first, or `ropeway join` it again".into(),
            (Self::Connect(error), _) if has_no_way(error) => {
                "check this machine's network and the address; a firewall between may also answer this".into()
            }
            (
                Self::Connect(_),
                Endpoint::Tls { port, .. } | Endpoint::Tcp { port, .. } | Endpoint::Ucx { port, .. },
            ) => format!(
                "check that the machine is up; if it is (other services answer), a firewall drops what is sent to its port {port}"
            ),
            (Self::Tls(error), _) => tls_advice(error, endpoint),
            (Self::Handshake(HandshakeError::NotRopeway), _) => "check the port: another program listens there".into(),
            (Self::Handshake(HandshakeError::Version { .. }), _) => "install the same release on both machines".into(),
            (Self::Handshake(HandshakeError::Refused(text)), _) => match server_clock(text) {
                Some(theirs) => clock_advice(theirs, SystemTime::now()),
                None => "do as it says, or see the log of `ropeway serve` there".into(),
            },
            // Encrypted servers close connections in plain text, whatever comes.
            (Self::Link(error), Endpoint::Tcp { host, port }) if is_cut(error) => format!(
                "if it takes encrypted connections only, use {} and a ticket; see the log of `ropeway serve` there",
                Endpoint::Tls { host: host.clone(), port: *port, pass: None }
            ),
            (Self::Handshake(_) | Self::Link(_), Endpoint::Ssh(host)) => {
                format!("`ssh {} ropeway serve --stdio` in a shell shows what it says", host.destination())
            }
            (Self::Handshake(_) | Self::Link(_), _) => "see the log of `ropeway serve` there".into(),
        }
    }
}

impl fmt::Display for ProbeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Self::Connect(error) = self
            && let Some(error) = TunnelError::of(error)
        {
            return f.write_str(&error.what);
        }
        match self {
            Self::Resolve(error) => write!(f, "its host name cannot be resolved ({})", plain(error)),
            Self::Connect(error) if error.kind() == ErrorKind::TimedOut => write!(f, "nothing answers at its address"),
            Self::Connect(error) if has_no_way(error) => write!(f, "there is no way to its address ({})", plain(error)),
            Self::Connect(error) => write!(f, "it cannot be reached ({})", plain(error)),
            Self::Ticket(error) => error.fmt(f),
            Self::Tls(error) => error.fmt(f),
            Self::Handshake(error) => write!(f, "{error}"),
            Self::Link(error) if error.kind() == ErrorKind::TimedOut => write!(f, "it does not answer in time"),
            Self::Link(error) if is_cut(error) => write!(f, "it closed the connection"),
            Self::Link(error) => write!(f, "the connection broke ({})", plain(error)),
        }
    }
}

/// What to do where nobody answers on a vsock.
fn vsock_advice(address: VsockAddress) -> String {
    let VsockAddress { cid, port } = address;
    let serve = format!("start `ropeway serve --listen vsock://:{port}` there");
    match cid {
        VsockAddress::LOCAL => format!("{serve}; a machine reaches itself only with the kernel module vsock_loopback"),
        VsockAddress::HOST => format!(
            "{serve}, on the machine that this virtual machine runs on, with --allow-cid for this one; and this one needs a vsock device \
             (QEMU's vhost-vsock-pci, or vhost-user-vsock-pci)"
        ),
        _ => format!("{serve}; and see that this machine runs a virtual machine whose vsock has the CID {cid}"),
    }
}

/// What to do where something answers and there is still no encrypted connection.
fn tls_advice(error: &TlsError, endpoint: &Endpoint) -> String {
    let (host, port) = (endpoint.host(), endpoint.port());
    match error {
        TlsError::NoTicket(_) => format!(
            "`ropeway ticket new NAME --host {host}` on that machine prints a ticket, `ropeway join TICKET` here keeps it"
        ),
        TlsError::WrongServerKey => {
            "another machine answers at that address, or its server.key was made anew: do not use it before you know which; \
             then `ropeway join` a new ticket"
                .into()
        }
        TlsError::Certificate(_) => {
            "ROPEWAY_CA, ROPEWAY_CERTIFICATE and ROPEWAY_KEY (or ca, certificate and key in ropeway.toml) name this client's files; \
             --certificate and --client-ca of `ropeway serve` those of the server"
                .into()
        }
        TlsError::ClientKeyRefused => {
            "`ropeway ticket list` there shows whom it knows; `ropeway ticket new` there, and `ropeway join` here".into()
        }
        TlsError::LeaseExpired | TlsError::LeaseNotYetValid | TlsError::LeaseClocks => {
            "compare the clocks of both machines (`date -u`), and ask the broker for another lease".into()
        }
        TlsError::LeaseRefused => {
            "ask the broker to which that server belongs for a lease; this one is another's, or was changed".into()
        }
        TlsError::NoLeases => {
            format!("`ropeway ticket new NAME --host {host}` on that machine prints a ticket; leases are for a broker's servers")
        }
        TlsError::NoAnswer => {
            format!("a firewall or a proxy between takes connections for it, or another program listens on port {port}")
        }
        TlsError::Closed => {
            let plain = Endpoint::Tcp { host: host.to_owned(), port };
            format!("if it is a server without encryption, use {plain}; otherwise another program listens on port {port}")
        }
        TlsError::Protocol(_) => format!("check the port: another program may listen on {port}"),
    }
}

/// Clocks that differ by less are right.
const CLOCKS: Duration = Duration::from_secs(60);

/// What to do where the server says that a ticket is over: by its clock, it is `theirs`.
fn clock_advice(theirs: SystemTime, ours: SystemTime) -> String {
    let differs = |apart: Duration, how: &str| {
        let apart = Duration::from_secs((apart.as_secs() + 30) / 60 * 60);
        format!(
            "the server's clock is {} {how} this machine's: set the one that is wrong (`timedatectl` shows it). The server's \
             decides: if that is right, the ticket is over, and `ropeway ticket new` there makes another",
            humantime::format_duration(apart).to_string().replace(' ', "")
        )
    };
    match (theirs.duration_since(ours), ours.duration_since(theirs)) {
        (Ok(ahead), _) if ahead > CLOCKS => differs(ahead, "ahead of"),
        (_, Ok(behind)) if behind > CLOCKS => differs(behind, "behind"),
        _ => "both clocks say so: `ropeway ticket new` there makes another, `ropeway join` it here".into(),
    }
}

/// Whether this machine or one on the way says that nothing leads there.
fn has_no_way(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable)
}

fn is_cut(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe)
}

/// The operating system's error without its number, fit for the middle of a sentence.
fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    let mut letters = text.chars();
    letters.next().map(|first| first.to_lowercase().chain(letters).collect()).unwrap_or_default()
}

/// Measured properties of a link.
#[derive(Clone, Copy, Debug)]
pub struct Measured {
    /// The median round trip of an empty message.
    pub latency: Duration,
    /// Bytes per second to the server.
    pub up: f64,
    /// Bytes per second from it.
    pub down: f64,
}

/// A session with a server that only sends queries.
pub struct Probe {
    link: Link,
    /// The server's welcome.
    pub welcome: Welcome,
    calls: u32,
    /// What the server lives by, kept as long as the probe.
    _held: Option<Held>,
}

impl Probe {
    /// Connects, as programs with this configuration do, and shakes hands.
    pub fn open(address: &Endpoint, config: &Config) -> Result<Self, ProbeError> {
        if let Endpoint::Tls { host, port, .. } | Endpoint::Tcp { host, port } | Endpoint::Ucx { host, port } = address
        {
            (host.as_str(), *port).to_socket_addrs().map_err(ProbeError::Resolve)?;
        }
        let name = address.to_string();
        let own = std::env::current_exe().map_err(ProbeError::Connect)?;
        let reached = reach(address, config.connect_timeout, Some(&own)).map_err(|error| match address {
            Endpoint::Tls { .. } => ProbeError::Ticket(error),
            _ => ProbeError::Connect(error),
        })?;
        let link = Link::connect(&reached.endpoint, reached.timeout).map_err(|error| match TlsError::of(&error) {
            Some(known) => ProbeError::Tls(known.clone()),
            None => ProbeError::Connect(error),
        })?;
        set_socket_timeout(&link, Timeout::Send, Some(ANSWER)).map_err(|e| ProbeError::Link(e.into()))?;
        let way = Way { endpoint: &reached.endpoint, shares_memory: config.shared_memory, sockets: config.sockets };
        let (link, welcome) = match greet(link, &way, &name, Instant::now() + ANSWER) {
            Ok(greeted) => greeted,
            Err(error) => {
                return Err(match reached.failed(address, error) {
                    OpenError::Link(error) if TunnelError::of(&error).is_some() => ProbeError::Connect(error),
                    OpenError::Link(error) => match TlsError::of(&error) {
                        Some(known) => ProbeError::Tls(known.clone()),
                        None => ProbeError::Link(error),
                    },
                    OpenError::Handshake(error) => ProbeError::Handshake(error),
                });
            }
        };
        Ok(Self { link, welcome, calls: 0, _held: reached.held })
    }

    /// What its link goes through, for a person.
    pub fn medium(&self) -> &'static str {
        self.link.medium()
    }

    /// Measures the link.
    pub fn measure(&mut self) -> Result<Measured, ProbeError> {
        self.measure_link().map_err(ProbeError::Link)
    }

    fn measure_link(&mut self) -> io::Result<Measured> {
        let mut times = Vec::with_capacity(ROUND_TRIPS);
        for _ in 0..ROUND_TRIPS {
            let start = Instant::now();
            self.send(0, &[])?;
            self.receive()?;
            times.push(start.elapsed());
        }
        times.sort_unstable();
        let latency = times[ROUND_TRIPS / 2];
        let bulk = vec![0u8; PIECE];
        let up = self.bandwidth(|probe| probe.send(0, &bulk))?;
        let down = self.bandwidth(|probe| probe.send(PIECE as u32, &[]))?;
        Ok(Measured { latency, up, down })
    }

    /// Bytes per second when each `send` moves one piece; eight are on their way at a time.
    fn bandwidth(&mut self, send: impl Fn(&mut Self) -> io::Result<()>) -> io::Result<f64> {
        const WINDOW: usize = 8;
        let start = Instant::now();
        let mut pieces = 0;
        for _ in 0..WINDOW {
            send(self)?;
        }
        while start.elapsed() < MEASURE {
            self.receive()?;
            pieces += 1;
            send(self)?;
        }
        for _ in 0..WINDOW {
            self.receive()?;
            pieces += 1;
        }
        Ok((pieces * PIECE) as f64 / start.elapsed().as_secs_f64())
    }

    /// Sends a ping with a tail, which asks for `answer` bytes.
    fn send(&mut self, answer: u32, tail: &[u8]) -> io::Result<()> {
        self.calls += 1;
        let mut frame = Vec::new();
        encode_call(&mut frame, self.calls, &Ping { answer }, tail.len());
        self.link.send_all(&mut [IoSlice::new(&frame), IoSlice::new(tail)])
    }

    /// Waits for one answer.
    fn receive(&mut self) -> io::Result<()> {
        let deadline = Instant::now() + ANSWER;
        let mut scratch = vec![0; 64 << 10];
        loop {
            let mut head = [0; FRAME_HEADER_LEN];
            receive_exact(&self.link, &mut head, deadline)?;
            let header = FrameHeader::from_bytes(&head, limits::MAX_BODY_TO_CLIENT)
                .map_err(|error| io::Error::other(error.to_string()))?;
            let mut left = header.payload();
            while left > 0 {
                let piece = left.min(scratch.len());
                receive_exact(&self.link, &mut scratch[..piece], deadline)?;
                left -= piece;
            }
            // A notification, for example what a driver printed, does not matter here.
            if header.opcode == frame::REPLY {
                return Ok(());
            }
        }
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        let mut frame = Vec::new();
        encode_post(&mut frame, &Goodbye {}, 0);
        // An error is harmless: the server sees the connection's end in any case.
        let _ = self.link.send_all(&mut [IoSlice::new(&frame)]);
    }
}

/// Fills `into` before `deadline`, however slowly its bytes come.
fn receive_exact(link: &Link, mut into: &mut [u8], deadline: Instant) -> io::Result<()> {
    while !into.is_empty() {
        match link.try_recv(into) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(n) => into = &mut into[n..],
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                if !link.wait_readable(Some(deadline.saturating_duration_since(Instant::now())))? {
                    return Err(ErrorKind::TimedOut.into());
                }
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
