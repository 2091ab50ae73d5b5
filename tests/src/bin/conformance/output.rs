//! The output of the conformance programs: the sub-test that begins, how it ended, its complaints.

use std::time::Duration;

/// How a sub-test ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It says that all is well.
    Pass,
    /// It says that something is wrong.
    Fail,
    /// It says that the device does not have what it tests.
    Skip,
    /// The program died in it.
    Crash,
    /// It took longer than it may.
    Hung,
    /// The program never came to it.
    NotRun,
}

impl Verdict {
    const NAMES: [(Self, &'static str); 6] = [
        (Self::Pass, "pass"),
        (Self::Fail, "fail"),
        (Self::Skip, "skip"),
        (Self::Crash, "crash"),
        (Self::Hung, "hung"),
        (Self::NotRun, "not run"),
    ];

    /// Its name in results and tables.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(verdict, _)| *verdict == self).map_or("", |(_, name)| name)
    }

    /// The verdict of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(_, its)| *its == name).map(|(verdict, _)| *verdict)
    }
}

/// A sub-test that has ended.
#[derive(Clone, Debug, PartialEq)]
pub struct SubTest {
    /// Its name.
    pub name: String,
    /// How it ended.
    pub verdict: Verdict,
    /// How long it took.
    pub seconds: f64,
    /// The first complaint that it printed; empty if there was none.
    pub note: String,
}

/// A sub-test that has begun.
struct Open {
    name: String,
    begun: Duration,
    verdict: Option<Verdict>,
    note: String,
}

/// Follows the lines of a program.
pub struct Output<'a> {
    names: &'a [String],
    open: Option<Open>,
    ended: Vec<SubTest>,
}

/// The longest complaint that is kept, in characters.
const NOTE: usize = 200;

impl<'a> Output<'a> {
    /// For a program that has been asked to run the sub-tests `names`.
    pub fn new(names: &'a [String]) -> Self {
        Self { names, open: None, ended: Vec::new() }
    }

    /// Takes a line that came `at` this time since the program's start. Returns the sub-test that it ended.
    pub fn line(&mut self, line: &str, at: Duration) -> Option<SubTest> {
        let line = line.trim();
        if let Some(name) = line.strip_suffix("...").and_then(|line| self.beginning(line)) {
            let before = self.close(None, at);
            self.open = Some(Open { name, begun: at, verdict: None, note: String::new() });
            return before;
        }
        let open = self.open.as_mut()?;
        match after(line, &open.name).map(str::trim_start) {
            Some("passed") => open.verdict = Some(Verdict::Pass),
            Some("FAILED") => open.verdict = Some(Verdict::Fail),
            Some("test not supported" | "test currently not implemented") => open.verdict = Some(Verdict::Skip),
            Some(rest) if rest.starts_with("skipped (requires") => open.verdict = Some(Verdict::Skip),
            _ if line.contains("is not supported in offline compiler execution path") => {
                open.verdict = Some(Verdict::Skip);
            }
            _ if complaint(line) > complaint(&open.note) => {
                open.note = line.chars().map(|c| if c.is_control() { ' ' } else { c }).take(NOTE).collect();
            }
            _ => {}
        }
        None
    }

    /// The sub-test that a line before its dots begins. What an earlier sub-test has printed without an end of line may
    /// stand before the name, but not a word: others say "Testing that...".
    fn beginning(&self, line: &str) -> Option<String> {
        let begins = |name: &&String| {
            let before = line.strip_suffix(name.as_str());
            before.is_some_and(|before| {
                before.is_empty() || before.ends_with(|last: char| last.is_ascii_punctuation() && last != '_')
            })
        };
        let name = self.names.iter().filter(begins).max_by_key(|name| name.len())?;
        let open = self.open.as_ref().is_some_and(|open| open.name == *name);
        (!open && !self.ended.iter().any(|ended| ended.name == *name)).then(|| name.clone())
    }

    /// The verdict on a sub-test that has ended.
    pub fn verdict(&self, name: &str) -> Option<Verdict> {
        self.ended.iter().find(|ended| ended.name == name).map(|ended| ended.verdict)
    }

