//! Keys that say who somebody is: Ed25519, as raw public keys in TLS (RFC 7250, RFC 8410).

use std::fmt;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest;
use aws_lc_rs::hkdf::{HKDF_SHA256, Prk};
use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair as _};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use rustls::sign::CertifiedKey;
use std::sync::Arc;

/// Bytes of a public key, and of a private one.
pub const KEY: usize = 32;

/// What comes before the bytes of an Ed25519 key in a SubjectPublicKeyInfo, and in a PKCS #8 private key.
const PUBLIC_PREFIX: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];
const PRIVATE_PREFIX: [u8; 16] =
    [0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20];

/// Who somebody is to others.
#[derive(Clone, Copy, PartialOrd, Ord)]
pub struct PublicKey([u8; KEY]);

/// Who somebody is, with the means to prove it.
#[derive(Clone)]
pub struct Identity {
    seed: [u8; KEY],
    public: PublicKey,
}

impl PublicKey {
    /// The key of these bytes.
    pub fn new(bytes: [u8; KEY]) -> Self {
        Self(bytes)
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8; KEY] {
        &self.0
    }

    /// What stands in a key's place for whom a certificate names. Nobody has the private key: it shows itself in no
    /// handshake.
    pub fn of_certificate(name: &str) -> Self {
        let mut hash = digest::Context::new(&digest::SHA256);
        hash.update(b"ropeway certificate ");
        hash.update(name.as_bytes());
        let mut key = [0; KEY];
        key.copy_from_slice(hash.finish().as_ref());
        Self(key)
    }

    /// The key of such a text as it is printed with [`PublicKey::text`].
    pub fn from_text(text: &str) -> Option<Self> {
        Some(Self(URL_SAFE_NO_PAD.decode(text).ok()?.try_into().ok()?))
    }

    /// The key as text.
    pub fn text(&self) -> String {
        URL_SAFE_NO_PAD.encode(self.0)
    }

    /// The key in a SubjectPublicKeyInfo; `None` where that is of another kind.
    pub(super) fn from_spki(spki: &[u8]) -> Option<Self> {
        let (prefix, key) = spki.split_first_chunk::<12>()?;
        (*prefix == PUBLIC_PREFIX).then(|| key.try_into().ok()).flatten().map(Self)
    }

    fn spki(&self) -> Vec<u8> {
        [&PUBLIC_PREFIX[..], &self.0].concat()
    }

    /// What is in its SubjectPublicKeyInfo, without the sequence's own tag.
    pub(super) fn spki_contents(&self) -> Vec<u8> {
        self.spki().split_off(2)
    }
}

impl PartialEq for PublicKey {
    fn eq(&self, other: &Self) -> bool {
        verify_slices_are_equal(&self.0, &other.0).is_ok()
    }
}

impl Eq for PublicKey {}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0[..8].iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl PartialEq for Identity {
    fn eq(&self, other: &Self) -> bool {
        self.public == other.public
    }
}

impl Eq for Identity {}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Identity({:?})", self.public)
    }
}

impl Identity {
    /// A new one.
    ///
    /// # Errors
    /// The system gives no random bytes.
    pub fn generate() -> std::io::Result<Self> {
        let mut seed = [0; KEY];
        let error = |_| std::io::Error::other("the system gives no random bytes for a key");
        aws_lc_rs::rand::fill(&mut seed).map_err(error)?;
        Self::from_seed(seed).ok_or_else(|| std::io::Error::other("a new key is of no use"))
    }

    /// The one that everybody has who knows this secret.
    ///
    /// # Errors
    /// None that can be: the secret has the right length.
    pub fn of_group(secret: &[u8; KEY]) -> Option<Self> {
        let mut seed = [0; KEY];
        let group = Prk::new_less_safe(HKDF_SHA256, secret);
        group.expand(&[b"ropeway peers' identity"], HKDF_SHA256).ok()?.fill(&mut seed).ok()?;
        Self::from_seed(seed)
    }

    /// The one of this private key.
    pub fn from_seed(seed: [u8; KEY]) -> Option<Self> {
        let pair = Ed25519KeyPair::from_seed_unchecked(&seed).ok()?;
        let public = PublicKey(pair.public_key().as_ref().try_into().ok()?);
        Some(Self { seed, public })
    }

    /// The private key. It belongs into files that nobody else can read, and nowhere else.
    pub fn seed(&self) -> &[u8; KEY] {
        &self.seed
    }

    /// The private key as text, for a file.
    pub fn seed_text(&self) -> String {
        URL_SAFE_NO_PAD.encode(self.seed)
    }

    /// The one of such a text.
    pub fn from_seed_text(text: &str) -> Option<Self> {
        Self::from_seed(URL_SAFE_NO_PAD.decode(text).ok()?.try_into().ok()?)
    }

    /// Who that is to others.
    pub fn public(&self) -> PublicKey {
        self.public
    }

    /// The key as rustls wants it.
    pub(super) fn certified(&self) -> std::io::Result<Arc<CertifiedKey>> {
        self.certified_by(self.public.spki())
    }

    /// The same with a certificate for the key.
    pub(super) fn certified_by(&self, certificate: Vec<u8>) -> std::io::Result<Arc<CertifiedKey>> {
        let pkcs8 = [&PRIVATE_PREFIX[..], &self.seed].concat();
        let signing = rustls::crypto::aws_lc_rs::sign::any_eddsa_type(&PrivatePkcs8KeyDer::from(pkcs8));
        let signing = signing.map_err(std::io::Error::other)?;
        Ok(Arc::new(CertifiedKey::new(vec![CertificateDer::from(certificate)], signing)))
    }
}
