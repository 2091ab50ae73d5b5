//! Links to servers: frames out and in, pending replies, ends of commands, bulk data.
//!
//! [`connection`] is one link; [`outbox`] gathers what goes out, [`inbox`] reads what comes in and [`receive`] hands it on. [`replies`] waits for
//! answers, [`completions`] for the ends of commands; [`transfers`] has the bulk bytes, [`in_flight`] the writes that outlast their call. A
//! [`background`] thread does what must happen while no thread of the application is in here, and [`deferred_flush`] sends for many links at once.

mod background;
pub(crate) mod completions;
pub(crate) mod connection;
mod deferred_flush;
pub(crate) mod greet;
pub(crate) mod in_flight;
mod inbox;
pub(crate) mod open;
mod outbox;
pub(crate) mod peers;
mod receive;
pub(crate) mod replies;
pub(crate) mod transfers;

pub use connection::Connection;
pub use greet::greet;
pub use open::OpenError;
