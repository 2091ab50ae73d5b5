//! The processes `ssh` of a tunnel, and what their failures mean.

use std::ffi::OsString;
use std::io::{self, ErrorKind, Read as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use ropeway_client::ssh::{SSH_VARIABLE, TunnelError, ssh_command};
use ropeway_transport::SshHost;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// What ssh runs on the host.
const REMOTE: &str = "ropeway serve --stdio";

/// How long ssh may take for a command to itself.
const CONTROL: Duration = Duration::from_secs(5);

/// How long the end of an ssh is waited for before it is killed.
const END: Duration = Duration::from_secs(3);

/// The exit status of a shell that does not find a program.
const NOT_FOUND: i32 = 127;

/// The exit status of an ssh that has no connection.
const NO_CONNECTION: i32 = 255;

/// Options that the user's configuration does not change. Nothing may be asked, as there is nobody to answer; a host
/// that is gone is noticed within 15 s; and this connection is for the server alone.
const OPTIONS: [&str; 8] = [
    "BatchMode=yes",
    "ClearAllForwardings=yes",
    "ControlMaster=yes",
    "ControlPersist=no",
    "PermitLocalCommand=no",
    "RemoteCommand=none",
    "ServerAliveInterval=5",
    "ServerAliveCountMax=2",
];

/// Starts the server on `host`, which has to answer within `timeout`. Standard input, output and error are pipes;
/// commands to this ssh come by `control`.
pub fn start(host: &SshHost, control: &Path, timeout: Duration) -> io::Result<Child> {
    let mut command = of_user();
    command.args(["-T", "-a", "-x"]);
    for option in OPTIONS {
        command.args(["-o", option]);
    }
    // 0 would mean without end.
    let seconds = timeout.as_millis().div_ceil(1000).max(1);
    command.arg("-o").arg(format!("ConnectTimeout={seconds}")).arg("-o").arg(control_path(control));
    if let Some(user) = &host.user {
        command.args(["-l", user]);
    }
    if let Some(port) = host.port {
        command.args(["-p", &port.to_string()]);
    }
    command.args(["--", &host.host, REMOTE]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()
}

/// Has the ssh at `control` forward connections at the Unix socket `link` to the socket `remote` of its host.
pub fn forward(host: &SshHost, control: &Path, link: &Path, remote: &str) -> Result<(), TunnelError> {
    let failed = |why: &str| {
        let advice = format!("ssh must be OpenSSH 6.7 or newer, here and on {}", host.host);
        TunnelError { what: format!("ssh does not forward a socket to {} ({why})", host.host), advice }
    };
    let mut command = of_user();
    // Forwardings of the user's configuration are not for this connection.
    command.args(["-F", "none", "-O", "forward", "-o"]).arg(control_path(control)).arg("-L");
    let mut sockets = OsString::from(link);
    sockets.push(":");
    sockets.push(remote);
    command.arg(sockets).args(["--", &host.host]);
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
    let mut child = child.map_err(|error| failed(&error.to_string()))?;
    let mut stderr = child.stderr.take();
    let status = finish(&mut child, CONTROL).map_err(|error| failed(&error.to_string()))?;
    if status.success() {
        return Ok(());
    }
    let mut text = String::new();
    if let Some(stderr) = &mut stderr {
        // It has ended, so that nothing more comes.
        let _ = stderr.read_to_string(&mut text);
    }
    Err(failed(last_line(&text)))
}

/// Waits for the end of a process, which is killed if it takes too long. Its standard input must be closed.
pub fn end(child: &mut Child) -> io::Result<ExitStatus> {
    finish(child, END)
}

fn finish(child: &mut Child, limit: Duration) -> io::Result<ExitStatus> {
    let deadline = Instant::now() + limit;
    let ended = || -> io::Result<bool> {
        let pid = Pid::from_raw(child.id().cast_signed()).ok_or(ErrorKind::InvalidInput)?;
        let process = pidfd_open(pid, PidfdFlags::empty())?;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let timeout = Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: left.subsec_nanos().into() };
            match poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&timeout)) {
                Ok(ready) => return Ok(ready > 0),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    };
    if !matches!(ended(), Ok(true)) {
        child.kill()?;
    }
    child.wait()
}

/// The ssh that the user wants.
fn of_user() -> Command {
    let words = ssh_command();
    let (program, arguments) = words.split_first().map_or(("ssh", &[][..]), |(first, rest)| (first, rest));
    let mut command = Command::new(program);
    command.args(arguments);
    command
}

fn control_path(control: &Path) -> OsString {
    let mut option = OsString::from("ControlPath=");
    option.push(control);
    option
}

/// Why no ssh can be started.
pub fn no_ssh(error: &io::Error) -> TunnelError {
    let name = ssh_command().swap_remove(0);
    TunnelError {
        what: format!("the program {name} cannot be started ({error})"),
        advice: format!("install ssh on this machine (apt install openssh-client), or name it with {SSH_VARIABLE}"),
    }
}

