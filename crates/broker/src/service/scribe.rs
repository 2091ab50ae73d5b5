//! The thread that waits for the disk: it writes what the heart has decided, and only then lets it be said. What has come
//! while it waited goes to the disk together.

use std::io;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ropeway_lease::grant::LeaseId;
use ropeway_lease::messages::{Lease, Tell};
use ropeway_transport::tls::{self, Identity, PublicKey};
use tracing::{error, info};

use super::clock::Clock;
use super::connection::Mouth;
use super::inbox::Input;
use crate::core::Granted;
use crate::store::{Change, Store};

/// How long it waits before it tries again to write what could not be written.
const PAUSE: Duration = Duration::from_secs(1);

/// How long before it is issued a proof is good: clocks differ a little.
const BACKDATED: Duration = Duration::from_secs(300);

/// Something to say.
#[derive(Debug)]
pub(super) enum Said {
    Plainly(Mouth, Tell),
    Granted(Mouth, Box<Granted>),
    Renewed(Mouth, Box<Granted>),
    Close(Mouth),
}

impl Said {
    /// Says it now, if it needs no signature; whether it did.
    pub(super) fn at_once(&self) -> bool {
        match self {
            Self::Plainly(mouth, tell) => drop(mouth.say(tell)),
            Self::Close(mouth) => mouth.close(),
            Self::Granted(..) | Self::Renewed(..) => return false,
        }
        true
    }
}

/// What has been decided at one time.
#[derive(Debug, Default)]
pub(super) struct Batch {
    /// What is to be written down.
    pub(super) changes: Vec<Change>,
    /// Whether that has to be on the disk before anything is said.
    pub(super) has_to_last: bool,
    /// What is to be said then.
    pub(super) said: Vec<Said>,
}

/// The way to the thread, which ends with it.
#[derive(Debug)]
pub(super) struct Scribe(mpsc::Sender<Batch>);

impl Scribe {
    /// Gives it something to do.
    pub(super) fn give(&self, batch: Batch) {
        // It ends with the heart.
        let _ = self.0.send(batch);
    }
}

/// Starts the thread.
///
/// # Errors
/// The system has no thread.
pub(super) fn start(
    store: Box<dyn Store>,
    (identity, clock): (Arc<Identity>, Clock),
    heart: tokio::sync::mpsc::Sender<Input>,
) -> io::Result<Scribe> {
    let (given, batches) = mpsc::channel();
    std::thread::Builder::new()
        .name("scribe".to_owned())
        .spawn(move || run(store, (&identity, clock), &heart, &batches))?;
    Ok(Scribe(given))
}

fn run(
    mut store: Box<dyn Store>,
    signer: (&Identity, Clock),
    heart: &tokio::sync::mpsc::Sender<Input>,
    batches: &mpsc::Receiver<Batch>,
) {
    while let Ok(mut batch) = batches.recv() {
        while let Ok(more) = batches.try_recv() {
            batch.changes.extend(more.changes);
            batch.has_to_last |= more.has_to_last;
            batch.said.extend(more.said);
        }
        if !batch.changes.is_empty() {
            write(&mut *store, &batch, heart);
        }
        for said in batch.said {
            if let Some(lease) = say(said, signer)
                && heart.blocking_send(Input::Undelivered(lease)).is_err()
            {
                return;
            }
        }
    }
}

/// Writes, however long that takes.
fn write(store: &mut dyn Store, batch: &Batch, heart: &tokio::sync::mpsc::Sender<Input>) {
    let mut has_failed = false;
    while let Err(why) = store.write(&batch.changes, batch.has_to_last) {
        if !has_failed {
            error!(%why, "nothing is lent before this can be written");
            for said in &batch.said {
                if let Said::Granted(mouth, _) = said {
                    mouth.say(&Tell::Waiting { before: 0, why: format!("until the broker can write it down ({why})") });
                }
            }
        }
        has_failed = true;
        if heart.blocking_send(Input::CannotWrite(why.to_string())).is_err() {
            return;
        }
        std::thread::sleep(PAUSE);
    }
    if has_failed {
        info!("the store can be written to again");
        // If the heart has ended, so has everything.
        let _ = heart.blocking_send(Input::CanWrite);
    }
}

/// Says something; returns the lease of which nobody has heard.
fn say(said: Said, signer: (&Identity, Clock)) -> Option<LeaseId> {
    match said {
        Said::Plainly(..) | Said::Close(_) => drop(said.at_once()),
        Said::Granted(mouth, granted) => {
            let (lease, lasts_ms) = (granted.grant.lease, granted.lasts.as_millis() as u64);
            let was_heard = match certificate(&granted, signer) {
                Ok(certificate) => mouth.say(&Tell::Granted(Box::new(Lease {
                    lease,
                    certificate,
                    lasts_ms,
                    servers: granted.servers,
                }))),
                Err(why) => {
                    refuse(&mouth, why);
                    false
                }
            };
            return (!was_heard).then_some(lease);
        }
        Said::Renewed(mouth, granted) => match certificate(&granted, signer) {
            Ok(certificate) => {
                let (lease, lasts_ms) = (granted.grant.lease, granted.lasts.as_millis() as u64);
                mouth.say(&Tell::Renewed { lease, certificate, lasts_ms });
            }
            Err(why) => refuse(&mouth, why),
        },
    }
    None
}

fn refuse(mouth: &Mouth, why: String) {
    mouth.say(&Tell::Refused { why });
    mouth.close();
}

/// The proof of a lease.
fn certificate(granted: &Granted, (identity, clock): (&Identity, Clock)) -> Result<String, String> {
    let holder = PublicKey::from_text(&granted.key).ok_or("the key of the lease's holder is none")?;
    let now = clock.now();
    let contents = granted.grant.to_text();
    let issued = tls::issue_lease(identity, holder, &contents, now - BACKDATED, now + granted.lasts);
    let issued = issued.map_err(|error| format!("the broker cannot sign the lease: {error}"))?;
    Ok(URL_SAFE_NO_PAD.encode(issued))
}
