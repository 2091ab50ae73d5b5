//! What strangers show instead of a lease of their own.

use std::io::{self, ErrorKind};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, SanType};
use rustls::CertificateError;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::sign::SingleCertAndKey;

use super::handshake::connect_showing;
use super::lease::issuing::Authority;
use super::lease::{LeaseCertificate, issue};
use super::leases::Leases;
use super::{ClientAuth, Door, Identity, MAX_LEASE, PublicKey, accept};

const BEGIN: u64 = 1_800_000_000;
const END: u64 = BEGIN + 600;

fn identity() -> Identity {
    Identity::generate().unwrap()
}

fn at(seconds: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(seconds)
}

fn check(authority: &Identity, shown: &[u8], seconds: u64) -> Result<(), CertificateError> {
    let now = UnixTime::since_unix_epoch(Duration::from_secs(seconds));
    Leases::of(authority.public(), Arc::new(SystemTime::now)).check(&CertificateDer::from(shown), now)
}

/// What is read of times here is what they are checked by.
#[test]
fn a_lease_is_valid_from_its_first_second_to_its_last() {
    let (broker, holder) = (identity(), identity().public());
    // Times before 2050, and after.
    for (begin, end) in [(BEGIN, END), (2_524_607_999, 2_524_608_000), (253_402_300_798, 253_402_300_799)] {
        let shown = issue(&broker, holder, "", at(begin), at(end) + Duration::from_millis(999)).unwrap();
        let read = LeaseCertificate::from_der(&shown).unwrap();
        assert_eq!((read.lease().not_before, read.lease().not_after), (at(begin), at(end)));
        for valid in [begin, end] {
            assert_eq!(check(&broker, &shown, valid), Ok(()));
        }
        let early = check(&broker, &shown, begin - 1);
        assert!(matches!(early, Err(CertificateError::NotValidYetContext { .. })), "{early:?}");
        let late = check(&broker, &shown, end + 1);
        assert!(matches!(late, Err(CertificateError::ExpiredContext { .. })), "{late:?}");
    }
}

#[test]
fn a_changed_or_cut_lease_is_refused_wherever_that_is() {
    let broker = identity();
    let shown = issue(&broker, identity().public(), r#"{"id":7}"#, at(BEGIN), at(END)).unwrap();
    assert_eq!(check(&broker, &shown, BEGIN), Ok(()));
    for len in 0..shown.len() {
        check(&broker, &shown[..len], BEGIN).unwrap_err();
        assert_eq!(LeaseCertificate::from_der(&shown[..len]), None);
        for bit in 0..8 {
            let mut changed = shown.clone();
            changed[len] ^= 1 << bit;
            check(&broker, &changed, BEGIN).unwrap_err();
            // Who has no authority's key reads what it finds, and lives.
            let _ = LeaseCertificate::from_der(&changed);
        }
    }
    check(&broker, &[&shown[..], &[0]].concat(), BEGIN).unwrap_err();
}

/// The authority's signature alone makes no lease: it has to have been meant as one.
#[test]
fn what_the_authority_has_signed_for_something_else_is_refused() {
    let (broker, holder) = (identity(), identity().public());
    let signed = |change: &dyn Fn(&mut CertificateParams, &mut CertificateParams)| {
        let (mut own, mut issuer) = (CertificateParams::default(), CertificateParams::default());
        own.serial_number = Some(vec![7].into());
        issuer.distinguished_name = Default::default();
        issuer.distinguished_name.push(DnType::CommonName, super::lease::ISSUER);
        let uri = |contents: &[u8]| format!("ropeway-lease:{}", URL_SAFE_NO_PAD.encode(contents));
        own.subject_alt_names = vec![SanType::URI(uri(b"all").try_into().unwrap())];
        own.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        change(&mut own, &mut issuer);
        let key = Authority::of(&broker).unwrap();
        own.signed_by(&holder, &Issuer::from_params(&issuer, key)).unwrap().der().to_vec()
    };
    assert_eq!(check(&broker, &signed(&|_, _| ()), BEGIN), Ok(()));
    let uri = |text: &str| vec![SanType::URI(text.to_owned().try_into().unwrap())];
    type Change<'a> = &'a dyn Fn(&mut CertificateParams, &mut CertificateParams);
    let changes: [(&str, Change<'_>); 9] = [
        ("for servers", &|own, _| own.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth]),
        ("for anything", &|own, _| own.extended_key_usages.clear()),
        ("for no lease", &|own, _| own.subject_alt_names.clear()),
        ("for another kind", &|own, _| own.subject_alt_names = uri("ropeway-leash:YWxs")),
        ("for a host", &|own, _| {
            own.subject_alt_names = vec![SanType::DnsName("ropeway-lease.YWxs".to_owned().try_into().unwrap())];
        }),
        ("with letters that are no base64", &|own, _| own.subject_alt_names = uri("ropeway-lease:YWx=s")),
        ("with bytes that are no text", &|own, _| own.subject_alt_names = uri("ropeway-lease:_w")),
        ("for another authority", &|own, _| own.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained)),
        ("by another name", &|_, issuer| issuer.distinguished_name.push(DnType::CommonName, "ropeway broken")),
    ];
    for (what, change) in changes {
        assert!(check(&broker, &signed(change), BEGIN).is_err(), "{what}");
    }
    let long = URL_SAFE_NO_PAD.encode(vec![b' '; MAX_LEASE + 1]);
    let too_long = signed(&|own, _| own.subject_alt_names = uri(&format!("ropeway-lease:{long}")));
    assert!(check(&broker, &too_long, BEGIN).is_err());
}

