//! Streams that a server offers as devices. Nothing is here of OpenCL.
//!
//! | where | what |
//! |---|---|
//! | [`declaration`] | a stream as the operator's file names it: where it comes from, its format, how much of it is kept |
//! | [`cut`] | its bytes, cut into chunks |
//! | [`queue`] | the chunks that wait to be taken, and what becomes of those for which there is no room |
//! | [`ring`] | the same between a thread that reads the stream and the one who asks for its next chunk |
//! | `reading` | the thread that reads a file or a FIFO |
//! | [`feed`] | one stream for several processes: of a network, a camera or a FIFO there is only one reader |
//! | [`source`] | a stream as the one who asks for chunks sees it |
//! | [`cancel`] | how waiting for a chunk is ended |
#![deny(unsafe_code)]

pub mod cancel;
pub mod cut;
pub mod declaration;
pub mod feed;
pub mod queue;
mod reading;
pub mod ring;
pub mod source;

pub use cancel::Cancel;
pub use declaration::{Declaration, Format, Full, Origin, Table};
pub use source::{Ended, Source};
