//! Between which homes of a context it was found out how things get from one to the other.

use crate::link::peers;

/// The pairs of homes that were asked about. What the answer was, the homes' connections know.
#[derive(Debug)]
pub(crate) struct Ways {
    homes: usize,
    /// For each pair, the home with the smaller number first, whether it was asked about.
    known: Vec<bool>,
    /// How many pairs were not.
    open: usize,
    /// The partings of servers until then.
    partings: usize,
}

impl Ways {
    pub(super) fn new(homes: usize) -> Self {
        let mut ways = Self { homes, known: Vec::new(), open: 0, partings: 0 };
        ways.forget();
        ways
    }

    fn forget(&mut self) {
        self.known = vec![false; self.homes * self.homes];
        self.open = self.homes * self.homes.saturating_sub(1) / 2;
        self.partings = peers::partings();
    }

    /// Whether all pairs were asked about since servers last lost each other.
    pub(crate) fn are_all_known(&mut self) -> bool {
        if self.partings != peers::partings() {
            self.forget();
        }
        self.open == 0
    }

    fn place(&self, one: usize, other: usize) -> usize {
        one.min(other) * self.homes + one.max(other)
    }

    /// Whether a pair was asked about.
    pub(crate) fn is_known(&self, one: usize, other: usize) -> bool {
        one == other || self.known.get(self.place(one, other)).is_some_and(|known| *known)
    }

    /// A pair was asked about.
    pub(crate) fn found_out(&mut self, one: usize, other: usize) {
        let place = self.place(one, other);
        let known = self.known.get_mut(place).filter(|known| one != other && !**known);
        if let Some(known) = known {
            *known = true;
            self.open -= 1;
        }
    }
}
