//! A real Kubernetes of one node, whose pods get devices of a broker: `make integration`.

use std::fs;
use std::time::{Duration, Instant};

use ropeway_tests::broker::Broker;
use ropeway_tests::kubernetes::Kubernetes;
use ropeway_tests::places::root;
use ropeway_tests::wait_for;

const LONG: Duration = Duration::from_secs(180);

/// A claim for so many devices, and a pod with it that shows them and stays.
fn pod(name: &str, devices: usize) -> String {
    format!(
        "apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {{name: {name}}}
spec:
  spec:
    devices:
      requests:
      - name: cpus
        exactly:
          deviceClassName: ropeway.io
          count: {devices}
          selectors:
          - cel: {{expression: 'device.attributes[\"ropeway.io\"].type == \"cpu\" && device.capacity[\"ropeway.io\"].memory.compareTo(quantity(\"1Mi\")) >= 0'}}
---
apiVersion: v1
kind: Pod
metadata: {{name: {name}}}
spec:
  hostNetwork: true
  restartPolicy: Never
  automountServiceAccountToken: false
  enableServiceLinks: false
  terminationGracePeriodSeconds: 0
  resourceClaims: [{{name: devices, resourceClaimTemplateName: {name}}}]
  containers:
  - name: c
    image: localhost/opencl:1
    imagePullPolicy: Never
    command: [sh, -c, 'clinfo -l; if [ {devices} -gt 1 ]; then two_devices; fi; echo over; exec sleep 1000']
    env: [{{name: ROPEWAY_CONNECT_TIMEOUT, value: '20'}}]
    resources: {{claims: [{{name: devices}}]}}
"
    )
}

/// What a pod has printed when its programs are over.
fn printed(cluster: &Kubernetes, pod: &str) -> String {
    wait_for("the end of the pod's programs", LONG, || {
        let text = cluster.printed(&format!("default_{pod}_"));
        text.contains("over").then_some(text)
    })
}

#[test]
#[ignore = "it takes Kubernetes: make integration"]
fn pods_get_the_devices_that_the_scheduler_gives_their_claims() {
    let begin = Instant::now();
    let said = |what: &str| println!("{:5.1} s: {what}", begin.elapsed().as_secs_f64());
    let cluster = Kubernetes::start();
    said("a node is ready");
    let broker = Broker::start();
    let _one = broker.server(1);
    let secret = format!("--from-literal=ticket={}", broker.ticket("cluster", &[]));
    cluster.says(&["create", "namespace", "ropeway"]);
    cluster.says(&["-n", "ropeway", "create", "secret", "generic", "ropeway-broker", &secret]);
    cluster.install();
    let example = root().join("packaging/kubernetes/example.yaml");
    cluster.says(&["apply", "--dry-run=server", "-f", example.to_str().expect("its name is text")]);
    let driver = || cluster.printed("ropeway_ropeway-node-");
    wait_for("kubelet's word", LONG, || driver().contains("kubelet has registered ropeway.io").then_some(()));
    said("the driver's pods run, and kubelet has registered it");
    let slices = |path: &str| cluster.says(&["get", "resourceslices", "-o", &format!("jsonpath={path}")]);
    let count = || slices("{.items[*].spec.devices[*].name}").split_whitespace().count();
    wait_for("the first server's device", LONG, || (count() == 1).then_some(()));
    let generation = slices("{.items[0].spec.pool.generation}");
    // A server that comes later: the API server takes the change.
    let _two = broker.server(1);
    wait_for("the second server's device", LONG, || (count() == 2).then_some(()));
    assert_ne!(slices("{.items[0].spec.pool.generation}"), generation);
    assert_eq!(slices("{.items[*].spec.allNodes}"), "true");
    said("two devices are known to the scheduler");

    cluster.apply(&pod("first", 1));
    cluster.expect("pod/first", "{.status.phase}", "Running");
    let text = printed(&cluster, "first");
    assert_eq!(text.matches("Device #").count(), 1, "{text}");
    broker.expect_leases(1);
    // It is the device that the scheduler has chosen.
    let claim = cluster.says(&[
        "get",
        "resourceclaims",
        "-o",
        "jsonpath={.items[0].status.allocation.devices.results[0].device}",
    ]);
    let leases = broker.leases();
    assert!(driver().contains(&format!("has lease 1 on {claim}")), "{claim}: {}", driver());
    assert!(leases.contains("kubernetes node1 default/first-devices-"), "{leases}");
    said("a pod sees the device of its claim");

    // The driver is started again, as for an upgrade: the pod and its lease go on.
    let of_driver = || {
        let names = "jsonpath={.items[*].metadata.name}";
        cluster.says(&["-n", "ropeway", "get", "pods", "-l", "app=ropeway-node", "-o", names])
    };
    let before = of_driver();
    cluster.says(&["-n", "ropeway", "rollout", "restart", "daemonset/ropeway-node"]);
    cluster.says(&["-n", "ropeway", "rollout", "status", "daemonset/ropeway-node", "--timeout=180s"]);
    wait_for("another pod of the driver's", LONG, || {
        let now = of_driver();
        let log = cluster.printed(&format!("ropeway_{now}_"));
        (now != before && log.contains("kubelet has registered ropeway.io")).then_some(())
    });
    assert_eq!(broker.leases().lines().nth(1).and_then(|line| line.split_whitespace().next()), Some("1"));
    said("the driver is started again");

    // More than there is: the scheduler lets the pod wait, and it runs when the first one is gone.
    cluster.apply(&pod("second", 2));
    cluster.expect("pod/second", "{.status.conditions[?(@.type=='PodScheduled')].reason}", "Unschedulable");
    assert_eq!(broker.lease_count(), 1);
    said("a second pod that wants two devices waits");
    cluster.says(&["delete", "pod", "first", "--wait=false"]);
    cluster.expect("pod/second", "{.status.phase}", "Running");
    let text = printed(&cluster, "second");
    assert_eq!(text.matches("Device #").count(), 2, "{text}");
    assert!(text.contains("both are right"), "{text}");
    broker.expect_leases(1);
    said("it runs when the first is deleted, and computes on both");
    cluster.says(&["delete", "pod", "second", "--wait=false"]);
    broker.expect_leases(0);
    wait_for("no devices of claims", LONG, || (fs::read_dir(cluster.cdi()).ok()?.count() == 0).then_some(()));
    assert_eq!(count(), 2);
    said("everything is given back");
}
