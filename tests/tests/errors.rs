//! Error codes: tables of calls that are wrong in one way each (`tests/c/errors`).
//!
//! Each row has a code that the specification allows. Where a native implementation departs from that,
//! `tests/c/errors/<name>.departures` says so, and whether its code comes through Ropeway as well; no list has a line
//! too many.

use std::collections::BTreeSet;
use std::fs;

use ropeway_tests::natives::Native;
use ropeway_tests::places::{c_program, root};
use ropeway_tests::program::{Outcome, Program};
use ropeway_tests::server::Server;

/// One row of a table, as a program printed it.
#[derive(Debug)]
struct Row {
    /// The function, and what is wrong about the call.
    call: String,
    /// The codes that the specification allows.
    allowed: Vec<String>,
    /// The status that came; `None` if the program ended with this call.
    came: Option<String>,
}

impl Row {
    fn function(&self) -> &str {
        self.call.split_once(" | ").map_or("", |(function, _)| function)
    }

    fn is_right(&self) -> bool {
        self.came.as_ref().is_some_and(|came| self.allowed.contains(came))
    }

    fn came(&self) -> &str {
        self.came.as_deref().unwrap_or("crash")
    }
}

/// The output of a program.
struct Table {
    rows: Vec<Row>,
    skipped: BTreeSet<String>,
    /// Lines that are no rows: the last words of a program that cannot go on.
    others: Vec<String>,
    ended: bool,
}

impl Table {
    fn of(outcome: &Outcome) -> Self {
        let mut table = Self { rows: Vec::new(), skipped: BTreeSet::new(), others: Vec::new(), ended: false };
        for line in outcome.stdout.lines() {
            match *line.split(" | ").collect::<Vec<_>>() {
                ["end"] => table.ended = true,
                ["platform", _] => {}
                ["skipped", what, why] => {
                    table.skipped.insert(format!("{what} | {why}"));
                }
                [function, condition, allowed, came] => table.rows.push(Row {
                    call: format!("{function} | {condition}"),
                    allowed: allowed.split_whitespace().map(str::to_owned).collect(),
                    // A program that ends in the middle leaves nothing here, or its last words.
                    came: came.starts_with(['C', '-']).then(|| came.to_owned()),
                }),
                _ => table.others.push(line.to_owned()),
            }
        }
        table
    }
}

/// The functions whose slots of the dispatch table refuse everything.
fn unsupported() -> BTreeSet<String> {
    let source = fs::read_to_string(root().join("crates/icd/src/dispatch.rs")).unwrap();
    let names = source.lines().filter_map(|line| line.trim().strip_prefix("unsupported::")?.strip_suffix(','));
    names.map(str::to_owned).collect()
}

/// Whether rows run natively or through Ropeway: what the program is told, and how the list marks what departs there.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Natively,
    Remotely,
}

/// The departures of one implementation that a list has, or that a run found.
type Departures = BTreeSet<String>;

/// The lines of `tests/c/errors/<implementation>.departures` for a family, natively and through Ropeway. A line is a
/// family, a function, what is wrong about the call, the code that comes, and, if that comes through Ropeway as well,
/// or there only, "also remotely" or "only remotely".
fn listed(native: &Native, family: &str, way: Way) -> Departures {
    let path = root().join(format!("tests/c/errors/{}.departures", native.name));
    let list = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let rows = list.lines().filter(|line| !line.starts_with('#')).map(|line| line.split(" | ").collect::<Vec<_>>());
    let here = rows.filter(|row| match row[..] {
        [_, _, _, _] => way == Way::Natively,
        [_, _, _, _, "also remotely"] => true,
        [_, _, _, _, "only remotely"] => way == Way::Remotely,
        _ => panic!("{}: not a row: '{}'", path.display(), row.join(" | ")),
    });
    here.filter(|row| row[0] == family).map(|row| row[..4].join(" | ")).collect()
}

