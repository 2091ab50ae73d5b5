//! `access.toml`: the clients of a server, by their public keys, and what each may do.
//!
//! ```toml
//! [clients.alice]
//! key = "..."                       # her public key; `ropeway ticket new` puts it here. None: whom a certificate names
//! expires = "2026-12-24T18:00:00Z"
//! sessions = 4                      # at one time
//! weight = 2                        # in sharing the time of devices with other clients that have a weight
//! devices = ["gpu", "0"]            # by type, number or a part of the name; what is not named she does not see
//! memory = "8G"                     # of buffers, for all sessions together
//! host_memory = "16G"               # of the server's main memory, for each session
//! compiler_cache = "1G"             # of compilers' caches and programs on disk, between sessions
//! objects = 100000                  # for all sessions together
//! kernel_time = "10s"               # of each kernel, on the device
//! build_time = "60s"                # of each build, compilation or link
//! registers = true                  # of a broker's clients: whether it is a server that lends its devices
//! ```

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use humantime::{format_rfc3339_seconds, parse_rfc3339};
use ropeway_transport::tls::PublicKey;
use ropeway_worker::handoff::Allowance;
use toml_edit::{Array, DocumentMut, Item, Table, value};

/// The table that holds all clients.
const CLIENTS: &str = "clients";

/// The largest weight.
pub const MAX_WEIGHT: u32 = 1_000_000;

/// Longest name of a client.
const MAX_NAME: usize = 64;

/// The latest time that can be written: the last second of the year 9999.
const LATEST: Duration = Duration::from_secs(253_402_300_799);

/// The clients' file, with its comments.
#[derive(Clone, Debug, Default)]
pub struct Clients {
    document: DocumentMut,
    rules: BTreeMap<String, Rules>,
}

/// One client.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rules {
    /// Its key.
    pub key: PublicKey,
    /// When its ticket was made.
    pub created: Option<SystemTime>,
    /// When it may not come any more.
    pub expires: Option<SystemTime>,
    /// Most sessions at one time.
    pub sessions: Option<u32>,
    /// Its weight where devices are shared, from 1 to [`MAX_WEIGHT`]. `None`: it takes no turns.
    pub weight: Option<u32>,
    /// Most bytes of the server's main memory for each session.
    pub host_memory: Option<u64>,
    /// Most bytes of its compilers' caches that are kept between sessions.
    pub compiler_cache: Option<u64>,
    /// What its sessions may use.
    pub allowance: Allowance,
    /// Whether it may register a server's devices with a broker.
    pub registers: bool,
}

impl Rules {
    /// Rules that allow all that the server gives.
    pub fn new(key: PublicKey) -> Self {
        Self {
            key,
            created: None,
            expires: None,
            sessions: None,
            weight: None,
            host_memory: None,
            compiler_cache: None,
            allowance: Allowance::default(),
            registers: false,
        }
    }

    /// Whether its time is over.
    pub fn has_expired(&self, now: SystemTime) -> bool {
        self.expires.is_some_and(|at| now >= at)
    }
}

impl Clients {
    /// Reads the file's text.
    ///
    /// # Errors
    /// One sentence for a person: where, and what is wrong there.
    pub fn parse(text: &str) -> Result<Self, String> {
        Self::read(text).map_err(|why| one_line(&why))
    }

    fn read(text: &str) -> Result<Self, String> {
        let document: DocumentMut = text.parse().map_err(|error: toml_edit::TomlError| error.to_string())?;
        let mut rules = BTreeMap::new();
        for (name, item) in document.iter() {
            if name != CLIENTS {
                return Err(format!("'{name}' is not known here; clients are [{CLIENTS}.NAME]"));
            }
            let clients = item.as_table_like().ok_or_else(|| format!("'{CLIENTS}' is not a table"))?;
            for (name, item) in clients.iter() {
                check_name(name)?;
                let table = item.as_table_like().ok_or_else(|| "it is not a table".to_owned());
                let read = table.and_then(|table| read_rules(table, name));
                rules.insert(name.to_owned(), read.map_err(|why| format!("client '{name}': {why}"))?);
            }
        }
        Ok(Self { document, rules })
    }

    /// The file's text.
    pub fn text(&self) -> String {
        self.document.to_string()
    }

