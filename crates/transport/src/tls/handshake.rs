//! The handshake, by rustls: each end proves its key, and then both have the connection's secrets.

use std::fmt::Debug;
use std::io::{self, ErrorKind, Read, Write};
use std::sync::{Arc, Mutex, PoisonError};

use rustls::client::AlwaysResolvesClientRawPublicKeys;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{CertificateDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};
use rustls::server::AlwaysResolvesServerRawPublicKeys;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    AlertDescription, CipherSuite, ClientConfig, ClientConnection, DigitallySignedStruct, DistinguishedName, Error,
    ExtractedSecrets, KeyLog, ServerConfig, ServerConnection, SignatureScheme, SupportedProtocolVersion,
};

use super::secret::{Cipher, Secret, Secrets};
use super::{Identity, PublicKey, TlsError};

/// The longest record before encryption begins, after its header: it may not be longer than an encrypted one.
const MAX_RECORD: usize = (1 << 14) + 256;

/// TLS 1.3 and nothing else.
const VERSIONS: &[&SupportedProtocolVersion] = &[&rustls::version::TLS13];

/// The name that clients give to rustls. Nobody reads it: a server is known by its key.
const NOBODY: &str = "ropeway.invalid";

/// Decides which clients may come in.
pub trait ClientAuth: Debug + Send + Sync {
    /// Whether a client with this key may come in. It has not proved yet that it has the key.
    fn knows(&self, key: &PublicKey) -> bool;
}

/// Catches the secrets that rustls would otherwise keep: with them, keys can be replaced as the protocol wants it.
#[derive(Debug, Default)]
struct Caught(Mutex<[Vec<u8>; 2]>);

const CLIENT: usize = 0;
const SERVER: usize = 1;

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
    fn secrets(&self, own: usize, cipher: Cipher, counts: &ExtractedSecrets) -> Secrets {
        let caught = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let secret = |which: usize, records| Secret { cipher, secret: caught[which].clone(), records };
        Secrets { sealing: secret(own, counts.tx.0), opening: secret(1 - own, counts.rx.0) }
    }
}

fn cipher(suite: Option<rustls::SupportedCipherSuite>) -> io::Result<Cipher> {
    match suite.map(|suite| suite.suite()) {
        Some(CipherSuite::TLS13_AES_128_GCM_SHA256) => Ok(Cipher::Aes128Gcm),
        Some(CipherSuite::TLS13_AES_256_GCM_SHA384) => Ok(Cipher::Aes256Gcm),
        Some(CipherSuite::TLS13_CHACHA20_POLY1305_SHA256) => Ok(Cipher::ChaCha20Poly1305),
        other => Err(io::Error::other(format!("cipher suite {other:?} was negotiated, which was not offered"))),
    }
}

/// The ciphers, the fastest first where the processor has instructions for AES; and X25519.
fn provider() -> Arc<CryptoProvider> {
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
struct Verifier<F> {
    provider: Arc<CryptoProvider>,
    accepts: F,
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

/// What rustls asks alike of those who check servers and of those who check clients.
macro_rules! signatures_of_raw_keys {
    () => {
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
            true
        }
    };
}

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

    signatures_of_raw_keys!();
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

    signatures_of_raw_keys!();
}

/// What a failed handshake means to a person; the other end is "it".
fn meaning(error: Error, own: usize) -> io::Error {
    let text = match (&error, own) {
        (Error::InvalidCertificate(_), CLIENT) => return TlsError::WrongServerKey.into(),
        (Error::AlertReceived(AlertDescription::AccessDenied | AlertDescription::CertificateUnknown), CLIENT) => {
            return TlsError::ClientKeyRefused.into();
        }
        _ => format!("the TLS handshake failed: {error}"),
    };
    io::Error::new(ErrorKind::InvalidData, text)
}

