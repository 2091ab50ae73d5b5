//! The system calls that a worker may make: a seccomp filter, each part with its reason.
//!
//! Two filters: the first lets through the calls on a list, and answers all others as a kernel does that does not know
//! them (`ENOSYS`), so that C libraries fall back to the older calls that they know (`clone3` to `clone`, whose flags a
//! filter can see). The second answers `EPERM` to calls that have reached over the sandbox's walls elsewhere. Neither
//! kills: a driver that tries something in vain goes on without it.
//!
//! What is allowed whatever its arguments the kernel answers from a bitmap, without running a filter (Linux 5.11): all
//! that Ropeway calls on a command's path. A GPU driver's `ioctl` runs the filters, as compiled code, in which it is
//! among the first.

use std::collections::BTreeMap;

use libc::c_long;
use seccompiler::SeccompCmpArgLen::Dword;
use seccompiler::SeccompCmpOp::{Eq, MaskedEq, Ne};
use seccompiler::{BackendError, BpfProgram, SeccompAction, SeccompCondition, SeccompFilter, SeccompRule, TargetArch};

/// What a worker may call: found by tracing PoCL, Intel's CPU runtime and Mesa's rusticl, tried with NVIDIA's driver, and
/// completed by the calls that do the same things in other versions of the C library.
#[rustfmt::skip]
const ALLOWED: &[&[c_long]] = &[
    // Memory: allocators, compiled kernels (which must become executable), and where it lies on machines of several
    // nodes. An anonymous file is what Mesa's buffers lie in.
    &[libc::SYS_brk, libc::SYS_mmap, libc::SYS_munmap, libc::SYS_mremap, libc::SYS_mprotect, libc::SYS_madvise,
      libc::SYS_msync, libc::SYS_mincore, libc::SYS_mlock, libc::SYS_mlock2, libc::SYS_munlock, libc::SYS_membarrier,
      libc::SYS_mbind, libc::SYS_get_mempolicy, libc::SYS_set_mempolicy, libc::SYS_memfd_create],
    // Files: Landlock says which. Drivers look for libraries, devices and the processor's features; compilers have
    // caches and temporary files.
    &[libc::SYS_read, libc::SYS_write, libc::SYS_readv, libc::SYS_writev, libc::SYS_pread64, libc::SYS_pwrite64,
      libc::SYS_preadv, libc::SYS_pwritev, libc::SYS_preadv2, libc::SYS_pwritev2, libc::SYS_openat, libc::SYS_openat2,
      libc::SYS_close, libc::SYS_close_range, libc::SYS_lseek, libc::SYS_fstat, libc::SYS_newfstatat, libc::SYS_statx,
      libc::SYS_statfs, libc::SYS_fstatfs, libc::SYS_faccessat, libc::SYS_faccessat2, libc::SYS_readlinkat,
      libc::SYS_getdents64, libc::SYS_getcwd, libc::SYS_chdir, libc::SYS_fchdir, libc::SYS_mkdirat,
      libc::SYS_renameat2, libc::SYS_unlinkat, libc::SYS_linkat, libc::SYS_truncate,
      libc::SYS_ftruncate, libc::SYS_fallocate, libc::SYS_fadvise64, libc::SYS_fsync, libc::SYS_fdatasync,
      libc::SYS_flock, libc::SYS_fcntl, libc::SYS_dup, libc::SYS_dup3, libc::SYS_pipe2, libc::SYS_fchmod,
      libc::SYS_fchmodat, libc::SYS_umask, libc::SYS_utimensat, libc::SYS_copy_file_range, libc::SYS_sendfile],
    // Devices: all work of a GPU's driver. Landlock says on which.
    &[libc::SYS_ioctl],
    // Waiting.
    &[libc::SYS_futex, libc::SYS_futex_waitv, libc::SYS_ppoll, libc::SYS_pselect6, libc::SYS_epoll_create1,
      libc::SYS_epoll_ctl, libc::SYS_epoll_pwait, libc::SYS_epoll_pwait2, libc::SYS_eventfd2, libc::SYS_timerfd_create,
      libc::SYS_timerfd_settime, libc::SYS_timerfd_gettime, libc::SYS_timer_create, libc::SYS_timer_settime,
      libc::SYS_timer_gettime, libc::SYS_timer_getoverrun, libc::SYS_timer_delete, libc::SYS_setitimer,
      libc::SYS_getitimer, libc::SYS_clock_gettime, libc::SYS_clock_getres, libc::SYS_clock_nanosleep,
      libc::SYS_nanosleep, libc::SYS_gettimeofday, libc::SYS_restart_syscall],
    // The connections that the daemon hands over. New ones cannot be made.
    &[libc::SYS_sendto, libc::SYS_recvfrom, libc::SYS_sendmsg, libc::SYS_recvmsg, libc::SYS_sendmmsg,
      libc::SYS_recvmmsg, libc::SYS_shutdown, libc::SYS_getsockopt, libc::SYS_setsockopt, libc::SYS_getsockname,
      libc::SYS_getpeername],
    // Threads, and the linker that PoCL starts. Which programs may be started is Landlock's matter.
    &[libc::SYS_clone, libc::SYS_execve, libc::SYS_wait4, libc::SYS_waitid, libc::SYS_exit, libc::SYS_exit_group,
      libc::SYS_set_tid_address, libc::SYS_set_robust_list, libc::SYS_get_robust_list, libc::SYS_rseq,
      libc::SYS_sched_yield, libc::SYS_sched_getaffinity, libc::SYS_sched_setaffinity, libc::SYS_sched_getparam,
      libc::SYS_sched_getscheduler, libc::SYS_sched_get_priority_max, libc::SYS_sched_get_priority_min,
      libc::SYS_getpriority, libc::SYS_prctl],
    // Signals, to this process.
    &[libc::SYS_rt_sigaction, libc::SYS_rt_sigprocmask, libc::SYS_rt_sigreturn, libc::SYS_rt_sigpending,
      libc::SYS_rt_sigtimedwait, libc::SYS_rt_sigsuspend, libc::SYS_sigaltstack, libc::SYS_kill, libc::SYS_tgkill],
    // What a process may ask about itself and the machine.
    &[libc::SYS_getpid, libc::SYS_gettid, libc::SYS_getppid, libc::SYS_getuid, libc::SYS_geteuid, libc::SYS_getgid,
      libc::SYS_getegid, libc::SYS_getresuid, libc::SYS_getresgid, libc::SYS_getgroups, libc::SYS_getpgid,
      libc::SYS_getsid, libc::SYS_prlimit64, libc::SYS_getrusage, libc::SYS_times,
      libc::SYS_sysinfo, libc::SYS_uname, libc::SYS_getcpu, libc::SYS_capget, libc::SYS_getrandom],
    // Only until the second filter is there.
    &[libc::SYS_seccomp],
    // The same by the names that x86-64 alone has.
    #[cfg(target_arch = "x86_64")]
    &[libc::SYS_open, libc::SYS_creat, libc::SYS_stat, libc::SYS_lstat, libc::SYS_access, libc::SYS_readlink,
      libc::SYS_getdents, libc::SYS_mkdir, libc::SYS_rmdir, libc::SYS_rename, libc::SYS_unlink, libc::SYS_link,
      libc::SYS_chmod, libc::SYS_utime, libc::SYS_utimes, libc::SYS_futimesat, libc::SYS_dup2, libc::SYS_pipe,
      libc::SYS_poll, libc::SYS_select, libc::SYS_epoll_create, libc::SYS_epoll_wait, libc::SYS_eventfd,
      libc::SYS_alarm, libc::SYS_pause, libc::SYS_time, libc::SYS_fork, libc::SYS_vfork, libc::SYS_arch_prctl,
      libc::SYS_getpgrp, libc::SYS_getrlimit, libc::SYS_renameat],
];

