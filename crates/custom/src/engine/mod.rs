//! Commands: what they wait for, who runs them, how they end.
//!
//! A command is ready when all that it waits for has ended. What is quickly done then runs in the thread that noticed it; a kernel or
//! a long copy goes to a thread of the [`pool`]. So no thread waits for another on the way of a small command, and a command that waits for
//! a stalled stream holds up nothing but what waits for it.

pub mod event;
mod pool;
pub mod queue;
