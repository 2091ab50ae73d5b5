//! A stream as a `[[source]]` table of the operator's file names it.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// Most bytes of a stream's name.
const MAX_NAME: usize = 64;

/// Most bytes of one chunk that a stream may be declared with.
pub const MAX_CHUNK: usize = 1 << 30;

/// Most bytes of one chunk where the table does not say.
const USUAL_CHUNK: usize = 16 << 20;

/// Bytes of one chunk of a stream without structure where the table does not say.
const USUAL_PIECE: usize = 64 << 10;

/// Most chunks that a stream may keep.
const MAX_RING: usize = 65_536;

/// Chunks that a stream keeps where the table does not say.
const USUAL_RING: usize = 16;

/// Most chunks in a second.
const MAX_RATE: f64 = 1e6;

/// The table as it stands in the file. [`Table::check`] says whether it means something.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// The stream's name.
    pub name: Option<String>,
    /// A regular file.
    pub file: Option<PathBuf>,
    /// A FIFO.
    pub fifo: Option<PathBuf>,
    /// A camera: the device file of Video4Linux.
    pub v4l2: Option<PathBuf>,
    /// A stream of the network.
    pub url: Option<String>,
    /// How it is cut into chunks.
    pub format: Option<String>,
    /// Bytes of a chunk, in a stream without structure.
    pub chunk: Option<i64>,
    /// Chunks in a second.
    pub rate: Option<Rate>,
    /// Most chunks that are kept.
    pub ring: Option<i64>,
    /// What becomes of chunks for which there is no room.
    pub full: Option<String>,
    /// Whether a file begins again at its end.
    pub r#loop: Option<bool>,
    /// Most bytes of one chunk.
    pub most: Option<i64>,
}

/// Chunks in a second, as it is written: any number.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Rate(pub f64);

impl PartialEq for Rate {
    fn eq(&self, other: &Self) -> bool {
        self.0.to_bits() == other.0.to_bits()
    }
}

impl Eq for Rate {}

/// Where a stream comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A regular file; who asks for it reads it from its beginning.
    File(PathBuf),
    /// A FIFO.
    Fifo(PathBuf),
    /// A camera.
    Camera(PathBuf),
    /// The network.
    Url(String),
}

/// How a stream is cut into chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Into pieces of the same size.
    Bytes,
    /// Where lengths of 32 bits, least significant byte first, say so.
    Frames,
    /// Into access units of H.264 (ITU-T H.264, Annex B).
    H264,
    /// Into access units of HEVC (ITU-T H.265, Annex B).
    Hevc,
    /// Into temporal units of AV1, which an IVF file holds.
    Ivf,
}

/// What becomes of chunks for which there is no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Full {
    /// They wait, and the stream with them.
    Wait,
    /// They take the place of the oldest.
    DropOldest,
    /// They are dropped.
    DropNewest,
}

/// The formats' names.
const FORMATS: [(&str, Format); 5] = [
    ("bytes", Format::Bytes),
    ("frames", Format::Frames),
    ("h264", Format::H264),
    ("hevc", Format::Hevc),
    ("ivf", Format::Ivf),
];

/// The policies' names.
const POLICIES: [(&str, Full); 3] =
    [("wait", Full::Wait), ("drop-oldest", Full::DropOldest), ("drop-newest", Full::DropNewest)];

/// The networks' protocols, and whether their senders can be made to wait.
const SCHEMES: [(&str, bool); 4] = [("rtsp://", false), ("rtp://", false), ("udp://", false), ("tcp://", true)];

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(FORMATS.iter().find(|(_, format)| format == self).map_or("?", |(name, _)| name))
    }
}

/// A stream that can be opened.
#[derive(Clone, Debug, PartialEq)]
pub struct Declaration {
    /// Its name.
    pub name: String,
    /// Where it comes from.
    pub origin: Origin,
    /// How it is cut into chunks.
    pub format: Format,
    /// Bytes of a chunk, in a stream without structure.
    pub chunk: usize,
    /// Chunks in a second; `None`: as fast as it comes, and a file as fast as it is asked for.
    pub rate: Option<f64>,
    /// Most chunks that are kept for one who asks.
    pub ring: usize,
    /// What becomes of chunks for which there is no room.
    pub full: Full,
    /// Whether a file begins again at its end.
    pub repeats: bool,
    /// Most bytes of one chunk.
    pub most: usize,
}

