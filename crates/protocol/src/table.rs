//! The generator behind the message table, and the traits of its messages.

use std::marker::PhantomData;

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Whether and how a message is answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Client to server, no reply.
    Post,
    /// Client to server, with one reply.
    Call,
    /// Server to client, no reply.
    Note,
}

/// One row of the message table, for documentation, logs and metrics.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Described {
    /// The opcode in the frame header.
    pub opcode: u16,
    /// The message's name.
    pub name: &'static str,
    /// Whether and how it is answered.
    pub kind: Kind,
    pub(crate) fields: &'static [&'static str],
    pub(crate) reply: Option<&'static str>,
    /// Whether bulk bytes may follow as the frame's tail.
    pub tail: bool,
    /// The message's own documentation.
    pub doc: &'static str,
}

impl Described {
    /// `name: type` of each field, in wire order.
    pub fn fields(&self) -> impl Iterator<Item = String> {
        self.fields.iter().map(|field| tidy(field))
    }

    /// The type of the reply, for a call.
    pub fn reply(&self) -> Option<String> {
        self.reply.map(tidy)
    }
}

/// Formats a type as it is usually written: the compiler puts spaces around brackets when it renders the tokens of a
/// macro.
fn tidy(tokens: &str) -> String {
    let is_kept = |(at, c): &(usize, char)| {
        let (before, after) = (&tokens[..*at], &tokens[at + c.len_utf8()..]);
        let beside_bracket = before.ends_with(['<', '&']) || after.starts_with(['<', '>', ',']);
        *c != ' ' || !beside_bracket && !before.ends_with(' ')
    };
    tokens.char_indices().filter(is_kept).map(|(_, c)| c).collect()
}

/// A message to the server that has no reply and so cannot be awaited.
pub trait Post: Serialize {
    /// Its opcode.
    const OPCODE: u16;
    /// Its name.
    const NAME: &'static str;
}

/// A message to the server that is answered with a `Reply`.
pub trait Call: Serialize {
    /// Its opcode.
    const OPCODE: u16;
    /// Its name.
    const NAME: &'static str;
    /// The body of the answer.
    type Reply: Serialize + DeserializeOwned;
}

/// A message from the server that nobody asked for.
pub trait Note: Serialize {
    /// Its opcode.
    const OPCODE: u16;
    /// Its name.
    const NAME: &'static str;
}

/// The number of a call that waits for an `R`: only a reply of that type can be given to it.
#[derive(PartialEq, Eq, Debug)]
pub struct CallId<R> {
    number: u32,
    reply: PhantomData<fn(R)>,
}

impl<R> CallId<R> {
    pub(crate) fn new(number: u32) -> Self {
        Self { number, reply: PhantomData }
    }

    /// The number in the frame header.
    pub fn number(&self) -> u32 {
        self.number
    }
}

/// The link broke before the tail was whole.
#[derive(Debug)]
pub struct TailError;

/// The bulk bytes behind a frame, read straight to where they belong.
///
/// The frame reader skips the bytes that a handler leaves unread.
pub trait Tail {
    /// Bytes not yet read.
    fn remaining(&self) -> usize;

    /// Fills `into` with the next bytes; `into` must not be longer than [`Tail::remaining`].
    ///
    /// # Errors
    /// [`TailError`] when the link broke or `into` is too long.
    fn read_exact(&mut self, into: &mut [u8]) -> Result<(), TailError>;

    /// The rest, in memory of its own.
    ///
    /// # Errors
    /// As [`Tail::read_exact`].
    fn read_to_vec(&mut self) -> Result<Vec<u8>, TailError> {
        let mut bytes = vec![0; self.remaining()];
        self.read_exact(&mut bytes)?;
        Ok(bytes)
    }
}

/// A tail that is already in memory.
impl Tail for &[u8] {
    fn remaining(&self) -> usize {
        self.len()
    }

    fn read_exact(&mut self, into: &mut [u8]) -> Result<(), TailError> {
        let (head, rest) = self.split_at_checked(into.len()).ok_or(TailError)?;
        into.copy_from_slice(head);
        *self = rest;
        Ok(())
    }
}

