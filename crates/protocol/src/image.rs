//! Images: formats, sizes, regions, and the layout of their elements' bytes on the wire.
//!
//! The bytes of a region travel tightly packed: row after row, slice after slice, with nothing in between. Both sides
//! compute with the functions here, which return `None` if the other side's numbers would overflow.

use serde::{Deserialize, Serialize};

/// A cl_image_format.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
pub struct ImageFormat {
    /// image_channel_order.
    pub order: u32,
    /// image_channel_data_type.
    pub data_type: u32,
}

/// Channel orders with one channel, two, three, four: CL_R, CL_A, CL_INTENSITY, CL_LUMINANCE, CL_Rx, CL_DEPTH; CL_RG,
/// CL_RA, CL_RGx; CL_RGB, CL_sRGB; CL_RGBA, CL_BGRA, CL_ARGB, CL_RGBx, CL_sRGBx, CL_sRGBA, CL_sBGRA, CL_ABGR. A padding
/// channel counts if it takes space.
const CHANNELS: [&[u32]; 4] = [
    &[0x10B0, 0x10B1, 0x10B8, 0x10B9, 0x10BA, 0x10BD],
    &[0x10B2, 0x10B3, 0x10BB],
    &[0x10B4, 0x10BF],
    &[0x10B5, 0x10B6, 0x10B7, 0x10BC, 0x10C0, 0x10C1, 0x10C2, 0x10C3],
];

impl ImageFormat {
    /// CL_IMAGE_ELEMENT_SIZE in bytes: 1 to 16. `None` for a format that OpenCL 3.0 does not name.
    pub fn element_size(self) -> Option<u64> {
        let channels = CHANNELS.iter().position(|orders| orders.contains(&self.order))? as u64 + 1;
        Some(match self.data_type {
            // CL_SNORM_INT8, CL_UNORM_INT8, CL_SIGNED_INT8, CL_UNSIGNED_INT8.
            0x10D0 | 0x10D2 | 0x10D7 | 0x10DA => channels,
            // CL_SNORM_INT16, CL_UNORM_INT16, CL_SIGNED_INT16, CL_UNSIGNED_INT16, CL_HALF_FLOAT.
            0x10D1 | 0x10D3 | 0x10D8 | 0x10DB | 0x10DD => channels * 2,
            // CL_SIGNED_INT32, CL_UNSIGNED_INT32, CL_FLOAT.
            0x10D9 | 0x10DC | 0x10DE => channels * 4,
            // Three channels packed into one number, for CL_RGB and CL_RGBx only: CL_UNORM_SHORT_565,
            // CL_UNORM_SHORT_555, CL_UNORM_INT_101010.
            0x10D4..=0x10D6 if ![0x10B4, 0x10BC].contains(&self.order) => return None,
            0x10D4 | 0x10D5 => 2,
            // CL_UNSIGNED_INT_RAW10_EXT, CL_UNSIGNED_INT_RAW12_EXT.
            0x10E3 | 0x10E4 => 2,
            // CL_UNORM_INT_101010, CL_UNORM_INT_101010_2, CL_UNORM_INT_2_101010_EXT.
            0x10D6 | 0x10E0 | 0x10E5 => 4,
            _ => return None,
        })
    }

    /// Whether the specification allows this channel type with this channel order (OpenCL 3.0 API, section 5.3.1.1).
    pub fn is_legal(self) -> bool {
        let eight_bits = matches!(self.data_type, 0x10D0 | 0x10D2 | 0x10D7 | 0x10DA);
        let normalized_or_float = matches!(self.data_type, 0x10D0..=0x10D3 | 0x10DD | 0x10DE);
        let in_one_number = matches!(self.data_type, 0x10D4..=0x10D6);
        match self.order {
            // CL_INTENSITY, CL_LUMINANCE; CL_DEPTH; CL_RGB, CL_RGBx.
            0x10B8 | 0x10B9 => normalized_or_float,
            0x10BD => matches!(self.data_type, 0x10D3 | 0x10DE),
            0x10B4 | 0x10BC => in_one_number,
            // CL_BGRA, CL_ARGB, CL_ABGR; CL_sRGB and its like.
            0x10B6 | 0x10B7 | 0x10C3 => eight_bits,
            0x10BF..=0x10C2 => self.data_type == 0x10D2,
            _ => !in_one_number,
        }
    }
}

