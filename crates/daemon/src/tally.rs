//! Keeps the log short when strangers try often.

use std::time::{Duration, Instant};

use tracing::warn;

/// Most lines in one [`SPAN`].
const MAX: u32 = 20;

/// A line says after this long how many were left out.
const SPAN: Duration = Duration::from_secs(10);

/// Counts lines of one kind, all but the first few of each span of time.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// The end of this span.
    until: Option<Instant>,
    lines: u32,
    left_out: u64,
}

impl Tally {
    /// One more has happened; returns whether it has a line of its own.
    pub(crate) fn counts(&mut self, now: Instant) -> bool {
        self.tell(now);
        self.until.get_or_insert(now + SPAN);
        self.lines += 1;
        if self.lines > MAX {
            self.lines = MAX;
            self.left_out += 1;
            return false;
        }
        true
    }

    /// At the end of a span, logs how many had no line of their own.
    pub(crate) fn tell(&mut self, now: Instant) {
        if self.until.is_some_and(|until| now >= until) {
            if self.left_out > 0 {
                warn!("{} more connections were dropped in {} s", self.left_out, SPAN.as_secs());
            }
            *self = Self::default();
        }
    }

    /// When there is something to tell.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.until.filter(|_| self.left_out > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_have_lines_and_the_others_are_counted() {
        let (mut tally, now) = (Tally::default(), Instant::now());
        let lines = (0..100_000).filter(|_| tally.counts(now)).count();
        assert_eq!(
            (lines, tally.left_out, tally.deadline()),
            (MAX as usize, 100_000 - u64::from(MAX), Some(now + SPAN))
        );
        tally.tell(now + SPAN);
        assert_eq!((tally.left_out, tally.deadline()), (0, None));
        assert!(tally.counts(now + SPAN));
    }
}
