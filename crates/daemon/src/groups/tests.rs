use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use super::*;

/// Groups with these bounds; none where this process cannot make any.
fn groups(bounds: Bounds) -> Option<Groups> {
    let (groups, missing) = Groups::open(bounds).unwrap();
    if !missing.is_empty() {
        eprintln!("skipped: control groups cannot be made here: {missing:?}");
        return None;
    }
    groups
}

/// A shell in the group that runs this.
fn shell(group: &Group, script: &str) -> Child {
    let enter = "while [ \"$1\" = --group ]; do echo $$ > \"$2/cgroup.procs\" || exit 9; shift 2; done;";
    let mut command = Command::new("/bin/sh");
    command.arg("-c").arg(format!("{enter} {script}")).arg("shell");
    group.prepare(&mut command);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn until(what: &str, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !condition() {
        assert!(Instant::now() < deadline, "waited in vain for {what}");
        thread::sleep(Duration::from_millis(2));
    }
}

fn folders(group: &Group) -> Vec<PathBuf> {
    group.parts.iter().map(|part| part.folder.clone()).collect()
}

const MUCH: Bounds = Bounds { memory: 1 << 40, tasks: 1000 };

#[test]
fn what_takes_more_memory_than_its_group_may_is_killed_and_others_go_on() {
    let Some(groups) = groups(Bounds { memory: 64 << 20, ..MUCH }) else { return };
    let (greedy, modest) = (groups.for_worker().unwrap(), groups.for_worker().unwrap());
    // A child of the shell keeps all that it reads.
    let hoard = |megabytes: u32| format!("head -c {megabytes}M /dev/zero | tail -c {megabytes}M | wc -c");
    let modest_shell = shell(&modest, &format!("read -r _; {}", hoard(32)));
    let greedy_shell = shell(&greedy, &hoard(400)).wait_with_output().unwrap();
    assert_ne!(String::from_utf8_lossy(&greedy_shell.stdout).trim(), (400u64 << 20).to_string());
    assert!(greedy.was_over() && !modest.was_over());
    let modest_shell = modest_shell.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&modest_shell.stdout).trim(), (32u64 << 20).to_string());
}

#[test]
fn a_group_has_no_more_tasks_than_it_may() {
    let Some(groups) = groups(Bounds { tasks: 5, ..MUCH }) else { return };
    let group = groups.for_worker().unwrap();
    let script = "for n in 1 2 3 4 5 6 7 8; do sleep 60 & done; echo all";
    let mut refused = shell(&group, script);
    assert!(!refused.wait().unwrap().success());
    // So that what it has started ends, too.
    drop(group);
    let output = refused.wait_with_output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("Cannot fork") && output.stdout.is_empty(), "{output:?}");
}

#[test]
fn a_group_goes_with_all_that_is_in_it() {
    let Some(groups) = groups(MUCH) else { return };
    let group = groups.for_worker().unwrap();
    let paths = folders(&group);
    // Not in the shell's process group or session.
    let mut left = shell(&group, "setsid sleep 600 & exec sleep 600");
    let inside = |path: &PathBuf| fs::read_to_string(path.join("cgroup.procs")).unwrap_or_default().lines().count();
    until("two processes", || paths.iter().all(|path| inside(path) == 2));
    drop(group);
    until("removal", || !paths.iter().any(|path| path.exists()));
    assert!(!left.wait().unwrap().success());
    let own: Vec<_> = groups.0.places.iter().map(|place| place.folder.clone()).collect();
    drop(groups);
    until("removal of all", || !own.iter().any(|path| path.exists()));
}

#[test]
fn what_a_group_holds_is_counted() {
    let Some(groups) = groups(MUCH) else { return };
    let (group, other) = (groups.for_worker().unwrap(), groups.for_worker().unwrap());
    let mut holds = shell(&group, "x=$(head -c 32M /dev/zero | tr '\\000' x); read -r _; echo $x");
    until("32 MiB", || group.taken().is_some_and(|bytes| bytes >= 32 << 20));
    assert_eq!(other.taken(), Some(0));
    assert!(!group.was_over());
    drop(group);
    assert!(!holds.wait().unwrap().success());
}

#[test]
fn groups_of_servers_that_are_gone_are_removed_and_of_others_not() {
    let Some(first) = groups(MUCH) else { return };
    let alive = first.for_worker().unwrap();
    // As a killed server leaves them: not locked.
    let gone: Vec<_> = first.0.places.iter().map(|place| place.folder.with_file_name("ropeway-1-1")).collect();
    gone.iter().for_each(|folder| fs::create_dir_all(folder.join("0")).unwrap());
    let second = groups(MUCH).unwrap();
    until("removal", || !gone.iter().any(|path| path.exists()));
    drop(second);
    assert!(folders(&alive).iter().all(|path| path.exists()));
}

#[test]
fn a_session_may_have_a_lower_bound_than_others() {
    let Some(groups) = groups(MUCH) else { return };
    let group = groups.for_worker().unwrap();
    let bound = || {
        let part = group.memory().unwrap();
        let file = match part.version {
            Version::One => "memory.limit_in_bytes",
            Version::Two => "memory.max",
        };
        fs::read_to_string(part.folder.join(file)).unwrap().trim().parse::<u64>().unwrap()
    };
    assert_eq!(bound(), (1 << 40) + (1 << 36) + ROOM);
    group.bound_memory(256 << 20);
    assert_eq!(bound(), (256 << 20) + (16 << 20) + ROOM);
}
