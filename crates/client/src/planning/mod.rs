//! Planning: the contents that a command needs in its home, and the route that they take.

pub(crate) mod prepare;
pub(crate) mod relay;
