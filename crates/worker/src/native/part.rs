//! Parts of memory objects that are read and written as packed bytes.

use ropeway_protocol::image::ImagePart;
use ropeway_protocol::types::BufferRect;
use smallvec::SmallVec;

/// Part of a memory object. Its bytes are numbered as they travel: packed, row after row, slice after slice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// Bytes of a buffer.
    Bytes {
        /// From this one on.
        offset: u64,
        /// So many.
        size: u64,
    },
    /// A region of a buffer. The session has found that its bounds are in order.
    Rect(BufferRect),
    /// Elements of an image.
    Image {
        /// Which.
        part: ImagePart,
        /// How many bytes they have.
        size: u64,
    },
}

/// Ranges of a buffer, whose bytes travel packed, range after range.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ranges {
    /// Offset and size of each.
    list: Vec<(u64, u64)>,
    /// Where each begins among the packed bytes.
    starts: Vec<u64>,
    size: u64,
}

impl Ranges {
    /// Takes ranges that are not empty, in ascending order and apart from each other; `None` for others.
    pub fn new(list: Vec<(u64, u64)>) -> Option<Self> {
        let (mut starts, mut size, mut free) = (Vec::with_capacity(list.len()), 0_u64, 0);
        for (offset, len) in &list {
            if *offset < free || *len == 0 {
                return None;
            }
            free = offset.checked_add(*len)?;
            starts.push(size);
            // No more than the last offset.
            size += len;
        }
        (size > 0).then_some(Self { list, starts, size })
    }

    /// How many bytes they have together; at least one.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The first byte behind them all.
    pub fn end(&self) -> u64 {
        self.list.last().map_or(0, |(offset, len)| offset + len)
    }

    /// Offset and size of each.
    pub fn list(&self) -> &[(u64, u64)] {
        &self.list
    }

    /// Cuts the packed bytes from `at` on, `len` of them, by range: the range's number, where the bytes begin in the
    /// range, and how many there are.
    pub fn stretch(&self, at: u64, len: u64) -> impl Iterator<Item = (usize, u64, u64)> {
        let end = at.saturating_add(len).min(self.size);
        let first = self.starts.partition_point(|start| *start <= at).saturating_sub(1);
        let all = self.starts.iter().zip(&self.list).enumerate().skip(first);
        all.take_while(move |(_, (start, _))| **start < end).map(move |(index, (start, (_, size)))| {
            let from = at.max(*start);
            (index, from - start, end.min(start + size).saturating_sub(from))
        })
    }

    /// The packed bytes from `at` on, `len` of them, as parts of the buffer, in order.
    pub fn pieces(&self, at: u64, len: u64) -> Vec<Part> {
        self.stretch(at, len)
            .map(|(index, from, size)| Part::Bytes { offset: self.list[index].0 + from, size })
            .collect()
    }
}

/// Parts that together make up a stretch of packed bytes: at most two pieces of rows, two of slices, and the part
/// between them.
pub type Pieces = SmallVec<[Part; 5]>;

/// How many bytes these have together; `None` where no number says so.
pub(super) fn total(parts: &[Part]) -> Option<u64> {
    parts.iter().try_fold(0_u64, |sum, part| sum.checked_add(part.size()))
}

impl Part {
    /// How many bytes it has.
    pub fn size(&self) -> u64 {
        match self {
            Self::Bytes { size, .. } | Self::Image { size, .. } => *size,
            Self::Rect(rect) => rect.size(),
        }
    }

    /// The packed bytes from `at` on, `len` of them, as parts of their own, in order.
    pub fn pieces(&self, at: u64, len: u64) -> Pieces {
        match *self {
            Self::Bytes { offset, .. } => {
                let mut all = Pieces::new();
                all.push(Self::Bytes { offset: offset.saturating_add(at), size: len });
                all
            }
            // Images are cut between elements, by code that knows the size of the elements.
            Self::Image { .. } => Pieces::new(),
            Self::Rect(rect) => {
                let boxes = boxes(rect.region, at, len);
                let part = |(from, region): ([u64; 3], [u64; 3])| {
                    let origin = std::array::from_fn(|d| rect.origin[d].saturating_add(from[d]));
                    Self::Rect(BufferRect { origin, region, ..rect })
                };
                boxes.into_iter().map(part).collect()
            }
        }
    }
}

