//! The one binary of Ropeway.
#![forbid(unsafe_code)]

mod args;
mod broker;
mod devices;
mod doctor;
mod failure;
mod generate;
mod info;
mod local;
mod log;
mod look;
mod places;
mod private_folder;
mod probe;
mod run;
mod serve;
mod table;
mod ticket;
mod tunnel;
mod vendors;

use std::process::ExitCode;

use clap::Parser;

use crate::args::{Cli, Command};
use crate::failure::Failure;

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Serve(args) => serve::serve(*args),
        Command::Local(args) => local::local(args),
        Command::Tunnel(args) => tunnel::tunnel(&args),
        Command::Look { milliseconds } => look::look(milliseconds),
        Command::Worker(args) => return finish(serve::worker(args)),
        Command::Completions { shell } => generate::completions(shell),
        Command::Man { folder } => generate::man(&folder),
        Command::Run(args) => return finish(run::run(&args)),
        Command::Broker(args) => broker::broker(args),
        Command::Dra(args) => broker::dra(args),
        Command::Hold(args) => broker::hold(&args),
        Command::Lease(args) => broker::lease(&args),
        Command::Queue(args) => broker::queue(&args),
        Command::Ticket(args) => ticket::ticket(&args),
        Command::Join(args) => ticket::join(&args),
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
