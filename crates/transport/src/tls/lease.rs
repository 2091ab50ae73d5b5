//! Leases: a broker lends devices of servers for a time, and whoever holds a lease shows it in the handshake. It is a
//! certificate (X.509) for the holder's key, which the broker has signed with its own, so that a server asks nobody.

use std::fmt;
use std::ops::RangeInclusive;
use std::time::SystemTime;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rustls::pki_types::CertificateDer;
use webpki::EndEntityCert;

use super::PublicKey;
use super::der::{SEQUENCE, element, time};

/// What comes before the contents in the only alternative name of a lease's certificate, a URI.
const SCHEME: &str = "ropeway-lease:";

/// The common name of whoever issues leases. All have the same one: they are told apart by their keys.
pub(super) const ISSUER: &str = "ropeway broker";

/// Most bytes of a lease's contents.
pub const MAX_LEASE: usize = 16 << 10;

/// Most bytes of a lease's certificate: the contents in base64, and room for the rest.
pub(super) const MAX_CERTIFICATE: usize = MAX_LEASE.div_ceil(3) * 4 + 1024;

/// What a broker lends, and for how long.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Lease {
    /// What is lent, in the words of the broker and its servers; [`MAX_LEASE`] bytes at most.
    pub contents: String,
    /// From when on it is valid, to the second.
    pub not_before: SystemTime,
    /// The last second in which a session can begin with it.
    pub not_after: SystemTime,
}

impl Lease {
    /// When it is valid.
    pub(crate) fn validity(&self) -> RangeInclusive<SystemTime> {
        self.not_before..=self.not_after
    }
}

/// A lease as its holder shows it. It is no secret: the holder's private key is.
#[derive(Clone, PartialEq, Eq)]
pub struct LeaseCertificate {
    der: Vec<u8>,
    holder: PublicKey,
    lease: Lease,
}

impl LeaseCertificate {
    /// Reads a lease's certificate (DER); `None` where it is not one. Who has signed it is not looked at, nor whether it
    /// is valid now: servers do that.
    pub fn from_der(der: &[u8]) -> Option<Self> {
        if der.len() > MAX_CERTIFICATE {
            return None;
        }
        let certificate = CertificateDer::from(der);
        let certificate = EndEntityCert::try_from(&certificate).ok()?;
        let holder = PublicKey::from_spki(&certificate.subject_public_key_info())?;
        let contents = certificate.valid_uri_names().find_map(|name| name.strip_prefix(SCHEME))?;
        let contents = String::from_utf8(URL_SAFE_NO_PAD.decode(contents).ok()?).ok()?;
        let (not_before, not_after) = validity(der)?;
        let lease = Lease { contents, not_before, not_after };
        (lease.contents.len() <= MAX_LEASE).then(|| Self { der: der.to_vec(), holder, lease })
    }

    /// The certificate, DER.
    pub fn der(&self) -> &[u8] {
        &self.der
    }

    /// The key of whoever may use it.
    pub fn holder(&self) -> PublicKey {
        self.holder
    }

    /// What it says.
    pub fn lease(&self) -> &Lease {
        &self.lease
    }
}

impl fmt::Debug for LeaseCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeaseCertificate").field("holder", &self.holder).field("lease", &self.lease).finish()
    }
}

/// The first and the last second in which a certificate is valid (RFC 5280, section 4.1). webpki, which looks at them,
/// does not tell them.
fn validity(certificate: &[u8]) -> Option<(SystemTime, SystemTime)> {
    let (SEQUENCE, certificate, _) = element(certificate)? else { return None };
    let (SEQUENCE, mut signed, _) = element(certificate)? else { return None };
    // The version, the serial number, the algorithm and the issuer.
    for _ in 0..4 {
        (_, _, signed) = element(signed)?;
    }
    let (SEQUENCE, validity, _) = element(signed)? else { return None };
    let (not_before, validity) = time(validity)?;
    let (not_after, _) = time(validity)?;
    Some((not_before, not_after))
}

#[cfg(feature = "lease-authority")]
pub use issuing::issue;

/// How a broker issues leases. Nobody else needs a library for that.
#[cfg(feature = "lease-authority")]
pub(super) mod issuing {
    use std::io::{self, ErrorKind};
    use std::time::{Duration, SystemTime, UNIX_EPOCH};

