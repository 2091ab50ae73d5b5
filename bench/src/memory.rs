//! The memory that processes take, and the process that serves a connection, from /proc.

use std::fs;
use std::time::{Duration, Instant};

/// How long workers of earlier clients may take to end.
const PATIENCE: Duration = Duration::from_secs(5);

/// Memory of one process, in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Memory {
    /// Resident: each page that is in memory, shared or not.
    pub resident: u64,
    /// Proportional: a page shared by n processes counts 1/n.
    pub proportional: u64,
    /// Anonymous: what the process has written, and shares with no other. A library's code is not.
    pub anonymous: u64,
}

impl Memory {
    /// Reads the memory of the process `pid`.
    ///
    /// # Errors
    /// When /proc cannot be read for it.
    pub fn of(pid: u32) -> Result<Self, String> {
        let path = format!("/proc/{pid}/smaps_rollup");
        let text = fs::read_to_string(&path).map_err(|e| format!("{path} cannot be read: {e}"))?;
        let field = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|rest| rest.trim().trim_end_matches(" kB").parse::<u64>().ok()).map(|kib| kib * 1024)
        };
        match (field("Rss:"), field("Pss:"), field("Anonymous:")) {
            (Some(resident), Some(proportional), Some(anonymous)) => Ok(Self { resident, proportional, anonymous }),
            _ => Err(format!("{path} lacks Rss, Pss or Anonymous")),
        }
    }
}

/// The processes that `ancestor` started, directly or not.
fn descendants(ancestor: u32) -> Vec<u32> {
    let parents: Vec<(u32, u32)> = fs::read_dir("/proc").map_or_else(
        |_| Vec::new(),
        |entries| {
            let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
            pids.filter_map(|pid| Some((pid, parent(pid)?))).collect()
        },
    );
    let mut family = vec![ancestor];
    let mut next = 0;
    while let Some(&pid) = family.get(next) {
        family.extend(parents.iter().filter(|(_, parent)| *parent == pid).map(|(child, _)| child));
        next += 1;
    }
    family.split_off(1)
}

fn parent(pid: u32) -> Option<u32> {
    // The name, in parentheses, may contain anything; the fields that matter follow the last parenthesis.
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()
}

/// The process below `server` that holds a connection to its TCP port, when there is just one such.
fn worker_of(server: u32, port: u16) -> Option<u32> {
    const ESTABLISHED: &str = "01";
    let table = fs::read_to_string("/proc/net/tcp").ok()?;
    let inodes: Vec<String> = table
        .lines()
        .skip(1)
        .filter_map(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let at_port = fields.get(1)?.ends_with(&format!(":{port:04X}"));
            (at_port && *fields.get(3)? == ESTABLISHED).then(|| format!("socket:[{}]", fields[9]))
        })
        .collect();
    let holds_one = |pid: &u32| {
        fs::read_dir(format!("/proc/{pid}/fd")).is_ok_and(|fds| {
            fds.flatten().any(|fd| {
                fs::read_link(fd.path()).is_ok_and(|to| inodes.iter().any(|inode| to.as_os_str() == inode.as_str()))
            })
        })
    };
    let mut workers = descendants(server).into_iter().filter(holds_one);
    workers.next().filter(|_| workers.next().is_none())
}

/// The process below `server` that holds a connection to its TCP port, once those of earlier clients have ended.
///
/// # Errors
/// When they do not.
pub fn only_worker_of(server: u32, port: u16) -> Result<u32, String> {
    let begun = Instant::now();
    loop {
        if let Some(pid) = worker_of(server, port) {
            return Ok(pid);
        }
        if begun.elapsed() > PATIENCE {
            return Err("the worker's process cannot be told from others".into());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}
