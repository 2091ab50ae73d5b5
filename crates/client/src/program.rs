//! Programs.

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use ropeway_abi::{
    CL_BUILD_SUCCESS, CL_INVALID_PROGRAM_EXECUTABLE, CL_OUT_OF_RESOURCES, CL_PROGRAM_BINARY_TYPE_COMPILED_OBJECT,
    CL_PROGRAM_BINARY_TYPE_LIBRARY,
};
use ropeway_protocol::content::ContentHash;
use ropeway_protocol::ids::{ProgramId, TransferId};
use ropeway_protocol::limits::CHUNK;
use ropeway_protocol::messages::{
    BuildProgram, CompileProgram, CreateProgramWithBinary, CreateProgramWithSource, LinkProgram, ProgramBinary,
    PutContent, ReleaseProgram,
};
use ropeway_protocol::types::{BinaryFor, BinaryReply, BuildReply, Built, DeviceBuild, KernelInfo};

use crate::connection::{Connection, Incoming, Ticket, lock};
use crate::context::Context;
use crate::host::{HostTarget, addresses};
use crate::includes;
use crate::system::Device;
use crate::{Result, Status};

/// A program.
pub struct Program {
    /// What the server has of it.
    sent: Mutex<Sent>,
    context: Arc<Context>,
    devices: Vec<Arc<Device>>,
    source: Option<Arc<[u8]>>,
    state: Mutex<Option<Arc<Build>>>,
    /// Options of the last build, whatever came of it.
    options: Mutex<String>,
    kernels: AtomicUsize,
}

/// A program as the server knows it.
#[derive(Clone)]
struct Sent {
    id: ProgramId,
    /// The text that is compiled: the source with all that it includes. `None` for a program of binaries.
    text: Option<Arc<[u8]>>,
}

