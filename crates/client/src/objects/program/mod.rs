//! Programs.

mod build;
mod includes;
mod macros;

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
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

use crate::base::callbacks::run_later;
use crate::base::host::{HostTarget, addresses};
use crate::base::ids::new_id;
use crate::base::status::{Result, Status};
use crate::base::sync::lock;
use crate::link::connection::Connection;
use crate::link::transfers::{Incoming, Ticket};
use crate::objects::context::Context;
use crate::objects::device::Device;
use crate::objects::home::{CreatedIn, Home, in_each};

/// A program.
pub struct Program {
    /// How much of the program has been sent to the server.
    sent: Mutex<Sent>,
    context: Arc<Context>,
    devices: Vec<Arc<Device>>,
    origin: Origin,
    state: Mutex<State>,
    /// Told whenever a build ends.
    ended: Condvar,
    kernels: AtomicUsize,
    /// The homes that have it: a link makes its program.
    made: CreatedIn,
    on_release: Mutex<Vec<Box<dyn FnOnce() + Send>>>,
    /// The build information of the binaries that the program was created from, device by device.
    loaded: OnceLock<Vec<DeviceBuild>>,
}

/// The outcome of creating a program from contents.
struct Loaded {
    status: Status,
    /// The status of each of the contents.
    each: Vec<Status>,
    devices: Vec<DeviceBuild>,
}

/// The origin of a program: source, binaries, IL, built-in kernels or other programs.
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
    name: u64,
    /// The text that is compiled: the source with all that it includes. `None` for a program that is not made of
    /// source.
    text: Option<Arc<[u8]>>,
}

/// The build state of a program.
#[derive(Default)]
struct State {
    /// The outcome of the builds so far.
    build: Option<Arc<Build>>,
    /// The devices that it is being built for.
    building: Option<Vec<Arc<Device>>>,
    /// Options of the last build, whatever came of it.
    options: String,
}

impl std::fmt::Debug for Program {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", ProgramId(lock(&self.sent).name))
    }
}

impl Program {
    /// Makes a program of source text. Only its hash travels now.
    ///
    /// # Errors
    /// [`crate::SERVER_LOST`].
    pub fn with_source(context: &Arc<Context>, source: Vec<u8>) -> Result<Arc<Self>> {
        let source = Arc::<[u8]>::from(source);
        let program = Self::new(context, context.devices().to_vec(), Origin::Source(Arc::clone(&source)));
        *lock(&program.sent) = program.create(source)?;
        Ok(program)
    }

    /// Makes a program of binaries, one for each device given. The second result is each binary's status (CL_SUCCESS or
    /// CL_INVALID_BINARY), in the same order.
    pub fn with_binaries(
        context: &Arc<Context>,
        binaries: &[(Arc<Device>, &[u8])],
    ) -> (Result<Arc<Self>>, Vec<Status>) {
        // Copied first: a transfer that is under way may be writing to the application's memory.
        let kept: Vec<Arc<[u8]>> = binaries.iter().map(|(_, binary)| Arc::from(*binary)).collect();
        let devices: Vec<_> = binaries.iter().map(|(device, _)| Arc::clone(device)).collect();
        let program = Self::new(context, devices, Origin::Binaries(kept.clone()));
        let answers = program.load(|home, places| {
            let contents: Vec<_> = places.iter().map(|&at| (ContentHash::of(&kept[at]), &*kept[at])).collect();
            let named = places.iter().zip(&contents).map(|(&at, (hash, content))| BinaryFor {
                device: program.devices[at].index(),
                hash: *hash,
                len: content.len() as u64,
            });
            let (program, context, binaries) = (program.id(home), home.context(), named.collect());
            let create = CreateProgramWithBinary { program, context, binaries };
            home.connection().load(&contents, || home.connection().call(&create))
        });
        let mut each = vec![0; binaries.len()];
        let mut loaded = vec![DeviceBuild::default(); binaries.len()];
        let mut outcome = Ok(());
        for (places, answer) in answers {
            match answer {
                Ok(answer) => {
                    for ((&at, status), device) in places.iter().zip(&answer.each).zip(padded(answer.devices)) {
                        (each[at], loaded[at]) = (*status, device);
                    }
                    outcome = outcome.and(if answer.status == 0 { Ok(()) } else { Err(answer.status) });
                }
                Err(status) => outcome = outcome.and(Err(status)),
            }
        }
        // It was made just now, so this is the first time.
        let _ = program.loaded.set(loaded);
        (outcome.map(|()| program), each)
    }

