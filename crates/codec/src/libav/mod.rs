//! libavcodec and its companions: the C boundary.

mod context;
mod functions;
mod layout;
mod scaler;
mod surface;

pub(crate) use context::{Chunk, Coder, Taken};
pub(crate) use functions::Api;
pub(crate) use scaler::{Conversion, Scaler};
pub(crate) use surface::Surface;

use crate::error::Error;

/// Which libavcodec this machine has, for people; loads it. Otherwise says what is missing and how to install it.
pub fn video_library() -> Result<String, Error> {
    Api::get().map(|api| api.name.clone())
}
