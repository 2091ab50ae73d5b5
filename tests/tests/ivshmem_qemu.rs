//! Programs in a virtual machine of QEMU's, through the memory of its device. `ivshmem.rs` has all that takes no such machine.

use std::time::Duration;

use ropeway_tests::ivshmem::memory;
use ropeway_tests::places::{c_program, ropeway};
use ropeway_tests::program::Program;
use ropeway_tests::qemu::{HOST, Image, missing};
use ropeway_tests::server::Server;
use ropeway_tests::{notes, process, wait_for};

/// The bytes that came and went over the guest's network so far.
const TRAFFIC: &str = "traffic() { echo $(($(cat /sys/class/net/eth0/statistics/rx_bytes) + $(cat /sys/class/net/eth0/statistics/tx_bytes))); }";

#[test]
#[ignore = "takes QEMU and a kernel for its guest: make integration"]
fn programs_run_in_a_guest() {
    if let Some(why) = missing() {
        return notes::skipped(why);
    }
    let names = ["transfers", "in_place", "svm_in_place", "interrupted", "vector_add"];
    let image = Image::new(&[names.map(c_program).as_slice(), &[ropeway()]].concat());
    let memory = memory(256 << 20);
    let option = format!("{},sessions=2", memory.path().display());
    let server = Server::start_with(&["--listen", "tcp://127.0.0.1:0", "--ivshmem", &option], &[]);
    let port = server.address().rsplit_once(':').expect("an address has a port").1;
    let url = format!("tcp://{HOST}:{port}");
    let native = Program::native(c_program("transfers")).run().success().stdout;

    let listed = format!("ropeway devices --server {url}");
    let quiet = format!(
        "{TRAFFIC}
export ROPEWAY_SERVERS={url}
before=$(traffic)
transfers
for seed in 1 2 3; do in_place random $seed 300; done
svm_in_place random 1 300
went=$(($(traffic) - before))
echo \"$went bytes went over the network\"
[ $went -lt 4000000 ]"
    );
    let socket = format!("export ROPEWAY_SERVERS=shm:off,{url}\nvector_add\nropeway devices");
    let together = format!("export ROPEWAY_SERVERS={url}\nin_place random 4 200 &\nin_place random 5 200\nwait $!");
    let mut guest = image.boot(memory.path(), &[&listed, &quiet, &socket, &together]);
    guest.until_steps(4);
    let console = guest.console();
    let through =
        |medium: &str| console.lines().any(|line| line.contains(&url) && line.contains(&format!(" {medium} ")));
    assert!(through("ivshmem") && through("TCP"), "{console}");
    assert!(console.contains("1024 sums are right\n"), "{console}");
    assert!(console.contains(&native), "{native}\n{console}");
    assert_eq!(console.matches(": all right\n").count(), 6, "{console}");

    // A guest that loses its power in the midst of transfers leaves nothing: the next one has all parts.
    let busy = format!("export ROPEWAY_SERVERS={url}\ninterrupted write & interrupted read");
    drop(guest);
    let mut guest = image.boot(memory.path(), &[&busy]);
    guest.until("ready");
    let workers =
        || server.workers().into_iter().filter(|pid| !ropeway_tests::ivshmem::mapped(*pid, memory.path()).is_empty());
    wait_for("two sessions in the memory", Duration::from_secs(60), || (workers().count() == 2).then_some(()));
    let busy: Vec<u32> = workers().collect();
    guest.kill();
    wait_for("end of both", Duration::from_secs(10), || busy.iter().all(|pid| !process::is_alive(*pid)).then_some(()));
    let begin = format!("export ROPEWAY_SERVERS={url}\ninterrupted write & interrupted read & sleep 600");
    let mut guest = image.boot(memory.path(), &[&begin]);
    guest.until("ready");
    wait_for("two sessions in the memory", Duration::from_secs(60), || (workers().count() == 2).then_some(()));
    guest.kill();
    let log = server.log();
    assert!(!log.contains("panicked") && !log.contains("SIG"), "{log}");
}
