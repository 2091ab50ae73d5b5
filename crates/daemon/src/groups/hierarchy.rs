//! Where this process is in the system's control groups, of which there are two versions, often at the same time.

use std::fs;
use std::path::{Path, PathBuf};

/// The version of a hierarchy of control groups, which have files of different names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    /// Controllers may have hierarchies of their own.
    One,
    /// One hierarchy for all controllers; a group that bounds others has no processes itself.
    Two,
}

/// A resource that control groups bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Controller {
    /// Main memory.
    Memory,
    /// Processes and threads.
    Pids,
}

impl Controller {
    /// Its name in the system's files.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Pids => "pids",
        }
    }
}

/// The control group that this process is in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Own {
    /// The version of its hierarchy.
    pub(crate) version: Version,
    /// The hierarchy's folder, as far as it can be seen: a container sees a part.
    pub(crate) top: PathBuf,
    /// The group's folder.
    pub(crate) folder: PathBuf,
}

impl Own {
    /// The group in the hierarchy that has this controller, if there is one and it can be seen.
    pub(crate) fn of(controller: Controller) -> Option<Self> {
        let read = |name: &str| fs::read_to_string(format!("/proc/self/{name}")).ok();
        Self::read(controller, &read("cgroup")?, &read("mountinfo")?)
    }

    fn read(controller: Controller, groups: &str, mounts: &str) -> Option<Self> {
        let name = controller.name();
        let lines = || groups.lines().filter_map(|line| line.split_once(':')?.1.split_once(':'));
        let one = lines().find(|(controllers, _)| controllers.split(',').any(|controller| controller == name));
        let (version, path) = match one {
            Some((_, path)) => (Version::One, path),
            // The second version names no controllers.
            None => (Version::Two, lines().find(|(controllers, _)| controllers.is_empty())?.1),
        };
        let find = |line: &str| {
            let (mount, system) = line.split_once(" - ")?;
            let (kind, options) = (system.split(' ').next()?, system.rsplit(' ').next()?);
            let is_it = match version {
                Version::One => kind == "cgroup" && options.split(',').any(|option| option == name),
                Version::Two => kind == "cgroup2",
            };
            let mut fields = mount.split(' ').skip(3);
            let (root, point) = (fields.next()?, fields.next()?);
            let below = Path::new(path).strip_prefix(root).ok().filter(|_| is_it)?;
            let top = PathBuf::from(point);
            Some(Self { version, folder: top.join(below), top })
        };
        mounts.lines().find_map(find)
    }

    /// The group's folder and those above it, from the inside out.
    pub(crate) fn and_above(&self) -> impl Iterator<Item = &Path> {
        self.folder.ancestors().take_while(|folder| folder.starts_with(&self.top))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
        28 1 0:26 / /sys rw - sysfs sysfs rw\n\
        32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu,cpuacct\n\
        33 31 0:30 /docker/x /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory\n\
        34 31 0:31 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n";

    #[test]
    fn a_group_is_found_in_the_hierarchy_of_its_controller() {
        let groups = "12:cpu,cpuacct:/\n4:memory:/docker/x/y\n0::/system.slice/ropeway.service\n";
        let memory = Own::read(Controller::Memory, groups, MOUNTS).unwrap();
        let top = PathBuf::from("/sys/fs/cgroup/memory");
        assert_eq!(memory, Own { version: Version::One, folder: top.join("y"), top: top.clone() });
        assert_eq!(memory.and_above().collect::<Vec<_>>(), [top.join("y"), top]);
        let pids = Own::read(Controller::Pids, groups, MOUNTS).unwrap();
        assert_eq!((pids.version, pids.top), (Version::Two, "/sys/fs/cgroup/unified".into()));
        assert_eq!(pids.folder, Path::new("/sys/fs/cgroup/unified/system.slice/ropeway.service"));
    }

    #[test]
    fn a_group_that_cannot_be_seen_is_none() {
        assert_eq!(Own::read(Controller::Memory, "4:memory:/docker/z\n", MOUNTS), None);
        assert_eq!(Own::read(Controller::Pids, "4:memory:/docker/x\n", MOUNTS), None);
        assert_eq!(Own::read(Controller::Pids, "0::/\n", "28 1 0:26 / /sys rw - sysfs sysfs rw\n"), None);
    }
}
