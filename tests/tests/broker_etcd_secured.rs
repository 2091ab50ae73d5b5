//! Brokers on an etcd that wants certificates and passwords.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Output};
use std::time::Duration;

use ropeway_tests::broker::Broker;
use ropeway_tests::etcd::{Etcd, PASSWORD};
use ropeway_tests::places::ropeway;
use ropeway_tests::wait_for;

const LONG: Duration = Duration::from_secs(60);

/// The arguments that name these files.
fn certificates(etcd: &Etcd) -> Vec<String> {
    let files = etcd.files().map(|file| file.to_str().unwrap().to_owned());
    ["--etcd-ca", "--etcd-certificate", "--etcd-key"]
        .iter()
        .map(ToString::to_string)
        .zip(files)
        .flat_map(|(option, file)| [option, file])
        .collect()
}

/// The address with a user, who may have a password.
fn store(etcd: &Etcd, user: &str) -> String {
    format!("{}/rack", etcd.url().replace("etcd://", &format!("etcd://{user}@")))
}

/// A file with a password.
fn password_file(folder: &tempfile::TempDir, name: &str, password: &str) -> String {
    let path = folder.path().join(name);
    fs::write(&path, format!("{password}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    path.to_str().unwrap().to_owned()
}

/// A program gets a device.
fn lends(broker: &Broker, ticket: &str) {
    broker.run(ticket, "cpu", "true", &[]).success();
}

/// Nobody who looks at the processes or reads the log learns the password.
fn keeps_its_secret(broker: &mut Broker) {
    let pid = broker.daemon().pid();
    let started = fs::read(format!("/proc/{pid}/cmdline")).unwrap();
    let started = String::from_utf8_lossy(&started).into_owned();
    assert!(started.contains("--etcd-ca") && !started.contains("s3cret"), "{started}");
    let log = broker.daemon().log();
    assert!(!log.contains("s3cret"), "{log}");
}

#[test]
fn brokers_show_etcd_their_certificates_and_passwords() {
    let etcd = Etcd::start_secured();
    let folder = tempfile::tempdir().unwrap();
    let file = password_file(&folder, "password", PASSWORD);
    let files = certificates(&etcd);
    let files: Vec<_> = files.iter().map(String::as_str).collect();
    let named = store(&etcd, "broker");
    let options = [&["--store", &named, "--etcd-password", &file][..], &files].concat();
    let mut first = Broker::start_with(&options);
    wait_for("a leader", LONG, || first.leads().then_some(()));
    let mut second = first.start_another(None);
    let (rack, alice) = (first.ticket("rack", &["--registers"]), first.ticket("alice", &[]));
    first.copy_clients_to(&second);
    let both = |ticket: &str| format!("{ticket},{}", first.as_ticket_of(ticket, &second));
    let (rack, alice) = (both(&rack), both(&alice));
    let _server = first.server_for(&rack, 1);
    lends(&first, &alice);
    keeps_its_secret(&mut first);
    keeps_its_secret(&mut second);

    // Who they are has to be proved anew.
    etcd.forget_tokens();
    wait_for("a device", LONG, || first.run(&alice, "cpu", "true", &[]).status.success().then_some(()));
    first.kill();
    lends(&second, &alice);
    keeps_its_secret(&mut second);
    drop(second);

    // The address of the environment may have the password.
    let named = store(&etcd, &format!("broker:{PASSWORD}")).replace("/rack", "/rack/other");
    let mut broker = Broker::start_with_both(&files, &[("ROPEWAY_STORE", &named)]);
    let _server = broker.server(1);
    lends(&broker, &broker.ticket("bob", &[]));
    keeps_its_secret(&mut broker);
}

#[test]
fn a_broker_that_etcd_does_not_know_says_so() {
    let etcd = Etcd::start_secured();
    let folder = tempfile::tempdir().unwrap();
    let right = password_file(&folder, "right", PASSWORD);
    let wrong = password_file(&folder, "wrong", "s3cret and wrong");
    let readable = password_file(&folder, "readable", PASSWORD);
    fs::set_permissions(&readable, fs::Permissions::from_mode(0o644)).unwrap();
    let files = certificates(&etcd);
    let files: Vec<_> = files.iter().map(String::as_str).collect();
    let told = |options: &[&str]| {
        let mut command = Command::new(ropeway());
        command.args(["broker", "--listen", "tls://127.0.0.1:0", "--state"]).arg(folder.path().join("state"));
        let Output { status, stderr, .. } = command.args(options).output().unwrap();
        let text = String::from_utf8(stderr).unwrap();
        assert!(!status.success() && !text.contains("s3cret"), "{text}");
        text
    };
    let known = store(&etcd, "broker");
    let with = |store: &str, options: &[&str]| told(&[&["--store", store], options, &files].concat());
    let text = with(&known, &["--etcd-password", &wrong]);
    assert!(text.contains("authentication failed, invalid user ID or password"), "{text}");
    let text = with(&known, &["--etcd-password", &readable]);
    assert!(text.contains("others can read or write it"), "{text}");
    let text = with(&known, &[]);
    assert!(text.contains("the user 'broker' of etcd has no password") && text.contains("--etcd-password"), "{text}");
    let text = with(&etcd.url(), &[]);
    assert!(text.contains("etcd at 127.0.0.1:"), "{text}");
    // Its user has the keys of one pool.
    let text = with(&known.replace("/rack", "/other"), &["--etcd-password", &right]);
    assert!(text.contains("permission denied"), "{text}");
    // Everybody could see it.
    let text = with(&store(&etcd, "broker:s3cret"), &[]);
    assert!(text.contains("everybody on this machine can see what a command is started with"), "{text}");
    // Without a certificate, nobody is spoken with.
    let text = told(&["--store", &known, "--etcd-password", &right, "--etcd-ca", files[1]]);
    assert!(text.contains("etcd at 127.0.0.1:"), "{text}");
    let text = told(&["--store", &known, "--etcd-password", &right]);
    assert!(text.contains("etcd at 127.0.0.1:"), "{text}");
}
