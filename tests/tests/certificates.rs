//! Certificates of an organisation's authority, beside tickets: who comes in, who does not, and what each is told.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use ropeway_tests::authority::{Authority, Issued, text};
use ropeway_tests::encrypted::Encrypted;
use ropeway_tests::places::{c_program, ropeway};
use ropeway_tests::program::Program;
use ropeway_tests::wait_for;
use ropeway_transport::tls::Identity;

/// A server of an organisation: its certificate is for this machine's loopback.
fn server(lab: &Authority) -> Encrypted {
    server_with(lab, &lab.issue("server", "/CN=gpu.lab", "DNS:gpu.lab,IP:127.0.0.1", 30))
}

fn server_with(lab: &Authority, own: &Issued) -> Encrypted {
    let authority = lab.certificate();
    Encrypted::start_with(&[
        "--certificate",
        text(&own.certificate),
        "--key",
        text(&own.key),
        "--client-ca",
        text(&authority),
    ])
}

/// A program that shows this certificate to a server, and takes those of this authority.
fn with_certificate(url: &str, authority: &Path, own: &Issued) -> Program {
    certified(c_program("vector_add"), url, authority, own)
}

fn certified(program: PathBuf, url: &str, authority: &Path, own: &Issued) -> Program {
    Program::remote(program, url)
        .env("ROPEWAY_CA", authority)
        .env("ROPEWAY_CERTIFICATE", &own.certificate)
        .env("ROPEWAY_KEY", &own.key)
}

/// What a program that gets no device is told.
fn refusal(program: Program) -> String {
    let outcome = program.run();
    assert!(!outcome.status.success());
    outcome.stderr
}

#[test]
fn a_certificate_lets_a_client_in_beside_tickets_and_its_rules_are_its_names() {
    let lab = Authority::new();
    let server = server(&lab);
    let url = server.server.url();
    let alice = lab.issue("alice", "/O=Lab/CN=Alice Smith", "", 30);
    with_certificate(url, &lab.certificate(), &alice).run().success();
    server.server.expect_log("name=\"Alice Smith\"");
    let ticket = server.new_ticket("bob", &[]);
    Program::remote(c_program("vector_add"), &ticket).run().success();
    // One whose certificate has no common name goes by its host's.
    let node = lab.issue("node", "/O=Lab", "DNS:node7.lab", 30);
    with_certificate(url, &lab.certificate(), &node).run().success();
    server.server.expect_log("name=\"node7.lab\"");

    // A section without a key is for whom a certificate names: a running session ends, and another does not begin.
    let running = certified(c_program("held"), url, &lab.certificate(), &alice).start();
    let worker = server.server.worker_of(running.pid());
    let file = server.state.join("access.toml");
    let rules = fs::read_to_string(&file).unwrap();
    fs::write(&file, format!("{rules}\n[clients.\"Alice Smith\"]\nexpires = \"2020-01-01T00:00:00Z\"\n")).unwrap();
    wait_for("end of the session", Duration::from_secs(10), || {
        (!server.server.workers().contains(&worker)).then_some(())
    });
    running.kill();
    let told = refusal(with_certificate(url, &lab.certificate(), &alice));
    assert!(told.contains("the time of 'Alice Smith' has expired at 2020-01-01T00:00:00Z"), "{told}");
    // So are limits, also those that come with a ticket.
    fs::write(&file, format!("{rules}\n[clients.\"Alice Smith\"]\nsessions = 0\n")).unwrap();
    wait_for("the limit", Duration::from_secs(10), || {
        let told = refusal(with_certificate(url, &lab.certificate(), &alice));
        told.contains("'Alice Smith' has 0 sessions there already, and may have 0").then_some(())
    });
    let bob = lab.issue("bob", "/CN=bob", "", 30);
    with_certificate(url, &lab.certificate(), &bob).run().success();
    fs::write(&file, rules.replace("[clients.bob]", "[clients.bob]\nsessions = 0")).unwrap();
    wait_for("the limit", Duration::from_secs(10), || {
        let outcome = with_certificate(url, &lab.certificate(), &bob).run();
        outcome.stderr.contains("'bob' has 0 sessions there already").then_some(())
    });
}

