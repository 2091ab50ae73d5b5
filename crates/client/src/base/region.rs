//! The shape of host memory that a transfer goes from or to: rows and slices at some distance from each other.
//!
//! The bytes travel packed: row after row, slice after slice, without the bytes between them.

use std::ops::Range;

/// Part of the application's memory in three dimensions, such as clEnqueueReadBufferRect and clEnqueueReadImage are
/// given.
///
/// Offsets count from the region's first byte.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Region {
    /// Bytes of a row.
    row: usize,
    rows: usize,
    slices: usize,
    row_pitch: usize,
    slice_pitch: usize,
}

impl Region {
    /// `slices` times `rows` rows of `row` bytes each; `row_pitch` bytes lie between the beginnings of two rows,
    /// `slice_pitch` between those of two slices. A pitch of 0 means that nothing lies in between. A pitch is ignored
    /// where there is only one row or one slice.
    ///
    /// `None`: rows or slices would overlap, or the whole is larger than memory can be.
    pub fn new([row, rows, slices]: [usize; 3], row_pitch: usize, slice_pitch: usize) -> Option<Self> {
        let row_pitch = if rows <= 1 || row_pitch == 0 { row } else { row_pitch };
        let slice = row_pitch.checked_mul(rows)?;
        let slice_pitch = if slices <= 1 || slice_pitch == 0 { slice } else { slice_pitch };
        let whole = slice_pitch.checked_mul(slices)?;
        // A packed row and slice fit into their pitches, so the packed length fits, too.
        let fits =
            row_pitch >= row && slice_pitch >= slice.checked_sub(row_pitch - row)? && isize::try_from(whole).is_ok();
        fits.then_some(Self { row, rows, slices, row_pitch, slice_pitch })
    }

    /// `len` bytes in one piece.
    pub fn flat(len: usize) -> Self {
        Self { row: len, rows: 1, slices: 1, row_pitch: len, slice_pitch: len }
    }

    /// How many bytes travel.
    pub fn len(&self) -> usize {
        self.row * self.rows * self.slices
    }

    /// Whether none do.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many bytes of memory it covers, from its first to its last.
    pub fn span(&self) -> usize {
        if self.is_empty() {
            return 0;
        }
        (self.slices - 1) * self.slice_pitch + (self.rows - 1) * self.row_pitch + self.row
    }

    /// Returns the place of the packed byte `at` and of all that follow it contiguously; empty past the last byte.
    pub fn run(&self, at: usize) -> Range<usize> {
        if at >= self.len() {
            return 0..0;
        }
        let (row, x) = (at / self.row, at % self.row);
        let (z, y) = (row / self.rows, row % self.rows);
        let start = z * self.slice_pitch + y * self.row_pitch + x;
        let rows_touch = self.row_pitch == self.row || self.rows == 1;
        let slices_touch = self.slice_pitch == self.row * self.rows || self.slices == 1;
        let len = match (rows_touch, slices_touch) {
            (true, true) => self.len() - at,
            (true, false) => self.row * (self.rows - y) - x,
            (false, _) => self.row - x,
        };
        start..start + len
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The packed bytes' places, one by one.
    fn places([row, rows, slices]: [usize; 3], row_pitch: usize, slice_pitch: usize) -> Vec<usize> {
        let mut all = Vec::new();
        for z in 0..slices {
            for y in 0..rows {
                all.extend((0..row).map(|x| z * slice_pitch + y * row_pitch + x));
            }
        }
        all
    }

    fn by_runs(region: &Region) -> Vec<usize> {
        let mut all = Vec::new();
        while all.len() < region.len() {
            let run = region.run(all.len());
            assert!(!run.is_empty());
            all.extend(run);
        }
        all
    }

    #[test]
    fn runs_are_the_region_in_order() {
        for (row_pitch, slice_pitch) in [(5, 20), (5, 23), (7, 28), (7, 40), (7, 26)] {
            let region = Region::new([5, 4, 3], row_pitch, slice_pitch).unwrap();
            let expected = places([5, 4, 3], row_pitch, slice_pitch);
            assert_eq!(by_runs(&region), expected, "{region:?}");
            assert_eq!(region.span(), expected.last().unwrap() + 1);
            // Starting in the middle of a row works, too.
            for (at, place) in expected.iter().enumerate() {
                assert_eq!(region.run(at).start, *place);
            }
            assert!(region.run(60).is_empty());
        }
    }

    #[test]
    fn what_touches_is_one_piece() {
        assert_eq!(Region::flat(100).run(7), 7..100);
        assert_eq!(Region::new([5, 4, 3], 0, 0).unwrap().run(7), 7..60);
        assert_eq!(Region::new([5, 4, 3], 5, 30).unwrap().run(7), 7..20);
        assert_eq!(Region::new([5, 4, 1], 5, 999).unwrap().run(0), 0..20);
        assert_eq!(Region::new([5, 1, 3], 999, 5).unwrap().run(0), 0..15);
    }

    #[test]
    fn nothing_overlaps_or_wraps_around() {
        assert_eq!(Region::new([5, 4, 3], 4, 100), None);
        assert_eq!(Region::new([5, 4, 3], 5, 19), None);
        assert_eq!(Region::new([usize::MAX, 2, 1], 0, 0), None);
        assert_eq!(Region::new([1, 2, 1], usize::MAX, 0), None);
        assert_eq!(Region::new([1, 1, 2], 0, isize::MAX as usize), None);
        let empty = Region::new([0, 4, 3], 0, 0).unwrap();
        assert_eq!((empty.len(), empty.span(), empty.run(0)), (0, 0, 0..0));
    }
}
