//! The commands of command buffers.

use serde::{Deserialize, Serialize};

use crate::ids::{KernelId, MemoryId};
use crate::image::ImagePart;
use crate::types::{BufferRect, NdRange};

/// Selects the rows of the message table that are marked `=> recorded`.
macro_rules! recorded {
    ($(
        $(#[doc = $doc:expr])*
        $kind:ident $op:literal $method:ident: $name:ident $(<$lt:lifetime>)? { $($fields:tt)* }
            $(+ $tail:ident)? $(-> $reply:ty)? $(=> recorded $recorded:ident)?;
    )*) => { recorded! { $(@ $name { $($fields)* } [$($recorded)?])* } };
    ($(@ $name:ident $fields:tt [$($recorded:ident)?])*) => {
        /// One command of a command buffer: the fields of the message that enqueues such a command, without
        /// its queue, event and wait list. On the wire, the variants are in the order of the messages in the table.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
        #[allow(missing_docs, reason = "the message's documentation covers its fields")]
        pub enum Recorded<'a> {
            $( $(
                #[doc = concat!("As [`", stringify!($name), "`](crate::messages::", stringify!($name), ").")]
                $recorded $fields,
            )? )*
            /// Holds back all commands behind it until the commands in its wait list have ended; if that is empty, all
            /// commands before it.
            Barrier,
        }
    };
}

crate::client_messages!(recorded! {});
