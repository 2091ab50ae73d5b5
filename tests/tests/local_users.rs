//! Who of a machine's users may use a server over its Unix socket.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use ropeway_tests::places::ropeway;
use ropeway_tests::server::Server;

/// The user and group of nobody, on every Debian.
const NOBODY: u32 = 65534;

/// What `ropeway devices` says to nobody.
fn devices(args: &[&str]) -> (bool, String) {
    // In a folder that everybody can enter.
    let folder = tempfile::Builder::new().permissions(fs::Permissions::from_mode(0o755)).tempdir().unwrap();
    let socket = folder.path().join("ropeway.sock");
    let program = folder.path().join("ropeway");
    fs::copy(ropeway(), &program).unwrap();
    let url = format!("unix:{}", socket.display());
    let _server = Server::start_with(&[&["--listen", &url], args].concat(), &[]);
    let asked = Command::new(&program)
        .args(["devices", "--no-measure", "--server", &url])
        .env_clear()
        .uid(NOBODY)
        .gid(NOBODY)
        .output()
        .unwrap();
    let said = [asked.stdout, asked.stderr].concat();
    (asked.status.success(), String::from_utf8_lossy(&said).into_owned())
}

#[test]
fn nobody_is_let_in_when_he_is_named() {
    assert!(rustix::process::geteuid().is_root(), "this test needs root, to be somebody else");
    // The socket is for whoever may write to its file.
    let (done, said) = devices(&[]);
    assert!(!done && said.contains("ermission denied"), "{said}");
    let (done, said) = devices(&["--allow-user", "root"]);
    assert!(!done && said.contains("user 65534 may not use this server"), "{said}");
    for named in [["--allow-user", "nobody"], ["--allow-group", "nogroup"], ["--allow-user", "65534"]] {
        let (done, said) = devices(&named);
        assert!(done, "{named:?}: {said}");
    }
}
