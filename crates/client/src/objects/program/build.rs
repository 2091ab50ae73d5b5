//! Builds, compilations and links: the requests to the server, and their outcome.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use ropeway_abi::{
    CL_BUILD_ERROR, CL_BUILD_SUCCESS, CL_DEVICE_VERSION, CL_INVALID_OPERATION, CL_OUT_OF_RESOURCES,
    CL_PROGRAM_BINARY_TYPE_COMPILED_OBJECT, CL_PROGRAM_BINARY_TYPE_LIBRARY, CL_PROGRAM_BINARY_TYPE_NONE, CL_SUCCESS,
};
use ropeway_protocol::content::ContentHash;
use ropeway_protocol::ids::ProgramId;
use ropeway_protocol::messages::{BuildProgram, CompileProgram, LinkProgram, ReleaseProgram};
use ropeway_protocol::types::{BuildReply, Built, DeviceBuild, KernelInfo, WorkGroupInfo};

use super::{Origin, Program, Sent, State};
use crate::base::status::{Result, SERVER_LOST, Status};
use crate::base::sync::lock;
use crate::link::replies::{PendingReplies, PendingReply};
use crate::objects::context::Context;
use crate::objects::device::Device;
use crate::objects::home::Home;
use crate::objects::program::includes;

/// The option that makes the implementation report how a kernel's arguments are declared.
const ARG_INFO: &str = "-cl-kernel-arg-info";

/// The outcome of a program's builds.
#[derive(Debug)]
pub struct Build {
    devices: Vec<Arc<Device>>,
    built: Built,
    /// Lengths of the binaries, as far as they were asked for, by the devices' places.
    binary_sizes: Mutex<HashMap<usize, usize>>,
}

/// How a program is translated.
#[derive(Clone, Debug)]
pub enum Step {
    /// Into an executable (clBuildProgram).
    Build,
    /// Into an object that can be linked (clCompileProgram). The programs' sources may be included under these names.
    Compile(Vec<(String, Arc<Program>)>),
    /// From compiled programs (clLinkProgram).
    Link(Vec<Arc<Program>>),
}

/// A build that is to be carried out. Until then the program counts as being built.
#[derive(Debug)]
pub struct Pending {
    program: Arc<Program>,
    devices: Vec<Arc<Device>>,
    /// How many of them, the first ones, the application named; 0 where it means all of the program's.
    named: usize,
    options: String,
    step: Step,
    /// The source with all that it includes, as it was when the application asked.
    text: Option<Arc<[u8]>>,
    /// What built-in kernels were before: they are executable, and stay so where the implementation does not build them.
    built_in: Option<Arc<Build>>,
    ended: bool,
}

/// A build in one home.
struct Attempt<'a> {
    home: &'a Home,
    /// The devices that the attempt is for, by their places.
    places: Vec<usize>,
    options: Cow<'a, str>,
    /// Whether the source has been sent.
    supplied: bool,
    outcome: Result<Built>,
}

impl Program {
    /// A program to be made of others by [`Step::Link`].
    pub fn to_link(context: &Arc<Context>, devices: &[Arc<Device>]) -> Arc<Self> {
        Self::new(context, devices.to_vec(), Origin::Programs)
    }

    /// CL_PROGRAM_BUILD_OPTIONS of the last build.
    pub fn options(&self) -> String {
        lock(&self.state).options.clone()
    }

    /// The outcome of the builds so far, if there were any. Does not wait for one that is under way.
    pub fn build_state(&self) -> Option<Arc<Build>> {
        lock(&self.state).build.clone()
    }

