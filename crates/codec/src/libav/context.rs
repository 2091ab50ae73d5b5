//! A coder of libavcodec, decoder or encoder, and the chunks of streams that it takes or gives.

use std::ffi::{CStr, c_int};
use std::ptr::{NonNull, null_mut};
use std::slice;

use super::functions::{AVCodecContext, AVRational, Api};
use super::layout::AVPacket;
use super::surface::Surface;
use crate::error::{Error, Kind};

const AGAIN: c_int = -11; // AVERROR(EAGAIN)
const NO_MEMORY: c_int = -12; // AVERROR(ENOMEM)
const END: c_int = -0x2046_4F45; // AVERROR_EOF
const BROKEN: c_int = -0x4144_4E49; // AVERROR_INVALIDDATA

/// What became of asking a coder for something, or of giving it something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// It was done.
    Yes,
    /// Not before the other side has gone on: results taken, or more given.
    Later,
    /// Not any more: the coder has been drained.
    Ended,
}

/// A decoder or an encoder.
pub(crate) struct Coder {
    api: &'static Api,
    context: NonNull<AVCodecContext>,
    /// For sentences: "the H.264 stream", "the AV1 encoder".
    subject: String,
    is_left: bool,
}

// SAFETY: a context may be used by any thread, one at a time; `&mut self` sees to that.
unsafe impl Send for Coder {}

impl Coder {
    /// The decoder of one of these names, the first that libavcodec has. Set its options, then open it.
    pub(crate) fn decoder(api: &'static Api, names: &[&CStr], subject: String) -> Result<Self, Error> {
        Self::named(api, names, subject, api.coding.avcodec_find_decoder_by_name)
    }

    /// The encoder of one of these names, the first that libavcodec has. Set its options, then open it.
    pub(crate) fn encoder(api: &'static Api, names: &[&CStr], subject: String) -> Result<Self, Error> {
        Self::named(api, names, subject, api.coding.avcodec_find_encoder_by_name)
    }

    fn named(
        api: &'static Api,
        names: &[&CStr],
        subject: String,
        find: unsafe extern "C" fn(*const std::ffi::c_char) -> *const super::functions::AVCodec,
    ) -> Result<Self, Error> {
        for name in names {
            // SAFETY: the name ends with a zero; what is found is static.
            let codec = unsafe { find(name.as_ptr()) };
            if codec.is_null() {
                continue;
            }
            // SAFETY: the codec was found.
            let context = unsafe { (api.coding.avcodec_alloc_context3)(codec) };
            let context = NonNull::new(context).ok_or_else(Error::no_memory)?;
            return Ok(Self { api, context, subject, is_left: false });
        }
        let names = names.iter().map(|name| name.to_string_lossy()).collect::<Vec<_>>().join(" or ");
        Err(Error::new(Kind::NoLibrary, format!("{subject}: this machine's libavcodec was built without {names}")))
    }

    fn object(&mut self) -> *mut std::ffi::c_void {
        self.context.as_ptr().cast()
    }

    /// Sets an option by its name.
    pub(crate) fn set(&mut self, name: &CStr, value: i64) -> Result<(), Error> {
        // SAFETY: a context begins with what av_opt functions want; the name ends with a zero.
        let status = unsafe { (self.api.util.av_opt_set_int)(self.object(), name.as_ptr(), value, SEARCH_CHILDREN) };
        self.option(name, status)
    }

    /// Sets an option that is text.
    pub(crate) fn set_text(&mut self, name: &CStr, value: &CStr) -> Result<(), Error> {
        // SAFETY: as above, and the value ends with a zero.
        let status =
            unsafe { (self.api.util.av_opt_set)(self.object(), name.as_ptr(), value.as_ptr(), SEARCH_CHILDREN) };
        self.option(name, status)
    }

