//! Which homes of a context hold the contents of a memory object, byte range by byte range, and what must move before a
//! command may use them there.
//!
//! Everything here is **pure**: it names homes by number and events by whatever the caller takes for them, sends
//! nothing and waits for nothing. The caller carries out the plan. The states are those of MOSI: the home that wrote a
//! range last *owns* it, others may *share* it, all else is *invalid*; a range that nobody has written is valid nowhere
//! and never moves.
//!
//! Commands are planned in the order in which they are enqueued. What the application orders by events is ordered; what
//! it leaves open may overlap in time, and the answers hold for every such overlap: a kernel, say, is given a whole
//! buffer of which it uses a part, while another command uses the rest.
//!
//! - A copy that is on its way to a home ends with an event of that home, its *arrival*. Every command that uses the
//!   range there waits for the arrival, even to overwrite the range, and the next copy to the same place starts only
//!   after it: old contents never arrive after newer ones.
//! - A copy is taken after the events of all commands that wrote the range at the source, and after the range's arrival
//!   there.
//! - A writer invalidates the other homes' copies when it is planned, so that a copy taken while the writer runs is
//!   known to be worthless.

#[cfg(test)]
mod examples;
mod pieces;
pub(crate) mod spans;
mod terms;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::ops::Range;

use pieces::{Contents, Piece, Writer, add_new};
pub use terms::{By, Events, Home, Lost, Plan, Transfer, Use};

/// The number of pieces, each different from its neighbours, above which pieces are merged.
const MOST_PIECES: usize = 256;

/// A home's commands that have written a range and are not ordered among each other: with more than this, the next one
/// waits.
const MOST_WRITERS: usize = 4;

/// Where the contents of one memory object are, a buffer with its sub-buffers or an image.
#[derive(Clone, Debug)]
pub struct Residency<E> {
    size: u64,
    /// Of an image, the bytes of a slice: what moves at once is whole slices, or lies within one.
    slice: Option<u64>,
    /// The first contents are still with the client, and nowhere else.
    at_client: bool,
    /// In order and without gaps, from the first byte to the last.
    pieces: Vec<Piece<E>>,
    /// How many writers there were.
    writes: u64,
    most_pieces: usize,
    /// For tests of the tests: one in this many invalidations is forgotten.
    #[cfg(test)]
    forget_every: Option<u32>,
    #[cfg(test)]
    invalidations: u32,
}

impl<E: Clone + PartialEq> Residency<E> {
    /// An object of `size` bytes, which nobody has written, or whose first contents the client has.
    pub fn new(size: u64, first_contents: bool) -> Self {
        Self {
            size,
            slice: None,
            at_client: first_contents,
            pieces: vec![Piece::never_written(0..size)],
            writes: 0,
            most_pieces: MOST_PIECES,
            #[cfg(test)]
            forget_every: None,
            #[cfg(test)]
            invalidations: 0,
        }
    }

    /// An image: as [`Self::new`], with slices of so many bytes.
    pub fn of_slices(size: u64, slice: u64, first_contents: bool) -> Self {
        Self { slice: Some(slice).filter(|slice| *slice > 0), ..Self::new(size, first_contents) }
    }

    /// Whether the client still has the first contents.
    pub fn is_at_client(&self) -> bool {
        self.at_client
    }

    /// The first contents are at `home` now.
    pub fn first_contents_at(&mut self, home: Home) {
        self.at_client = false;
        for piece in &mut self.pieces {
            piece.contents = Contents::Written { owner: home, writers: Vec::new() };
            piece.place(home).valid = true;
        }
    }

    /// Whether `home` has, or is about to have, all of a range that was ever written.
    pub fn is_valid_at(&self, home: Home, range: Range<u64>) -> bool {
        !self.at_client && self.within(&range).all(|piece| !piece.must_come_to(home))
    }

    /// The events after which `home` has all of a range that was ever written; `None` where it does not have it, or
    /// nobody wrote it.
    pub fn ready_at(&self, home: Home, range: Range<u64>) -> Option<Vec<E>> {
        if self.at_client {
            return None;
        }
        self.within(&range).try_fold(Vec::new(), |ready, piece| piece.ready_at(home, ready))
    }

