//! The planner's questions and answers.

use std::ops::Range;

/// A home's number in its context.
pub type Home = usize;

/// How a command uses a range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Use<E> {
    /// It may read any of it.
    Read,
    /// It may read and write any of it.
    Update(By<E>),
    /// It writes all of it and reads nothing.
    Overwrite(By<E>),
    /// Its previous contents are not needed by this command or any later one.
    Discard(By<E>),
}

/// A command that writes or discards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct By<E> {
    /// Ends when it has done so.
    pub event: E,
    /// The in-order queue of the command, if any: the command ends after everything enqueued there before.
    pub lane: Option<u64>,
}

/// Bytes that go from one home to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transfer<E> {
    /// Where they come from.
    pub from: Home,
    /// Which they are, in order; none touch.
    pub ranges: Vec<Range<u64>>,
    /// Events that must end before the transfer starts: mostly of the source home, but also earlier arrivals at the
    /// target home, and commands of any home that have discarded something there.
    pub after: Vec<E>,
    /// Ends when all have arrived.
    pub arrival: E,
}

/// The plan for a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan<E> {
    /// The home gets the first contents, which the client has kept until now.
    pub first_contents: bool,
    /// Transfers to the command's home.
    pub transfers: Vec<Transfer<E>>,
    /// Events that the command must wait for beside its wait list: mostly of its own home.
    pub waits: Vec<E>,
}

/// The events that a plan names.
pub trait Events<E> {
    /// Makes an event of the home that the plan is for, for an arrival.
    fn arrival(&mut self) -> E;
    /// The known outcome of an event: `None` as long as it is not known to have ended, else whether it ended
    /// successfully. An event's end may become known any time later, or never.
    fn outcome(&self, event: &E) -> Option<bool>;
    /// Whether bytes from a home are known to take a detour, so that another source is preferred.
    fn is_far(&self, _from: Home) -> bool {
        false
    }
}

/// The only home that held what a command needs is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost;
