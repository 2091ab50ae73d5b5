//! The slots of a context: memory in the arena of the memory that client and server share, which the device reaches fast, as its driver
//! has it pinned. The client fills and empties them, so that small transfers need no more than their command.
//!
//! First come numbers, one for each slot: the client sets it before it sends a command that uses the slot, and the server clears it when
//! the command has ended. Then come the slots.

/// How many there are.
pub const COUNT: u32 = 8;

/// Bytes of a slot.
pub const SIZE: u64 = 1 << 20;

/// Where the first slot begins.
const FIRST: u64 = 4096;

/// Bytes from one of the numbers to the next: so no two are in one line of a cache.
const APART: u64 = 64;

/// Bytes of all.
pub const ALL: u64 = FIRST + COUNT as u64 * SIZE;

/// Where a slot's number is, of 4 bytes: 0 when the server does not use the slot.
pub const fn number(slot: u32) -> u64 {
    slot as u64 * APART
}

/// Where a slot begins.
pub const fn place(slot: u32) -> u64 {
    FIRST + slot as u64 * SIZE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_overlaps() {
        assert!(number(COUNT - 1) + 4 <= FIRST);
        assert_eq!(place(COUNT - 1) + SIZE, ALL);
    }
}
