//! A stranger who speaks TLS 1.3 as clients do, and has no key.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use rustls::client::ResolvesClientCert;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, Error, SignatureScheme, Stream};

/// Takes any server, and shows none a key.
#[derive(Debug)]
struct Keyless;

impl ServerCertVerifier for Keyless {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

impl ResolvesClientCert for Keyless {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        None
    }

    fn only_raw_public_keys(&self) -> bool {
        true
    }

    fn has_certs(&self) -> bool {
        true
    }
}

/// Shakes hands, says `hello`, and returns what comes back until the server has closed; no read takes longer than
/// `patience`.
///
/// # Panics
/// Where this machine cannot do that.
pub fn knock(address: SocketAddr, hello: &[u8], patience: Duration) -> Vec<u8> {
    let mut config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .expect("it has TLS 1.3")
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Keyless))
        .with_client_cert_resolver(Arc::new(Keyless));
    config.enable_sni = false;
    let name = ServerName::try_from("nobody.invalid").expect("it is a name");
    let mut connection = ClientConnection::new(Arc::new(config), name).expect("a handshake can begin");
    let mut socket = TcpStream::connect(address).expect("the server is there");
    socket.set_read_timeout(Some(patience)).expect("a socket has a time-out");
    let mut stream = Stream::new(&mut connection, &mut socket);
    let mut answer = Vec::new();
    // The server may be done with it at any time.
    let _ = stream.write_all(hello);
    let _ = stream.read_to_end(&mut answer);
    answer
}
