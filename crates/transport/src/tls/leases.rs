//! What a server asks of a lease before its holder is anybody: an authority's signature, the right time, the holder's
//! key.

use std::fmt;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{CryptoProvider, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, Der, TrustAnchor, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};
use webpki::{EndEntityCert, KeyUsage};

use super::PublicKey;
use super::certificates::COMMON_NAME;
use super::der::{OBJECT, SEQUENCE, SET, UTF8};
use super::handshake::{ed25519_signatures, provider};
use super::lease::{ISSUER, LeaseCertificate};

/// The extended key usage of a client (1.3.6.1.5.5.7.3.2), without its tag.
const CLIENT_AUTH: &[u8] = &[0x2b, 6, 1, 5, 5, 7, 3, 2];

/// Tells the time by which leases are valid or not.
pub type Clock = Arc<dyn Fn() -> SystemTime + Send + Sync>;

/// Checks leases of one authority.
pub(super) struct Leases {
    anchor: [TrustAnchor<'static>; 1],
    clock: Clock,
    provider: Arc<CryptoProvider>,
}

impl Leases {
    /// Those that whoever has this key has issued, by this clock.
    pub(super) fn of(authority: PublicKey, clock: Clock) -> Self {
        let anchor = TrustAnchor {
            subject: Der::from(issuer()),
            subject_public_key_info: Der::from(authority.spki_contents()),
            name_constraints: None,
        };
        Self { anchor: [anchor], clock, provider: provider() }
    }

    fn check_signature(
        &self,
        message: &[u8],
        shown: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, shown, dss, &self.provider.signature_verification_algorithms)
    }

    /// Checks all but whether the client has the holder's private key.
    pub(super) fn check(&self, shown: &CertificateDer<'_>, now: UnixTime) -> Result<(), CertificateError> {
        let certificate = EndEntityCert::try_from(shown).map_err(|_| CertificateError::BadEncoding)?;
        // Nobody stands between the authority and the holder, whatever else the client has sent.
        let algorithms = self.provider.signature_verification_algorithms.all;
        let usage = KeyUsage::required(CLIENT_AUTH);
        match certificate.verify_for_usage(algorithms, &self.anchor, &[], now, usage, None, None) {
            Ok(_) => {}
            Err(webpki::Error::CertExpired { time, not_after }) => {
                return Err(CertificateError::ExpiredContext { time, not_after });
            }
            Err(webpki::Error::CertNotValidYet { time, not_before }) => {
                return Err(CertificateError::NotValidYetContext { time, not_before });
            }
            Err(_) => return Err(CertificateError::UnknownIssuer),
        }
        LeaseCertificate::from_der(shown).map(drop).ok_or(CertificateError::BadEncoding)
    }
}

/// The name of an authority as certificates have it, without the sequence's own tag: the common name [`ISSUER`].
fn issuer() -> Vec<u8> {
    let wrap = |tag: u8, contents: &[u8]| [&[tag, contents.len() as u8], contents].concat();
    let attribute = [wrap(OBJECT, &COMMON_NAME), wrap(UTF8, ISSUER.as_bytes())].concat();
    wrap(SET, &wrap(SEQUENCE, &attribute))
}

impl fmt::Debug for Leases {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Leases")
    }
}

impl ClientCertVerifier for Leases {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        shown: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let now = UnixTime::since_unix_epoch((self.clock)().duration_since(UNIX_EPOCH).unwrap_or_default());
        self.check(shown, now).map(|()| ClientCertVerified::assertion()).map_err(Error::InvalidCertificate)
    }

    ed25519_signatures!(raw: false);
}
