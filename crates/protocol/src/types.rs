//! The types of the messages' fields.

use serde::de::{Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use smallvec::SmallVec;

use crate::content::ContentHash;
use crate::ids::{DeviceQueueId, EventId, MemoryId, QueueId, SamplerId};
use crate::image::ImagePart;
use crate::limits;

/// An OpenCL error code or event status: 0 is success (for an event, complete), less is an error.
pub type Status = i32;

/// A property as the native query returned it: the query's number, and the bytes or the error.
pub type Property = (u32, Result<Vec<u8>, Status>);

/// The events that a command waits for, or that a call is about. At most [`limits::MAX_WAITS`].
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
#[serde(transparent)]
pub struct EventList(#[serde(serialize_with = "as_slice")] pub SmallVec<[EventId; 4]>);

fn as_slice<S: serde::Serializer>(list: &SmallVec<[EventId; 4]>, serializer: S) -> Result<S::Ok, S::Error> {
    list.as_slice().serialize(serializer)
}

impl<'de> Deserialize<'de> for EventList {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Events;
        impl<'de> Visitor<'de> for Events {
            type Value = EventList;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a list of events")
            }

            // The list grows as elements arrive, whatever length was announced.
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<EventList, A::Error> {
                let mut list = SmallVec::new();
                while let Some(event) = seq.next_element()? {
                    if list.len() == limits::MAX_WAITS {
                        return Err(A::Error::custom("too many events"));
                    }
                    list.push(event);
                }
                Ok(EventList(list))
            }
        }
        deserializer.deserialize_seq(Events)
    }
}

impl FromIterator<EventId> for EventList {
    fn from_iter<I: IntoIterator<Item = EventId>>(events: I) -> Self {
        Self(events.into_iter().collect())
    }
}

/// The fields that every enqueued command has.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Command {
    /// The queue it is enqueued on.
    pub queue: QueueId,
    /// The name of its event, if the application wants one.
    pub event: Option<EventId>,
    /// The wait list.
    pub waits: EventList,
}

/// The index space of a kernel launch (OpenCL 3.0 API, section 5.8).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct NdRange {
    /// Dimensions in use, 1 to 3; further entries of the arrays are 0.
    pub dims: u8,
    /// Global work offset; `None` where the application gave none.
    pub offset: Option<[u64; 3]>,
    /// Global work size.
    pub global: [u64; 3],
    /// Local work size; `None` lets the implementation choose.
    pub local: Option<[u64; 3]>,
}

/// The value of a kernel argument.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum ArgValue<'a> {
    /// A value: as many bytes as the kernel's parameter has.
    #[serde(borrow)]
    Bytes(&'a [u8]),
    /// A memory object, or the null one.
    Memory(Option<MemoryId>),
    /// Local memory of this many bytes.
    Local(u64),
    /// An address in shared virtual memory, by its offset there, or the null pointer.
    Svm(Option<(MemoryId, u64)>),
    /// A sampler.
    Sampler(SamplerId),
    /// A queue on the device.
    Queue(DeviceQueueId),
}

/// Where a new buffer's first contents come from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum InitialContents {
    /// Nowhere: they are undefined.
    Undefined,
    /// The frame's tail, which is as long as the buffer.
    Tail,
    /// `TransferData` frames that follow, in order, with nothing of this buffer in between. Where `LocateBuffer` says that
    /// the buffer is in memory that both ends share, the client may copy them there instead, and `TransferCopied` follows.
    Transfer(crate::ids::TransferId),
}

/// A rectangular region of a buffer (OpenCL 3.0 API, section 5.2.3). Its bytes travel packed: row after row, slice
/// after slice.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct BufferRect {
    /// Where it begins: in bytes, rows and slices.
    pub origin: [u64; 3],
    /// Its extent: bytes in a row, rows, slices.
    pub region: [u64; 3],
    /// Bytes from one row to the next; never 0.
    pub row_pitch: u64,
    /// Bytes from one slice to the next; never 0.
    pub slice_pitch: u64,
}