/// Does the handshake as the client, over `stream`, which waits, with the server that has the key `server`.
///
/// # Errors
/// Those of `stream`; [`ErrorKind::PermissionDenied`] when the server has another key, or does not let this one in;
/// [`ErrorKind::InvalidData`] when it does not speak TLS 1.3 as it should.
pub fn connect(stream: &mut (impl Read + Write), identity: &Identity, server: PublicKey) -> io::Result<Secrets> {
    let provider = provider();
    let verifier = Verifier { provider: provider.clone(), accepts: move |key: &PublicKey| *key == server };
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(VERSIONS)
        .map_err(io::Error::other)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_client_cert_resolver(Arc::new(AlwaysResolvesClientRawPublicKeys::new(identity.certified()?)));
    let caught = Arc::new(Caught::default());
    config.enable_secret_extraction = true;
    config.enable_sni = false;
    config.key_log = caught.clone();
    config.resumption = rustls::client::Resumption::disabled();
    let name = ServerName::try_from(NOBODY).map_err(io::Error::other)?;
    let mut connection = ClientConnection::new(Arc::new(config), name).map_err(io::Error::other)?;
    while connection.is_handshaking() {
        while connection.wants_write() {
            connection.write_tls(stream)?;
        }
        if connection.is_handshaking() {
            let record = read_record(stream)?;
            feed(&record, |bytes| connection.read_tls(bytes))?;
            if let Err(error) = connection.process_new_packets() {
                // The alert tells the other end why.
                let _ = connection.write_tls(stream);
                return Err(meaning(error, CLIENT));
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

/// Reads one record and no byte more: what comes after the handshake is not rustls's.
fn read_record(stream: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut record = vec![0; super::HEADER];
    stream.read_exact(&mut record)?;
    let len = usize::from(u16::from_be_bytes([record[3], record[4]]));
    // Types of records and versions (RFC 8446, section 5.1): who greets with something else would be waited for.
    if len > MAX_RECORD || !(20..=23).contains(&record[0]) || record[1] != 3 {
        return Err(io::Error::new(ErrorKind::InvalidData, "it does not speak TLS"));
    }
    record.resize(super::HEADER + len, 0);
    stream.read_exact(&mut record[super::HEADER..])?;
    Ok(record)
}

fn feed(mut record: &[u8], mut read_tls: impl FnMut(&mut dyn Read) -> io::Result<usize>) -> io::Result<()> {
    while !record.is_empty() {
        if read_tls(&mut record)? == 0 {
            return Err(ErrorKind::InvalidData.into());
        }
    }
    Ok(())
}

/// What a server needs for its handshakes.
#[derive(Clone, Debug)]
pub struct Door {
    config: Arc<ServerConfig>,
}

/// A server's side of one handshake, which never waits.
#[derive(Debug)]
pub struct Accepting {
    connection: ServerConnection,
    caught: Arc<Caught>,
    /// The record that is being read.
    record: Vec<u8>,
    unsent: Vec<u8>,
}

/// Prepares a server's handshakes.
///
/// # Errors
/// The identity is of no use.
pub fn accept(identity: &Identity, clients: Arc<dyn ClientAuth>) -> io::Result<Door> {
    let provider = provider();
    let verifier = Verifier { provider: provider.clone(), accepts: move |key: &PublicKey| clients.knows(key) };
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(VERSIONS)
        .map_err(io::Error::other)?
        .with_client_cert_verifier(Arc::new(verifier))
        .with_cert_resolver(Arc::new(AlwaysResolvesServerRawPublicKeys::new(identity.certified()?)));
    config.enable_secret_extraction = true;
    config.send_tls13_tickets = 0;
    Ok(Door { config: Arc::new(config) })
}

impl Door {
    /// Begins a handshake with a client.
    ///
    /// # Errors
    /// rustls's.
    pub fn open(&self) -> io::Result<Accepting> {
        let caught = Arc::new(Caught::default());
        let mut config = (*self.config).clone();
        config.key_log = caught.clone();
        let connection = ServerConnection::new(Arc::new(config)).map_err(io::Error::other)?;
        Ok(Accepting { connection, caught, record: Vec::new(), unsent: Vec::new() })
    }
}

impl Accepting {
    /// Goes on with what has come on `stream`, which does not wait; the outcome when the handshake is over.
    ///
    /// # Errors
    /// Those of `stream`, [`ErrorKind::WouldBlock`] among them; [`ErrorKind::InvalidData`] for a client that has no
    /// place here.
    pub fn advance(&mut self, stream: &mut (impl Read + Write)) -> io::Result<()> {
        loop {
            while self.connection.wants_write() {
                self.connection.write_tls(&mut self.unsent)?;
            }
            while !self.unsent.is_empty() {
                let sent = stream.write(&self.unsent)?;
                self.unsent.drain(..sent);
            }
            if !self.connection.is_handshaking() {
                return Ok(());
            }
            self.fill(stream)?;
            let record = std::mem::take(&mut self.record);
            feed(&record, |bytes| self.connection.read_tls(bytes))?;
            if let Err(error) = self.connection.process_new_packets() {
                // The alert tells the client why.
                let _ = self.connection.write_tls(stream);
                return Err(meaning(error, SERVER));
            }
        }
    }

    /// Reads the rest of a record.
    fn fill(&mut self, stream: &mut impl Read) -> io::Result<()> {
        loop {
            let wanted = match self.record.first_chunk::<{ super::HEADER }>() {
                None => super::HEADER,
                Some([_, _, _, high, low]) => super::HEADER + usize::from(u16::from_be_bytes([*high, *low])),
            };
            let is_known = self.record.len() >= super::HEADER;
            if wanted > super::HEADER + MAX_RECORD || is_known && wanted == super::HEADER {
                return Err(io::Error::new(ErrorKind::InvalidData, "it does not speak TLS"));
            }
            let have = self.record.len();
            if have == wanted && have > super::HEADER {
                return Ok(());
            }
            self.record.resize(wanted, 0);
            let read = stream.read(&mut self.record[have..]);
            self.record.truncate(have + *read.as_ref().unwrap_or(&0));
            if read? == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
        }
    }

    /// The client's key, and the connection's secrets, when [`Accepting::advance`] has said that the handshake is over.
    ///
    /// # Errors
    /// It is not over.
    pub fn finish(self) -> io::Result<(PublicKey, Secrets)> {
        let key = self.connection.peer_certificates().and_then(|keys| PublicKey::from_spki(keys.first()?));
        let key = key.ok_or_else(|| io::Error::new(ErrorKind::InvalidData, "the client has shown no key"))?;
        let cipher = cipher(self.connection.negotiated_cipher_suite())?;
        let counts = self.connection.dangerous_extract_secrets().map_err(io::Error::other)?;
        Ok((key, self.caught.secrets(SERVER, cipher, &counts)))
    }
}