/// The types of images.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum ImageKind {
    /// CL_MEM_OBJECT_IMAGE1D.
    Image1D,
    /// CL_MEM_OBJECT_IMAGE1D_BUFFER: a row over a buffer.
    Image1DBuffer,
    /// CL_MEM_OBJECT_IMAGE1D_ARRAY.
    Image1DArray,
    /// CL_MEM_OBJECT_IMAGE2D.
    Image2D,
    /// CL_MEM_OBJECT_IMAGE2D_ARRAY.
    Image2DArray,
    /// CL_MEM_OBJECT_IMAGE3D.
    Image3D,
}

impl ImageKind {
    /// Returns which of the three numbers counts the slices that a slice pitch separates; `None` for images without
    /// slices.
    pub fn slices(self) -> Option<usize> {
        match self {
            Self::Image1D | Self::Image1DBuffer | Self::Image2D => None,
            Self::Image1DArray => Some(1),
            Self::Image2DArray | Self::Image3D => Some(2),
        }
    }

    /// Returns how many of the three numbers of an origin or region are used.
    pub fn dimensions(self) -> usize {
        match self {
            Self::Image1D | Self::Image1DBuffer => 1,
            Self::Image1DArray | Self::Image2D => 2,
            Self::Image2DArray | Self::Image3D => 3,
        }
    }
}

/// The description of an image.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ImageDescription {
    /// Its type.
    pub kind: ImageKind,
    /// The format of its elements.
    pub format: ImageFormat,
    /// The image's size in elements, as regions count them: width, then height or the number of images of a 1D array,
    /// then depth or the number of images of a 2D array; 1 for each dimension that its type lacks.
    pub extent: [u64; 3],
    /// Bytes from one row to the next in the buffer that a 2D image is made of; 0 if the rows are contiguous, and for
    /// all other images.
    pub row_pitch: u64,
}

impl ImageDescription {
    /// The number of bytes of all elements.
    pub fn bytes(&self) -> Option<u64> {
        self.region_bytes(self.extent)
    }

    /// Returns how many bytes the image occupies in the buffer that it is made of.
    pub fn bytes_of_buffer(&self) -> Option<u64> {
        let row = self.region_bytes([self.extent[0], 1, 1])?;
        let pitch = if self.row_pitch == 0 { row } else { self.row_pitch };
        let before = pitch.checked_mul(self.extent[1].checked_sub(1)?)?;
        if pitch < row || self.extent[2] != 1 { None } else { before.checked_add(row) }
    }

    /// The number of bytes of a region's elements.
    pub fn region_bytes(&self, region: [u64; 3]) -> Option<u64> {
        region.iter().try_fold(self.format.element_size()?, |bytes, n| bytes.checked_mul(*n))
    }

    /// Whether `part` is not empty and lies entirely in the image.
    pub fn holds(&self, part: &ImagePart) -> bool {
        part.origin
            .iter()
            .zip(part.region)
            .zip(self.extent)
            .all(|((origin, region), extent)| region > 0 && origin.checked_add(region).is_some_and(|end| end <= extent))
    }

    /// All of the image.
    pub fn whole(&self) -> ImagePart {
        ImagePart { origin: [0; 3], region: self.extent }
    }
}

/// Part of an image, in elements.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ImagePart {
    /// Where it begins.
    pub origin: [u64; 3],
    /// How far it goes: at least 1 each way.
    pub region: [u64; 3],
}

impl ImagePart {
    /// Cuts the part into pieces of at most `most` bytes, in the order of their packed bytes: whole slices, or else
    /// whole rows, or else parts of rows; at least one element each. `element` is the element's size.
    pub fn pieces(self, element: u64, most: u64) -> impl Iterator<Item = Self> {
        let Self { origin, region } = self;
        let [width, height, depth] = region;
        let row = element.saturating_mul(width);
        let step = if row > most {
            [(most / element.max(1)).max(1), 1, 1]
        } else if row.saturating_mul(height) > most {
            [width, (most / row.max(1)).max(1), 1]
        } else {
            [width, height, (most / row.saturating_mul(height).max(1)).max(1)]
        };
        let mut at = [0; 3];
        std::iter::from_fn(move || {
            if at[2] >= depth || width == 0 || height == 0 {
                return None;
            }
            let piece = std::array::from_fn(|i| step[i].min(region[i] - at[i]));
            // The sums lie within the image, or saturate if the part is not in the image.
            let begins = std::array::from_fn(|i| origin[i].saturating_add(at[i]));
            at[0] += piece[0];
            for i in 0..2 {
                if at[i] >= region[i] {
                    at[i] = 0;
                    at[i + 1] += piece[i + 1];
                }
            }
            Some(Self { origin: begins, region: piece })
        })
    }
}

