//! Programs.

mod build;

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock};

use ropeway_abi::{CL_INVALID_VALUE, CL_OUT_OF_RESOURCES};
use ropeway_protocol::content::ContentHash;
use ropeway_protocol::ids::{ProgramId, TransferId};
use ropeway_protocol::limits::{CHUNK, MAX_CONTENT};
use ropeway_protocol::messages::{
    CreateProgramWithBinary, CreateProgramWithBuiltInKernels, CreateProgramWithIl, CreateProgramWithSource,
    ProgramBinary, ProgramBinarySize, PutContent, ReleaseProgram, SetSpecializationConstant,
};
use ropeway_protocol::types::{BinaryFor, BinaryReply, BuildReply, DeviceBuild};

pub use build::{Build, Pending, Step};

use crate::connection::{Connection, Incoming, Ticket, lock, run_later};
use crate::context::Context;
use crate::host::{HostTarget, addresses};
use crate::system::Device;
use crate::{Result, Status};

/// A program.
pub struct Program {
    /// What the server has of it.
    sent: Mutex<Sent>,
    context: Arc<Context>,
    devices: Vec<Arc<Device>>,
    origin: Origin,
    state: Mutex<State>,
    /// Told whenever a build ends.
    ended: Condvar,
    kernels: AtomicUsize,
    /// Whether the server has made it: a link makes its program.
    made: AtomicBool,
    on_release: Mutex<Vec<Box<dyn FnOnce() + Send>>>,
    /// What is said of the binaries that it was made of, for each of its devices.
    loaded: OnceLock<Vec<DeviceBuild>>,
}

/// What came of making a program of contents.
struct Loaded {
    status: Status,
    /// The status of each of the contents.
    each: Vec<Status>,
    devices: Vec<DeviceBuild>,
}

/// What a program was made of.
#[derive(Clone, Debug)]
pub enum Origin {
    /// Source text.
    Source(Arc<[u8]>),
    /// Intermediate language.
    Il(Arc<[u8]>),
    /// A binary for each device, in the order of the program's devices.
    Binaries(Vec<Arc<[u8]>>),
    /// Kernels that the devices have built in.
    BuiltInKernels,
    /// Compiled programs.
    Programs,
}

/// A program as the server knows it.
#[derive(Clone)]
struct Sent {
    id: ProgramId,
    /// The text that is compiled: the source with all that it includes. `None` for a program that is not made of source.
    text: Option<Arc<[u8]>>,
}

/// What is becoming of a program.
#[derive(Default)]
struct State {
    /// What came of the builds so far.
    build: Option<Arc<Build>>,
    /// The devices that it is being built for.
    building: Option<Vec<Arc<Device>>>,
    /// Options of the last build, whatever came of it.
    options: String,
}

impl std::fmt::Debug for Program {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.id())
    }
}

impl Program {
    /// Makes a program of source text. Only its hash travels now.
    ///
    /// # Errors
    /// [`crate::SERVER_LOST`].
    pub fn with_source(context: &Arc<Context>, source: Vec<u8>) -> Result<Arc<Self>> {
        let source = Arc::<[u8]>::from(source);
        let sent = Sent::create(context, Arc::clone(&source))?;
        Ok(Self::new(sent, context, context.devices().to_vec(), Origin::Source(source)))
    }

    /// Makes a program of binaries, one for each device given. The second result is each binary's status (CL_SUCCESS or
    /// CL_INVALID_BINARY), in the same order.
    pub fn with_binaries(
        context: &Arc<Context>,
        binaries: &[(Arc<Device>, &[u8])],
    ) -> (Result<Arc<Self>>, Vec<Status>) {
        let connection = context.connection();
        let id = ProgramId(connection.new_id());
        // Copied first: a transfer that is under way may be writing to the application's memory.
        let kept: Vec<Arc<[u8]>> = binaries.iter().map(|(_, binary)| Arc::from(*binary)).collect();
        let contents: Vec<_> = kept.iter().map(|binary| (ContentHash::of(binary), &**binary)).collect();
        let named = binaries.iter().zip(&contents).map(|((device, binary), (hash, _))| BinaryFor {
            device: device.index(),
            hash: *hash,
            len: binary.len() as u64,
        });
        let create = CreateProgramWithBinary { program: id, context: context.id(), binaries: named.collect() };
        match connection.load(&contents, || connection.call(&create)) {
            Err(status) => (Err(status), vec![0; binaries.len()]),
            Ok(Loaded { status: 0, each, devices: loaded }) => {
                let devices = binaries.iter().map(|(device, _)| Arc::clone(device)).collect();
                let origin = Origin::Binaries(kept);
                let program = Self::new(Sent { id, text: None }, context, devices, origin);
                // It was made just now, so this is the first time.
                let _ = program.loaded.set(loaded);
                (Ok(program), each)
            }
            Ok(Loaded { status, each, .. }) => {
                // What came to nothing still has its name there.
                let _ = connection.post(&ReleaseProgram { program: id });
                (Err(status), each)
            }
        }
    }

