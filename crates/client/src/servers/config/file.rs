//! `ropeway.toml`.
//!
//! ```toml
//! servers = ["tcp://gpu1.lab", "gpu2.lab:7591", "unix:/run/ropeway.sock"]
//! platforms = "one"        # or "per-platform"
//! connect-timeout = 2      # seconds
//! discover = true          # also servers that announce themselves on the local network
//! discover-time = 1.5      # seconds
//! shared-memory = true     # with servers of this machine
//! sockets = 4              # of a link between machines
//! trusted = ["10.1.0.0/16", "gpu7"]
//! ca = "/etc/ssl/lab.pem"   # certificates, where there are no tickets; see `Config::certificates`
//! certificate = "/home/me/me.pem"
//! key = "/home/me/me.key"
//! broker = "broker.lab"      # with `want`: devices are lent, and no servers named
//! want = "gpu, memory>=40G"
//! want-wait = 600          # seconds
//! log = "warn"             # off, error, warn, info, debug
//! ```

use std::io::ErrorKind;
use std::ops::Range;
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::servers::read_bounded;
use super::{Config, DEFAULT_WAIT, Seconds, Source, Wanted};

/// A configuration file longer than this is not one.
const MAX_FILE: u64 = 1 << 20;

impl Config {
    /// Takes all that the file at `path` says; whether there is such a file.
    pub(super) fn read_file(&mut self, path: &Path) -> bool {
        let text = match read_bounded(path, MAX_FILE) {
            Ok(text) => text,
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => return false,
            Err(error) => {
                self.problems.push(format!("cannot read {}: {error}", path.display()));
                return true;
            }
        };
        let place = |span: Range<usize>| format!("{}:{}", path.display(), line_of(&text, span.start));
        let (table, errors) = DeTable::parse_recoverable(&text);
        for error in errors {
            self.problems.push(format!("{}: {}", place(error.span().unwrap_or_default()), error.message()));
        }
        for (key, value) in table.get_ref() {
            let here = place(key.span());
            match key.get_ref().as_ref() {
                "servers" => {
                    self.source = Source::File(path.to_owned());
                    self.read_list_of(&here, value, &place, "servers", Self::add_server);
                }
                "platforms" => self.presentation = self.text(&here, value).unwrap_or(self.presentation),
                "log" => self.log = self.text(&here, value).unwrap_or(self.log),
                "ca" => self.certificates[0] = self.text(&here, value).map(|Text(name)| name),
                "certificate" => self.certificates[1] = self.text(&here, value).map(|Text(name)| name),
                "key" => self.certificates[2] = self.text(&here, value).map(|Text(name)| name),
                "connect-timeout" => {
                    self.connect_timeout = self.time(&here, value).unwrap_or(self.connect_timeout);
                }
                "want" => {
                    if let Some(Text(want)) = self.text(&here, value) {
                        self.wanted_or_none().want = want;
                    }
                }
                "broker" => {
                    if let Some(Text(broker)) = self.text(&here, value) {
                        self.wanted_or_none().broker = Some(broker);
                    }
                }
                "want-wait" => {
                    if let Some(wait) = self.time(&here, value) {
                        self.wanted_or_none().wait = wait;
                    }
                }
                "shared-memory" => match value.get_ref().as_bool() {
                    Some(shared) => self.shared_memory = shared,
                    None => self.problems.push(format!("{here}: shared-memory is true or false")),
                },
                "sockets" => {
                    // What is no number is none that is allowed either.
                    let count = value.get_ref().as_integer().map_or("", |count| count.as_str());
                    self.sockets = self.setting(&here, Some(count.to_owned())).unwrap_or(self.sockets);
                }
                "discover-time" => self.discover_time = self.time(&here, value).unwrap_or(self.discover_time),
                "discover" => match value.get_ref().as_bool() {
                    Some(discover) => {
                        self.discover = discover;
                        if discover && self.source == Source::Nothing {
                            self.source = Source::File(path.to_owned());
                        }
                    }
                    None => self.problems.push(format!("{here}: discover is true or false")),
                },
                "trusted" => self.read_list_of(&here, value, &place, "trusted", Self::add_trusted),
                other => self.problems.push(format!(
                    "{here}: '{other}' is not a setting; the settings are servers, platforms, connect-timeout, discover, \
                     discover-time, trusted, ca, certificate, key, broker, want, want-wait, shared-memory, sockets and log"
                )),
            }
        }
        true
    }

    /// What is said of a broker, in whatever order.
    fn wanted_or_none(&mut self) -> &mut Wanted {
        self.wanted.get_or_insert_with(|| Wanted { want: String::new(), broker: None, wait: DEFAULT_WAIT })
    }

    /// A setting that is a list of texts, each given to `add`.
    fn read_list_of(
        &mut self,
        here: &str,
        value: &Spanned<DeValue<'_>>,
        place: &dyn Fn(Range<usize>) -> String,
        name: &str,
        add: fn(&mut Self, &str, &str),
    ) {
        let example = if name == "servers" { "tcp://gpu.example:7590" } else { "192.168.7.0/24" };
        let Some(entries) = value.get_ref().as_array() else {
            self.problems.push(format!("{here}: {name} is a list, as in {name} = [\"{example}\"]"));
            return;
        };
        for entry in entries.iter() {
            let here = place(entry.span());
            match entry.get_ref().as_str() {
                Some(text) => add(self, &here, text),
                None if name == "servers" => {
                    self.problems.push(format!("{here}: a server is a text, as in \"{example}\""));
                }
                None => self.problems.push(format!("{here}: an entry is a text, as in \"{example}\"")),
            }
        }
    }

    /// A setting that is a number of seconds, whole or not.
    fn time(&mut self, here: &str, value: &Spanned<DeValue<'_>>) -> Option<Duration> {
        let seconds = match value.get_ref() {
            DeValue::Integer(number) => number.as_str().parse(),
            DeValue::Float(number) => number.as_str().parse(),
            _ => Err("a time is a number of seconds".to_owned()),
        };
        seconds.map(|Seconds(time)| time).map_err(|error| self.problems.push(format!("{here}: {error}"))).ok()
    }

    /// A setting that is a text.
    fn text<T: FromStr<Err = String>>(&mut self, here: &str, value: &Spanned<DeValue<'_>>) -> Option<T> {
        let Some(text) = value.get_ref().as_str() else {
            self.problems.push(format!("{here}: this setting is a text in quotation marks"));
            return None;
        };
        self.setting(here, Some(text.to_owned()))
    }
}

/// A text that is not empty.
struct Text(String);

impl FromStr for Text {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.is_empty() { Err("this setting says nothing".to_owned()) } else { Ok(Self(text.to_owned())) }
    }
}

/// The line, from 1, that byte `offset` of `text` is in.
fn line_of(text: &str, offset: usize) -> usize {
    1 + text.bytes().take(offset).filter(|&byte| byte == b'\n').count()
}
