//! The further sockets that carry a session's bytes, where its client wants several: it makes them behind the welcome, and the
//! daemon passes them on.

use std::io::IoSlice;
use std::os::fd::BorrowedFd;
use std::time::Instant;

use ropeway_protocol::handshake::{Hello, Joined, LaneEnd, Opening, Purpose, encode_opening, lane_proof, proofs_equal};
use ropeway_protocol::ids::SessionId;
use ropeway_transport::{LANES, Link, Sender as _};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::base::drivers;
use crate::handoff::{self, ToWorker};

/// A session whose client makes them.
pub struct Gathering {
    session: SessionId,
    /// What its client alone knows.
    secret: [u8; 32],
    /// Those that have come; as many as the first one has said.
    lanes: Vec<Option<Link>>,
}

impl Gathering {
    /// None has come yet.
    pub fn new(session: SessionId, secret: [u8; 32]) -> Self {
        Self { session, secret, lanes: Vec::new() }
    }

    /// Waits for all of them, which the daemon passes on over `control`, until `deadline`.
    ///
    /// # Errors
    /// One sentence: why they are not all there.
    pub fn all(mut self, control: BorrowedFd<'_>, deadline: Instant) -> Result<Vec<Link>, String> {
        while self.lanes.is_empty() || self.lanes.iter().any(Option::is_none) {
            let left = deadline.saturating_duration_since(Instant::now());
            let patience = Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: left.subsec_nanos().into() };
            // An interrupted wait goes on.
            let ready = poll(&mut [PollFd::from_borrowed_fd(control, PollFlags::IN)], Some(&patience)).unwrap_or(0);
            if ready == 0 {
                if left.is_zero() {
                    let there = self.lanes.iter().flatten().count();
                    return Err(format!("the client has not made its further sockets in time: {there} are there"));
                }
                continue;
            }
            match handoff::hear::<ToWorker>(control, false) {
                Ok(Some((ToWorker::Peer(hello), Some(link)))) => self.admit(&hello, link),
                Ok(Some((ToWorker::Drivers(facts), _))) => drivers::learn(facts),
                Ok(Some((ToWorker::End(reason), _))) => return Err(reason),
                Ok(Some(_)) => return Err("the daemon sent what is no socket of the client's".to_owned()),
                Ok(None) => return Err("the daemon is gone".to_owned()),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(format!("the daemon is not understood: {error}")),
            }
        }
        Ok(self.lanes.into_iter().flatten().collect())
    }

    /// Takes one, if it is the client's; what is not is closed.
    fn admit(&mut self, hello: &Hello, link: Link) {
        let Purpose::Lane { session, number, of, proof } = hello.purpose else { return };
        let expected = lane_proof(&self.secret, self.session, (number, of), LaneEnd::Client);
        if session != self.session || !proofs_equal(&proof, &expected) || !LANES.contains(&of.into()) {
            return;
        }
        if self.lanes.is_empty() {
            self.lanes.resize_with(of.into(), || None);
        }
        let count = self.lanes.len();
        let Some(place) = self.lanes.get_mut(usize::from(number)).filter(|place| place.is_none()) else { return };
        let joined = Joined { proof: lane_proof(&self.secret, self.session, (number, of), LaneEnd::Session) };
        let joined = encode_opening(Opening::Joined, &joined);
        // If it is gone already, the client does not go on, and ends the session.
        if usize::from(of) == count && link.send_all(&mut [IoSlice::new(&joined)]).is_ok() {
            *place = Some(link);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd as _;
    use std::os::unix::net::UnixStream;
    use std::time::Duration;

    use super::*;
    use crate::handoff::{pair, say};

    const SESSION: SessionId = SessionId(5);
    const SECRET: [u8; 32] = [7; 32];

    fn lane(secret: &[u8; 32], session: SessionId, number: u8, of: u8) -> Purpose {
        Purpose::Lane { session, number, of, proof: lane_proof(secret, session, (number, of), LaneEnd::Client) }
    }

    fn hello(purpose: Purpose) -> Hello {
        let (release, program) = Default::default();
        Hello { features: 0, purpose, release, program, pid: 0, credential: Vec::new(), devices: Vec::new() }
    }

    /// What becomes of a session that is passed these, and the clients' ends of those.
    fn gather(purposes: &[Purpose]) -> (Result<Vec<Link>, String>, Vec<UnixStream>) {
        let (daemon, worker) = pair().unwrap();
        let made = purposes.iter().map(|purpose| {
            let (near, far) = UnixStream::pair().unwrap();
            let far = Link::from_fd(far.into()).unwrap();
            say(daemon.as_fd(), &ToWorker::Peer(hello(*purpose)), Some(&far), true).unwrap();
            near
        });
        let ends = made.collect();
        let deadline = Instant::now() + Duration::from_millis(200);
        (Gathering::new(SESSION, SECRET).all(worker.as_fd(), deadline), ends)
    }

    #[test]
    fn those_of_the_client_are_taken_in_their_order() {
        let (links, ends) = gather(&[2, 0, 1].map(|number| lane(&SECRET, SESSION, number, 3)));
        let links = links.unwrap();
        for (end, number) in ends.iter().zip([2, 0, 1]) {
            let from = Link::from_fd(end.try_clone().unwrap().into()).unwrap();
            let answer = encode_opening(
                Opening::Joined,
                &Joined { proof: lane_proof(&SECRET, SESSION, (number, 3), LaneEnd::Session) },
            );
            let mut said = vec![0; answer.len()];
            from.recv_exact(&mut said).unwrap();
            assert_eq!(said, answer);
            links[usize::from(number)].send_all(&mut [IoSlice::new(&[number])]).unwrap();
            let mut byte = [0];
            from.recv_exact(&mut byte).unwrap();
            assert_eq!(byte, [number]);
        }
    }

    #[test]
    fn strangers_and_nonsense_are_closed_and_hold_up_nobody() {
        let wrong = [
            lane(&[8; 32], SESSION, 0, 2),
            lane(&SECRET, SessionId(6), 0, 2),
            lane(&SECRET, SESSION, 0, 1),
            lane(&SECRET, SESSION, 0, 9),
            Purpose::Commands,
            lane(&SECRET, SESSION, 3, 3),
        ];
        let (none, ends) = gather(&wrong);
        assert!(none.is_err_and(|why| why.contains("0 are there")));
        for end in ends {
            let end = Link::from_fd(end.into()).unwrap();
            assert_eq!(end.recv(&mut [0]).unwrap(), 0);
        }
        // One that is there already, and another number of them than the first one has said.
        let good = [(0, 2), (0, 2), (1, 3), (1, 2)].map(|(number, of)| lane(&SECRET, SESSION, number, of));
        let (links, _ends) = gather(&good);
        assert_eq!(links.unwrap().len(), 2);
    }
}
