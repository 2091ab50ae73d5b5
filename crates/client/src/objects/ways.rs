//! Records between which homes of a context the route has been looked up.

use crate::link::peers;

/// The pairs of homes whose route was looked up. The homes' connections know the result.
#[derive(Debug)]
pub(crate) struct Ways {
    homes: usize,
    /// For each pair, the home with the smaller number first, whether its route was looked up.
    known: Vec<bool>,
    /// How many pairs were not looked up.
    open: usize,
    /// How often servers had lost each other when this record was begun.
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

    /// Whether the routes of all pairs were looked up since servers last lost each other.
    pub(crate) fn are_all_known(&mut self) -> bool {
        if self.partings != peers::partings() {
            self.forget();
        }
        self.open == 0
    }

    fn place(&self, one: usize, other: usize) -> usize {
        one.min(other) * self.homes + one.max(other)
    }

    /// Whether the route of a pair was looked up.
    pub(crate) fn is_known(&self, one: usize, other: usize) -> bool {
        one == other || self.known.get(self.place(one, other)).is_some_and(|known| *known)
    }

    /// Records that the route of a pair was looked up.
    pub(crate) fn found_out(&mut self, one: usize, other: usize) {
        let place = self.place(one, other);
        let known = self.known.get_mut(place).filter(|known| one != other && !**known);
        if let Some(known) = known {
            *known = true;
            self.open -= 1;
        }
    }
}
