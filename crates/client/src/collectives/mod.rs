//! Collective operations over the devices of a context: data moved between them and combined, with ordinary commands.
//!
//! [`schedule`] says what is done, step by step ([`plan`]); [`hazards`] which steps wait for which; [`run`] enqueues
//! them.

mod hazards;
mod moving;
mod operators;
mod plan;
mod reducing;
mod run;
pub mod schedule;
mod scratch;
#[cfg(test)]
mod tests;

pub use operators::{Element, Function, Operator};
pub use run::{Call, Piece, ScratchCache, enqueue};
pub use schedule::Operation;