/// Origin and size of the boxes that the packed bytes from `at` on, `len` of them, fill in a region of this size.
pub fn boxes([row, rows, slices]: [u64; 3], mut at: u64, len: u64) -> SmallVec<[([u64; 3], [u64; 3]); 5]> {
    let mut all = SmallVec::new();
    let slice = row.saturating_mul(rows);
    let end = at.saturating_add(len).min(slice.saturating_mul(slices));
    while at < end {
        let left = end - at;
        let (x, y, z) = (at % row, at / row % rows, at / slice);
        let size = match (x, y) {
            (0, 0) if left >= slice => [row, rows, left / slice],
            (0, _) if left >= row => [row, (left / row).min(rows - y), 1],
            _ => [left.min(row - x), 1, 1],
        };
        all.push(([x, y, z], size));
        at += size[0] * size[1] * size[2];
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boxes_are_the_bytes_in_order() {
        const REGION: [u64; 3] = [3, 4, 5];
        for at in 0..60 {
            for len in 0..=60 - at {
                let mut expected = at;
                let boxes = boxes(REGION, at, len);
                assert!(boxes.len() <= 5, "{at} {len}: {boxes:?}");
                for ([x, y, z], [w, h, d]) in boxes {
                    for (z, y, x) in
                        (z..z + d).flat_map(|z| (y..y + h).flat_map(move |y| (x..x + w).map(move |x| (z, y, x))))
                    {
                        assert_eq!((z * 4 + y) * 3 + x, expected);
                        expected += 1;
                    }
                }
                assert_eq!(expected, at + len);
            }
        }
        assert!(boxes([0, 1, 1], 0, 10).is_empty());
        assert_eq!(boxes(REGION, 58, 10).as_slice(), [([1, 3, 4], [2, 1, 1])]);
    }

    #[test]
    fn pieces_lie_within_the_whole() {
        let rect = BufferRect { origin: [10, 20, 30], region: [3, 4, 5], row_pitch: 100, slice_pitch: 1000 };
        let pieces = Part::Rect(rect).pieces(1, 59);
        assert_eq!(pieces.iter().map(Part::size).sum::<u64>(), 59);
        assert_eq!(pieces[0], Part::Rect(BufferRect { origin: [11, 20, 30], region: [2, 1, 1], ..rect }));
        let bytes = Part::Bytes { offset: 7, size: 60 };
        assert_eq!(bytes.pieces(1, 59).as_slice(), [Part::Bytes { offset: 8, size: 59 }]);
    }

    #[test]
    fn ranges_lie_one_after_the_other() {
        for wrong in [vec![], vec![(0, 0)], vec![(4, 4), (6, 4)], vec![(4, 4), (0, 2)], vec![(1, u64::MAX)]] {
            assert_eq!(Ranges::new(wrong), None);
        }
        let ranges = Ranges::new(vec![(10, 3), (13, 1), (20, 6)]).unwrap();
        assert_eq!((ranges.size(), ranges.end()), (10, 26));
        let places: Vec<u64> = ranges.list().iter().flat_map(|(offset, len)| *offset..offset + len).collect();
        for at in 0..10 {
            for len in 0..=10 - at {
                let pieces = ranges.pieces(at, len);
                let bytes = pieces.iter().flat_map(|piece| match piece {
                    Part::Bytes { offset, size } => *offset..offset + size,
                    _ => panic!("ranges are bytes"),
                });
                assert_eq!(bytes.collect::<Vec<_>>(), places[at as usize..(at + len) as usize], "{at} {len}");
            }
        }
    }
}
