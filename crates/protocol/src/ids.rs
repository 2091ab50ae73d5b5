//! Names of objects, chosen by the client.
//!
//! Each kind has its own number space for one session; a number is never used twice in it.

use serde::{Deserialize, Serialize};

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub u64);

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self.0)
            }
        }
    )*};
}

ids! {
    /// An OpenCL context.
    ContextId,
    /// A command queue.
    QueueId,
    /// A command queue on the device.
    DeviceQueueId,
    /// A memory object: buffer, sub-buffer, image or pipe; one number space.
    MemoryId,
    /// A sampler.
    SamplerId,
    /// A program.
    ProgramId,
    /// A kernel.
    KernelId,
    /// An event, of a command or of the user.
    EventId,
    /// A transfer of bulk bytes that is larger than one frame, in either direction.
    TransferId,
    /// A command buffer.
    CommandBufferId,
    /// A semaphore.
    SemaphoreId,
    /// A session: one client process on one server. Chosen by the server, at random.
    SessionId,
}