    /// As [`Self::build_state`], once no build is under way.
    pub fn finished_build(&self) -> Option<Arc<Build>> {
        let mut state = lock(&self.state);
        while state.building.is_some() {
            state = self.ended.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.build.clone()
    }

    /// The answers of clGetProgramBuildInfo for a device: those of its build, or of the binary that the program was
    /// created with.
    pub fn build_info(&self, device: &Arc<Device>) -> Option<DeviceBuild> {
        let built = self.build_state().and_then(|build| build.for_device(device).cloned());
        let at = || self.devices.iter().position(|one| Arc::ptr_eq(one, device));
        built.or_else(|| self.loaded.get()?.get(at()?).cloned())
    }

    /// Whether a build for any device is under way.
    pub fn is_building(&self) -> bool {
        lock(&self.state).building.is_some()
    }

    /// Whether a build for `device` is under way (CL_BUILD_IN_PROGRESS).
    pub fn is_building_for(&self, device: &Arc<Device>) -> bool {
        let state = lock(&self.state);
        state.building.as_ref().is_some_and(|devices| devices.iter().any(|one| Arc::ptr_eq(one, device)))
    }

    /// Registers a build for `devices` (`None`: all of the program's) that is about to be carried out by
    /// [`Pending::run`], on whatever thread. The files that the source includes are read now.
    ///
    /// # Errors
    /// CL_INVALID_OPERATION while another one is under way.
    pub fn begin(self: &Arc<Self>, devices: Option<Vec<Arc<Device>>>, options: String, step: Step) -> Result<Pending> {
        let named = devices.as_ref().map_or(0, Vec::len);
        let mut devices = devices.unwrap_or_else(|| self.devices.clone());
        // A build for a device also serves its sub-devices, as far as the implementation says so.
        let parts = self.devices.iter().filter(|device| device.is_part_of_any(&devices)).cloned().collect::<Vec<_>>();
        devices.extend(parts);
        let State { building, build, options: last } = &mut *lock(&self.state);
        if building.is_some() {
            return Err(CL_INVALID_OPERATION);
        }
        *building = Some(devices.clone());
        options.clone_into(last);
        let built_in = build.clone().filter(|_| matches!(self.origin, Origin::BuiltInKernels));
        // The earlier build for these devices is gone, whatever the outcome of this one.
        *build = build.take().and_then(|build| build.without(&devices)).map(Arc::new);
        let text = match (&self.origin, &step) {
            (Origin::Source(source), Step::Compile(headers)) => Some(expanded(source, &options, headers)),
            (Origin::Source(source), _) => Some(expanded(source, &options, &[])),
            _ => None,
        };
        Ok(Pending { program: Arc::clone(self), devices, named, options, step, text, built_in, ended: false })
    }

    /// Makes sure that the server compiles this text.
    fn send_text(&self, text: &Arc<[u8]>) -> Result<Sent> {
        let mut sent = lock(&self.sent);
        if sent.text.as_ref() != Some(text) {
            let before = std::mem::replace(&mut *sent, self.create(Arc::clone(text))?);
            for home in self.made.among(self.context.homes()) {
                // A lost server has dropped it already.
                let _ = home.connection().post(&ReleaseProgram { program: ProgramId(home.name(before.name)) });
            }
        }
        Ok(sent.clone())
    }
}

/// The source with all that it includes.
fn expanded(source: &Arc<[u8]>, options: &str, headers: &[(String, Arc<Program>)]) -> Arc<[u8]> {
    let headers: Vec<_> = headers.iter().map(|(name, program)| (name.as_str(), program.source())).collect();
    includes::expand(source, options, &headers).map_or_else(|| Arc::clone(source), Arc::from)
}

impl Pending {
    /// Carries out the build and waits for the compiler; the source travels only to a server that does not know it.
    /// Returns the status of the native call, if that left a program, with its log, behind.
    ///
    /// # Errors
    /// The status of the native call where that left no program behind, or [`crate::SERVER_LOST`].
    pub fn run(mut self) -> Result<Status> {
        let program = Arc::clone(&self.program);
        let sent = match &self.text {
            Some(text) => program.send_text(text)?,
            None => lock(&program.sent).clone(),
        };
        let attempts = self.run_in_all(&program, &sent);
        let (mut builds, mut statuses, several) = (Vec::new(), Vec::new(), attempts.len() > 1);
        for Attempt { home, places, outcome, .. } in attempts {
            let lost = outcome == Err(SERVER_LOST) && several && self.named == 0;
            let built = if lost { lost_build(home, places.len()) } else { outcome? };
            statuses.extend((!home.is_lost()).then_some(built.status));
            builds.push(Build::new(places.iter().map(|&at| Arc::clone(&self.devices[at])).collect(), built));
        }
        let status = statuses.iter().copied().find(|status| *status != 0);
        self.end(Build::merged(builds).ok_or(SERVER_LOST)?);
        if statuses.is_empty() { Err(SERVER_LOST) } else { Ok(status.unwrap_or(0)) }
    }

    /// Runs the build in all homes of its devices at once.
    fn run_in_all<'a>(&'a self, program: &'a Program, sent: &Sent) -> Vec<Attempt<'a>> {
        let attempt = |(home, places)| {
            let options = self.options_in(home);
            // The outcome until there is an answer.
            Attempt { home, places, options, supplied: false, outcome: Err(SERVER_LOST) }
        };
        let mut attempts: Vec<_> = program.homes_of(&self.devices).into_iter().map(attempt).collect();
        let mut answers = PendingReplies::default();
        for (at, attempt) in attempts.iter().enumerate() {
            answers.expect(at, self.ask(attempt, sent));
        }
        while let Some((at, answer)) = answers.next() {
            let attempt = &mut attempts[at];
            match self.judge(attempt, sent, answer) {
                Some(outcome) => attempt.outcome = outcome,
                None => answers.expect(at, self.ask(attempt, sent)),
            }
        }
        attempts
    }

