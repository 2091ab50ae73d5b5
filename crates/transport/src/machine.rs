//! Whether the machine at the other end of a TCP link is there.

use std::time::{Duration, Instant};

use socket2::TcpKeepalive;

use crate::kernel::TcpState;

/// A machine that has answered nothing for this long is gone, or cannot be reached.
const GONE_AFTER: Duration = Duration::from_secs(10);

/// A quiet TCP link is probed after this long without a byte, ...
const PROBE_AFTER: Duration = Duration::from_secs(4);

/// ... again after this long without an answer, ...
const PROBE_EACH: Duration = Duration::from_secs(2);

/// ... and this many times; then the kernel breaks the link, after [`GONE_AFTER`] in all.
const PROBES: u8 = 3;

/// A machine counts as gone only if it has been seen twice, this far apart, to leave something unanswered.
const SUSPECTED_FOR: Duration = Duration::from_secs(4);

/// Bytes sent less than this long ago may still be answered.
const ANSWERED_WITHIN: Duration = Duration::from_secs(1);

/// How the kernel probes a quiet link. TCP_USER_TIMEOUT would not do for other links: it also breaks a link whose other
/// machine answers, but has no room.
pub(crate) fn keepalive() -> TcpKeepalive {
    let probe = TcpKeepalive::new().with_time(PROBE_AFTER).with_interval(PROBE_EACH);
    probe.with_retries(PROBES.into())
}

/// Whether the machine at the other end is gone. `suspected` is the time when it was first seen to leave something
/// unanswered.
///
/// The number of retransmissions alone does not show that: a machine whose program reads nothing answers each one that
/// it has no room, and is asked ever more rarely.
pub(crate) fn is_gone(state: &TcpState, suspected: &mut Option<Instant>, now: Instant) -> bool {
    let is_unanswered = state.since_sent < state.since_heard;
    if state.probes == 0 && (state.retransmits == 0 || !is_unanswered) {
        *suspected = None;
        return false;
    }
    let since = *suspected.get_or_insert(now);
    let was_asked_enough =
        state.probes >= PROBES || state.retransmits > 0 && is_unanswered && state.since_sent >= ANSWERED_WITHIN;
    was_asked_enough && state.since_heard >= GONE_AFTER && now.saturating_duration_since(since) >= SUSPECTED_FOR
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::GLANCE;

    fn state(retransmits: u8, probes: u8, since_sent: u64, since_heard: u64) -> TcpState {
        let [since_sent, since_heard] = [since_sent, since_heard].map(Duration::from_secs);
        TcpState { retransmits, probes, since_sent, since_heard }
    }

    /// Returns the verdict on each state, checked one [`GLANCE`] apart.
    fn looks(states: &[TcpState]) -> Vec<bool> {
        let (mut suspected, begin) = (None, Instant::now());
        (0..).zip(states).map(|(number, state)| is_gone(state, &mut suspected, begin + GLANCE * number)).collect()
    }

    #[test]
    fn a_machine_that_leaves_all_unanswered_is_gone() {
        let sent_again = [(1, 1, 3), (3, 2, 5), (4, 1, 7), (5, 1, 9), (5, 3, 11)];
        let sent_again = sent_again.map(|(retransmits, sent, heard)| state(retransmits, 0, sent, heard));
        assert_eq!(looks(&sent_again), [false, false, false, false, true]);
        let probed = [(0, 3), (1, 5), (2, 7), (3, 9), (3, 11)].map(|(probes, heard)| state(0, probes, 60, heard));
        assert_eq!(looks(&probed), [false, false, false, false, true]);
    }

    #[test]
    fn a_machine_that_answers_that_it_has_no_room_is_there() {
        // The machine is probed every 50 s; the answer to the last probe is under way, or has been lost.
        let probed = [(0, 48), (1, 50), (0, 1), (0, 49), (1, 51), (1, 53), (1, 55)];
        assert!(!looks(&probed.map(|(probes, heard)| state(0, probes, 60, heard))).contains(&true));
        // The machine answers each retransmission by acknowledging only what it had before.
        let sent_again = [(24, 24), (0, 26), (1, 1), (3, 3), (24, 24), (0, 26)];
        assert!(!looks(&sent_again.map(|(sent, heard)| state(9, 0, sent, heard))).contains(&true));
        // A quiet link, and one on which something was just sent.
        assert!(!looks(&[state(0, 0, 3600, 3600), state(0, 0, 0, 3600), state(1, 0, 0, 3600)]).contains(&true));
    }
}
