//! Error codes: tables of calls that are wrong in one way each (`tests/c/errors`).
//!
//! Through Ropeway every row has a code that the specification allows. Where PoCL departs from the specification,
//! `tests/c/errors/pocl.departures` says so, and has no line too many.

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
    platform: String,
    rows: Vec<Row>,
    skipped: BTreeSet<String>,
    ended: bool,
}

impl Table {
    fn of(outcome: &Outcome) -> Self {
        let mut table = Self { platform: String::new(), rows: Vec::new(), skipped: BTreeSet::new(), ended: false };
        for line in outcome.stdout.lines() {
            match *line.split(" | ").collect::<Vec<_>>() {
                ["end"] => table.ended = true,
                ["platform", name] => table.platform = name.to_owned(),
                ["skipped", what, why] => {
                    table.skipped.insert(format!("{what} | {why}"));
                }
                [function, condition, allowed, came] => table.rows.push(Row {
                    call: format!("{function} | {condition}"),
                    allowed: allowed.split_whitespace().map(str::to_owned).collect(),
                    // A program that ends in the middle leaves nothing here, or its last words.
                    came: came.starts_with(['C', '-']).then(|| came.to_owned()),
                }),
                _ => panic!("not a row: '{line}'\n{}{}", outcome.stdout, outcome.stderr),
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

/// Every row through Ropeway; returns what it skipped.
fn remote(server: &Server, family: &str) -> BTreeSet<String> {
    let outcome = Program::remote(c_program(&format!("errors/{family}")), server.url()).run();
    let table = Table::of(&outcome);
    let refused = unsupported();
    let judged = table.rows.iter().filter(|row| !refused.contains(row.function()));
    let wrong: Vec<_> = judged
        .filter(|row| !row.is_right())
        .map(|row| format!("{}: expected {}, found {}", row.call, row.allowed.join(" or "), row.came()))
        .collect();
    assert!(wrong.is_empty() && table.ended, "{}\n{}", wrong.join("\n"), outcome.stderr);
    let mut calls: Vec<_> = table.rows.iter().map(|row| &row.call).collect();
    calls.sort_unstable();
    let twice = calls.windows(2).find(|pair| pair[0] == pair[1]);
    assert!(twice.is_none(), "there twice: {twice:?}");
    table.skipped
}

/// The rows natively, against the list of departures. A program that crashes goes on behind the row where it did.
fn native(family: &str) -> BTreeSet<String> {
    let (mut departures, mut skipped) = (BTreeSet::new(), BTreeSet::new());
    let mut passed_over = 0;
    loop {
        let program = Program::native(c_program(&format!("errors/{family}")));
        let outcome = program.args(["native".to_owned(), passed_over.to_string()]).may_crash().run();
        let table = Table::of(&outcome);
        if table.platform != "Portable Computing Language" {
            return table.skipped;
        }
        skipped.extend(table.skipped);
        for row in table.rows.iter().filter(|row| !row.is_right()) {
            departures.insert(format!("{family} | {} | {}", row.call, row.came()));
        }
        passed_over += table.rows.len();
        if table.ended {
            break;
        }
        let crashed = !outcome.status.success() && table.rows.last().is_some_and(|row| row.came.is_none());
        assert!(crashed, "{}{}", outcome.stdout, outcome.stderr);
    }
    let list = fs::read_to_string(root().join("tests/c/errors/pocl.departures")).unwrap();
    let of_family = |line: &&str| line.split(" | ").next() == Some(family);
    let listed: BTreeSet<_> = list.lines().filter(of_family).map(str::to_owned).collect();
    let missing: Vec<_> = departures.difference(&listed).map(|line| format!("+{line}")).collect();
    let needless: Vec<_> = listed.difference(&departures).map(|line| format!("-{line}")).collect();
    let change = [missing, needless].concat();
    assert!(change.is_empty(), "tests/c/errors/pocl.departures should have:\n{}", change.join("\n"));
    skipped
}

fn check(family: &str) {
    let natively = native(family);
    let through_ropeway = remote(&Server::start(), family);
    let refused = unsupported();
    let offered = |what: &&String| !refused.iter().any(|function| what.starts_with(function));
    let more: Vec<_> = through_ropeway.difference(&natively).filter(offered).collect();
    assert!(more.is_empty(), "left out through Ropeway, but not natively: {more:#?}");
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

/// PoCL has no queues on the device; what others have is held to the specification through Ropeway, whatever they say natively.
#[test]
fn device_queues_where_there_are_some() {
    for native in Native::others() {
        remote(&Server::start_on_native(&native), "device_queue");
    }
}

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
