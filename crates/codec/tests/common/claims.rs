//! Headers that claim any size, and what they cost.

use ropeway_codec::Codec;

/// Writes bits, the highest first.
#[derive(Default)]
struct Bits {
    bytes: Vec<u8>,
    used: u32,
}

impl Bits {
    fn put(&mut self, value: u64, count: u32) -> &mut Self {
        for bit in (0..count).rev() {
            if self.used.is_multiple_of(8) {
                self.bytes.push(0);
            }
            *self.bytes.last_mut().expect("a byte") |= ((value >> bit & 1) as u8) << (7 - self.used % 8);
            self.used += 1;
        }
        self
    }

    /// Exponential Golomb code.
    fn golomb(&mut self, value: u64) -> &mut Self {
        let bits = 64 - (value + 1).leading_zeros();
        self.put(0, bits - 1).put(value + 1, bits)
    }

    /// With the bytes that keep start codes out.
    fn unit(&self, head: &[u8]) -> Vec<u8> {
        let mut unit = vec![0, 0, 0, 1];
        unit.extend(head);
        let mut zeros = 0;
        for &byte in &self.bytes {
            if zeros == 2 && byte <= 3 {
                unit.push(3);
                zeros = 0;
            }
            zeros = if byte == 0 { zeros + 1 } else { 0 };
            unit.push(byte);
        }
        unit
    }
}

/// A header of frames of this size: both are multiples of 16.
pub fn header(codec: Codec, width: u64, height: u64) -> Vec<u8> {
    let mut bits = Bits::default();
    match codec {
        Codec::H264 => {
            // Profile, level; set 0; numbers of frames, their order, references; sizes; frames, no cropping, no more.
            bits.put(77, 8).put(0, 8).put(62, 8).golomb(0).golomb(0).golomb(2).golomb(1).put(0, 1);
            bits.golomb(width / 16 - 1).golomb(height / 16 - 1).put(1, 1).put(1, 1).put(0, 1).put(0, 1).put(1, 1);
            bits.unit(&[0x67])
        }
        Codec::Hevc => {
            // Set 0 of one layer; main profile and its compatibility; level; set 0; 4:2:0; sizes; no cropping.
            bits.put(0, 4).put(0, 3).put(1, 1).put(1, 8).put(0x6000_0000, 32).put(0x9000_0000_0000, 48).put(186, 8);
            bits.golomb(0).golomb(1).golomb(width).golomb(height).put(0, 1);
            // 8 bits; order; layer; blocks; nothing else.
            bits.golomb(0).golomb(0).golomb(4).put(1, 1).golomb(4).golomb(0).golomb(0);
            bits.golomb(0).golomb(3).golomb(0).golomb(3).golomb(0).golomb(0);
            bits.put(0, 4).golomb(0).put(0, 4).put(1, 1);
            bits.unit(&[0x42, 0x01])
        }
        Codec::Av1 => {
            // Main profile; one operating point of level 6.3; sizes of 16 bits each; tools off; 8 bits of 4:2:0; no film grain; the end.
            bits.put(0, 3).put(0, 1).put(0, 1).put(0, 1).put(0, 1).put(0, 5).put(0, 12).put(19, 5).put(0, 1);
            bits.put(15, 4).put(15, 4).put(width - 1, 16).put(height - 1, 16).put(0, 1).put(0, 12).put(0, 20).put(1, 1);
            let mut unit = vec![0x12, 0, 0x0A, bits.bytes.len() as u8];
            unit.extend(&bits.bytes);
            unit
        }
    }
}

/// The largest size that the process's memory has had so far, in bytes, touched or not.
pub fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("proc");
    let line = status.lines().find_map(|line| line.strip_prefix("VmPeak:")).expect("VmPeak");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") << 10
}
