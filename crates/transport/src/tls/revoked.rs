//! Lists of certificates that their authorities have revoked (RFC 5280, section 5).

use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, TrustAnchor};
use webpki::{CertRevocationList, EndEntityCert, OwnedCertRevocationList};

use super::der::{BITS, SEQUENCE, element};
use super::handshake::provider;

/// Reads the lists of a file (PEM). One that an authority among `known` is said to have signed, and has not, is an
/// error; those of authorities in between are held against their certificates where a client shows these.
///
/// # Errors
/// The file has none, or one that is of no use; part of a sentence.
pub(super) fn read(
    text: &[u8],
    known: &[CertificateDer<'static>],
) -> Result<Vec<CertificateRevocationListDer<'static>>, String> {
    let lists: Result<Vec<_>, _> = CertificateRevocationListDer::pem_slice_iter(text).collect();
    let lists = lists.ok().filter(|lists| !lists.is_empty());
    let lists = lists.ok_or("there is no list of revoked certificates in it, as PEM")?;
    for list in &lists {
        let read =
            OwnedCertRevocationList::from_der(list).map_err(|error| format!("a list in it is of no use: {error}"))?;
        check(list, &CertRevocationList::from(read), known)?;
    }
    Ok(lists)
}

/// Checks a list's signature, if it says to be of one of these authorities.
fn check(
    list: &CertificateRevocationListDer<'_>,
    read: &CertRevocationList<'_>,
    known: &[CertificateDer<'static>],
) -> Result<(), String> {
    let of_its_name = |authority: &&CertificateDer<'_>| {
        let mut roots = RootCertStore::empty();
        let _ = roots.add((*authority).clone().into_owned());
        roots.roots.first().is_some_and(|anchor: &TrustAnchor<'_>| *anchor.subject == *read.issuer())
    };
    let mut authorities = known.iter().filter(of_its_name).peekable();
    if authorities.peek().is_none() || authorities.any(|authority| is_signed(list, authority).is_some()) {
        return Ok(());
    }
    Err("a list in it is not signed by the authority that it names".to_owned())
}

/// Whether an authority has signed a list: a sequence of what is signed, the algorithm and the signature.
fn is_signed(list: &CertificateRevocationListDer<'_>, authority: &CertificateDer<'_>) -> Option<()> {
    let authority = EndEntityCert::try_from(authority).ok()?;
    let (SEQUENCE, list, _) = element(list)? else { return None };
    let (SEQUENCE, _, rest) = element(list)? else { return None };
    let signed = &list[..list.len() - rest.len()];
    let (SEQUENCE, algorithm, rest) = element(rest)? else { return None };
    // The first byte says how many bits of the last one do not count: none.
    let (BITS, [0, signature @ ..], _) = element(rest)? else { return None };
    let algorithms = provider().signature_verification_algorithms;
    let mut fitting = algorithms.all.iter().filter(|known| *known.signature_alg_id() == *algorithm);
    fitting.any(|known| authority.verify_signature(*known, signed, signature).is_ok()).then_some(())
}
