//! `ssh://`, servers that ssh starts on their hosts: real ssh servers on loopback.

use std::fs;

use ropeway_tests::places::c_program;
use ropeway_tests::process;
use ropeway_tests::program::Program;
use ropeway_tests::sshd::Sshd;

/// Longer than any test.
const LONG: &str = "600";

#[test]
fn programs_share_one_connection_that_is_kept_for_the_next() {
    let sshd = Sshd::start();
    let native = Program::native(c_program("vector_add")).run().success();
    let run = || sshd.program(&c_program("vector_add"), &sshd.url(), LONG).run().success();
    let first = run();
    assert_eq!((first.stdout, first.stderr), (native.stdout.clone(), String::new()));
    let (tunnel, ssh) = sshd.tunnel();
    assert_eq!(run().stdout, native.stdout);
    assert_eq!(sshd.tunnel(), (tunnel, ssh));
    // Several at once.
    let all: Vec<_> = (0..3).map(|_| sshd.program(&c_program("vector_add"), &sshd.url(), LONG).start()).collect();
    all.into_iter().for_each(|program| assert_eq!(program.finish().success().stdout, native.stdout));
    assert_eq!(sshd.tunnel(), (tunnel, ssh));
    assert_eq!(sshd.sessions(), 1);
}
