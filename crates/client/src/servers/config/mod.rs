//! Which servers to use and how: from the environment, a host file, or `ropeway.toml`.
//!
//! Servers come from the first of these that names any place to look:
//!
//! 1. `ROPEWAY_SERVERS`: URLs with commas between them;
//! 2. `ROPEWAY_HOSTFILE`: a file with one server on each line and `#` comments (dOpenCL's format), or a folder with folders
//!    that each have such a file named `servers`;
//! 3. what a broker lends for `ROPEWAY_WANT`, or for `want` in `ropeway.toml`;
//! 4. `servers` in `ropeway.toml`, in the user's configuration folder (`$XDG_CONFIG_HOME/ropeway/` or
//!    `~/.config/ropeway/`) or else in the system's (`/etc/ropeway/`).
//!
//! `auto` among the servers of the first two, or `discover = true` in the file, adds those that announce themselves on
//! the local network and are trusted ([`crate::discover`]). `shm:off` among them, or `shared-memory = false` in the
//! file, has servers of this machine reached through sockets alone; `sockets:4`, or `sockets = 4`, has several sockets carry
//! the bytes of a link between machines.
//!
//! The other settings come from their environment variable, else from the same `ropeway.toml`, else they have a
//! default. A wrong entry never takes the others with it: it is left out and described in [`Config::problems`].

mod file;
mod servers;
mod trust;

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use ropeway_transport::Endpoint;

use crate::link::Sockets;
use crate::link::open::Manner;

pub use crate::base::log::Level as LogLevel;
pub use trust::Trust;

/// The system's configuration folder.
pub const SYSTEM_FOLDER: &str = "/etc/ropeway";

/// The configuration file's name in either folder.
pub const FILE_NAME: &str = "ropeway.toml";

/// How long connecting to the servers (all at once) may take when nothing else is configured.
pub const DEFAULT_CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// How long to look for servers on the local network when nothing else is configured. By the rules of multicast DNS a
/// server answers at most once a second, so that the first question may have no answer where another program has just
/// asked.
pub const DEFAULT_DISCOVER_TIME: Duration = Duration::from_millis(1500);

/// How long a program waits for devices of a broker when nothing else is configured.
pub const DEFAULT_WAIT: Duration = Duration::from_secs(600);

/// The environment variables that name the files of [`Config::certificates`].
pub const CERTIFICATES: [&str; 3] = ["ROPEWAY_CA", "ROPEWAY_CERTIFICATE", "ROPEWAY_KEY"];

/// The longest time that is accepted for connecting and for looking, in seconds.
const MAX_SECONDS: f64 = 600.0;

/// How servers' platforms appear to the application.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Presentation {
    /// One platform "Ropeway" with all devices.
    #[default]
    One,
    /// One platform for each native platform of each server, named `Native name [host]`.
    PerPlatform,
    /// As [`Self::One`], and the platform is there also without any server, for programs that connect them while they
    /// run.
    Always,
}

/// Where the list of servers came from.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Source {
    /// Nothing is configured.
    #[default]
    Nothing,
    /// The environment variable `ROPEWAY_SERVERS`.
    Environment,
    /// The file that `ROPEWAY_HOSTFILE` names.
    HostFile(PathBuf),
    /// A `ropeway.toml`.
    File(PathBuf),
    /// A broker.
    Broker,
}

/// What a broker is asked for when the program first uses OpenCL.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wanted {
    /// The devices, as `ropeway run --want` takes them.
    pub want: String,
    /// The broker, as `--broker` takes it (`broker`); `None`: that of `ROPEWAY_BROKER`.
    pub broker: Option<String>,
    /// How long to wait for them (`ROPEWAY_WANT_WAIT`, `want-wait`: seconds).
    pub wait: Duration,
}

