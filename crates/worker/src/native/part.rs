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

/// Parts that together are a stretch of packed bytes: at most two pieces of rows, of slices, and what lies between.
pub type Pieces = SmallVec<[Part; 5]>;

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
            // Images are cut between elements, by those who know how large these are.
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
}
