//! The handshake, by rustls: each end proves its key, and then both have the connection's secrets. What is the client's
//! alone is here, and what both ends share; the server's side is in `accepting`.

use std::fmt::Debug;
use std::io::{self, ErrorKind, Read, Write};
use std::sync::{Arc, Mutex, PoisonError};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{AlwaysResolvesClientRawPublicKeys, ResolvesClientCert, WebPkiServerVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{CertificateDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::sign::SingleCertAndKey;
use rustls::{
    AlertDescription, CertificateError, CipherSuite, ClientConfig, ClientConnection, ConnectionCommon,
    DigitallySignedStruct, DistinguishedName, Error, ExtractedSecrets, KeyLog, SignatureScheme,
    SupportedProtocolVersion,
};

use super::certificates::Credentials;
use super::lease::LeaseCertificate;
use super::secret::{Cipher, Secret, Secrets};
use super::{HEADER, Identity, PublicKey, TlsError};

/// The longest record before encryption begins, after its header: it may not be longer than an encrypted one.
pub(super) const MAX_RECORD: usize = (1 << 14) + 256;

/// TLS 1.3 and nothing else.
pub(super) const VERSIONS: &[&SupportedProtocolVersion] = &[&rustls::version::TLS13];

/// The name that clients give to rustls. Nobody reads it: a server is known by its key.
const NOBODY: &str = "ropeway.invalid";

/// Decides which clients may come in.
pub trait ClientAuth: Debug + Send + Sync {
    /// Whether a client with this key may come in. It has not proved yet that it has the key.
    fn knows(&self, key: &PublicKey) -> bool;
}

/// Catches the secrets that rustls would otherwise keep: with them, keys can be replaced as the protocol wants it.
#[derive(Debug, Default)]
pub(super) struct Caught(Mutex<[Vec<u8>; 2]>);

const CLIENT: usize = 0;
pub(super) const SERVER: usize = 1;

impl KeyLog for Caught {
    fn log(&self, label: &str, _: &[u8], secret: &[u8]) {
        let which = match label {
            "CLIENT_TRAFFIC_SECRET_0" => CLIENT,
            "SERVER_TRAFFIC_SECRET_0" => SERVER,
            _ => return,
        };
        self.0.lock().unwrap_or_else(PoisonError::into_inner)[which] = secret.to_vec();
    }

    fn will_log(&self, label: &str) -> bool {
        label.ends_with("_TRAFFIC_SECRET_0")
    }
}

impl Caught {
    /// Both directions' secrets, as the client (0) or server (1) sees them.
    pub(super) fn secrets(&self, own: usize, cipher: Cipher, counts: &ExtractedSecrets) -> Secrets {
        let caught = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let secret = |which: usize, records| Secret { cipher, secret: caught[which].clone(), records };
        Secrets { sealing: secret(own, counts.tx.0), opening: secret(1 - own, counts.rx.0) }
    }
}

pub(super) fn cipher(suite: Option<rustls::SupportedCipherSuite>) -> io::Result<Cipher> {
    match suite.map(|suite| suite.suite()) {
        Some(CipherSuite::TLS13_AES_128_GCM_SHA256) => Ok(Cipher::Aes128Gcm),
        Some(CipherSuite::TLS13_AES_256_GCM_SHA384) => Ok(Cipher::Aes256Gcm),
        Some(CipherSuite::TLS13_CHACHA20_POLY1305_SHA256) => Ok(Cipher::ChaCha20Poly1305),
        other => Err(io::Error::other(format!("cipher suite {other:?} was negotiated, which was not offered"))),
    }
}

/// The ciphers, the fastest first where the processor has instructions for AES; and X25519.
pub(super) fn provider() -> Arc<CryptoProvider> {
    use rustls::crypto::aws_lc_rs::{cipher_suite, kx_group};
    Arc::new(CryptoProvider {
        cipher_suites: vec![
            cipher_suite::TLS13_AES_128_GCM_SHA256,
            cipher_suite::TLS13_AES_256_GCM_SHA384,
            cipher_suite::TLS13_CHACHA20_POLY1305_SHA256,
        ],
        kx_groups: vec![kx_group::X25519],
        ..aws_lc_rs::default_provider()
    })
}

/// Checks signatures with raw keys, and keys as `accepts` says.
pub(super) struct Verifier<F> {
    pub(super) provider: Arc<CryptoProvider>,
    pub(super) accepts: F,
}

impl<F> Debug for Verifier<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Verifier")
    }
}

impl<F: Fn(&PublicKey) -> bool> Verifier<F> {
    fn check(&self, key: &CertificateDer<'_>) -> Result<(), Error> {
        match PublicKey::from_spki(key) {
            Some(key) if (self.accepts)(&key) => Ok(()),
            _ => Err(Error::InvalidCertificate(rustls::CertificateError::ApplicationVerificationFailure)),
        }
    }

