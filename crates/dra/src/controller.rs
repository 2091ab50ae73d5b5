//! The controller: keeps the cluster's ResourceSlices as the broker's pool is.

use std::thread;
use std::time::Duration;

use crate::api::{ApiOptions, Cluster};
use crate::rack::Rack;
use crate::slices::{PROPERTIES, Place, Plan, devices, plan};
use crate::{DraError, Driver};

/// What the broker's lists say of who asks.
const PROGRAM: &str = "kubernetes controller";

/// What the controller is told.
#[derive(Clone, Debug)]
pub struct ControllerOptions {
    /// The devices, and their names.
    pub driver: Driver,
    /// The cluster.
    pub api: ApiOptions,
    /// The label and value of the nodes that reach the servers; `None`: all do.
    pub nodes: Option<(String, String)>,
    /// How many shares of each device the cluster is told of, instead of the device: 1 for all of it.
    pub shares: u16,
    /// How often the broker is asked.
    pub every: Duration,
}

/// Keeps the slices up to date until the process is ended. They stay as they are then: pods that wait can still be given
/// devices, and nodes find out whether they can be had.
///
/// # Errors
/// There is no cluster.
pub fn run(options: &ControllerOptions) -> Result<(), DraError> {
    let cluster = Cluster::new(&options.api)?;
    let Driver { name, pool, .. } = options.driver.clone();
    let place = Place { driver: name, pool, nodes: options.nodes.clone() };
    let mut last = None;
    loop {
        let outcome = step(&cluster, options, &place);
        match &outcome {
            Ok(None) => {}
            Ok(Some(devices)) => tracing::info!("the cluster is told of {devices} devices"),
            // What goes on being wrong is said once.
            Err(error) if last.as_ref() != Some(error) => tracing::warn!("{error}; it is tried again"),
            Err(_) => {}
        }
        last = outcome.err();
        thread::sleep(options.every);
    }
}

/// Looks once; returns how many devices the cluster was told of, if anything was changed.
fn step(cluster: &Cluster, options: &ControllerOptions, place: &Place) -> Result<Option<usize>, DraError> {
    let rack = Rack::open(&options.driver.brokers, PROGRAM);
    let servers = rack.and_then(|mut rack| rack.servers(&PROPERTIES)).map_err(DraError::from_error)?;
    let devices = devices(&servers, options.shares);
    let count = devices.len();
    let plan = plan(place, devices, cluster.slices(&place.driver)?);
    cluster.carry_out(&plan)?;
    Ok((plan != Plan::default()).then_some(count))
}
