//! Regions of memory objects as ranges of their bytes, as [`crate::residency`] reckons with them.
//!
//! The bytes of an image are those of its elements, packed: row after row, slice after slice. Parts are tracked by
//! whole rows.

use std::ops::Range;

use ropeway_protocol::image::{ImageDescription, ImagePart};
use ropeway_protocol::types::BufferRect;
use smallvec::SmallVec;

/// A rectangle of more rows than this counts as everything between its first and last byte.
const MOST_ROWS: u64 = 64;

/// So does a part of an image that is made of rows of more slices than this, because the rows of each slice move
/// separately.
const MOST_SLICES: u64 = 16;

/// Ranges of bytes, and whether these are just what was asked for.
pub(crate) type Spans = (SmallVec<[Range<u64>; 1]>, bool);

/// The bytes of a rectangle in a buffer that begins at `offset`. `None` for what is no rectangle.
pub(crate) fn of_rect(rect: &BufferRect, offset: u64) -> Option<Spans> {
    let (first, span) = rect.bounds()?;
    let first = first.checked_add(offset)?;
    let [row, rows, slices] = rect.region;
    if rect.size() == span {
        return Some((std::iter::once(first..first.checked_add(span)?).collect(), true));
    }
    if rows.saturating_mul(slices) > MOST_ROWS {
        return Some((std::iter::once(first..first.checked_add(span)?).collect(), false));
    }
    let starts = (0..slices).flat_map(|z| (0..rows).map(move |y| first + z * rect.slice_pitch + y * rect.row_pitch));
    Some((starts.map(|start| start..start + row).collect(), true))
}

/// The bytes of the image rows that a part of the image touches. `None` if the part is not within the image.
pub(crate) fn of_image(like: &ImageDescription, part: &ImagePart) -> Option<Spans> {
    let [width, height, _] = like.extent;
    let row = like.region_bytes([width, 1, 1]).filter(|_| like.holds(part))?;
    like.bytes()?;
    let ([_, y, z], [columns, rows, slices]) = (part.origin, part.region);
    // From one row of a slice to behind another one of a slice, which lie together.
    let between = |first: u64, last: u64| (first * height + y) * row..(last * height + y + rows) * row;
    let last = z + slices - 1;
    let whole_rows = columns == width;
    Some(match () {
        () if rows == height || slices == 1 => (std::iter::once(between(z, last)).collect(), whole_rows),
        () if slices > MOST_SLICES => (std::iter::once(between(z, last)).collect(), false),
        () => ((z..=last).map(|slice| between(slice, slice)).collect(), whole_rows),
    })
}

/// The size of one slice of an image in bytes: transfers move whole slices, or rows of one slice. `None` for an image
/// without slices.
pub(crate) fn slice_of(like: &ImageDescription) -> Option<u64> {
    like.region_bytes([like.extent[0], like.extent[1], 1]).filter(|bytes| *bytes > 0)
}

/// The part of an image that has these bytes. `None` where they are neither whole slices nor rows of one.
pub(crate) fn part_of_image(like: &ImageDescription, bytes: &Range<u64>) -> Option<ImagePart> {
    let [width, height, _] = like.extent;
    let row = like.region_bytes([width, 1, 1]).filter(|bytes| *bytes > 0)?;
    if bytes.is_empty() || !bytes.start.is_multiple_of(row) || !bytes.end.is_multiple_of(row) {
        return None;
    }
    let (first, rows) = (bytes.start / row, (bytes.end - bytes.start) / row);
    let (y, z) = (first % height, first / height);
    let part = if y + rows <= height {
        ImagePart { origin: [0, y, z], region: [width, rows, 1] }
    } else if y == 0 && rows.is_multiple_of(height) {
        ImagePart { origin: [0, 0, z], region: [width, height, rows / height] }
    } else {
        return None;
    };
    like.holds(&part).then_some(part)
}

#[cfg(test)]
#[allow(clippy::single_range_in_vec_init, reason = "one range is what is meant")]
mod tests {
    use ropeway_protocol::image::{ImageFormat, ImageKind};