    /// All clients, by name.
    pub fn all(&self) -> &BTreeMap<String, Rules> {
        &self.rules
    }

    /// Adds a client.
    ///
    /// # Errors
    /// The name is taken, or is none.
    pub fn add(&mut self, name: &str, rules: &Rules) -> Result<(), String> {
        check_name(name)?;
        if self.rules.contains_key(name) {
            return Err(format!("there is a client '{name}' already; `ropeway ticket revoke {name}` removes it"));
        }
        let mut table = Table::new();
        table["key"] = value(rules.key.text());
        for (field, at) in [("created", rules.created), ("expires", rules.expires)] {
            if let Some(at) = at {
                table[field] = value(format_rfc3339_seconds(at).to_string());
            }
        }
        if let Some(sessions) = rules.sessions {
            table["sessions"] = value(i64::from(sessions));
        }
        if let Some(weight) = rules.weight {
            table["weight"] = value(i64::from(weight));
        }
        if let Some(devices) = &rules.allowance.devices {
            table["devices"] = value(devices.iter().map(ToString::to_string).collect::<Array>());
        }
        let Allowance { memory, objects, kernel_time, build_time, .. } = rules.allowance;
        let Rules { host_memory, compiler_cache, .. } = *rules;
        let sizes = [("memory", memory), ("host_memory", host_memory), ("compiler_cache", compiler_cache)];
        for (field, bytes) in sizes {
            if let Some(bytes) = bytes {
                table[field] = value(size_text(bytes));
            }
        }
        if let Some(objects) = objects {
            let objects = i64::try_from(objects).map_err(|_| format!("{objects} objects are too many"))?;
            table["objects"] = value(objects);
        }
        for (field, time) in [("kernel_time", kernel_time), ("build_time", build_time)] {
            if let Some(time) = time {
                table[field] = value(time_text(time));
            }
        }
        if rules.registers {
            table["registers"] = value(true);
        }
        let clients = self.document.entry(CLIENTS).or_insert_with(|| {
            let mut clients = Table::new();
            clients.set_implicit(true);
            Item::Table(clients)
        });
        let clients = clients.as_table_like_mut().ok_or_else(|| format!("'{CLIENTS}' is not a table"))?;
        clients.insert(name, Item::Table(table));
        self.rules.insert(name.to_owned(), rules.clone());
        Ok(())
    }

    /// Removes a client; returns whether it was there.
    pub fn remove(&mut self, name: &str) -> bool {
        if let Some(clients) = self.document.get_mut(CLIENTS).and_then(Item::as_table_like_mut) {
            clients.remove(name);
        }
        self.rules.remove(name).is_some()
    }
}

fn read_rules(table: &dyn toml_edit::TableLike, name: &str) -> Result<Rules, String> {
    let mut key = None;
    let mut rules = Rules::new(PublicKey::new([0; 32]));
    for (field, item) in table.iter() {
        let text = || item.as_str().ok_or_else(|| format!("'{field}' is not text"));
        let time = || {
            let text = text()?;
            parse_rfc3339(text).map_err(|_| format!("'{field}' is not a time such as 2026-12-24T18:00:00Z"))
        };
        match field {
            "key" => key = Some(PublicKey::from_text(text()?).ok_or("'key' is not a public key")?),
            "created" => rules.created = Some(time()?),
            "expires" => rules.expires = Some(time()?),
            "sessions" => {
                let sessions = item.as_integer().and_then(|sessions| u32::try_from(sessions).ok());
                rules.sessions = Some(sessions.ok_or("'sessions' is not a number of sessions")?);
            }
            "weight" => {
                let weight = item.as_integer().and_then(|weight| u32::try_from(weight).ok());
                let weight = weight.filter(|weight| (1..=MAX_WEIGHT).contains(weight));
                rules.weight = Some(weight.ok_or_else(|| format!("'weight' is not a number from 1 to {MAX_WEIGHT}"))?);
            }
            "devices" => {
                let list = item.as_array().ok_or("'devices' is not a list of devices")?;
                let devices = list.iter().map(|device| match (device.as_str(), device.as_integer()) {
                    (Some(text), _) => text.parse(),
                    (_, Some(number)) => number.to_string().parse(),
                    _ => Err("'devices' is not a list of names and numbers".to_owned()),
                });
                rules.allowance.devices = Some(devices.collect::<Result<_, String>>()?);
            }
            "memory" => rules.allowance.memory = Some(parse_size(text()?)?),
            "host_memory" => rules.host_memory = Some(parse_size(text()?)?),
            "compiler_cache" => rules.compiler_cache = Some(parse_size(text()?)?),
            "objects" => {
                let objects = item.as_integer().and_then(|objects| u64::try_from(objects).ok());
                rules.allowance.objects = Some(objects.ok_or("'objects' is not a number of objects")?);
            }
            "kernel_time" => rules.allowance.kernel_time = Some(parse_time(text()?)?),
            "build_time" => rules.allowance.build_time = Some(parse_time(text()?)?),
            "registers" => rules.registers = item.as_bool().ok_or("'registers' is not true or false")?,
            _ => return Err(format!("'{field}' is not known")),
        }
    }
    // Without a key, they are for whom a certificate names.
    rules.key = key.unwrap_or_else(|| PublicKey::of_certificate(name));
    Ok(rules)
}

