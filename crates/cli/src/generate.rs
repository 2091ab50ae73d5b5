//! Shell completions and man pages, from the command line's one declaration.

use std::io;
use std::path::Path;

use clap::CommandFactory;

use crate::args::Cli;
use crate::failure::Failure;

/// Prints a shell's completion script.
pub fn completions(shell: clap_complete::Shell) -> Result<(), Failure> {
    clap_complete::generate(shell, &mut Cli::command(), "ropeway", &mut io::stdout());
    Ok(())
}

/// Writes a man page for the program and each of its commands.
pub fn man(folder: &Path) -> Result<(), Failure> {
    let written = std::fs::create_dir_all(folder).and_then(|()| clap_mangen::generate_to(Cli::command(), folder));
    written.map_err(|error| Failure::new(format!("cannot write man pages to {}: {error}", folder.display())))
}