    use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair as _};
    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    use rcgen::{
        CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, Issuer, KeyUsagePurpose, PKCS_ED25519,
        PublicKeyData, SanType, SignatureAlgorithm, SigningKey, date_time_ymd,
    };

    use super::{ISSUER, MAX_LEASE, SCHEME};
    use crate::tls::{Identity, PublicKey};

    /// The common name of the holder: its key says who that is.
    const HOLDER: &str = "ropeway lease";

    /// The end of the year 9999, after which certificates have no times.
    const END_OF_TIME: u64 = 253_402_300_800;

    /// The authority's key, as rcgen signs with it.
    pub(in crate::tls) struct Authority(Ed25519KeyPair);

    impl Authority {
        pub(in crate::tls) fn of(identity: &Identity) -> io::Result<Self> {
            Ed25519KeyPair::from_seed_unchecked(identity.seed()).map(Self).map_err(io::Error::other)
        }
    }

    impl PublicKeyData for Authority {
        fn der_bytes(&self) -> &[u8] {
            self.0.public_key().as_ref()
        }

        fn algorithm(&self) -> &'static SignatureAlgorithm {
            &PKCS_ED25519
        }
    }

    impl SigningKey for Authority {
        fn sign(&self, message: &[u8]) -> Result<Vec<u8>, rcgen::Error> {
            Ok(self.0.sign(message).as_ref().to_vec())
        }
    }

    impl PublicKeyData for PublicKey {
        fn der_bytes(&self) -> &[u8] {
            self.bytes()
        }

        fn algorithm(&self) -> &'static SignatureAlgorithm {
            &PKCS_ED25519
        }
    }

    /// Issues a lease to whoever has the private key of `holder`: a certificate (X.509 version 3, DER) that `authority`
    /// signs. `contents` is what is lent, [`MAX_LEASE`] bytes at most. It is valid from `not_before` to `not_after`, by
    /// the clocks of servers; parts of a second do not count.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] where `contents` is too long, or the lease would be over before it begins.
    pub fn issue(
        authority: &Identity,
        holder: PublicKey,
        contents: &str,
        not_before: SystemTime,
        not_after: SystemTime,
    ) -> io::Result<Vec<u8>> {
        let wrong = |why: &str| io::Error::new(ErrorKind::InvalidInput, format!("no lease can be issued: {why}"));
        if contents.len() > MAX_LEASE {
            return Err(wrong(&format!("it would say {} bytes, and {MAX_LEASE} are allowed", contents.len())));
        }
        let seconds = |at: SystemTime| at.duration_since(UNIX_EPOCH).ok().map(|since| since.as_secs());
        let times = seconds(not_before).zip(seconds(not_after));
        let (from, to) = times
            .filter(|(from, to)| from < to && *to < END_OF_TIME)
            .ok_or_else(|| wrong("it would be over before it begins, or lies outside the years 1970 to 9999"))?;
        let mut serial = [0; 16];
        aws_lc_rs::rand::fill(&mut serial).map_err(|_| io::Error::other("the system gives no random bytes"))?;
        // It is a positive number of always the same length.
        serial[0] = serial[0] & 0x3f | 0x40;
        let mut params = CertificateParams::default();
        let epoch = date_time_ymd(1970, 1, 1);
        params.not_before = epoch + Duration::from_secs(from);
        params.not_after = epoch + Duration::from_secs(to);
        params.serial_number = Some(serial.to_vec().into());
        params.distinguished_name = named(HOLDER);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let name = format!("{SCHEME}{}", URL_SAFE_NO_PAD.encode(contents));
        params.subject_alt_names = vec![SanType::URI(name.try_into().map_err(io::Error::other)?)];
        let mut issuer = CertificateParams::default();
        issuer.distinguished_name = named(ISSUER);
        let issued = params.signed_by(&holder, &Issuer::from_params(&issuer, Authority::of(authority)?));
        Ok(issued.map_err(io::Error::other)?.der().to_vec())
    }

    fn named(name: &str) -> DistinguishedName {
        let mut all = DistinguishedName::new();
        all.push(DnType::CommonName, name);
        all
    }
}
