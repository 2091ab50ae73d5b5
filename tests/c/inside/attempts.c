/* A driver that is under a client's control: linked with the stub of an OpenCL implementation, so that a real worker loads it
 * into its real sandbox. There it tries what a worker must not do, and says for each attempt whether it came through.
 *
 * The environment says what there is to reach: INSIDE_SECRET, a file; INSIDE_PORT, a TCP port of the loopback address;
 * INSIDE_SOCKET, a Unix socket's path; INSIDE_ABSTRACT, one's abstract name; INSIDE_CACHE and INSIDE_TEMPORARY,
 * files of other sessions; INSIDE_STAYS, that it leaves a process behind; INSIDE_TASKS, how many
 * threads it starts; INSIDE_HOARDS, how many MiB a process takes that it starts; INSIDE_FOLDER, an empty folder. An attempt
 * came through if what it asks for was done, or failed for the sake of arguments that are wrong on purpose where
 * success would harm the machine. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/capability.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static pid_t daemon_id;

/* 0, or the error. */
static int outcome(long result) { return result < 0 ? errno : 0; }

static int opened(const char *path, int flags)
{
    int file = open(path, flags | O_CLOEXEC);
    int error = outcome(file);
    if (file >= 0)
        close(file);
    return error;
}

static int opened_memory(void)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/mem", daemon_id);
    return opened(path, O_RDONLY);
}

static int connected(int family, const void *address, socklen_t size)
{
    int s = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (s < 0)
        return errno;
    int error = outcome(connect(s, address, size));
    close(s);
    return error;
}

static int to_port(int binds)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (!binds) {
        to.sin_port = htons(atoi(getenv("INSIDE_PORT")));
        return connected(AF_INET, &to, sizeof to);
    }
    int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (s < 0)
        return errno;
    int error = outcome(bind(s, (void *)&to, sizeof to));
    close(s);
    return error;
}

static int to_unix(const char *name, int abstract)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    strncpy(to.sun_path + abstract, name, sizeof to.sun_path - 2);
    return connected(AF_UNIX, &to, offsetof(struct sockaddr_un, sun_path) + abstract + strlen(name));
}

/* What a child process ends with: 0, or an error. */
static int in_child(int (*what)(void))
{
    pid_t child = fork();
    if (child < 0)
        return errno;
    if (child == 0)
        _exit(what());
    int status;
    return waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : EIO;
}

static int shell(void)
{
    execl("/bin/sh", "sh", "-c", "exit 0", NULL);
    return errno;
}

static int copied_program(void)
{
    char path[256];
    snprintf(path, sizeof path, "%s/inside-true-%d", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp", getpid());
    int from = open("/usr/bin/true", O_RDONLY | O_CLOEXEC);
    int to = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0700);
    static char bytes[1 << 20];
    ssize_t size = from < 0 || to < 0 ? -1 : read(from, bytes, sizeof bytes);
    if (size <= 0 || write(to, bytes, size) != size)
        return EIO;
    close(to);
    pid_t child = fork();
    if (child == 0) {
        execl(path, path, NULL);
        _exit(errno);
    }
    int status;
    waitpid(child, &status, 0);
    unlink(path);
    return WEXITSTATUS(status);
}

static int other_user(void) { return outcome(syscall(SYS_setresuid, 12345, 12345, 12345)); }
static int own_namespace(void) { return outcome(unshare(CLONE_NEWUSER)); }
static int cloned_namespace(void)
{
    long child = syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0);
    if (child == 0)
        _exit(0);
    return outcome(child) ? errno : (waitpid(child, NULL, 0), 0);
}

/* Came through if the error is the one for its wrong arguments. */
static int but_for(long result, int wrong) { return result < 0 && errno != wrong ? errno : 0; }

static int traced(void)
{
    /* It is not stopped, and let go of when this child ends. */
    return outcome(ptrace(PTRACE_SEIZE, daemon_id, 0, 0));
}

static int read_memory(void)
{
    char here;
    struct iovec own = {&here, 1}, theirs = {(void *)16, 1};
    return but_for(process_vm_readv(daemon_id, &own, 1, &theirs, 1, 0), EFAULT);
}

