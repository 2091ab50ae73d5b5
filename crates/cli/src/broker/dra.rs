//! `ropeway dra`.

use ropeway_dra::Driver;
use ropeway_dra::api::ApiOptions;
use ropeway_dra::controller::{self, ControllerOptions};
use ropeway_dra::node::{self, NodeOptions};

use super::ask::brokers;
use crate::args::{DraArgs, DraCommand};
use crate::failure::Failure;
use crate::places;
use crate::serve::start_log;

/// Serves a cluster until it is told to stop.
pub fn dra(args: DraArgs) -> Result<(), Failure> {
    start_log()?;
    let driver = Driver { brokers: brokers(&args.broker)?, name: args.driver, pool: args.pool };
    let api = ApiOptions { server: args.api_server, authority: args.api_ca, token: args.api_token };
    match args.command {
        DraCommand::Controller { nodes, shares, every } => {
            Ok(controller::run(&ControllerOptions { driver, api, nodes, shares, every })?)
        }
        DraCommand::Node { node_name, kubelet, cdi, library, wait, lasts } => {
            let library = match library {
                Some(library) => library,
                None => {
                    places::library()?.ok_or_else(|| Failure::new("name the library for containers with --library"))?
                }
            };
            // They become the names of mounts.
            let [kubelet, cdi] = [kubelet, cdi].map(std::path::absolute);
            let (kubelet, cdi) = (kubelet?, cdi?);
            Ok(node::run(NodeOptions { driver, api, node: node_name, kubelet, cdi, library, wait, lasts })?)
        }
    }
}