impl BufferRect {
    /// Returns the offset of its first byte, and the number of bytes from there to the end of its last one. Returns
    /// `None` if a dimension of it is empty, a row or slice is longer than its pitch, a slice is not a whole number of
    /// rows, or numbers wrap around.
    pub fn bounds(&self) -> Option<(u64, u64)> {
        let ([x, y, z], [row, rows, slices]) = (self.origin, self.region);
        let fits = row <= self.row_pitch && rows.checked_mul(self.row_pitch)? <= self.slice_pitch;
        if !fits || row == 0 || rows == 0 || slices == 0 || !self.slice_pitch.is_multiple_of(self.row_pitch) {
            return None;
        }
        let at = |x: u64, y: u64, z: u64| {
            z.checked_mul(self.slice_pitch)?.checked_add(y.checked_mul(self.row_pitch)?)?.checked_add(x)
        };
        let first = at(x, y, z)?;
        let span = at(row, rows - 1, slices - 1)?;
        first.checked_add(span)?;
        Some((first, span))
    }

    /// Returns how many bytes it has, which is no more than it spans.
    pub fn size(&self) -> u64 {
        self.region.iter().fold(1, |size, n| size.saturating_mul(*n))
    }
}

/// Which part of a memory object moves from one session to another. Its bytes travel packed, range after range.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Moved {
    /// Ranges of a buffer: offset and size of each.
    Ranges(Vec<(u64, u64)>),
    /// Part of an image.
    Image(ImagePart),
}

/// One binary for [`crate::messages::CreateProgramWithBinary`].
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct BinaryFor {
    /// The device, by its index in its platform.
    pub device: u32,
    /// The binary's name in the program cache.
    pub hash: ContentHash,
    /// Its length in bytes.
    pub len: u64,
}

/// A command that has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct EventDone {
    /// Whose event.
    pub event: EventId,
    /// 0 for complete, less for an error.
    pub status: Status,
    /// When it was queued, submitted, started, ended and completed, in nanoseconds of the device's timer; `None` if the
    /// queue does not profile.
    pub times: Option<[u64; 5]>,
}

/// Commands that have ended since the server's last report, if the client still holds their events.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Completions {
    /// One entry for each such event.
    pub done: Vec<EventDone>,
}

/// The answer to [`crate::messages::Finish`] and [`crate::messages::WaitForEvents`].
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Waited {
    /// The status of the native call, or the first error of a command without an event since the last answer.
    pub status: Status,
    /// The commands that have ended by now.
    pub completions: Completions,
}

/// The answer to [`crate::messages::BuildProgram`].
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum BuildReply {
    /// The server does not hold these contents; send them with `PutContent` and ask again.
    NeedContent(Vec<ContentHash>),
    /// It was built, or not.
    Built(Built),
}

/// The answer to [`crate::messages::CreateSubDevices`].
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct SubDevices {
    /// How many devices the device is divided into.
    pub count: u32,
    /// The new devices; none where only their number was asked for.
    pub devices: Vec<SubDevice>,
}

/// A part of a device.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SubDevice {
    /// Its name in messages, beside the indices of its platform's devices.
    pub index: u32,
    /// clGetDeviceInfo.
    pub properties: Vec<Property>,
}

/// The outcome of a build.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Built {
    /// The status of the native build call.
    pub status: Status,
    /// For each device asked for, in that order.
    pub devices: Vec<DeviceBuild>,
    /// The kernels, in the native order; empty where nothing was built.
    pub kernels: Vec<KernelInfo>,
    /// CL_PROGRAM_SCOPE_GLOBAL_CTORS_PRESENT.
    pub has_constructors: bool,
    /// CL_PROGRAM_SCOPE_GLOBAL_DTORS_PRESENT.
    pub has_destructors: bool,
}

