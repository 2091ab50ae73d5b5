//! The handling of each message.

mod arguments;
mod buffers;
mod command_buffers;
mod contents;
mod devices;
mod events;
mod images;
mod kernels;
mod parts;
mod peers;
mod pipes;
mod programs;
mod queues;
mod rendezvous;
mod semaphores;
mod slots;
mod svm;
mod transfers;

use ropeway_protocol::limits::MAX_TAIL;
use ropeway_protocol::messages::*;
use ropeway_protocol::{Call, CallId, Serve, Tail};

use crate::base::error::End;
use crate::session::job::Job;
use crate::session::{Handlers, Session};

/// Makes the method of the same name handle each message.
macro_rules! handlers {
    ($(
        $(#[$doc:meta])*
        $kind:ident $op:literal $method:ident: $name:ident $(<$lt:lifetime>)? { $($fields:tt)* }
            $(+ $tail:ident)? $(-> $reply:ty)? $(=> recorded $recorded:ident)?;
    )*) => {
        impl Serve for Handlers<'_> {
            type Error = End;

            $( handlers!(@$kind $method $name [$(<$lt>)?] $($tail)?); )*
        }
    };
    (@call $method:ident $name:ident [$($lt:tt)*] $($tail:ident)?) => {
        fn $method $($lt)* (
            &mut self, message: $name $($lt)*, call: CallId<<$name $($lt)* as Call>::Reply> $(, $tail: &mut dyn Tail)?
        ) -> Result<(), End> {
            self.0.$method(message, call $(, $tail)?)
        }
    };
    (@$post:ident $method:ident $name:ident [$($lt:tt)*] $($tail:ident)?) => {
        fn $method $($lt)* (&mut self, message: $name $($lt)* $(, $tail: &mut dyn Tail)?) -> Result<(), End> {
            self.0.$method(message $(, $tail)?)
        }
    };
}

ropeway_protocol::client_messages!(handlers! {});

impl Session {
    fn ping(&mut self, m: Ping, call: CallId<()>, _: &mut dyn Tail) -> Result<(), End> {
        if m.answer as usize > MAX_TAIL {
            return Err(End::refused(format_args!("a ping for {} bytes", m.answer)));
        }
        self.start(Job::Ping(m.answer as usize, call));
        Ok(())
    }

    fn goodbye(&mut self, _: Goodbye) -> Result<(), End> {
        Err(End::Goodbye)
    }

    /// Sets `job` to be run next, which covers none of the deferred work: that is left to the notifier.
    pub(crate) fn start(&mut self, job: Job) {
        self.demote(|_| false);
        self.job = Some(job);
    }
}
