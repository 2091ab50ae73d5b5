//! Leases: whom they let in, what the others hear, and who else can read them.

use std::io::{self, ErrorKind, IoSlice};
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ropeway_transport::tls::{
    self, CertificateFiles, Client, Credentials, Door, Identity, LeaseCertificate, MAX_LEASE, Secrets, Ticket,
    TlsError, issue_lease,
};
use ropeway_transport::{Endpoint, Link, Pass, Sender as _};

use common::{door, serve};

mod common;

const CONTENTS: &str = r#"{"id":"x7","servers":["gpu.lab"],"devices":["Müller's GPU"]}"#;

const HOUR: Duration = Duration::from_secs(3600);

fn identity() -> Identity {
    Identity::generate().unwrap()
}

/// A lease that is valid now.
fn lease(broker: &Identity, holder: &Identity, contents: &str) -> LeaseCertificate {
    let now = SystemTime::now();
    lease_between(broker, holder, contents, now - HOUR, now + HOUR)
}

fn lease_between(
    broker: &Identity,
    holder: &Identity,
    contents: &str,
    not_before: SystemTime,
    not_after: SystemTime,
) -> LeaseCertificate {
    let der = issue_lease(broker, holder.public(), contents, not_before, not_after).unwrap();
    LeaseCertificate::from_der(&der).unwrap()
}

/// Both ends of a handshake: the client's outcome and the server's, and the ends of the stream.
#[allow(clippy::type_complexity, reason = "it is taken apart at once")]
fn shake(
    door: &Door,
    client: impl FnOnce(&mut UnixStream) -> io::Result<Secrets>,
) -> (io::Result<Secrets>, io::Result<(Client, Secrets)>, UnixStream, UnixStream) {
    let (mut near, mut far) = UnixStream::pair().unwrap();
    far.set_nonblocking(true).unwrap();
    let door = door.clone();
    let serving = thread::spawn(move || (serve(&mut far, &door), far));
    let ours = client(&mut near);
    if ours.is_err() {
        near.shutdown(std::net::Shutdown::Write).unwrap();
    }
    let (theirs, far) = serving.join().unwrap();
    (ours, theirs, near, far)
}

fn whole_seconds(at: SystemTime) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(at.duration_since(UNIX_EPOCH).unwrap().as_secs())
}

#[test]
fn a_lease_lets_its_holder_in_and_says_what_is_lent() {
    let (broker, holder, server) = (identity(), identity(), identity());
    let door = door(&server, Vec::new()).with_lease_authority(broker.public()).unwrap();
    let longest = "\u{1f600}".repeat(MAX_LEASE / 4);
    for contents in [CONTENTS, "", &longest] {
        let (not_before, not_after) = (SystemTime::now() - HOUR, SystemTime::now() + HOUR);
        let lease = lease_between(&broker, &holder, contents, not_before, not_after);
        let (ours, theirs, near, far) =
            shake(&door, |near| tls::connect_with_lease(near, &holder, &lease, server.public()));
        let (client, others) = theirs.unwrap();
        let said = client.lease.unwrap();
        assert!((client.key, client.name, said.contents.as_str()) == (holder.public(), None, contents));
        assert_eq!(
            (said.not_before, said.not_after),
            (whole_seconds(not_before), whole_seconds(not_after)),
            "{contents}"
        );
        let link = |stream: UnixStream, secrets| {
            stream.set_nonblocking(false).unwrap();
            Link::from_fd(OwnedFd::from(stream)).unwrap().encrypt(secrets).unwrap()
        };
        let (near, far) = (link(near, ours.unwrap()), link(far, others));
        let mut into = [0; 5];
        near.send_all(&mut [IoSlice::new(b"hello")]).unwrap();
        far.recv_exact(&mut into).unwrap();
        far.send_all(&mut [IoSlice::new(&into)]).unwrap();
        near.recv_exact(&mut into).unwrap();
        assert_eq!(&into, b"hello");
    }
}

#[test]
fn what_is_no_lease_is_not_issued() {
    let (broker, holder, now) = (identity(), identity().public(), SystemTime::now());
    let far_away = UNIX_EPOCH + Duration::from_secs(300_000_000_000);
    let too_long = "x".repeat(MAX_LEASE + 1);
    for (contents, from, to) in [
        (too_long.as_str(), now, now + HOUR),
        ("", now, now),
        ("", now, now - HOUR),
        ("", UNIX_EPOCH - HOUR, now),
        ("", now, far_away),
    ] {
        let error = issue_lease(&broker, holder, contents, from, to).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    }
    // Each is another, also for the same contents and times.
    let issue = || issue_lease(&broker, holder, CONTENTS, now, now + HOUR).unwrap();
    assert_ne!(issue(), issue());
}