    /// Since when the sub-test that has begun runs.
    pub fn open_since(&self) -> Option<Duration> {
        self.open.as_ref().map(|open| open.begun)
    }

    /// Ends the sub-test that has begun: with this verdict, or as it has said.
    pub fn close(&mut self, verdict: Option<Verdict>, at: Duration) -> Option<SubTest> {
        let open = self.open.take()?;
        let seconds = at.saturating_sub(open.begun).as_secs_f64();
        // One that begins and says nothing more could not make its context or its queue.
        let verdict = verdict.or(open.verdict).unwrap_or(Verdict::Fail);
        let ended = SubTest { name: open.name, verdict, seconds, note: open.note };
        self.ended.push(ended.clone());
        Some(ended)
    }
}

/// The rest of the line after the last place where it has this name as a whole word.
fn after<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let at = line.rfind(name)?;
    let part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let rest = line.get(at + name.len()..)?;
    (!line.get(..at)?.ends_with(part) && !rest.starts_with(part)).then_some(rest)
}

/// How much like a complaint a line is.
fn complaint(line: &str) -> u32 {
    if line.starts_with("ERROR") || line.starts_with("ropeway:") {
        return 2;
    }
    let lower = line.to_ascii_lowercase();
    u32::from(["error:", "fail", "expected", "mismatch"].iter().any(|word| lower.contains(word)))
}

/// Whether a line says that the session with the server is over: no later sub-test of this process can pass.
pub fn is_lost(line: &str) -> bool {
    line.starts_with("ropeway: the server ") && line.contains(" is lost")
}

/// The sub-tests that a program lists when asked to: each on a line of its own after a tab.
pub fn listed(text: &str) -> Vec<String> {
    let names = text.lines().filter_map(|line| line.strip_prefix('\t')).map(str::trim);
    names.filter(|name| !name.is_empty() && !name.contains(char::is_whitespace)).map(str::to_owned).collect()
}

