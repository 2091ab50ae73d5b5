//! `ropeway broker`, and what its clients do: `ropeway lease`, `ropeway queue`, `ropeway dra`, and programs with a lease.

mod ask;
mod dra;
mod hold;
mod keep;
mod lease;

pub use ask::{Pool, parse_broker, pool};
pub use dra::dra;
pub use hold::run_with_lease;
pub use keep::hold;
pub use lease::{devices, lease, queue};

use ropeway_broker::core::Settings;
use ropeway_broker::service::{BrokerOptions, serve};
use ropeway_broker::store::{EtcdAddress, EtcdFiles};
use ropeway_client::tickets;
use ropeway_daemon::LendingOptions;
use ropeway_daemon::worker::host_name;

use crate::args::{BrokerArgs, ServeArgs};
use crate::failure::Failure;
use crate::places::{filled, of_user_named};
use crate::serve::start_log;

/// The name of the broker's folder among those of its user.
const FOLDER: &str = "ropeway-broker";

/// The environment variable that names the store: it may hold a password.
const STORE: &str = "ROPEWAY_STORE";

/// Lends devices until it is told to stop.
pub fn broker(args: BrokerArgs) -> Result<(), Failure> {
    start_log()?;
    let service = || filled("STATE_DIRECTORY").map(Into::into);
    let state = args.state.or_else(service).or_else(|| of_user_named("XDG_STATE_HOME", ".local/state", FOLDER));
    let state = state
        .ok_or_else(|| Failure::new("this user has no home folder; name the broker's state folder with --state"))?;
    let settings = Settings { lasts: args.lasts, returns: args.returns, ..Settings::default() };
    let named = filled(STORE).map(|text| text.to_string_lossy().parse()).transpose();
    if args.store.as_ref().is_some_and(EtcdAddress::has_password) {
        return Err(Failure::new(format!(
            "everybody on this machine can see what a command is started with; put the password of --store into a file for --etcd-password, or the address into {STORE}"
        )));
    }
    let store = args.store.map_or(named, |store| Ok(Some(store)));
    let store = store.map_err(|why| Failure::new(format!("{STORE}: {why}")))?;
    let client = args.etcd_certificate.zip(args.etcd_key);
    let files = EtcdFiles { authority: args.etcd_ca, client, password: args.etcd_password };
    let etcd = store.map(|store| (store, files));
    Ok(serve(&BrokerOptions { listen: args.listen, state, settings, etcd, address: args.address })?)
}

/// How `ropeway serve` lends its devices, if it does.
pub fn lending(args: &ServeArgs) -> Result<Option<LendingOptions>, Failure> {
    if args.broker.is_empty() {
        return Ok(None);
    }
    let brokers = args.broker.iter().map(tickets::with_ticket).collect::<Result<Vec<_>, _>>()?;
    if brokers.iter().all(|broker| broker.pass().is_none()) {
        return Err(Failure::new(
            "there is no ticket for the broker; make one on its machine with `ropeway ticket new --registers NAME`",
        ));
    }
    let address = args.address.as_ref().map(|address| format!("tls://{address}").parse()).transpose()?;
    Ok(Some(LendingOptions { brokers, name: args.name.clone().unwrap_or_else(host_name), address }))
}