/// The configuration, from all of its sources.
#[derive(Clone, Debug)]
pub struct Config {
    /// The servers, in the order they were written, each once.
    pub servers: Vec<Endpoint>,
    /// How their platforms appear (`ROPEWAY_PLATFORMS`, `platforms`).
    pub presentation: Presentation,
    /// How long connecting may take, all servers together (`ROPEWAY_CONNECT_TIMEOUT`, `connect-timeout`: seconds).
    pub connect_timeout: Duration,
    /// Whether to share memory with servers of this machine (`shm:off` among the servers, `shared-memory`).
    pub shared_memory: bool,
    /// How many sockets carry the bytes of a link between machines (`sockets:4` among the servers, `sockets`).
    pub sockets: Sockets,
    /// How much to say on standard error (`ROPEWAY_LOG`, `log`).
    pub log: LogLevel,
    /// Whether to look for servers on the local network (`auto` among the servers, `discover`).
    pub discover: bool,
    /// How long to look for them (`ROPEWAY_DISCOVER_TIME`, `discover-time`: seconds).
    pub discover_time: Duration,
    /// Which of those that are found may be used (`ROPEWAY_TRUSTED`, `trusted`).
    pub trusted: Vec<Trust>,
    /// The files for encrypted servers without a ticket (`ROPEWAY_CA`, `ca`: authorities of servers;
    /// `ROPEWAY_CERTIFICATE`, `certificate`, and `ROPEWAY_KEY`, `key`: this client's own): all or none.
    pub certificates: [Option<String>; 3],
    /// What a broker is asked for, where no servers are named (`ROPEWAY_WANT`, `want`).
    pub wanted: Option<Wanted>,
    /// Where the servers came from.
    pub source: Source,
    /// Faults of the configuration: one sentence each, with file and line.
    pub problems: Vec<String>,
}

impl Default for Config {
    /// Nothing configured.
    fn default() -> Self {
        Self {
            servers: Vec::new(),
            presentation: Presentation::default(),
            connect_timeout: DEFAULT_CONNECT_TIMEOUT,
            shared_memory: true,
            sockets: Sockets::default(),
            log: LogLevel::default(),
            discover: false,
            discover_time: DEFAULT_DISCOVER_TIME,
            trusted: Vec::new(),
            certificates: [None, None, None],
            wanted: None,
            source: Source::default(),
            problems: Vec::new(),
        }
    }
}

/// The folder of this user's configuration; none without a home.
pub fn user_folder() -> Option<PathBuf> {
    folder_of_user(&|name| std::env::var_os(name).filter(|value| !value.is_empty())?.into_string().ok())
}

fn folder_of_user(env: &dyn Fn(&str) -> Option<String>) -> Option<PathBuf> {
    let folder = env("XDG_CONFIG_HOME").map(PathBuf::from);
    Some(folder.or_else(|| Some(PathBuf::from(env("HOME")?).join(".config")))?.join("ropeway"))
}

impl Config {
    /// How to connect to each server.
    pub(crate) fn manner(&self) -> Manner {
        Manner { timeout: self.connect_timeout, shares_memory: self.shared_memory, sockets: self.sockets }
    }

    /// Adds one reason to trust, or notes what is wrong with it; `place` says where it is written.
    fn add_trusted(&mut self, place: &str, entry: &str) {
        match entry.parse() {
            Ok(trust) => self.trusted.push(trust),
            Err(error) => self.problems.push(format!("{place}: {error}")),
        }
    }

    /// Reads this process's configuration.
    pub fn load() -> Self {
        // A variable that is not Unicode is shown with replacement characters; as an entry it is wrong then, and
        // reported.
        let env = |name: &str| std::env::var_os(name).map(|value| value.to_string_lossy().into_owned());
        Self::from_parts(env, Path::new(SYSTEM_FOLDER))
    }

