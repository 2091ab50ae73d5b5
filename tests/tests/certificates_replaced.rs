//! A server's certificate files while it runs: what is replaced is in force at once, what is of no use never is, and who
//! is revoked is out.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ropeway_tests::authority::{Authority, Issued, text};
use ropeway_tests::encrypted::Encrypted;
use ropeway_tests::places::c_program;
use ropeway_tests::program::Program;
use ropeway_tests::wait_for;
use tempfile::TempDir;

/// What a server says when new files are in force, and when they are not.
const AGAIN: &str = "the certificates were read again";
const STAY: &str = "the certificates stay as they were";

/// A server whose certificate files are in a folder of their own.
struct Lab {
    server: Encrypted,
    files: TempDir,
}

impl Lab {
    fn start(authority: &Authority, list: Option<&Path>) -> Self {
        let files = tempfile::tempdir().unwrap();
        let path = |name: &str| files.path().join(name);
        let own = authority.issue("server", "/CN=gpu.lab", "DNS:gpu.lab,IP:127.0.0.1", 30);
        put(&own.certificate, &path("server.pem"));
        put(&own.key, &path("server.key"));
        put(&authority.certificate(), &path("ca.pem"));
        let [certificate, key, ca, crl] = ["server.pem", "server.key", "ca.pem", "crl.pem"].map(path);
        let mut args = vec!["--certificate", text(&certificate), "--key", text(&key), "--client-ca", text(&ca)];
        if let Some(list) = list {
            put(list, &crl);
            args.extend(["--client-crl", text(&crl)]);
        }
        Self { server: Encrypted::start_with(&args), files }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.files.path().join(name)
    }

    /// How often it has said so.
    fn times(&self, line: &str) -> usize {
        self.server.server.log().matches(line).count()
    }

    /// Waits until it has said so once more than `before`.
    fn awaits(&self, line: &str, before: usize) {
        wait_for(line, Duration::from_secs(10), || (self.times(line) > before).then_some(()));
        assert_eq!(self.times(line), before + 1, "{}", self.server.server.log());
    }

    /// A program that shows this certificate, and takes servers of this authority.
    fn program(&self, name: &str, authority: &Authority, own: &Issued) -> Program {
        Program::remote(c_program(name), self.server.server.url())
            .env("ROPEWAY_CA", authority.certificate())
            .env("ROPEWAY_CERTIFICATE", &own.certificate)
            .env("ROPEWAY_KEY", &own.key)
    }

    /// What a program is told that gets no device.
    fn refusal(&self, authority: &Authority, own: &Issued) -> String {
        let outcome = self.program("vector_add", authority, own).run();
        assert!(!outcome.status.success());
        outcome.stderr
    }
}

/// Replaces a file by a copy of another, with its mode, as a whole.
fn put(from: &Path, to: &Path) {
    let partial = to.with_extension("partial");
    fs::copy(from, &partial).unwrap();
    fs::rename(partial, to).unwrap();
}

#[test]
fn a_new_certificate_is_shown_without_a_restart_and_one_of_no_use_never() {
    let (lab, others) = (Authority::new(), Authority::named("/CN=Others"));
    let server = Lab::start(&lab, None);
    let alice = lab.issue("alice", "/CN=alice", "", 30);
    let works = || server.program("vector_add", &lab, &alice).run().success();
    works();
    // Of another authority, with its key: the client sees who shows it.
    let new = others.issue("new", "/CN=gpu.lab", "IP:127.0.0.1", 30);
    let stays = server.times(STAY);
    put(&new.certificate, &server.file("server.pem"));
    // Its key is not there yet.
    server.awaits(STAY, stays);
    assert!(server.server.server.log().contains("it is not that of"), "{}", server.server.server.log());
    works();
    let again = server.times(AGAIN);
    put(&new.key, &server.file("server.key"));
    server.awaits(AGAIN, again);
    let told = server.refusal(&lab, &alice);
    assert!(told.contains("its certificate is from an authority that is not among those of ROPEWAY_CA"), "{told}");

    // Written in its place, not replaced; others may read the key; back again.
    let own = lab.issue("server2", "/CN=gpu.lab", "IP:127.0.0.1", 30);
    let stays = server.times(STAY);
    fs::write(server.file("server.pem"), "nothing").unwrap();
    server.awaits(STAY, stays);
    fs::set_permissions(&own.key, fs::Permissions::from_mode(0o644)).unwrap();
    put(&own.key, &server.file("server.key"));
    server.awaits(STAY, stays + 1);
    assert!(server.server.server.log().contains("others can read or write it"), "{}", server.server.server.log());
    fs::write(server.file("server.pem"), fs::read(&own.certificate).unwrap()).unwrap();
    let again = server.times(AGAIN);
    fs::set_permissions(server.file("server.key"), fs::Permissions::from_mode(0o600)).unwrap();
    server.awaits(AGAIN, again);
    works();
}

