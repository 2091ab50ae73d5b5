//! How much of a session's work the driver gets at a time: launches are gathered in slices of about a millisecond, going
//! by how long kernels have taken.

use std::time::Duration;

use rustc_hash::FxHashMap;

/// How long a slice should take.
pub const SLICE: Duration = Duration::from_millis(1);

/// Most launches of a slice, whatever they take.
const MOST_LAUNCHES: usize = 64;

/// Most kernels whose times are kept.
const MOST_KNOWN: usize = 1024;

/// What kernels have taken, by what identifies a launch.
#[derive(Default)]
pub struct Estimates(FxHashMap<u64, Duration>);

impl Estimates {
    /// How long a launch is likely to take. One that nothing is known of makes a slice by itself.
    pub fn of(&self, launch: u64) -> Duration {
        self.0.get(&launch).copied().unwrap_or(SLICE)
    }

    /// Takes in that these launches have taken so long together.
    pub fn learn(&mut self, launches: &[u64], took: Duration) {
        let expected: Duration = launches.iter().map(|launch| self.of(*launch)).sum();
        let ratio = (took.as_secs_f64() / expected.as_secs_f64()).clamp(1.0 / 16.0, 1e5);
        if self.0.len() + launches.len() > MOST_KNOWN {
            self.0.clear();
        }
        let mut learnt: Vec<_> = launches.to_vec();
        learnt.sort_unstable();
        learnt.dedup();
        for launch in learnt {
            let time = self.of(launch).as_secs_f64() * ratio;
            self.0.insert(launch, Duration::from_secs_f64(time.clamp(1e-7, 3600.0)));
        }
    }
}

/// Launches that are held back, or are under way, together.
pub struct Slice<G, E> {
    /// What each of its contexts' launches wait for; nothing for what was not held back.
    pub gates: Vec<(usize, G)>,
    /// The last launch of each in-order queue, and all others.
    pub tails: Vec<(Option<usize>, E)>,
    /// What identifies its launches.
    pub launches: Vec<u64>,
    /// How long it is likely to take.
    pub estimate: Duration,
}

impl<G, E> Slice<G, E> {
    /// An empty one.
    pub fn new() -> Self {
        Self { gates: vec![], tails: vec![], launches: vec![], estimate: Duration::ZERO }
    }

    /// Whether a launch that is likely to take so long still fits in.
    pub fn has_room(&self, estimate: Duration) -> bool {
        self.launches.is_empty() || self.launches.len() < MOST_LAUNCHES && self.estimate + estimate <= SLICE
    }

    /// Adds a launch, which ends with `end`, in a queue if that runs its commands in order.
    pub fn add(&mut self, launch: u64, estimate: Duration, queue: Option<usize>, end: E) {
        self.launches.push(launch);
        self.estimate += estimate;
        match self.tails.iter_mut().find(|(of, _)| queue.is_some() && *of == queue) {
            Some((_, tail)) => *tail = end,
            None => self.tails.push((queue, end)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_kernel_takes_is_learnt() {
        let mut estimates = Estimates::default();
        assert_eq!(estimates.of(1), SLICE);
        estimates.learn(&[1], 50 * SLICE);
        assert_eq!(estimates.of(1), 50 * SLICE);
        for _ in 0..5 {
            estimates.learn(&[1; 10], SLICE);
        }
        assert!(estimates.of(1).abs_diff(SLICE / 10) < Duration::from_micros(1), "{:?}", estimates.of(1));
        (2..3000).for_each(|launch| estimates.learn(&[launch], SLICE));
        assert!(estimates.0.len() <= MOST_KNOWN);
    }

    #[test]
    fn a_slice_takes_about_a_millisecond_and_knows_its_last_launches() {
        let mut slice = Slice::<(), u32>::new();
        assert!(slice.has_room(100 * SLICE), "one launch is the least");
        for (at, queue) in (0..).zip([Some(1), None, Some(1), None]) {
            assert!(slice.has_room(SLICE / 4));
            slice.add(9, SLICE / 4, queue, at);
        }
        assert!(!slice.has_room(Duration::from_nanos(1)));
        assert_eq!(slice.tails, [(Some(1), 2), (None, 1), (None, 3)]);
        let mut many = Slice::<(), u32>::new();
        (0..MOST_LAUNCHES).for_each(|_| many.add(9, Duration::ZERO, Some(1), 0));
        assert!(!many.has_room(Duration::ZERO));
    }
}
