//! Devices are shared by weight: sessions whose clients have weights take turns.
//!
//! One thread decides ([`policy`]). Each session has a socket to it ([`ropeway_worker::handoff::turns`]), and nothing in
//! common with other sessions. What a worker says concerns its own turns only; one that floods its socket is read no
//! faster than the others.

mod policy;

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Instant;

use ropeway_transport::tls::PublicKey;
use ropeway_worker::handoff::turns::{FromWorker, ToTurns, hear, pair, say};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use tracing::error;

use self::policy::{Device, Order};

/// A session that takes turns.
struct Member {
    weight: u32,
    client: PublicKey,
    socket: OwnedFd,
}

/// The thread that decides whose turn it is.
#[derive(Debug)]
pub(crate) struct Turns {
    joining: Sender<Member>,
    /// Wakes the thread for who joins.
    bell: OwnedFd,
}

impl Turns {
    /// Starts it.
    ///
    /// # Errors
    /// The operating system's error.
    pub(crate) fn start() -> io::Result<Self> {
        let (joining, joined) = channel();
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let rung = bell.try_clone()?;
        let mut arbiter = Arbiter { members: BTreeMap::new(), devices: BTreeMap::new(), joined, next: 0 };
        let work = move || {
            if let Err(error) = arbiter.run(&rung) {
                // The sockets close with it, and sessions go on without turns.
                error!(%error, "devices are no longer shared by weight");
            }
        };
        thread::Builder::new().name("turns".into()).spawn(work)?;
        Ok(Self { joining, bell })
    }

    /// Lets a new session of the client with this key take turns; returns its socket.
    ///
    /// # Errors
    /// The operating system's error.
    pub(crate) fn join(&self, client: PublicKey, weight: u32) -> io::Result<OwnedFd> {
        let (socket, theirs) = pair()?;
        self.joining.send(Member { weight, client, socket }).map_err(|_| io::ErrorKind::BrokenPipe)?;
        // It is full only if it was rung very often, and then it wakes the thread all the same.
        let _ = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
        Ok(theirs)
    }
}

struct Arbiter {
    members: BTreeMap<u64, Member>,
    devices: BTreeMap<u8, Device<PublicKey>>,
    joined: Receiver<Member>,
    next: u64,
}

impl Arbiter {
    fn run(&mut self, bell: &OwnedFd) -> io::Result<()> {
        loop {
            let now = Instant::now();
            self.expire(now);
            let deadline = self.devices.values().filter_map(Device::deadline).min();
            let timeout = deadline.map(|at| at.saturating_duration_since(now));
            let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
            let sockets = self.members.iter().map(|(name, member)| (Some(*name), member.socket.as_fd()));
            let sources: Vec<_> = std::iter::once((None, bell.as_fd())).chain(sockets).collect();
            let mut fds: Vec<_> = sources.iter().map(|(_, fd)| PollFd::from_borrowed_fd(*fd, PollFlags::IN)).collect();
            match poll(&mut fds, timeout.as_ref()) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            let ready = sources.iter().zip(&fds).filter(|(_, fd)| !fd.revents().is_empty());
            for name in ready.map(|((name, _), _)| *name).collect::<Vec<_>>() {
                match name {
                    Some(name) => self.hear(name),
                    None => {
                        let _ = rustix::io::read(bell, &mut [0; 8]);
                        for member in self.joined.try_iter() {
                            self.members.insert(self.next, member);
                            self.next += 1;
                        }
                    }
                }
            }
        }
    }

    fn expire(&mut self, now: Instant) {
        let expired: Vec<_> = self.devices.iter_mut().map(|(number, device)| (*number, device.expire(now))).collect();
        expired.into_iter().for_each(|(device, orders)| self.pass_on(device, orders));
    }

    /// Takes in one message of a session, or its end.
    fn hear(&mut self, name: u64) {
        let Some(member) = self.members.get(&name) else { return };
        let said = hear(&member.socket);
        let now = Instant::now();
        match said {
            Ok(Some((said, number))) => {
                let device = self.devices.entry(number).or_insert_with(Device::new);
                let orders = match said {
                    FromWorker::Wants => device.wants(name, (member.weight, &member.client), now),
                    FromWorker::Yields => device.yields(name, false, now),
                    FromWorker::YieldsForNow => device.yields(name, true, now),
                };
                self.pass_on(number, orders);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            _ => self.leaves(name),
        }
    }

    /// A session is over, or has said what no worker says.
    fn leaves(&mut self, name: u64) {
        self.members.remove(&name);
        let now = Instant::now();
        let left: Vec<_> = self.devices.iter_mut().map(|(number, device)| (*number, device.gone(name, now))).collect();
        left.into_iter().for_each(|(device, orders)| self.pass_on(device, orders));
    }

    fn pass_on(&mut self, device: u8, orders: Vec<(u64, Order)>) {
        for (name, order) in orders {
            let Some(member) = self.members.get(&name) else { continue };
            let order = match order {
                Order::Open => ToTurns::Open,
                Order::Turn => ToTurns::Turn(policy::QUANTUM),
                Order::Hold => ToTurns::Hold,
            };
            if say(&member.socket, order, device).is_err() {
                // It does not even read.
                self.leaves(name);
            }
        }
    }
}
