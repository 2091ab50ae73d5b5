//! `ropeway run`.

use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use ropeway_client::config::Config;
use ropeway_transport::Endpoint;

use crate::args::{RunArgs, flatten};
use crate::broker::run_with_lease;
use crate::devices::require_servers;
use crate::failure::Failure;
use crate::{places, vendors};

/// Replaces this process with the program, which sees Ropeway's devices in its OpenCL; one with a lease is waited for,
/// and its exit code returned.
pub fn run(args: &RunArgs) -> Result<ExitCode, Failure> {
    let asked = flatten(&args.servers);
    let mut config = Config::load();
    config.discover |= args.discover;
    // A missing server is reported here; the library itself reads the configuration again.
    let leases = args.want.want.is_some() || !args.broker.broker.is_empty();
    if !leases {
        require_servers(&asked, &config)?;
    }
    // The library takes a list in the environment as complete, so the list includes the configured servers where they
    // are wanted.
    let mut list = if asked.is_empty() && args.discover { config.servers } else { asked }
        .iter()
        .map(Endpoint::with_secret)
        .collect::<Vec<_>>();
    if args.discover {
        list.push("auto".to_owned());
    }
    let list = list.join(",");
    let library = places::library()
        .map_err(|error| Failure::new(format!("cannot find out where this program is: {error}")))?
        .ok_or_else(|| {
            Failure::new(format!(
                "{} is neither beside this program nor installed with it; build it with `cargo build --release`, or install the package again",
                places::LIBRARY
            ))
        })?;
    let vendors = vendors::prepare(&library, args.only)
        .map_err(|error| Failure::new(format!("cannot make a folder of .icd files: {error}")))?;

    let (program, rest) = args.program.split_first().ok_or_else(|| Failure::new("no program is given"))?;
    let mut command = Command::new(program);
    command.args(rest);
    if let Some(native) = std::env::var_os("OCL_ICD_VENDORS") {
        command.env(vendors::NATIVE_VENDORS, native);
    }
    // Both loaders read this; older Khronos loaders put a file's name right behind it, so it has to end with a slash.
    // ocl-icd prefers the other name where both are set.
    command.env("OCL_ICD_VENDORS", vendors.join("")).env_remove("OPENCL_VENDOR_PATH");
    if args.only {
        // The Khronos loader adds these to what it finds in the folder.
        command.env_remove("OCL_ICD_FILENAMES");
    }
    if !list.is_empty() {
        command.env("ROPEWAY_SERVERS", list);
    }
    if args.per_platform {
        command.env("ROPEWAY_PLATFORMS", "per-platform");
    }
    if leases {
        return run_with_lease(command, (&args.broker, &args.want));
    }
    let error = command.exec();
    let name = program.to_string_lossy();
    Err(Failure::new(match error.kind() {
        ErrorKind::NotFound => format!("cannot run {name}: there is no such program"),
        ErrorKind::PermissionDenied => format!("cannot run {name}: it is not a program that this user may run"),
        _ => format!("cannot run {name}: {error}"),
    }))
}