    /// Plans a command of `home` that uses `ranges` in this way, and records the plan as carried out.
    ///
    /// # Errors
    /// [`Lost`]; nothing is changed then.
    pub fn plan(
        &mut self,
        home: Home,
        usage: &Use<E>,
        ranges: &[Range<u64>],
        events: &mut impl Events<E>,
    ) -> Result<Plan<E>, Lost> {
        let ranges = self.tidy(ranges);
        let reads = matches!(usage, Use::Read | Use::Update(_));
        if reads && ranges.iter().any(|range| self.within(range).any(|piece| piece.contents == Contents::Lost)) {
            return Err(Lost);
        }
        let mut plan = Plan { first_contents: self.at_client, transfers: Vec::new(), waits: Vec::new() };
        if self.at_client {
            self.first_contents_at(home);
        }
        self.limit_pieces(home, &mut plan, events);
        for range in &ranges {
            self.split_at(range.start);
            self.split_at(range.end);
        }
        if reads {
            self.cut_at_slices(home, &ranges);
        }
        let indices = self.indices(&ranges);
        for &at in &indices {
            self.pieces[at].forget_over(&*events);
        }
        if reads {
            if indices.iter().any(|&at| self.pieces[at].contents == Contents::Lost) {
                return Err(Lost);
            }
            self.bring(home, &indices, &mut plan, events);
        }
        for at in indices {
            self.use_piece(at, home, usage, &mut plan);
        }
        self.writes += 1;
        self.join_equal();
        Ok(plan)
    }

    /// Records that a home is gone. Returns the ranges lost with it, those that no other home holds. `has_arrived` says
    /// whether an arrival is known to have ended successfully; all else that was on its way from that home will not
    /// come.
    pub fn lose(&mut self, home: Home, has_arrived: impl Fn(&E) -> bool) -> Vec<Range<u64>> {
        for piece in &mut self.pieces {
            piece.lose(home, &has_arrived);
        }
        let lost =
            join(self.pieces.iter().filter(|piece| piece.contents == Contents::Lost).map(|piece| piece.range.clone()));
        self.join_equal();
        lost
    }

    /// The transfers from a home that may still be under way, or may never arrive.
    pub fn arrivals(&self, from: Home) -> Vec<E> {
        let mut all = Vec::new();
        for arrival in self.pieces.iter().flat_map(|piece| piece.arrivals_from(from)) {
            add_new(&mut all, arrival);
        }
        all
    }

    /// The homes that copies would be taken from for a command of `home` that reads these ranges, as far as that is
    /// known without planning it.
    pub fn sources(&self, home: Home, ranges: &[Range<u64>], events: &impl Events<E>) -> Vec<Home> {
        let mut missing = self.indices(&self.tidy(ranges));
        missing.retain(|&at| self.pieces[at].must_come_to(home));
        let from_one = self.one_source(&missing, events);
        let mut sources = Vec::new();
        for at in missing {
            let source = from_one.or_else(|| self.pieces[at].source(|home| events.is_far(home)));
            source.into_iter().for_each(|source| add_new(&mut sources, source));
        }
        sources
    }

    /// Events whose outcome says where these ranges are but is not known, because a transfer that was to arrive has
    /// failed. Their outcome must be asked for before a command that uses the ranges is planned.
    pub fn doubtful(&self, ranges: &[Range<u64>], events: &impl Events<E>) -> Vec<E> {
        let mut doubtful = Vec::new();
        for range in ranges {
            self.within(range).for_each(|piece| piece.doubtful(events, &mut doubtful));
        }
        doubtful
    }

    /// The ranges within the object, sorted, each byte once.
    fn tidy(&self, ranges: &[Range<u64>]) -> Vec<Range<u64>> {
        let mut ranges: Vec<_> =
            ranges.iter().map(|r| r.start..r.end.min(self.size)).filter(|range| !range.is_empty()).collect();
        ranges.sort_by_key(|range| range.start);
        join(ranges.into_iter())
    }