#[test]
fn clients_of_an_authority_that_is_taken_out_go_and_those_of_a_new_one_come() {
    let (lab, others) = (Authority::new(), Authority::named("/CN=Others"));
    let server = Lab::start(&lab, None);
    let (alice, bob) = (lab.issue("alice", "/CN=alice", "", 30), others.issue("bob", "/CN=bob", "", 30));
    // Bob takes the server's authority, which is not his.
    let by_bob = |name: &str| server.program(name, &lab, &bob);
    assert!(!by_bob("vector_add").run().status.success());
    let mut running = server.program("held", &lab, &alice).start();
    assert_eq!(running.line(), "ready");
    let worker = server.server.server.worker_of(running.pid());
    let both = [lab.certificate(), others.certificate()].map(|file| fs::read(file).unwrap()).concat();
    let again = server.times(AGAIN);
    // A link in the file's place, as some who renew certificates have it.
    let elsewhere = tempfile::tempdir().unwrap();
    let target = elsewhere.path().join("both.pem");
    fs::write(&target, both).unwrap();
    fs::remove_file(server.file("ca.pem")).unwrap();
    symlink(&target, server.file("ca.pem")).unwrap();
    server.awaits(AGAIN, again);
    by_bob("vector_add").run().success();
    assert!(server.server.server.workers().contains(&worker));
    put(&others.certificate(), &target);
    wait_for("end of the session", Duration::from_secs(10), || {
        (!server.server.server.workers().contains(&worker)).then_some(())
    });
    running.kill();
    server.server.server.expect_log("is not among --client-ca any more");
    by_bob("vector_add").run().success();
    let told = server.refusal(&lab, &alice);
    assert!(told.contains("its certificate is from an authority that it does not know"), "{told}");
}

#[test]
fn a_revoked_certificate_is_refused_and_its_sessions_end() {
    let (lab, namesake) = (Authority::new(), Authority::new());
    let [alice, bob, carol] = ["alice", "bob", "carol"].map(|name| lab.issue(name, &format!("/CN={name}"), "", 30));
    let server = Lab::start(&lab, Some(&lab.revoke(&[&carol])));
    let told = server.refusal(&lab, &carol);
    assert!(told.contains("its certificate was revoked; ask its authority for another"), "{told}");
    let start = |own: &Issued| {
        let mut running = server.program("held", &lab, own).start();
        assert_eq!(running.line(), "ready");
        let worker = server.server.server.worker_of(running.pid());
        (running, worker)
    };
    let ((of_alice, hers), (of_bob, his)) = (start(&alice), start(&bob));
    let list = server.file("crl.pem");
    // Of no use: none at all, and another authority's of the same name.
    for (wrong, why) in [
        (lab.certificate(), "there is no list of revoked certificates in it"),
        (namesake.revoke(&[]), "a list in it is not signed by the authority that it names"),
    ] {
        let stays = server.times(STAY);
        put(&wrong, &list);
        server.awaits(STAY, stays);
        assert!(server.server.server.log().contains(why), "{}", server.server.server.log());
        server.refusal(&lab, &carol);
    }
    let new = lab.revoke(&[&alice]);
    let begun = Instant::now();
    put(&new, &list);
    wait_for("end of the session", Duration::from_secs(10), || {
        (!server.server.server.workers().contains(&hers)).then_some(())
    });
    eprintln!("her session has ended after {:?}", begun.elapsed());
    server.server.server.expect_log("this client's certificate was revoked; ask for another");
    assert!(server.server.server.workers().contains(&his));
    of_alice.kill();
    of_bob.kill();
    for revoked in [&alice, &carol] {
        let told = server.refusal(&lab, revoked);
        assert!(told.contains("its certificate was revoked"), "{told}");
    }
    server.program("vector_add", &lab, &bob).run().success();
}