/// What UCX needs beside that: connections of its own, and memory shared by System V's means, which is its own user's.
#[rustfmt::skip]
const CONNECTIONS: &[c_long] = &[
    libc::SYS_socket, libc::SYS_connect, libc::SYS_bind, libc::SYS_listen, libc::SYS_accept, libc::SYS_accept4,
    libc::SYS_shmget, libc::SYS_shmat, libc::SYS_shmdt, libc::SYS_shmctl,
];

/// What CUDA needs for a context beside that: it listens on a Unix socket of its own, by a name that is no file's, and has no context
/// where it cannot. NVIDIA's OpenCL does not.
#[rustfmt::skip]
const LISTENING: &[c_long] = &[
    libc::SYS_socket, libc::SYS_bind, libc::SYS_listen, libc::SYS_accept, libc::SYS_accept4,
];

/// Of the sockets, only these: the internet's; datagrams between processes, by which UCX wakes, and no stream to a
/// service of this machine that trusts whoever connects; and the one by which the C library asks for addresses.
const DOMAINS: [libc::c_int; 4] = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];

/// The bits of a socket's type that say what it is.
const TYPE: u64 = 0xF;

/// What is refused by name, whatever its arguments.
#[rustfmt::skip]
const REFUSED: &[&[c_long]] = &[
    // Connections: a worker has its client's, and the daemon makes those to other servers. A Unix socket would reach
    // services of this machine that trust whoever connects.
    &[libc::SYS_socket, libc::SYS_socketpair, libc::SYS_connect, libc::SYS_bind, libc::SYS_listen, libc::SYS_accept,
      libc::SYS_accept4],
    // Other processes: their memory, their descriptors, their signals.
    &[libc::SYS_ptrace, libc::SYS_process_vm_readv, libc::SYS_process_vm_writev, libc::SYS_process_madvise,
      libc::SYS_kcmp, libc::SYS_pidfd_open, libc::SYS_pidfd_getfd, libc::SYS_pidfd_send_signal, libc::SYS_tkill,
      libc::SYS_rt_sigqueueinfo, libc::SYS_rt_tgsigqueueinfo],
    // Memory and queues shared by all processes of a user, past the files' rules.
    &[libc::SYS_shmget, libc::SYS_shmat, libc::SYS_shmctl, libc::SYS_semget, libc::SYS_semctl, libc::SYS_semop,
      libc::SYS_msgget, libc::SYS_msgsnd, libc::SYS_msgrcv, libc::SYS_msgctl, libc::SYS_mq_open, libc::SYS_mq_unlink],
    // Programs started past the rules for paths.
    &[libc::SYS_execveat],
    // Parts of the kernel in which most of the ways out of sandboxes have been found, and that no driver needs.
    &[libc::SYS_bpf, libc::SYS_perf_event_open, libc::SYS_userfaultfd, libc::SYS_io_uring_setup,
      libc::SYS_io_uring_enter, libc::SYS_io_uring_register, libc::SYS_keyctl, libc::SYS_add_key,
      libc::SYS_request_key, libc::SYS_splice, libc::SYS_vmsplice, libc::SYS_tee, libc::SYS_fanotify_init],
    // Namespaces and mounts: in a user namespace of its own, a process has all capabilities.
    &[libc::SYS_unshare, libc::SYS_setns, libc::SYS_mount, libc::SYS_umount2, libc::SYS_pivot_root, libc::SYS_chroot,
      libc::SYS_open_tree, libc::SYS_move_mount, libc::SYS_fsopen, libc::SYS_fsconfig, libc::SYS_fsmount,
      libc::SYS_fspick, libc::SYS_mount_setattr, libc::SYS_name_to_handle_at, libc::SYS_open_by_handle_at],
    // The machine itself, where the server is root's.
    &[libc::SYS_kexec_load, libc::SYS_init_module, libc::SYS_finit_module, libc::SYS_delete_module, libc::SYS_reboot,
      libc::SYS_swapon, libc::SYS_swapoff, libc::SYS_sethostname, libc::SYS_setdomainname, libc::SYS_acct,
      libc::SYS_settimeofday, libc::SYS_clock_settime, libc::SYS_adjtimex, libc::SYS_clock_adjtime, libc::SYS_syslog,
      libc::SYS_quotactl, libc::SYS_personality],
    // Other users, owners and priorities; files that are devices or point elsewhere; further filters.
    &[libc::SYS_setuid, libc::SYS_setgid, libc::SYS_setreuid, libc::SYS_setregid, libc::SYS_setresuid,
      libc::SYS_setresgid, libc::SYS_setgroups, libc::SYS_setfsuid, libc::SYS_setfsgid, libc::SYS_capset,
      libc::SYS_fchown, libc::SYS_fchownat, libc::SYS_setpriority, libc::SYS_sched_setscheduler,
      libc::SYS_sched_setparam, libc::SYS_sched_setattr, libc::SYS_ioprio_set, libc::SYS_mknodat, libc::SYS_symlinkat,
      libc::SYS_seccomp],
    #[cfg(target_arch = "x86_64")]
    &[libc::SYS_chown, libc::SYS_lchown, libc::SYS_mknod, libc::SYS_symlink, libc::SYS_iopl, libc::SYS_ioperm,
      libc::SYS_modify_ldt, libc::SYS_kexec_file_load],
];