/// The properties of a sampler that its native call takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SamplerDescription {
    /// CL_SAMPLER_NORMALIZED_COORDS.
    pub normalized: bool,
    /// CL_SAMPLER_ADDRESSING_MODE.
    pub addressing: u32,
    /// CL_SAMPLER_FILTER_MODE.
    pub filter: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    const RGBA8: ImageFormat = ImageFormat { order: 0x10B5, data_type: 0x10D2 };

    fn image(extent: [u64; 3]) -> ImageDescription {
        ImageDescription { kind: ImageKind::Image3D, format: RGBA8, extent, row_pitch: 0 }
    }

    #[test]
    fn elements_have_the_sizes_of_the_specification() {
        let size = |order, data_type| ImageFormat { order, data_type }.element_size();
        assert_eq!(size(0x10B5, 0x10DE), Some(16), "CL_RGBA, CL_FLOAT");
        assert_eq!(size(0x10B0, 0x10DD), Some(2), "CL_R, CL_HALF_FLOAT");
        assert_eq!(size(0x10BD, 0x10D3), Some(2), "CL_DEPTH, CL_UNORM_INT16");
        assert_eq!(size(0x10B4, 0x10D4), Some(2), "CL_RGB, CL_UNORM_SHORT_565");
        assert_eq!(size(0x10B5, 0x10E0), Some(4), "CL_RGBA, CL_UNORM_INT_101010_2");
        assert_eq!((size(0x10B5, 0), size(0, 0x10DE)), (None, None));
        let legal = |order, data_type| ImageFormat { order, data_type }.is_legal();
        assert!(legal(0x10B0, 0x10DC) && legal(0x10B4, 0x10D4) && legal(0x10B6, 0x10D2) && legal(0x10B5, 0x10DD));
        assert!(!legal(0x10B0, 0x10D4) && !legal(0x10B4, 0x10D2) && !legal(0x10B6, 0x10DE) && !legal(0x10BD, 0x10D2));
    }

    #[test]
    fn parts_are_within_or_not() {
        let image = image([4, 3, 2]);
        let holds = |origin, region| image.holds(&ImagePart { origin, region });
        assert!(holds([0; 3], [4, 3, 2]) && holds([3, 2, 1], [1; 3]));
        assert!(!holds([1, 0, 0], [4, 1, 1]) && !holds([0; 3], [4, 3, 3]) && !holds([0; 3], [4, 0, 2]));
        assert!(!holds([u64::MAX, 0, 0], [2, 1, 1]));
        assert_eq!(image.bytes(), Some(96));
        assert_eq!(image.region_bytes([u64::MAX, 2, 1]), None);
    }

    #[test]
    fn pieces_follow_each_other_and_are_the_whole() {
        let part = ImagePart { origin: [5, 6, 7], region: [10, 9, 8] };
        for most in [1, 4, 12, 40, 80, 84, 359, 360, 361, 720, 1 << 20] {
            let mut at = 0;
            for piece in part.pieces(4, most) {
                let [x, y, z]: [u64; 3] = std::array::from_fn(|i| piece.origin[i] - part.origin[i]);
                assert_eq!((z * 9 + y) * 10 + x, at, "the next element");
                let [w, h, d] = piece.region;
                assert!(w > 0 && h > 0 && d > 0 && (w * h * d * 4 <= most.max(4)));
                assert!((w == 10 || h * d == 1) && (h == 9 || d == 1), "packed bytes of {piece:?} lie together");
                at += w * h * d;
            }
            assert_eq!(at, 720);
        }
        assert_eq!(ImagePart { origin: [0; 3], region: [0, 1, 1] }.pieces(4, 8).count(), 0);
    }
}