/// What came of the last build.
#[derive(Debug)]
pub struct Build {
    devices: Vec<Arc<Device>>,
    built: Built,
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
        Ok(Self::new(sent, context, context.devices().to_vec(), Some(source)))
    }

    /// Makes a program of binaries, one for each device given. The second result is each binary's status (CL_SUCCESS or
    /// CL_INVALID_BINARY), in the same order.
    pub fn with_binaries(
        context: &Arc<Context>,
        binaries: &[(Arc<Device>, &[u8])],
    ) -> (Result<Arc<Self>>, Vec<Status>) {
        let connection = context.connection();
        let id = ProgramId(connection.new_id());
        let named: Vec<BinaryFor> = binaries
            .iter()
            .map(|(device, binary)| BinaryFor {
                device: device.index(),
                hash: ContentHash::of(binary),
                len: binary.len() as u64,
            })
            .collect();
        let none = vec![0; binaries.len()];
        let create = CreateProgramWithBinary { program: id, context: context.id(), binaries: named.clone() };
        for _ in 0..2 {
            match connection.call(&create) {
                Err(status) => return (Err(status), none),
                Ok(BinaryReply::Loaded { status, each }) => {
                    let devices = binaries.iter().map(|(device, _)| Arc::clone(device)).collect();
                    let program = if status == 0 {
                        Ok(Self::new(Sent { id, text: None }, context, devices, None))
                    } else {
                        Err(status)
                    };
                    return (program, each);
                }
                Ok(BinaryReply::NeedContent(hashes)) => {
                    let hashes: HashSet<_> = hashes.into_iter().collect();
                    for (named, (_, binary)) in named.iter().zip(binaries) {
                        if hashes.contains(&named.hash)
                            && let Err(status) = connection.put_content(named.hash, binary)
                        {
                            return (Err(status), none);
                        }
                    }
                }
            }
        }
        crate::error!("the server {} lost a program binary while it was sent; try again", connection.endpoint());
        (Err(CL_OUT_OF_RESOURCES), none)
    }

    fn new(sent: Sent, context: &Arc<Context>, devices: Vec<Arc<Device>>, source: Option<Arc<[u8]>>) -> Arc<Self> {
        Arc::new(Self {
            sent: Mutex::new(sent),
            context: Arc::clone(context),
            devices,
            source,
            state: Mutex::default(),
            options: Mutex::default(),
            kernels: AtomicUsize::new(0),
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

    /// CL_PROGRAM_SOURCE without the final NUL; empty for a program of binaries.
    pub fn source(&self) -> &[u8] {
        self.source.as_deref().unwrap_or_default()
    }

    /// Whether it was made of source text.
    pub fn has_source(&self) -> bool {
        self.source.is_some()
    }

    /// CL_PROGRAM_BUILD_OPTIONS of the last build.
    pub fn options(&self) -> String {
        lock(&self.options).clone()
    }

    /// What came of the last build, if there was one.
    pub fn build_state(&self) -> Option<Arc<Build>> {
        lock(&self.state).clone()
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

    /// Sees to it that the server compiles the source with all that it includes now, and with these options.
    fn include(&self, options: &str, headers: &[(String, Arc<Self>)]) -> Result<Sent> {
        let headers: Vec<_> = headers.iter().map(|(name, program)| (name.as_str(), program.source())).collect();
        let mut sent = lock(&self.sent);
        if let (Some(source), Some(text)) = (&self.source, &sent.text) {
            let wanted = includes::expand(source, options, &headers).map_or_else(|| Arc::clone(source), Arc::from);
            if wanted != *text {
                let before = std::mem::replace(&mut *sent, Sent::create(&self.context, wanted)?);
                self.connection().post(&ReleaseProgram { program: before.id })?;
            }
        }
        Ok(sent.clone())
    }

    fn connection(&self) -> &Arc<Connection> {
        self.context.connection()
    }

    /// Builds it for `devices` (clBuildProgram). Waits for the compiler; the source travels only to a server that does not
    /// know it.
    ///
    /// # Errors
    /// What the native build call returned (CL_BUILD_PROGRAM_FAILURE, CL_INVALID_BUILD_OPTIONS, ...), [`crate::SERVER_LOST`].
    pub fn build(&self, devices: &[Arc<Device>], options: &str) -> Result<()> {
        let indices = indices(devices);
        self.translate(devices, options, &[], |program| {
            self.connection().call(&BuildProgram { program, devices: indices.clone(), options })
        })
    }

    /// Compiles it for `devices`, to be linked later (clCompileProgram). `headers` are programs whose sources it may
    /// include, under these names.
    ///
    /// # Errors
    /// What the native call returned (CL_COMPILE_PROGRAM_FAILURE, CL_INVALID_COMPILER_OPTIONS, ...),
    /// [`crate::SERVER_LOST`].
    pub fn compile(&self, devices: &[Arc<Device>], options: &str, headers: &[(String, Arc<Self>)]) -> Result<()> {
        let indices = indices(devices);
        self.translate(devices, options, headers, |program| {
            self.connection().call(&CompileProgram { program, devices: indices.clone(), options })
        })
    }

    /// Makes a program of compiled ones (clLinkProgram). The second result is what the native call returned: a link that
    /// fails leaves a program with a log.
    ///
    /// # Errors
    /// What the native call returned where there is no program, [`crate::SERVER_LOST`].
    pub fn link(
        context: &Arc<Context>,
        devices: &[Arc<Device>],
        inputs: &[Arc<Self>],
        options: &str,
    ) -> Result<(Arc<Self>, Status)> {
        let connection = context.connection();
        let id = ProgramId(connection.new_id());
        let sent = Sent { id, text: None };
        let program = Self::new(sent, context, devices.to_vec(), None);
        options.clone_into(&mut lock(&program.options));
        let inputs = inputs.iter().map(|input| input.id()).collect();
        let link = LinkProgram { program: id, context: context.id(), devices: indices(devices), inputs, options };
        match connection.call(&link)? {
            BuildReply::Built(built) => {
                let status = built.status;
                *lock(&program.state) = Some(Arc::new(Build { devices: devices.to_vec(), built }));
                Ok((program, status))
            }
            BuildReply::NeedContent(_) => {
                crate::error!("the server {} asks for the source of a linked program", connection.endpoint());
                Err(CL_OUT_OF_RESOURCES)
            }
        }
    }

    /// Has the server translate the source in the way that `ask` asks for, giving it the source where it lacks it.
    fn translate(
        &self,
        devices: &[Arc<Device>],
        options: &str,
        headers: &[(String, Arc<Self>)],
        ask: impl Fn(ProgramId) -> Result<BuildReply>,
    ) -> Result<()> {
        options.clone_into(&mut lock(&self.options));
        *lock(&self.state) = None;
        let devices = devices.to_vec();
        let Sent { id, text } = self.include(options, headers)?;
        let text = text.as_deref().unwrap_or_default();
        for _ in 0..2 {
            match ask(id)? {
                BuildReply::Built(built) => {
                    let status = built.status;
                    *lock(&self.state) = Some(Arc::new(Build { devices, built }));
                    return if status == 0 { Ok(()) } else { Err(status) };
                }
                BuildReply::NeedContent(hashes) => {
                    for hash in hashes {
                        if hash == ContentHash::of(text) {
                            self.connection().put_content(hash, text)?;
                        }
                    }
                }
            }
        }
        crate::error!("the server {} lost a program source while it was sent; try again", self.connection().endpoint());
        Err(CL_OUT_OF_RESOURCES)
    }

    /// The binary for a device that it is built for, or was made with.
    ///
    /// # Errors
    /// CL_INVALID_PROGRAM_EXECUTABLE where there is none, [`crate::SERVER_LOST`].
    pub fn binary(&self, device: &Arc<Device>) -> Result<Vec<u8>> {
        let state = self.build_state().ok_or(CL_INVALID_PROGRAM_EXECUTABLE)?;
        let size = state.for_device(device).map_or(0, |d| d.binary_size) as usize;
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
        if let Err(status) = asked {
            connection.transfer_failed(id, status);
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

impl Build {
    /// The devices it was for.
    pub fn devices(&self) -> &[Arc<Device>] {
        &self.devices
    }

    /// What came of it on a device, if it was for that one.
    pub fn for_device(&self, device: &Arc<Device>) -> Option<&DeviceBuild> {
        let at = self.devices.iter().position(|d| Arc::ptr_eq(d, device))?;
        self.built.devices.get(at)
    }

    /// Whether some device has something to run.
    pub fn is_executable(&self) -> bool {
        // What was compiled only, or linked to a library, is still to be linked.
        let parts = [CL_PROGRAM_BINARY_TYPE_COMPILED_OBJECT, CL_PROGRAM_BINARY_TYPE_LIBRARY];
        self.built.devices.iter().any(|d| d.status == CL_BUILD_SUCCESS && !parts.contains(&d.binary_type))
    }

    /// The kernels, in the native order.
    pub fn kernels(&self) -> &[KernelInfo] {
        &self.built.kernels
    }
}

impl Connection {
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
        // A lost server has dropped it already.
        let _ = self.connection().post(&ReleaseProgram { program: self.id() });
    }
}