    fn check_signature(
        &self,
        message: &[u8],
        key: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let key = SubjectPublicKeyInfoDer::from(key.as_ref());
        verify_tls13_signature_with_raw_key(message, &key, dss, &self.provider.signature_verification_algorithms)
    }
}

/// What rustls asks alike of all who check the other end by an Ed25519 key, in a certificate or raw.
macro_rules! ed25519_signatures {
    (raw: $raw:literal) => {
        fn verify_tls12_signature(
            &self,
            _: &[u8],
            _: &CertificateDer<'_>,
            _: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            Err(Error::General("this is TLS 1.3".into()))
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            key: &CertificateDer<'_>,
            dss: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            self.check_signature(message, key, dss)
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            vec![SignatureScheme::ED25519]
        }

        fn requires_raw_public_keys(&self) -> bool {
            $raw
        }
    };
}
pub(super) use ed25519_signatures;

impl<F: Fn(&PublicKey) -> bool + Send + Sync> ServerCertVerifier for Verifier<F> {
    fn verify_server_cert(
        &self,
        key: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.check(key).map(|()| ServerCertVerified::assertion())
    }

    ed25519_signatures!(raw: true);
}

impl<F: Fn(&PublicKey) -> bool + Send + Sync> ClientCertVerifier for Verifier<F> {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        key: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.check(key).map(|()| ClientCertVerified::assertion())
    }

    ed25519_signatures!(raw: true);
}

/// What a failed handshake means to a person; the other end is "it".
pub(super) fn meaning(error: Error, own: usize) -> io::Error {
    let text = match (&error, own) {
        (Error::InvalidCertificate(_), CLIENT) => return TlsError::WrongServerKey.into(),
        (Error::AlertReceived(AlertDescription::AccessDenied | AlertDescription::CertificateUnknown), CLIENT) => {
            return TlsError::ClientKeyRefused.into();
        }
        _ => format!("the TLS handshake failed: {error}"),
    };
    io::Error::new(ErrorKind::InvalidData, text)
}

/// What a failed handshake with certificates means to the client's user.
fn meaning_of_certificates(error: Error, host: &str) -> io::Error {
    let text = match &error {
        Error::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        ) => {
            format!("its certificate is not for the name {host}; use the name that it is for, or have another issued")
        }
        Error::InvalidCertificate(CertificateError::Expired | CertificateError::ExpiredContext { .. }) => {
            "its certificate has expired: whoever runs it needs a new one, or one of the two clocks is wrong".to_owned()
        }
        Error::InvalidCertificate(CertificateError::UnknownIssuer | CertificateError::BadSignature) => {
            "its certificate is from an authority that is not among those of ROPEWAY_CA".to_owned()
        }
        Error::InvalidCertificate(why) => format!("its certificate is of no use: {why}"),
        Error::AlertReceived(AlertDescription::HandshakeFailure | AlertDescription::UnsupportedCertificate) => {
            "it has no certificate to show; it may take tickets only".to_owned()
        }
        _ => return meaning(error, CLIENT),
    };
    TlsError::Certificate(text).into()
}

/// Does the handshake as the client, over `stream`, which waits, with the server that has the key `server`.
///
/// # Errors
/// Those of `stream`; [`ErrorKind::PermissionDenied`] when the server has another key, or does not let this one in;
/// [`ErrorKind::InvalidData`] when it does not speak TLS 1.3 as it should.
pub fn connect(stream: &mut (impl Read + Write), identity: &Identity, server: PublicKey) -> io::Result<Secrets> {
    let own = AlwaysResolvesClientRawPublicKeys::new(identity.certified()?);
    connect_showing(stream, Arc::new(own), server, |error| meaning(error, CLIENT))
}

/// Does the same as the holder of a lease, with its key.
///
/// # Errors
/// As [`connect`]; [`ErrorKind::InvalidInput`] where the lease is for another key.
pub fn connect_with_lease(
    stream: &mut (impl Read + Write),
    identity: &Identity,
    lease: &LeaseCertificate,
    server: PublicKey,
) -> io::Result<Secrets> {
    if lease.holder() != identity.public() {
        return Err(io::Error::new(ErrorKind::InvalidInput, "the lease is for another key than this client's"));
    }
    let own = SingleCertAndKey::from((*identity.certified_by(lease.der().to_vec())?).clone());
    connect_showing(stream, Arc::new(own), server, |error| match &error {
        Error::AlertReceived(alert) => match TlsError::of_alert(u8::from(*alert), Some(&lease.lease().validity())) {
            Some(refusal) => refusal.into(),
            None => meaning(error, CLIENT),
        },
        _ => meaning(error, CLIENT),
    })
}

