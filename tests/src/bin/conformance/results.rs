//! The results so far: one line for each sub-test that has ended, in a file that an interrupted run goes on with.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::Path;

use crate::output::{SubTest, Verdict};

/// Where a sub-test ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// On this machine's OpenCL.
    Native,
    /// Through Ropeway.
    Ropeway,
    /// Natively once more, after a difference.
    NativeAgain,
    /// Through Ropeway once more, after a difference.
    RopewayAgain,
}

impl Mode {
    const NAMES: [(Self, &'static str); 4] = [
        (Self::Native, "native"),
        (Self::Ropeway, "ropeway"),
        (Self::NativeAgain, "native-again"),
        (Self::RopewayAgain, "ropeway-again"),
    ];

    /// Its name in results.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(mode, _)| *mode == self).map_or("", |(_, name)| name)
    }

    fn named(name: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(_, its)| *its == name).map(|(mode, _)| *mode)
    }

    /// Whether it is one of the two through Ropeway.
    pub fn is_remote(self) -> bool {
        matches!(self, Self::Ropeway | Self::RopewayAgain)
    }

    /// Whether it is one of the two after a difference.
    pub fn is_again(self) -> bool {
        matches!(self, Self::NativeAgain | Self::RopewayAgain)
    }
}

/// The name under which the whole program's time stands, if it ran in one go.
pub const WHOLE: &str = "(whole)";
/// The name under which a crash after all sub-tests stands.
pub const END: &str = "(end)";

/// One line.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// The row's key.
    pub key: String,
    /// Where it ran.
    pub mode: Mode,
    /// Its outcome.
    pub sub_test: SubTest,
}

impl Line {
    fn write(&self) -> String {
        let SubTest { name, verdict, seconds, note } = &self.sub_test;
        format!("{}\t{}\t{name}\t{}\t{seconds:.3}\t{note}\n", self.key, self.mode.name(), verdict.name())
    }

    fn read(line: &str) -> Option<Self> {
        let fields: Vec<_> = line.split('\t').collect();
        let [key, mode, name, verdict, seconds, note] = fields.as_slice() else { return None };
        let sub_test = SubTest {
            name: (*name).to_owned(),
            verdict: Verdict::named(verdict)?,
            seconds: seconds.parse().ok()?,
            note: (*note).to_owned(),
        };
        Some(Self { key: (*key).to_owned(), mode: Mode::named(mode)?, sub_test })
    }
}

/// All lines, in memory and in the file.
pub struct Results {
    lines: Vec<Line>,
    file: File,
}

impl Results {
    /// Reads the file, if there is one, and keeps of it the lines that `keep` wants.
    pub fn open(path: &Path, keep: impl Fn(&Line) -> bool) -> Result<Self, String> {
        let complaint = |error| format!("cannot keep results in {}: {error}", path.display());
        let text = fs::read_to_string(path).unwrap_or_default();
        // A line that was cut off is not whole, and its sub-test runs again.
        let mut lines = Vec::new();
        for line in text.lines().filter_map(Line::read).filter(keep) {
            put(&mut lines, line);
        }
        let kept: String = lines.iter().map(Line::write).collect();
        fs::write(path, kept).map_err(complaint)?;
        let file = OpenOptions::new().append(true).open(path).map_err(complaint)?;
        Ok(Self { lines, file })
    }

    /// Adds a line. One that cannot be written is still in the table.
    pub fn add(&mut self, line: Line) {
        if let Err(error) = self.file.write_all(line.write().as_bytes()) {
            eprintln!("a result cannot be written: {error}");
        }
        put(&mut self.lines, line);
    }

    /// The results of this row in this mode.
    pub fn of<'a>(&'a self, key: &'a str, mode: Mode) -> impl Iterator<Item = &'a SubTest> + 'a {
        self.lines.iter().filter(move |line| line.key == key && line.mode == mode).map(|line| &line.sub_test)
    }

    /// The result of this sub-test.
    pub fn find(&self, key: &str, mode: Mode, name: &str) -> Option<&SubTest> {
        let found = self.lines.iter().rfind(|line| line.mode == mode && line.key == key && line.sub_test.name == name);
        found.map(|line| &line.sub_test)
    }
}

/// The last result of a sub-test holds.
fn put(lines: &mut Vec<Line>, line: Line) {
    let same = |its: &Line| its.mode == line.mode && its.key == line.key && its.sub_test.name == line.sub_test.name;
    match lines.iter_mut().rfind(|its| same(its)) {
        Some(its) => *its = line,
        None => lines.push(line),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(mode: Mode, name: &str) -> Line {
        let sub_test = SubTest { name: name.to_owned(), verdict: Verdict::Fail, seconds: 0.5, note: "why".to_owned() };
        Line { key: "test_x -w".to_owned(), mode, sub_test }
    }

    #[test]
    fn an_interrupted_run_finds_its_results_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("results.tsv");
        let mut results = Results::open(&path, |_| true).unwrap();
        for mode in [Mode::Native, Mode::Ropeway, Mode::NativeAgain, Mode::RopewayAgain] {
            results.add(line(mode, "one"));
        }
        drop(results);
        let mut text = fs::read_to_string(&path).unwrap();
        text.push_str("test_x -w\tnative\ttwo\tpa");
        fs::write(&path, text).unwrap();
        let results = Results::open(&path, |line| line.mode != Mode::Ropeway).unwrap();
        assert_eq!(results.find("test_x -w", Mode::Native, "one"), Some(&line(Mode::Native, "one").sub_test));
        assert_eq!(results.find("test_x -w", Mode::Ropeway, "one"), None);
        assert_eq!(results.find("test_x -w", Mode::Native, "two"), None);
        assert_eq!(results.of("test_x -w", Mode::RopewayAgain).count(), 1);
        assert_eq!(fs::read_to_string(&path).unwrap().lines().count(), 3);
    }
}
