//! Blocking writes in flight: no command overtakes one whose call has returned, no command names an event that has been
//! released, and none is forgotten.

use std::collections::HashSet;
use std::sync::Arc;

use ropeway_model::shuttle::rand::{Rng, thread_rng};
use ropeway_protocol::ids::{ContextId, EventId, QueueId};
use ropeway_protocol::messages::{Finish, Marker, ReleaseEvent, WaitForEvents};
use ropeway_protocol::types::{Command, EventList};
use ropeway_protocol::{Call, Post};

use super::server::{Frame, Server};
use super::{check, connect};
use crate::base::modelled::thread::{self, JoinHandle};
use crate::link::connection::Connection;
use crate::link::in_flight::LiveQueue;

const CONTEXT: ContextId = ContextId(1);

fn queue(number: u64, in_order: bool) -> LiveQueue {
    LiveQueue { context: CONTEXT, queue: QueueId(number), in_order }
}

/// A command that moves nothing, in the place of one that does. Returns what it waits for.
fn command(connection: &Connection, on: LiveQueue, event: Option<EventId>) -> EventList {
    let mut waits = EventList::default();
    let _guard = connection.heed_early(on, &mut waits);
    let posted = connection.post(&Marker { command: Command { queue: on.queue, event, waits: waits.clone() } });
    assert_eq!(posted, Ok(()));
    waits
}

/// A blocking write. Returns its event.
fn write(connection: &Connection, on: LiveQueue) -> EventId {
    let early = connection.early_event(on).expect("another queue's commands could overtake it");
    let event = early.id();
    command(connection, on, Some(event));
    assert_eq!(early.note(), Ok(()));
    event
}

/// What a server knows of events.
#[derive(Default)]
struct Events {
    /// Made and not released.
    live: HashSet<EventId>,
    /// Those whose ends the client has not been told.
    untold: Vec<EventId>,
}

impl Events {
    /// Takes in a message. Returns the call to be answered, if it is one.
    fn take_in(&mut self, frame: &Frame) -> Option<u32> {
        let are_live = |waits: &EventList| assert!(waits.0.iter().all(|wait| self.live.contains(wait)), "{waits:?}");
        match frame.header.opcode {
            Marker::OPCODE => {
                let command = frame.body::<Marker>().command;
                are_live(&command.waits);
                self.live.extend(command.event);
                self.untold.extend(command.event);
            }
            ReleaseEvent::OPCODE => {
                let event = frame.body::<ReleaseEvent>().event;
                assert!(self.live.remove(&event), "{event:?} is released once");
            }
            WaitForEvents::OPCODE => {
                are_live(&frame.body::<WaitForEvents>().events);
                return Some(frame.header.call);
            }
            Finish::OPCODE => return Some(frame.header.call),
            other => panic!("no message of this test: {other}"),
        }
        None
    }
}

/// Tells of ends at any time, of all of them with the answer to a wait. Returns the events that are still live once the
/// client is gone.
fn serve(server: &Server) -> HashSet<EventId> {
    let mut events = Events::default();
    loop {
        while !events.untold.is_empty() && thread_rng().gen_bool(0.5) {
            let event = events.untold.swap_remove(thread_rng().gen_range(0..events.untold.len()));
            server.completed(&[event], 0);
        }
        let Some(frame) = server.next() else { return events.live };
        if let Some(call) = events.take_in(&frame) {
            server.waited(call, 0, &std::mem::take(&mut events.untold));
        }
    }
}

/// Starts a thread that does something with the connection.
fn start(connection: &Arc<Connection>, act: impl FnOnce(&Connection) + Send + 'static) -> JoinHandle<()> {
    let connection = Arc::clone(connection);
    thread::spawn(move || act(&connection))
}

/// Takes in all ends, and checks that nothing is left of the writes at either side.
fn settle(connection: Arc<Connection>, server: JoinHandle<HashSet<EventId>>) {
    assert!(connection.call(&Finish { queue: QueueId(1) }).is_ok());
    let mut waits = EventList::default();
    drop(connection.heed_early(queue(9, true), &mut waits));
    assert_eq!(waits, EventList::default(), "all have ended");
    assert_eq!(connection.flush(), Ok(()));
    drop(connection);
    assert_eq!(server.join().expect("it has not failed"), HashSet::new(), "all are released");
}

#[test]
fn commands_wait_for_writes_in_flight_and_name_no_event_that_is_released() {
    check(|| {
        let (connection, server) = connect(|server| serve(&server));
        let (one, other, loose) = (queue(1, true), queue(2, true), queue(3, false));
        for live in [one, other, loose] {
            assert_eq!(connection.add_queue(live.context, live.queue, live.in_order), Ok(()));
        }
        let writers = [one, loose].map(|on| {
            start(&connection, move |connection| {
                write(connection, on);
                let failed = connection.early_event(on).expect("another queue's commands could overtake it");
                command(connection, on, Some(failed.id()));
                drop(failed);
                write(connection, on);
                write(connection, on);
            })
        });
        let commander = start(&connection, move |connection| {
            for on in [other, loose, other] {
                command(connection, on, None);
                connection.drain();
            }
        });
        writers.into_iter().chain([commander]).for_each(|thread| thread.join().expect("it has not failed"));
        settle(connection, server);
    });
}

#[test]
fn what_follows_a_blocking_write_on_another_queue_waits_for_it_unless_it_has_ended() {
    check(|| {
        let (connection, server) = connect(|server| serve(&server));
        let (one, other) = (queue(1, true), queue(2, true));
        for live in [one, other] {
            assert_eq!(connection.add_queue(live.context, live.queue, live.in_order), Ok(()));
        }
        let drainer = start(&connection, |connection| {
            connection.drain();
            connection.drain();
        });
        let event = write(&connection, one);
        let waits = command(&connection, other, None);
        if waits.0.is_empty() {
            // Then the end has been told, and nothing more is known of it.
            assert!(connection.in_flight.ended(event).is_empty());
        } else {
            assert_eq!(waits.0.as_slice(), [event]);
        }
        drainer.join().expect("it has not failed");
        settle(connection, server);
    });
}
