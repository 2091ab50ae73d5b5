//! Servers that do not reach each other, or no more: the client passes on what goes from one to the other, which is
//! counted on its link.

use ropeway_tests::cluster::{Cluster, MIB, Stage, expect};
use ropeway_tests::places::c_program;
use ropeway_tests::program::{Outcome, Program};

/// Runs the program, and does `part` with the cluster when it begins or once servers have talked to each other.
fn run(cluster: &Cluster, early: bool, part: impl Fn(&Cluster)) -> (Stage, Outcome) {
    if early {
        part(cluster);
    }
    let mut program = cluster.program("parted", &["4194304", "6"]).start();
    expect(&mut program, "before: right");
    expect(&mut program, "part");
    if !early {
        part(cluster);
    }
    program.say("done");
    expect(&mut program, "after: right");
    expect(&mut program, "begin to and fro");
    let stage = cluster.stage(&mut program, "to and fro");
    expect(&mut program, "begin from the third");
    let third = cluster.stage(&mut program, "from the third");
    assert!(third.client() < 50_000, "there is a way that does not need the client: {third:?}");
    third.expect_between(4 * MIB, MIB);
    let outcome = program.finish().success();
    eprintln!("{}", outcome.stderr);
    assert_eq!(outcome.stdout, "all right\n", "{}", outcome.stderr);
    (stage, outcome)
}

/// Six times there or back, all of it by way of the client, and nothing straight.
fn passed_on(stage: &Stage, outcome: &Outcome, said: &str) {
    stage.expect_to_client(6 * 4 * MIB, MIB);
    stage.expect_from_client(6 * 4 * MIB, MIB);
    for server in [0, 1] {
        stage.expect_to(server, 3 * 4 * MIB, MIB);
        stage.expect_from(server, 3 * 4 * MIB, MIB);
    }
    assert!(stage.between() < 2 * MIB, "{stage:?}");
    assert_eq!(outcome.stderr.matches(said).count(), 1, "{}", outcome.stderr);
    assert_eq!(outcome.stderr.matches("goes through this machine").count(), 1, "{}", outcome.stderr);
}

#[test]
fn servers_without_a_way_between_them_are_served_by_the_client() {
    let Some(cluster) = Cluster::start() else { return };
    let (stage, outcome) = run(&cluster, true, |cluster| cluster.host(1).has_no_way_to(cluster.host(2)));
    passed_on(&stage, &outcome, "do not reach each other");
}

#[test]
fn servers_with_something_between_them_that_lets_nothing_through_are_served_by_the_client() {
    let Some(cluster) = Cluster::start() else { return };
    let (stage, outcome) = run(&cluster, true, |cluster| cluster.host(1).part_from(cluster.host(2)));
    passed_on(&stage, &outcome, "do not reach each other");
}

#[test]
fn servers_that_are_parted_in_the_middle_are_served_by_the_client() {
    let Some(cluster) = Cluster::start() else { return };
    let (stage, outcome) = run(&cluster, false, |cluster| cluster.host(1).part_from(cluster.host(2)));
    passed_on(&stage, &outcome, "is lost (");
}

#[test]
fn collective_operations_go_by_way_of_the_client() {
    let Some(cluster) = Cluster::start() else { return };
    cluster.host(1).has_no_way_to(cluster.host(2));
    let args = ["3", "each", "15000"];
    let plain = Program::native(c_program("collectives_ordinary")).args(args).run().success();
    let outcome = cluster.program("collectives", &args).run().success();
    assert_eq!(outcome.stdout, plain.stdout, "left: over servers, right: ordinary calls natively; {}", outcome.stderr);
    assert_eq!(outcome.stderr.matches("do not reach each other").count(), 1, "{}", outcome.stderr);
}

#[test]
fn servers_that_are_not_parted_do_not_need_the_client() {
    let Some(cluster) = Cluster::start() else { return };
    let (stage, outcome) = run(&cluster, true, |_| ());
    assert!(stage.client() < 50_000, "{stage:?}");
    stage.expect_between(6 * 4 * MIB, MIB);
    assert!(!outcome.stderr.contains("ropeway: "), "{}", outcome.stderr);
}
