//! PyOpenCL from PyPI: its own test-suite, natively and through Ropeway, test by test.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::time::Duration;

use ropeway_tests::places::root;
use ropeway_tests::program::Program;
use ropeway_tests::python;
use ropeway_tests::server::Server;

/// The outcome of each test.
fn outcomes(program: Program) -> BTreeMap<String, String> {
    let list = program.home().join("outcomes");
    let outcome = program
        .args(["-m", "pytest", "-q", "-n", "2", "-p", "outcomes", "-p", "no:cacheprovider", "."])
        .env("OUTCOMES", &list)
        .env("PYTHONPATH", root().join("tests/python"))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .within(&python::pyopencl_tests())
        .limit(Duration::from_secs(1800))
        .run();
    let text = outcome.file("outcomes");
    eprintln!("{}", outcome.stdout.lines().next_back().unwrap_or_default());
    let lines = text.lines().filter_map(|line| line.rsplit_once('\t'));
    // The platform's name is part of a test's.
    lines
        .map(|(name, outcome)| (name.replace("'Ropeway'", "'Portable Computing Language'"), outcome.to_owned()))
        .collect()
}

/// The tests that are known to differ, without parameters.
fn expected() -> BTreeSet<String> {
    let text = fs::read_to_string(root().join("tests/python/expected-differences.txt")).unwrap();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
}

#[test]
fn the_same_tests_pass() {
    let native = outcomes(Program::native(python::interpreter()));
    let server = Server::start();
    let remote = outcomes(Program::remote(python::interpreter(), server.url()));
    assert!(native.len() > 250, "only {} tests ran", native.len());

    let names: BTreeSet<_> = native.keys().chain(remote.keys()).collect();
    let mut differ = BTreeSet::new();
    let mut unexpected = Vec::new();
    let expected = expected();
    for name in names {
        let outcome = |of: &BTreeMap<String, String>| of.get(name).map_or("not run", String::as_str).to_owned();
        let (native, remote) = (outcome(&native), outcome(&remote));
        if native == remote {
            continue;
        }
        let bare = name.split('[').next().unwrap_or(name).to_owned();
        println!("{bare}: natively {native}, through Ropeway {remote}");
        if !expected.contains(&bare) {
            unexpected.push(format!("{name}: natively {native}, through Ropeway {remote}"));
        }
        differ.insert(bare);
    }
    assert!(unexpected.is_empty(), "{} differences:\n{}", unexpected.len(), unexpected.join("\n"));
    let needless: Vec<_> = expected.difference(&differ).collect();
    assert!(needless.is_empty(), "these no longer differ; take them out of the list: {needless:?}");
}
