//! The audit log: one line of JSON for each session's beginning and end, and for each client that is refused.
//!
//! The file is opened for each line, so that whoever rotates logs may move it away at any time. It holds no secrets:
//! clients are named, not their keys; programs are named, not what they send.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;
use std::time::SystemTime;

use humantime::format_rfc3339_millis;
use ropeway_worker::handoff::Account;
use serde::Serialize;
use tracing::error;

/// Where the lines go, if anywhere.
#[derive(Clone, Debug, Default)]
pub(crate) struct Audit(Option<PathBuf>);

/// Whose session it is.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Who {
    /// The name of the client's ticket.
    pub(crate) client: Option<String>,
    /// The number of the user at the other end of a Unix socket.
    pub(crate) user: Option<u32>,
    /// The address that the connection comes from.
    pub(crate) address: String,
}

/// A session.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct About {
    /// Its number, counted from 1 since the server's start.
    pub(crate) session: u64,
    /// Whose it is.
    #[serde(flatten)]
    pub(crate) who: Who,
    /// The program's name, as the client says.
    pub(crate) program: String,
    /// The program's process on its machine, as the client says.
    pub(crate) pid: u32,
}

/// An event.
#[derive(Debug, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(crate) enum Event<'a> {
    /// A session begins.
    Begin(&'a About),
    /// A session ends.
    End {
        /// Which.
        #[serde(flatten)]
        about: &'a About,
        /// How long it lasted.
        seconds: f64,
        /// How it ended: "ended", or what was wrong.
        outcome: &'a str,
        /// For how many seconds its commands kept each device busy, by the device's number.
        device_seconds: BTreeMap<u32, f64>,
        /// What it took; absent if its worker could not say that any more.
        #[serde(flatten)]
        account: Option<&'a Account>,
    },
    /// A client is refused.
    Refused {
        /// Who.
        #[serde(flatten)]
        who: &'a Who,
        /// Why.
        reason: &'a str,
    },
}

#[derive(Serialize)]
struct Line<'a> {
    at: String,
    #[serde(flatten)]
    event: &'a Event<'a>,
}

impl Audit {
    /// Writes to this file, made with the mode 0600 where it is missing; nowhere if there is none.
    ///
    /// # Errors
    /// The file cannot be written to.
    pub(crate) fn to(file: Option<PathBuf>) -> io::Result<Self> {
        file.iter().try_for_each(|path| open(path).map(drop))?;
        Ok(Self(file))
    }

    /// Writes a line. Sessions go on if that fails, and the server's log says so.
    pub(crate) fn write(&self, event: &Event<'_>) {
        let Some(path) = &self.0 else { return };
        if let Err(error) = open(path).and_then(|mut file| file.write_all(&line(event, SystemTime::now())?)) {
            error!(%error, path = %path.display(), ?event, "cannot write to the audit log");
        }
    }
}

fn open(path: &PathBuf) -> io::Result<std::fs::File> {
    OpenOptions::new().append(true).create(true).mode(0o600).open(path)
}

fn line(event: &Event<'_>, at: SystemTime) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(&Line { at: format_rfc3339_millis(at).to_string(), event })?;
    line.push(b'\n');
    Ok(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_one_line_whatever_the_client_says_it_is() {
        let who = Who { client: Some("alice".into()), address: "10.0.0.1:7".into(), ..Who::default() };
        let about = About { session: 3, who, program: "a\"\n{b".into(), pid: 9 };
        let account = Account { devices: vec!["H200".into()], sent: 1, received: 2, peak_memory: 3 };
        let device_seconds = BTreeMap::from([(0, 0.25), (3, 1.5)]);
        let end = Event::End { about: &about, seconds: 0.5, outcome: "ended", device_seconds, account: Some(&account) };
        let text = String::from_utf8(line(&end, SystemTime::UNIX_EPOCH).unwrap()).unwrap();
        let expected = r#"{"at":"1970-01-01T00:00:00.000Z","event":"end","session":3,"client":"alice","user":null,"address":"10.0.0.1:7","program":"a\"\n{b","pid":9,"seconds":0.5,"outcome":"ended","device_seconds":{"0":0.25,"3":1.5},"devices":["H200"],"sent":1,"received":2,"peak_memory":3}"#;
        assert_eq!(text, format!("{expected}\n"));
    }

    #[test]
    fn a_file_that_is_moved_away_is_made_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.log");
        let audit = Audit::to(Some(path.clone())).unwrap();
        let refused = Event::Refused { who: &Who::default(), reason: "no" };
        audit.write(&refused);
        std::fs::rename(&path, folder.path().join("old")).unwrap();
        audit.write(&refused);
        audit.write(&refused);
        let lines = |name| std::fs::read_to_string(folder.path().join(name)).unwrap().lines().count();
        assert_eq!((lines("old"), lines("audit.log")), (1, 2));
        assert!(Audit::to(Some(folder.path().to_owned())).is_err());
    }
}
