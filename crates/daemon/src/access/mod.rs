//! Who may use a server, and how much of it.

mod certificates;
mod clients;
mod expiry;
mod guests;
mod machines;
mod shares;
mod state;
mod users;

pub use clients::{Clients, MAX_WEIGHT, Rules, from_now, parse_size, parse_time, size_text, text_of, time_text};
pub use expiry::server_clock;
pub use guests::Guests;
pub use machines::{Machine, Machines};
pub(crate) use shares::{Share, Shares};
pub use state::{Held, State, StateError};
pub use users::LocalUsers;
