//! A state folder that others than its server's user can change: nobody is let in by what they write there.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::Path;
use std::process::Command;

use ropeway_tests::encrypted::Encrypted;
use ropeway_tests::places::{c_program, ropeway};
use ropeway_tests::program::Program;

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// What a server says that does not start with this folder.
fn refusal(state: &Path) -> String {
    // One that starts all the same ends with this, which has no end of its own.
    let mut serve = Command::new("timeout");
    serve.arg("10").arg(ropeway()).args(["serve", "--no-sandbox=groups", "--listen", "tls://127.0.0.1:0", "--state"]);
    let outcome = serve.arg(state).output().unwrap();
    let told = String::from_utf8_lossy(&outcome.stderr).into_owned();
    assert_eq!(outcome.status.code(), Some(1), "{told}");
    assert_eq!(told.trim_end().lines().count(), 1, "{told}");
    told
}

/// Who has this ticket is let in.
fn is_let_in(ticket: &str) -> bool {
    Program::remote(c_program("vector_add"), ticket).run().status.success()
}

#[test]
fn rules_that_others_can_write_to_change_nothing() {
    let encrypted = Encrypted::start();
    let ticket = encrypted.new_ticket("alice", &[]);
    let access = encrypted.state.join("access.toml");
    for (path, mode) in [(&access, 0o620), (&encrypted.state, 0o702)] {
        // By its path: the server may still be about to tell of the one before.
        let sentence = format!("{0}: others can write to it; chmod go-w {0}", path.display());
        let said = || encrypted.server.log().matches(&sentence).count();
        let (before, old) = (said(), fs::metadata(path).unwrap().permissions().mode() & 0o777);
        set_mode(path, mode);
        ropeway_tests::wait_for("refusal", std::time::Duration::from_secs(10), || (said() > before).then_some(()));
        let rules_stay = "the access rules stay as they were: will not use";
        assert!(encrypted.server.log().contains(rules_stay), "{}", encrypted.server.log());
        // What they then write is not taken in, ...
        let rules = fs::read_to_string(&access).unwrap();
        let before = said();
        fs::write(&access, "").unwrap();
        ropeway_tests::wait_for("refusal", std::time::Duration::from_secs(10), || (said() > before).then_some(()));
        assert!(is_let_in(&ticket));
        fs::write(&access, rules).unwrap();
        set_mode(path, old);
    }
    // ... and what is there once they cannot any more is.
    set_mode(&access, 0o620);
    fs::write(&access, "").unwrap();
    set_mode(&access, 0o600);
    encrypted.server.expect_log("the access rules were read again clients=0");
    assert!(!is_let_in(&ticket));
}

#[test]
fn a_server_does_not_start_with_what_others_can_change() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    fs::create_dir(&state).unwrap();
    let access = state.join("access.toml");
    fs::write(&access, "").unwrap();
    set_mode(&access, 0o606);
    let told = refusal(&state);
    assert!(told.contains(&format!("{0}: others can write to it; chmod go-w {0}", access.display())), "{told}");
    set_mode(&access, 0o600);
    set_mode(&state, 0o770);
    let told = refusal(&state);
    assert!(told.contains("will not use the state folder") && told.contains("others can write to it"), "{told}");
    set_mode(&state, 0o700);
    if !rustix::process::geteuid().is_root() {
        eprintln!("only root can give files away: what is somebody else's is not tried");
        return;
    }
    for path in [&access, &state] {
        chown(path, Some(12345), None).unwrap();
        let told = refusal(&state);
        assert!(told.contains(&format!("will not use {}: it is user 12345's", path.display())), "{told}");
        chown(path, Some(0), None).unwrap();
    }
}