static int program_in_kernel(void)
{
    struct bpf_insn code[] = {{.code = BPF_ALU64 | BPF_MOV | BPF_K}, {.code = BPF_JMP | BPF_EXIT}};
    union bpf_attr about;
    memset(&about, 0, sizeof about);
    about.prog_type = BPF_PROG_TYPE_SOCKET_FILTER;
    about.insns = (uintptr_t)code;
    about.insn_cnt = 2;
    about.license = (uintptr_t) "GPL";
    long program = syscall(SYS_bpf, BPF_PROG_LOAD, &about, sizeof about);
    if (program >= 0)
        close(program);
    return outcome(program);
}

static int mounted(void)
{
    const char *folder = getenv("INSIDE_FOLDER");
    int error = outcome(mount("inside", folder, "tmpfs", 0, NULL));
    if (!error)
        umount(folder);
    return error;
}

static int pidfd_signal(void)
{
    long daemon = syscall(SYS_pidfd_open, daemon_id, 0);
    if (daemon < 0)
        return errno;
    int error = outcome(syscall(SYS_pidfd_send_signal, daemon, SIGWINCH, NULL, 0));
    close(daemon);
    return error;
}

static int more_files(void)
{
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    return limit.rlim_max > 4096 ? 0 : EPERM;
}

static int core(void)
{
    struct rlimit limit;
    getrlimit(RLIMIT_CORE, &limit);
    return limit.rlim_max == 0 ? EPERM : 0;
}

static int capabilities(void)
{
    struct __user_cap_header_struct who = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct has[2];
    if (syscall(SYS_capget, &who, has) < 0)
        return errno;
    return has[0].permitted || has[0].effective || has[1].permitted ? 0 : EPERM;
}

static int owner_of_signals(void)
{
    int ends[2];
    if (pipe(ends) < 0)
        return errno;
    int error = outcome(fcntl(ends[0], F_SETOWN, daemon_id));
    close(ends[0]);
    close(ends[1]);
    return error;
}

