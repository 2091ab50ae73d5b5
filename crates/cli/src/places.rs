//! Where the parts of an installation are: the client library, the loaders' .icd files, the OpenCL loader.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The client library's file name.
pub const LIBRARY: &str = "libropeway.so";

/// The .icd file's name.
pub const ICD_FILE: &str = "ropeway.icd";

/// The OpenCL loader that programs are linked with.
pub const LOADER: &str = "libOpenCL.so.1";

/// The folder that loaders look for .icd files in.
pub const VENDORS: &str = "/etc/OpenCL/vendors";

/// A library or .icd file larger than this is not looked into.
const MAX_FILE: u64 = 512 << 20;

/// The client library that belongs to this binary: beside it (a build folder), else installed with it.
pub fn library() -> io::Result<Option<PathBuf>> {
    let binary = std::env::current_exe()?;
    let folder = binary.parent().unwrap_or(Path::new("/"));
    let prefix = folder.parent().unwrap_or(Path::new("/"));
    let places = [
        folder.join(LIBRARY),
        prefix.join("lib").join(architecture()).join("ropeway").join(LIBRARY),
        prefix.join("lib/ropeway").join(LIBRARY),
    ];
    Ok(places.into_iter().find(|path| path.is_file()))
}

/// An environment variable that is set and not empty.
pub fn filled(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// Ropeway's folder among those of one kind that the user has: in the folder that `variable` names, or else in `within`
/// at home; none without a home.
pub fn of_user(variable: &str, within: &str) -> Option<PathBuf> {
    of_user_named(variable, within, "ropeway")
}

/// Another folder beside that one.
pub fn of_user_named(variable: &str, within: &str, name: &str) -> Option<PathBuf> {
    let at_home = || Some(PathBuf::from(filled("HOME")?).join(within));
    Some(filled(variable).map(PathBuf::from).or_else(at_home)?.join(name))
}

/// Debian's name of this machine's architecture, as in /usr/lib/x86_64-linux-gnu.
fn architecture() -> String {
    format!("{}-linux-gnu", std::env::consts::ARCH)
}

/// The .icd files in a folder, in the order of their names, and the library that each names.
pub fn icd_files(folder: &Path) -> io::Result<Vec<(PathBuf, String)>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "icd") {
            let text = fs::read_to_string(&path).unwrap_or_default();
            let library = text.lines().next().unwrap_or_default().trim().to_owned();
            files.push((path, library));
        }
    }
    files.sort();
    Ok(files)
}

/// Whether an .icd file that names `library` is one of Ropeway's.
pub fn is_ours(library: &str) -> bool {
    Path::new(library).file_name().is_some_and(|name| name == LIBRARY)
}

/// Where the dynamic linker finds a library by its bare name: `LD_LIBRARY_PATH`, then its cache.
pub fn find_shared(name: &str) -> Option<PathBuf> {
    let folders = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let named = std::env::split_paths(&folders).map(|folder| folder.join(name)).find(|path| path.is_file());
    named.or_else(|| {
        let cache = ["ldconfig", "/sbin/ldconfig"].iter().find_map(|ldconfig| {
            Command::new(ldconfig).arg("-p").output().ok().filter(|output| output.status.success())
        })?;
        let cache = String::from_utf8_lossy(&cache.stdout).into_owned();
        find_in_cache(&cache, name).map(PathBuf::from)
    })
}

/// Looks `name` up in what `ldconfig -p` prints; entries of this machine's own word size are the ones that count.
fn find_in_cache<'a>(cache: &'a str, name: &str) -> Option<&'a str> {
    let entries = cache.lines().filter_map(|line| line.trim().split_once(" => "));
    let named = entries.filter(|(entry, _)| entry.split(' ').next() == Some(name));
    let mut own = named.filter(|(entry, _)| cfg!(target_pointer_width = "32") || entry.contains("64"));
    own.next().map(|(_, path)| path)
}

/// Whose OpenCL loader a library is, by its own words.
pub fn loader_kind(path: &Path) -> &'static str {
    let bytes = read_bounded(path).unwrap_or_default();
    let has = |needle: &str| bytes.windows(needle.len()).any(|window| window == needle.as_bytes());
    if has("OCL_ICD_ASSUME_ICD_EXTENSION") {
        "ocl-icd"
    } else if has("khrIcd") || has("OCL_ICD_FILENAMES") {
        "the Khronos loader"
    } else {
        "an unknown loader"
    }
}

/// The release that a client library says it is: the version behind "Ropeway " in it.
pub fn library_release(path: &Path) -> Option<String> {
    const MARK: &[u8] = b" Ropeway ";
    let bytes = read_bounded(path).ok()?;
    let mut rest = &bytes[..];
    while let Some(at) = rest.windows(MARK.len()).position(|window| window == MARK) {
        rest = &rest[at + MARK.len()..];
        let digits = rest.iter().take(32).take_while(|b| b.is_ascii_digit() || **b == b'.').count();
        let version = String::from_utf8_lossy(&rest[..digits]);
        // The bytes behind it in the library may begin with a digit or a full stop by chance: only three numbers count.
        let numbers: Vec<&str> = version.split('.').take(3).collect();
        if numbers.len() == 3 && numbers.iter().all(|n| !n.is_empty()) {
            return Some(numbers.join("."));
        }
    }
    None
}

fn read_bounded(path: &Path) -> io::Result<Vec<u8>> {
    if fs::metadata(path)?.len() > MAX_FILE {
        return Err(io::Error::other("it is too large"));
    }
    fs::read(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_linkers_cache_is_understood() {
        let cache = "2 libs found in cache\n\tlibOpenCL.so.1 (libc6) => /lib32/libOpenCL.so.1\n\tlibOpenCL.so.1 (libc6,x86-64) => /lib64/libOpenCL.so.1\n\tlibOpenCL.so.10 (libc6,x86-64) => /x\n";
        assert_eq!(find_in_cache(cache, LOADER), Some("/lib64/libOpenCL.so.1"));
        assert_eq!(find_in_cache(cache, "libnone.so"), None);
    }

    #[test]
    fn only_ropeways_library_is_ours() {
        assert!(is_ours("/x/libropeway.so") && is_ours("libropeway.so"));
        assert!(!is_ours("libpocl.so") && !is_ours("") && !is_ours("/x/libropeway.so/y"));
    }
}