#[derive(Debug)]
struct Nobody;

impl ClientAuth for Nobody {
    fn knows(&self, _: &PublicKey) -> bool {
        false
    }
}

/// Whether a client is let in at the door that shows this and has this key.
fn lets_in(door: &Door, server: PublicKey, shown: &[u8], key: &Identity) -> io::Result<PublicKey> {
    let (mut near, mut far) = UnixStream::pair()?;
    far.set_nonblocking(true)?;
    let mut accepting = door.open()?;
    let (shown, key) = (shown.to_vec(), key.clone());
    let client = thread::spawn(move || {
        let own = SingleCertAndKey::from((*key.certified_by(shown)?).clone());
        let outcome = connect_showing(&mut near, Arc::new(own), server, io::Error::other);
        near.shutdown(Shutdown::Write)?;
        // What the server has to say has to be read.
        io::copy(&mut near, &mut io::sink())?;
        outcome.map(drop)
    });
    let outcome = loop {
        match accepting.advance(&mut far) {
            Ok(()) => break accepting.finish().map(|(client, _)| client.key),
            Err(error) if error.kind() == ErrorKind::WouldBlock => thread::sleep(Duration::from_micros(50)),
            Err(error) => break Err(error),
        }
    };
    drop(far);
    let _ = client.join().unwrap();
    outcome
}

#[test]
fn strangers_do_not_get_through_the_handshake() {
    let (broker, server, holder, stranger) = (identity(), identity(), identity(), identity());
    let door = accept(&server, Arc::new(Nobody)).unwrap().with_lease_authority(broker.public()).unwrap();
    let (now, hour) = (SystemTime::now(), Duration::from_secs(3600));
    let shown = issue(&broker, holder.public(), "all", now - hour, now + hour).unwrap();
    let lets_in = |shown: &[u8], key| lets_in(&door, server.public(), shown, key);
    assert_eq!(lets_in(&shown, &holder).unwrap(), holder.public());
    // Who has seen another's lease has no key for it.
    lets_in(&shown, &stranger).unwrap_err();
    for forger in [&stranger, &holder, &server] {
        let forged = issue(forger, stranger.public(), "all", now - hour, now + hour).unwrap();
        lets_in(&forged, &stranger).unwrap_err();
    }
    for (from, to) in [(now - 2 * hour, now - hour), (now + hour, now + 2 * hour)] {
        lets_in(&issue(&broker, holder.public(), "all", from, to).unwrap(), &holder).unwrap_err();
    }
    for at in 0..shown.len() {
        let mut changed = shown.clone();
        changed[at] ^= 1 << (at % 8);
        lets_in(&changed, &holder).unwrap_err();
        lets_in(&shown[..at], &holder).unwrap_err();
    }
}
