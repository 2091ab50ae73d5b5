//! The server's side of the handshake, which never waits.

use std::fmt::Debug;
use std::io::{self, ErrorKind, Read, Write};
use std::sync::Arc;
use std::time::SystemTime;

use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{
    Acceptor, AlwaysResolvesServerRawPublicKeys, CertificateType, ClientHello, ResolvesServerCert, WebPkiClientVerifier,
};
use rustls::sign::SingleCertAndKey;
use rustls::{CertificateError, Error, ServerConfig, ServerConnection};

use super::certificates::{Credentials, name_of};
use super::handshake::{Caught, ClientAuth, SERVER, VERSIONS, Verifier, cipher, feed, fill, meaning, provider, tell};
use super::lease::{Lease, LeaseCertificate};
use super::leases::{Clock, Leases};
use super::secret::Secrets;
use super::{Identity, PublicKey};

/// What a server needs for its handshakes.
#[derive(Clone, Debug)]
pub struct Door {
    config: Arc<ServerConfig>,
    /// For clients that do not ask for a raw public key; and what checks their certificates.
    certified: Option<(Arc<ServerConfig>, Arc<dyn ClientCertVerifier>)>,
    /// For clients that ask for one and show a certificate: a lease.
    leasing: Option<Arc<ServerConfig>>,
}

/// Who a client has proved to be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Client {
    /// Its key; that of the holder where it has shown a lease; what stands for a key where it has shown a certificate.
    pub key: PublicKey,
    /// Whom its certificate names.
    pub name: Option<String>,
    /// That certificate.
    pub certified: Option<Certified>,
    /// The lease that it has shown.
    pub lease: Option<Lease>,
}

/// A certificate that has let a client in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Certified {
    /// It, and those of the authorities in between.
    chain: Arc<[CertificateDer<'static>]>,
    /// When it was valid.
    at: UnixTime,
}

/// How a client says who it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Shown {
    /// By its key alone.
    Key,
    /// By a certificate of an organisation's authority.
    Certificate,
    /// By a lease.
    Lease,
}

/// How far a server's side has come.
enum Side {
    /// The client has not said whether it takes a raw public key.
    Asked(Box<Acceptor>, Door),
    /// The handshake itself.
    Begun(Box<ServerConnection>),
}

/// A server's side of one handshake, which never waits.
pub struct Accepting {
    side: Side,
    shown: Shown,
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
    let config = config(Arc::new(verifier), Arc::new(AlwaysResolvesServerRawPublicKeys::new(identity.certified()?)))?;
    Ok(Door { config, certified: None, leasing: None })
}

/// How one kind of clients is met: who they have to be, and what the server shows them.
fn config(verifier: Arc<dyn ClientCertVerifier>, own: Arc<dyn ResolvesServerCert>) -> io::Result<Arc<ServerConfig>> {
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(VERSIONS)
        .map_err(io::Error::other)?
        .with_client_cert_verifier(verifier)
        .with_cert_resolver(own);
    config.enable_secret_extraction = true;
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}

impl Door {
    /// The same door, where clients with certificates come in, too.
    ///
    /// # Errors
    /// The credentials are of no use.
    pub fn with_certificates(self, credentials: &Credentials) -> io::Result<Self> {
        let authorities = credentials.authorities.clone();
        let verifier = WebPkiClientVerifier::builder_with_provider(authorities, provider());
        let verifier = verifier.with_crls(credentials.revoked.iter().cloned()).build().map_err(io::Error::other)?;
        let own = SingleCertAndKey::from((*credentials.own).clone());
        let config = config(verifier.clone(), Arc::new(own))?;
        Ok(Self { certified: Some((config, verifier)), ..self })
    }

    /// Checks a certificate again that has let a client in, perhaps at another door before this one. Whether it is still
    /// valid is not looked at.
    ///
    /// # Errors
    /// One sentence: it would not be let in any more.
    pub fn check(&self, shown: &Certified) -> Result<(), String> {
        let (_, verifier) = self.certified.as_ref().ok_or("this server takes no certificates any more")?;
        let Some((own, between)) = shown.chain.split_first() else { return Err("there is no certificate".into()) };
        match verifier.verify_client_cert(own, between, shown.at) {
            Ok(_) => Ok(()),
            Err(Error::InvalidCertificate(CertificateError::Revoked)) => {
                Err("this client's certificate was revoked; ask for another".into())
            }
            Err(Error::InvalidCertificate(CertificateError::UnknownIssuer | CertificateError::BadSignature)) => {
                Err("the authority of this client's certificate is not among --client-ca any more; ask for another"
                    .into())
            }
            Err(Error::InvalidCertificate(CertificateError::UnknownRevocationStatus)) => {
                Err("--client-crl has no list of the authority of this client's certificate; whoever runs the server \
                     has to add it"
                    .into())
            }
            Err(error) => Err(format!("this client's certificate is not taken any more: {error}")),
        }
    }

    /// The same door, where clients come in, too, that show a lease which `authority` has issued, while it is valid.
    /// They know the server by its key, as those with tickets do.
    ///
    /// # Errors
    /// rustls's.
    pub fn with_lease_authority(self, authority: PublicKey) -> io::Result<Self> {
        self.with_lease_authority_and_clock(authority, Arc::new(SystemTime::now))
    }