/// The certificates that the fuzz targets use, too.
macro_rules! credentials {
    ($name:literal) => {{
        let (certificate, key) = ($name.into(), $name.into());
        let files = CertificateFiles { certificate, key, authorities: "ca".into(), revoked: None };
        let own = include_bytes!(concat!("../../../fuzz/targets/certificates/", $name, ".pem"));
        let key = include_bytes!(concat!("../../../fuzz/targets/certificates/", $name, ".key"));
        Credentials::from_pem(own, key, include_bytes!("../../../fuzz/targets/certificates/ca.pem"), &files).unwrap()
    }};
}

#[test]
fn each_client_is_met_in_its_way_at_one_door() {
    let (broker, server, ticket, holder) = (identity(), identity(), identity(), identity());
    let pinned = server.public();
    let keys_alone = door(&server, vec![ticket.public()]);
    let with_certificates = |door: Door| door.with_certificates(&credentials!("server")).unwrap();
    let with_leases = |door: Door| door.with_lease_authority(broker.public()).unwrap();
    let doors = [
        (keys_alone.clone(), false, false),
        (with_certificates(keys_alone.clone()), true, false),
        (with_leases(keys_alone.clone()), false, true),
        (with_leases(with_certificates(keys_alone.clone())), true, true),
        (with_certificates(with_leases(keys_alone)), true, true),
    ];
    let lease = lease(&broker, &holder, CONTENTS);
    for (door, takes_certificates, takes_leases) in &doors {
        let (ours, theirs, ..) = shake(door, |near| tls::connect(near, &ticket, pinned));
        assert_eq!(theirs.unwrap().0, Client { key: ticket.public(), name: None, certified: None, lease: None });
        ours.unwrap();
        // Holding a lease, it is not known by its key.
        let (.., theirs, _near, _far) = shake(door, |near| tls::connect(near, &holder, pinned));
        theirs.unwrap_err();
        let certificate = credentials!("client");
        let (ours, theirs, ..) = shake(door, |near| tls::connect_certified(near, &certificate, "fuzz.invalid"));
        match takes_certificates {
            true => {
                let client = theirs.unwrap().0;
                assert_eq!((client.name.as_deref(), client.lease), (Some("client"), None));
                ours.unwrap();
            }
            false => assert!(ours.is_err() && theirs.is_err()),
        }
        let (ours, theirs, ..) = shake(door, |near| tls::connect_with_lease(near, &holder, &lease, pinned));
        match takes_leases {
            true => {
                let client = theirs.unwrap().0;
                assert_eq!((client.key, client.name), (holder.public(), None));
                assert_eq!(client.lease.as_ref(), Some(lease.lease()));
                ours.unwrap();
            }
            false => {
                theirs.unwrap_err();
                assert_eq!(TlsError::of(&ours.unwrap_err()), Some(&TlsError::NoLeases));
            }
        }
    }
}

/// What a client hears that connects with a ticket with this lease.
fn told(door: &Door, server: &Identity, holder: &Identity, lease: &LeaseCertificate) -> io::Result<Vec<u8>> {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let door = door.clone();
    let serving = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.set_nonblocking(true).unwrap();
        // The stream lasts until the client has heard it.
        let outcome = serve(&mut stream, &door);
        (outcome.map(|(_, secrets)| secrets), stream)
    });
    let ticket = Ticket { server: server.public(), identity: holder.clone(), lease: Some(lease.clone()) };
    let pass = Some(Arc::new(Pass::Ticket(ticket)));
    // As it is read from its line.
    let line = Endpoint::Tls { host: "127.0.0.1".into(), port, pass }.with_secret();
    let endpoint: Endpoint = line.parse().unwrap();
    let link = Link::connect(&endpoint, Duration::from_secs(60));
    let (served, stream) = serving.join().unwrap();
    if let Ok(secrets) = served {
        let far = Link::from_fd(OwnedFd::from(stream)).unwrap().encrypt(secrets).unwrap();
        far.send_all(&mut [IoSlice::new(b"welcome")]).unwrap();
        far.shutdown();
        let mut into = vec![0; 7];
        return link?.recv_exact(&mut into).map(|()| into);
    }
    link?.recv(&mut [0; 1]).map(|_| Vec::new())
}