    /// Makes a program of intermediate language (clCreateProgramWithIL).
    ///
    /// # Errors
    /// What the native call returned, [`crate::SERVER_LOST`].
    pub fn with_il(context: &Arc<Context>, il: Vec<u8>) -> Result<Arc<Self>> {
        let connection = context.connection();
        let id = ProgramId(connection.new_id());
        let hash = ContentHash::of(&il);
        let create = CreateProgramWithIl { program: id, context: context.id(), il: hash };
        let Loaded { status, .. } = connection.load(&[(hash, &il)], || connection.call(&create))?;
        let program =
            Self::new(Sent { id, text: None }, context, context.devices().to_vec(), Origin::Il(Arc::from(il)));
        if status == 0 { Ok(program) } else { Err(status) }
    }

    /// Makes a program of kernels that `devices` have built in; `names` has semicolons between them.
    ///
    /// # Errors
    /// What the native call returned, [`crate::SERVER_LOST`].
    pub fn with_built_in_kernels(context: &Arc<Context>, devices: &[Arc<Device>], names: &str) -> Result<Arc<Self>> {
        let connection = context.connection();
        let program = ProgramId(connection.new_id());
        let create =
            CreateProgramWithBuiltInKernels { program, context: context.id(), devices: indices(devices), names };
        let answer = connection.call(&create);
        let sent = Sent { id: program, text: None };
        let program = Self::new(sent, context, devices.to_vec(), Origin::BuiltInKernels);
        if let BuildReply::Built(built) = answer? {
            // Some implementations want it built, and others do not.
            let build = Build::new(devices.to_vec(), built);
            lock(&program.state).build = Some(Arc::new(build)).filter(|build| build.is_executable());
        }
        Ok(program)
    }

    fn new(sent: Sent, context: &Arc<Context>, devices: Vec<Arc<Device>>, origin: Origin) -> Arc<Self> {
        Arc::new(Self {
            sent: Mutex::new(sent),
            context: Arc::clone(context),
            devices,
            made: AtomicBool::new(!matches!(origin, Origin::Programs)),
            origin,
            state: Mutex::default(),
            ended: Condvar::new(),
            kernels: AtomicUsize::new(0),
            on_release: Mutex::default(),
            loaded: OnceLock::new(),
        })
    }

    /// Its context.
    pub fn context(&self) -> &Arc<Context> {
        &self.context
    }

    /// CL_PROGRAM_DEVICES.
    pub fn devices(&self) -> &[Arc<Device>] {
        &self.devices
    }

    /// What it was made of.
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// CL_PROGRAM_SOURCE without the final NUL; empty for a program that was not made of source.
    pub fn source(&self) -> &[u8] {
        match &self.origin {
            Origin::Source(source) => source,
            _ => &[],
        }
    }

    /// The binary that it was made with for this device.
    fn given_binary(&self, device: &Arc<Device>) -> Option<&[u8]> {
        let Origin::Binaries(binaries) = &self.origin else { return None };
        let at = self.devices.iter().position(|one| Arc::ptr_eq(one, device))?;
        binaries.get(at).map(|binary| &**binary)
    }

    /// Kernels that are attached to it: while there are any it cannot be built again.
    pub fn attached_kernels(&self) -> usize {
        self.kernels.load(Ordering::Acquire)
    }

    pub(crate) fn attach_kernel(&self) {
        self.kernels.fetch_add(1, Ordering::AcqRel);
    }

    pub(crate) fn detach_kernel(&self) {
        self.kernels.fetch_sub(1, Ordering::AcqRel);
    }

    /// The server's name for it; another one after a build that changed what the source includes.
    pub(crate) fn id(&self) -> ProgramId {
        lock(&self.sent).id
    }

    fn connection(&self) -> &Arc<Connection> {
        self.context.connection()
    }

    /// Sets a specialization constant (clSetProgramSpecializationConstant).
    ///
    /// # Errors
    /// What the native call returned, [`crate::SERVER_LOST`].
    pub fn set_specialization_constant(&self, id: u32, value: &[u8]) -> Result<()> {
        self.connection().call(&SetSpecializationConstant { program: self.id(), id, value })
    }

    /// Calls `callback` when the program is no more; the last one registered comes first (clSetProgramReleaseCallback).
    pub fn on_release(&self, callback: Box<dyn FnOnce() + Send>) {
        lock(&self.on_release).push(callback);
    }

    /// Bytes of [`Self::binary`]: what was built, else what was given, else 0.
    ///
    /// # Errors
    /// [`crate::SERVER_LOST`].
    pub fn binary_size(&self, device: &Arc<Device>) -> Result<usize> {
        match self.build_state().filter(|build| build.for_device(device).is_some()) {
            None => Ok(self.given_binary(device).map_or(0, <[u8]>::len)),
            // Not told with the build: some implementations compile for it.
            Some(build) => build.binary_size(device, || {
                let ask = ProgramBinarySize { program: self.id(), device: device.index() };
                usize::try_from(self.connection().call(&ask)?).map_err(|_| CL_OUT_OF_RESOURCES)
            }),
        }
    }

