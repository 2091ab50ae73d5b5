//! A range of bytes that all have the same history, and the places where they are.

use std::ops::Range;
use std::sync::Arc;

use super::terms::{Events, Home, Transfer};

/// A range of bytes that all have the same history.
#[derive(Clone, Debug)]
pub(super) struct Piece<E> {
    pub(super) range: Range<u64>,
    pub(super) contents: Contents<E>,
    /// Homes that hold the piece or where it is arriving; each home at most once.
    pub(super) places: Vec<Place<E>>,
    /// Where the piece was before the transfer to its present place, which may fail.
    pub(super) before: Option<Arc<Before<E>>>,
}

/// How many earlier places of a piece are remembered.
const MOST_BEFORE: u32 = 8;

/// An earlier place of a piece, kept as long as what came after it may fail.
#[derive(Debug)]
pub(super) struct Before<E> {
    home: Home,
    writers: Vec<Writer<E>>,
    arrivals: Vec<Arrival<E>>,
    earlier: Option<Arc<Self>>,
    depth: u32,
}

/// The contents of a piece.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Contents<E> {
    /// Nothing that anybody has written.
    Never,
    /// Contents that nobody needs, though earlier commands may still read them until this event ends.
    Discarded(E),
    /// Written last by commands of one home, one after the other or at the same time.
    Written { owner: Home, writers: Vec<Writer<E>> },
    /// The contents are gone with the only home that held them.
    Lost,
}

impl<E: Clone> Contents<E> {
    /// The event that ends once no command can read the discarded contents elsewhere any more: new contents must arrive
    /// there only after it.
    pub(super) fn discarded(&self) -> Option<Writer<E>> {
        let Self::Discarded(event) = self else { return None };
        Some(Writer { event: event.clone(), lane: None, number: 0 })
    }
}

/// A command that has written a piece.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Writer<E> {
    pub(super) event: E,
    pub(super) lane: Option<u64>,
    /// Of two commands on the same in-order queue, the one with the larger number ends last.
    pub(super) number: u64,
}

/// A piece at one home.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place<E> {
    pub(super) home: Home,
    /// Whether the contents at the home, or arriving there, are the latest.
    pub(super) valid: bool,
    /// Transfers from other homes that may still be under way.
    pub(super) arrivals: Vec<Arrival<E>>,
    /// Whether the latest contents were written, by way of their copies, after all those transfers had arrived.
    pub(super) settled: bool,
    /// How many steps it takes until this home has its contents, if every step takes equally long and a home sends one
    /// copy at a time.
    pub(super) depth: u32,
    /// How many copies were taken from this place.
    pub(super) sent: u32,
}

/// A transfer from another home to this one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Arrival<E> {
    pub(super) event: E,
    pub(super) from: Home,
}

/// Adds an item unless the list already contains it.
pub(super) fn add_new<E: PartialEq>(list: &mut Vec<E>, item: E) {
    if !list.contains(&item) {
        list.push(item);
    }
}

impl<E: Clone + PartialEq> Piece<E> {
    pub(super) fn never_written(range: Range<u64>) -> Self {
        Self { range, contents: Contents::Never, places: Vec::new(), before: None }
    }

    /// Whether a home needs a copy before it can read the piece.
    pub(super) fn must_come_to(&self, home: Home) -> bool {
        matches!(self.contents, Contents::Written { .. }) && !self.places.iter().any(|p| p.home == home && p.valid)
    }

    /// Returns the piece's place at a home, adding an empty one if there is none.
    pub(super) fn place(&mut self, home: Home) -> &mut Place<E> {
        let at = self.places.iter().position(|place| place.home == home).unwrap_or_else(|| {
            self.places.push(Place { home, valid: false, arrivals: Vec::new(), settled: true, depth: 0, sent: 0 });
            self.places.len() - 1
        });
        &mut self.places[at]
    }

    pub(super) fn arrivals_at(&self, home: Home) -> Vec<E> {
        let place = self.places.iter().find(|place| place.home == home);
        place.iter().flat_map(|place| place.arrivals.iter().map(|arrival| arrival.event.clone())).collect()
    }

    /// Adds to `ready` the events after which a home has the piece; `None` if it does not have it.
    pub(super) fn ready_at(&self, home: Home, mut ready: Vec<E>) -> Option<Vec<E>> {
        let Contents::Written { owner, writers } = &self.contents else { return None };
        if self.must_come_to(home) {
            return None;
        }
        let written = writers.iter().filter(|_| *owner == home).map(|writer| writer.event.clone());
        for event in written.chain(self.arrivals_at(home)) {
            add_new(&mut ready, event);
        }
        Some(ready)
    }

    /// The homes that hold it.
    pub(super) fn homes(&self) -> impl Iterator<Item = Home> {
        self.places.iter().filter(|place| place.valid).map(|place| place.home)
    }

    /// The cost of taking a copy from a home, least first: the step in which that copy would be there, then that
    /// another home owns it. So copies to many homes spread like a tree. `None` for a home that does not hold it.
    pub(super) fn cost(&self, home: Home) -> Option<(u32, bool)> {
        let place = self.places.iter().find(|place| place.home == home && place.valid)?;
        let owned = matches!(self.contents, Contents::Written { owner, .. } if owner == home);
        Some((place.depth.saturating_add(place.sent), !owned))
    }

