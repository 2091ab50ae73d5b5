//! One client cannot take all of the server's main memory.

use ropeway_tests::places::c_program;
use ropeway_tests::program::Program;
use ropeway_tests::server::Server;

#[test]
fn a_session_that_takes_too_much_memory_ends_with_a_sentence_and_others_go_on() {
    let server = Server::start_with(&["--listen", "tcp://127.0.0.1:0", "--session-host-memory", "400M"], &[]);
    let mut other = Program::remote(c_program("held"), server.url()).start();
    assert_eq!(other.line(), "ready");
    // 160 MiB are allowed, 2 GiB are not.
    let modest = Program::remote(c_program("takes_memory"), server.url()).args(["10"]).run().success();
    assert_eq!(modest.stdout, "has all\n");
    let greedy = Program::remote(c_program("takes_memory"), server.url()).args(["128"]).run().success();
    assert_eq!(greedy.stdout, "stopped\n", "{}", greedy.stderr);
    let sentence = greedy.stderr.lines().find(|line| line.contains("main memory"));
    let sentence = sentence.unwrap_or_else(|| panic!("{}", greedy.stderr));
    assert!(sentence.contains("and may take 400 (--session-host-memory"), "{sentence}");
    server.expect_log("other sessions go on");
    other.say("");
    assert_eq!(other.line(), "1");
}