    /// The outcome of an attempt, or `None` if it is to be made again.
    fn judge<'a>(
        &'a self,
        attempt: &mut Attempt<'a>,
        sent: &Sent,
        answer: Result<BuildReply>,
    ) -> Option<Result<Built>> {
        let connection = attempt.home.connection();
        match answer {
            Ok(BuildReply::NeedContent(hashes)) if !attempt.supplied => {
                attempt.supplied = true;
                let text = sent.text.as_deref().unwrap_or_default();
                let hash = ContentHash::of(text);
                let supplied = if hashes.contains(&hash) { connection.put_content(hash, text) } else { Ok(()) };
                supplied.err().map(Err)
            }
            Ok(BuildReply::NeedContent(_)) => {
                let server = connection.endpoint();
                crate::error!("the server {server} lost a program source while it was sent; try again");
                Some(Err(CL_OUT_OF_RESOURCES))
            }
            // NVIDIA 580 does not compile kernels without arguments when asked to report argument information; a
            // program that is wrong in any case fails once more.
            Ok(BuildReply::Built(built)) if built.status != CL_SUCCESS && matches!(attempt.options, Cow::Owned(_)) => {
                (attempt.options, attempt.supplied) = (Cow::Borrowed(self.options.as_str()), false);
                None
            }
            Ok(BuildReply::Built(built)) => Some(Ok(built)),
            Err(status) => Some(Err(status)),
        }
    }

    /// Returns the application's options. With several homes, also asks for the arguments' declarations: memory that a
    /// kernel only reads remains valid in other homes.
    fn options_in(&self, home: &Home) -> Cow<'_, str> {
        let is_compiled = self.text.is_some() && !matches!(self.step, Step::Link(_));
        let knows_option = |device: &Arc<Device>| {
            let version = device.property(CL_DEVICE_VERSION).and_then(std::result::Result::ok).unwrap_or_default();
            !version.starts_with(b"OpenCL 1.0") && !version.starts_with(b"OpenCL 1.1")
        };
        if self.program.context.spans_homes()
            && is_compiled
            && !self.options.contains(ARG_INFO)
            && home.devices().iter().all(knows_option)
        {
            return Cow::Owned(format!("{} {ARG_INFO}", self.options));
        }
        Cow::Borrowed(&self.options)
    }

    fn ask<'a>(&self, attempt: &Attempt<'a>, sent: &Sent) -> Result<PendingReply<'a, BuildReply>> {
        let Attempt { home, places, options, .. } = attempt;
        let (connection, program) = (home.connection(), ProgramId(home.name(sent.name)));
        let devices = places.iter().map(|&at| self.devices[at].index()).collect();
        let named = places.iter().filter(|&&at| at < self.named).count() as u32;
        match &self.step {
            Step::Build => connection.ask(&BuildProgram { program, devices, named, options }),
            Step::Compile(_) => connection.ask(&CompileProgram { program, devices, named, options }),
            Step::Link(inputs) => {
                // An input needs to have been compiled for every device.
                if !inputs.iter().all(|input| input.is_in(home)) {
                    return Err(CL_INVALID_OPERATION);
                }
                let inputs = inputs.iter().map(|input| input.id(home)).collect();
                // From here on the server has a program of this name.
                self.program.made.ensure(home, || Ok(()))?;
                connection.ask(&LinkProgram { program, context: home.context(), devices, named, inputs, options })
            }
        }
    }

    /// Records the outcome.
    fn end(&mut self, new: Build) {
        self.ended = true;
        let mut state = lock(&self.program.state);
        let new = match &state.build {
            Some(before) => new.beside(before),
            None => new,
        };
        let kept = self.built_in.take().filter(|_| new.built.status != CL_SUCCESS);
        state.build = Some(kept.unwrap_or_else(|| Arc::new(new)));
        state.building = None;
        drop(state);
        self.program.ended.notify_all();
    }
}

impl Drop for Pending {
    /// A build that was never carried out, or failed altogether, has failed on every device.
    fn drop(&mut self) {
        if !self.ended {
            let failed = failed_build(self.devices.len(), "");
            self.end(Build::new(self.devices.clone(), failed));
        }
    }
}

/// The build information of devices for which nothing was built.
fn failed_build(devices: usize, log: &str) -> Built {
    let failed = DeviceBuild {
        status: CL_BUILD_ERROR,
        binary_type: CL_PROGRAM_BINARY_TYPE_NONE,
        log: log.to_owned(),
        ..DeviceBuild::default()
    };
    Built { devices: vec![failed; devices], ..Built::default() }
}

/// The same for a home whose server is lost: the others' devices have a program all the same.
fn lost_build(home: &Home, devices: usize) -> Built {
    failed_build(devices, &format!("the server {} is lost\n", home.connection().endpoint()))
}

impl Build {
    pub(super) fn new(devices: Vec<Arc<Device>>, built: Built) -> Self {
        Self { devices, built, binary_sizes: Mutex::default() }
    }

