//! `ssh://` — a server that ssh starts on its host.
//!
//! A process of its own, the *tunnel* (`ropeway tunnel`), has started `ropeway serve --stdio` on the host with one
//! `ssh`, and has this `ssh` forward a Unix socket of this machine to the server's. Each connection to that socket is a
//! channel of the one ssh connection. The first program that needs a tunnel starts it; it outlives the program by some
//! minutes.
//!
//! Programs find the tunnel by a Unix socket in a folder that only this user can enter. A program that connects there
//! hears, in one line, where the host's server is reached or why it is not; the tunnel stays as long as that
//! connection. What a program says there, whatever it is, means that the server is of no use.

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use ropeway_transport::{Endpoint, Link, SshHost, private_file};

use crate::servers::binary;

/// How long a tunnel may take to be there, and then its server to answer, if the connect time-out is shorter: ssh
/// authenticates, and the server initialises its machine's OpenCL.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// The variable that names the ssh to use, with its first arguments, between spaces.
pub const SSH_VARIABLE: &str = "ROPEWAY_SSH";

/// The socket, in its folder, where programs ask a tunnel.
pub const SOCKET: &str = "tunnel";

/// The maximum size of a tunnel's answer.
const MAX_ANSWER: usize = 4096;

/// The time between two looks for a tunnel that another program is starting, or that is just ending.
const PAUSE: Duration = Duration::from_millis(10);

/// A tunnel's answer to a program: one line, with tabs between its parts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer {
    /// The Unix socket by which the host's server is reached.
    Ready(PathBuf),
    /// There is no way to the host's server.
    Failed(TunnelError),
}

/// Why there is no way to a host's server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TunnelError {
    /// What failed.
    pub what: String,
    /// What to do about it.
    pub advice: String,
}

impl TunnelError {
    /// The tunnel's error in an error of the system's kind, if there is one.
    pub fn of(error: &io::Error) -> Option<&Self> {
        error.get_ref()?.downcast_ref()
    }
}

impl fmt::Display for TunnelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.what, self.advice)
    }
}

impl std::error::Error for TunnelError {}

impl Answer {
    /// The line, with its end, by which the tunnel to `host` gives this answer.
    pub fn to_line(&self, host: &SshHost) -> String {
        let plain = |text: &str| text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect::<String>();
        match self {
            Self::Ready(path) => format!("ready\t{host}\t{}\n", path.display()),
            Self::Failed(error) => format!("failed\t{host}\t{}\t{}\n", plain(&error.what), plain(&error.advice)),
        }
    }

    /// Reads [`Self::to_line`]; `None` for another text, or the answer of a tunnel to another host.
    fn from_line(line: &str, host: &SshHost) -> Option<Self> {
        let mut parts = line.split('\t');
        let (kind, of) = (parts.next()?, parts.next()?);
        if of != host.to_string() {
            return None;
        }
        match (kind, parts.next()?, parts.next()) {
            ("ready", path, None) => Some(Self::Ready(path.into())),
            ("failed", what, Some(advice)) => {
                Some(Self::Failed(TunnelError { what: what.to_owned(), advice: advice.to_owned() }))
            }
            _ => None,
        }
    }
}

/// The program ssh and its first arguments, as the user wants them.
pub fn ssh_command() -> Vec<String> {
    let named = std::env::var_os(SSH_VARIABLE).map(|value| value.to_string_lossy().into_owned()).unwrap_or_default();
    let words: Vec<String> = named.split_whitespace().map(str::to_owned).collect();
    if words.is_empty() { vec!["ssh".to_owned()] } else { words }
}

/// The folder of this user's tunnel to `host`: one for each release of Ropeway and each ssh command.
pub fn folder(host: &SshHost) -> PathBuf {
    let base = private_file::runtime_folder().unwrap_or_else(std::env::temp_dir);
    let mut hasher = DefaultHasher::new();
    (host, ssh_command(), env!("CARGO_PKG_VERSION")).hash(&mut hasher);
    let user = rustix::process::getuid().as_raw();
    base.join(format!("ropeway-ssh-{user}-{:016x}", hasher.finish()))
}

/// Checks that nobody else can enter the folder.
///
/// # Errors
/// A sentence, or [`ErrorKind::NotFound`].
pub fn check_folder(folder: &Path) -> io::Result<()> {
    let found = std::fs::symlink_metadata(folder)?;
    if found.is_dir() && found.uid() == rustix::process::getuid().as_raw() && found.mode() & 0o077 == 0 {
        return Ok(());
    }
    let text = format!("the folder {} is not this user's alone; remove it", folder.display());
    Err(io::Error::new(ErrorKind::PermissionDenied, text))
}

/// A tunnel that this program uses; it stays there as long as this.
#[derive(Debug)]
pub struct Tunnel {
    endpoint: Endpoint,
    /// The connection on which it was asked.
    asked: Link,
}

impl Tunnel {
    /// Finds the tunnel to `host`, or starts it with the program `ropeway` at `binary`, or where it is found. The host
    /// has to answer within `timeout`; ssh and the server may take longer after that, [`PATIENCE`] in all.
    ///
    /// # Errors
    /// A [`TunnelError`], or why there is no tunnel at all.
    pub fn open(host: &SshHost, timeout: Duration, binary: Option<&Path>) -> io::Result<Self> {
        let deadline = Instant::now() + timeout.max(PATIENCE);
        let folder = folder(host);
        loop {
            if let Some(tunnel) = Self::join(host, &folder, deadline)? {
                return Ok(tunnel);
            }
            if !start(host, timeout, binary, deadline)? {
                // Another program is starting it, or it is just ending: neither takes long.
                std::thread::sleep(PAUSE);
            }
            if Instant::now() >= deadline {
                return Err(ErrorKind::TimedOut.into());
            }
        }
    }

