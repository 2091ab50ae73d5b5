//! `ropeway doctor`: one line for each check, and for each failure what to do.

mod files;
mod lending;

use std::path::{Path, PathBuf};

use ropeway_client::config::{Config, FILE_NAME, SYSTEM_FOLDER, Source};

use crate::args::{DoctorArgs, flatten};
use crate::devices::{open_all, servers_and_strangers};
use crate::failure::Failure;
use crate::info;
use crate::places::{self, ICD_FILE, LIBRARY, LOADER, VENDORS};

/// The findings so far.
#[derive(Default)]
struct Findings {
    failed: usize,
}

impl Findings {
    fn ok(&mut self, what: &str, text: &str) {
        println!("ok      {what}: {text}");
    }

    /// Records a finding that is not an error but good to know.
    fn note(&mut self, what: &str, text: &str, advice: &str) {
        println!("note    {what}: {text}\n        -> {advice}");
    }

    fn failed(&mut self, what: &str, text: &str, advice: &str) {
        self.failed += 1;
        println!("FAILED  {what}: {text}\n        -> {advice}");
    }
}

/// Checks everything; an error says how many checks failed.
pub fn doctor(args: &DoctorArgs) -> Result<(), Failure> {
    let mut findings = Findings::default();
    loader(&mut findings);
    let library = library(&mut findings);
    icd_file(&mut findings, library.as_deref());
    let config = Config::load();
    configuration(&mut findings, &config, !args.servers.is_empty());
    lending::check(&mut findings, &config);
    files::tickets(&mut findings, &config);
    files::server(&mut findings, args.state.as_deref());
    let servers = match servers_and_strangers(flatten(&args.servers), &config) {
        Ok((servers, strangers)) => {
            for stranger in strangers {
                findings.note(
                    &format!("server {}", stranger.address()),
                    &format!("'{}' announces itself on the local network, and is not used", stranger.found.name),
                    "put its network or its name into `trusted` in ropeway.toml, or into ROPEWAY_TRUSTED, if you trust it",
                );
            }
            servers
        }
        Err(_) if !config.discover => Vec::new(),
        Err(error) => {
            findings.failed(
                "discovery",
                &error.to_string(),
                "let UDP port 5353 through, or name the servers themselves",
            );
            config.servers.clone()
        }
    };
    for (endpoint, result) in open_all(&servers, &config) {
        let what = format!("server {endpoint}");
        match result {
            Ok(probe) => {
                let welcome = &probe.welcome;
                let devices: Vec<String> = welcome
                    .platforms
                    .iter()
                    .flat_map(|platform| &platform.devices)
                    .map(|device| format!("{} ({})", info::device_name(device), info::device_type(device)))
                    .collect();
                let ours = env!("CARGO_PKG_VERSION");
                if devices.is_empty() {
                    findings.failed(
                        &what,
                        "it answers, but has no OpenCL device",
                        "install an OpenCL driver there (`clinfo -l` on that machine must list a device), then start `ropeway serve` again",
                    );
                } else {
                    findings.ok(
                        &what,
                        &format!("Ropeway {}, through {}, {}", welcome.release, probe.medium(), devices.join(", ")),
                    );
                }
                if welcome.release != ours {
                    let text = format!("it is release {} and this is {ours}", welcome.release);
                    findings.note(
                        &what,
                        &text,
                        "they speak the same protocol; install the same release when convenient",
                    );
                }
            }
            Err(error) => findings.failed(&what, &error.to_string(), &error.advice(&endpoint)),
        }
    }
    match findings.failed {
        0 => Ok(()),
        1 => Err(Failure::new("1 check failed")),
        n => Err(Failure::new(format!("{n} checks failed"))),
    }
}

fn loader(findings: &mut Findings) {
    match places::find_shared(LOADER) {
        Some(path) => {
            findings.ok("OpenCL loader", &format!("{} ({})", path.display(), places::loader_kind(&path)));
        }
        None => findings.failed(
            "OpenCL loader",
            &format!("{LOADER} is not installed, so no OpenCL program can start"),
            "install one: apt install ocl-icd-libopencl1",
        ),
    }
}

