//! The C programs on native implementations other than PoCL: the same output natively and through Ropeway.
//!
//! `tests/c/natives.departures` lists the programs that do not get as far as that, with the reason, and has no line too
//! many.

use std::collections::BTreeMap;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};

use ropeway_tests::compare::same_on;
use ropeway_tests::natives::Native;
use ropeway_tests::places::root;

/// The programs that `compare::same` runs on PoCL, in the tests of each subject.
const PROGRAMS: &[&str] = &[
    "vector_add",
    "events",
    "profiling",
    "held_reads",
    "mapping",
    "transfers",
    "programs",
    "threads",
    "many_waits",
    "kernel_printf",
    "rects",
    "sub_buffers",
    "maps",
    "native_kernel",
    "pipes",
    "images",
    "kernels",
    "device_queues",
    "devices",
    "spirv_queries",
    "svm",
    "svm_list",
];

/// The programs that depart on this implementation, and why.
fn departures(native: &Native) -> BTreeMap<String, String> {
    let list = fs::read_to_string(root().join("tests/c/natives.departures")).expect("the list is there");
    let rows = list.lines().filter(|line| !line.starts_with('#')).map(|line| {
        let [name, program, why] = line.splitn(3, " | ").collect::<Vec<_>>()[..] else { panic!("not a row: '{line}'") };
        (name.to_owned(), program.to_owned(), why.to_owned())
    });
    rows.filter(|(name, ..)| *name == native.name).map(|(_, program, why)| (program, why)).collect()
}

#[test]
fn programs_are_as_natively() {
    for native in Native::others() {
        let departures = departures(&native);
        let mut wrong = Vec::new();
        for program in PROGRAMS {
            let is_same = catch_unwind(AssertUnwindSafe(|| same_on(&native, program))).is_ok();
            match departures.get(*program) {
                None if !is_same => wrong.push(format!("+{} | {program} | ...", native.name)),
                Some(why) if is_same => wrong.push(format!("-{} | {program} | {why}", native.name)),
                _ => {}
            }
        }
        let unknown = departures.keys().filter(|program| !PROGRAMS.contains(&program.as_str()));
        wrong.extend(unknown.map(|program| format!("{} | {program}: there is no such program", native.name)));
        assert!(wrong.is_empty(), "tests/c/natives.departures should have:\n{}", wrong.join("\n"));
    }
}
