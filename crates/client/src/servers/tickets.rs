//! Tickets that `ropeway join` has kept: one file each, named for the server's address, in the folder `tickets` beside
//! `ropeway.toml`, the user's or the system's.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use ropeway_transport::tls::{CertificateFiles, Credentials};
use ropeway_transport::{Endpoint, Pass, private_file};

use crate::servers::config::{CERTIFICATES, Config, SYSTEM_FOLDER, user_folder};

/// The folder's name.
const FOLDER: &str = "tickets";

/// The endpoint with the ticket that was kept for it, if it needs one and has none; without any, with the certificates
/// that are configured.
///
/// # Errors
/// The ticket's file, or a certificate's, cannot be used: one sentence that names it.
pub fn with_ticket(endpoint: &Endpoint) -> io::Result<Endpoint> {
    if !matches!(endpoint, Endpoint::Tls { .. }) || matches!(endpoint.pass(), Some(Pass::Ticket(_))) {
        return Ok(endpoint.clone());
    }
    for folder in folders() {
        let path = folder.join(file_name(endpoint));
        match read(&path) {
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {}
            read => {
                return read.map_err(|error| {
                    io::Error::new(ErrorKind::PermissionDenied, format!("the ticket {}: {error}", path.display()))
                });
            }
        }
    }
    with_certificates(endpoint)
}

/// The endpoint with the certificates that are configured, if there are any.
fn with_certificates(endpoint: &Endpoint) -> io::Result<Endpoint> {
    let wrong = |why: String| io::Error::new(ErrorKind::PermissionDenied, why);
    match Config::load().certificates {
        [None, None, None] => Ok(endpoint.clone()),
        [Some(ca), Some(certificate), Some(key)] => {
            let (authorities, certificate, key) = (ca.into(), certificate.into(), key.into());
            let read = Credentials::read(&CertificateFiles { certificate, key, authorities, revoked: None });
            Ok(endpoint.clone().certified(read.map_err(wrong)?))
        }
        some => {
            let missing = CERTIFICATES.iter().zip(&some).filter(|(_, file)| file.is_none()).map(|(name, _)| *name);
            let missing = missing.collect::<Vec<_>>().join(" and ");
            Err(wrong(format!("certificates take three files, and {missing} names none")))
        }
    }
}

/// The folders in which tickets are looked for: the user's, and the system's.
pub fn folders() -> impl Iterator<Item = PathBuf> {
    user_folder().into_iter().chain([PathBuf::from(SYSTEM_FOLDER)]).map(|folder| folder.join(FOLDER))
}

/// All files in such a folder, by their names, and the ticket in each or why it cannot be used; none where there is no
/// such folder.
pub fn kept_in(folder: &Path) -> Vec<(PathBuf, io::Result<Endpoint>)> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    // One that begins with a dot was being written when a program ended.
    let is_kept = |path: &PathBuf| path.file_name().is_some_and(|name| !name.to_string_lossy().starts_with('.'));
    let mut files: Vec<_> = entries.map(|entry| entry.path()).filter(is_kept).collect();
    files.sort_unstable();
    files.into_iter().map(|path| (path.clone(), read(&path))).collect()
}

/// Reads the ticket in a file, which has to be that of the file's name.
fn read(path: &Path) -> io::Result<Endpoint> {
    let wrong = |why: String| io::Error::new(ErrorKind::InvalidData, why);
    let found: Endpoint = private_file::read(path)?.parse().map_err(|error| wrong(format!("{error}")))?;
    if !matches!(found.pass(), Some(Pass::Ticket(_))) {
        return Err(wrong("it is no ticket".to_owned()));
    }
    let is_named = path.file_name().is_some_and(|name| *name == *file_name(&found));
    if is_named { Ok(found) } else { Err(wrong("it is for another server".to_owned())) }
}

/// Keeps the ticket of an endpoint for this user; returns the file.
///
/// # Errors
/// The endpoint has no ticket, the user has no home, or the file cannot be written: the old one is still there.
pub fn keep(endpoint: &Endpoint) -> io::Result<PathBuf> {
    if !matches!(endpoint.pass(), Some(Pass::Ticket(_))) {
        return Err(io::Error::new(
            ErrorKind::InvalidInput,
            "this is no ticket; a ticket begins with ropeway:// and is one line",
        ));
    }
    let folder = user_folder().ok_or_else(|| io::Error::new(ErrorKind::NotFound, "this user has no home folder"))?;
    let folder = folder.join(FOLDER);
    let path = folder.join(file_name(endpoint));
    std::fs::create_dir_all(&folder)?;
    private_file::replace(&path, format!("{}\n", endpoint.with_secret()).as_bytes())?;
    Ok(path)
}

/// The name of the file with an endpoint's ticket. A host name has no slash.
fn file_name(endpoint: &Endpoint) -> String {
    format!("{}_{}", endpoint.host(), endpoint.port())
}
