//! The files that a worker may use: Landlock's rules, each with its reason. Landlock also keeps it from TCP, from
//! abstract Unix sockets and from other processes.

use std::ffi::OsString;
use std::fs;
use std::os::fd::IntoRawFd;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetError, RulesetStatus, Scope, path_beneath_rules,
};
use tracing::debug;

use super::Own;

/// The newest Landlock ABI that these rules know. Older kernels enforce the part that they support: files from 5.13,
/// TCP from 6.7 (ABI 4), orders to devices from 6.10 (5), sockets and signals from 6.12 (6).
const LANDLOCK: ABI = ABI::V6;

/// System folders and files, which a worker may read: programs' libraries, what drivers read of the machine and of
/// themselves. Not home folders or /var; of /etc and /run not what is secret to others where the server is root's.
pub(super) const SYSTEM: &[&str] = &[
    "/usr",
    "/lib",
    "/lib32",
    "/lib64",
    "/bin",
    "/sbin",
    "/opt",
    "/proc",
    "/sys",
    "/nix",
    "/gnu",
    // Which implementations and libraries there are.
    "/etc/OpenCL",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/ld.so.preload",
    "/etc/alternatives",
    "/etc/vulkan",
    "/etc/glvnd",
    "/etc/nvidia",
    "/etc/nvidia-container-runtime",
    "/etc/drirc",
    "/etc/rocm",
    "/etc/igfx_user_feature.txt",
    "/etc/static",
    "/run/opengl-driver",
    "/run/opengl-driver-32",
    "/run/current-system",
    "/run/udev",
    // Which system this is, as compilers ask to find their folders; its users' names, language and time.
    "/etc/os-release",
    "/etc/lsb-release",
    "/etc/debian_version",
    "/etc/redhat-release",
    "/etc/nsswitch.conf",
    "/etc/passwd",
    "/etc/group",
    "/etc/locale.alias",
    "/etc/localtime",
];

/// Beside them, for a worker that makes connections: which RDMA adapters there are libraries for, and UCX's settings.
const FABRICS: &[&str] = &["/etc/libibverbs.d", "/etc/ucx"];

/// Devices that a worker may use, as the start of their paths: the accelerators that OpenCL implementations drive. Not
/// /dev as a whole, in which root's server would have the machine's disks.
const ACCELERATORS: &[&str] =
    &["nvidia", "nvmap", "nvhost", "dri", "kfd", "mali", "kgsl", "accel", "dma_heap", "ion", "dxg", "galcore", "pvr"];

/// Devices without a machine behind them.
const PLAIN: &[&str] = &["null", "zero", "full", "random", "urandom"];

/// Programs that a worker may start, as the start of their names: linkers and the compiler, with which PoCL makes a
/// kernel's library. The dynamic loader is added, as these need it.
const PROGRAMS: &[&str] = &["ld", "ld.", "lld", "ld64.", "clang"];

