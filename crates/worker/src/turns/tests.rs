//! A session's side of turns, with the daemon's in the hands of the test.

use super::*;

/// A session that takes turns, and the daemon's end of its socket.
fn session() -> (Arc<Turns>, OwnedFd) {
    let (daemon, worker) = crate::handoff::turns::pair().unwrap();
    (Turns::new(worker, Usage::new(None), Box::new(|_, _| unreachable!("nothing was launched"))), daemon)
}

fn wants(device: &DeviceTurns) {
    device.wants(&mut lock(&device.state));
}

fn said(daemon: &OwnedFd) -> Option<(FromWorker, u8)> {
    hear(daemon).ok().flatten()
}

#[test]
fn who_is_alone_says_nothing_until_somebody_else_wants_the_device() {
    let (turns, daemon) = session();
    let device = turns.device(5).unwrap();
    let mut under_way = UnderWay::of(Watcher::Turns);
    wants(&device);
    assert_eq!((said(&daemon), device.is_open()), (Some((FromWorker::Wants, 5)), false));
    device.follow(ToTurns::Open, &|_| Vec::new());
    // It is idle all the time.
    assert!(device.is_open() && device.tick(&mut under_way).is_none() && said(&daemon).is_none());
    device.follow(ToTurns::Hold, &|_| Vec::new());
    assert_eq!((said(&daemon), device.is_open()), (Some((FromWorker::Yields, 5)), false));
    assert_eq!(lock(&device.state).phase, Phase::Quiet);
}

#[test]
fn commands_are_watched_while_one_device_needs_it() {
    let (turns, _daemon) = session();
    let devices = [0, 1].map(|number| turns.device(number).unwrap());
    let watched = || *lock(&turns.watched);
    devices.iter().for_each(|device| wants(device));
    assert_eq!(watched(), 2);
    devices[0].follow(ToTurns::Open, &|_| Vec::new());
    assert_eq!(watched(), 1, "the other waits for its turn");
    devices[1].follow(ToTurns::Turn(Duration::from_secs(60)), &|_| Vec::new());
    devices[0].follow(ToTurns::Hold, &|_| Vec::new());
    assert!(devices[1].tick(&mut UnderWay::of(Watcher::Turns)).is_some());
    assert_eq!(watched(), 1, "the other has its turn");
    devices[1].follow(ToTurns::Open, &|_| Vec::new());
    assert_eq!(watched(), 0);
}
