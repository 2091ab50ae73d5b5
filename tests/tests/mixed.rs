//! Servers that are not alike: device types, versions of OpenCL, the order of bytes.

use ropeway_protocol::handshake::{Opening, Welcome, encode_opening};
use ropeway_protocol::ids::SessionId;
use ropeway_tests::cluster::{Cluster, MIB};
use ropeway_tests::fake;
use ropeway_tests::places::{c_program, stub_vendors};
use ropeway_tests::program::Program;

#[test]
fn devices_of_different_types_and_versions_share_a_context() {
    let vendors = stub_vendors();
    let stub = [("OCL_ICD_VENDORS", vendors.to_str().expect("a path in UTF-8"))];
    let Some(cluster) = Cluster::with_env(&[&[], &stub, &[]]) else { return };
    let (stage, outcome) = cluster.measured(cluster.program("mixed", &["4194304", "6"]));
    let said = "3 devices, 2 CPUs, 1 accelerators\nby type: 1\nCPU, OpenCL 3.0\naccelerator, OpenCL 1.2\nCPU, OpenCL 3.0\n\
        all have added\n";
    assert_eq!(outcome.stdout, said, "{}", outcome.stderr);
    // The bytes that the program wrote to the last one go to the first, and then round.
    stage.expect_between(6 * 4 * MIB, MIB);
    assert!(stage.client() < 50_000, "{stage:?}");
}

#[test]
fn a_server_of_the_other_byte_order_takes_no_part_and_the_others_do() {
    let Some(cluster) = Cluster::beside(3, 1) else { return };
    let welcome = Welcome {
        features: 0,
        session: SessionId(1),
        release: "0".into(),
        host: "there".into(),
        little_endian: false,
        peer_address: None,
        peer_key: None,
        lanes_secret: [0; 32],
        platforms: vec![],
    };
    let other = cluster.host(4);
    let listen = format!("{}:7590", other.address());
    let answer = encode_opening(Opening::Welcome, &welcome);
    let url = other.inside(|| fake::answering_at(&listen, answer));
    let why = format!("cannot use the server {url}: it, or one of its devices, is big-endian");

    let native = Program::native(c_program("many_servers")).env("POCL_DEVICES", "pthread pthread pthread");
    let native = native.args(["all"]).run().success();
    let program = Program::remote(c_program("many_servers"), &format!("{},{url}", cluster.urls())).args(["all"]);
    let outcome = program.on(cluster.host(0)).run().success();
    assert_eq!(outcome.stdout, native.stdout, "left: through Ropeway, right: native; {}", outcome.stderr);
    assert_eq!(outcome.stderr.matches(&why).count(), 1, "{}", outcome.stderr);

    let mut program = cluster.program("servers", &[]).start();
    assert_eq!(program.line(), "ready");
    program.say(&format!("connect {url}"));
    assert_eq!(program.line(), "not connected -52573", "CL_SERVER_REFUSED_ROPEWAY");
    let outcome = program.finish().success();
    assert!(outcome.stderr.contains(&why), "{}", outcome.stderr);
}