    /// Asks the tunnel, if there is one.
    fn join(host: &SshHost, folder: &Path, deadline: Instant) -> io::Result<Option<Self>> {
        let is_gone = |error: &io::Error| {
            matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused | ErrorKind::ConnectionReset)
        };
        let left = deadline.saturating_duration_since(Instant::now());
        let asked = match check_folder(folder).and_then(|()| Link::connect(&Endpoint::Unix(folder.join(SOCKET)), left))
        {
            Ok(asked) => asked,
            Err(error) if is_gone(&error) => return Ok(None),
            Err(error) => return Err(error),
        };
        let line = match read_line(&asked, deadline) {
            Ok(line) => line,
            // It ended meanwhile.
            Err(error) if is_gone(&error) || error.kind() == ErrorKind::UnexpectedEof => return Ok(None),
            Err(error) => return Err(error),
        };
        match Answer::from_line(&line, host) {
            Some(Answer::Ready(path)) => Ok(Some(Self { endpoint: Endpoint::Unix(path), asked })),
            Some(Answer::Failed(error)) => Err(io::Error::other(error)),
            None => Err(io::Error::other(format!("what answers in {} is not the tunnel to {host}", folder.display()))),
        }
    }

    /// Has the tunnel end with the last program that uses it: the server is of no use, and another may be there next
    /// time.
    pub fn leave_for_good(&self) {
        // A tunnel that does not take a byte is gone.
        let _ = self.asked.try_send(b"\n");
    }

    /// Where the host's server is reached.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }
}

/// Names the likely reason where a tunnel takes a connection and ends it without a word. Other errors, and those of
/// other addresses, stay as they are.
pub fn explain(address: &Endpoint, error: io::Error) -> io::Error {
    let is_cut = matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe);
    match address {
        Endpoint::Ssh(host) if is_cut => io::Error::other(TunnelError {
            what: format!("the ssh server of {} forwards no connection to the server started there", host.host),
            advice: "its sshd_config must not forbid that (AllowStreamLocalForwarding, DisableForwarding), nor the key's line \
                     in authorized_keys"
                .to_owned(),
        }),
        _ => error,
    }
}

/// Reads a line, without its end.
fn read_line(link: &Link, deadline: Instant) -> io::Result<String> {
    let mut line = Vec::new();
    let mut piece = [0; 512];
    loop {
        match link.try_recv(&mut piece) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(n) => line.extend_from_slice(&piece[..n]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                if !link.wait_readable(Some(deadline.saturating_duration_since(Instant::now())))? {
                    return Err(ErrorKind::TimedOut.into());
                }
            }
            Err(error) => return Err(error),
        }
        if line.last() == Some(&b'\n') {
            line.pop();
            return Ok(String::from_utf8_lossy(&line).into_owned());
        }
        if line.len() > MAX_ANSWER {
            return Err(ErrorKind::InvalidData.into());
        }
    }
}

/// Starts a tunnel; returns whether it is there now, or else another one is.
fn start(host: &SshHost, timeout: Duration, binary: Option<&Path>, deadline: Instant) -> io::Result<bool> {
    let binary = binary.map_or_else(binary::find, |binary| Ok(binary.to_owned()))?;
    let mut command = Command::new(&binary);
    command.arg("tunnel").arg("--timeout").arg(timeout.as_millis().to_string()).arg(host.to_string());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let said = binary::run_until(command, &binary, deadline, |line| match line.split_once(' ') {
        Some(("failed:", why)) => Some(Err(io::Error::other(why.to_owned()))),
        _ if line == "listening" => Some(Ok(true)),
        _ if line == "busy" => Some(Ok(false)),
        _ => None,
    })?;
    said.unwrap_or_else(|| {
        Err(io::Error::other(format!(
            "the program `ropeway` opened no tunnel; `ropeway tunnel {host}` in a shell says why"
        )))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_for_its_host_only() {
        let host = |text: &str| match text.parse() {
            Ok(Endpoint::Ssh(host)) => host,
            other => panic!("{other:?}"),
        };
        let (one, other) = (host("ssh://me@gpu7:22"), host("ssh://gpu7:22"));
        let error = TunnelError { what: "ssh\tis\nnot there".to_owned(), advice: "install it".to_owned() };
        for answer in [Answer::Ready("/run/user/7/x y".into()), Answer::Failed(error)] {
            let line = answer.to_line(&one);
            let read = |host| Answer::from_line(line.strip_suffix('\n').unwrap(), host);
            assert_eq!(read(&one).map(|read| read.to_line(&one)), Some(line.clone()));
            assert_eq!(read(&other), None);
        }
        for wrong in ["", "ready", "ready\tssh://gpu7:22", "failed\tssh://gpu7:22\twhat", "ready\tssh://gpu7:22\tx\ty"]
        {
            assert_eq!(Answer::from_line(wrong, &other), None, "{wrong}");
        }
    }
}
