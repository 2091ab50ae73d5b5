//! Tickets that `ropeway join` has kept: one file each, named for the server's address, in the folder `tickets` beside
//! `ropeway.toml`, the user's or the system's.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use ropeway_transport::{Endpoint, Pass, private_file};

use crate::servers::config::{SYSTEM_FOLDER, user_folder};

/// The folder's name.
const FOLDER: &str = "tickets";

/// The endpoint with the ticket that was kept for it, if it needs one and has none.
///
/// # Errors
/// The ticket's file cannot be used: one sentence that names it.
pub fn with_ticket(endpoint: &Endpoint) -> io::Result<Endpoint> {
    if !matches!(endpoint, Endpoint::Tls { .. }) || matches!(endpoint.pass(), Some(Pass::Ticket(_))) {
        return Ok(endpoint.clone());
    }
    for folder in user_folder().into_iter().chain([PathBuf::from(SYSTEM_FOLDER)]) {
        let path = file(&folder, endpoint);
        let wrong =
            |why: String| io::Error::new(ErrorKind::PermissionDenied, format!("the ticket {}: {why}", path.display()));
        match private_file::read(&path) {
            Ok(line) => {
                let found: Endpoint = line.parse().map_err(|error| wrong(format!("{error}")))?;
                return if found == *endpoint { Ok(found) } else { Err(wrong("it is for another server".to_owned())) };
            }
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {}
            Err(error) => return Err(wrong(error.to_string())),
        }
    }
    Ok(endpoint.clone())
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
    let path = file(&folder, endpoint);
    std::fs::create_dir_all(folder.join(FOLDER))?;
    private_file::replace(&path, format!("{}\n", endpoint.with_secret()).as_bytes())?;
    Ok(path)
}

/// The file of an endpoint's ticket. A host name has no slash.
fn file(folder: &Path, endpoint: &Endpoint) -> PathBuf {
    folder.join(FOLDER).join(format!("{}_{}", endpoint.host(), endpoint.port()))
}
