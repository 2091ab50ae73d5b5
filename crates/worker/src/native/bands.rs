//! Host memory that large transfers of images go through: bands of rows or slices, as large as one frame, a few at a
//! time.
//!
//! The packed bytes of a region are cut into pieces that are regions themselves, so that each can be copied as soon as
//! it is there, while the next is under way between the socket and memory.

use std::collections::VecDeque;
use std::sync::Arc;

use ropeway_abi as cl;
use ropeway_protocol::image::ImagePart;
use ropeway_protocol::limits::CHUNK;
use ropeway_protocol::types::Status;
use ropeway_protocol::{Tail, TailError};

use super::memory::Shape;
use super::{Event, Memory, Queue, Waits};

/// Bands under way at once.
const BANDS: usize = 3;

/// The pieces that a part of an image is cut into, with the number of bytes of each.
type Pieces = Box<dyn Iterator<Item = (ImagePart, usize)> + Send>;

fn pieces(image: &Memory, part: ImagePart) -> Result<Pieces, Status> {
    let Shape::Image(like) = image.shape else { return Err(cl::CL_INVALID_MEM_OBJECT) };
    let element = like.format.element_size().filter(|_| like.holds(&part)).ok_or(cl::CL_INVALID_VALUE)?;
    // A piece is an element, or of at most CHUNK bytes: its size cannot overflow.
    let sized = move |piece: ImagePart| (piece, piece.region.iter().product::<u64>() as usize * element as usize);
    Ok(Box::new(part.pieces(element, CHUNK as u64).map(sized)))
}

/// A band's memory, and the copy that uses it.
#[derive(Debug, Default)]
struct Band {
    bytes: Vec<u8>,
    copy: Option<Event>,
}

impl Band {
    /// Waits until the copy has ended: the memory is free then.
    fn settle(&mut self) -> Result<(), Status> {
        self.copy.take().map_or(Ok(()), |copy| copy.wait())
    }
}

impl Drop for Band {
    fn drop(&mut self) {
        if self.copy.as_ref().is_some_and(|copy| !copy.ended()) {
            // The device may still use the memory: leak it rather than free it.
            std::mem::forget(std::mem::take(&mut self.bytes));
        }
    }
}

/// Writes part of an image with bytes as they come.
pub struct ImageWriter {
    queue: Arc<Queue>,
    image: Arc<Memory>,
    pieces: Pieces,
    /// The piece that is being received into the first band: its part, its size in bytes, and how many of them are
    /// there.
    current: Option<(ImagePart, usize, usize)>,
    bands: VecDeque<Band>,
}

impl ImageWriter {
    /// Writes over `queue`, in their order, the packed bytes of `part`.
    ///
    /// # Errors
    /// CL_INVALID_VALUE if it is none of the image.
    pub fn new(queue: &Arc<Queue>, image: &Arc<Memory>, part: ImagePart) -> Result<Self, Status> {
        let bands = (0..BANDS).map(|_| Band::default()).collect();
        Ok(Self { queue: queue.clone(), image: image.clone(), pieces: pieces(image, part)?, current: None, bands })
    }

    /// Takes the next bytes: the whole of `tail`.
    ///
    /// # Errors
    /// The outer error when the link broke; the inner one is what the native calls returned.
    pub fn receive(&mut self, tail: &mut dyn Tail) -> Result<Result<(), Status>, TailError> {
        while tail.remaining() > 0 {
            if let Err(status) = self.receive_some(tail)? {
                return Ok(Err(status));
            }
        }
        Ok(Ok(()))
    }

    fn receive_some(&mut self, tail: &mut dyn Tail) -> Result<Result<(), Status>, TailError> {
        let Some(band) = self.bands.front_mut() else { return Ok(Err(cl::CL_OUT_OF_RESOURCES)) };
        let (piece, size, there) = match self.current.take() {
            Some(current) => current,
            None => {
                let Some((piece, size)) = self.pieces.next() else { return Ok(Err(cl::CL_INVALID_VALUE)) };
                if let Err(status) = band.settle() {
                    return Ok(Err(status));
                }
                band.bytes.resize(size, 0);
                (piece, size, 0)
            }
        };
        let len = tail.remaining().min(size - there);
        tail.read_exact(&mut band.bytes[there..there + len])?;
        if there + len < size {
            self.current = Some((piece, size, there + len));
            return Ok(Ok(()));
        }
        // SAFETY: the band's memory is neither moved nor touched before `settle` has seen the copy's event end.
        let copy =
            unsafe { self.queue.write_image(&self.image, &piece, (band.bytes.as_ptr(), size), &Waits::none(), true) };
        match copy {
            Ok(copy) => band.copy = copy,
            Err(status) => return Ok(Err(status)),
        }
        self.bands.rotate_left(1);
        Ok(self.queue.flush())
    }

    /// Waits until all received bytes are in the image.
    ///
    /// # Errors
    /// The status of the first copy that failed.
    pub fn settle(&mut self) -> Result<(), Status> {
        self.bands.iter_mut().map(Band::settle).fold(Ok(()), Result::and)
    }
}

/// Reads part of an image, ahead of whoever takes the bytes.
pub struct ImageReader {
    queue: Arc<Queue>,
    image: Arc<Memory>,
    pieces: Pieces,
    /// Those under way, in order.
    bands: VecDeque<Band>,
    /// The band whose bytes were given out last.
    given: Band,
}

impl ImageReader {
    /// Reads over `queue` the packed bytes of `part`.
    ///
    /// # Errors
    /// CL_INVALID_VALUE if it is none of the image.
    pub fn new(queue: &Arc<Queue>, image: &Arc<Memory>, part: ImagePart) -> Result<Self, Status> {
        Ok(Self {
            queue: queue.clone(),
            image: image.clone(),
            pieces: pieces(image, part)?,
            bands: VecDeque::new(),
            given: Band::default(),
        })
    }

    /// The next bytes, once they are there; `None` after the last ones.
    ///
    /// # Errors
    /// The status of the native call that failed.
    pub fn next(&mut self) -> Result<Option<&[u8]>, Status> {
        let mut spare = std::mem::take(&mut self.given);
        while self.bands.len() < BANDS
            && let Some((piece, size)) = self.pieces.next()
        {
            let mut band = std::mem::take(&mut spare);
            band.bytes.resize(size, 0);
            // SAFETY: the band's memory is neither moved nor touched before `settle` has seen the copy's event end.
            let copy =
                unsafe { self.queue.read_image(&self.image, &piece, (band.bytes.as_mut_ptr(), size), &Waits::none()) }?;
            band.copy = Some(copy);
            self.bands.push_back(band);
            self.queue.flush()?;
        }
        let Some(mut band) = self.bands.pop_front() else { return Ok(None) };
        band.settle()?;
        self.given = band;
        Ok(Some(&self.given.bytes))
    }
}