#[test]
fn a_client_hears_why_its_lease_does_not_let_it_in() {
    let (broker, other, server, holder) = (identity(), identity(), identity(), identity());
    let plain = door(&server, vec![holder.public()]);
    let leasing = plain.clone().with_lease_authority(broker.public()).unwrap();
    let valid = lease(&broker, &holder, CONTENTS);
    assert_eq!(told(&leasing, &server, &holder, &valid).unwrap(), b"welcome");
    let now = SystemTime::now();
    let expired = lease_between(&broker, &holder, CONTENTS, now - 2 * HOUR, now - HOUR);
    let future = lease_between(&broker, &holder, CONTENTS, now + HOUR, now + 2 * HOUR);
    let forged = lease(&other, &holder, CONTENTS);
    for (door, lease, error, advice) in [
        (&leasing, &expired, TlsError::LeaseExpired, "the lease has expired: ask the broker for another"),
        (&leasing, &future, TlsError::LeaseNotYetValid, "ask the broker for one that begins now"),
        (&leasing, &forged, TlsError::LeaseRefused, "not from its broker: ask that broker"),
        (&plain, &valid, TlsError::NoLeases, "ask who runs it for a ticket"),
    ] {
        let heard = told(door, &server, &holder, lease).unwrap_err();
        assert_eq!((TlsError::of(&heard), heard.kind()), (Some(&error), ErrorKind::PermissionDenied), "{heard}");
        assert!(heard.to_string().contains(advice), "{heard}");
    }
}

#[test]
fn a_lease_is_shown_by_its_holder_alone() {
    let (broker, holder, other, server) = (identity(), identity(), identity(), identity());
    let lease = lease(&broker, &holder, CONTENTS);
    let mut stream = UnixStream::pair().unwrap().0;
    let error = tls::connect_with_lease(&mut stream, &other, &lease, server.public()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
}

/// Runs openssl; what it prints.
fn openssl(folder: &Path, arguments: &[&str]) -> String {
    let output = Command::new("openssl").args(arguments).current_dir(folder).output().expect("openssl runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "openssl {arguments:?}: {text}{}", String::from_utf8_lossy(&output.stderr));
    text
}

#[test]
fn openssl_reads_a_lease_and_takes_it_for_the_authoritys() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("lease-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (broker, holder) = (identity(), identity());
    let from = UNIX_EPOCH + Duration::from_secs(1_795_378_004);
    std::fs::write(
        folder.join("lease.der"),
        issue_lease(&broker, holder.public(), CONTENTS, from, from + 1000 * HOUR).unwrap(),
    )
    .unwrap();
    let text = openssl(&folder, &["x509", "-inform", "DER", "-in", "lease.der", "-noout", "-text"]);
    for line in [
        "Version: 3 (0x2)",
        "Signature Algorithm: ED25519",
        "Issuer: CN = ropeway broker",
        "Not Before: Nov 22 20:06:44 2026 GMT",
        "Not After : Jan  3 12:06:44 2027 GMT",
        "Subject: CN = ropeway lease",
        "TLS Web Client Authentication",
        "URI:ropeway-lease:eyJpZCI6Ing3Iiwi",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    // The authority's key in a certificate, as openssl wants it.
    let pkcs8 = [&b"\x30\x2e\x02\x01\x00\x30\x05\x06\x03\x2b\x65\x70\x04\x22\x04\x20"[..], broker.seed()].concat();
    let pem = format!("-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n", STANDARD.encode(pkcs8));
    std::fs::write(folder.join("broker.key"), pem).unwrap();
    openssl(
        &folder,
        &["req", "-x509", "-new", "-key", "broker.key", "-subj", "/CN=ropeway broker", "-days", "9", "-out", "ca.pem"],
    );
    openssl(&folder, &["x509", "-inform", "DER", "-in", "lease.der", "-out", "lease.pem"]);
    let verified =
        openssl(&folder, &["verify", "-no_check_time", "-purpose", "sslclient", "-CAfile", "ca.pem", "lease.pem"]);
    assert_eq!(verified, "lease.pem: OK\n");
    std::fs::remove_dir_all(&folder).unwrap();
}
