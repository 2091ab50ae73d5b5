//! The kinds of memory objects: buffers, images, pipes, and parts of buffers. Numbers only.

use ropeway_protocol::image::{ImageDescription, ImageKind};

use crate::base::region::Region;

/// The kind of a memory object, with the properties of that kind.
#[derive(Clone, Debug)]
pub enum Kind {
    /// A buffer.
    Buffer,
    /// An image.
    Image(Image),
    /// A pipe.
    Pipe(Pipe),
    /// Part of its parent, a buffer.
    SubBuffer {
        /// Where it begins there, in bytes.
        origin: usize,
    },
}

/// The properties that only images have.
#[derive(Clone, Copy, Debug)]
pub struct Image {
    /// Its type, format and size.
    pub like: ImageDescription,
    /// CL_IMAGE_ROW_PITCH, in bytes.
    pub row_pitch: usize,
    /// CL_IMAGE_SLICE_PITCH, in bytes; 0 for an image without slices.
    pub slice_pitch: usize,
}

impl Image {
    /// How many elements it has each way.
    pub fn extent(&self) -> [usize; 3] {
        self.like.extent.map(|n| n as usize)
    }

    /// CL_IMAGE_ELEMENT_SIZE, in bytes.
    pub fn element(&self) -> usize {
        self.like.format.element_size().unwrap_or(1) as usize
    }

    /// Where its elements lie in memory that it is mapped to.
    pub fn layout(&self) -> Option<Layout> {
        Layout::new(self.like.kind, self.element(), self.extent(), self.row_pitch, self.slice_pitch)
    }

    /// Returns the number of bytes of that memory (CL_MEM_SIZE), including the gaps between rows and slices.
    pub fn size(&self) -> Option<usize> {
        let [_, height, depth] = self.extent();
        match self.like.kind.slices() {
            Some(_) if self.like.kind == ImageKind::Image1DArray => self.slice_pitch.checked_mul(height),
            Some(_) => self.slice_pitch.checked_mul(depth),
            None => self.row_pitch.checked_mul(height),
        }
    }
}

/// The layout of the elements of an image, or of a part of one, in the application's memory: the bytes from one to the
/// next in each direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Layout {
    /// From one element to the next: its size.
    pub element: usize,
    /// From one row to the next, and from one slice to the next (CL_IMAGE_SLICE_PITCH; from one image of an array to
    /// the next).
    pub strides: [usize; 2],
}

impl Layout {
    /// Returns the layout of `region` elements of `kind` with these pitches; a pitch of 0 means that there are no gaps.
    /// `None` if a pitch is less than what it spans, or too large.
    pub fn new(
        kind: ImageKind,
        element: usize,
        region: [usize; 3],
        row_pitch: usize,
        slice_pitch: usize,
    ) -> Option<Self> {
        let row = element.checked_mul(region[0])?;
        let row_pitch = if row_pitch == 0 { row } else { row_pitch };
        let rows = if kind == ImageKind::Image1DArray { 1 } else { region[1] };
        let slice = row_pitch.checked_mul(rows)?;
        // One image has no slices: their pitch says nothing.
        let slice_pitch = if slice_pitch == 0 || kind.slices().is_none() { slice } else { slice_pitch };
        let layout = match kind {
            // The images of a 1D array are its rows.
            ImageKind::Image1DArray => [slice_pitch, slice_pitch.checked_mul(region[1])?],
            _ => [row_pitch, slice_pitch],
        };
        (row_pitch >= row && slice_pitch >= slice).then_some(Self { element, strides: layout })
    }

    /// Where the element at `origin` lies, from the first.
    pub fn offset(&self, origin: [usize; 3]) -> Option<usize> {
        let [x, y, z] = origin;
        let [row, slice] = self.strides;
        x.checked_mul(self.element)?.checked_add(y.checked_mul(row)?)?.checked_add(z.checked_mul(slice)?)
    }

    /// The bytes of `region`, to be read or written.
    pub fn region(&self, region: [usize; 3]) -> Option<Region> {
        let [row, slice] = self.strides;
        Region::new([region[0].checked_mul(self.element)?, region[1], region[2]], row, slice)
    }
}

/// The properties that only pipes have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pipe {
    /// CL_PIPE_PACKET_SIZE, in bytes.
    pub packet_size: u32,
    /// CL_PIPE_MAX_PACKETS.
    pub max_packets: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pitches_are_filled_in_and_checked() {
        let layout = |kind, row, slice| Layout::new(kind, 4, [5, 3, 2], row, slice).map(|l| l.strides);
        assert_eq!(layout(ImageKind::Image3D, 0, 0), Some([20, 60]));
        assert_eq!(layout(ImageKind::Image3D, 24, 0), Some([24, 72]));
        assert_eq!(layout(ImageKind::Image3D, 24, 80), Some([24, 80]));
        assert_eq!(layout(ImageKind::Image3D, 24, 71), None);
        assert_eq!(layout(ImageKind::Image3D, 19, 0), None);
        assert_eq!(layout(ImageKind::Image2D, 20, 1), Some([20, 60]), "one image has no slices");
        assert_eq!(layout(ImageKind::Image1DArray, 0, 32).map(|s| s[0]), Some(32), "each image of an array is a row");
        assert_eq!(layout(ImageKind::Image3D, usize::MAX, 0), None);
    }

    #[test]
    fn elements_lie_where_the_pitches_say() {
        let layout = Layout { element: 4, strides: [32, 128] };
        assert_eq!(layout.offset([1, 1, 1]), Some(164));
        assert_eq!(layout.region([5, 3, 2]).map(|region| region.span()), Some(128 + 64 + 20));
        assert_eq!(layout.region([9, 3, 2]), None);
    }
}