    /// Says what is to be encoded: size, libav's number of the pixel format, and frames in a second.
    pub(crate) fn set_video(&mut self, width: u32, height: u32, format: c_int, rate: u32) -> Result<(), Error> {
        let rate = AVRational { num: 1, den: rate.try_into().unwrap_or(c_int::MAX) };
        let (width, height) = (width.try_into().unwrap_or(c_int::MAX), height.try_into().unwrap_or(c_int::MAX));
        // SAFETY: as above.
        let status =
            unsafe { (self.api.util.av_opt_set_image_size)(self.object(), c"video_size".as_ptr(), width, height, 0) };
        self.option(c"video_size", status)?;
        // SAFETY: as above.
        let status =
            unsafe { (self.api.util.av_opt_set_pixel_fmt)(self.object(), c"pixel_format".as_ptr(), format, 0) };
        self.option(c"pixel_format", status)?;
        // SAFETY: as above.
        let status = unsafe { (self.api.util.av_opt_set_q)(self.object(), c"time_base".as_ptr(), rate, 0) };
        self.option(c"time_base", status)
    }

    fn option(&self, name: &CStr, status: c_int) -> Result<(), Error> {
        if status < 0 {
            let name = name.to_string_lossy();
            return Err(Error::new(
                Kind::NoLibrary,
                format!("{}: libavcodec's option {name}: {}", self.subject, self.reason(status)),
            ));
        }
        Ok(())
    }

    /// An option's value; 0 if there is none of this name.
    pub(crate) fn get(&mut self, name: &CStr) -> c_int {
        let mut value = 0;
        // SAFETY: as in `set`; the value is written to a local variable.
        let status = unsafe { (self.api.util.av_opt_get_int)(self.object(), name.as_ptr(), 0, &raw mut value) };
        if status < 0 { 0 } else { value.try_into().unwrap_or(0) }
    }

    /// Opens the coder: from here on it codes.
    pub(crate) fn open(&mut self) -> Result<(), Error> {
        // SAFETY: the context was made for its codec, which a null pointer stands for.
        let status = unsafe { (self.api.coding.avcodec_open2)(self.context.as_ptr(), std::ptr::null(), null_mut()) };
        if status < 0 {
            let kind = if status == NO_MEMORY { Kind::OutOfMemory } else { Kind::BadArgument };
            return Err(Error::new(kind, format!("{} cannot be opened: {}", self.subject, self.reason(status))));
        }
        Ok(())
    }

    /// Gives the decoder a chunk; none for the end of the stream.
    pub(crate) fn send_chunk(&mut self, chunk: Option<&Chunk>) -> Result<Taken, Error> {
        let packet = chunk.map_or(null_mut(), |chunk| chunk.packet.as_ptr());
        // SAFETY: the context is an open decoder, which copies or counts references to what it needs of the packet.
        let status = unsafe { (self.api.coding.avcodec_send_packet)(self.context.as_ptr(), packet) };
        self.taken(status)
    }

    /// Takes the decoder's next picture.
    pub(crate) fn receive_surface(&mut self, into: &mut Surface) -> Result<Taken, Error> {
        // SAFETY: the context is an open decoder; it empties the frame before it fills it.
        let status = unsafe { (self.api.coding.avcodec_receive_frame)(self.context.as_ptr(), into.as_ptr()) };
        self.taken(status)
    }

    /// Gives the encoder a picture; none for the end of the stream.
    pub(crate) fn send_surface(&mut self, surface: Option<&Surface>) -> Result<Taken, Error> {
        let frame = surface.map_or(std::ptr::null(), Surface::as_const_ptr);
        // SAFETY: the context is an open encoder; it takes references to the frame, whose contents are not changed while there are any.
        let status = unsafe { (self.api.coding.avcodec_send_frame)(self.context.as_ptr(), frame) };
        self.taken(status)
    }

    /// Takes the encoder's next chunk.
    pub(crate) fn receive_chunk(&mut self, into: &mut Chunk) -> Result<Taken, Error> {
        // SAFETY: the context is an open encoder; it empties the packet before it fills it.
        let status = unsafe { (self.api.coding.avcodec_receive_packet)(self.context.as_ptr(), into.packet.as_ptr()) };
        self.taken(status)
    }