/// Names go into logs, file names and messages.
fn check_name(name: &str) -> Result<(), String> {
    let is_fine = |letter: char| letter.is_alphanumeric() || "-_.@ ".contains(letter);
    let is_whole = name.trim() == name && !name.starts_with(['-', '.']);
    if name.is_empty() || name.chars().count() > MAX_NAME || !is_whole || !name.chars().all(is_fine) {
        return Err(format!(
            "'{}' is not a client's name: letters, digits, '-', '_', '.', '@' and spaces between, {MAX_NAME} at most",
            name.escape_debug()
        ));
    }
    Ok(())
}

/// A message, which may show the place on several lines, and what is written there, as one for logs and terminals.
fn one_line(message: &str) -> String {
    let lines = message.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('|'));
    printable(&lines.collect::<Vec<_>>().join(": "))
}

/// A text without characters that would begin a new line or move a terminal's cursor.
fn printable(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { '?' } else { letter }).collect()
}

/// A number of bytes, with K, M, G or T for powers of 1024.
///
/// # Errors
/// One sentence for a person.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let wrong = || format!("'{}' is not a size; write for example 500M or 2G", printable(text));
    let (number, shift) = match text.char_indices().next_back() {
        Some((at, 'k' | 'K')) => (&text[..at], 10),
        Some((at, 'm' | 'M')) => (&text[..at], 20),
        Some((at, 'g' | 'G')) => (&text[..at], 30),
        Some((at, 't' | 'T')) => (&text[..at], 40),
        _ => (text, 0),
    };
    let number: u64 = number.parse().map_err(|_| wrong())?;
    number.checked_mul(1 << shift).ok_or_else(wrong)
}

/// A number of bytes as [`parse_size`] reads it.
pub fn size_text(bytes: u64) -> String {
    let unit = [(40, "T"), (30, "G"), (20, "M"), (10, "K")].into_iter();
    let whole = |(shift, letter): (u32, &str)| {
        (bytes > 0 && bytes.trailing_zeros() >= shift).then(|| format!("{}{letter}", bytes >> shift))
    };
    unit.clone().find_map(whole).unwrap_or_else(|| bytes.to_string())
}

/// How long something may take.
///
/// # Errors
/// One sentence for a person.
pub fn parse_time(text: &str) -> Result<Duration, String> {
    let time = humantime::parse_duration(text).ok().filter(|time| !time.is_zero());
    time.ok_or_else(|| format!("'{text}' is not a time; write for example 10s or 2m"))
}

/// A time as [`parse_time`] reads it.
pub fn time_text(time: Duration) -> String {
    humantime::format_duration(time).to_string()
}

/// A time as the file has it.
pub fn text_of(at: SystemTime) -> String {
    format_rfc3339_seconds(at).to_string()
}