impl Declaration {
    /// Whether those who ask for it share one reader.
    pub fn is_shared(&self) -> bool {
        !matches!(self.origin, Origin::File(_))
    }
}

impl Table {
    /// The same without what only who opens the stream may know: the user and the password in an address.
    #[must_use]
    pub fn without_secrets(&self) -> Self {
        let public = |url: &String| {
            let (scheme, rest) = url.split_once("://")?;
            let (before, _) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
            before.rfind('@').map(|at| format!("{scheme}://{}", &rest[at + 1..]))
        };
        let url = self.url.as_ref().map(|url| public(url).unwrap_or_else(|| url.clone()));
        Self { url, ..self.clone() }
    }

    /// Makes its paths, which are relative to the file's folder, paths of their own.
    pub fn resolve(&mut self, folder: &Path) {
        for path in [&mut self.file, &mut self.fifo, &mut self.v4l2].into_iter().flatten() {
            *path = folder.join(&*path);
        }
    }

    /// The stream that this table, of this number (from 1) among its kind, declares.
    ///
    /// # Errors
    /// The end of a sentence that begins with the file: which table, and what is wrong with it.
    pub fn check(&self, number: usize) -> Result<Declaration, String> {
        let name = self.name.clone().filter(|name| !name.is_empty());
        let table = match &name {
            Some(name) => format!("the [[source]] table '{}'", name.escape_debug()),
            None => format!("the [[source]] table number {number}"),
        };
        self.checked().map_err(|why| format!("{table} {why}"))
    }

    fn checked(&self) -> Result<Declaration, String> {
        let name = self.name.clone().filter(|name| !name.is_empty()).ok_or("has no name")?;
        if name.len() > MAX_NAME || name.chars().any(char::is_control) {
            return Err(format!("has a name that is longer than {MAX_NAME} bytes or has control characters"));
        }
        let origin = self.origin()?;
        let format = self.format.as_deref().ok_or_else(|| format!("has no format: {}", one_of(&FORMATS)))?;
        let format = named(&FORMATS, format)
            .ok_or_else(|| format!("has the format '{}'; it must be {}", format.escape_debug(), one_of(&FORMATS)))?;
        if matches!(origin, Origin::Camera(_)) && format == Format::Frames {
            return Err("has the format 'frames', in which no camera sends".into());
        }
        let most = number("most", self.most, MAX_CHUNK)?;
        let chunk = match (format, number("chunk", self.chunk, MAX_CHUNK)?) {
            (Format::Bytes, chunk) => chunk.unwrap_or_else(|| most.unwrap_or(MAX_CHUNK).min(USUAL_PIECE)),
            (_, None) => 0,
            (_, Some(_)) => {
                return Err(format!(
                    "has a chunk, which only the format 'bytes' has: {format} says itself where chunks end"
                ));
            }
        };
        let most = most.unwrap_or_else(|| USUAL_CHUNK.max(chunk));
        if chunk > most {
            return Err(format!("has chunks of {chunk} bytes, and says that none has more than {most} (most)"));
        }
        let rate = self.rate(&origin)?;
        Ok(Declaration {
            full: self.policy(&origin, rate)?,
            repeats: match (self.r#loop.unwrap_or(false), &origin) {
                (true, Origin::Fifo(_) | Origin::Camera(_) | Origin::Url(_)) => {
                    return Err("has loop = true, which only a file can".into());
                }
                (repeats, _) => repeats,
            },
            ring: number("ring", self.ring, MAX_RING)?.unwrap_or(USUAL_RING),
            name,
            origin,
            format,
            chunk,
            rate,
            most,
        })
    }

