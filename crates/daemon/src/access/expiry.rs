//! What a client is told whose ticket is over: with the time by the server's clock, which alone counts. Whoever finds
//! out why can compare it with the client's.

use std::time::SystemTime;

use humantime::parse_rfc3339;

use super::text_of;

/// What comes before the server's time.
const CLOCK: &str = ", and it is ";

/// What comes after it.
const AFTER: &str = " by the server's clock";

/// The refusal of the client `name`, whose ticket was over at `at`.
pub(super) fn refusal(name: &str, at: SystemTime, now: SystemTime) -> String {
    format!("the ticket of '{name}' has expired at {}{CLOCK}{}{AFTER}; ask for another", text_of(at), text_of(now))
}

/// The server's time in such a refusal; `None` in another text.
pub fn server_clock(refusal: &str) -> Option<SystemTime> {
    let (before, _) = refusal.rsplit_once(AFTER)?;
    parse_rfc3339(before.rsplit_once(CLOCK)?.1).ok()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_server_s_time_is_read_from_a_refusal() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000);
        let told = refusal("a, and it is b", now - Duration::from_secs(90), now);
        assert!(told.contains("has expired at 2027-01-15T07:58:30Z, and it is 2027-01-15T08:00:00Z by"), "{told}");
        assert_eq!(server_clock(&told), Some(now));
        for other in ["", "this client's ticket was revoked; ask for another", ", and it is noon by the server's clock"]
        {
            assert_eq!(server_clock(other), None);
        }
    }
}
