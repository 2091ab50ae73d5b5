//! What must be brought to a home before a command can run there, and the route it takes.

pub(crate) mod prepare;
pub(crate) mod relay;