/// The verdicts in the file of results that a program leaves when it comes to its end.
pub fn results(json: &str) -> Vec<(String, Verdict)> {
    let inside = json.split_once("\"results\"").map_or("", |(_, rest)| rest);
    let pair = |line: &str| {
        let (name, verdict) = line.trim().trim_end_matches(',').split_once("\": \"")?;
        Some((name.trim_start_matches('"').to_owned(), Verdict::named(verdict.trim_end_matches('"'))?))
    };
    inside.lines().filter_map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// All sub-tests that these lines end, one line each second, and the one that is open then.
    fn follow(list: &[&str], lines: &str) -> (Vec<SubTest>, Option<SubTest>) {
        let list = names(list);
        let mut output = Output::new(&list);
        let mut ended = Vec::new();
        let mut now = 0;
        for line in lines.lines() {
            ended.extend(output.line(line, at(now)));
            now += 1;
        }
        let last = output.close(None, at(now));
        (ended, last)
    }

    fn verdicts(ended: &[SubTest]) -> Vec<(&str, Verdict)> {
        ended.iter().map(|ended| (ended.name.as_str(), ended.verdict)).collect()
    }

    #[test]
    fn each_way_to_end_is_told_apart() {
        let text = "Initializing random seed to 0.\n\
                    one...\none passed\n\
                    two...\nexpected 1\nERROR: clFinish failed! (CL_INVALID_VALUE from a.cpp:1)\nERROR: another\ntwo FAILED\n\
                    three...\nno such thing here\nthree test not supported\n\
                    four...\nfour skipped (requires at least OpenCL version 3.1, but the device reports OpenCL version 3.0)\n\
                    five...\nERROR: Unable to create testing context! (CL_OUT_OF_RESOURCES from b.cpp:2)\n\
                    six...\nsix test currently not implemented\n";
        let (ended, last) = follow(&["one", "two", "three", "four", "five", "six"], text);
        use Verdict::{Fail, Pass, Skip};
        let expected = [("one", Pass), ("two", Fail), ("three", Skip), ("four", Skip), ("five", Fail)];
        assert_eq!(verdicts(&ended), expected);
        assert_eq!(last.map(|last| last.verdict), Some(Skip));
        assert_eq!(ended[1].note, "ERROR: clFinish failed! (CL_INVALID_VALUE from a.cpp:1)");
        assert!((ended[1].seconds - 5.0).abs() < 1e-9);
    }

    #[test]
    fn other_lines_with_dots_begin_nothing() {
        let text = "add...\n  sub...\nTesting add...\nadd...\nmul...\nadd passed\nsub...\nsub passed\nadd...\n";
        let (ended, last) = follow(&["add", "sub"], text);
        // The indented line is the sub-test's name all the same; a name that is open or has ended does not begin again.
        assert_eq!(verdicts(&ended), [("add", Verdict::Fail)]);
        assert_eq!(last.map(|last| (last.name, last.verdict)), Some(("sub".to_owned(), Verdict::Pass)));
    }

    #[test]
    fn a_name_that_begins_like_another_keeps_its_verdict() {
        let text = "add...\nadd_sat passed\nadd FAILED\nadd_sat...\nadd passed\nadd_sat passed\n";
        let (ended, last) = follow(&["add", "add_sat"], text);
        assert_eq!(verdicts(&ended), [("add", Verdict::Fail)]);
        assert_eq!(last.map(|last| last.verdict), Some(Verdict::Pass));
    }

    #[test]
    fn what_has_no_end_of_line_hides_nothing() {
        let text = "char...\nTesting...Testing...char passed\n....uchar...\nTesting...uchar FAILED\n";
        let (ended, last) = follow(&["char", "uchar"], text);
        assert_eq!(verdicts(&ended), [("char", Verdict::Pass)]);
        assert_eq!(last.map(|last| last.verdict), Some(Verdict::Fail));
    }

    #[test]
    fn a_crash_is_that_of_the_open_sub_test_whatever_it_said() {
        let list = names(&["one", "two"]);
        let mut output = Output::new(&list);
        assert_eq!(output.close(Some(Verdict::Crash), at(0)), None);
        assert_eq!(output.line("one...", at(1)), None);
        assert_eq!(output.open_since(), Some(at(1)));
        output.line("one passed", at(2));
        let crashed = output.close(Some(Verdict::Crash), at(3)).map(|ended| ended.verdict);
        assert_eq!(crashed, Some(Verdict::Crash));
        assert_eq!(output.open_since(), None);
    }

    #[test]
    fn a_lost_server_is_noticed() {
        assert!(is_lost("ropeway: the server tcp://127.0.0.1:1 is lost: it closed the connection; see its log"));
        assert!(!is_lost("ropeway: clCreatePipe is not supported by this release of Ropeway"));
    }

    #[test]
    fn lists_are_read() {
        let text = "Common options:\n    -h, --help\n\tread_int\n\twrite_int\n\t\n\tnot a name\nread\n";
        assert_eq!(listed(text), ["read_int", "write_int"]);
        assert!(listed("").is_empty());
    }

    #[test]
    fn files_of_results_are_read() {
        let json = "{\n\t\"cmd\": \"test_x\",\n\t\"args\": \"--wimpy\",\n\t\"results\": {\n\
                    \t\t\"one\": \"pass\",\n\t\t\"two\": \"fail\",\n\t\t\"three\": \"skip\",\n\t\t\"four\": \"odd\"\n\t}\n}\n";
        let found = results(json);
        let expected = [("one", Verdict::Pass), ("two", Verdict::Fail), ("three", Verdict::Skip)];
        assert_eq!(found, expected.map(|(name, verdict)| (name.to_owned(), verdict)));
        assert!(results("{\n\t\"cmd\": \"pa").is_empty());
    }

    #[test]
    fn verdicts_have_names_of_their_own() {
        for (verdict, name) in Verdict::NAMES {
            assert_eq!(Verdict::named(name), Some(verdict));
            assert_eq!(verdict.name(), name);
        }
        assert_eq!(Verdict::named("passed"), None);
    }
}