    /// Makes a program of intermediate language (clCreateProgramWithIL).
    ///
    /// # Errors
    /// The status of the native call, or [`crate::SERVER_LOST`].
    pub fn with_il(context: &Arc<Context>, il: Vec<u8>) -> Result<Arc<Self>> {
        let il = Arc::<[u8]>::from(il);
        let hash = ContentHash::of(&il);
        let program = Self::new(context, context.devices().to_vec(), Origin::Il(Arc::clone(&il)));
        let answers = program.load(|home, _| {
            let create = CreateProgramWithIl { program: program.id(home), context: home.context(), il: hash };
            home.connection().load(&[(hash, &il)], || home.connection().call(&create))
        });
        for (_, answer) in answers {
            let status = answer?.status;
            if status != 0 {
                return Err(status);
            }
        }
        Ok(program)
    }

    /// Makes a program of kernels that `devices` have built in; `names` has semicolons between them.
    ///
    /// # Errors
    /// The status of the native call, or [`crate::SERVER_LOST`].
    pub fn with_built_in_kernels(context: &Arc<Context>, devices: &[Arc<Device>], names: &str) -> Result<Arc<Self>> {
        let program = Self::new(context, devices.to_vec(), Origin::BuiltInKernels);
        let answers = program.load(|home, places| {
            let devices = places.iter().map(|&at| program.devices[at].index()).collect();
            // Whatever comes of it has its name there.
            program.made.ensure(home, || Ok(()))?;
            let (program, context) = (program.id(home), home.context());
            home.connection().call(&CreateProgramWithBuiltInKernels { program, context, devices, names })
        });
        let mut builds = Vec::new();
        for (places, answer) in answers {
            if let BuildReply::Built(built) = answer? {
                let devices = places.iter().map(|&at| Arc::clone(&program.devices[at])).collect();
                builds.push(Build::new(devices, built));
            }
        }
        // Some implementations want it built, and others do not.
        lock(&program.state).build = Build::merged(builds).filter(Build::is_executable).map(Arc::new);
        Ok(program)
    }

    /// Has the program made in the homes of its devices, all at once, by `make`, which gets the home's devices as
    /// places among the program's. What came of it in each.
    fn load<R: Send>(&self, make: impl Fn(&Home, &[usize]) -> Result<R> + Sync) -> Vec<(Vec<usize>, Result<R>)> {
        let homes = self.homes_of(&self.devices);
        let answers = in_each(homes.iter().map(|(home, _)| *home).collect::<Vec<_>>(), |home| {
            let places = homes.iter().find(|(one, _)| one.number() == home.number()).map(|(_, places)| &places[..]);
            let answer = make(home, places.unwrap_or_default());
            // The server keeps the name even where the native call has failed.
            answer.and_then(|answer| self.made.ensure(home, || Ok(())).map(|()| answer))
        });
        homes.into_iter().map(|(_, places)| places).zip(answers).collect()
    }

    /// The homes of these devices, and which of the devices are in each.
    fn homes_of(&self, devices: &[Arc<Device>]) -> Vec<(&Home, Vec<usize>)> {
        let mut homes: Vec<(&Home, Vec<usize>)> = Vec::new();
        for (at, device) in devices.iter().enumerate() {
            let Ok(home) = self.context.home_of(device) else { continue };
            match homes.iter_mut().find(|(one, _)| one.number() == home.number()) {
                Some((_, places)) => places.push(at),
                None => homes.push((home, vec![at])),
            }
        }
        homes
    }

