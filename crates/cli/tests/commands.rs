//! The commands other than `serve`, as a person uses them.

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use common::Server;

/// A folder of this test's own, removed with it.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("ropeway-commands-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A command `ropeway` with no configuration other than `home`.
fn ropeway(home: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ropeway"));
    command.args(args).env_clear().env("PATH", "/usr/bin:/bin").env("HOME", home);
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Standard output of a command that succeeds.
fn stdout(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

/// Standard error of a command that fails with exit code `code`.
fn stderr(command: &mut Command, code: i32) -> String {
    let Output { status, stderr, .. } = command.output().unwrap();
    assert_eq!(status.code(), Some(code), "{command:?}: {}", text(&stderr));
    text(&stderr)
}

/// `ropeway run` needs a client library beside the binary; what is in it does not matter to these tests.
fn binary_with_library(folder: &Path) -> PathBuf {
    let binary = folder.join("ropeway");
    // By another process: a child that another test starts meanwhile would have the copy open for writing, and nobody
    // could start it then.
    assert!(Command::new("cp").arg(env!("CARGO_BIN_EXE_ropeway")).arg(&binary).status().unwrap().success());
    fs::write(folder.join("libropeway.so"), format!("OpenCL 3.0 Ropeway {}", env!("CARGO_PKG_VERSION"))).unwrap();
    binary
}

#[test]
fn devices_are_listed_with_their_link() {
    let server = Server::start(&[]);
    let home = Folder::new("devices");
    let url = server.endpoint.to_string();
    let table = stdout(ropeway(&home.0, &["devices"]).env("ROPEWAY_SERVERS", &url));
    let mut lines = table.lines();
    assert!(lines.next().unwrap().starts_with("SERVER"), "{table}");
    let row = lines.next().unwrap();
    assert!(row.starts_with(&url) && row.contains("B/s") && row.contains("OpenCL"), "{table}");

    let error = stderr(&mut ropeway(&home.0, &["devices", "--server", "127.0.0.1:1"]), 1);
    assert!(error.contains("tcp://127.0.0.1:1: it cannot be reached (connection refused)"), "{error}");
    let error = stderr(&mut ropeway(&home.0, &["devices"]), 1);
    assert!(error.contains("no server is configured"), "{error}");
}

#[test]
fn doctor_says_what_is_wrong_and_what_to_do() {
    let server = Server::start(&[]);
    let home = Folder::new("doctor");
    fs::create_dir_all(home.0.join(".config/ropeway")).unwrap();
    let config = home.0.join(".config/ropeway/ropeway.toml");
    fs::write(&config, format!("servers = ['{}']\n", server.endpoint)).unwrap();
    let binary = binary_with_library(&home.0);
    let doctor = |args: &[&str]| {
        let output = Command::new(&binary).arg("doctor").args(args).env("HOME", &home.0).output().unwrap();
        (output.status.code(), text(&output.stdout))
    };

    let (code, report) = doctor(&[]);
    assert!(report.contains(&format!("ok      configuration: 1 server from {}", config.display())), "{report}");
    assert!(report.contains(&format!("ok      server {}", server.endpoint)), "{report}");
    assert!(report.contains("libropeway.so (release "), "{report}");
    assert_eq!(code, Some(0), "{report}");

    // The three servers: a port on which nobody answers, a host that does not exist, and a service that speaks another
    // protocol.
    let other = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = other.local_addr().unwrap().port();
    std::thread::spawn(move || {
        use std::io::Write;
        while let Ok((mut stream, _)) = other.accept() {
            let _ = stream.write_all(b"SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n");
        }
    });
    let (code, report) = doctor(&["--server", "127.0.0.1:1,nosuch.invalid", "--server", &format!("127.0.0.1:{port}")]);
    assert_eq!(code, Some(1));
    for words in [
        "FAILED  server tcp://127.0.0.1:1: it cannot be reached (connection refused)",
        "start `ropeway serve` there",
        "FAILED  server tls://nosuch.invalid:7590: its host name cannot be resolved",
        "what answers there is not a Ropeway server",
        "another program listens there",
    ] {
        assert!(report.contains(words), "{words} in\n{report}");
    }

    fs::write(&config, "servers = ['http://x']\n").unwrap();
    let (code, report) = doctor(&[]);
    assert_eq!(code, Some(1));
    assert!(report.contains("ropeway.toml:1: 'http://x' is not a server address"), "{report}");

    fs::write(home.0.join("libropeway.so"), "OpenCL 3.0 Ropeway 0.0.1\0").unwrap();
    let (_, report) = doctor(&[]);
    assert!(report.contains("is release 0.0.1 and this program is"), "{report}");
}

#[test]
fn run_sets_what_the_program_needs() {
    let home = Folder::new("run");
    let binary = binary_with_library(&home.0);
    let icds = home.0.join("vendors");
    fs::create_dir_all(&icds).unwrap();
    fs::write(icds.join("other.icd"), "libother.so\n").unwrap();
    fs::write(icds.join("old.icd"), "/old/libropeway.so\n").unwrap();
    let run = |args: &[&str], script: &str| {
        let mut command = Command::new(&binary);
        command.arg("run").args(args).args(["--", "sh", "-c", script, "sh", "--only"]);
        command.env("HOME", &home.0).env("OCL_ICD_VENDORS", &icds).env_remove("XDG_RUNTIME_DIR");
        stdout(&mut command)
    };
    let seen = run(
        &["--server", "gpu1,gpu2:5", "--server", "unix:/run/r", "--per-platform"],
        "echo $ROPEWAY_SERVERS $ROPEWAY_PLATFORMS $1; ls $OCL_ICD_VENDORS; cat ${OCL_ICD_VENDORS}*.icd",
    );
    assert_eq!(
        seen,
        format!(
            "tls://gpu1:7590,tls://gpu2:5,unix:/run/r per-platform --only\nother.icd\nropeway.icd\nlibother.so\n{}\n",
            home.0.join("libropeway.so").display()
        )
    );
    let seen = run(&["--server", "gpu1", "--only"], "echo \"$ROPEWAY_PLATFORMS.\"; ls $OCL_ICD_VENDORS");
    assert_eq!(seen, ".\nropeway.icd\n");
}

#[test]
fn run_fails_in_one_sentence() {
    let home = Folder::new("sentence");
    let error = stderr(&mut ropeway(&home.0, &["run", "--", "true"]), 1);
    assert!(error.starts_with("ropeway: no server is configured; give --server URL"), "{error}");
    let binary = binary_with_library(&home.0);
    let error =
        stderr(Command::new(&binary).args(["run", "--server", "x", "--", "no-such-program"]).env("HOME", &home.0), 1);
    assert_eq!(error, "ropeway: cannot run no-such-program: there is no such program\n");
    fs::remove_file(home.0.join("libropeway.so")).unwrap();
    let error = stderr(Command::new(&binary).args(["run", "--server", "x", "--", "true"]).env("HOME", &home.0), 1);
    assert!(error.contains("libropeway.so is neither beside this program nor installed with it"), "{error}");
    stderr(&mut ropeway(&home.0, &["run", "--server", "http://x", "--", "true"]), 2);
}

#[test]
fn a_network_address_without_a_key_is_refused() {
    let home = Folder::new("network");
    let mut serve = ropeway(&home.0, &["serve", "--listen", "tcp://0.0.0.0:0"]);
    // There is no place for a key.
    serve.env_remove("HOME").env_remove("XDG_STATE_HOME").env_remove("STATE_DIRECTORY");
    let error = stderr(&mut serve, 1);
    assert!(error.contains("--plaintext-network") && error.lines().count() == 1, "{error}");
}

#[test]
fn completions_and_man_pages_come_from_the_definitions() {
    let home = Folder::new("generate");
    for shell in ["bash", "zsh", "fish"] {
        let script = stdout(&mut ropeway(&home.0, &["completions", shell]));
        assert!(script.contains("plaintext-network"), "{shell}");
    }
    let folder = home.0.join("man");
    stdout(&mut ropeway(&home.0, &["man", folder.to_str().unwrap()]));
    for page in ["ropeway.1", "ropeway-serve.1", "ropeway-run.1", "ropeway-devices.1", "ropeway-doctor.1"] {
        assert!(fs::read_to_string(folder.join(page)).unwrap().contains(".TH"), "{page}");
    }
    assert!(!folder.join("ropeway-worker.1").exists(), "a hidden command has a man page");
}
