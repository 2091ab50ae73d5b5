//! Point clouds by Draco: `ropeway.decode.draco`.
#![allow(unsafe_code)]

use ropeway_abi as cl;
use ropeway_codec::Draco as Library;
use serde::{Deserialize, Serialize};

use super::records::{ChunkRecord, PointsRecord, failure};
use crate::kind::{Call, Failure, Instance, Kind, Parameter, Passed, Signature, Slice};

/// A `[[draco]]` table of the operator's file.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Declaration {
    /// The device's name.
    pub name: String,
}

/// A device that decodes point clouds.
pub struct Draco {
    declaration: Declaration,
}

impl Draco {
    /// The device of a declaration.
    pub fn new(declaration: Declaration) -> Self {
        // Loaded while the worker waits for its client. Where the machine has none, commands say so.
        drop(Library::get());
        Self { declaration }
    }
}

impl Kind for Draco {
    fn name(&self) -> String {
        self.declaration.name.clone()
    }

    fn kernels(&self) -> Vec<Signature> {
        let parameters = [
            Parameter::buffer("chunk", "uchar*", Passed::In, 0),
            Parameter::buffer("about_chunk", "cl_chunk_ropeway*", Passed::In, ChunkRecord::SIZE),
            Parameter::buffer("points", "float*", Passed::Out, 0),
            Parameter::buffer("colours", "uchar*", Passed::Out, 0).optional(),
            Parameter::buffer("about_points", "cl_points_ropeway*", Passed::Out, PointsRecord::SIZE),
            Parameter::buffer("about_colours", "cl_points_ropeway*", Passed::Out, PointsRecord::SIZE).optional(),
        ];
        vec![Signature::new("ropeway.decode.draco", parameters)]
    }

    fn open(&self) -> Box<dyn Instance> {
        Box::new(Opened)
    }
}

/// Point clouds do not depend on each other.
struct Opened;

impl Instance for Opened {
    fn run(&self, call: &mut Call) -> Result<(), Failure> {
        let [chunk, about_chunk, points, colours, about_points, about_colours] =
            call.slices().try_into().expect("as many arguments as the signature has");
        let (about_points, about_colours) = (about_points.write(), about_colours.write());
        let mut tell = |count: u64, has_colours: bool| {
            PointsRecord { size: count * 12, count }.write(about_points);
            if !about_colours.is_empty() {
                let size = if has_colours { count * 4 } else { 0 };
                PointsRecord { size, count }.write(about_colours);
            }
        };
        tell(0, false);
        let chunk = ChunkRecord::read(about_chunk.read()).of(chunk.read())?;
        // SAFETY: any four bytes are a float.
        let (before, points, _) = unsafe { points.write().align_to_mut::<f32>() };
        if !before.is_empty() {
            let text = "the buffer of the points does not begin at a multiple of four bytes".to_owned();
            return Err(Failure::new(cl::CL_MISALIGNED_SUB_BUFFER_OFFSET, text));
        }
        let colours = match colours {
            Slice::Out(bytes) => Some(bytes),
            Slice::In(_) | Slice::Null => None,
        };
        let has_colours = colours.is_some();
        let decoded = Library::get().and_then(|library| library.decode_points(chunk, points, colours));
        let count = decoded.map_err(|error| failure(&error))?.count as u64;
        tell(count, has_colours);
        Ok(())
    }
}
