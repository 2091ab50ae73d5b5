//! How much of the machine's main memory a session takes, and how much it may.
//!
//! No limit of each process's fits: address and data limits count the addresses that drivers reserve, far more than they
//! use. A control group fits, but making one needs rights, and it says nothing to the client. So the daemon checks for
//! itself: rarely if there is much room, often if there is little. Where there are groups, they count, too, and stop what
//! is faster.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use crate::groups::hierarchy::{Controller, Own, Version};

/// Processes hardly ever take memory faster than this, in bytes a second.
const PACE: u64 = 8 << 30;

/// The shortest time between two checks, ...
const SOONEST: Duration = Duration::from_millis(20);

/// ... and the longest.
const LATEST: Duration = Duration::from_secs(2);

/// How much main memory a session may take.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct MemoryLimit {
    /// In bytes.
    pub(crate) bytes: u64,
    /// The name of the client whose limit it is; `None`: the server's own.
    pub(crate) of: Option<String>,
}

impl MemoryLimit {
    /// Says that a session which has taken these bytes has taken too many; or, if they are fewer than it may, that the
    /// system has ended a process of the session's for that.
    pub(crate) fn sentence(&self, taken: u64) -> String {
        let whose = self.of.as_ref().map_or_else(
            || "--session-host-memory of `ropeway serve`".to_owned(),
            |name| format!("the limit of '{name}' there"),
        );
        let mib = |bytes: u64| bytes >> 20;
        let limit = mib(self.bytes);
        if taken > self.bytes {
            return format!(
                "the session took {} MiB of the server's main memory and may take {limit} ({whose})",
                mib(taken)
            );
        }
        format!("the session took more of the server's main memory than the {limit} MiB that it may take ({whose})")
    }
}

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
    let own = Own::of(Controller::Memory)?;
    limits_of(&own).filter_map(|file| fs::read_to_string(file).ok()?.trim().parse().ok()).min()
}

/// Lists the files with the limits of a group and of those above it, which in a container may be all that is visible.
fn limits_of(own: &Own) -> impl Iterator<Item = PathBuf> {
    let file = match own.version {
        Version::One => "memory.limit_in_bytes",
        Version::Two => "memory.max",
    };
    own.and_above().map(move |folder| folder.join(file))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

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
        let own = Own { version: Version::Two, top: "/g".into(), folder: "/g/a/b".into() };
        let files: Vec<_> = limits_of(&own).collect();
        let expected = ["/g/a/b", "/g/a", "/g"].map(|folder| Path::new(folder).join("memory.max"));
        assert_eq!(files, expected);
    }
}
