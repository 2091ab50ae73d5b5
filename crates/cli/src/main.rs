//! The one binary of Ropeway.
#![forbid(unsafe_code)]

mod args;
mod devices;
mod doctor;
mod generate;
mod info;
mod local;
mod log;
mod places;
mod probe;
mod run;
mod serve;
mod table;
mod vendors;

use std::fmt;
use std::process::ExitCode;

use clap::Parser;

use crate::args::{Cli, Command};

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

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Serve(args) => serve::serve(args),
        Command::Local(args) => local::local(args),
        Command::Worker(args) => return finish(serve::worker(args)),
        Command::Completions { shell } => generate::completions(shell),
        Command::Man { folder } => generate::man(&folder),
        Command::Run(args) => run::run(&args),
        Command::Devices(args) => devices::devices(&args),
        Command::Doctor(args) => doctor::doctor(&args),
    };
    finish(result.map(|()| ExitCode::SUCCESS))
}

fn finish(result: Result<ExitCode, Failure>) -> ExitCode {
    result.unwrap_or_else(|failure| {
        eprintln!("ropeway: {failure}");
        ExitCode::FAILURE
    })
}