    /// A program that is nowhere made yet.
    fn new(context: &Arc<Context>, devices: Vec<Arc<Device>>, origin: Origin) -> Arc<Self> {
        Arc::new(Self {
            sent: Mutex::new(Sent { name: new_id(), text: None }),
            context: Arc::clone(context),
            devices,
            made: CreatedIn::default(),
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

    /// The program's origin.
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

    /// The number of kernels attached to the program: while there are any, it cannot be built again.
    pub fn attached_kernels(&self) -> usize {
        self.kernels.load(Ordering::Acquire)
    }

    pub(crate) fn attach_kernel(&self) {
        self.kernels.fetch_add(1, Ordering::AcqRel);
    }

    pub(crate) fn detach_kernel(&self) {
        self.kernels.fetch_sub(1, Ordering::AcqRel);
    }

    /// The program's name in a home; a build that changed what the source includes gives it another name.
    pub(crate) fn id(&self, home: &Home) -> ProgramId {
        ProgramId(home.name(lock(&self.sent).name))
    }

    /// Whether it has been made in a home: in one that has none of its devices it has not.
    pub(crate) fn is_in(&self, home: &Home) -> bool {
        self.made.is_in(home)
    }

    /// Has a program of `text` made in all homes.
    fn create(&self, text: Arc<[u8]>) -> Result<Sent> {
        let (name, source) = (new_id(), ContentHash::of(&text));
        let created = self.context.homes().iter().map(|home| {
            let (program, context) = (ProgramId(home.name(name)), home.context());
            home.connection().post(&CreateProgramWithSource { program, context, source })?;
            self.made.ensure(home, || Ok(()))
        });
        // A lost server is reported by the build.
        created.reduce(Result::or).unwrap_or(Ok(()))?;
        Ok(Sent { name, text: Some(text) })
    }

    /// Sets a specialization constant (clSetProgramSpecializationConstant).
    ///
    /// # Errors
    /// The status of the native call, or [`crate::SERVER_LOST`].
    pub fn set_specialization_constant(&self, id: u32, value: &[u8]) -> Result<()> {
        let set = in_each(self.made.among(self.context.homes()), |home| {
            home.connection().call(&SetSpecializationConstant { program: self.id(home), id, value })
        });
        set.into_iter().collect()
    }

    /// Calls `callback` when the program is no more; the last one registered comes first (clSetProgramReleaseCallback).
    pub fn on_release(&self, callback: Box<dyn FnOnce() + Send>) {
        lock(&self.on_release).push(callback);
    }

    /// The size of [`Self::binary`] in bytes: the built binary, else the given one, else 0.
    ///
    /// # Errors
    /// [`crate::SERVER_LOST`].
    pub fn binary_size(&self, device: &Arc<Device>) -> Result<usize> {
        match self.build_state().filter(|build| build.for_device(device).is_some()) {
            None => Ok(self.given_binary(device).map_or(0, <[u8]>::len)),
            // Not told with the build: some implementations compile for it.
            Some(build) => build.binary_size(device, || {
                let home = self.context.home_of(device)?;
                let ask = ProgramBinarySize { program: self.id(home), device: device.index() };
                usize::try_from(home.connection().call(&ask)?).map_err(|_| CL_OUT_OF_RESOURCES)
            }),
        }
    }

    /// The binary for a device that the program was built for or created with; empty if there is none.
    ///
    /// # Errors
    /// The status of the native call that failed, or [`crate::SERVER_LOST`].
    pub fn binary(&self, device: &Arc<Device>) -> Result<Vec<u8>> {
        if self.build_state().is_none_or(|build| build.for_device(device).is_none()) {
            return Ok(self.given_binary(device).unwrap_or_default().to_vec());
        }
        let size = self.binary_size(device)?;
        // The allocation's size is the server's claim, so it is bounded.
        if size > MAX_CONTENT {
            return Err(CL_OUT_OF_RESOURCES);
        }
        if size == 0 {
            return Ok(Vec::new());
        }
        let home = self.context.home_of(device)?;
        let connection = home.connection();
        let bytes = Arc::new(Mutex::new(vec![0; size]));
        let id = TransferId(new_id());
        let ticket = Ticket::new(None, None);
        connection.expect_incoming(
            id,
            Incoming::new(Box::new(Collected(Arc::clone(&bytes), vec![0; size])), Arc::clone(&ticket)),
        );
        let asked = connection.call(&ProgramBinary { program: self.id(home), device: device.index(), transfer: id });
        match asked {
            Ok(length) if length == size as u64 => {}
            // The binary has changed since its size was asked for.
            Ok(_) => connection.transfer_failed(id, CL_INVALID_VALUE),
            Err(status) => connection.transfer_failed(id, status),
        }
        match connection.wait(|| ticket.ended())? {
            0 => Ok(std::mem::take(&mut lock(&bytes))),
            status => Err(status),
        }
    }
}

/// The build information of each device, followed by an endless sequence of empty ones.
fn padded(devices: Vec<DeviceBuild>) -> impl Iterator<Item = DeviceBuild> {
    devices.into_iter().chain(std::iter::repeat_with(DeviceBuild::default))
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
        for home in self.made.among(self.context.homes()) {
            // A lost server has dropped it already.
            let _ = home.connection().post(&ReleaseProgram { program: self.id(home) });
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