/// Expands a table of messages; [`crate::messages`] holds the tables and says how a row is written.
///
/// The rules that begin with `@` each make one part of a row's code, by the row's kind.
macro_rules! messages {
    (
        $(#[$trait_doc:meta])*
        trait $Trait:ident;
        $(#[$fn_doc:meta])*
        fn $dispatch:ident;
        $(#[$const_doc:meta])*
        const $TABLE:ident;
        $(
            $(#[doc = $doc:expr])*
            $kind:ident $op:literal $method:ident: $name:ident $(<$lt:lifetime>)? { $($fields:tt)* }
                $(+ $tail:ident)? $(-> $reply:ty)? $(=> recorded $recorded:ident)?;
        )*
    ) => {
        $(
            messages!(@struct $kind [$(#[doc = $doc])*] $name [$(<$lt>)?] $($fields)*);
            messages!(@impl $kind $op $name [$($lt)?] $($reply)?);
        )*

        $(#[$trait_doc])*
        pub trait $Trait {
            /// An error that ends the connection when a handler returns it.
            type Error: From<DecodeError>;
            $(
                $(#[doc = $doc])*
                #[allow(missing_docs, clippy::missing_errors_doc)]
                fn $method $(<$lt>)? (
                    &mut self,
                    message: $name $(<$lt>)?
                    $(, call: CallId<$reply>)?
                    $(, $tail: &mut dyn Tail)?
                ) -> Result<(), Self::Error>;
            )*
        }

        $(#[$fn_doc])*
        pub fn $dispatch<H: $Trait>(
            handler: &mut H,
            header: FrameHeader,
            body: &[u8],
            bulk: &mut dyn Tail,
        ) -> Result<(), H::Error> {
            match header.opcode {
                $(
                    $op => {
                        check_header(header, messages!(@kind $kind), messages!(@has $($tail)?))?;
                        let message: $name = decode(body)?;
                        handler.$method(
                            message
                            $(, CallId::<$reply>::new(header.call))?
                            $(, { let $tail = &mut *bulk; $tail })?
                        )
                    }
                )*
                other => Err(DecodeError::UnknownOpcode(other).into()),
            }
        }

        $(#[$const_doc])*
        pub const $TABLE: &[Described] = &[
            $(Described {
                opcode: $op,
                name: stringify!($name),
                kind: messages!(@kind $kind),
                fields: messages!(@fields $kind $($fields)*),
                reply: messages!(@reply $($reply)?),
                tail: messages!(@has $($tail)?),
                doc: concat!($($doc, "\n"),*),
            },)*
        ];
    };

    (@struct command [$($docs:tt)*] $name:ident $lt:tt $($fields:tt)*) => {
        messages!(@struct post [$($docs)*] $name $lt command: Command, $($fields)*);
    };
    (@struct $kind:ident [$($docs:tt)*] $name:ident [$($lt:tt)*] $( $(#[$fmeta:meta])* $field:ident: $ty:ty ),* $(,)?) => {
        $($docs)*
        #[derive(Clone, PartialEq, Debug, serde::Serialize, serde::Deserialize)]
        #[allow(missing_docs, reason = "the message's own documentation covers its fields")]
        pub struct $name $($lt)* {
            $( $(#[$fmeta])* pub $field: $ty, )*
        }
    };

    (@fields command $($fields:tt)*) => { messages!(@fields post command: Command, $($fields)*) };
    (@fields $kind:ident $( $(#[$fmeta:meta])* $field:ident: $ty:ty ),* $(,)?) => {
        &[$(concat!(stringify!($field), ": ", stringify!($ty))),*]
    };

    (@impl command $op:literal $name:ident [$($lt:lifetime)?]) => { messages!(@impl post $op $name [$($lt)?]); };
    (@impl post $op:literal $name:ident [$($lt:lifetime)?]) => {
        impl $(<$lt>)? Post for $name $(<$lt>)? {
            const OPCODE: u16 = $op;
            const NAME: &'static str = stringify!($name);
        }
    };
    (@impl note $op:literal $name:ident [$($lt:lifetime)?]) => {
        impl $(<$lt>)? Note for $name $(<$lt>)? {
            const OPCODE: u16 = $op;
            const NAME: &'static str = stringify!($name);
        }
    };
    (@impl call $op:literal $name:ident [$($lt:lifetime)?] $reply:ty) => {
        impl $(<$lt>)? Call for $name $(<$lt>)? {
            const OPCODE: u16 = $op;
            const NAME: &'static str = stringify!($name);
            type Reply = $reply;
        }
    };

    (@kind post) => { Kind::Post };
    (@kind command) => { Kind::Post };
    (@kind call) => { Kind::Call };
    (@kind note) => { Kind::Note };
    (@has) => { false };
    (@has $tail:ident) => { true };
    (@reply) => { None };
    (@reply $reply:ty) => { Some(stringify!($reply)) };
}
pub(crate) use messages;