/// Flags of `clone` that make namespaces.
const NAMESPACES: [libc::c_int; 7] = [
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWNS,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWCGROUP,
];

/// Orders to a device that reach what the worker must not, on descriptors that it has from the daemon, to which
/// Landlock's rules do not apply: typing into the terminal that the log goes to, which becomes its shell's input; and
/// having signals sent to other processes.
const ORDERS: [libc::Ioctl; 6] = [libc::TIOCSTI, TIOCLINUX, libc::TIOCCONS, TIOCSETD, FIOSETOWN, SIOCSPGRP];

// Of <asm-generic/ioctls.h> and <asm-generic/sockios.h>.
const TIOCLINUX: libc::Ioctl = 0x541C;
const TIOCSETD: libc::Ioctl = 0x5423;
const FIOSETOWN: libc::Ioctl = 0x8901;
const SIOCSPGRP: libc::Ioctl = 0x8902;

/// Commands of `fcntl` by which the kernel signals another process.
const OWNERS: [libc::c_int; 3] = [libc::F_SETOWN, F_SETOWN_EX, F_SETSIG];

const F_SETSIG: libc::c_int = 10;
const F_SETOWN_EX: libc::c_int = 15;

/// What `prctl` may be asked: names of threads and of memory, and what this process is.
const SELF: [libc::c_int; 7] = [
    libc::PR_SET_NAME,
    libc::PR_GET_NAME,
    libc::PR_SET_VMA,
    libc::PR_GET_DUMPABLE,
    libc::PR_GET_NO_NEW_PRIVS,
    libc::PR_CAPBSET_READ,
    libc::PR_GET_PDEATHSIG,
];