#[test]
fn wrong_certificates_are_refused_with_the_reason_at_both_ends() {
    let (lab, namesake, others) = (Authority::new(), Authority::new(), Authority::named("/CN=Others"));
    let server = server(&lab);
    let (url, authority) = (server.server.url(), lab.certificate());
    let alice = lab.issue("alice", "/CN=alice", "", 30);
    // Clients that the server does not take.
    for wrong in [&namesake, &others] {
        let mallory = wrong.issue("mallory", "/CN=alice", "", 30);
        let told = refusal(with_certificate(url, &authority, &mallory));
        assert!(told.contains("its certificate is from an authority that it does not know"), "{told}");
    }
    let old = lab.issue("old", "/CN=alice", "", -1);
    let told = refusal(with_certificate(url, &authority, &old));
    assert!(told.contains("its certificate has expired"), "{told}");
    let nobody = lab.issue("nobody", "/O=Lab", "", 30);
    let told = refusal(with_certificate(url, &authority, &nobody));
    assert!(!told.is_empty());
    server.server.expect_log("the client's certificate names nobody");
    // Without any, and without a ticket.
    let told = refusal(Program::remote(c_program("vector_add"), url));
    assert!(told.contains("there is no ticket for 127.0.0.1"), "{told}");

    // Servers that the client does not take.
    for wrong in [&namesake, &others] {
        let told = refusal(with_certificate(url, &wrong.certificate(), &alice));
        assert!(told.contains("its certificate is from an authority that is not among those of ROPEWAY_CA"), "{told}");
    }
    let elsewhere = server_with(&lab, &lab.issue("elsewhere", "/CN=x", "DNS:other.lab", 30));
    let told = refusal(with_certificate(elsewhere.server.url(), &authority, &alice));
    assert!(told.contains("its certificate is not for the name 127.0.0.1"), "{told}");
    let late = server_with(&lab, &lab.issue("late", "/CN=x", "IP:127.0.0.1", -1));
    let told = refusal(with_certificate(late.server.url(), &authority, &alice));
    assert!(told.contains("its certificate has expired: whoever runs it needs a new one"), "{told}");
    let tickets_only = Encrypted::start();
    let told = refusal(with_certificate(tickets_only.server.url(), &authority, &alice));
    assert!(told.contains("it may take tickets only"), "{told}");
    with_certificate(url, &authority, &alice).run().success();
}

#[test]
fn files_that_cannot_be_used_are_named() {
    let lab = Authority::new();
    let own = lab.issue("server", "/CN=gpu.lab", "IP:127.0.0.1", 30);
    let other = lab.issue("alice", "/CN=alice", "", 30);
    let server = server_with(&lab, &own);
    let (url, authority) = (server.server.url(), lab.certificate());
    let program = |certificate: &Path, key: &Path| {
        let issued = Issued { certificate: certificate.to_owned(), key: key.to_owned() };
        refusal(with_certificate(url, &authority, &issued))
    };
    let told = program(&other.certificate, &own.key);
    assert!(told.contains("it is not that of"), "{told}");
    let told = program(&other.key, &other.key);
    assert!(told.contains("there is no certificate in it") && told.contains("alice.key"), "{told}");
    let told = program(&other.certificate, &other.certificate.with_file_name("missing"));
    assert!(told.contains("cannot use the private key") && told.contains("missing"), "{told}");
    let partly = Program::remote(c_program("vector_add"), url).env("ROPEWAY_CA", &authority);
    let told = refusal(partly);
    assert!(told.contains("ROPEWAY_CERTIFICATE and ROPEWAY_KEY names none"), "{told}");
    fs::set_permissions(&other.key, fs::Permissions::from_mode(0o640)).unwrap();
    let told = program(&other.certificate, &other.key);
    assert!(told.contains("others can read or write it") && told.contains("chmod 600"), "{told}");

    // The server's as well.
    fs::set_permissions(&own.key, fs::Permissions::from_mode(0o644)).unwrap();
    let state = tempfile::tempdir().unwrap();
    let refused = Command::new(ropeway())
        .args(["serve", "--listen", "tls://127.0.0.1:0", "--state", text(&state.path().join("state"))])
        .args(["--certificate", text(&own.certificate), "--key", text(&own.key), "--client-ca", text(&authority)])
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&refused.stderr);
    assert!(
        !refused.status.success() && told.contains("cannot use the private key") && told.contains("chmod 600"),
        "{told}"
    );
}