/// Does the handshake with the server of this key, and shows it what is `own`.
pub(super) fn connect_showing(
    stream: &mut (impl Read + Write),
    own: Arc<dyn ResolvesClientCert>,
    server: PublicKey,
    meaning: impl Fn(Error) -> io::Error,
) -> io::Result<Secrets> {
    let provider = provider();
    let verifier = Verifier { provider: provider.clone(), accepts: move |key: &PublicKey| *key == server };
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(VERSIONS)
        .map_err(io::Error::other)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_client_cert_resolver(own);
    config.enable_sni = false;
    let name = ServerName::try_from(NOBODY).map_err(io::Error::other)?;
    run(stream, config, name, meaning)
}

/// Does the same with certificates: that of the server has to be for `host`, a name or an address.
///
/// # Errors
/// As [`connect`].
pub fn connect_certified(
    stream: &mut (impl Read + Write),
    credentials: &Credentials,
    host: &str,
) -> io::Result<Secrets> {
    let provider = provider();
    let authorities = credentials.authorities.clone();
    let verifier = WebPkiServerVerifier::builder_with_provider(authorities, provider.clone()).build();
    let config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(VERSIONS)
        .map_err(io::Error::other)?
        .with_webpki_verifier(verifier.map_err(io::Error::other)?)
        .with_client_cert_resolver(Arc::new(SingleCertAndKey::from((*credentials.own).clone())));
    let name = ServerName::try_from(host.to_owned());
    let name = name.map_err(|_| io::Error::new(ErrorKind::InvalidInput, format!("'{host}' is not a host's name")))?;
    run(stream, config, name, |error| meaning_of_certificates(error, host))
}

/// Does a client's handshake.
fn run(
    stream: &mut (impl Read + Write),
    mut config: ClientConfig,
    name: ServerName<'static>,
    meaning: impl Fn(Error) -> io::Error,
) -> io::Result<Secrets> {
    let caught = Arc::new(Caught::default());
    config.enable_secret_extraction = true;
    config.key_log = caught.clone();
    config.resumption = rustls::client::Resumption::disabled();
    let mut connection = ClientConnection::new(Arc::new(config), name).map_err(io::Error::other)?;
    while connection.is_handshaking() {
        while connection.wants_write() {
            connection.write_tls(stream)?;
        }
        if connection.is_handshaking() {
            let mut record = Vec::new();
            // Types of records and versions (RFC 8446, section 5.1): who greets with something else would be waited for.
            fill(&mut record, stream, |header| (20..=23).contains(&header[0]) && header[1] == 3)?;
            feed(&record, |bytes| connection.read_tls(bytes))?;
            if let Err(error) = connection.process_new_packets() {
                tell(&mut connection, stream);
                return Err(meaning(error));
            }
        }
    }
    while connection.wants_write() {
        connection.write_tls(stream)?;
    }
    let cipher = cipher(connection.negotiated_cipher_suite())?;
    let counts = connection.dangerous_extract_secrets().map_err(io::Error::other)?;
    Ok(caught.secrets(CLIENT, cipher, &counts))
}

/// Sends what is left of a handshake that has failed: the alert at its end tells the other end why.
pub(super) fn tell<D>(connection: &mut ConnectionCommon<D>, stream: &mut impl Write) {
    while connection.wants_write() && connection.write_tls(stream).is_ok_and(|sent| sent > 0) {}
}

/// Reads the rest of a record, and no byte more: what comes after the handshake is not rustls's. Its header has to be as
/// `may_begin` says.
pub(super) fn fill(
    record: &mut Vec<u8>,
    stream: &mut impl Read,
    may_begin: impl Fn(&[u8; HEADER]) -> bool,
) -> io::Result<()> {
    loop {
        let wanted = match record.first_chunk::<HEADER>() {
            None => HEADER,
            Some(header) => {
                let len = usize::from(u16::from_be_bytes([header[3], header[4]]));
                if len == 0 || len > MAX_RECORD || !may_begin(header) {
                    return Err(io::Error::new(ErrorKind::InvalidData, "it does not speak TLS"));
                }
                HEADER + len
            }
        };
        let have = record.len();
        if have == wanted {
            return Ok(());
        }
        record.resize(wanted, 0);
        let read = stream.read(&mut record[have..]);
        record.truncate(have + *read.as_ref().unwrap_or(&0));
        match read {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error),
            _ => {}
        }
    }
}

pub(super) fn feed(mut record: &[u8], mut read_tls: impl FnMut(&mut dyn Read) -> io::Result<usize>) -> io::Result<()> {
    while !record.is_empty() {
        if read_tls(&mut record)? == 0 {
            return Err(ErrorKind::InvalidData.into());
        }
    }
    Ok(())
}
