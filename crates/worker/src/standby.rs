//! The threads of a session beside the one that leads first. They start while the worker is warm, and wait where they
//! would wait in a session in which nothing happens: so a client that comes waits for none to be made, and none is woken
//! for it but the one that listens to the daemon.

use std::io;
use std::sync::{Arc, OnceLock};
use std::thread;

use crate::base::alarm::Alarm;
use crate::link::printed::{Outputs, Printed};
use crate::notify::notification::{Letterbox, Post};
use crate::notify::notifier::Notifier;
use crate::peers;
use crate::session::team::Team;

/// Where the threads find their session, once there is one.
pub type Place = Arc<OnceLock<Arc<Team>>>;

/// What a session finds ready.
pub struct Standby {
    /// Watches native events.
    pub notifier: Arc<Notifier>,
    /// What native code will have printed.
    pub printed: Arc<Printed>,
    /// Where it will print.
    pub outputs: Outputs,
    /// What the team's follower waits for.
    pub alarm: Arc<Alarm>,
    /// What the thread that looks for idle queues waits for.
    pub idle: Arc<Alarm>,
    /// Where the session's team is put for the threads to find.
    pub place: Place,
}

impl Standby {
    /// Starts the threads.
    ///
    /// # Errors
    /// The operating system's error.
    pub fn start(post: Post, letterbox: Letterbox) -> io::Result<Self> {
        let place = Place::default();
        let notifier = Notifier::new(post);
        let (printed, outputs) = Printed::prepare()?;
        let (printed, alarm) = (Arc::new(printed), Arc::new(Alarm::new()?));

        let (watching, team) = (notifier.clone(), place.clone());
        start("news", move || {
            if let Err(end) = watching.pass_on_forever(&letterbox) {
                team.wait().end(end);
            }
        })?;

        let (forwarding, team) = (printed.clone(), place.clone());
        start("output", move || {
            if let Err(error) = forwarding.forward_forever(|| &team.wait().common().client.outgoing) {
                team.wait().end(error.into());
            }
        })?;

        let idle = Arc::new(Alarm::new()?);
        let (team, ringing) = (place.clone(), idle.clone());
        start("idle", move || {
            // When a device has become busy for the first time.
            ringing.wait_to_be_rung();
            let common = team.wait().common();
            common.idle.look(&common.usage, &common.is_over);
        })?;

        let team = place.clone();
        start("control", move || {
            // Until there is a session, its first thread listens to the daemon.
            let team = team.wait();
            if let Some(end) = peers::listen(&team.common().peers) {
                team.end(end);
            }
        })?;

        let (team, ringing) = (place.clone(), alarm.clone());
        start("session", move || {
            ringing.wait_to_be_rung();
            team.wait().join();
        })?;

        Ok(Self { notifier, printed, outputs, alarm, idle, place })
    }
}

fn start(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    thread::Builder::new().name(name.to_owned()).spawn(work).map(drop)
}
