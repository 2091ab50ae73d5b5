//! How much of the machine's main memory a session takes, and how much it may.
//!
//! No limit of the system's fits: drivers reserve far more addresses than they use, which address and data limits count, and a control group of
//! its own is not to be had without rights. So the daemon looks: rarely where there is much room, often where there is little.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Faster than this, in bytes a second, memory is hardly taken.
const PACE: u64 = 8 << 30;

/// The shortest time from one look to the next, ...
const SOONEST: Duration = Duration::from_millis(20);

/// ... and the longest.
const LATEST: Duration = Duration::from_secs(2);

/// When to look again at a session that takes `taken` of the `limit` bytes that it may take.
pub(crate) fn look_again(taken: u64, limit: u64) -> Duration {
    let room = limit.saturating_sub(taken);
    Duration::from_millis(room.saturating_mul(1000) / PACE).clamp(SOONEST, LATEST)
}

/// Main memory that a process holds, in bytes, swapped or not: what other processes do not have a part in, and what it shares as memory.
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

/// What a session may take where nobody has said so: three quarters of what this server may.
pub(crate) fn default_limit() -> u64 {
    limit_of(&fs::read_to_string("/proc/meminfo").unwrap_or_default(), control_group()) / 4 * 3
}

/// The machine's memory, or what the control group leaves of it; no limit where neither can be found out.
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

/// The files with the limits: of each group and those above it, which in a container may be all that can be seen.
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