    /// The binary for a device that it is built for, or was made with; empty where there is none.
    ///
    /// # Errors
    /// What the native calls returned, [`crate::SERVER_LOST`].
    pub fn binary(&self, device: &Arc<Device>) -> Result<Vec<u8>> {
        if self.build_state().is_none_or(|build| build.for_device(device).is_none()) {
            return Ok(self.given_binary(device).unwrap_or_default().to_vec());
        }
        let size = self.binary_size(device)?;
        // It is memory that is taken on the server's word.
        if size > MAX_CONTENT {
            return Err(CL_OUT_OF_RESOURCES);
        }
        if size == 0 {
            return Ok(Vec::new());
        }
        let connection = self.connection();
        let bytes = Arc::new(Mutex::new(vec![0; size]));
        let id = TransferId(connection.new_id());
        let ticket = Ticket::new(None, None);
        connection.expect_incoming(
            id,
            Incoming::new(Box::new(Collected(Arc::clone(&bytes), vec![0; size])), Arc::clone(&ticket)),
        );
        let asked = connection.call(&ProgramBinary { program: self.id(), device: device.index(), transfer: id });
        match asked {
            Ok(length) if length == size as u64 => {}
            // It has become another one since it was asked how long it is.
            Ok(_) => connection.transfer_failed(id, CL_INVALID_VALUE),
            Err(status) => connection.transfer_failed(id, status),
        }
        match connection.wait(|| ticket.ended())? {
            0 => Ok(std::mem::take(&mut lock(&bytes))),
            status => Err(status),
        }
    }
}

/// The names that messages have for devices.
fn indices(devices: &[Arc<Device>]) -> Vec<u32> {
    devices.iter().map(|device| device.index()).collect()
}

impl Sent {
    /// Makes a program of `text` at the server.
    fn create(context: &Arc<Context>, text: Arc<[u8]>) -> Result<Self> {
        let id = ProgramId(context.connection().new_id());
        let source = ContentHash::of(&text);
        context.connection().post(&CreateProgramWithSource { program: id, context: context.id(), source })?;
        Ok(Self { id, text: Some(text) })
    }
}

/// Memory that is handed over when the transfer into it is over.
struct Collected(Arc<Mutex<Vec<u8>>>, Vec<u8>);

impl HostTarget for Collected {
    fn size(&self) -> usize {
        self.1.len()
    }

    fn span(&self) -> std::ops::Range<usize> {
        addresses(&self.1)
    }

    fn run(&mut self, at: usize) -> &mut [u8] {
        self.1.get_mut(at..).unwrap_or_default()
    }
}

impl Drop for Collected {
    fn drop(&mut self) {
        *lock(&self.0) = std::mem::take(&mut self.1);
    }
}

impl Connection {
    /// Has the server make something of contents, which are sent where it lacks them; its status, and that of each.
    fn load(&self, contents: &[(ContentHash, &[u8])], ask: impl Fn() -> Result<BinaryReply>) -> Result<Loaded> {
        for _ in 0..2 {
            match ask()? {
                BinaryReply::Loaded { status, each, devices } => return Ok(Loaded { status, each, devices }),
                BinaryReply::NeedContent(hashes) => {
                    let hashes: HashSet<_> = hashes.into_iter().collect();
                    for (hash, content) in contents.iter().filter(|(hash, _)| hashes.contains(hash)) {
                        self.put_content(*hash, content)?;
                    }
                }
            }
        }
        crate::error!("the server {} lost a program while it was sent; try again", self.endpoint());
        Err(CL_OUT_OF_RESOURCES)
    }

    /// Gives the server a source or binary that it asked for.
    fn put_content(&self, hash: ContentHash, content: &[u8]) -> Result<()> {
        let total = content.len() as u64;
        // An empty content still takes one message.
        let mut offset = 0;
        loop {
            let chunk = &content[offset..content.len().min(offset + CHUNK)];
            self.post_with_tail(&PutContent { hash, total, offset: offset as u64 }, chunk)?;
            offset += chunk.len();
            if offset == content.len() {
                return Ok(());
            }
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        if self.made.load(Ordering::Acquire) {
            // A lost server has dropped it already.
            let _ = self.connection().post(&ReleaseProgram { program: self.id() });
        }
        for callback in std::mem::take(&mut *lock(&self.on_release)).into_iter().rev() {
            run_later(callback);
        }
    }
}

/// Runs a callback of the application's, on the thread that all of them run on, after those that are due.
pub fn notify(callback: impl FnOnce() + Send + 'static) {
    run_later(callback);
}