/// A time from now on, as `--expires` gives it.
///
/// # Errors
/// One sentence for a person.
pub fn from_now(text: &str, now: SystemTime) -> Result<SystemTime, String> {
    let span: Duration = humantime::parse_duration(text)
        .map_err(|_| format!("'{}' is not a time; write for example 30d or 12h", printable(text)))?;
    let at = now.checked_add(span).filter(|at| *at <= SystemTime::UNIX_EPOCH + LATEST);
    at.ok_or_else(|| format!("'{}' is too long", printable(text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(byte: u8) -> Rules {
        let devices = Some(vec!["gpu".parse().unwrap(), "3".parse().unwrap(), "H200".parse().unwrap()]);
        let (kernel_time, build_time) = (Some(Duration::from_millis(1500)), Some(Duration::from_secs(60)));
        let (memory, objects) = (Some(3 << 29), Some(1000));
        let allowance = Allowance { devices, memory, objects, kernel_time, build_time, client: None };
        let (host_memory, compiler_cache) = (Some(5 << 30), Some(200 << 20));
        let rules = Rules::new(PublicKey::new([byte; 32]));
        Rules { sessions: Some(4), weight: Some(3), host_memory, compiler_cache, allowance, ..rules }
    }

    #[test]
    fn clients_come_and_go_and_comments_stay() {
        let mut clients =
            Clients::parse("# Ours.\n[clients.bob] # him\nkey = \"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\"\n")
                .unwrap();
        let mut alice = rules(7);
        alice.expires = Some(SystemTime::UNIX_EPOCH + Duration::from_secs(2_000_000_000));
        clients.add("alice", &alice).unwrap();
        assert!(clients.add("alice", &rules(8)).unwrap_err().contains("already"));
        let text = clients.text();
        assert!(text.contains("# Ours.") && text.contains("# him") && text.contains("2033-05-18T03:33:20Z"), "{text}");
        let mut again = Clients::parse(&text).unwrap();
        assert_eq!(again.all()["alice"], alice);
        assert_eq!(again.all().len(), 2);
        assert!(again.remove("alice") && !again.remove("alice"));
        assert_eq!(Clients::parse(&again.text()).unwrap().all().len(), 1);
    }

    #[test]
    fn a_section_without_a_key_is_for_whom_a_certificate_names() {
        let clients = Clients::parse("[clients.\"Alice Smith\"]\nsessions = 2\n").unwrap();
        let alice = &clients.all()["Alice Smith"];
        assert_eq!((alice.key, alice.sessions), (PublicKey::of_certificate("Alice Smith"), Some(2)));
        assert!(alice.key != PublicKey::of_certificate("Alice"));
    }

    #[test]
    fn a_time_that_cannot_be_written_is_refused() {
        for text in ["9000y", "300000y", "99999999999999y"] {
            assert!(from_now(text, SystemTime::UNIX_EPOCH + Duration::from_secs(2_000_000_000)).is_err(), "{text}");
        }
        assert!(from_now("100y", SystemTime::now()).is_ok());
    }

    #[test]
    fn a_wrong_file_says_where_in_one_line() {
        for (text, what) in [
            ("[clients.a]\nkey = 1\n", "'key' is not text"),
            ("[clients.a]\nkey = \"AA\"\n", "'key' is not a public key"),
            ("[clients.\"a b \"]\n", "not a client's name"),
            ("[clients.a]\ncolour = 1\n", "'colour' is not known"),
            ("[client.a]\n", "'client' is not known"),
            ("[clients.a]\nexpires = \"soon\"\n", "'expires' is not a time"),
            ("[clients.a]\nsessions = -1\n", "'sessions' is not a number"),
            ("[clients.a]\ndevices = \"gpu\"\n", "'devices' is not a list"),
            ("[clients.a]\nmemory = \"much\"\n", "'much' is not a size"),
            ("[clients.a]\nobjects = -1\n", "'objects' is not a number"),
            ("[clients.a]\nkernel_time = \"0s\"\n", "'0s' is not a time"),
            ("[clients.a]\nbuild_time = 60\n", "'build_time' is not text"),
            ("clients = 1\n", "'clients' is not a table"),
            ("[clients.a\n", "line 1"),
            ("[clients.a]\nmemory = \"1\\n\\u001b2\"\n", "is not a size"),
            ("\"a\\nb\" = 1\n", "is not known"),
            ("[clients.a]\n\u{1b}\r = 1\n", "line 2"),
        ] {
            let error = Clients::parse(text).unwrap_err();
            assert!(error.contains(what) && !error.contains(char::is_control), "{text}: {error:?}");
        }
    }
}
