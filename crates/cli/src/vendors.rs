//! A folder of .icd files for one program: Ropeway's, and the machine's own unless they are to be hidden.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::os::unix::fs::{DirBuilderExt, symlink};
use std::path::{Path, PathBuf};

use ropeway_transport::private_file;

use crate::places::{ICD_FILE, VENDORS, filled, icd_files, is_ours};

/// The value of `OCL_ICD_VENDORS` before `ropeway run` put its folder there, for the server behind `local:`.
pub const NATIVE_VENDORS: &str = "ROPEWAY_NATIVE_VENDORS";

/// Whether a folder, or an .icd file, names other drivers than Ropeway.
pub fn has_others(place: &Path) -> bool {
    if place.extension().is_some_and(|extension| extension == "icd") {
        return fs::read_to_string(place).is_ok_and(|text| !is_ours(text.lines().next().unwrap_or_default().trim()));
    }
    icd_files(place).is_ok_and(|files| files.iter().any(|(_, library)| !is_ours(library)))
}

/// Creates the folder for the client library `library`; with `only`, leaves out the machine's own .icd files.
///
/// Programs that start at the same time may share the folder, so Ropeway's file must never be missing from it.
pub fn prepare(library: &Path, only: bool) -> io::Result<PathBuf> {
    let others = if only { Vec::new() } else { machines_own()? };
    let mut hasher = DefaultHasher::new();
    (library, &others).hash(&mut hasher);
    let folder = base()?.join(format!("vendors-{:016x}", hasher.finish()));
    fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
    replace(&folder, ICD_FILE.as_ref(), |path| fs::write(path, format!("{}\n", library.display())))?;
    for other in &others {
        if let Some(name) = other.file_name() {
            replace(&folder, Path::new(name), |path| symlink(other, path))?;
        }
    }
    Ok(folder)
}

/// Returns the machine's .icd files without Ropeway's: from the place that the loaders' variables name, else from the
/// usual folder.
fn machines_own() -> io::Result<Vec<PathBuf>> {
    let named = ["OCL_ICD_VENDORS", "OPENCL_VENDOR_PATH"].into_iter().find_map(filled);
    let place = named.map_or(PathBuf::from(VENDORS), PathBuf::from);
    if place.extension().is_some_and(|extension| extension == "icd") {
        return Ok(vec![std::path::absolute(place)?]);
    }
    match icd_files(&std::path::absolute(place)?) {
        Ok(files) => Ok(files.into_iter().filter(|(_, library)| !is_ours(library)).map(|(path, _)| path).collect()),
        // A machine without any OpenCL of its own.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// Returns where the folders are: in a place that is removed when the user logs out, else in the user's cache.
fn base() -> io::Result<PathBuf> {
    let folder = private_file::runtime_folder()
        .or_else(|| filled("XDG_CACHE_HOME").map(PathBuf::from))
        .or_else(|| Some(PathBuf::from(filled("HOME")?).join(".cache")));
    match folder {
        Some(folder) if folder.is_absolute() => Ok(folder.join("ropeway")),
        _ => Err(io::Error::other("none of XDG_RUNTIME_DIR, XDG_CACHE_HOME and HOME names a folder")),
    }
}

/// Creates a file in `folder` with `make` and atomically replaces the old one, which may be in use.
fn replace(folder: &Path, name: &Path, make: impl FnOnce(&Path) -> io::Result<()>) -> io::Result<()> {
    // The name does not end in .icd, so that no loader reads it.
    let mut fresh = name.as_os_str().to_owned();
    fresh.push(format!(".{}", std::process::id()));
    let fresh = folder.join(fresh);
    make(&fresh)?;
    fs::rename(&fresh, folder.join(name))
}