    /// Reads the configuration that environment `env` and the system's folder `system` give.
    pub fn from_parts(env: impl Fn(&str) -> Option<String>, system: &Path) -> Self {
        // An empty variable is the same as none.
        let env = |name: &str| env(name).map(|v| v.trim().to_owned()).filter(|v| !v.is_empty());
        let mut config = Self::default();
        let user = folder_of_user(&env);
        for folder in user.iter().map(PathBuf::as_path).chain([system]) {
            if config.read_file(&folder.join(FILE_NAME)) {
                break;
            }
        }
        if let Some(list) = env("ROPEWAY_SERVERS") {
            config.read_list(&list);
        } else if let Some(path) = env("ROPEWAY_HOSTFILE") {
            config.read_host_file(Path::new(&path));
        }
        config.read_wanted(&env);
        if let Some(value) = config.setting("ROPEWAY_PLATFORMS", env("ROPEWAY_PLATFORMS")) {
            config.presentation = value;
        }
        if let Some(Seconds(value)) = config.setting("ROPEWAY_CONNECT_TIMEOUT", env("ROPEWAY_CONNECT_TIMEOUT")) {
            config.connect_timeout = value;
        }
        if let Some(Seconds(value)) = config.setting("ROPEWAY_DISCOVER_TIME", env("ROPEWAY_DISCOVER_TIME")) {
            config.discover_time = value;
        }
        if let Some(list) = env("ROPEWAY_TRUSTED") {
            config.trusted.clear();
            for entry in list.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
                config.add_trusted("ROPEWAY_TRUSTED", entry);
            }
        }
        for (file, name) in config.certificates.iter_mut().zip(CERTIFICATES) {
            *file = env(name).or(file.take());
        }
        if let Some(value) = config.setting("ROPEWAY_LOG", env("ROPEWAY_LOG")) {
            config.log = value;
        }
        config
    }

    /// Takes what a broker is asked for; nothing, where the environment names servers.
    fn read_wanted(&mut self, env: &impl Fn(&str) -> Option<String>) {
        let wait = self.setting("ROPEWAY_WANT_WAIT", env("ROPEWAY_WANT_WAIT")).map(|Seconds(wait)| wait);
        let before = self.wanted.take();
        if matches!(self.source, Source::Environment | Source::HostFile(_)) {
            return;
        }
        let Some(want) =
            env("ROPEWAY_WANT").or(before.as_ref().map(|wanted| wanted.want.clone())).filter(|want| !want.is_empty())
        else {
            return;
        };
        let broker =
            before.as_ref().and_then(|wanted| wanted.broker.clone()).filter(|_| env("ROPEWAY_BROKER").is_none());
        let wait = wait.or(before.map(|wanted| wanted.wait)).unwrap_or(DEFAULT_WAIT);
        self.wanted = Some(Wanted { want, broker, wait });
        self.servers.clear();
        self.source = Source::Broker;
    }

    /// The value of a setting, or a problem noted.
    fn setting<T: FromStr<Err = String>>(&mut self, place: &str, text: Option<String>) -> Option<T> {
        text?.parse().map_err(|error| self.problems.push(format!("{place}: {error}"))).ok()
    }
}

impl FromStr for Presentation {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "one" => Ok(Self::One),
            "per-platform" => Ok(Self::PerPlatform),
            "always" => Ok(Self::Always),
            _ => {
                Err(format!("'{text}' is not a way to present platforms; use \"one\", \"per-platform\" or \"always\""))
            }
        }
    }
}

impl fmt::Display for Presentation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::One => "one",
            Self::PerPlatform => "per-platform",
            Self::Always => "always",
        })
    }
}

impl FromStr for LogLevel {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "off" => Ok(Self::Off),
            "error" => Ok(Self::Error),
            "warn" => Ok(Self::Warn),
            "info" => Ok(Self::Info),
            "debug" => Ok(Self::Debug),
            _ => Err(format!("'{text}' is not a log level; use off, error, warn, info or debug")),
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => f.write_str("nothing is configured"),
            Self::Environment => f.write_str("the environment variable ROPEWAY_SERVERS"),
            Self::HostFile(path) => write!(f, "the host file {}", path.display()),
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Broker => f.write_str("a broker, for what is wanted of it"),
        }
    }
}

/// A time as people write it: seconds, with or without a fraction.
struct Seconds(Duration);

impl TryFrom<f64> for Seconds {
    type Error = String;

    fn try_from(seconds: f64) -> Result<Self, String> {
        if seconds > 0.0 && seconds <= MAX_SECONDS {
            Ok(Self(Duration::from_secs_f64(seconds)))
        } else {
            Err(format!("a time of {seconds} is not possible; use more than 0 and at most {MAX_SECONDS} seconds"))
        }
    }
}

impl FromStr for Seconds {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let seconds: f64 = text.parse().map_err(|_| format!("'{text}' is not a number of seconds"))?;
        seconds.try_into()
    }
}

#[cfg(test)]
mod tests;
