//! Point clouds compressed by Draco, whose library has no interface in C: `draco/adaptor.cpp` gives it one.

use std::ffi::{CStr, c_char, c_int};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::error::{Error, Kind};
use crate::library::{first, functions};

/// The adaptor's file name.
const ADAPTOR: &str = "libropeway-draco.so";

/// What `ropeway_draco_interface` says; the adaptor of another version of Ropeway may say another number.
const INTERFACE: c_int = 1;

functions! {
    /// Of the adaptor: see there.
    struct Adaptor {
        ropeway_draco_interface: fn() -> c_int;
        ropeway_draco_points: fn(*const u8, usize, *mut f32, *mut u8, u64, *mut u64, *mut c_char, usize) -> c_int;
    }
}

/// The decoder of point clouds.
pub struct Draco {
    adaptor: Adaptor,
}

/// What a chunk held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Points {
    /// How many points were written.
    pub count: usize,
    /// Whether the points have colours. If not, and there was a place for colours, it has white.
    pub coloured: bool,
}

impl Draco {
    /// The decoder of this machine, loaded by whoever asks first: from beside the program, else from the usual places of libraries.
    pub fn get() -> Result<&'static Self, Error> {
        static DRACO: OnceLock<Result<Draco, Error>> = OnceLock::new();
        DRACO.get_or_init(|| Self::first_of(&Self::places())).as_ref().map_err(Clone::clone)
    }

    /// A decoder whose adaptor is this file.
    pub fn at(adaptor: &Path) -> Result<Self, Error> {
        Self::first_of(&[adaptor.to_owned()])
    }

    /// Where the adaptor may be: paths, and last its name alone, by which the system looks for it.
    pub fn places() -> Vec<PathBuf> {
        let mut places = Vec::new();
        if let Some(folder) = std::env::current_exe().ok().as_deref().and_then(Path::parent) {
            places.push(folder.join(ADAPTOR));
            places.push(folder.join("../lib/ropeway").join(ADAPTOR));
        }
        places.push(ADAPTOR.into());
        places
    }

    fn first_of(places: &[PathBuf]) -> Result<Self, Error> {
        let failed = |why: String| {
            let advice = format!("build {ADAPTOR} with `make draco` and put it beside the program ropeway");
            Error::new(
                Kind::NoLibrary,
                format!("no decoder for Draco's point clouds on this machine ({why}); {advice}"),
            )
        };
        let library = first(places).map_err(failed)?;
        // SAFETY: the types are those of the adaptor's functions.
        let adaptor = unsafe { Adaptor::of(library) }.map_err(failed)?;
        // SAFETY: the function takes nothing.
        match unsafe { (adaptor.ropeway_draco_interface)() } {
            INTERFACE => Ok(Self { adaptor }),
            other => Err(failed(format!("{ADAPTOR} is of interface {other}, not {INTERFACE}"))),
        }
    }

    /// Decodes a chunk: x, y and z of each point into `xyz`, and red, green, blue and alpha into `rgba`.
    ///
    /// Fails with [`Kind::BufferTooSmall`] before anything is allocated for the points, if there are more of them than `xyz` or
    /// `rgba` has room for; with [`Kind::TooLarge`] where what the stream says of each point takes more than 256 bytes, and with
    /// [`Kind::BadStream`] where it is no point cloud, or broken. What the destinations hold after a failure is not defined.
    pub fn decode_points(&self, chunk: &[u8], xyz: &mut [f32], rgba: Option<&mut [u8]>) -> Result<Points, Error> {
        let mut room = xyz.len() / 3;
        let mut colours = std::ptr::null_mut();
        if let Some(rgba) = rgba {
            room = room.min(rgba.len() / 4);
            colours = rgba.as_mut_ptr();
        }
        let mut count = 0;
        let mut text = [0_u8; 256];
        // SAFETY: the adaptor reads the chunk, writes no more points than there is room for in both, and no more text than that, a zero
        // last.
        let status = unsafe {
            (self.adaptor.ropeway_draco_points)(
                chunk.as_ptr(),
                chunk.len(),
                xyz.as_mut_ptr(),
                colours,
                room as u64,
                &raw mut count,
                text.as_mut_ptr().cast(),
                text.len(),
            )
        };
        let why = || CStr::from_bytes_until_nul(&text).unwrap_or_default().to_string_lossy();
        match status {
            0 | 1 => Ok(Points { count: count as usize, coloured: status == 1 }),
            -2 => {
                let sentence = format!("the point cloud has {count} points, and the buffers have room for {room}");
                Err(Error::new(Kind::BufferTooSmall, sentence))
            }
            -3 => Err(Error::new(Kind::TooLarge, format!("the point cloud is too large: {}", why()))),
            -4 => Err(Error::new(Kind::OutOfMemory, "there is no memory left for the point cloud")),
            _ => Err(Error::new(Kind::BadStream, format!("the point cloud cannot be decoded: {}", why()))),
        }
    }
}