    /// The pieces that have bytes of a range.
    fn within<'a>(&'a self, range: &Range<u64>) -> impl Iterator<Item = &'a Piece<E>> {
        let (first, end) = (self.pieces.partition_point(|p| p.range.end <= range.start), range.end);
        self.pieces[first..].iter().take_while(move |piece| piece.range.start < end)
    }

    /// The numbers of the pieces that ranges consist of, whose ends are ends of pieces.
    fn indices(&self, ranges: &[Range<u64>]) -> Vec<usize> {
        let mut all = Vec::new();
        for range in ranges {
            let first = self.pieces.partition_point(|piece| piece.range.end <= range.start);
            all.extend(first..first + self.within(range).count());
        }
        all
    }

    fn split_at(&mut self, at: u64) {
        let index = self.pieces.partition_point(|piece| piece.range.end <= at);
        let Some(piece) = self.pieces.get_mut(index).filter(|piece| piece.range.start < at) else { return };
        let mut rest = piece.clone();
        piece.range.end = at;
        rest.range.start = at;
        self.pieces.insert(index + 1, rest);
    }

    /// Makes pieces that `home` lacks so that each can move at once.
    fn cut_at_slices(&mut self, home: Home, ranges: &[Range<u64>]) {
        let Some(slice) = self.slice else { return };
        let lacking = ranges.iter().flat_map(|range| self.within(range)).filter(|piece| piece.must_come_to(home));
        let cuts: Vec<_> = lacking
            .filter(|piece| !moves_at_once(&piece.range, slice))
            .flat_map(|piece| [piece.range.start.next_multiple_of(slice), piece.range.end / slice * slice])
            .collect();
        cuts.into_iter().for_each(|at| self.split_at(at));
    }

    /// Plans the transfers of what `home` lacks of these pieces.
    fn bring(&mut self, home: Home, pieces: &[usize], plan: &mut Plan<E>, events: &mut impl Events<E>) {
        let missing: Vec<_> = pieces.iter().copied().filter(|&at| self.pieces[at].must_come_to(home)).collect();
        // For each home the one that is being put together.
        let mut transfers: BTreeMap<Home, Transfer<E>> = BTreeMap::new();
        let from_one = self.one_source(&missing, events);
        for at in missing {
            let piece = &mut self.pieces[at];
            // A piece that was written and is not lost is held by someone.
            let Some(from) = from_one.or_else(|| piece.source(|home| events.is_far(home))) else { continue };
            let goes_with = |ranges: &[Range<u64>], slice| match ranges {
                [before] => before.end == piece.range.start && moves_at_once(&(before.start..piece.range.end), slice),
                _ => false,
            };
            if let (Some(slice), Some(before)) = (self.slice, transfers.get(&from))
                && !goes_with(&before.ranges, slice)
            {
                plan.transfers.extend(transfers.remove(&from));
            }
            let transfer = transfers.entry(from).or_insert_with(|| Transfer {
                from,
                ranges: Vec::new(),
                after: Vec::new(),
                arrival: events.arrival(),
            });
            match transfer.ranges.last_mut() {
                Some(before) if before.end == piece.range.start => before.end = piece.range.end,
                _ => transfer.ranges.push(piece.range.clone()),
            }
            piece.copy(from, home, transfer);
        }
        plan.transfers.extend(transfers.into_values());
    }

    /// The home that can give all of several pieces soonest, and is not far.
    fn one_source(&self, pieces: &[usize], events: &impl Events<E>) -> Option<Home> {
        let (first, others) = pieces.split_first()?;
        let first = &self.pieces[*first];
        let cost = |home: Home| {
            let one = first.cost(home)?;
            others.iter().try_fold(one, |most, at| Some(most.max(self.pieces[*at].cost(home)?)))
        };
        let near = first.homes().filter(|home| !events.is_far(*home));
        near.filter_map(|home| Some((cost(home)?, home))).min().map(|(_, home)| home)
    }

    /// Changes a piece by its use at `home`.
    fn use_piece(&mut self, at: usize, home: Home, usage: &Use<E>, plan: &mut Plan<E>) {
        let number = self.writes;
        let piece = &mut self.pieces[at];
        for arrival in piece.arrivals_at(home) {
            add_new(&mut plan.waits, arrival);
        }
        let (by, updates) = match usage {
            Use::Read => return,
            Use::Update(by) => (by, true),
            Use::Overwrite(by) => (by, false),
            Use::Discard(by) => {
                piece.settle(None, false);
                piece.before = None;
                self.invalidate(at, None);
                self.pieces[at].contents = Contents::Discarded(by.event.clone());
                return;
            }
        };
        piece.settle(Some(home), updates);
        if updates {
            piece.leave_for(home);
        } else {
            piece.before = None;
        }
        let mut writers = match &mut piece.contents {
            // A command that only may write a piece need not come after the writers before it.
            Contents::Written { owner, writers } if *owner == home && updates => std::mem::take(writers),
            contents if updates => contents.discarded().into_iter().collect(),
            _ => Vec::new(),
        };
        self.invalidate(at, Some(home));
        let piece = &mut self.pieces[at];
        writers.retain(|writer| writer.event != by.event && (by.lane.is_none() || writer.lane != by.lane));
        if writers.len() >= MOST_WRITERS {
            for writer in writers.drain(..) {
                add_new(&mut plan.waits, writer.event);
            }
        }
        writers.push(Writer { event: by.event.clone(), lane: by.lane, number });
        piece.contents = Contents::Written { owner: home, writers };
        let place = piece.place(home);
        (place.valid, place.depth, place.sent, place.settled) = (true, 0, 0, true);
    }

    /// Takes away all copies of a piece but that of `keeper`.
    fn invalidate(&mut self, at: usize, keeper: Option<Home>) {
        for index in 0..self.pieces[at].places.len() {
            let place = &self.pieces[at].places[index];
            if !place.valid || Some(place.home) == keeper || self.forgets() {
                continue;
            }
            self.pieces[at].places[index].valid = false;
        }
        self.pieces[at].drop_idle_places();
    }

    #[cfg(not(test))]
    fn forgets(&self) -> bool {
        false
    }

    #[cfg(test)]
    fn forgets(&mut self) -> bool {
        self.invalidations += 1;
        self.forget_every.is_some_and(|every| self.invalidations.is_multiple_of(every))
    }

    fn join_equal(&mut self) {
        self.pieces.dedup_by(|later, earlier| {
            let alike = later.is_like(earlier);
            if alike {
                earlier.forget_other_past(later);
                earlier.range.end = later.range.end;
            }
            alike
        });
    }

    /// Merges pieces when there are too many: first those that the same homes hold, whatever they wait for; if that is
    /// not enough, everything is brought to `home`, gaps that were never written count as written, and other copies are
    /// forgotten.
    fn limit_pieces(&mut self, home: Home, plan: &mut Plan<E>, events: &mut impl Events<E>) {
        if self.pieces.len() <= self.most_pieces {
            return;
        }
        self.pieces.dedup_by(|later, earlier| earlier.is_held_as(later) && earlier.absorb(later));
        if self.pieces.len() <= self.most_pieces / 2 {
            return;
        }
        self.cut_at_slices(home, std::slice::from_ref(&(0..self.size)));
        let all: Vec<_> = (0..self.pieces.len()).collect();
        self.bring(home, &all, plan, events);
        for piece in &mut self.pieces {
            piece.keep_only_at(home);
        }
        self.pieces.dedup_by(|later, earlier| earlier.is_held_as(later) && earlier.absorb(later));
    }
}

/// Whether a range of an image with such slices is whole slices, or rows of one slice, and so can be moved in one
/// transfer.
fn moves_at_once(range: &Range<u64>, slice: u64) -> bool {
    range.start / slice == range.end.saturating_sub(1) / slice
        || range.start.is_multiple_of(slice) && range.end.is_multiple_of(slice)
}

/// Ranges in order, those that touch or overlap as one.
fn join(ranges: impl Iterator<Item = Range<u64>>) -> Vec<Range<u64>> {
    let mut joined: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match joined.last_mut() {
            Some(last) if last.end >= range.start => last.end = last.end.max(range.end),
            _ => joined.push(range),
        }
    }
    joined
}
