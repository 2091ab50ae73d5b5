//! Looking at processes and ending them, always by their id.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::{fs, io};

use rustix::net::getpeername;
use rustix::process::{
    Pid, PidfdFlags, PidfdGetfdFlags, Signal, kill_process, pidfd_getfd, pidfd_open, test_kill_process,
};

/// The process `pid` as the system calls want it.
fn pid_of(pid: u32) -> Pid {
    i32::try_from(pid).ok().and_then(Pid::from_raw).expect("a process id is a positive number")
}

/// Ends a process at once, as a crash would.
pub fn kill(pid: u32) {
    // One that has ended meanwhile is as good.
    let _ = kill_process(pid_of(pid), Signal::KILL);
}

/// Asks a process to end.
pub fn terminate(pid: u32) {
    let _ = kill_process(pid_of(pid), Signal::TERM);
}

/// Stops a process until [`resume`], as a debugger or a shell does.
pub fn stop(pid: u32) {
    let _ = kill_process(pid_of(pid), Signal::STOP);
}

/// Lets a stopped process go on.
pub fn resume(pid: u32) {
    let _ = kill_process(pid_of(pid), Signal::CONT);
}

/// Whether there is such a process, not counting one that has ended and was not waited for.
pub fn is_alive(pid: u32) -> bool {
    test_kill_process(pid_of(pid)).is_ok() && state(pid).is_some_and(|state| state != 'Z')
}

fn stat(pid: u32) -> Option<String> {
    fs::read_to_string(format!("/proc/{pid}/stat")).ok()
}

/// The fields after the name, which is in parentheses and may hold anything.
fn fields(stat: &str) -> impl Iterator<Item = &str> {
    stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace()
}

fn state(pid: u32) -> Option<char> {
    fields(&stat(pid)?).next()?.chars().next()
}

/// All processes.
fn all() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").expect("/proc is there");
    entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// The processes that run and have an argument that holds `text`.
pub fn with_argument(text: &str) -> Vec<u32> {
    let has = |pid: u32| {
        fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| String::from_utf8_lossy(&line).contains(text))
    };
    all().filter(|&pid| has(pid) && is_alive(pid)).collect()
}

/// The processes that `pid` has started and that run.
pub fn children(pid: u32) -> Vec<u32> {
    let pids = all();
    let parent = |pid: u32| fields(&stat(pid)?).nth(1)?.parse::<u32>().ok();
    let mut found: Vec<u32> = pids.filter(|&child| parent(child) == Some(pid) && is_alive(child)).collect();
    found.sort_unstable();
    found
}

/// The sockets by which a process is connected to this address: shared with it, so that what is done to them is done to
/// its own.
///
/// # Errors
/// It has ended, or this process may not look.
pub fn sockets_to(pid: u32, address: SocketAddr) -> io::Result<Vec<OwnedFd>> {
    let process = pidfd_open(pid_of(pid), PidfdFlags::empty())?;
    let entries = fs::read_dir(format!("/proc/{pid}/fd"))?;
    let numbers = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    // One that has been closed meanwhile is none.
    let files = numbers.filter_map(|number| pidfd_getfd(&process, number, PidfdGetfdFlags::empty()).ok());
    let is_to =
        |file: &OwnedFd| getpeername(file).is_ok_and(|to| to.and_then(|to| to.try_into().ok()) == Some(address));
    Ok(files.filter(is_to).collect())
}

/// Memory of its own that a process has resident, in bytes.
pub fn resident(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("the process is there");
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("a process has memory");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("the kernel prints a number") * 1024
}
