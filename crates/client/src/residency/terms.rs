//! What the planner is asked, and what it answers.

use std::ops::Range;

/// A home's number in its context.
pub type Home = usize;

/// What a command does with a range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Use<E> {
    /// It may read any of it.
    Read,
    /// It may read and write any of it.
    Update(By<E>),
    /// It writes all of it and reads nothing.
    Overwrite(By<E>),
    /// It needs nothing of what it held, nor does anybody after it.
    Discard(By<E>),
}

/// A command that writes or discards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct By<E> {
    /// Ends when it has done so.
    pub event: E,
    /// Names the in-order queue that it is on, where it ends after all that was enqueued there before.
    pub lane: Option<u64>,
}

/// Bytes that go from one home to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transfer<E> {
    /// Where they come from.
    pub from: Home,
    /// Which they are, in order; none touch.
    pub ranges: Vec<Range<u64>>,
    /// Events that must have ended before: mostly of the home that they come from, but also earlier arrivals at the one they go to, and
    /// commands of any that have discarded something there.
    pub after: Vec<E>,
    /// Ends when all have arrived.
    pub arrival: E,
}

/// What must happen for a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan<E> {
    /// The home gets the first contents, which the client has kept until now.
    pub first_contents: bool,
    /// What must be moved to the command's home.
    pub transfers: Vec<Transfer<E>>,
    /// What the command must wait for, beside what the application says: mostly events of its home.
    pub waits: Vec<E>,
}

/// The events that a plan names.
pub trait Events<E> {
    /// Makes an event of the home that the plan is for, for an arrival.
    fn arrival(&mut self) -> E;
    /// Whether an event is known to have ended, so that nothing needs to wait for it, and whether well. That may be known at any time after it has,
    /// or never.
    fn outcome(&self, event: &E) -> Option<bool>;
    /// Whether what comes from a home is known to come by a detour, so that it is rather taken from another one.
    fn is_far(&self, _from: Home) -> bool {
        false
    }
}

/// The only home that held what a command needs is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost;
