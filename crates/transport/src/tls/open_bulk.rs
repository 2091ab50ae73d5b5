//! Opening of bulk data: a [`Crew`] opens what has come while this thread receives what comes next.

use std::io::{self, ErrorKind};
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::opener::{MAX_SEALED, Next, Opener, ROOM};
use super::secret::Key;
use super::{APPLICATION_DATA, BULK, HEADER, MAX_CONTENTS, OVERHEAD, SEALED, WIDE_ROOM};
use crate::crew::{Crew, Pieces};

/// Most bytes that are received before the crew gets what there is.
const BATCH: usize = 16 * SEALED;

/// Records that one thread opens at once. Fewer are not worth waking one for.
const PIECE: usize = 4;

const _: () = assert!(2 * BATCH + 2 * SEALED <= WIDE_ROOM);

/// Whether receiving may wait until all the room is filled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fill {
    /// It returns with what has come.
    Some,
    /// It waits for all, if it waits at all.
    All,
}

/// Whole records that have come, one behind the other.
struct Run {
    /// Where they are in the buffer, each after its header.
    records: Vec<Range<usize>>,
    /// Bytes of their contents, if they have no padding.
    contents: usize,
}

impl Opener {
    /// As [`Opener::read`], for a reader who waits until all of `into` is there.
    ///
    /// # Errors
    /// As [`Opener::read`].
    pub(crate) fn read_whole(
        &mut self,
        into: &mut [u8],
        mut receive: impl FnMut(&mut [u8], Fill) -> io::Result<usize>,
    ) -> io::Result<usize> {
        let crew = if into.len() < BULK || self.error.is_some() { None } else { self.crew() };
        let Some(crew) = crew else { return self.read(into, |room| receive(room, Fill::Some)) };
        let mut got = self.take(into);
        let narrow = self.change_buffer(crew.buffer(WIDE_ROOM));
        let mut goes_on = Ok(true);
        while got < into.len() && !self.is_over && matches!(goes_on, Ok(true)) {
            goes_on = self.step(&crew, into, &mut got, |room| receive(room, Fill::All));
        }
        crew.give_back(self.change_buffer(narrow));
        match goes_on {
            Err(error) if got == 0 => return Err(error),
            Err(error) if error.kind() != ErrorKind::WouldBlock => self.error = Some(error),
            _ => {}
        }
        Ok(got)
    }

    /// Goes on in another buffer; the one before.
    fn change_buffer(&mut self, mut buffer: Vec<u8>) -> Vec<u8> {
        let kept = if self.plain.is_empty() { self.sealed.clone() } else { self.plain.start..self.sealed.end };
        if buffer.len() < kept.len() {
            buffer.resize(kept.len().max(ROOM), 0);
        }
        buffer[..kept.len()].copy_from_slice(&self.buffer[kept.clone()]);
        self.plain = 0..self.plain.len();
        self.sealed = kept.len() - self.sealed.len()..kept.len();
        std::mem::replace(&mut self.buffer, buffer)
    }

    /// Opens what has come and receives more meanwhile, where `into` has room for it behind the first `got` bytes. False
    /// when the other end has closed and all of its records are open.
    fn step(
        &mut self,
        crew: &Crew,
        into: &mut [u8],
        got: &mut usize,
        mut receive: impl FnMut(&mut [u8]) -> io::Result<usize>,
    ) -> io::Result<bool> {
        let into = &mut into[*got..];
        let mut run = self.run(into.len());
        if run.records.len() < PIECE
            && let Next::Whole(header, at) = self.next()?
        {
            let opened = self.open(&header, at, into)?;
            *got += opened + self.take(&mut into[opened..]);
            return Ok(true);
        }
        let wanted = self.wanted(&mut run, into.len());
        let (good, received) = self.open_run(crew, &run.records, into, wanted, &mut receive);
        let opened = self.pass(&run.records[..good]);
        *got += opened;
        if good < run.records.len()
            && let Next::Whole(header, at) = self.next()?
        {
            // It has padding, ends the connection, brings a new key, or was not sealed by the other end.
            let into = &mut into[opened..];
            let opened = self.open(&header, at, into)?;
            *got += opened + self.take(&mut into[opened..]);
        }
        // A record without contents counts for nothing, but hides no others.
        Ok(received? != Some(0) || matches!(self.next()?, Next::Whole(..)))
    }