    /// Has it never closed, as closing it may take for ever.
    pub(crate) fn leave(&mut self) {
        self.is_left = true;
    }

    /// Forgets the stream so far: the next chunk is the first of a new one.
    pub(crate) fn restart(&mut self) {
        // SAFETY: the context is an open decoder.
        unsafe { (self.api.coding.avcodec_flush_buffers)(self.context.as_ptr()) };
    }

    fn taken(&self, status: c_int) -> Result<Taken, Error> {
        match status {
            0.. => Ok(Taken::Yes),
            AGAIN => Ok(Taken::Later),
            END => Ok(Taken::Ended),
            NO_MEMORY => Err(Error::no_memory()),
            BROKEN => {
                Err(Error::new(Kind::BadStream, format!("{} is broken here, or is of another codec", self.subject)))
            }
            _ => Err(Error::new(Kind::BadStream, format!("{} is broken here: {}", self.subject, self.reason(status)))),
        }
    }

    /// libav's words for a status.
    fn reason(&self, status: c_int) -> String {
        let mut text = [0_u8; 128];
        // SAFETY: the function writes no more than the bytes that are there, a zero last.
        unsafe { (self.api.util.av_strerror)(status, text.as_mut_ptr().cast(), text.len()) };
        CStr::from_bytes_until_nul(&text).unwrap_or_default().to_string_lossy().into_owned()
    }
}

/// AV_OPT_SEARCH_CHILDREN: options of the codec itself as well.
const SEARCH_CHILDREN: c_int = 1;

impl Drop for Coder {
    fn drop(&mut self) {
        if self.is_left {
            return;
        }
        let mut context = self.context.as_ptr();
        // SAFETY: the context is this object's.
        unsafe { (self.api.coding.avcodec_free_context)(&raw mut context) };
    }
}

/// A piece of a stream, with the bytes behind it that codecs want to be able to read.
pub(crate) struct Chunk {
    api: &'static Api,
    packet: NonNull<AVPacket>,
}

// SAFETY: a packet is memory and counted references to it, counted atomically.
unsafe impl Send for Chunk {}

impl Chunk {
    /// One without contents.
    pub(crate) fn new(api: &'static Api) -> Result<Self, Error> {
        // SAFETY: the function takes nothing.
        let packet = unsafe { (api.coding.av_packet_alloc)() };
        Ok(Self { api, packet: NonNull::new(packet).ok_or_else(Error::no_memory)? })
    }

    /// Copies bytes into the chunk.
    pub(crate) fn fill(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let size = c_int::try_from(bytes.len()).ok().filter(|size| *size < c_int::MAX / 2);
        let size = size.ok_or_else(|| {
            Error::new(Kind::BadArgument, format!("a chunk of {} bytes is too large for any codec", bytes.len()))
        })?;
        // SAFETY: the packet is this object's. av_new_packet allocates that many bytes, and zeros behind them.
        unsafe {
            (self.api.coding.av_packet_unref)(self.packet.as_ptr());
            if (self.api.coding.av_new_packet)(self.packet.as_ptr(), size) < 0 {
                return Err(Error::no_memory());
            }
            let packet = self.packet.as_ref();
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), packet.data, bytes.len());
        }
        Ok(())
    }

    /// What the chunk holds.
    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: libav sets data and size together; the bytes live as long as the packet is not changed.
        unsafe {
            let packet = self.packet.as_ref();
            if packet.data.is_null() || packet.size <= 0 {
                return &[];
            }
            slice::from_raw_parts(packet.data, packet.size as usize)
        }
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        let mut packet = self.packet.as_ptr();
        // SAFETY: the packet is this object's.
        unsafe { (self.api.coding.av_packet_free)(&raw mut packet) };
    }
}