/// Variables that name further folders with drivers, compilers and libraries.
pub(super) const SYSTEM_VARIABLES: &[&str] = &[
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
    ("MESA_SHADER_CACHE_DIR", Base::Cache, "mesa_shader_cache", "/"),
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

/// Puts this thread, and all that it starts, under the rules.
pub(super) fn restrict(
    readable: &[PathBuf],
    writable: &[PathBuf],
    connects: bool,
) -> Result<RulesetStatus, RulesetError> {
    let all = AccessFs::from_all(LANDLOCK);
    let read = AccessFs::ReadFile | AccessFs::ReadDir;
    let device = AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::Truncate | AccessFs::ReadDir | AccessFs::IoctlDev;
    let ruleset = Ruleset::default().set_compatibility(CompatLevel::BestEffort).handle_access(all)?;
    // It may not signal processes outside.
    let mut ruleset = ruleset.scope(Scope::Signal)?;
    if !connects {
        // No rule allows any network access: the worker has its client's socket already and needs no other. Nor may it
        // connect to what others listen on by a name that is no file's.
        ruleset = ruleset.handle_access(AccessNet::from_all(LANDLOCK))?.scope(Scope::AbstractUnixSocket)?;
    }
    let mut ruleset = ruleset
        .create()?
        .add_rules(path_beneath_rules(readable, read))?
        .add_rules(path_beneath_rules(["/dev"], AccessFs::ReadDir))?
        .add_rules(path_beneath_rules(devices(connects), device))?
        .add_rules(path_beneath_rules(programs(), AccessFs::ReadFile | AccessFs::Execute))?
        .add_rules(path_beneath_rules(writable, kept()))?;
    // CUDA names its threads by writing to /proc/self/task/*/comm. The folder's descriptor stays open: the kernel would
    // make a new folder, for which there is no rule, if it had forgotten this one. Other processes' folders and the
    // kernel's settings, which root's worker could write to, have no such rule.
    if let Ok(own) = fs::File::open("/proc/self/task") {
        let own = PathFd::new(format!("/proc/self/fd/{}", own.into_raw_fd()));
        if let Ok(own) = own {
            ruleset = ruleset.add_rule(PathBeneath::new(own, AccessFs::WriteFile | AccessFs::Truncate))?;
        }
    }
    Ok(ruleset.restrict_self()?.ruleset)
}

/// What a worker may do in folders that are its own: all that compilers do there. Not start a program from there, nor
/// make links that point elsewhere, devices, pipes and sockets.
fn kept() -> BitFlags<AccessFs> {
    let not = AccessFs::Execute
        | AccessFs::MakeSym
        | AccessFs::MakeChar
        | AccessFs::MakeBlock
        | AccessFs::MakeFifo
        | AccessFs::MakeSock
        | AccessFs::IoctlDev;
    AccessFs::from_all(LANDLOCK) & !not
}

/// The devices that exist: with RDMA adapters for a worker that makes connections.
fn devices(connects: bool) -> Vec<PathBuf> {
    let is_ours = |name: &str| {
        PLAIN.contains(&name)
            || ACCELERATORS.iter().any(|start| name.starts_with(start))
            || connects && name == "infiniband"
    };
    let entries = fs::read_dir("/dev").into_iter().flatten().flatten();
    entries.filter(|entry| entry.file_name().to_str().is_some_and(is_ours)).map(|entry| entry.path()).collect()
}

/// The programs that may be started, and the dynamic loader: it is this process's own.
fn programs() -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/bin".into(), "/bin".into(), "/usr/local/bin".into()]);
    let is_ours = |name: &str| {
        // `x86_64-linux-gnu-ld.bfd`: the last part says what it is.
        let tool = name.rsplit_once("-gnu-").map_or(name, |(_, tool)| tool);
        PROGRAMS.iter().any(|start| match *start {
            "ld" => tool == "ld",
            start => tool.starts_with(start),
        })
    };
    let entries = folders.filter_map(|folder| fs::read_dir(folder).ok()).flatten().flatten();
    let tools = entries.filter(|entry| entry.file_name().to_str().is_some_and(is_ours)).map(|entry| entry.path());
    let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let mapped = maps.lines().filter_map(|line| Some(Path::new(&line[line.find('/')?..])));
    let is_loader =
        |path: &&Path| path.file_name().and_then(|name| name.to_str()).is_some_and(|n| n.starts_with("ld-"));
    let loader = mapped.filter(is_loader).map(Path::to_owned).next();
    tools.chain(loader).collect()
}

/// The paths that may be read.
pub(super) fn readable(env: impl Fn(&str) -> Option<OsString>, own: Own<'_>) -> Vec<PathBuf> {
    let named = SYSTEM_VARIABLES.iter().filter_map(|name| env(name));
    let named =
        named.flat_map(|list| std::env::split_paths(&list).collect::<Vec<_>>()).filter(|path| path.is_absolute());
    let fabrics = if own.connects { FABRICS } else { &[] };
    SYSTEM.iter().chain(fabrics).map(PathBuf::from).chain(named).chain(own.readable.iter().cloned()).collect()
}

/// The paths that may be written to: temporary files, and the compilers' caches (made where they are missing).
pub(super) fn writable(env: impl Fn(&str) -> Option<OsString>, own: Own<'_>) -> Vec<PathBuf> {
    let Own { program_cache, folder, .. } = own;
    let mut paths: Vec<PathBuf> = match folder {
        Some(folder) => vec![folder.to_owned()],
        None => ["/tmp".into(), "/var/tmp".into()].into_iter().chain(env("TMPDIR").map(PathBuf::from)).collect(),
    };
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