    /// How many bytes to receive while `run` is opened into `room` bytes. Makes space for them in the buffer, where there
    /// is none behind what has come.
    fn wanted(&mut self, run: &mut Run, room: usize) -> usize {
        // At least so many bytes have still to come, so that waiting for all of them is no waiting for more than is
        // needed.
        let rest = room - run.contents;
        let rest = rest + rest.div_ceil(MAX_CONTENTS) * (HEADER + OVERHEAD);
        let there = self.sealed.end - run.records.last().map_or(self.sealed.start, |last| last.end);
        let wanted = rest.saturating_sub(there).max(usize::from(run.records.is_empty())).min(BATCH);
        if self.buffer.len() - self.sealed.end < wanted {
            self.buffer.copy_within(self.sealed.clone(), 0);
            (self.plain, self.sealed) = (0..0, 0..self.sealed.len());
            *run = self.run(room);
        }
        // Less room than that is left only where there is something to open, too.
        wanted.min(self.buffer.len() - self.sealed.end)
    }

    /// Opens these records into `into` and receives `wanted` bytes meanwhile, if any. How many of the records were
    /// contents alone, up to the first that was not; and what was received.
    fn open_run(
        &mut self,
        crew: &Crew,
        records: &[Range<usize>],
        into: &mut [u8],
        wanted: usize,
        mut receive: impl FnMut(&mut [u8]) -> io::Result<usize>,
    ) -> (usize, io::Result<Option<usize>>) {
        let (came, room) = self.buffer.split_at_mut(self.sealed.end);
        let (came, key, opened) = (&*came, &self.key, std::iter::repeat_with(|| AtomicUsize::new(0)));
        let opened: Vec<_> = opened.take(records.len().div_ceil(PIECE)).collect();
        let mut rest = into;
        let pieces = records.chunks(PIECE).zip((key.number()..).step_by(PIECE)).zip(&opened);
        let pieces = Pieces::new(pieces.map(|((records, number), opened)| {
            let (into, later) = std::mem::take(&mut rest).split_at_mut(records.iter().map(contents).sum());
            rest = later;
            (records, number, opened, into)
        }));
        let open = |(records, number, opened, into): (&[Range<usize>], _, &AtomicUsize, _)| {
            opened.store(open_all(key, number, came, records, into), Ordering::Relaxed);
        };
        let received =
            crew.share(&pieces, open, || if wanted == 0 { Ok(None) } else { receive(&mut room[..wanted]).map(Some) });
        self.sealed.end += received.as_ref().map_or(0, |received| received.unwrap_or(0));
        let mut good = 0;
        for (opened, records) in opened.iter().zip(records.chunks(PIECE)) {
            let opened = opened.load(Ordering::Relaxed);
            good += opened;
            if opened < records.len() {
                break;
            }
        }
        (good, received)
    }

    /// Leaves behind these records, which are open; the bytes of their contents.
    fn pass(&mut self, good: &[Range<usize>]) -> usize {
        self.key.passed(good.len() as u64);
        self.sealed.start = good.last().map_or(self.sealed.start, |last| last.end);
        self.plain = self.sealed.start..self.sealed.start;
        good.iter().map(contents).sum()
    }

    /// The whole records that have come, as far as they have room in so many bytes.
    fn run(&self, room: usize) -> Run {
        let mut run = Run { records: Vec::new(), contents: 0 };
        let mut at = self.sealed.start;
        while let Ok(Next::Whole(_, record)) = self.record(at)
            && run.contents + contents(&record) <= room
        {
            run.contents += contents(&record);
            at = record.end;
            run.records.push(record);
        }
        run
    }
}

/// Bytes of a record's contents, if it has no padding.
fn contents(record: &Range<usize>) -> usize {
    record.len() - OVERHEAD
}

/// Opens records of `came`, the first of which has the number `first`, into the place of their contents; how many of them
/// were contents without padding.
fn open_all(key: &Key, first: u64, came: &[u8], records: &[Range<usize>], mut into: &mut [u8]) -> usize {
    for (done, record) in records.iter().enumerate() {
        let (sealed, len) = (&came[record.clone()], contents(record));
        let Some(header) = came[..record.start].last_chunk::<HEADER>() else { return done };
        // The type of the contents comes behind them, where the contents of the next record will be; those of the next
        // one after the last, another thread may open.
        let mut last = [0; MAX_SEALED];
        let is_last = into.len() == len;
        let out = if is_last { &mut last[..=len] } else { &mut into[..=len] };
        if key.open(first + done as u64, header, sealed, out).is_err() || out[len] != APPLICATION_DATA {
            return done;
        }
        let (now, later) = into.split_at_mut(len);
        if is_last {
            now.copy_from_slice(&last[..len]);
        }
        into = later;
    }
    records.len()
}