/// The library that `ropeway run` uses.
fn library(findings: &mut Findings) -> Option<PathBuf> {
    let what = "client library";
    match places::library() {
        Ok(Some(path)) => {
            check_release(findings, what, &path);
            Some(path)
        }
        Ok(None) => {
            let text = format!("{LIBRARY} is neither beside this program nor installed with it");
            findings.failed(what, &text, "install the package again, or build it with `cargo build --release`");
            None
        }
        Err(error) => {
            findings.failed(what, &format!("cannot find out where this program is: {error}"), "is /proc mounted?");
            None
        }
    }
}

fn check_release(findings: &mut Findings, what: &str, path: &Path) {
    let ours = env!("CARGO_PKG_VERSION");
    match places::library_release(path) {
        Some(release) if release == ours => findings.ok(what, &format!("{} (release {release})", path.display())),
        Some(release) => findings.failed(
            what,
            &format!("{} is release {release} and this program is {ours}", path.display()),
            "install both from the same release",
        ),
        None => findings.failed(
            what,
            &format!("{} does not say which release of Ropeway it is", path.display()),
            "it is damaged or not Ropeway's; install the package again",
        ),
    }
}

fn icd_file(findings: &mut Findings, library: Option<&Path>) {
    let what = ".icd file";
    for variable in ["OCL_ICD_VENDORS", "OPENCL_VENDOR_PATH", "OCL_ICD_FILENAMES"] {
        if let Some(value) = std::env::var_os(variable) {
            let text = format!("{variable} is set to {}, so loaders look there", value.to_string_lossy());
            findings.note(what, &text, "unset it if programs do not find the platforms that you expect");
        }
    }
    let files = places::icd_files(Path::new(VENDORS)).unwrap_or_default();
    let ours: Vec<_> = files.into_iter().filter(|(_, library)| places::is_ours(library)).collect();
    for (file, named) in &ours {
        let what = format!("{what} {}", file.display());
        // A bare name is looked up as the loader does it.
        let path = if named.contains('/') { Some(PathBuf::from(named)) } else { places::find_shared(named) };
        match path.filter(|path| path.is_file()) {
            Some(path) => check_release(findings, &what, &path),
            None => findings.failed(
                &what,
                &format!("it names {named}, which does not exist"),
                "install the package again, or write the library's full path into the file",
            ),
        }
    }
    if ours.is_empty() {
        let text = format!("no file in {VENDORS} names {LIBRARY}, so programs do not see Ropeway by themselves");
        match library {
            Some(path) => findings.note(
                what,
                &text,
                &format!(
                    "start programs with `ropeway run`, or: echo {} | sudo tee {VENDORS}/{ICD_FILE}",
                    path.display()
                ),
            ),
            None => findings.failed(what, &text, "install the package"),
        }
    }
}

fn configuration(findings: &mut Findings, config: &Config, asked: bool) {
    let what = "configuration";
    for problem in &config.problems {
        findings.failed(what, problem, "correct it; until then that entry is left out");
    }
    match (&config.source, config.servers.len()) {
        (Source::Nothing, _) if asked => {}
        (Source::Nothing, _) => findings.failed(
            what,
            "no server is configured",
            &format!(
                "write servers = [\"tcp://HOST:7590\"] into ~/.config/ropeway/{FILE_NAME} or {SYSTEM_FOLDER}/{FILE_NAME}, or set ROPEWAY_SERVERS"
            ),
        ),
        (source @ Source::Broker, _) => findings.ok(what, &format!("servers come from {source}")),
        (source, 0) if config.discover => {
            findings.ok(what, &format!("servers of the local network, from {source}; looking for {:?}", config.discover_time));
        }
        (source, 0) => findings.failed(what, &format!("{source} names no server"), "add one, as in tcp://HOST:7590"),
        (source, n) => {
            let plural = if n == 1 { "server" } else { "servers" };
            let text = format!(
                "{n} {plural} from {source}; platforms: {}; connect time-out: {:?}",
                config.presentation, config.connect_timeout
            );
            findings.ok(what, &text);
        }
    }
}