    fn origin(&self) -> Result<Origin, String> {
        let file = self.file.clone().map(Origin::File);
        let others = [
            self.fifo.clone().map(Origin::Fifo),
            self.v4l2.clone().map(Origin::Camera),
            self.url.clone().map(Origin::Url),
        ];
        let mut named = file.into_iter().chain(others.into_iter().flatten());
        let (Some(origin), None) = (named.next(), named.next()) else {
            return Err("must have exactly one of file, fifo, v4l2 and url".into());
        };
        if let Origin::Url(url) = &origin {
            let rest = SCHEMES.iter().find_map(|(scheme, _)| url.strip_prefix(scheme));
            let rest = rest.ok_or("has a url that begins with none of rtsp://, rtp://, udp:// and tcp://")?;
            if rest.is_empty() || url.chars().any(|letter| letter.is_control() || letter.is_whitespace()) {
                return Err("has a url without a host, or with blanks or control characters".into());
            }
        }
        Ok(origin)
    }

    fn rate(&self, origin: &Origin) -> Result<Option<f64>, String> {
        match (self.rate.map(|rate| rate.0), origin) {
            (None, _) => Ok(None),
            (Some(_), Origin::Url(_)) => Err("has a rate, and a url, whose sender alone sets the rate".into()),
            (Some(rate), _) if rate > 0.0 && rate <= MAX_RATE => Ok(Some(rate)),
            (Some(rate), _) => {
                Err(format!("has the rate {rate}; it is in chunks per second, more than 0 and at most {MAX_RATE}"))
            }
        }
    }

    fn policy(&self, origin: &Origin, rate: Option<f64>) -> Result<Full, String> {
        let can_wait = match origin {
            Origin::File(_) | Origin::Fifo(_) => true,
            Origin::Camera(_) => false,
            Origin::Url(url) => SCHEMES.iter().any(|(scheme, waits)| *waits && url.starts_with(scheme)),
        };
        let Some(text) = &self.full else {
            return Ok(if matches!(origin, Origin::File(_) | Origin::Fifo(_)) { Full::Wait } else { Full::DropOldest });
        };
        let full = named(&POLICIES, text)
            .ok_or_else(|| format!("has full = '{}'; it must be {}", text.escape_debug(), one_of(&POLICIES)))?;
        if full == Full::Wait && !can_wait {
            return Err(
                "has full = 'wait', and its sender does not wait; it must be 'drop-oldest' or 'drop-newest'".into()
            );
        }
        if full != Full::Wait && rate.is_none() && matches!(origin, Origin::File(_)) {
            return Err(format!(
                "has full = '{text}' and no rate: without one, a file is read as fast as it is asked for, and nothing \
                 is dropped"
            ));
        }
        Ok(full)
    }
}

fn named<T: Copy>(names: &[(&str, T)], text: &str) -> Option<T> {
    names.iter().find(|(name, _)| *name == text).map(|(_, value)| *value)
}

fn one_of<T>(names: &[(&str, T)]) -> String {
    let names: Vec<_> = names.iter().map(|(name, _)| format!("'{name}'")).collect();
    names.split_last().map_or_else(String::new, |(last, others)| format!("{} or {last}", others.join(", ")))
}

