//! A row of the table, or a piece of one, in one mode: all its sub-tests, whatever some of them do to the program.

use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::catalogue::Row;
use crate::output::{SubTest, Verdict};
use crate::results::{END, Line, Mode, Results, WHOLE};
use crate::server::Server;
use crate::watch::{self, End, Run};

/// The settings that all rows share.
pub struct Setting {
    /// The program `ropeway`.
    pub ropeway: PathBuf,
    /// The client library.
    pub library: PathBuf,
    /// Where everything is kept.
    pub out: PathBuf,
    /// How long a sub-test may take.
    pub limit: Duration,
    /// How long a program may take in one mode.
    pub program_limit: Duration,
    /// When the whole run ends.
    pub end: Instant,
    /// The results so far.
    pub results: Mutex<Results>,
}

/// After this many sub-tests that hang, a program's others are not tried.
const MOST_HUNG: usize = 5;

/// Sub-tests of a row that are run one after the other.
pub struct Piece<'a> {
    /// The row.
    pub row: &'a Row,
    /// Their names; none of a program that lists nothing.
    pub names: Vec<String>,
    /// Which piece of its row it is; `None` for the whole of it.
    pub number: Option<usize>,
}

impl Piece<'_> {
    /// The name of its folders and logs.
    fn label(&self, mode: Mode) -> String {
        let number = self.number.map_or(String::new(), |number| format!(".{number}"));
        format!("{}{number}.{}", file_name(&self.row.key), mode.name())
    }
}

/// Folders of one piece in one mode.
struct Place {
    folder: PathBuf,
    home: PathBuf,
    work: PathBuf,
}

impl Setting {
    fn add(&self, row: &Row, mode: Mode, sub_test: SubTest) {
        let line = Line { key: row.key.clone(), mode, sub_test };
        self.results.lock().unwrap_or_else(PoisonError::into_inner).add(line);
    }

    fn known(&self, row: &Row, mode: Mode, name: &str) -> bool {
        self.results.lock().unwrap_or_else(PoisonError::into_inner).find(&row.key, mode, name).is_some()
    }

    /// Runs a piece natively, then through Ropeway, then once more where the two differ.
    pub fn piece(&self, piece: &Piece<'_>, again: bool) -> Result<(), String> {
        for mode in [Mode::Native, Mode::Ropeway] {
            self.drive(piece, mode)?;
        }
        if again {
            let names = self.differing(piece.row, &piece.names);
            let differing = Piece { names, ..*piece };
            for mode in [Mode::RopewayAgain, Mode::NativeAgain] {
                self.drive(&differing, mode)?;
            }
        }
        Ok(())
    }