static int link_elsewhere(void)
{
    char path[256];
    snprintf(path, sizeof path, "%s/inside-link-%d", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp", getpid());
    int error = outcome(symlink("/etc/shadow", path));
    if (!error)
        unlink(path);
    return error;
}

static int file_in_tmp(void)
{
    char path[64];
    snprintf(path, sizeof path, "/tmp/inside-file-%d", getpid());
    int error = opened(path, O_WRONLY | O_CREAT | O_EXCL);
    if (!error)
        unlink(path);
    return error;
}

static void say(const char *name, int error)
{
    char line[160];
    int size = snprintf(line, sizeof line, "inside: %s: %s\n", name, error ? strerrorname_np(error) : "came through");
    if (write(2, line, size) != size)
        abort();
}

/* A process that means to stay when the worker is gone. */
static void leave_behind(void)
{
    if (fork() != 0)
        return;
    setsid();
    setpgid(0, 0);
    if (fork() != 0)
        _exit(0);
    setsid();
    /* No test takes as long. */
    alarm(60);
    dprintf(2, "inside: stays %d\n", getpid());
    for (;;)
        pause();
}

static void *waits(void *lock)
{
    pthread_mutex_lock(lock);
    pthread_mutex_unlock(lock);
    return NULL;
}

/* Threads at the same time, up to that many. */
static void start_threads(long most)
{
    pthread_t *threads = calloc(most, sizeof *threads);
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    if (!threads)
        abort();
    pthread_mutex_lock(&lock);
    int error = 0;
    long started = 0;
    while (started < most && !(error = pthread_create(&threads[started], NULL, waits, &lock)))
        started++;
    dprintf(2, "inside: tasks %ld: %s\n", started, error ? strerrorname_np(error) : "came through");
    pthread_mutex_unlock(&lock);
    for (long i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
    free(threads);
}

/* A process that holds memory, and is there when this returns. */
static void hoard(long megabytes)
{
    int ready[2];
    char byte;
    if (pipe(ready) != 0)
        abort();
    if (fork() == 0) {
        size_t size = (size_t)megabytes << 20;
        int kind = MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE;
        if (mmap(NULL, size, PROT_READ | PROT_WRITE, kind, -1, 0) == MAP_FAILED)
            _exit(1);
        /* No test takes as long. */
        alarm(60);
        close(ready[1]);
        for (;;)
            pause();
    }
    close(ready[1]);
    if (read(ready[0], &byte, 1) < 0)
        abort();
    close(ready[0]);
}

__attribute__((constructor)) static void attempt(void)
{
    const char *number;
    if ((number = getenv("INSIDE_TASKS")) && getenv("ROPEWAY_WORKER"))
        start_threads(atol(number));
    if ((number = getenv("INSIDE_HOARDS")) && getenv("ROPEWAY_WORKER"))
        hoard(atol(number));
    if (getenv("INSIDE_STAYS") && getenv("ROPEWAY_WORKER"))
        leave_behind();
    if (!getenv("INSIDE_SECRET") || !getenv("ROPEWAY_WORKER"))
        return;
    daemon_id = getppid();
    char landlock[16];
    snprintf(landlock, sizeof landlock, "%ld", syscall(444, NULL, 0, 1));
    dprintf(2, "inside: landlock %s\n", landlock);
    say("open a file of the user's", opened(getenv("INSIDE_SECRET"), O_RDONLY));
    say("write a file of the user's", opened(getenv("INSIDE_SECRET"), O_WRONLY));
    say("list the user's files", opened(getenv("INSIDE_FOLDER"), O_RDONLY | O_DIRECTORY));
    say("open /etc/shadow", opened("/etc/shadow", O_RDONLY));
    say("open the kernel's log", opened("/dev/kmsg", O_RDONLY | O_NONBLOCK));
    say("open a setting of the kernel's", opened("/proc/sys/kernel/core_pattern", O_WRONLY));
    say("make a link to a file outside", link_elsewhere());
    say("open another client's compiler cache", opened(getenv("INSIDE_CACHE"), O_RDONLY));
    say("open another session's temporary file", opened(getenv("INSIDE_TEMPORARY"), O_RDONLY));
    say("make a file in /tmp", file_in_tmp());
    say("connect to a TCP port", to_port(0));
    say("bind a TCP port", to_port(1));
    say("connect to a Unix socket", to_unix(getenv("INSIDE_SOCKET"), 0));
    say("connect to an abstract Unix socket", to_unix(getenv("INSIDE_ABSTRACT"), 1));
    say("connect with a descriptor", but_for(connect(-1, NULL, 0), EBADF));
    say("bind with a descriptor", but_for(bind(-1, NULL, 0), EBADF));
    say("listen", but_for(listen(-1, 1), EBADF));
    say("accept", but_for(accept(-1, NULL, NULL), EBADF));
    say("fork a shell", in_child(shell));
    say("run a program of its own making", copied_program());
    say("trace the daemon", in_child(traced));
    say("read the daemon's memory", read_memory());
    say("open the daemon's memory", opened_memory());
    say("signal the daemon", outcome(kill(daemon_id, SIGWINCH)));
    say("signal a thread of the daemon", outcome(syscall(SYS_tgkill, daemon_id, daemon_id, SIGWINCH)));
    say("signal the daemon by a descriptor", pidfd_signal());
    say("have the kernel signal the daemon", owner_of_signals());
    say("type into the terminal", but_for(ioctl(2, TIOCSTI, "x"), ENOTTY));
    say("load a BPF program", program_in_kernel());
    say("mount", mounted());
    say("change the root", outcome(chroot("/")));
    say("make a user namespace", in_child(own_namespace));
    say("clone into a user namespace", in_child(cloned_namespace));
    say("enter a namespace", but_for(setns(-1, 0), EBADF));
    say("become another user", in_child(other_user));
    say("open a performance counter", but_for(syscall(SYS_perf_event_open, NULL, 0, -1, -1, 0), EFAULT));
    say("use a key ring", but_for(syscall(SYS_keyctl, 99999, 0, 0, 0, 0), EOPNOTSUPP));
    say("set up io_uring", but_for(syscall(SYS_io_uring_setup, 1, NULL), EFAULT));
    say("handle page faults", but_for(syscall(SYS_userfaultfd, -1), EINVAL));
    say("replace the kernel", but_for(syscall(SYS_kexec_load, 0, 99, NULL, ~0UL), EINVAL));
    say("load a module", but_for(syscall(SYS_init_module, NULL, 0, ""), ENOEXEC));
    say("share memory by a key", but_for(syscall(SYS_shmget, 0 /* IPC_PRIVATE */, 0, 0), EINVAL));
    say("make a call that is on no list", but_for(syscall(SYS_clone3, NULL, 0), EINVAL));
    say("hold more than 4096 files", more_files());
    say("have capabilities", capabilities());
    say("leave a core file", core());
    say("be read by processes of this user", prctl(PR_GET_DUMPABLE) == 1 ? 0 : EPERM);
    dprintf(2, "inside: done\n");
}
