//! Certificates (X.509), where an organisation has authorities that issue them: who may come in is then theirs to say.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use webpki::EndEntityCert;

use super::der::{IA5, OBJECT, PRINTABLE, SEQUENCE, SET, UTF8, element};
use super::handshake::provider;
use super::revoked;
use crate::private_file;

/// The files of one end: PEM, as every authority writes it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CertificateFiles {
    /// Its certificate, then those of the authorities in between.
    pub certificate: PathBuf,
    /// The private key; nobody else may read the file.
    pub key: PathBuf,
    /// The authorities that issue the other ends' certificates.
    pub authorities: PathBuf,
    /// Lists of those of their certificates that are revoked.
    pub revoked: Option<PathBuf>,
}

impl CertificateFiles {
    /// All of them.
    pub fn all(&self) -> impl Iterator<Item = &Path> {
        [&self.certificate, &self.key, &self.authorities].into_iter().chain(&self.revoked).map(PathBuf::as_path)
    }
}

/// What one end shows, and whom it trusts.
#[derive(Clone)]
pub struct Credentials {
    pub(super) own: Arc<CertifiedKey>,
    pub(super) authorities: Arc<RootCertStore>,
    pub(super) revoked: Vec<CertificateRevocationListDer<'static>>,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credentials")
    }
}

impl PartialEq for Credentials {
    fn eq(&self, other: &Self) -> bool {
        self.own.cert == other.own.cert
    }
}

impl Eq for Credentials {}

impl Credentials {
    /// Reads them.
    ///
    /// # Errors
    /// One sentence: which file is of no use, and why.
    pub fn read(files: &CertificateFiles) -> Result<Self, String> {
        let text = |path: &Path, what: &str| fs::read(path).map_err(|error| wrong(what, path, &error));
        let key = private_file::read(&files.key).map_err(|error| wrong("private key", &files.key, &error))?;
        let certificate = text(&files.certificate, "certificate")?;
        let authorities = text(&files.authorities, "authorities")?;
        let mut read = Self::from_pem(&certificate, key.as_bytes(), &authorities, files)?;
        if let Some(path) = &files.revoked {
            let known = certificates(&authorities, "authorities", &files.authorities)?;
            let lists = revoked::read(&text(path, "list of revoked certificates")?, &known);
            read.revoked = lists.map_err(|why| wrong("list of revoked certificates", path, &why))?;
        }
        Ok(read)
    }

    /// Takes what these files say, with no lists of what is revoked.
    ///
    /// # Errors
    /// As [`Credentials::read`].
    pub fn from_pem(
        certificate: &[u8],
        key: &[u8],
        authorities: &[u8],
        files: &CertificateFiles,
    ) -> Result<Self, String> {
        let chain = certificates(certificate, "certificate", &files.certificate)?;
        let wrong_key = |why: &dyn fmt::Display| wrong("private key", &files.key, why);
        let key = PrivateKeyDer::from_pem_slice(key)
            .map_err(|_| wrong_key(&"there is no private key in it, as PEM and without a password"))?;
        let key = provider().key_provider.load_private_key(key).map_err(|error| wrong_key(&error))?;
        let own = CertifiedKey::new(chain, key);
        own.keys_match().map_err(|_| wrong_key(&format_args!("it is not that of {}", files.certificate.display())))?;
        let mut known = RootCertStore::empty();
        for certificate in certificates(authorities, "authorities", &files.authorities)? {
            known.add(certificate).map_err(|error| wrong("authorities", &files.authorities, &error))?;
        }
        Ok(Self { own: Arc::new(own), authorities: Arc::new(known), revoked: Vec::new() })
    }
}

fn wrong(what: &str, path: &Path, why: &dyn fmt::Display) -> String {
    format!("cannot use the {what} {}: {why}", path.display())
}

/// The certificates of a file.
fn certificates(text: &[u8], what: &str, path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text).collect();
    match all {
        Ok(all) if !all.is_empty() => Ok(all),
        _ => Err(wrong(what, path, &"there is no certificate in it, as PEM")),
    }
}

/// Whom a certificate names: its subject's common name, or the first host name among its other names where it has
/// none.
pub(super) fn name_of(certificate: &CertificateDer<'_>) -> Option<String> {
    let certificate = EndEntityCert::try_from(certificate).ok()?;
    common_name(certificate.subject()).or_else(|| certificate.valid_dns_names().next().map(str::to_owned))
}

/// The object identifier of a common name (2.5.4.3).
pub(super) const COMMON_NAME: [u8; 3] = [0x55, 0x04, 0x03];

/// The last common name of a subject, which is a sequence of sets of attributes (RFC 5280, section 4.1.2.4), without
/// the sequence's own tag.
fn common_name(mut subject: &[u8]) -> Option<String> {
    let mut found = None;
    while let Some((SET, mut set, rest)) = element(subject) {
        subject = rest;
        while let Some((SEQUENCE, attribute, rest)) = element(set) {
            set = rest;
            if let Some((OBJECT, id, value)) = element(attribute)
                && id == COMMON_NAME
                && let Some((UTF8 | PRINTABLE | IA5, text, _)) = element(value)
            {
                found = std::str::from_utf8(text).ok().map(str::to_owned);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_common_name_is_found_among_other_attributes() {
        let attribute = |id: u8, tag: u8, text: &str| {
            let id = [OBJECT, 3, 0x55, 0x04, id];
            let value = [&[tag, text.len() as u8], text.as_bytes()].concat();
            let both = [&[SEQUENCE, (id.len() + value.len()) as u8], &id[..], &value].concat();
            [&[SET, both.len() as u8], &both[..]].concat()
        };
        let subject =
            [attribute(10, UTF8, "Lab"), attribute(3, UTF8, "Al\u{e9}"), attribute(11, PRINTABLE, "x")].concat();
        assert_eq!(common_name(&subject).as_deref(), Some("Al\u{e9}"));
        assert_eq!(common_name(&attribute(10, UTF8, "Lab")), None);
        for end in 0..subject.len() {
            let _ = common_name(&subject[..end]);
        }
        assert_eq!(common_name(&[SET, 0x84, 255, 255, 255, 255]), None);
    }
}
