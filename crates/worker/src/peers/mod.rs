//! Other sessions of the same client, on this server or others, with which this one shares memory and events.
//!
//! The client makes them know each other: each gets the same secret, and is told whom to connect. The daemon passes on
//! the sockets of those that connect here, and connects this worker to others, as it has no network of its own
//! ([`dial`]). What a [`peer::Peer`] sends goes to what the client has said that it expects ([`inbox`]), or straight
//! into memory ([`arrival`]); what goes out is [`push`]'s. All of it makes use of [`services`]; the [`group`] knows the
//! peers.

mod arrival;
mod connections;
mod dial;
mod dialer;
mod feeds;
mod group;
mod in_place;
mod inbox;
mod kept;
mod links;
mod peer;
mod peer_link;
pub mod pre_enqueue;
mod push;
mod receiving;
mod sending;
mod services;
mod slots;
mod transfer_pool;

pub use arrival::{Arrival, Part};
pub use dial::{connect, listen, open};
pub use group::Peers;
pub use push::{Push, signal, when_all_have_ended};
pub use services::Services;