/// A build on one device (clGetProgramBuildInfo).
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct DeviceBuild {
    /// CL_PROGRAM_BUILD_STATUS.
    pub status: i32,
    /// CL_PROGRAM_BUILD_LOG, as the native implementation gave it (without the final NUL).
    pub log: String,
    /// CL_PROGRAM_BINARY_TYPE.
    pub binary_type: u32,
    /// CL_PROGRAM_BUILD_GLOBAL_VARIABLE_TOTAL_SIZE, in bytes.
    pub global_variables: u64,
}

/// All that can be asked about a kernel (clGetKernelInfo, clGetKernelArgInfo, clGetKernelWorkGroupInfo).
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct KernelInfo {
    /// CL_KERNEL_FUNCTION_NAME.
    pub name: String,
    /// CL_KERNEL_ATTRIBUTES.
    pub attributes: String,
    /// One entry for each argument.
    pub args: Vec<KernelArgInfo>,
    /// For each device the program is built for, in the order of the build.
    pub work_group: Vec<WorkGroupInfo>,
}

/// The kind of a kernel's argument, learned from the native implementation's own checks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub enum ArgKind {
    /// A value whose size is not known, because the native implementation takes any.
    #[default]
    Unknown,
    /// A value of this many bytes.
    Value(u32),
    /// A buffer, in global or constant memory.
    Buffer,
    /// Local memory.
    Local,
    /// A queue on the device.
    Queue,
    /// An image.
    Image,
    /// A sampler.
    Sampler,
    /// A pipe.
    Pipe,
    /// An argument for which the native implementation accepted no value.
    Other,
}

/// clGetKernelArgInfo of one argument.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct KernelArgInfo {
    /// The argument's kind.
    pub kind: ArgKind,
    /// The argument's declaration; `None` where the native implementation has no argument information.
    pub declared: Option<ArgDeclaration>,
}

/// CL_KERNEL_ARG_*: how an argument was declared.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ArgDeclaration {
    /// CL_KERNEL_ARG_ADDRESS_QUALIFIER.
    pub address: u32,
    /// CL_KERNEL_ARG_ACCESS_QUALIFIER.
    pub access: u32,
    /// CL_KERNEL_ARG_TYPE_QUALIFIER.
    pub type_qualifier: u64,
    /// CL_KERNEL_ARG_TYPE_NAME.
    pub type_name: String,
    /// CL_KERNEL_ARG_NAME.
    pub name: String,
}

/// clGetKernelWorkGroupInfo on one device.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct WorkGroupInfo {
    /// The device, by its index in its platform.
    pub device: u32,
    /// CL_KERNEL_WORK_GROUP_SIZE.
    pub work_group_size: u64,
    /// CL_KERNEL_COMPILE_WORK_GROUP_SIZE.
    pub compile_work_group_size: [u64; 3],
    /// CL_KERNEL_LOCAL_MEM_SIZE, in bytes, without the memory of local arguments.
    pub local_mem_size: u64,
    /// CL_KERNEL_PREFERRED_WORK_GROUP_SIZE_MULTIPLE.
    pub preferred_multiple: u64,
    /// CL_KERNEL_PRIVATE_MEM_SIZE, in bytes.
    pub private_mem_size: u64,
    /// CL_KERNEL_GLOBAL_WORK_SIZE, of kernels that are built in or on custom devices.
    pub global_work_size: Option<[u64; 3]>,
}

/// The answer to [`crate::messages::CreateProgramWithBinary`].
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum BinaryReply {
    /// The server does not hold these contents; send them with `PutContent` and ask again.
    NeedContent(Vec<ContentHash>),
    /// The program was made, or not.
    Loaded {
        /// The status of the native call.
        status: Status,
        /// CL_SUCCESS or CL_INVALID_BINARY for each binary.
        each: Vec<Status>,
        /// The answers of clGetProgramBuildInfo before a build, for the device of each binary.
        devices: Vec<DeviceBuild>,
    },
}

/// Which of the worker's two outputs something was printed on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum OutputStream {
    /// Standard output: what kernels print.
    Stdout,
    /// Standard error: what the native implementation complains about.
    Stderr,
}
