//! Pods of Kubernetes with devices of a broker, before a kubelet and an API server that are none: `tests/kubernetes.rs`
//! has the real ones.

use std::collections::BTreeSet;
use std::fs;
use std::process::{Command, Output};
use std::time::Duration;

use ropeway_tests::broker::Broker;
use ropeway_tests::daemon::Daemon;
use ropeway_tests::kubelet::{FakeApi, Kubelet};
use ropeway_tests::places::{c_program, ropeway};
use ropeway_tests::wait_for;
use serde_json::json;

const SOON: Duration = Duration::from_secs(30);

fn controller(api: &FakeApi, ticket: &str) -> Daemon {
    controller_with(api, ticket, &[])
}

fn controller_with(api: &FakeApi, ticket: &str, args: &[&str]) -> Daemon {
    let mut command = Command::new(ropeway());
    command.args(["dra", "--api-server", &api.url(), "controller", "--every", "100ms"]).args(args);
    command.env("ROPEWAY_BROKER", ticket).env("ROPEWAY_LOG", "info");
    Daemon::start(command)
}

fn text(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn listed(output: &Output) -> usize {
    text(output).matches("Device #").count()
}

/// The number of the only lease.
fn lease(broker: &Broker) -> String {
    let leases = broker.leases();
    let lines: Vec<_> = leases.lines().skip(1).collect();
    assert_eq!(lines.len(), 1, "{leases}");
    lines[0].split_whitespace().next().expect("a line has words").to_owned()
}

#[test]
fn the_cluster_is_told_of_the_devices_that_it_can_have() {
    let broker = Broker::start();
    let one = broker.server(2);
    let api = FakeApi::start();
    let ticket = broker.ticket("cluster", &[]);
    let _controller = controller(&api, &ticket);
    api.expect_devices(2);
    let first = api.slices();
    let [slice] = &first[..] else { panic!("{first:?}") };
    assert_eq!(slice["apiVersion"], "resource.k8s.io/v1");
    let spec = &slice["spec"];
    assert_eq!(
        (&spec["driver"], &spec["pool"]["name"], &spec["allNodes"]),
        (&json!("ropeway.io"), &json!("ropeway"), &json!(true))
    );
    assert_eq!(spec["devices"][0]["attributes"]["type"], json!({"string": "cpu"}));
    assert!(spec["devices"][0]["capacity"]["memory"]["value"].as_str().is_some_and(|value| value.ends_with('i')));

    // Servers come, and go.
    let two = broker.server(2);
    let all: BTreeSet<_> = api.expect_devices(4).into_iter().collect();
    assert_eq!(all.len(), 4, "each has a name of its own");
    assert!(api.slices()[0]["spec"]["pool"]["generation"].as_i64() > spec["pool"]["generation"].as_i64());
    drop(two);
    api.expect_devices(2);
    // What others have is not there for pods.
    let alice = broker.ticket("alice", &[]);
    let mut held = broker.program(&alice, "cpu", c_program("held"), &[]).start();
    assert_eq!(held.line(), "ready");
    api.expect_devices(1);
    held.finish().success();
    api.expect_devices(2);
    drop(one);
    wait_for("no slices", SOON, || api.slices().is_empty().then_some(()));
}

#[test]
fn a_container_sees_exactly_the_devices_of_its_claims() {
    let broker = Broker::start();
    let _servers = [broker.server(2), broker.server(3)];
    let (api, kubelet) = (FakeApi::start(), Kubelet::new());
    let ticket = broker.ticket("cluster", &[]);
    let _controller = controller(&api, &ticket);
    let names = api.expect_devices(5);
    let _plugin = kubelet.plugin(&api, &ticket, &[]);

    // Names are sorted, so that those of a server stand beside each other: two, then three, or the other way about.
    let of_server = |name: &str| name.rsplit_once('-').map(|(server, _)| server.to_owned());
    let (chosen, others): (&String, Vec<&str>) = {
        let (first, last): (Vec<_>, Vec<_>) = names.iter().partition(|name| of_server(name) == of_server(&names[0]));
        let (two, three) = if first.len() == 2 { (first, last) } else { (last, first) };
        (two[1], three.iter().map(|name| name.as_str()).collect())
    };
    let claim = api.allocate("one", "ropeway", &[chosen]);
    let one = kubelet.prepare(&claim);
    assert_eq!(one.error, "");
    let device = &one.devices[0];
    assert_eq!((device.request_names.as_slice(), device.pool_name.as_str()), (["r".to_owned()].as_slice(), "ropeway"));
    assert_eq!(device.device_name, *chosen);
    assert_eq!(listed(&kubelet.run(&[&one], "clinfo -l")), 1);
    // It is the very device that the scheduler has chosen: what its name says of its place is what is lent.
    let number = chosen.rsplit('-').next().expect("it has a number");
    let (line, leases) = (lent(&broker), broker.leases());
    assert_eq!(line.len(), 1, "{line:?}");
    assert_eq!(line[0].split_whitespace().nth(1), Some(number), "{line:?}");
    assert!(leases.contains("kubernetes n1 default/one one-uid"), "{leases}");
    // Kubelet may ask again at any time.
    let before = lease(&broker);
    assert_eq!(kubelet.prepare(&claim), one);
    assert_eq!(lease(&broker), before);
    api.expect_devices(5);

    let second = api.allocate("three", "ropeway", &others);
    let three = kubelet.prepare(&second);
    assert_eq!(three.devices.len(), 3, "{three:?}");
    assert_eq!(listed(&kubelet.run(&[&three], "clinfo -l")), 3);
    assert_eq!(listed(&kubelet.run(&[&one, &three], "clinfo -l")), 4, "both claims of a container");
    let computed = kubelet.run(&[&three], c_program("two_devices").to_str().expect("its name is text"));
    assert!(text(&computed).contains("both are right"), "{computed:?}");
    // Whoever the container's programs are.
    let other = kubelet.run(&[&one], "setpriv --reuid 65534 --regid 65534 --clear-groups clinfo -l");
    assert_eq!(listed(&other), 1);

    kubelet.unprepare(&claim);
    broker.expect_leases(1);
    kubelet.unprepare(&second);
    kubelet.unprepare(&second);
    broker.expect_leases(0);
    assert_eq!(fs::read_dir(kubelet.cdi()).expect("it is there").count(), 0);
}

#[test]
fn shares_of_a_device_go_to_several_claims() {
    let broker = Broker::start();
    let _server = broker.server(1);
    let (api, kubelet) = (FakeApi::start(), Kubelet::new());
    let ticket = broker.ticket("cluster", &[]);
    let _controller = controller_with(&api, &ticket, &["--shares", "4"]);
    let names = api.expect_devices(4);
    let _plugin = kubelet.plugin(&api, &ticket, &[]);
    let (half, quarter) =
        (api.allocate("half", "ropeway", &[&names[0], &names[2]]), api.allocate("quarter", "ropeway", &[&names[1]]));
    for claim in [&half, &quarter] {
        let prepared = kubelet.prepare(claim);
        assert_eq!(prepared.error, "");
        assert_eq!(listed(&kubelet.run(&[&prepared], "clinfo -l")), 1);
    }
    let leases = broker.leases();
    assert!(leases.contains("(50 %)") && leases.contains("(25 %)"), "{leases}");
    api.expect_devices(4);
    kubelet.unprepare(&half);
    kubelet.unprepare(&quarter);
    broker.expect_leases(0);
}

/// The lines of devices that are lent.
fn lent(broker: &Broker) -> Vec<String> {
    broker.devices().lines().filter(|line| line.contains("lent")).map(str::to_owned).collect()
}

#[test]
fn what_is_lent_is_waited_for_and_errors_are_told() {
    let broker = Broker::start();
    let _server = broker.server(1);
    let (api, kubelet) = (FakeApi::start(), Kubelet::new());
    let ticket = broker.ticket("cluster", &[]);
    let _controller = controller(&api, &ticket);
    let names = api.expect_devices(1);
    let _plugin = kubelet.plugin(&api, &ticket, &[]);
    let (first, second) =
        (api.allocate("first", "ropeway", &[&names[0]]), api.allocate("second", "ropeway", &[&names[0]]));
    assert_eq!(kubelet.prepare(&first).error, "");
    let told = kubelet.refused(&second);
    assert!(told.starts_with(&format!("the claim default/second gets no lease on {}: ", names[0])), "{told}");
    assert!(told.contains("has not become free in the time"), "{told}");
    // Two pods that share a claim, on two nodes.
    let elsewhere = Kubelet::of("n2");
    let _other = elsewhere.plugin(&api, &ticket, &[]);
    let told = elsewhere.refused(&first);
    assert!(told.contains("the node n1 has lease 1 for it; pods that share a claim have to be on one node"), "{told}");
    kubelet.unprepare(&first);
    assert_eq!(kubelet.prepare(&second).error, "");
    kubelet.unprepare(&second);

    let unknown = api.allocate("unknown", "ropeway", &["rack-0123456789-0"]);
    let elsewhere = api.allocate("elsewhere", "other", &[&names[0]]);
    let mut gone = first.clone();
    gone.name = "gone".to_owned();
    let mut earlier = first.clone();
    earlier.uid = "earlier".to_owned();
    let mut outside = first.clone();
    outside.uid = "../outside".to_owned();
    api.put("/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/new", json!({"metadata": {"uid": "new"}}));
    let mut new = first.clone();
    (new.name, new.uid) = ("new".to_owned(), "new".to_owned());
    for (claim, why) in [
        (&unknown, "the broker has no device 'rack-0123456789-0' any more"),
        (
            &elsewhere,
            "the claim default/elsewhere has a device of the pool 'other', and this node's driver has 'ropeway'",
        ),
        (&gone, "cannot read the claim default/gone: "),
        (&earlier, "the claim default/first is another one than that of the pod"),
        (&outside, "'../outside' is not the UID of a claim"),
        (&new, "the claim default/new has no devices yet"),
    ] {
        let told = kubelet.refused(claim);
        assert!(told.contains(why) && !told.contains('\n'), "{told}");
    }
    broker.expect_leases(0);
}

#[test]
fn a_plugin_that_is_started_again_goes_on_with_its_leases() {
    let mut broker = Broker::start();
    let _server = broker.server(2);
    let (api, kubelet) = (FakeApi::start(), Kubelet::new());
    let ticket = broker.ticket("cluster", &[]);
    let controller = controller(&api, &ticket);
    let names = api.expect_devices(2);
    drop(controller);
    let claim = api.allocate("one", "ropeway", &[&names[0]]);
    let mut plugin = kubelet.plugin(&api, &ticket, &[]);
    let prepared = kubelet.prepare(&claim);
    let before = lease(&broker);
    plugin.kill();
    let mut plugin = kubelet.plugin(&api, &ticket, &[]);
    assert_eq!(kubelet.prepare(&claim), prepared);
    assert_eq!(lease(&broker), before);
    assert_eq!(listed(&kubelet.run(&[&prepared], "clinfo -l")), 1);

    // While nobody renews it, a lease ends; whoever comes back gets another on the same device.
    plugin.kill();
    let mut plugin = kubelet.plugin(&api, &ticket, &["--lasts", "1s"]);
    assert_eq!(kubelet.prepare(&claim), prepared);
    assert_eq!(lease(&broker), before);
    plugin.kill();
    broker.expect_leases(0);
    let mut plugin = kubelet.plugin(&api, &ticket, &["--lasts", "1s"]);
    plugin.expect_log(&format!("has lease {} on {}", before.parse::<u64>().expect("a number") + 1, names[0]));
    assert_eq!(listed(&kubelet.run(&[&prepared], "clinfo -l")), 1);
    // As long as it is renewed, it lasts: a program that runs for longer goes on.
    let held = lease(&broker);
    assert_eq!(listed(&kubelet.run(&[&prepared], "sh -c 'sleep 2.5; exec clinfo -l'")), 1);
    assert_eq!(lease(&broker), held);

    // A lease that the driver has got and not written down, as it was killed just then, is given back for another.
    plugin.kill();
    let mut plugin = kubelet.plugin(&api, &ticket, &["--lasts", "1m"]);
    assert_eq!(kubelet.prepare(&claim), prepared);
    let held = lease(&broker);
    plugin.kill();
    kubelet.forget(&claim);
    let _plugin = kubelet.plugin(&api, &ticket, &["--lasts", "1m"]);
    assert_eq!(kubelet.prepare(&claim), prepared);
    wait_for("another lease", SOON, || (broker.lease_count() == 1 && lease(&broker) != held).then_some(()));

    // A pod whose container is started again while the broker is away keeps its devices; a claim that is over then is given
    // back when the broker is there again.
    broker.kill();
    assert_eq!(kubelet.prepare(&claim), prepared);
    kubelet.unprepare(&claim);
    broker.restart();
    broker.expect_leases(0);
}