/// Puts all threads of this process, and all that it starts, under the filters.
///
/// # Errors
/// The kernel has no seccomp filters, or this process may not have any; one sentence.
pub(super) fn restrict(connects: bool, listens: bool) -> Result<(), String> {
    let [first, second] = filters(std::process::id(), connects, listens).map_err(|error| error.to_string())?;
    // In this order: of two filters that refuse a call, the newer one's error counts.
    for filter in [first, second] {
        seccompiler::apply_filter_all_threads(&filter).map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// The two filters, for the process with this id, which makes connections or not, and CUDA's contexts or not.
fn filters(own: u32, connects: bool, listens: bool) -> Result<[BpfProgram; 2], BackendError> {
    let architecture = TargetArch::try_from(std::env::consts::ARCH)?;
    let all = |lists: &[&[c_long]]| -> BTreeMap<c_long, Vec<SeccompRule>> {
        lists.iter().copied().flatten().map(|&call| (call, Vec::new())).collect()
    };
    let errno = |error: libc::c_int| SeccompAction::Errno(error.unsigned_abs());
    let mut allowed = all(ALLOWED);
    let further = [(connects, CONNECTIONS), (listens, LISTENING)];
    let further: Vec<_> = further.into_iter().filter(|(is_so, _)| *is_so).map(|(_, calls)| calls).collect();
    allowed.extend(all(&further));
    let allowed = SeccompFilter::new(allowed, errno(libc::ENOSYS), SeccompAction::Allow, architecture)?;
    let mut refused = all(REFUSED);
    if !further.is_empty() {
        refused.retain(|call, _| !further.iter().any(|calls| calls.contains(call)));
        refused.insert(libc::SYS_socket, sockets(connects, listens)?);
    }
    refused.extend(conditions(u64::from(own))?);
    let refused = SeccompFilter::new(refused, SeccompAction::Allow, errno(libc::EPERM), architecture)?;
    Ok([allowed.try_into()?, refused.try_into()?])
}

/// Sockets that are refused where others are not.
fn sockets(connects: bool, listens: bool) -> Result<Vec<SeccompRule>, BackendError> {
    let number = |value: libc::c_int| u64::from(value.cast_unsigned());
    let domains = if connects { &DOMAINS[..] } else { &[libc::AF_UNIX] };
    let elsewhere = domains.iter().map(|&domain| SeccompCondition::new(0, Dword, Ne, number(domain)));
    let mut rules = vec![SeccompRule::new(elsewhere.collect::<Result<_, _>>()?)?];
    // UCX's are datagrams, CUDA's packets; Linux takes the raw kind for datagrams.
    let kinds = [
        (libc::SOCK_STREAM, false),
        (libc::SOCK_DGRAM, connects),
        (libc::SOCK_RAW, connects),
        (libc::SOCK_SEQPACKET, listens),
    ];
    for (kind, _) in kinds.into_iter().filter(|(_, is_used)| !is_used) {
        rules.push(SeccompRule::new(vec![
            SeccompCondition::new(0, Dword, Eq, number(libc::AF_UNIX))?,
            SeccompCondition::new(1, Dword, MaskedEq(TYPE), number(kind))?,
        ])?);
    }
    rules.push(SeccompRule::new(vec![
        SeccompCondition::new(0, Dword, Eq, number(libc::AF_NETLINK))?,
        SeccompCondition::new(2, Dword, Ne, number(libc::NETLINK_ROUTE))?,
    ])?);
    Ok(rules)
}

/// Calls that are refused with certain arguments only.
fn conditions(own: u64) -> Result<Vec<(c_long, Vec<SeccompRule>)>, BackendError> {
    // The kernel takes all of these arguments for numbers of 32 bits.
    let only =
        |argument, operator, value| SeccompRule::new(vec![SeccompCondition::new(argument, Dword, operator, value)?]);
    let number = |value: libc::c_int| u64::from(value.cast_unsigned());
    let namespaces = NAMESPACES.iter().map(|&flag| only(0, MaskedEq(number(flag)), number(flag)));
    let foreign = SELF.iter().map(|&option| SeccompCondition::new(0, Dword, Ne, number(option)));
    Ok(vec![
        // In a user namespace of its own, a process has all capabilities.
        (libc::SYS_clone, namespaces.collect::<Result<_, _>>()?),
        // The daemon, and other sessions of the same user. 0 and -1 are groups of processes.
        (libc::SYS_kill, vec![only(0, Ne, own)?]),
        (libc::SYS_tgkill, vec![only(0, Ne, own)?]),
        // Limits of other processes.
        (
            libc::SYS_prlimit64,
            vec![SeccompRule::new(vec![
                SeccompCondition::new(0, Dword, Ne, 0)?,
                SeccompCondition::new(0, Dword, Ne, own)?,
            ])?],
        ),
        (libc::SYS_ioctl, ORDERS.iter().map(|&order| only(1, Eq, u64::from(order as u32))).collect::<Result<_, _>>()?),
        (libc::SYS_fcntl, OWNERS.iter().map(|&command| only(1, Eq, number(command))).collect::<Result<_, _>>()?),
        // Among the others: to be traced, or dumped into a core file, and to outlive the server.
        (libc::SYS_prctl, vec![SeccompRule::new(foreign.collect::<Result<_, _>>()?)?]),
    ])
}
