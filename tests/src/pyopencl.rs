//! PyOpenCL's own test-suite, a file of it at a time, natively and through Ropeway, test by test.
//!
//! The larger files are in files of tests of their own, which `scripts/e2e.sh` runs side by side, one process for each
//! processor.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::time::Duration;

use crate::natives::Native;
use crate::places::root;
use crate::program::Program;
use crate::python;
use crate::server::Server;

/// The file that runs with PyOpenCL's own cache of binaries.
///
/// PyOpenCL asks each platform that it does not know to have a cache, as Ropeway, for the binary of each program. PoCL
/// then compiles the program once more, for work-groups of any size: longer than all else in these tests. So all other
/// files run without that cache, natively and through Ropeway alike.
const WITH_CACHE: &str = "test_wrapper.py";

/// The outcome of each test of a file.
fn outcomes(program: Program, file: &str) -> BTreeMap<String, String> {
    let list = program.home().join("outcomes");
    let outcome = program
        .args(["-m", "pytest", "-q", "-p", "outcomes", "-p", "no:cacheprovider", file])
        .env("OUTCOMES", &list)
        .env("PYTHONPATH", root().join("tests/python"))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("PYOPENCL_NO_CACHE", if file == WITH_CACHE { "0" } else { "1" })
        .within(&python::pyopencl_tests())
        .limit(Duration::from_secs(1800))
        .run();
    let text = outcome.file("outcomes");
    eprintln!("{}", outcome.stdout.lines().next_back().unwrap_or_default());
    let lines = text.lines().filter_map(|line| line.rsplit_once('\t'));
    lines.map(|(name, outcome)| (without_platform(name), outcome.to_owned())).collect()
}

/// A test's name without the platform's, which is in its parameters: `<pyopencl.Device '...' on '...'>`,
/// `<pyopencl.Platform '...'>`.
fn without_platform(name: &str) -> String {
    let begins = ["' on '", "<pyopencl.Platform '"];
    let Some(before) = begins.iter().find_map(|begin| Some(name.find(begin)? + begin.len())) else {
        return name.to_owned();
    };
    let (before, platform) = name.split_at(before);
    format!("{before}{}", platform.find('\'').map_or("", |end| &platform[end..]))
}

/// The tests of a file that are known to differ on this implementation, without parameters.
fn expected(native: &Native, file: &str) -> BTreeSet<String> {
    let path = root().join(format!("tests/python/{}.differences", native.name));
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let names = lines.filter_map(|line| line.split_whitespace().next());
    names.filter(|name| name.starts_with(&format!("test/{file}::"))).map(str::to_owned).collect()
}

/// A file of the suite on each implementation that `ROPEWAY_NATIVES` names, or on PoCL.
///
/// # Panics
/// With the tests that differ and are not listed in `tests/python/*.differences`, and with those that are listed and do
/// not differ; when fewer than `least` tests run.
pub fn same(file: &str, least: usize) {
    for native in Native::chosen_or("pocl") {
        same_on(&native, file, least);
    }
}

fn same_on(native: &Native, file: &str, least: usize) {
    let natively = outcomes(Program::on_native(native, python::interpreter()), file);
    let server = Server::start_on_native(native);
    let remotely = outcomes(Program::remote(python::interpreter(), server.url()), file);
    let on = &native.name;
    assert!(natively.len() >= least, "only {} tests of {file} ran on {on}", natively.len());

    let expected = expected(native, file);
    let names: BTreeSet<_> = natively.keys().chain(remotely.keys()).collect();
    let mut differ = BTreeSet::new();
    let mut unexpected = Vec::new();
    for name in names {
        let outcome = |of: &BTreeMap<String, String>| of.get(name).map_or("not run", String::as_str).to_owned();
        let (natively, remotely) = (outcome(&natively), outcome(&remotely));
        if natively == remotely {
            continue;
        }
        let bare = name.split('[').next().unwrap_or(name).to_owned();
        println!("{bare} on {on}: natively {natively}, through Ropeway {remotely}");
        if !expected.contains(&bare) {
            unexpected.push(format!("{name}: natively {natively}, through Ropeway {remotely}"));
        }
        differ.insert(bare);
    }
    assert!(unexpected.is_empty(), "{} differences on {on}:\n{}", unexpected.len(), unexpected.join("\n"));
    let needless: Vec<_> = expected.difference(&differ).collect();
    assert!(needless.is_empty(), "these no longer differ on {on}; take them out of the list: {needless:?}");
}
