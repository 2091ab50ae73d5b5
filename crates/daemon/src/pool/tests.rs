use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::*;

/// A pool of workers that are shell scripts; their standard input is the control socket.
fn pool(script: &str, warm: usize) -> Pool {
    let command = WorkerCommand { program: "/bin/sh".into(), args: vec!["-c".into(), script.into()] };
    let mut pool = Pool::new(command, warm, u64::MAX, Audit::default(), Instant::now());
    pool.at_once = 8;
    pool
}

const GOOD: &str = "printf '\\000\\007\\000\\000' >&0; cat > /dev/null";

/// Drives a pool until `condition` holds.
fn drive(pool: &mut Pool, waiting: usize, condition: impl Fn(&Pool) -> bool) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !condition(pool) {
        assert!(Instant::now() < deadline, "waited in vain");
        pool.refill(waiting, Instant::now());
        for pid in pool.workers.keys().copied().collect::<Vec<_>>() {
            if matches!(pool.workers[&pid].state, State::Starting) {
                pool.hear(pid);
            }
            pool.reap(pid, Instant::now());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn it_fills_and_counts_those_who_wait() {
    let mut pool = pool(GOOD, 2);
    drive(&mut pool, 0, Pool::is_full);
    assert_eq!(pool.workers.len(), 2);
    drive(&mut pool, 3, |pool| pool.ready() == 5);
}

/// Reads the next message of a worker.
fn hear_next(pool: &mut Pool, pid: u32) {
    let control = pool.workers[&pid].shared_control();
    let limit = Timespec { tv_sec: 10, tv_nsec: 0 };
    assert_eq!(poll(&mut [PollFd::new(&control, PollFlags::IN)], Some(&limit)), Ok(1));
    pool.hear(pid);
}

#[test]
fn the_devices_are_those_of_one_worker_whatever_others_say_meanwhile() {
    let describing = r"printf '\007\000\002{}\000\000' >&0; printf '\007\001\002{}\000\000' >&0; ";
    let mut pool = pool(&format!("{describing}{GOOD}"), 2);
    assert!(pool.refill(0, Instant::now()) && pool.refill(0, Instant::now()));
    let [first, second] = pool.workers.keys().copied().collect::<Vec<_>>()[..] else { panic!("there are two") };
    for pid in [first, first, second, first] {
        assert!(pool.take_devices().is_none());
        hear_next(&mut pool, pid);
    }
    assert_eq!(pool.take_devices().map(|devices| devices.len()), Some(2));
    drive(&mut pool, 0, Pool::is_full);
    assert!(pool.take_devices().is_none());
}

#[test]
fn a_burst_is_remembered_for_a_while() {
    let mut pool = pool(GOOD, 1);
    for _ in 0..20 {
        pool.missed(Instant::now());
    }
    drive(&mut pool, 0, |pool| pool.ready() == BURST);
    assert_eq!(pool.target, BURST);
    pool.refill(0, Instant::now() + BURST_OVER);
    drive(&mut pool, 0, |pool| pool.workers.len() == 1);
    assert_eq!(pool.failures, 0);
}

#[test]
fn workers_that_fail_are_tried_again_ever_more_slowly() {
    let mut pool = pool("exit 3", 1);
    drive(&mut pool, 0, |pool| pool.failures == 2);
    assert!(!pool.is_broken());
    assert!(pool.not_before > Instant::now() + Duration::from_millis(100));
    drive(&mut pool, 0, Pool::is_broken);
    assert_eq!(pool.failures, HOPELESS);
}

#[test]
fn a_worker_that_hangs_is_killed() {
    let mut pool = pool("exec sleep 100", 1);
    pool.refill(0, Instant::now());
    let due = pool.workers.values().next().and_then(|worker| worker.kill_at).unwrap();
    pool.kill_hanging(due);
    drive(&mut pool, 0, |pool| pool.failures == 1);
}
