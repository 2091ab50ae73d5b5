//! What command buffers are made of.

use serde::{Deserialize, Serialize};

use crate::ids::{KernelId, MemoryId};
use crate::image::ImagePart;
use crate::types::{BufferRect, NdRange};

/// Takes those rows of the message table that say `=> recorded`.
macro_rules! recorded {
    ($(
        $(#[doc = $doc:expr])*
        $kind:ident $op:literal $method:ident: $name:ident $(<$lt:lifetime>)? { $($fields:tt)* }
            $(+ $tail:ident)? $(-> $reply:ty)? $(=> recorded $recorded:ident)?;
    )*) => { recorded! { $(@ $name { $($fields)* } [$($recorded)?])* } };
    ($(@ $name:ident $fields:tt [$($recorded:ident)?])*) => {
        /// What one command of a command buffer does: the fields of the message that enqueues such a command, without its queue, event and
        /// wait list. The order of the messages in the table is that of the variants on the wire.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
        #[allow(missing_docs, reason = "the message's documentation covers its fields")]
        pub enum Recorded<'a> {
            $( $(
                #[doc = concat!("As [`", stringify!($name), "`](crate::messages::", stringify!($name), ").")]
                $recorded $fields,
            )? )*
            /// Holds back all commands behind it until those that it waits for have ended: all before it, where its wait list is empty.
            Barrier,
        }
    };
}

crate::client_messages!(recorded! {});