    /// The home to take a copy from, preferring homes that are not far.
    pub(super) fn source(&self, is_far: impl Fn(Home) -> bool) -> Option<Home> {
        self.homes().filter_map(|home| Some((is_far(home), self.cost(home)?, home))).min().map(|(_, _, home)| home)
    }

    /// Copies the piece from one home to another as part of `transfer`.
    pub(super) fn copy(&mut self, from: Home, to: Home, transfer: &mut Transfer<E>) {
        if let Contents::Written { owner, writers } = &self.contents
            && *owner == from
        {
            for writer in writers {
                add_new(&mut transfer.after, writer.event.clone());
            }
        }
        let here = if self.place(to).settled { Vec::new() } else { self.arrivals_at(to) };
        for earlier in self.arrivals_at(from).into_iter().chain(here) {
            add_new(&mut transfer.after, earlier);
        }
        let source = self.place(from);
        source.sent += 1;
        let depth = source.depth.saturating_add(source.sent);
        let arrivals = vec![Arrival { event: transfer.arrival.clone(), from }];
        *self.place(to) = Place { home: to, valid: true, arrivals, settled: false, depth, sent: 0 };
    }

    /// Recomputes which places are settled when a home is about to write (`None`: the contents are given up). The
    /// contents that a writer updates come from the copy that all others were taken from, and that was sent after
    /// everything that had arrived there.
    pub(super) fn settle(&mut self, writer: Option<Home>, updates: bool) {
        for place in &mut self.places {
            let is_root = place.valid && place.depth == 0;
            place.settled = Some(place.home) == writer || updates && (place.settled || is_root);
        }
    }

    /// Forgets events that nothing needs to wait for any more. Contents whose arrival failed are not at that home, nor
    /// is what was written after it; a writer that failed by itself leaves its place valid.
    pub(super) fn forget_over(&mut self, events: &impl Events<E>) {
        let outcome = |event: &E| events.outcome(event);
        let mut missing = false;
        for place in &mut self.places {
            if place.arrivals.iter().any(|arrival| outcome(&arrival.event) == Some(false)) {
                place.valid = false;
                missing = true;
            }
            place.arrivals.retain(|arrival| outcome(&arrival.event).is_none());
        }
        if let Contents::Written { writers, .. } = &mut self.contents {
            writers.retain(|writer| outcome(&writer.event).is_none());
        }
        if matches!(&self.contents, Contents::Discarded(event) if outcome(event).is_some()) {
            self.contents = Contents::Never;
        }
        self.drop_idle_places();
        if missing && self.homes().next().is_none() {
            self.go_back(events);
        }
        if missing {
            self.find_owner();
        } else if self.places.iter().any(|place| place.valid && place.arrivals.is_empty()) {
            self.before = None;
        }
    }

    /// Remembers where the piece was when a command of `home` is to change it after a transfer from elsewhere.
    pub(super) fn leave_for(&mut self, home: Home) {
        let Contents::Written { owner, writers } = &self.contents else { return };
        if *owner == home {
            return;
        }
        let Some(place) = self.places.iter().find(|place| place.home == *owner && place.valid) else { return };
        let earlier = self.before.take().filter(|before| before.depth < MOST_BEFORE);
        self.before = Some(Arc::new(Before {
            home: *owner,
            writers: writers.clone(),
            arrivals: place.arrivals.clone(),
            depth: earlier.as_ref().map_or(0, |earlier| earlier.depth + 1),
            earlier,
        }));
    }

    /// Undoes transfers that have failed: the contents are where they were before. Commands that were to change them
    /// wait for those transfers, and fail as well.
    fn go_back(&mut self, events: &impl Events<E>) {
        while let Some(before) = self.before.take() {
            self.before.clone_from(&before.earlier);
            // An earlier transfer may have failed too, because of a writer that failed: the server that reported one
            // failure may not have reported the other yet.
            if before.arrivals.iter().any(|arrival| events.outcome(&arrival.event) == Some(false)) {
                continue;
            }
            let is_open = |event: &E| events.outcome(event).is_none();
            let writers = before.writers.iter().filter(|writer| is_open(&writer.event)).cloned().collect();
            self.contents = Contents::Written { owner: before.home, writers };
            let place = self.place(before.home);
            for arrival in before.arrivals.iter().filter(|arrival| is_open(&arrival.event)) {
                add_new(&mut place.arrivals, arrival.clone());
            }
            (place.valid, place.settled) = (true, false);
            return;
        }
    }

    /// Adds to `doubtful` the events of unknown outcome that say where the piece is, if a transfer of it has failed.
    pub(super) fn doubtful(&self, events: &impl Events<E>, doubtful: &mut Vec<E>) {
        let mut arrivals = self.places.iter().flat_map(|place| &place.arrivals);
        if !arrivals.any(|arrival| events.outcome(&arrival.event) == Some(false)) {
            return;
        }
        let mut past = self.before.as_ref();
        while let Some(before) = past {
            let all = before.arrivals.iter().map(|a| &a.event).chain(before.writers.iter().map(|w| &w.event));
            all.filter(|event| events.outcome(event).is_none()).for_each(|event| add_new(doubtful, event.clone()));
            past = before.earlier.as_ref();
        }
    }