    /// The outcomes of builds for different devices, put together; the kernels come in the order of the first.
    pub(super) fn merged(builds: Vec<Self>) -> Option<Self> {
        builds.into_iter().reduce(|mut all, one| {
            all.append(&one.devices, one.built);
            all
        })
    }

    /// The devices it was for.
    pub fn devices(&self) -> &[Arc<Device>] {
        &self.devices
    }

    fn position(&self, device: &Arc<Device>) -> Option<usize> {
        self.devices.iter().position(|one| Arc::ptr_eq(one, device))
    }

    /// The outcome on a device, if the build was for that one.
    pub fn for_device(&self, device: &Arc<Device>) -> Option<&DeviceBuild> {
        self.built.devices.get(self.position(device)?)
    }

    /// The length of the binary for a device, which `ask` finds out where it is not known.
    pub(super) fn binary_size(&self, device: &Arc<Device>, ask: impl FnOnce() -> Result<usize>) -> Result<usize> {
        let place = self.position(device).unwrap_or_default();
        if let Some(size) = lock(&self.binary_sizes).get(&place) {
            return Ok(*size);
        }
        let size = ask()?;
        lock(&self.binary_sizes).insert(place, size);
        Ok(size)
    }

    /// Whether some device has something to run.
    pub fn is_executable(&self) -> bool {
        // Compiled objects and libraries are still to be linked.
        let parts = [CL_PROGRAM_BINARY_TYPE_COMPILED_OBJECT, CL_PROGRAM_BINARY_TYPE_LIBRARY];
        self.built.devices.iter().any(|d| d.status == CL_BUILD_SUCCESS && !parts.contains(&d.binary_type))
    }

    /// The kernels, in the native order.
    pub fn kernels(&self) -> &[KernelInfo] {
        &self.built.kernels
    }

    /// The properties of a kernel on a device.
    pub fn work_group(&self, kernel: &KernelInfo, device: &Arc<Device>) -> Option<WorkGroupInfo> {
        kernel.work_group.get(self.position(device)?).copied()
    }

    /// CL_PROGRAM_SCOPE_GLOBAL_CTORS_PRESENT.
    pub fn has_constructors(&self) -> bool {
        self.built.has_constructors
    }

    /// CL_PROGRAM_SCOPE_GLOBAL_DTORS_PRESENT.
    pub fn has_destructors(&self) -> bool {
        self.built.has_destructors
    }

    /// The outcome for devices other than these, if there are any.
    fn without(&self, devices: &[Arc<Device>]) -> Option<Self> {
        let stays = |at: &usize| !devices.iter().any(|one| Arc::ptr_eq(one, &self.devices[*at]));
        let kept: Vec<usize> = (0..self.devices.len()).filter(stays).collect();
        if kept.is_empty() {
            return None;
        }
        let kernels = self.built.kernels.iter().map(|kernel| KernelInfo {
            work_group: kept.iter().map(|&at| kernel.work_group.get(at).copied().unwrap_or_default()).collect(),
            ..kernel.clone()
        });
        let built = Built {
            devices: kept.iter().map(|&at| self.built.devices.get(at).cloned().unwrap_or_default()).collect(),
            kernels: kernels.collect(),
            ..self.built
        };
        Some(Self::new(kept.iter().map(|&at| Arc::clone(&self.devices[at])).collect(), built))
    }

    /// Returns this outcome together with that of earlier builds for other devices.
    fn beside(mut self, before: &Self) -> Self {
        self.append(&before.devices, before.built.clone());
        self
    }

    /// Adds what was built for other devices.
    fn append(&mut self, devices: &[Arc<Device>], other: Built) {
        let (own, all) = (self.devices.len(), self.devices.len() + devices.len());
        let nothing = WorkGroupInfo::default;
        for (at, mut kernel) in other.kernels.into_iter().enumerate() {
            let kernels = &mut self.built.kernels;
            // Mostly they come in the same order.
            let is_it = |known: &KernelInfo| known.name == kernel.name;
            let known = if kernels.get(at).is_some_and(is_it) { Some(at) } else { kernels.iter().position(is_it) };
            if let Some(known) = known.and_then(|at| kernels.get_mut(at)) {
                known.work_group.resize(own, nothing());
                known.work_group.append(&mut kernel.work_group);
            } else {
                kernel.work_group.splice(0..0, std::iter::repeat_n(nothing(), own));
                kernels.push(kernel);
            }
        }
        for kernel in &mut self.built.kernels {
            kernel.work_group.resize(all, nothing());
        }
        self.built.devices.resize(own, DeviceBuild::default());
        self.built.devices.extend(other.devices);
        self.devices.extend(devices.iter().cloned());
        self.built.has_constructors |= other.has_constructors;
        self.built.has_destructors |= other.has_destructors;
    }
}