    /// The pieces of a row, of `most` sub-tests each. Neighbours, which tend to take equally long, are in different
    /// ones.
    pub fn pieces<'a>(&self, row: &'a Row, most: usize) -> Result<Vec<Piece<'a>>, String> {
        let whole = Piece { row, names: Vec::new(), number: None };
        let place = self.place(&whole, Mode::Native)?;
        let names = watch::list(&row.program, &row.args, &place.work);
        let _ = fs::remove_dir_all(&place.folder);
        let count = names.len().div_ceil(most.max(1));
        if count < 2 {
            return Ok(vec![Piece { names, ..whole }]);
        }
        let nth = |number| Piece {
            row,
            names: names.iter().skip(number).step_by(count).cloned().collect(),
            number: Some(number),
        };
        Ok((0..count).map(nth).collect())
    }

    /// Sub-tests that differ and can be tried again in a short time.
    fn differing(&self, row: &Row, names: &[String]) -> Vec<String> {
        let results = self.results.lock().unwrap_or_else(PoisonError::into_inner);
        let verdict = |mode, name: &str| results.find(&row.key, mode, name).map(|ended| ended.verdict);
        let differ = |name: &&String| {
            let both = [verdict(Mode::Native, name), verdict(Mode::Ropeway, name)];
            let slow = [Some(Verdict::Hung), Some(Verdict::NotRun), None];
            both[0] != both[1] && !both.iter().any(|verdict| slow.contains(verdict))
        };
        names.iter().filter(differ).cloned().collect()
    }

    /// The folders, fresh: caches of an earlier run are gone, and the program finds the files that lie beside it.
    fn place(&self, piece: &Piece<'_>, mode: Mode) -> Result<Place, String> {
        let complaint = |error| format!("cannot make folders in {}: {error}", self.out.display());
        let folder = self.out.join("work").join(piece.label(mode));
        let _ = fs::remove_dir_all(&folder);
        let place = Place { home: folder.join("home"), work: folder.join("work"), folder };
        for folder in [&place.home, &place.work] {
            fs::create_dir_all(folder).map_err(complaint)?;
        }
        for folder in ["cache", "config", "data", "pocl", "cuda", "server"] {
            fs::create_dir(place.home.join(folder)).map_err(complaint)?;
        }
        let beside = piece.row.program.parent().unwrap_or(Path::new("."));
        for entry in fs::read_dir(beside).map_err(complaint)?.flatten() {
            symlink(entry.path(), place.work.join(entry.file_name())).map_err(complaint)?;
        }
        Ok(place)
    }

    /// Runs the sub-tests of a piece in one mode that have no result yet.
    fn drive(&self, piece: &Piece<'_>, mode: Mode) -> Result<(), String> {
        let Piece { row, names, number } = piece;
        let mut rest: Vec<_> = names.iter().filter(|name| !self.known(row, mode, name)).cloned().collect();
        // A program that lists nothing is taken as one test.
        let whole = names.is_empty() && !mode.is_again();
        let done = rest.is_empty() && (!whole || self.known(row, mode, WHOLE));
        if done || self.end <= Instant::now() {
            return Ok(());
        }
        let place = self.place(piece, mode)?;
        let log = self.out.join("logs").join(piece.label(mode));
        let mut env = watch::home(&place.home);
        let mut server = None;
        if mode.is_remote() {
            let started = Server::start(&self.ropeway, &place.home.join("server"), &added(&log, "server.log"))?;
            env.extend(self.only_ropeway(&place, &started)?);
            server = Some(started);
        }
        let mut log = File::create(added(&log, "log")).map_err(|error| format!("cannot keep a log: {error}"))?;
        let program_end = Instant::now() + self.program_limit;
        let mut hung = 0;
        loop {
            let all = rest.len() == names.len() && number.is_none() && !mode.is_again();
            let mut args = row.args.clone();
            if !all {
                args.extend(rest.iter().cloned());
            }
            let begin = Instant::now();
            let run = Run {
                program: &row.program,
                args,
                names: &rest,
                folder: &place.work,
                env: env.clone(),
                limit: self.limit,
                program_end,
                run_end: self.end,
            };
            let mut ended = Vec::new();
            let end = run.go(&mut log, |sub_test| {
                ended.push(sub_test.name.clone());
                self.add(row, mode, sub_test);
            })?;
            let remaining: Vec<_> = rest.iter().filter(|name| !ended.contains(name)).cloned().collect();
            let verdict = match end {
                End::Interrupted => break,
                End::Finished => Verdict::Pass,
                End::Crashed => Verdict::Crash,
                End::Hung => Verdict::Hung,
                End::TooLong => Verdict::NotRun,
            };
            let mark = |name: &str, verdict, seconds, note: &str| {
                self.add(row, mode, SubTest { name: name.to_owned(), verdict, seconds, note: note.to_owned() });
            };
            if (all || whole) && remaining.is_empty() {
                mark(WHOLE, verdict, begin.elapsed().as_secs_f64(), "");
            }
            if end == End::Crashed && remaining.is_empty() && !whole {
                let last = ended.last().is_some_and(|name| {
                    let results = self.results.lock().unwrap_or_else(PoisonError::into_inner);
                    results.find(&row.key, mode, name).is_some_and(|ended| ended.verdict == Verdict::Crash)
                });
                if !last {
                    mark(END, Verdict::Crash, 0.0, "the program crashed after its last sub-test");
                }
            }
            hung += usize::from(end == End::Hung);
            let stuck = remaining.len() == rest.len();
            if stuck || end == End::TooLong || hung >= MOST_HUNG {
                let verdict = if stuck && end != End::Finished { verdict } else { Verdict::NotRun };
                for name in &remaining {
                    mark(name, verdict, 0.0, "the program did not come to it");
                }
                break;
            }
            if remaining.is_empty() {
                break;
            }
            rest = remaining;
        }
        drop(server);
        let _ = fs::remove_dir_all(&place.folder);
        Ok(())
    }

    /// Variables with which a program sees only the server's devices.
    fn only_ropeway(&self, place: &Place, server: &Server) -> Result<Vec<(String, OsString)>, String> {
        let complaint = |error| format!("cannot write {}: {error}", place.home.display());
        let vendors = place.home.join("vendors");
        fs::create_dir(&vendors).map_err(complaint)?;
        fs::write(vendors.join("ropeway.icd"), format!("{}\n", self.library.display())).map_err(complaint)?;
        let servers = ("ROPEWAY_SERVERS".to_owned(), server.url().into());
        Ok(vec![("OCL_ICD_VENDORS".to_owned(), vendors.into_os_string()), servers])
    }
}

/// A key as the name of a file.
fn file_name(key: &str) -> String {
    key.chars().map(|c| if c.is_ascii_alphanumeric() || c == '_' || c == '-' { c } else { '.' }).collect()
}