    /// The same, where this clock says whether a lease is valid.
    ///
    /// # Errors
    /// rustls's.
    pub fn with_lease_authority_and_clock(self, authority: PublicKey, clock: Clock) -> io::Result<Self> {
        let own = self.config.cert_resolver.clone();
        Ok(Self { leasing: Some(config(Arc::new(Leases::of(authority, clock)), own)?), ..self })
    }

    /// Begins a handshake with a client.
    ///
    /// # Errors
    /// rustls's.
    pub fn open(&self) -> io::Result<Accepting> {
        let caught = Arc::new(Caught::default());
        let side = if self.certified.is_some() || self.leasing.is_some() {
            Side::Asked(Box::default(), self.clone())
        } else {
            Side::Begun(Box::new(ServerConnection::new(watched(&self.config, &caught)).map_err(io::Error::other)?))
        };
        Ok(Accepting { side, shown: Shown::Key, caught, record: Vec::new(), unsent: Vec::new() })
    }

    /// What a client gets that begins like this, and how it will say who it is.
    fn config_for(&self, hello: &ClientHello<'_>) -> (&ServerConfig, Shown) {
        let has_raw = |types: Option<&[CertificateType]>| {
            types.is_some_and(|types| types.contains(&CertificateType::RawPublicKey))
        };
        match (has_raw(hello.server_cert_types()), has_raw(hello.client_cert_types()), &self.certified, &self.leasing) {
            (true, false, _, Some(leasing)) => (leasing, Shown::Lease),
            (false, _, Some((certified, _)), _) => (certified, Shown::Certificate),
            // Whoever else does not show a key is refused by rustls.
            _ => (&self.config, Shown::Key),
        }
    }
}

/// The configuration of one connection, whose secrets are caught.
fn watched(config: &ServerConfig, caught: &Arc<Caught>) -> Arc<ServerConfig> {
    let mut config = config.clone();
    config.key_log = caught.clone();
    Arc::new(config)
}

impl Debug for Accepting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Accepting")
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
            if let Side::Begun(connection) = &mut self.side {
                while connection.wants_write() {
                    connection.write_tls(&mut self.unsent)?;
                }
            }
            while !self.unsent.is_empty() {
                let sent = stream.write(&self.unsent)?;
                self.unsent.drain(..sent);
            }
            if matches!(&self.side, Side::Begun(connection) if !connection.is_handshaking()) {
                return Ok(());
            }
            // rustls tells the client what is wrong with the rest of the header.
            fill(&mut self.record, stream, |_| true)?;
            let record = std::mem::take(&mut self.record);
            match &mut self.side {
                Side::Asked(acceptor, door) => {
                    feed(&record, |bytes| acceptor.read_tls(bytes))?;
                    if let Some((connection, shown)) = begin(acceptor, door, &self.caught, stream)? {
                        (self.side, self.shown) = (Side::Begun(Box::new(connection)), shown);
                    }
                }
                Side::Begun(connection) => {
                    feed(&record, |bytes| connection.read_tls(bytes))?;
                    if let Err(error) = connection.process_new_packets() {
                        tell(connection, stream);
                        return Err(meaning(error, SERVER));
                    }
                }
            }
        }
    }

    /// Who the client is, and the connection's secrets, when [`Accepting::advance`] has said that the handshake is
    /// over.
    ///
    /// # Errors
    /// It is not over; or the client's certificate names nobody.
    pub fn finish(self) -> io::Result<(Client, Secrets)> {
        let wrong = |why| io::Error::new(ErrorKind::InvalidData, why);
        let Side::Begun(connection) = self.side else { return Err(wrong("the client has shown no key")) };
        let shown = connection.peer_certificates().and_then(|all| all.first());
        let shown = shown.ok_or_else(|| wrong("the client has shown no key"))?;
        let client = match self.shown {
            Shown::Key => {
                let key = PublicKey::from_spki(shown).ok_or_else(|| wrong("the client has shown no key"))?;
                Client { key, name: None, certified: None, lease: None }
            }
            Shown::Certificate => {
                let name = name_of(shown).ok_or_else(|| wrong("the client's certificate names nobody"))?;
                let chain = connection.peer_certificates().unwrap_or_default().to_vec().into();
                let key = PublicKey::of_certificate(&name);
                let certified = Certified { chain, at: UnixTime::now() };
                Client { key, name: Some(name), certified: Some(certified), lease: None }
            }
            Shown::Lease => {
                let lease = LeaseCertificate::from_der(shown).ok_or_else(|| wrong("the client has shown no lease"))?;
                let said = lease.lease().clone();
                Client { key: lease.holder(), name: None, certified: None, lease: Some(said) }
            }
        };
        let cipher = cipher(connection.negotiated_cipher_suite())?;
        let counts = connection.dangerous_extract_secrets().map_err(io::Error::other)?;
        Ok((client, self.caught.secrets(SERVER, cipher, &counts)))
    }
}

/// Begins the handshake as the client wants it, once all has come that it says first; and how it will say who it is.
fn begin(
    acceptor: &mut Acceptor,
    door: &Door,
    caught: &Arc<Caught>,
    stream: &mut impl Write,
) -> io::Result<Option<(ServerConnection, Shown)>> {
    let accepted = match acceptor.accept() {
        Ok(Some(accepted)) => {
            let (config, shown) = door.config_for(&accepted.client_hello());
            accepted.into_connection(watched(config, caught)).map(|connection| Some((connection, shown)))
        }
        Ok(None) => Ok(None),
        Err(refused) => Err(refused),
    };
    accepted.map_err(|(error, mut alert)| {
        let _ = alert.write(stream);
        meaning(error, SERVER)
    })
}
