//! Answers to queries (clGet…Info).
//!
//! A query ends with one of the writers of [`Info`], which alone make an [`Answered`]: it cannot forget to check the
//! size or to report it.

use std::ffi::c_void;

use ropeway_abi::{CL_INVALID_VALUE, cl_int};

/// Proof that a query was answered.
#[must_use]
pub struct Answered(());

/// Where the application wants the answer.
pub struct Info {
    room: usize,
    value: *mut c_void,
    size_ret: *mut usize,
}

/// A plain value that an answer can be made of.
///
/// # Safety
/// It has no padding.
pub unsafe trait Plain: Copy {}

macro_rules! plain {
    ($($type:ty),*) => {$(
        // SAFETY: a primitive type.
        unsafe impl Plain for $type {}
    )*};
}
plain!(u8, i32, u32, u64, usize, isize, *mut c_void);

impl Info {
    /// # Safety
    /// `value` is null or valid for writes of `room` bytes, and `size_ret` is null or valid for a write: what the
    /// specification demands of `param_value` and `param_value_size_ret`.
    pub unsafe fn new(room: usize, value: *mut c_void, size_ret: *mut usize) -> Self {
        Self { room, value, size_ret }
    }

    /// Answers with bytes as they are.
    ///
    /// # Errors
    /// CL_INVALID_VALUE if param_value is not null and param_value_size is less than the answer's size.
    pub fn bytes(self, answer: &[u8]) -> Result<Answered, cl_int> {
        if !self.value.is_null() {
            if self.room < answer.len() {
                return Err(CL_INVALID_VALUE);
            }
            // SAFETY: `value` is valid for `room` bytes, by the promise of `new`; the answer is our own memory.
            unsafe { self.value.cast::<u8>().copy_from_nonoverlapping(answer.as_ptr(), answer.len()) };
        }
        self.size(answer.len())
    }

    /// Answers with an array; it may be empty.
    ///
    /// # Errors
    /// As [`Self::bytes`].
    pub fn slice<T: Plain>(self, answer: &[T]) -> Result<Answered, cl_int> {
        // SAFETY: the same memory; every byte of a Plain value is initialised.
        self.bytes(unsafe { std::slice::from_raw_parts(answer.as_ptr().cast(), size_of_val(answer)) })
    }

    /// Answers with one value.
    ///
    /// # Errors
    /// As [`Self::bytes`].
    pub fn value<T: Plain>(self, answer: T) -> Result<Answered, cl_int> {
        self.slice(&[answer])
    }

    /// Answers with a string, to which it adds the NUL.
    ///
    /// # Errors
    /// As [`Self::bytes`].
    pub fn string(self, answer: &str) -> Result<Answered, cl_int> {
        let mut bytes = Vec::with_capacity(answer.len() + 1);
        bytes.extend_from_slice(answer.as_bytes());
        bytes.push(0);
        self.bytes(&bytes)
    }

    /// The array of pointers that the application has laid out for CL_PROGRAM_BINARIES: `count` of them, to be filled
    /// by the caller where they are not null. `None` if only the size was asked for.
    ///
    /// # Errors
    /// As [`Self::bytes`].
    pub fn pointers(self, count: usize) -> Result<(Option<Vec<*mut u8>>, Answered), cl_int> {
        let size = count * size_of::<*mut u8>();
        let pointers = if self.value.is_null() {
            None
        } else if self.room < size {
            return Err(CL_INVALID_VALUE);
        } else {
            let first = self.value.cast::<*mut u8>();
            // SAFETY: `value` holds at least `size` bytes, which the application has filled with pointers; reading is
            // unaligned because nothing says that they are.
            Some((0..count).map(|i| unsafe { first.add(i).read_unaligned() }).collect())
        };
        Ok((pointers, self.size(size)?))
    }

    fn size(self, size: usize) -> Result<Answered, cl_int> {
        if !self.size_ret.is_null() {
            // SAFETY: valid for a write, by the promise of `new`.
            unsafe { self.size_ret.write(size) };
        }
        Ok(Answered(()))
    }
}

#[cfg(test)]
mod tests {
    use std::ptr;

    use super::*;

    #[test]
    fn answers_fit_or_are_refused() {
        let (mut room, mut size) = ([0xAAu8; 8], 0);
        let mut ask = |bytes: usize, null: bool| {
            let value = if null { ptr::null_mut() } else { room.as_mut_ptr().cast() };
            // SAFETY: both are valid for as much as is said of them.
            let answer = unsafe { Info::new(bytes, value, &mut size) }.string("abc").map(|_| ());
            (answer, std::mem::take(&mut size), room)
        };
        assert_eq!(ask(0, true), (Ok(()), 4, [0xAA; 8]), "the size alone");
        assert_eq!(ask(3, false), (Err(CL_INVALID_VALUE), 0, [0xAA; 8]), "too small");
        assert_eq!(ask(8, false), (Ok(()), 4, *b"abc\0\xAA\xAA\xAA\xAA"), "not a byte more than the answer");
    }

    #[test]
    fn nothing_need_be_wanted() {
        // SAFETY: null.
        assert!(unsafe { Info::new(0, ptr::null_mut(), ptr::null_mut()) }.value(7u32).is_ok());
    }
}