    use super::*;

    fn rect(region: [u64; 3], row_pitch: u64, slice_pitch: u64) -> BufferRect {
        BufferRect { origin: [2, 1, 0], region, row_pitch, slice_pitch }
    }

    #[test]
    fn rectangles_are_their_rows() {
        let (ranges, exact) = of_rect(&rect([3, 2, 2], 10, 40), 100).unwrap();
        assert_eq!((ranges.as_slice(), exact), ([112..115, 122..125, 152..155, 162..165].as_slice(), true));
    }

    #[test]
    fn what_lies_together_is_one_range() {
        let whole = BufferRect { origin: [0, 1, 0], region: [10, 3, 1], row_pitch: 10, slice_pitch: 40 };
        let (ranges, exact) = of_rect(&whole, 5).unwrap();
        assert_eq!((ranges.len(), ranges.first().cloned(), exact), (1, Some(15..45), true));
    }

    #[test]
    fn many_rows_are_all_that_is_between_them() {
        let (ranges, exact) = of_rect(&rect([3, 1000, 1], 10, 10_000), 0).unwrap();
        assert_eq!((ranges.len(), ranges.first().cloned(), exact), (1, Some(12..10_005), false));
        assert!(of_rect(&rect([0, 1, 1], 10, 10), 0).is_none());
        assert!(of_rect(&rect([3, 1, 1], u64::MAX, u64::MAX), u64::MAX).is_none());
    }

    /// Elements of 4 bytes.
    fn image(extent: [u64; 3]) -> ImageDescription {
        let format = ImageFormat { order: 0x10B5, data_type: 0x10D2 };
        ImageDescription { kind: ImageKind::Image3D, format, extent, row_pitch: 0 }
    }

    #[test]
    fn parts_of_images_are_their_rows() {
        let like = image([5, 3, 4]);
        let of = |origin, region| {
            let (ranges, exact) = of_image(&like, &ImagePart { origin, region }).unwrap();
            (ranges.to_vec(), exact)
        };
        assert_eq!(of([0; 3], [5, 3, 4]), (vec![0..240], true));
        assert_eq!(of([0, 1, 2], [5, 2, 1]), (vec![140..180], true));
        assert_eq!(of([1, 1, 2], [4, 2, 1]), (vec![140..180], false), "not all of these rows");
        assert_eq!(of([0, 0, 1], [5, 3, 2]), (vec![60..180], true));
        assert_eq!(of([0, 2, 1], [5, 1, 2]), (vec![100..120, 160..180], true));
        let deep = image([5, 3, 1000]);
        let (ranges, exact) = of_image(&deep, &ImagePart { origin: [0, 1, 0], region: [5, 1, 1000] }).unwrap();
        assert_eq!((ranges.to_vec(), exact), (vec![20..999 * 60 + 40], false));
        assert!(of_image(&like, &ImagePart { origin: [0, 3, 0], region: [5, 1, 1] }).is_none());
        let huge = image([1 << 40, 1 << 40, 1]);
        assert!(of_image(&huge, &huge.whole()).is_none());
    }

    #[test]
    fn rows_are_parts_of_images() {
        let like = image([5, 3, 4]);
        assert_eq!(part_of_image(&like, &(0..240)), Some(like.whole()));
        assert_eq!(slice_of(&like), Some(60));
        // All that a transfer may be, and nothing else.
        for start in 0..=12u64 {
            for end in start + 1..=12 {
                let part = part_of_image(&like, &(start * 20..end * 20));
                let is_box = start / 3 == (end - 1) / 3 || start % 3 == 0 && end % 3 == 0;
                assert_eq!(part.is_some(), is_box, "{start}..{end}");
                let Some(part) = part else { continue };
                assert_eq!(of_image(&like, &part).unwrap(), (std::iter::once(start * 20..end * 20).collect(), true));
            }
        }
        assert_eq!((part_of_image(&like, &(0..10)), part_of_image(&like, &(240..260))), (None, None));
        assert_eq!(part_of_image(&like, &(20..20)), None);
    }
}
