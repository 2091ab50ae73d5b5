//! The sandbox of a worker process: it may compute, and do little else.
//!
//! Kernels and drivers run in a worker, so it must be assumed to be under a client's control. Four walls, each
//! explained at its place: no new privileges, an end with the server, limits, and (where the kernel has Landlock)
//! access only to those files that an OpenCL implementation needs.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetError,
    RulesetStatus, Scope, path_beneath_rules,
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::set_no_new_privs;
use tracing::{debug, warn};

/// The newest Landlock ABI that these rules know. Older kernels enforce the part that they support.
const LANDLOCK: ABI = ABI::V6;

/// The maximum number of open files in a worker: drivers open hundreds.
const OPEN_FILES: u64 = 4096;

/// System folders, which a worker may read and execute. PoCL runs a compiler and a linker; drivers read /proc and /sys.
/// Home folders and /var are not included.
const SYSTEM: &[&str] = &[
    "/usr", "/lib", "/lib32", "/lib64", "/bin", "/sbin", "/etc", "/opt", "/proc", "/sys", "/dev", "/run", "/nix",
    "/gnu",
];

/// Variables that name further folders with drivers, compilers and libraries.
const SYSTEM_VARIABLES: &[&str] = &[
    "LD_LIBRARY_PATH",
    "PATH",
    "OCL_ICD_VENDORS",
    "OCL_ICD_FILENAMES",
    "OPENCL_VENDOR_PATH",
    "CUDA_PATH",
    "ROCM_PATH",
];

/// Compiler caches: the variable that names the folder, else the folder within the user's cache folder or home; and a
/// path that exists only where that implementation is installed.
const CACHES: &[(&str, Base, &str, &str)] = &[
    ("POCL_CACHE_DIR", Base::Cache, "pocl", "/"),
    ("CUDA_CACHE_PATH", Base::Home, ".nv", "/dev/nvidiactl"),
    ("NEO_CACHE_DIR", Base::Cache, "neo_compiler_cache", "/dev/dri"),
    ("MESA_SHADER_CACHE_DIR", Base::Cache, "mesa_shader_cache", "/dev/dri"),
    ("AMD_COMGR_CACHE_DIR", Base::Cache, "comgr", "/dev/kfd"),
];

/// Where a compiler cache is.
#[derive(Clone, Copy)]
enum Base {
    /// `$XDG_CACHE_HOME` or `~/.cache`.
    Cache,
    /// The home folder.
    Home,
}

/// Puts this process, and all it starts, into the sandbox. Must be called before any other thread exists.
///
/// `program_cache` is the only folder of Ropeway's own that the process may write to.
pub(crate) fn enter(program_cache: Option<&Path>) {
    // A program that a kernel starts, setuid or not, gets no more rights than this process has.
    if let Err(error) = set_no_new_privs(true) {
        warn!(%error, "sandbox: cannot give up new privileges");
    }
    // The memory of a crashed worker is its client's data: no core dump may put it on this machine's disk.
    limit(Resource::Core, 0);
    limit(Resource::Nofile, OPEN_FILES);
    let env = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    match restrict(&readable(env), &writable(env, program_cache)) {
        Ok(RulesetStatus::FullyEnforced) => debug!("sandbox: files and network are restricted"),
        Ok(RulesetStatus::PartiallyEnforced) => debug!("sandbox: restricted as far as this kernel's Landlock goes"),
        Ok(RulesetStatus::NotEnforced) => {
            warn!("sandbox: this kernel has no Landlock; kernels and drivers can read and write what this user can");
        }
        Err(error) => {
            warn!(%error, "sandbox: Landlock cannot be used; kernels and drivers can reach this user's files")
        }
    }
}

fn limit(resource: Resource, most: u64) {
    let most = getrlimit(resource).maximum.map_or(most, |hard| hard.min(most));
    if let Err(error) = setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) }) {
        warn!(%error, ?resource, "sandbox: cannot set a limit");
    }
}

fn restrict(readable: &[PathBuf], writable: &[PathBuf]) -> Result<RulesetStatus, RulesetError> {
    let all = AccessFs::from_all(LANDLOCK);
    let status = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(all)?
        // No rule allows any network access: the worker has its client's socket already and needs no other.
        .handle_access(AccessNet::from_all(LANDLOCK))?
        // Nor may it signal processes outside.
        .scope(Scope::Signal)?
        .create()?
        .add_rules(path_beneath_rules(readable, AccessFs::from_read(LANDLOCK)))?
        // CUDA names its threads by writing to /proc/self/task/*/comm.
        .add_rules(path_beneath_rules(["/proc"], AccessFs::WriteFile | AccessFs::Truncate))?
        .add_rules(path_beneath_rules(writable, all))?
        .restrict_self()?;
    Ok(status.ruleset)
}

/// The paths that may be read and executed.
fn readable(env: impl Fn(&str) -> Option<OsString>) -> Vec<PathBuf> {
    let named = SYSTEM_VARIABLES.iter().filter_map(|name| env(name));
    let named =
        named.flat_map(|list| std::env::split_paths(&list).collect::<Vec<_>>()).filter(|path| path.is_absolute());
    SYSTEM.iter().map(PathBuf::from).chain(named).collect()
}

