//! How much of the machine's main memory a session takes, and how much it may.
//!
//! No system limit fits: address and data limits count the addresses that drivers reserve, far more than they use, and
//! making a control group for a session needs rights. So the daemon checks for itself: rarely if there is much room,
//! often if there is little.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Processes hardly ever take memory faster than this, in bytes a second.
const PACE: u64 = 8 << 30;

/// The shortest time between two checks, ...
const SOONEST: Duration = Duration::from_millis(20);

/// ... and the longest.
const LATEST: Duration = Duration::from_secs(2);

/// Returns the time until the next check of a session that has taken `taken` of its `limit` bytes.
pub(crate) fn look_again(taken: u64, limit: u64) -> Duration {
    let room = limit.saturating_sub(taken);
    Duration::from_millis(room.saturating_mul(1000) / PACE).clamp(SOONEST, LATEST)
}

/// Returns the main memory that a process holds, in bytes, resident or swapped: its private memory and its shared
/// memory, without mapped files.
pub(crate) fn taken(pid: u32) -> Option<u64> {
    sum(&fs::read_to_string(format!("/proc/{pid}/status")).ok()?)
}

fn sum(status: &str) -> Option<u64> {
    let field = |name: &str| {
        let value = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        value.trim().strip_suffix(" kB")?.parse::<u64>().ok()
    };
    // A process that has ended has no memory, and no such lines.
    let held = field("RssAnon")? + field("RssShmem")? + field("VmSwap").unwrap_or(0);
    Some(held << 10)
}

/// Returns the default limit for a session: three quarters of what this server may take.
pub(crate) fn default_limit() -> u64 {
    limit_of(&fs::read_to_string("/proc/meminfo").unwrap_or_default(), control_group()) / 4 * 3
}

/// Returns the machine's memory, or the control group's limit if that is lower; no limit if neither is known.
fn limit_of(meminfo: &str, group: Option<u64>) -> u64 {
    let total = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:")?.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    let machine = total.map_or(u64::MAX, |kilobytes| kilobytes << 10);
    group.map_or(machine, |group| group.min(machine))
}

/// The lowest limit of the control groups that this process is in.
fn control_group() -> Option<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    limits_in(Path::new("/sys/fs/cgroup"), &groups)
        .filter_map(|file| fs::read_to_string(file).ok()?.trim().parse().ok())
        .min()
}

/// Lists the files with the limits of each group and of those above it, which in a container may be all that is
/// visible.
fn limits_in(root: &Path, groups: &str) -> impl Iterator<Item = PathBuf> {
    let of_line = |line: &str| {
        let mut fields = line.splitn(3, ':');
        let (_, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
        let (base, file) = match controllers {
            "" => (root.to_owned(), "memory.max"),
            "memory" => (root.join("memory"), "memory.limit_in_bytes"),
            _ => return None,
        };
        let own = base.join(path.trim_start_matches('/'));
        let above = own.ancestors().filter(|folder| folder.starts_with(&base));
        Some(above.map(|folder| folder.join(file)).collect::<Vec<_>>())
    };
    groups.lines().filter_map(of_line).flatten().collect::<Vec<_>>().into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_more_room_the_later_the_next_look() {
        assert_eq!(look_again(0, u64::MAX), LATEST);
        assert_eq!(look_again(2 << 30, 4 << 30), Duration::from_millis(250));
        assert_eq!(look_again(5, 5), SOONEST);
    }

    #[test]
    fn memory_is_what_is_resident_or_swapped() {
        let status =
            "VmRSS:\t 900 kB\nRssAnon:\t     100 kB\nRssFile:\t  700 kB\nRssShmem:\t      20 kB\nVmSwap:\t  3 kB\n";
        assert_eq!(sum(status), Some(123 << 10));
        assert_eq!(sum("Name:\tgone\n"), None);
        assert!(taken(std::process::id()).is_some_and(|bytes| bytes > 1 << 16));
    }

    #[test]
    fn the_lower_of_machine_and_control_group_counts() {
        assert_eq!(limit_of("MemTotal:       1024 kB\n", None), 1 << 20);
        assert_eq!(limit_of("MemTotal:       1024 kB\n", Some(4096)), 4096);
        assert_eq!(limit_of("", Some(7)), 7);
        assert!(default_limit() > 1 << 20);
        let files: Vec<_> = limits_in(Path::new("/g"), "3:cpu:/x\n4:memory:/a/b\n0::/c\n").collect();
        let named =
            ["memory/a/b/memory.limit_in_bytes", "memory/a/memory.limit_in_bytes", "memory/memory.limit_in_bytes"];
        let expected: Vec<_> =
            named.into_iter().chain(["c/memory.max", "memory.max"]).map(|name| Path::new("/g").join(name)).collect();
        assert_eq!(files, expected);
    }
}
