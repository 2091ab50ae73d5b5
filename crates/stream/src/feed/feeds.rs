//! All streams of a server, for the sessions that want them.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

use super::hub::Hub;
use crate::declaration::{Declaration, Origin};
use crate::reading::open_stream;

/// The streams that a server offers. Dropping it ends all that reads them.
pub struct Feeds {
    declarations: BTreeMap<String, Declaration>,
    ffmpeg: OsString,
    hubs: Mutex<BTreeMap<String, Vec<Hub>>>,
}

impl Feeds {
    /// Those that are declared so; `ffmpeg` is the program that receives from networks and cameras.
    pub fn new(declarations: impl IntoIterator<Item = Declaration>, ffmpeg: impl Into<OsString>) -> Self {
        let declarations =
            declarations.into_iter().map(|declaration| (declaration.name.clone(), declaration)).collect();
        Self { declarations, ffmpeg: ffmpeg.into(), hubs: Mutex::default() }
    }

    /// Opens the stream of this name for one session; what comes back is for [`crate::Source::over`]. A file is opened
    /// anew each time. Of any other stream there is one reader, which begins when the first session wants it and ends
    /// when the last one has closed its descriptor; `held` is kept until then.
    ///
    /// # Errors
    /// One sentence.
    pub fn open(&self, name: &str, held: Arc<()>) -> Result<OwnedFd, String> {
        let declaration = self.declarations.get(name).ok_or_else(|| format!("there is no stream '{name}'"))?;
        if let Origin::File(path) = &declaration.origin {
            return open_stream(declaration, path);
        }
        let cannot = |error: std::io::Error| format!("cannot read the stream '{name}': {error}");
        let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
            .map_err(|error| cannot(error.into()))?;
        let mut hubs = self.hubs.lock().unwrap_or_else(PoisonError::into_inner);
        let hubs = hubs.entry(name.to_owned()).or_default();
        hubs.retain(|hub| !hub.is_done());
        let mut session = (ours, held);
        for hub in hubs.iter() {
            match hub.join(session) {
                Ok(()) => return Ok(theirs),
                // It has come to the stream's end, and only brings its sessions there.
                Err(back) => session = back,
            }
        }
        hubs.push(Hub::start(declaration, &self.ffmpeg, session).map_err(cannot)?);
        Ok(theirs)
    }

    /// How many streams are being read.
    pub fn under_way(&self) -> usize {
        let hubs = self.hubs.lock().unwrap_or_else(PoisonError::into_inner);
        hubs.values().flatten().filter(|hub| !hub.is_done()).count()
    }
}

impl Drop for Feeds {
    fn drop(&mut self) {
        // All at once, and then each is waited for.
        let hubs = self.hubs.get_mut().unwrap_or_else(PoisonError::into_inner);
        hubs.values().flatten().for_each(Hub::end);
    }
}