/// The paths that may be written to: devices, temporary files, and the compilers' caches (made where they are missing).
fn writable(env: impl Fn(&str) -> Option<OsString>, program_cache: Option<&Path>) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = vec!["/dev".into(), "/tmp".into(), "/var/tmp".into()];
    paths.extend(env("TMPDIR").map(PathBuf::from));
    let home = env("HOME").map(PathBuf::from);
    let cache = env("XDG_CACHE_HOME").map(PathBuf::from).or_else(|| Some(home.as_ref()?.join(".cache")));
    for &(variable, base, folder, evidence) in CACHES {
        if !Path::new(evidence).exists() {
            continue;
        }
        let base = match base {
            Base::Cache => &cache,
            Base::Home => &home,
        };
        paths.extend(env(variable).map(PathBuf::from).or_else(|| Some(base.as_ref()?.join(folder))));
    }
    paths.extend(program_cache.map(Path::to_owned));
    paths.retain(|path| path.is_absolute());
    for path in &paths {
        // A rule can only name a folder that exists. A folder that cannot be created is one that nobody can write to.
        if let Err(error) = fs::create_dir_all(path) {
            debug!(%error, path = %path.display(), "sandbox: no such cache");
        }
    }
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn home_folders_are_not_readable() {
        let paths = readable(|name| (name == "LD_LIBRARY_PATH").then(|| "/opt/driver/lib::relative".into()));
        assert!(paths.contains(&"/opt/driver/lib".into()) && !paths.contains(&"relative".into()));
        assert!(!paths.iter().any(|p| p.starts_with("/home") || p.starts_with("/root") || p == Path::new("/")));
    }

    #[test]
    fn caches_are_the_implementations_own() {
        let root = std::env::temp_dir().join(format!("ropeway-sandbox-{}", std::process::id()));
        let env = |name: &str| match name {
            "HOME" => Some(root.clone().into_os_string()),
            "POCL_CACHE_DIR" => Some(root.join("elsewhere").into_os_string()),
            _ => None,
        };
        let paths = writable(env, Some(&root.join("programs")));
        for path in ["elsewhere", "programs"] {
            assert!(paths.contains(&root.join(path)), "{path} in {paths:?}");
            assert!(root.join(path).is_dir());
        }
        assert!(!paths.contains(&root) && !paths.contains(&root.join(".cache")));
        fs::remove_dir_all(&root).unwrap();
    }

    /// A process cannot lift its own restrictions, so this test does its work in a separate process.
    #[test]
    fn behind_the_walls() {
        const MARK: &str = "ROPEWAY_SANDBOX_TEST";
        let Some(root) = std::env::var_os(MARK).map(PathBuf::from) else {
            // The test's folder must lie neither below /tmp nor in any system folder, wherever the test was built.
            let built = std::env::current_exe().unwrap().with_extension("walls");
            let home = Path::new(&std::env::var_os("HOME").unwrap()).join(format!(".walls-{}", std::process::id()));
            let temporary = std::env::temp_dir();
            let open = SYSTEM.iter().map(Path::new).chain([Path::new("/tmp"), Path::new("/var/tmp"), &temporary]);
            let is_open = open.into_iter().any(|open| built.starts_with(open));
            let root = if is_open { home } else { built };
            fs::create_dir_all(root.join("programs")).unwrap();
            fs::write(root.join("secret"), "x").unwrap();
            let output = std::process::Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "sandbox::tests::behind_the_walls", "--nocapture"])
                .env(MARK, &root)
                // Cargo puts the folder that this test works in into `LD_LIBRARY_PATH`.
                .env_remove("LD_LIBRARY_PATH")
                .env("HOME", &root)
                .output()
                .unwrap();
            fs::remove_dir_all(&root).unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            return;
        };
        enter(Some(&root.join("programs")));
        assert_eq!(getrlimit(Resource::Core).maximum, Some(0));
        let status = fs::read_to_string("/proc/thread-self/status").unwrap();
        assert!(status.contains("NoNewPrivs:\t1"), "{status}");
        if restrict(&["/".into()], &["/".into()]).is_ok_and(|status| status == RulesetStatus::NotEnforced) {
            assert!(std::env::var_os("CI").is_none(), "skipped under CI: this kernel has no Landlock");
            eprintln!("skipped: this kernel has no Landlock");
            return;
        }
        assert!(fs::read(root.join("secret")).is_err(), "a home folder can be read");
        assert!(fs::write(root.join("new"), "x").is_err(), "a home folder can be written to");
        fs::write(root.join("programs/new"), "x").unwrap();
        fs::write(root.join(".cache/pocl/new"), "x").unwrap();
        fs::write("/dev/null", "x").unwrap();
        assert!(fs::read("/etc/ld.so.cache").is_ok());
        assert!(std::process::Command::new("/bin/true").status().unwrap().success());
        assert!(std::net::TcpListener::bind("127.0.0.1:0").is_err(), "it can listen");
    }
}
