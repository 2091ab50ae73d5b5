//! Control groups for a test's server, which go with the test.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::process;

/// A group in each hierarchy that bounds memory or tasks; removed, with all below, when dropped.
pub struct Groups {
    folders: Vec<PathBuf>,
    /// The groups that servers enter, which are not theirs to divide: theirs are beside these, as in a login of root's.
    entries: Vec<PathBuf>,
}

impl Groups {
    /// Makes them, below those of this process. `None` where it may not: that takes root, or groups that are this
    /// user's.
    pub fn new() -> Option<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("test-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let mut groups = Self { folders: Vec::new(), entries: Vec::new() };
        for controller in ["memory", "pids"] {
            let made =
                own(controller).ok_or_else(|| io::Error::other("they cannot be seen")).and_then(|(own, is_two)| {
                    let folder = own.join(&name);
                    if is_two {
                        fs::write(own.join("cgroup.subtree_control"), "+memory +pids")?;
                    }
                    if !groups.folders.contains(&folder) {
                        fs::create_dir(&folder)?;
                        groups.folders.push(folder.clone());
                        groups.entries.push(if is_two { entry(&folder)? } else { folder });
                    }
                    Ok(())
                });
            if let Err(error) = made {
                eprintln!("skipped: control groups cannot be made here: {error}");
                return None;
            }
        }
        Some(groups)
    }

    /// The command that runs `program`, in these groups.
    pub fn command(&self, program: PathBuf) -> Command {
        let mut command = Command::new("/bin/sh");
        let enter =
            "while [ \"$1\" != -- ]; do echo $$ > \"$1/cgroup.procs\" || exit 9; shift; done; shift; exec \"$@\"";
        command.args(["-c", enter, "sh"]).args(&self.entries).arg("--").arg(program);
        command
    }

    /// The names of the groups of workers, in each hierarchy.
    pub fn of_workers(&self) -> Vec<Vec<String>> {
        let names = |folder: &Path| {
            let entries = fs::read_dir(folder).into_iter().flatten().flatten();
            let folders = entries.filter(|entry| entry.path().is_dir());
            folders.filter_map(|entry| entry.file_name().into_string().ok()).collect::<Vec<_>>()
        };
        let servers = |folder: &PathBuf| names(folder).into_iter().filter(|name| name.starts_with("ropeway-"));
        let workers = |folder: &PathBuf| {
            let of_server = |server: String| {
                let below = names(&folder.join(&server));
                below.into_iter().map(move |worker| format!("{server}/{worker}"))
            };
            servers(folder).flat_map(of_server).collect()
        };
        self.folders.iter().map(workers).collect()
    }

    /// How many groups of servers there are, in all hierarchies.
    pub fn of_servers(&self) -> usize {
        let entries = self.folders.iter().flat_map(|folder| fs::read_dir(folder).into_iter().flatten().flatten());
        entries.filter(|entry| entry.file_name().as_encoded_bytes().starts_with(b"ropeway-")).count()
    }

    /// How many hierarchies there are.
    pub fn hierarchies(&self) -> usize {
        self.folders.len()
    }
}

impl Drop for Groups {
    fn drop(&mut self) {
        // What was killed takes a while to go.
        let until = Instant::now() + Duration::from_secs(10);
        while let Some(error) = self.folders.iter().find_map(|folder| remove(folder).err()) {
            if Instant::now() >= until {
                assert!(std::thread::panicking(), "the test's control groups stay: {error}");
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// This process's group in the hierarchy that has this controller, and whether that is of the second version.
fn own(controller: &str) -> Option<(PathBuf, bool)> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let lines = || groups.lines().filter_map(|line| line.split_once(':')?.1.split_once(':'));
    let one = lines().find(|(controllers, _)| controllers.split(',').any(|name| name == controller));
    let (_, path) = one.or_else(|| lines().find(|(controllers, _)| controllers.is_empty()))?;
    let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
    let is_it = |kind: &str, options: &str| match one {
        Some(_) => kind == "cgroup" && options.split(',').any(|name| name == controller),
        None => kind == "cgroup2",
    };
    let point = mounts.lines().find_map(|line| {
        let mut fields = line.split(' ').skip(1);
        let (point, kind, options) = (fields.next()?, fields.next()?, fields.next()?);
        is_it(kind, options).then_some(point)
    })?;
    Some((Path::new(point).join(path.trim_start_matches('/')), one.is_none()))
}

/// A group of the second version for processes, in one that has none itself.
fn entry(folder: &Path) -> io::Result<PathBuf> {
    let entry = folder.join("login");
    fs::write(folder.join("cgroup.subtree_control"), "+memory +pids")?;
    fs::create_dir(&entry)?;
    fs::write(entry.join("cgroup.max.descendants"), "0")?;
    Ok(entry)
}

/// Ends what is left in a test's group, and removes it with those below.
fn remove(folder: &Path) -> io::Result<()> {
    if !folder.exists() {
        return Ok(());
    }
    for entry in fs::read_dir(folder)?.flatten().filter(|entry| entry.path().is_dir()) {
        remove(&entry.path())?;
    }
    let inside = fs::read_to_string(folder.join("cgroup.procs"))?;
    inside.lines().filter_map(|pid| pid.parse().ok()).filter(|pid| *pid > 0).for_each(process::kill);
    fs::remove_dir(folder)
}