    /// The transfers from a home that may still be under way.
    pub(super) fn arrivals_from(&self, from: Home) -> impl Iterator<Item = E> {
        let all = self.places.iter().flat_map(|place| &place.arrivals);
        all.filter(move |arrival| arrival.from == from).map(|arrival| arrival.event.clone())
    }

    /// Forgets homes where nothing is and nothing arrives.
    pub(super) fn drop_idle_places(&mut self) {
        self.places.retain(|place| place.valid || !place.arrivals.is_empty());
    }

    /// Records that a home is gone, along with everything that was on its way from there.
    pub(super) fn lose(&mut self, home: Home, has_arrived: &impl Fn(&E) -> bool) {
        self.places.retain(|place| place.home != home);
        // Contents that were at the lost home cannot be recovered.
        let mut earlier = self.before.as_ref();
        while let Some(before) = earlier {
            if before.home == home {
                self.before = None;
                break;
            }
            earlier = before.earlier.as_ref();
        }
        // A transfer that did not arrive at one home was not passed on from there, either.
        let mut doubtful = vec![home];
        loop {
            let also = self.places.iter().find(|place| {
                let waits_in_vain = |a: &Arrival<E>| doubtful.contains(&a.from) && !has_arrived(&a.event);
                !doubtful.contains(&place.home) && place.arrivals.iter().any(waits_in_vain)
            });
            let Some(also) = also else { break };
            doubtful.push(also.home);
        }
        // Without a copy that is certain, one that may have arrived is better than none: whatever uses it waits for its
        // arrival.
        if self.homes().any(|held| !doubtful.contains(&held)) {
            for place in self.places.iter_mut().filter(|place| doubtful.contains(&place.home)) {
                place.valid = false;
                place.arrivals.retain(|arrival| !doubtful.contains(&arrival.from) || has_arrived(&arrival.event));
            }
        }
        self.drop_idle_places();
        self.find_owner();
    }

    /// Makes another home the owner, or none, if the owner no longer has the contents.
    fn find_owner(&mut self) {
        let next = self.source(|_| false);
        if let Contents::Written { owner, writers } = &mut self.contents {
            match next {
                _ if self.places.iter().any(|place| place.home == *owner && place.valid) => {}
                Some(next) => {
                    *owner = next;
                    writers.clear();
                }
                None => self.contents = Contents::Lost,
            }
        }
    }

    /// Whether the piece differs from its neighbour only in its range.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        self.contents == other.contents && self.places == other.places
    }

    /// Whether the same homes hold this piece and its neighbour, and the same home owns both.
    pub(super) fn is_held_as(&self, other: &Self) -> bool {
        let same = match (&self.contents, &other.contents) {
            (Contents::Written { owner, .. }, Contents::Written { owner: other, .. }) => owner == other,
            (one, other) => one == other,
        };
        let holds = |piece: &Self, home| piece.places.iter().any(|place| place.home == home && place.valid);
        same && self.homes().all(|home| holds(other, home)) && other.homes().all(|home| holds(self, home))
    }

    /// Merges the following piece, which the same homes hold, into this one; returns true.
    pub(super) fn absorb(&mut self, later: &Self) -> bool {
        self.forget_other_past(later);
        self.range.end = later.range.end;
        if let (Contents::Written { writers, .. }, Contents::Written { writers: others, .. }) =
            (&mut self.contents, &later.contents)
        {
            for other in others {
                match writers.iter_mut().find(|w| w.lane.is_some() && w.lane == other.lane) {
                    Some(same) if same.number < other.number => *same = other.clone(),
                    Some(_) => {}
                    None => add_new(writers, other.clone()),
                }
            }
        }
        for other in &later.places {
            let place = self.place(other.home);
            place.valid |= other.valid;
            place.settled &= other.settled;
            place.depth = place.depth.max(other.depth);
            place.sent = place.sent.max(other.sent);
            for arrival in &other.arrivals {
                add_new(&mut place.arrivals, arrival.clone());
            }
        }
        true
    }

    /// Forgets where a piece was before when it is merged with one that does not have the same past.
    pub(super) fn forget_other_past(&mut self, other: &Self) {
        let same = match (&self.before, &other.before) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            _ => false,
        };
        if !same {
            self.before = None;
        }
    }

    /// Gives up all copies except that of `home`, which becomes the owner; never-written contents are taken to be
    /// whatever is there.
    pub(super) fn keep_only_at(&mut self, home: Home) {
        match &mut self.contents {
            Contents::Lost => return,
            Contents::Written { owner, .. } if *owner == home => {}
            contents => {
                let writers = contents.discarded().into_iter().collect();
                *contents = Contents::Written { owner: home, writers };
            }
        }
        self.before = None;
        for place in &mut self.places {
            place.valid = false;
            place.settled = false;
        }
        self.place(home).valid = true;
        self.drop_idle_places();
    }
}
