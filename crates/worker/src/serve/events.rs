//! Events.

use ropeway_abi as cl;
use ropeway_protocol::ids::EventId;

use crate::common::News;
use crate::error::End;
use crate::session::{Session, unknown};

impl Session {
    /// Lets the client know when a command is submitted and when it runs, as far as the native implementation tells.
    ///
    /// # Errors
    /// There is no such event.
    pub fn watch_progress_of(&mut self, event: EventId) -> Result<(), End> {
        let cell = self.lanes.events.get(&event).ok_or_else(|| unknown(event))?;
        let Some(native) = cell.native.as_ref().filter(|_| !cell.settled()) else { return Ok(()) };
        for status in [cl::CL_SUBMITTED, cl::CL_RUNNING] {
            let (cell, news) = (cell.clone(), self.common.news.clone());
            // Where no callback can be had, the end tells it all; with nobody to listen, the session is over.
            let _ = native.on_status(status, move || drop(news.send(News::Progress(cell))));
        }
        Ok(())
    }
}
