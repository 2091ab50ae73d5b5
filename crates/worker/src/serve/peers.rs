//! Other sessions of the same client, with which this one shares memory and events.

use ropeway_protocol::CallId;
use ropeway_protocol::messages::{
    ConnectPeer, CreateUserEvent, Expect, ExpectSignal, OpenPeers, PeerState, Push, SignalPeer,
};

use crate::error::End;
use crate::job::Job;
use crate::session::Session;

impl Session {
    pub(super) fn join_group(&mut self, _: &OpenPeers) -> Result<(), End> {
        Ok(())
    }

    pub(super) fn dial_peer(&mut self, m: ConnectPeer) -> Result<(), End> {
        let text = "this release does not connect servers yet".to_owned();
        self.common.outgoing.leave(&PeerState { peer: m.peer, connected: false, text });
        Ok(())
    }

    pub(super) fn push_to_peer(&mut self, m: Push) -> Result<(), End> {
        Err(End::refused(format_args!("{} is no peer", m.peer)))
    }

    pub(super) fn expect_push(&mut self, m: Expect) -> Result<(), End> {
        Err(End::refused(format_args!("{} is no peer", m.peer)))
    }

    pub(super) fn expect_signal_of(&mut self, m: &ExpectSignal) -> Result<(), End> {
        self.make_user_event(CreateUserEvent { event: m.event, context: m.context })
    }

    pub(super) fn signal_to_peer(&mut self, m: &SignalPeer) -> Result<(), End> {
        Err(End::refused(format_args!("{} is no peer", m.peer)))
    }

    pub(super) fn tell_traffic(&mut self, call: CallId<[u64; 4]>) -> Result<(), End> {
        let answer = move |common: &crate::common::Common| {
            let mut sending = common.outgoing.lock();
            sending.reply(&call, &Ok([0; 4]));
            Ok(sending.send()?)
        };
        self.start(Job::Run(Box::new(answer)));
        Ok(())
    }
}
