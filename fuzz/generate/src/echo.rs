//! Decodes frames and encodes them again.

use ropeway_protocol::codec::DecodeError;
use ropeway_protocol::messages::*;
use ropeway_protocol::{
    Call, CallId, FRAME_HEADER_LEN, FrameHeader, Receive, Serve, ServePeer, Tail, TailError, dispatch, dispatch_peer,
    encode_call, encode_note, encode_post, limits, receive,
};

/// Both ends of the protocol: each message that it is given, it encodes again.
#[derive(Debug, Default)]
pub struct Echo {
    out: Vec<u8>,
}

/// Why a frame was not echoed.
#[derive(Debug, PartialEq, Eq)]
pub enum EchoError {
    /// The bytes end before the frame does.
    Short,
    /// The frame was refused.
    Refused(DecodeError),
}

impl From<DecodeError> for EchoError {
    fn from(error: DecodeError) -> Self {
        Self::Refused(error)
    }
}

impl From<TailError> for EchoError {
    fn from(_: TailError) -> Self {
        Self::Short
    }
}

impl Echo {
    /// Decodes the first frame of `bytes` as the server does and encodes it again; also returns the frame's length.
    ///
    /// # Errors
    /// [`EchoError::Refused`] for a frame that a server refuses.
    pub fn at_server(bytes: &[u8]) -> Result<(Vec<u8>, usize), EchoError> {
        let (header, body, mut tail, len) = split(bytes, limits::MAX_BODY_TO_SERVER)?;
        let mut echo = Self::default();
        dispatch(&mut echo, header, body, &mut tail)?;
        Ok((echo.out, len))
    }

    /// Decodes the first frame of `bytes`, a note, as the client does and encodes it again; also returns the frame's
    /// length.
    ///
    /// # Errors
    /// [`EchoError::Refused`] for a frame that a client refuses.
    pub fn at_client(bytes: &[u8]) -> Result<(Vec<u8>, usize), EchoError> {
        let (header, body, mut tail, len) = split(bytes, limits::MAX_BODY_TO_CLIENT)?;
        let mut echo = Self::default();
        receive(&mut echo, header, body, &mut tail)?;
        Ok((echo.out, len))
    }

    /// Decodes the first frame of `bytes` as a peer does and encodes it again; also returns the frame's length.
    ///
    /// # Errors
    /// [`EchoError::Refused`] for a frame that a peer refuses.
    pub fn at_peer(bytes: &[u8]) -> Result<(Vec<u8>, usize), EchoError> {
        let (header, body, mut tail, len) = split(bytes, limits::MAX_BODY_TO_SERVER)?;
        let mut echo = Self::default();
        dispatch_peer(&mut echo, header, body, &mut tail)?;
        Ok((echo.out, len))
    }
}

type Split<'a> = (FrameHeader, &'a [u8], &'a [u8], usize);

fn split(bytes: &[u8], max_body: usize) -> Result<Split<'_>, EchoError> {
    let (header, rest) = bytes.split_first_chunk::<FRAME_HEADER_LEN>().ok_or(EchoError::Short)?;
    let header = FrameHeader::from_bytes(header, max_body)?;
    let payload = rest.get(..header.payload()).ok_or(EchoError::Short)?;
    let (body, tail) = payload.split_at(header.body as usize);
    Ok((header, body, tail, FRAME_HEADER_LEN + payload.len()))
}

/// Implements a trait of handlers with one that encodes its message again for each message.
macro_rules! echo {
    ($Trait:ident, $(
        $(#[$doc:meta])*
        $kind:ident $op:literal $method:ident: $name:ident $(<$lt:lifetime>)? { $($fields:tt)* }
            $(+ $tail:ident)? $(-> $reply:ty)? $(=> recorded $recorded:ident)?;
    )*) => {
        impl $Trait for Echo {
            type Error = EchoError;

            $( echo!(@$kind $method $name [$(<$lt>)?] $($tail)?); )*
        }
    };
    (@post $($row:tt)*) => { echo!(@unanswered encode_post $($row)*); };
    (@command $($row:tt)*) => { echo!(@unanswered encode_post $($row)*); };
    (@note $($row:tt)*) => { echo!(@unanswered encode_note $($row)*); };
    (@unanswered $encode:ident $method:ident $name:ident [$($lt:tt)*] $($tail:ident)?) => {
        fn $method $($lt)* (&mut self, message: $name $($lt)* $(, $tail: &mut dyn Tail)?) -> Result<(), EchoError> {
            let bulk: Vec<u8> = None $(.or(Some($tail.read_to_vec()?)))? .unwrap_or_default();
            $encode(&mut self.out, &message, bulk.len());
            self.out.extend_from_slice(&bulk);
            Ok(())
        }
    };
    (@call $method:ident $name:ident [$($lt:tt)*] $($tail:ident)?) => {
        fn $method $($lt)* (
            &mut self, message: $name $($lt)*, call: CallId<<$name $($lt)* as Call>::Reply> $(, $tail: &mut dyn Tail)?
        ) -> Result<(), EchoError> {
            let bulk: Vec<u8> = None $(.or(Some($tail.read_to_vec()?)))? .unwrap_or_default();
            encode_call(&mut self.out, call.number(), &message, bulk.len());
            self.out.extend_from_slice(&bulk);
            Ok(())
        }
    };
}

ropeway_protocol::client_messages!(echo! { Serve, });
ropeway_protocol::server_notes!(echo! { Receive, });
ropeway_protocol::peer_messages!(echo! { ServePeer, });