#[test]
fn the_configuration_file_names_certificates_too() {
    let lab = Authority::new();
    let server = server(&lab);
    let alice = lab.issue("alice", "/CN=alice", "", 30);
    let config = tempfile::tempdir().unwrap();
    let folder = config.path().join("ropeway");
    fs::create_dir(&folder).unwrap();
    let (ca, certificate, key) = (lab.certificate(), text(&alice.certificate), text(&alice.key));
    let settings = format!("ca = \"{}\"\ncertificate = \"{certificate}\"\nkey = \"{key}\"\n", text(&ca));
    fs::write(folder.join("ropeway.toml"), settings).unwrap();
    Program::remote(c_program("vector_add"), server.server.url()).env("XDG_CONFIG_HOME", config.path()).run().success();
    server.server.expect_log("name=\"alice\"");
}

/// Workers are told the key, on their command line.
#[test]
fn a_servers_key_may_look_like_an_option() {
    let lab = Authority::new();
    let mut server = server(&lab);
    let keys = std::iter::repeat_with(|| Identity::generate().unwrap());
    let key = keys.take(10_000).find(|key| key.public().text().starts_with('-')).unwrap();
    fs::write(server.state.join("server.key"), format!("ropeway private key {}\n", key.seed_text())).unwrap();
    server.server.restart();
    let alice = lab.issue("alice", "/CN=alice", "", 30);
    with_certificate(server.server.url(), &lab.certificate(), &alice).run().success();
}

#[test]
fn several_servers_with_certificates_are_used_together() {
    let lab = Authority::new();
    let servers = [server(&lab), server(&lab)];
    let alice = lab.issue("alice", "/CN=alice", "", 30);
    let urls = servers.each_ref().map(|server| server.server.url().to_owned()).join(",");
    // Random commands over both, checked word by word (see random.rs); what moves goes from one to the other.
    let random = |urls: &str| {
        let program = certified(c_program("random"), urls, &lab.certificate(), &alice);
        program.args(["1", "2", "300", "without"]).limit(Duration::from_secs(300)).run().success()
    };
    let outcome = random(&urls);
    assert!(!outcome.stderr.contains("do not reach each other"), "{}", outcome.stderr);
    let is_connected = |server: &Encrypted| server.server.log().contains(" is connected");
    assert!(servers.iter().any(is_connected), "{}{}", servers[0].server.log(), servers[1].server.log());

    // Who is found where they say that they are, and is not who they say, hears nothing of them, with whatever certificate.
    let impostor = server(&lab);
    let displaced = ["one", "other"].map(|name| {
        let own = lab.issue(name, "/CN=gpu.lab", "IP:127.0.0.1", 30);
        let (authority, address) = (lab.certificate(), impostor.server.url());
        let args = ["--certificate", text(&own.certificate), "--key", text(&own.key), "--client-ca", text(&authority)];
        Encrypted::start_with(&[&args[..], &["--peer-address", address]].concat())
    });
    let outcome = random(&displaced.each_ref().map(|server| server.server.url().to_owned()).join(","));
    // Where the client finds them, they find each other.
    assert!(!outcome.stderr.contains("do not reach each other"), "{}", outcome.stderr);
    impostor.server.expect_log("it does not come in");
    assert!(!impostor.server.log().contains("session begins"), "{}", impostor.server.log());
}