/// A path with one more extension.
fn added(path: &Path, extension: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(extension);
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program with one sub-test for each way to end.
    const PROGRAM: &str = r#"
        [ "$*" = --list ] && { printf '\tbad\n\tcrash\n\tgood\n\thang\n\tlast\n'; exit; }
        [ $# -gt 0 ] || set -- good crash hang bad last
        for name; do
            echo "$name..."
            case $name in
                crash) kill -ABRT $$;;
                hang) sleep 600;;
                bad) echo "bad FAILED";;
                *) echo "$name passed";;
            esac
        done
        printf '{\n"results": {\n"last": "skip"\n}\n}\n' > "$CL_CONFORMANCE_RESULTS_FILENAME"
    "#;

    fn setting(out: &Path, program_limit: Duration) -> Setting {
        fs::create_dir_all(out.join("logs")).unwrap();
        Setting {
            ropeway: "ropeway".into(),
            library: "libropeway.so".into(),
            out: out.to_owned(),
            limit: Duration::from_secs(1),
            program_limit,
            end: Instant::now() + Duration::from_secs(100),
            results: Mutex::new(Results::open(&out.join("results.tsv"), |_| true).unwrap()),
        }
    }

    fn row(folder: &Path) -> Row {
        let program = folder.join("test_x");
        symlink("/bin/sh", &program).unwrap();
        fs::write(folder.join("script"), PROGRAM).unwrap();
        Row { key: "test_x".to_owned(), program, args: vec!["script".to_owned()] }
    }

    fn verdicts(setting: &Setting) -> Vec<(String, Verdict)> {
        let results = setting.results.lock().unwrap();
        let mut list: Vec<_> =
            results.of("test_x", Mode::Native).map(|ended| (ended.name.clone(), ended.verdict)).collect();
        list.sort_by(|a, b| a.0.cmp(&b.0));
        list
    }

    #[test]
    fn a_crash_and_a_hang_hide_nothing() {
        let (folder, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let row = row(folder.path());
        let setting = setting(out.path(), Duration::from_secs(60));
        let piece = setting.pieces(&row, 10).unwrap().remove(0);
        assert_eq!(piece.names, ["bad", "crash", "good", "hang", "last"]);
        setting.drive(&piece, Mode::Native).unwrap();
        use Verdict::{Crash, Fail, Hung, Pass, Skip};
        let expected = [("bad", Fail), ("crash", Crash), ("good", Pass), ("hang", Hung), ("last", Skip)];
        assert_eq!(verdicts(&setting), expected.map(|(name, verdict)| (name.to_owned(), verdict)));
        // Sub-tests with a known result are not run again.
        let begin = Instant::now();
        setting.drive(&piece, Mode::Native).unwrap();
        assert!(begin.elapsed() < Duration::from_millis(500));
    }

    #[test]
    fn pieces_together_are_the_whole() {
        let (folder, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let row = row(folder.path());
        let setting = setting(out.path(), Duration::from_secs(60));
        let pieces = setting.pieces(&row, 2).unwrap();
        let names: Vec<_> = pieces.iter().map(|piece| piece.names.join(" ")).collect();
        assert_eq!(names, ["bad hang", "crash last", "good"]);
        pieces.iter().for_each(|piece| setting.drive(piece, Mode::Native).unwrap());
        use Verdict::{Crash, Fail, Hung, Pass, Skip};
        let expected = [("bad", Fail), ("crash", Crash), ("good", Pass), ("hang", Hung), ("last", Skip)];
        assert_eq!(verdicts(&setting), expected.map(|(name, verdict)| (name.to_owned(), verdict)));
    }

    #[test]
    fn what_a_program_has_no_time_for_is_said_not_to_have_run() {
        let (folder, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let row = row(folder.path());
        let mut setting = setting(out.path(), Duration::from_millis(500));
        let piece = setting.pieces(&row, 10).unwrap().remove(0);
        setting.drive(&piece, Mode::Native).unwrap();
        use Verdict::{Crash, NotRun, Pass};
        let expected = [("bad", NotRun), ("crash", Crash), ("good", Pass), ("hang", NotRun), ("last", NotRun)];
        let found = verdicts(&setting);
        assert_eq!(found.len(), 5, "{found:?}");
        assert_eq!(found[1..4], expected[1..4].iter().map(|&(name, v)| (name.to_owned(), v)).collect::<Vec<_>>());
        // Interrupted as a whole: nothing is said of what was open.
        setting.end = Instant::now() + Duration::from_millis(300);
        setting.program_limit = Duration::from_secs(60);
        let names = piece.names;
        let again = Row { key: "again".to_owned(), ..row };
        setting.drive(&Piece { row: &again, names, number: None }, Mode::Native).unwrap();
        let results = setting.results.lock().unwrap();
        assert!(results.find("again", Mode::Native, "good").is_some());
        assert!(results.find("again", Mode::Native, "hang").is_none());
    }
}
