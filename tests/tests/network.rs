//! The network that tests with several servers use.

use ropeway_tests::net::Net;
use ropeway_tests::places::c_program;
use ropeway_tests::program::Program;
use ropeway_tests::server::Server;
use std::time::Instant;

/// Each machine has an address and a link of its own, and what goes over it is counted.
#[test]
fn machines_have_links_of_their_own() {
    let Some(net) = Net::or_skip(3) else { return };
    let servers = [Server::start_on(net.host(1), &[], &[]), Server::start_on(net.host(2), &[], &[])];
    let before = net.host(0).traffic();
    let only = |server: &Server| Program::remote(c_program("vector_add"), server.url()).on(net.host(0));
    only(&servers[0]).run().success();
    let after = net.host(0).traffic() - before;
    assert!(after.bytes_in > 1000 && after.bytes_out > 1000, "{after:?}");
    // Address resolution asks all machines.
    let aside = net.host(2).traffic();
    assert!(aside.bytes() < 1000, "a machine that nobody has talked to: {aside:?}");

    // A link's rate is kept, and a link that is cut carries nothing.
    net.host(0).limit("1gbit");
    let (before, begun) = (net.host(0).traffic(), Instant::now());
    Program::remote(c_program("transfers"), servers[1].url()).on(net.host(0)).run().success();
    let sent = (net.host(0).traffic() - before).bytes_out;
    let shortest = sent.saturating_sub(100_000) as f64 / 125e6;
    assert!(sent > 1_000_000 && begun.elapsed().as_secs_f64() > shortest, "{sent} bytes in {:?}", begun.elapsed());
    net.host(2).cut();
    assert!(!only(&servers[1]).run().status.success());
    net.host(2).mend();
    only(&servers[1]).run().success();
}
