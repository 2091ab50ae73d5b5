//! Rectangles: rows and slices within linear memory.

/// Where a rectangle lies in some memory, in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rect {
    origin: [usize; 3],
    region: [usize; 3],
    row_pitch: usize,
    slice_pitch: usize,
}

impl Rect {
    /// `None` where a pitch is too small or numbers are too large; pitches of 0 mean that nothing lies between.
    pub(super) fn new(origin: [usize; 3], region: [usize; 3], row_pitch: usize, slice_pitch: usize) -> Option<Self> {
        let row_pitch = if row_pitch == 0 { region[0] } else { row_pitch };
        let least = row_pitch.checked_mul(region[1])?;
        let slice_pitch = if slice_pitch == 0 { least } else { slice_pitch };
        let rect = Self { origin, region, row_pitch, slice_pitch };
        let is_sound = !region.contains(&0) && row_pitch >= region[0] && slice_pitch >= least && rect.end().is_some();
        is_sound.then_some(rect)
    }

    /// The offset behind its last byte.
    pub(super) fn end(&self) -> Option<usize> {
        let last = |at: usize| self.origin[at].checked_add(self.region[at])?.checked_sub(1);
        let rows = last(1)?.checked_mul(self.row_pitch)?;
        let slices = last(2)?.checked_mul(self.slice_pitch)?;
        last(0)?.checked_add(rows)?.checked_add(slices)?.checked_add(1)
    }

    /// Bytes of one row.
    pub(super) fn row(&self) -> usize {
        self.region[0]
    }

    /// All bytes of the rectangle.
    pub(super) fn bytes(&self) -> usize {
        self.region.iter().product()
    }

    /// Where each row begins, slice after slice.
    pub(super) fn rows(self) -> impl Iterator<Item = usize> {
        let start = move |y: usize, z: usize| {
            self.origin[0] + (self.origin[1] + y) * self.row_pitch + (self.origin[2] + z) * self.slice_pitch
        };
        (0..self.region[2]).flat_map(move |z| (0..self.region[1]).map(move |y| start(y, z)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_lie_where_the_pitches_say() {
        let rect = Rect::new([1, 1, 1], [2, 2, 2], 10, 100).unwrap();
        assert_eq!(rect.rows().collect::<Vec<_>>(), [111, 121, 211, 221]);
        assert_eq!((rect.end(), rect.row(), rect.bytes()), (Some(223), 2, 8));
        let packed = Rect::new([0; 3], [2, 2, 2], 0, 0).unwrap();
        assert_eq!(packed.rows().collect::<Vec<_>>(), [0, 2, 4, 6]);
    }

    #[test]
    fn what_does_not_fit_is_none() {
        assert!(Rect::new([0; 3], [2, 0, 2], 0, 0).is_none());
        assert!(Rect::new([0; 3], [4, 1, 1], 3, 0).is_none());
        assert!(Rect::new([0, usize::MAX / 2, 0], [4, 1, 1], 8, 0).is_none());
        assert!(Rect::new([0; 3], [4, 2, 2], 8, 15).is_none());
    }
}
