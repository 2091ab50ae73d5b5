//! A range of bytes that all have the same history, and the places where they are.

use std::ops::Range;
use std::sync::Arc;

use super::terms::{Events, Home, Transfer};

/// A range of bytes that all have the same history.
#[derive(Clone, Debug)]
pub(super) struct Piece<E> {
    pub(super) range: Range<u64>,
    pub(super) contents: Contents<E>,
    /// Homes that hold it, and homes where something is arriving; no two of the same home.
    pub(super) places: Vec<Place<E>>,
    /// Where it was before it was taken to where it is, which may come to nothing.
    pub(super) before: Option<Arc<Before<E>>>,
}

/// How far back it is known where a piece was.
const MOST_BEFORE: u32 = 8;

/// Where a piece was, as long as what came after that may fail.
#[derive(Debug)]
pub(super) struct Before<E> {
    home: Home,
    writers: Vec<Writer<E>>,
    arrivals: Vec<Arrival<E>>,
    earlier: Option<Arc<Self>>,
    depth: u32,
}

/// What is in a piece.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Contents<E> {
    /// Nothing that anybody has written.
    Never,
    /// Nothing that anybody needs, though before this event what was there may still be read.
    Discarded(E),
    /// What a home's commands have written last, one after the other or at the same time.
    Written { owner: Home, writers: Vec<Writer<E>> },
    /// What was written is gone with the only home that held it.
    Lost,
}

impl<E: Clone> Contents<E> {
    /// What was discarded may still be read elsewhere: when something else is taken for its contents, that must come there only after
    /// this.
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
    /// Of two on the same lane, the one with the larger number ends last.
    pub(super) number: u64,
}

/// A piece at one home.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place<E> {
    pub(super) home: Home,
    /// Whether what is there, or arriving there, is what was written last.
    pub(super) valid: bool,
    /// What came there from other homes and may still be on its way.
    pub(super) arrivals: Vec<Arrival<E>>,
    /// Whether what was written last was written, by way of its copies, after all those.
    pub(super) settled: bool,
    /// After how many steps it gets what it has, if every step takes equally long and a home sends one copy at a time.
    pub(super) depth: u32,
    /// How many copies were taken from it.
    pub(super) sent: u32,
}

/// What came to a place from another home.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Arrival<E> {
    pub(super) event: E,
    pub(super) from: Home,
}

/// Adds what is not there yet.
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

    /// The piece at a home, where there may not have been any of it.
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

    /// Adds to `ready` the events after which a home has it, if it has it.
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

    /// What speaks against taking a copy from a home, least first: the step in which that copy would be there, then that another home
    /// owns it. So copies to many homes spread like a tree. `None` for a home that does not hold it.
    pub(super) fn cost(&self, home: Home) -> Option<(u32, bool)> {
        let place = self.places.iter().find(|place| place.home == home && place.valid)?;
        let owned = matches!(self.contents, Contents::Written { owner, .. } if owner == home);
        Some((place.depth.saturating_add(place.sent), !owned))
    }

    /// The home to take a copy from, one that is not far if there is one.
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

    /// A home is about to write, or nobody where the contents are given up. What it updates comes from the copy that all others were
    /// taken from, and that was sent after all that had arrived there.
    pub(super) fn settle(&mut self, writer: Option<Home>, updates: bool) {
        for place in &mut self.places {
            let is_root = place.valid && place.depth == 0;
            place.settled = Some(place.home) == writer || updates && (place.settled || is_root);
        }
    }

    /// Forgets events that nothing needs to wait for any more. What did not arrive is not there, nor what was written after it; a writer
    /// that failed by itself has left there what it has.
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

    /// A command of `home` changes the piece, to which it has come from elsewhere: keeps in mind where it was.
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

    /// What was to come has come nowhere: it is where it was before. Whoever was to change it waits for what has not come, and fails as well.
    fn go_back(&mut self, events: &impl Events<E>) {
        while let Some(before) = self.before.take() {
            self.before.clone_from(&before.earlier);
            // Perhaps it has not come for a writer that has failed: who has told of the one may not yet have told of the other.
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

    /// Adds to `doubtful` the events that say where it is, if something that was to come has failed: those whose outcome is not known.
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

    /// What may still be on its way from a home.
    pub(super) fn arrivals_from(&self, from: Home) -> impl Iterator<Item = E> {
        let all = self.places.iter().flat_map(|place| &place.arrivals);
        all.filter(move |arrival| arrival.from == from).map(|arrival| arrival.event.clone())
    }

    /// Forgets homes where nothing is and nothing arrives.
    pub(super) fn drop_idle_places(&mut self) {
        self.places.retain(|place| place.valid || !place.arrivals.is_empty());
    }

    /// A home is gone, and with it what was on its way from there.
    pub(super) fn lose(&mut self, home: Home, has_arrived: &impl Fn(&E) -> bool) {
        self.places.retain(|place| place.home != home);
        // There is no way back to what was there.
        let mut earlier = self.before.as_ref();
        while let Some(before) = earlier {
            if before.home == home {
                self.before = None;
                break;
            }
            earlier = before.earlier.as_ref();
        }
        // What did not arrive at one home did not come from there to the next, either.
        let mut doubtful = vec![home];
        loop {
            let also = self.places.iter().find(|place| {
                let waits_in_vain = |a: &Arrival<E>| doubtful.contains(&a.from) && !has_arrived(&a.event);
                !doubtful.contains(&place.home) && place.arrivals.iter().any(waits_in_vain)
            });
            let Some(also) = also else { break };
            doubtful.push(also.home);
        }
        // With no copy that is certain, one that may have arrived is better than none: whoever uses it waits for its arrival.
        if self.homes().any(|held| !doubtful.contains(&held)) {
            for place in self.places.iter_mut().filter(|place| doubtful.contains(&place.home)) {
                place.valid = false;
                place.arrivals.retain(|arrival| !doubtful.contains(&arrival.from) || has_arrived(&arrival.event));
            }
        }
        self.drop_idle_places();
        self.find_owner();
    }

    /// What the owner does not have any more is another's, or nobody's.
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

    /// Whether nothing tells it from its neighbour but the range.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        self.contents == other.contents && self.places == other.places
    }

    /// Whether the same homes hold it, and the same one owns it, as its neighbour.
    pub(super) fn is_held_as(&self, other: &Self) -> bool {
        let same = match (&self.contents, &other.contents) {
            (Contents::Written { owner, .. }, Contents::Written { owner: other, .. }) => owner == other,
            (one, other) => one == other,
        };
        let holds = |piece: &Self, home| piece.places.iter().any(|place| place.home == home && place.valid);
        same && self.homes().all(|home| holds(other, home)) && other.homes().all(|home| holds(self, home))
    }

    /// Takes in the neighbour behind it, which is held by the same homes; true.
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

    /// A piece that becomes one with this has been elsewhere, or not: then that of both is forgotten.
    pub(super) fn forget_other_past(&mut self, other: &Self) {
        let same = match (&self.before, &other.before) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            _ => false,
        };
        if !same {
            self.before = None;
        }
    }

    /// Gives up all copies but that of `home`, which owns it from now on; where nothing was written, whatever is there.
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