/// A number of the table, which must be between 1 and `most`.
fn number(key: &str, value: Option<i64>, most: usize) -> Result<Option<usize>, String> {
    let Some(value) = value else { return Ok(None) };
    let fits = usize::try_from(value).ok().filter(|value| (1..=most).contains(value));
    fits.map(Some).ok_or_else(|| format!("has {key} = {value}; it must be between 1 and {most}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str) -> Result<Declaration, String> {
        let mut table = toml::from_str::<Table>(text).unwrap();
        table.resolve(Path::new("/etc/ropeway"));
        table.check(2)
    }

    #[test]
    fn passwords_stay_where_streams_are_opened() {
        for (url, public) in [
            ("rtsp://me:se@cret@10.0.0.7:554/a@b", "rtsp://10.0.0.7:554/a@b"),
            ("rtsp://camera/live@2", "rtsp://camera/live@2"),
            ("udp://me@", "udp://"),
        ] {
            let table = Table { url: Some(url.to_owned()), ..Table::default() };
            assert_eq!(table.without_secrets().url.as_deref(), Some(public));
        }
    }

    #[test]
    fn a_table_says_what_it_says() {
        let all = check(
            "name = 'gate'\nfile = 'gate.h264'\nformat = 'h264'\nrate = 30\nring = 4\nfull = 'drop-newest'\nloop = true\nmost = 1000",
        );
        let expected = Declaration {
            name: "gate".into(),
            origin: Origin::File("/etc/ropeway/gate.h264".into()),
            format: Format::H264,
            chunk: 0,
            rate: Some(30.0),
            ring: 4,
            full: Full::DropNewest,
            repeats: true,
            most: 1000,
        };
        assert_eq!(all, Ok(expected));
        let short = check("name = 'a'\nfifo = '/run/a'\nformat = 'bytes'").unwrap();
        assert_eq!((short.chunk, short.ring, short.most), (USUAL_PIECE, USUAL_RING, USUAL_CHUNK));
        assert_eq!((short.full, short.rate, short.origin), (Full::Wait, None, Origin::Fifo("/run/a".into())));
        let small = check("name = 'a'\nfifo = '/run/a'\nformat = 'bytes'\nmost = 9").unwrap();
        assert_eq!((small.chunk, small.most), (9, 9));
        let live = check("name = 'a'\nurl = 'rtsp://camera/1'\nformat = 'hevc'").unwrap();
        assert_eq!(live.full, Full::DropOldest);
    }

    #[test]
    fn each_error_is_one_sentence() {
        let base = "name = 'a'\nfile = 'f'\nformat = 'bytes'\n";
        for (text, expected) in [
            ("file = 'f'", "number 2 has no name"),
            ("name = 'a'\nformat = 'bytes'", "'a' must have exactly one of file, fifo, v4l2 and url"),
            ("name = 'a'\nfile = 'f'\nfifo = 'g'\nformat = 'bytes'", "'a' must have exactly one of"),
            ("name = 'a'\nfile = 'f'", "'a' has no format: 'bytes', 'frames', 'h264', 'hevc' or 'ivf'"),
            ("name = 'a'\nfile = 'f'\nformat = 'mp4'", "has the format 'mp4'; it must be 'bytes'"),
            ("name = 'a'\nurl = 'http://x'\nformat = 'h264'", "begins with none of"),
            ("name = 'a'\nurl = 'udp://'\nformat = 'h264'", "without a host"),
            ("name = 'a'\nurl = 'udp://x y'\nformat = 'h264'", "without a host"),
            ("name = 'a'\nurl = 'udp://x:1'\nformat = 'h264'\nrate = 3", "has a rate, and a url"),
            ("name = 'a'\nurl = 'udp://x:1'\nformat = 'h264'\nfull = 'wait'", "its sender does not wait"),
            ("name = 'a'\nurl = 'udp://x:1'\nformat = 'h264'\nloop = true", "which only a file can"),
            ("name = 'a'\nv4l2 = '/dev/video0'\nformat = 'frames'", "in which no camera sends"),
            ("name = 'a'\nfile = 'f'\nformat = 'frames'\nchunk = 3", "has a chunk, which only the format 'bytes' has"),
            (&format!("{base}rate = 0"), "has the rate 0;"),
            (&format!("{base}rate = nan"), "has the rate NaN;"),
            (&format!("{base}ring = 0"), "has ring = 0; it must be between 1 and 65536"),
            (&format!("{base}ring = -1"), "has ring = -1;"),
            (&format!("{base}chunk = 9\nmost = 8"), "has chunks of 9 bytes, and says that none has more than 8 (most)"),
            (&format!("{base}most = 2000000000"), "has most = 2000000000; it must be between 1 and 1073741824"),
            (
                &format!("{base}full = 'drop'\nrate = 1"),
                "has full = 'drop'; it must be 'wait', 'drop-oldest' or 'drop-newest'",
            ),
            (&format!("{base}full = 'drop-oldest'"), "and no rate: without one, a file is read as fast"),
        ] {
            let error = check(text).unwrap_err();
            assert!(error.starts_with("the [[source]] table "), "{error}");
            assert!(error.contains(expected) && !error.contains('\n'), "{text}: {error}");
        }
        assert!(toml::from_str::<Table>("color = 'red'").is_err());
    }
}
