//! `ropeway.toml`.
//!
//! ```toml
//! servers = ["tcp://gpu1.lab", "gpu2.lab:7591", "unix:/run/ropeway.sock"]
//! platforms = "one"        # or "per-platform"
//! connect-timeout = 2      # seconds
//! log = "warn"             # off, error, warn, info, debug
//! ```

use std::io::ErrorKind;
use std::ops::Range;
use std::path::Path;
use std::str::FromStr;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::servers::read_bounded;
use super::{Config, Seconds, Source};

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
                    self.read_servers(&here, value, &place);
                }
                "platforms" => self.presentation = self.text(&here, value).unwrap_or(self.presentation),
                "log" => self.log = self.text(&here, value).unwrap_or(self.log),
                "connect-timeout" => match seconds(value.get_ref()) {
                    Ok(Seconds(timeout)) => self.connect_timeout = timeout,
                    Err(error) => self.problems.push(format!("{here}: {error}")),
                },
                other => self.problems.push(format!(
                    "{here}: '{other}' is not a setting; the settings are servers, platforms, connect-timeout and log"
                )),
            }
        }
        true
    }

    fn read_servers(&mut self, here: &str, value: &Spanned<DeValue<'_>>, place: &dyn Fn(Range<usize>) -> String) {
        let Some(entries) = value.get_ref().as_array() else {
            self.problems.push(format!("{here}: servers is a list, as in servers = [\"tcp://gpu.example:7590\"]"));
            return;
        };
        for entry in entries.iter() {
            let here = place(entry.span());
            match entry.get_ref().as_str() {
                Some(text) => self.add_server(&here, text),
                None => self.problems.push(format!("{here}: a server is a text, as in \"tcp://gpu.example:7590\"")),
            }
        }
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

/// A number of seconds, whole or not.
fn seconds(value: &DeValue<'_>) -> Result<Seconds, String> {
    match value {
        DeValue::Integer(number) => number.as_str().parse(),
        DeValue::Float(number) => number.as_str().parse(),
        _ => Err("the connect time-out is a number of seconds".to_owned()),
    }
}

/// The line, from 1, that byte `offset` of `text` is in.
fn line_of(text: &str, offset: usize) -> usize {
    1 + text.bytes().take(offset).filter(|&byte| byte == b'\n').count()
}