/// Why ssh, or what it has started on `host`, ended with this status after it had said this on standard error.
pub fn explain(host: &SshHost, status: Option<ExitStatus>, said: &str) -> TunnelError {
    let name = &host.host;
    let port = host.port.map(|port| format!("-p {port} ")).unwrap_or_default();
    let by_hand = format!("ssh {port}{}", host.destination());
    let has = |text: &str| said.contains(text);
    let last = last_line(said);
    let error = |what: String, advice: String| TunnelError { what, advice };
    if status.and_then(|status| status.code()) != Some(NO_CONNECTION) {
        let is_missing = status.and_then(|status| status.code()) == Some(NOT_FOUND) || has("command not found");
        if is_missing {
            return error(
                format!("ropeway is not installed on {name}, or not where ssh looks for programs there"),
                format!("install it there; `{by_hand} ropeway --version` must print a version"),
            );
        }
        if has("unexpected argument '--stdio'") {
            return error(
                format!("ropeway on {name} is of a release that cannot be used through ssh"),
                format!("install the release {} there", env!("CARGO_PKG_VERSION")),
            );
        }
        let how = match status {
            Some(status) => match (status.code(), status.signal()) {
                (Some(code), _) => format!("exit status {code}"),
                (None, signal) => format!("signal {}", signal.unwrap_or_default()),
            },
            None => "it does not end".to_owned(),
        };
        let why = if last.is_empty() { how } else { format!("{how}: {last}") };
        return error(
            format!("`{REMOTE}` ended on {name} ({why})"),
            format!("`{by_hand} {REMOTE}` in a shell shows what it says"),
        );
    }
    if has("REMOTE HOST IDENTIFICATION HAS CHANGED") {
        return error(
            format!("{name} has another host key than the one that ssh knows"),
            "another machine answers there, or its key was made anew: find out which before you use `ssh-keygen -R`"
                .to_owned(),
        );
    }
    if has("Host key verification failed") || has("host key is known") {
        return error(
            format!("ssh does not know the host key of {name}"),
            format!("connect once by hand with `{by_hand}`, and check the key that it shows"),
        );
    }
    if has("UNPROTECTED PRIVATE KEY FILE") {
        let line = said.lines().map(str::trim).find(|line| line.starts_with("Permissions ")).unwrap_or(last);
        return error(
            format!("ssh does not use a key that others can read ({line})"),
            "`chmod 600` the file that it names".to_owned(),
        );
    }
    if has("Permission denied") || has("Too many authentication failures") {
        let agent = match std::env::var_os("SSH_AUTH_SOCK") {
            Some(_) => "load the key into the agent with ssh-add",
            None => {
                "start ssh-agent, which does not run here (SSH_AUTH_SOCK is not set), and load the key with ssh-add"
            }
        };
        return error(
            format!("{name} does not let ssh in without asking ({last})"),
            format!("`{by_hand}` must work without a password: {agent}, and put the key there with ssh-copy-id"),
        );
    }
    if has("Could not resolve hostname") {
        return error(
            format!("ssh does not know the host name {name}"),
            "check its spelling, or the Host entries of ~/.ssh/config".to_owned(),
        );
    }
    let is_unreachable = ["Connection refused", "timed out", "No route to host", "Network is unreachable", "closed by"];
    if is_unreachable.into_iter().any(has) {
        let advice = "check that the machine is up, that sshd runs there, and that no firewall is between".to_owned();
        let longer = "; if it is only slow, ROPEWAY_CONNECT_TIMEOUT gives it more seconds";
        return error(
            format!("{name} cannot be reached by ssh ({last})"),
            if has("timed out") { advice + longer } else { advice },
        );
    }
    let why = if last.is_empty() { "it does not say why" } else { last };
    error(format!("ssh to {name} failed ({why})"), format!("`{by_hand}` in a shell must work"))
}

/// The last line that says something.
fn last_line(text: &str) -> &str {
    text.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host() -> SshHost {
        SshHost { user: Some("me".into()), host: "gpu7".into(), port: Some(2222) }
    }

    #[test]
    fn each_failure_says_what_to_do() {
        let exit = |code: i32| Some(ExitStatus::from_raw(code << 8));
        for (status, said, what, advice) in [
            (
                exit(127),
                "bash: line 1: ropeway: command not found",
                "not installed on gpu7",
                "`ssh -p 2222 me@gpu7 ropeway --version`",
            ),
            (exit(2), "error: unexpected argument '--stdio' found", "of a release", "install the release"),
            (exit(1), "ropeway: no folder", "exit status 1: ropeway: no folder", "serve --stdio` in a shell"),
            (Some(ExitStatus::from_raw(9)), "", "signal 9", "in a shell"),
            (exit(255), "me@gpu7: Permission denied (publickey).", "without asking", "ssh-add"),
            (
                exit(255),
                "No ED25519 host key is known for gpu7\nHost key verification failed.",
                "does not know the host key",
                "check the key",
            ),
            (
                exit(255),
                "@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\nHost key verification failed.",
                "another host key",
                "find out which",
            ),
            (
                exit(255),
                "ssh: Could not resolve hostname gpu7: Name or service not known",
                "does not know the host name",
                "spelling",
            ),
            (
                exit(255),
                "ssh: connect to host gpu7 port 22: Connection refused\r\n",
                "(ssh: connect to host gpu7 port 22: Connection refused)",
                "sshd runs",
            ),
            (exit(255), "", "it does not say why", "`ssh -p 2222 me@gpu7` in a shell"),
        ] {
            let error = explain(&host(), status, said);
            assert!(error.what.contains(what), "{said}: {error}");
            assert!(error.advice.contains(advice), "{said}: {error}");
        }
    }
}
