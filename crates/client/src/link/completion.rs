//! Notifications about the course of a command.

use crate::base::status::Status;

/// Receives notifications of a command's progress, of its end and of the data that it brings.
///
/// The thread that reads the link calls these methods, so they must not block.
pub(crate) trait Completion: Send + Sync {
    /// The server says that the command was submitted (CL_SUBMITTED), or runs (CL_RUNNING).
    fn progressed(&self, status: Status);

    /// The server says how the command ended (CL_COMPLETE or an error), and, where its queue profiles, when it was
    /// queued, submitted, started, ended and completed, in nanoseconds of the device's timer.
    fn completed(&self, status: Status, times: Option<[u64; 5]>);

    /// All data of a read is in the application's memory (CL_COMPLETE), or never will be (an error).
    fn data_arrived(&self, status: Status);

    /// The server is lost, and the command with it.
    fn lost(&self);
}
