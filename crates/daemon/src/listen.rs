//! The sockets that clients come by.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt as _;

use listenfd::ListenFd;
use ropeway_transport::{Endpoint, Listener};
use rustix::io::ioctl_fionbio;
use tracing::{info, warn};

use crate::{ServeError, ServeOptions};

/// Opens all sockets: systemd's and those asked for; the default one where there are neither.
pub(crate) fn open(options: &ServeOptions) -> Result<Vec<Listener>, ServeError> {
    let mut listeners = Vec::new();
    for fd in from_systemd().map_err(ServeError::Activation)? {
        let listener = Listener::from_fd(fd).map_err(ServeError::Activation)?;
        check(listener.endpoint(), options)?;
        listeners.push(listener);
    }
    let default = [Endpoint::default()];
    let asked = if listeners.is_empty() && options.listen.is_empty() { &default[..] } else { &options.listen };
    for endpoint in asked {
        check(endpoint, options)?;
        let endpoint = &encrypted(endpoint, options);
        listeners.push(Listener::bind(endpoint).map_err(|error| ServeError::Listen(endpoint.clone(), error))?);
    }
    for listener in &listeners {
        if let (Endpoint::Unix(path), Some(_)) = (listener.endpoint(), &options.local_users) {
            // Everybody may connect, and is asked who he is.
            let open = std::fs::Permissions::from_mode(0o666);
            std::fs::set_permissions(path, open)
                .map_err(|error| ServeError::Listen(listener.endpoint().clone(), error))?;
        }
        // A client that hangs up between poll and accept must not leave the server waiting in accept.
        ioctl_fionbio(listener, true).map_err(|error| ServeError::Listen(listener.endpoint().clone(), error.into()))?;
    }
    Ok(listeners)
}

/// The endpoint as clients have to use it.
fn encrypted(endpoint: &Endpoint, options: &ServeOptions) -> Endpoint {
    match endpoint {
        Endpoint::Tcp { host, port } if !may_be_plain(endpoint, options) => {
            Endpoint::Tls { host: host.clone(), port: *port, pass: None }
        }
        _ => endpoint.clone(),
    }
}

/// Whether clients that come by this address may do so in plain text: processes of this machine, virtual machines that
/// are let in by their numbers (between them and this one is nobody but the kernel), and others if that was asked for by
/// name.
pub(crate) fn may_be_plain(endpoint: &Endpoint, options: &ServeOptions) -> bool {
    let is_asked_who = endpoint.is_local() || matches!(endpoint, Endpoint::Vsock(_));
    !matches!(endpoint, Endpoint::Tls { .. }) && (is_asked_who || options.plaintext_network)
}

/// Refuses an address that other machines can reach, unless that was asked for by name.
fn check(endpoint: &Endpoint, options: &ServeOptions) -> Result<(), ServeError> {
    if let Endpoint::Vsock(_) = endpoint {
        if !endpoint.is_local() && !options.machines.has_guests() {
            info!(%endpoint, "no virtual machine is let in but the one that this one runs on; --allow-cid names others");
        }
        return Ok(());
    }
    let can_be_encrypted = !matches!(endpoint, Endpoint::Ucx { .. });
    if endpoint.is_local() || can_be_encrypted && !may_be_plain(endpoint, options) && options.state.is_some() {
        return Ok(());
    }
    if !options.plaintext_network && !can_be_encrypted {
        return Err(ServeError::NotEncrypted(endpoint.clone()));
    }
    if !options.plaintext_network {
        return Err(ServeError::NotLocal(endpoint.clone()));
    }
    warn!(
        %endpoint,
        "listening in plain text on a network: whoever can reach this address can use this machine's devices, and can read what others send"
    );
    Ok(())
}

/// The sockets that systemd passed to this process (sd_listen_fds).
fn from_systemd() -> io::Result<Vec<OwnedFd>> {
    let mut passed = ListenFd::from_env();
    let mut fds = Vec::new();
    for index in 0..passed.len() {
        // A socket of another kind stays where it is, for the next kind.
        let vsock = |passed: &mut ListenFd| passed.take_custom(index, libc::AF_VSOCK, libc::SOCK_STREAM, "vsock");
        let fd = match passed.take_unix_listener(index) {
            Ok(unix) => unix.map(OwnedFd::from),
            Err(_) => match vsock(&mut passed) {
                Ok(vsock) => vsock,
                Err(_) => passed.take_tcp_listener(index)?.map(OwnedFd::from),
            },
        };
        fds.extend(fd);
    }
    Ok(fds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::WorkerCommand;

    fn options(listen: &str) -> ServeOptions {
        let worker = WorkerCommand { program: "/bin/false".into(), args: vec![] };
        ServeOptions { listen: vec![listen.parse().unwrap()], ..ServeOptions::new(worker) }
    }

    #[test]
    fn a_network_address_has_to_be_asked_for_by_name() {
        let error = open(&options("tcp://0.0.0.0:0")).unwrap_err();
        assert!(matches!(error, ServeError::NotLocal(_)));
        assert!(error.to_string().contains("--plaintext-network"), "{error}");
        let asked = ServeOptions { plaintext_network: true, ..options("tcp://0.0.0.0:0") };
        assert_eq!(open(&asked).unwrap().len(), 1);
    }

    #[test]
    fn ucx_is_never_encrypted() {
        let state = Some("/nowhere".into());
        let error = open(&ServeOptions { state, ..options("ucx://0.0.0.0:0") }).unwrap_err();
        assert!(matches!(error, ServeError::NotEncrypted(_)));
        assert!(error.to_string().contains("--plaintext-network"), "{error}");
    }

    #[test]
    fn a_vsock_takes_no_key_and_no_consent_to_plain_text() {
        for listen in ["vsock://:7590", "vsock://3:7590", "vsock://1:7590"] {
            let (endpoint, options) = (listen.parse().unwrap(), options(listen));
            check(&endpoint, &options).unwrap();
            assert!(may_be_plain(&endpoint, &options), "{listen}");
            assert_eq!(encrypted(&endpoint, &options), endpoint);
        }
    }

    #[test]
    fn loopback_takes_any_port() {
        let listeners = open(&options("tcp://127.0.0.1:0")).unwrap();
        assert!(matches!(listeners[0].endpoint(), Endpoint::Tcp { port, .. } if *port != 0));
    }

    #[test]
    fn an_address_in_use_is_said_plainly() {
        let first = open(&options("tcp://127.0.0.1:0")).unwrap();
        let error = open(&options(&first[0].endpoint().to_string())).unwrap_err().to_string();
        assert!(error.contains("another program does already"), "{error}");
    }
}
