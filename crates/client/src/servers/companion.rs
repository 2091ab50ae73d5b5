//! A process beside the program that does something for it, and ends when the program does, however that happens: it
//! reads from a pipe whose other end only the program has. It is not the program's child, because a program may wait for
//! its children: the program `ropeway` that is started here starts it and ends.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use ropeway_transport::inherited::Kept;
use rustix::pipe::PipeFlags;

use crate::servers::binary;

/// A running one; it ends when this is dropped.
#[derive(Debug)]
pub(super) struct Companion {
    /// Goes before the descriptor.
    _kept: Kept,
    /// This process's end of the pipe; no other process has it.
    _alive: OwnedFd,
}

impl Companion {
    /// Starts `ropeway` with these arguments, the program at `binary` or where it is found, with its log at `log`; returns
    /// it with the rest of the line that begins with `wanted`, and `None` where it has ended without such a line.
    ///
    /// # Errors
    /// There is no such program, or it does not say that within `patience`.
    pub(super) fn start(
        binary: Option<&Path>,
        args: &[&str],
        log: Stdio,
        (wanted, patience): (&str, Duration),
    ) -> io::Result<Option<(Self, String)>> {
        let binary = match binary {
            Some(binary) => binary.to_owned(),
            None => binary::find()?,
        };
        let mut command = Command::new(&binary);
        let (far, alive) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        let kept = Kept::from_children(&alive);
        command.args(args).stdin(Stdio::from(far)).stdout(Stdio::piped()).stderr(log);
        let rest = |line: &str| line.strip_prefix(wanted).map(str::to_owned);
        let said = binary::run_until(command, &binary, Instant::now() + patience, rest)?;
        Ok(said.map(|said| (Self { _kept: kept, _alive: alive }, said)))
    }
}