/// The rows of a family against the list of departures; returns what was left out, and what is wrong with the list. A
/// program that crashes, or whose session ends because the implementation crashed in the server's worker, is run again
/// and passes over the rows up to that one.
fn judged(native: &Native, family: &str, way: Way, program: impl Fn() -> Program) -> (BTreeSet<String>, Vec<String>) {
    let (mut departures, mut skipped, mut calls) = (Departures::new(), BTreeSet::new(), BTreeSet::new());
    let refused = if way == Way::Remotely { unsupported() } else { BTreeSet::new() };
    let mode = if way == Way::Remotely { "remote" } else { "native" };
    let mut passed_over = 0;
    loop {
        let outcome = program().args([mode.to_owned(), passed_over.to_string()]).may_crash().run();
        let mut table = Table::of(&outcome);
        let broken_off = table.rows.iter().position(|row| match way {
            Way::Natively => row.came.is_none(),
            // No row makes this status.
            Way::Remotely => row.came() == "CL_DEVICE_NOT_AVAILABLE",
        });
        let is_whole = table.ended && table.others.is_empty();
        assert!(is_whole || broken_off.is_some(), "{family}, {mode}: {}{}", outcome.stdout, outcome.stderr);
        if let Some(last) = broken_off {
            table.rows.truncate(last + 1);
            table.rows[last].came = None;
        }
        passed_over += table.rows.len();
        skipped.extend(table.skipped);
        for row in table.rows.into_iter().filter(|row| !refused.contains(row.function())) {
            if !row.is_right() {
                departures.insert(format!("{family} | {} | {}", row.call, row.came()));
            }
            assert!(!calls.contains(&row.call), "there twice: {}", row.call);
            calls.insert(row.call);
        }
        if broken_off.is_none() {
            break;
        }
    }
    let listed = listed(native, family, way);
    let missing = departures.difference(&listed).map(|line| format!("+{line} ({mode})"));
    let needless = listed.difference(&departures).map(|line| format!("-{line} ({mode})"));
    (skipped, missing.chain(needless).collect())
}

fn check(family: &str) {
    for native in Native::chosen() {
        let program = c_program(&format!("errors/{family}"));
        let (natively, mut change) = judged(&native, family, Way::Natively, || Program::on_native(&native, &program));
        let server = Server::start_on_native(&native);
        let (remotely, also) = judged(&native, family, Way::Remotely, || Program::remote(&program, server.url()));
        change.extend(also);
        let name = &native.name;
        assert!(change.is_empty(), "tests/c/errors/{name}.departures should have:\n{}", change.join("\n"));
        let refused = unsupported();
        let offered = |what: &&String| !refused.iter().any(|function| what.starts_with(function));
        let more: Vec<_> = remotely.difference(&natively).filter(offered).collect();
        assert!(more.is_empty(), "on {name}, left out through Ropeway, but not natively: {more:#?}");
    }
}

macro_rules! families {
    ($($family:ident)*) => {$(
        #[test]
        fn $family() {
            check(stringify!($family));
        }
    )*};
}

families! { buffer context device_queue event image kernel platform program queue rectangles sampler svm transfers }

/// Whether this machine's own compiler withstands binaries that are none. What it makes of them is its own affair.
fn withstands_nonsense() -> bool {
    Program::native(c_program("errors/nonsense")).may_crash().run().status.success()
}

#[test]
fn a_compiler_that_crashes_ends_one_session_only() {
    let server = Server::start();
    let outcome = Program::remote(c_program("errors/nonsense"), server.url()).run().success();
    assert!(!outcome.stderr.contains("failed inside Ropeway"), "{}", outcome.stderr);
    assert!(outcome.stdout == "end\n" || !withstands_nonsense(), "{}\n{}", outcome.stdout, server.log());
    Program::remote(c_program("vector_add"), server.url()).run().success();
}

/// Whatever the application calls, the client library does not panic and the worker does not end.
#[test]
fn calls_at_random_harm_neither_side() {
    let server = Server::start();
    let program = Program::remote(c_program("errors/random"), server.url());
    let program = if withstands_nonsense() { program } else { program.args(["sound"]) };
    let outcome = program.run().success();
    assert!(outcome.stdout.contains("many succeed, many are refused\nend\n"), "{}", outcome.stdout);
    assert!(!outcome.stderr.contains("failed inside Ropeway"), "{}", outcome.stderr);
    server.expect_log("session ends");
    let log = server.log();
    assert!(!log.contains("its worker failed") && !log.contains("must not"), "{log}");
}
