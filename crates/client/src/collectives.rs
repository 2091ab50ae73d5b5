//! Collective operations over the devices of a context: data moved between them and combined, with ordinary commands.
//!
//! [`schedule`] says what is done, step by step; [`hazards`] which steps wait for which; [`run`] enqueues them.

pub mod hazards;
mod moving;
pub mod operators;
mod reducing;
pub mod run;
pub mod schedule;
#[cfg(test)]
mod tests;

pub use operators::{Element, Function, Operator, Operators};
pub use run::{Call, Piece, enqueue};
pub use schedule::Operation;
