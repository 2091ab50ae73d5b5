//! The program's messages about requests that it cannot carry out.

use std::fmt;

/// One sentence for a person; the exit code is 1.
#[derive(Debug)]
pub struct Failure(String);

impl Failure {
    /// A failure that is explained by `text`.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        Self(error.to_string())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
