//! `scripts/packages.sh`, which installs what tests need: on a machine that is played by programs that only say how they
//! were called.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use ropeway_tests::places::root;
use ropeway_tests::program::Program;

/// What is called in turn where these packages are wanted, and `here` is installed.
fn calls(wanted: &[&str], here: &str) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let (programs, log) = (folder.path().join("bin"), folder.path().join("log"));
    fs::create_dir(&programs).unwrap();
    let program = |name: &str, text: &str| {
        let path = programs.join(name);
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    };
    let says = |name: &str| format!("echo \"{name} $*\" >> '{}'", log.display());
    program("dpkg-query", &format!("for last; do :; done; [ \"$last\" = {here} ] && echo installed"));
    for name in ["apt-get", "systemctl"] {
        program(name, &says(name));
    }
    program("sudo", "exec \"$@\"");
    let path = format!("{}:/usr/bin:/bin", programs.display());
    Program::here(root().join("scripts/packages.sh")).args(wanted).env("PATH", path).run().success();
    read(&log)
}

fn read(log: &Path) -> Vec<String> {
    fs::read_to_string(log).unwrap_or_default().lines().map(str::to_owned).collect()
}

#[test]
fn installing_an_ssh_server_for_tests_does_not_make_the_machine_listen() {
    let calls = calls(&["gcc", "openssh-server"], "gcc");
    let at = |begin: &str| calls.iter().position(|call| call.starts_with(begin)).unwrap_or_else(|| panic!("{calls:?}"));
    assert!(at("systemctl mask ssh.service ssh.socket") < at("apt-get install"), "{calls:?}");
    assert!(calls[at("apt-get install")].ends_with(" openssh-server"), "{calls:?}");
}

#[test]
fn an_ssh_server_that_is_there_is_left_alone() {
    assert_eq!(calls(&["openssh-server"], "openssh-server"), [""; 0]);
    let calls = calls(&["gcc", "openssh-server"], "openssh-server");
    assert!(!calls.iter().any(|call| call.starts_with("systemctl")) && calls.len() == 2, "{calls:?}");
}
