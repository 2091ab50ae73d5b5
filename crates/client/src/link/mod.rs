//! Links to servers: frames out and in, pending replies, ends of commands, bulk data. Nothing here knows an OpenCL
//! object.
//!
//! From the lowest on:
//!
//! - [`channel`]: messages become bytes of the [`stream`] and bytes become frames, with [`outbox`] and [`inbox`];
//! - what a connection keeps: [`completions`] for those who are notified ([`completion`]), [`transfers`] and who is
//!   [using](in_use) their memory, pending [`calls`], writes [`in_flight`], the server's [`liveness`], other
//!   [`sessions`], the state of its [`background_io`] and of the [`deferred_flush`];
//! - [`connection`]: one link to one server, and posts;
//! - what happens over it: [`bulk`] data, or copies of it [`in_place`] or through [`slots`], [`waiting`], calls and their [`replies`], the
//!   [`ordering`] of commands behind in-flight writes, routes to [`peers`], and the messages that [`receive`] handles;
//! - its [`background`] thread, and how it is [`open`]ed and [`mod@greet`]ed.

mod background;
mod background_io;
mod bulk;
mod calls;
mod channel;
pub(crate) mod completion;
mod completions;
pub(crate) mod connection;
pub(crate) mod deferred_flush;
pub(crate) mod error;
pub(crate) mod greet;
pub(crate) mod in_flight;
mod in_place;
mod in_use;
mod inbox;
mod lanes;
mod liveness;
#[cfg(all(test, feature = "model"))]
mod model;
pub mod open;
mod opening;
pub(crate) mod ordering;
mod outbox;
pub(crate) mod peers;
mod receive;
pub(crate) mod replies;
mod sessions;
pub(crate) mod slots;
mod stream;
pub(crate) mod transfers;
mod waiting;
mod way;

pub use connection::Connection;
pub use error::OpenError;
pub use greet::greet;
pub use way::{Sockets, Way};
