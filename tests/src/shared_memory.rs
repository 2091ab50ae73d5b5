//! The memory that two processes share for a link, as the kernel shows it.

use std::fs;

/// The name of such memory.
const NAME: &str = "/memfd:ropeway-link";

/// How often a process has such memory mapped: its beginning, as the rest may be mapped in several pieces.
pub fn mapped(pid: u32) -> usize {
    maps(pid).lines().filter(|line| line.contains(" 00000000 ") && line.contains(NAME)).count()
}

/// In how many pieces a process has such memory mapped.
pub fn pieces(pid: u32) -> usize {
    maps(pid).lines().filter(|line| line.contains(NAME)).count()
}

fn maps(pid: u32) -> String {
    fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default()
}

/// How many descriptors of such memory a process holds.
///
/// # Panics
/// When it does not run.
pub fn held(pid: u32) -> usize {
    let folder = fs::read_dir(format!("/proc/{pid}/fd")).expect("it runs");
    let names = folder.flatten().filter_map(|entry| fs::read_link(entry.path()).ok());
    names.filter(|name| name.to_string_lossy().contains(NAME)).count()
}
