//! Handling of the messages about programs.

use std::sync::Arc;

use ropeway_abi as cl;
use ropeway_protocol::ids::{ContextId, ProgramId};
use ropeway_protocol::limits::MAX_CONTENT;
use ropeway_protocol::messages::*;
use ropeway_protocol::types::{BinaryReply, BuildReply, Status};
use ropeway_protocol::{CallId, Tail, content::ContentHash};

use crate::base::error::End;
use crate::base::error::unknown;
use crate::base::lock::lock;
use crate::native;
use crate::objects::{Context, Program, ProgramState};
use crate::programs::build::{self, Step};
use crate::queue_states::claim;
use crate::session::job::Job;
use crate::session::{Arriving, Session};

/// The devices of a context that these indices name.
fn devices_of(context: &Context, wanted: &[u32]) -> Result<Vec<(u32, native::Device)>, End> {
    wanted.iter().map(|&index| Ok((index, context.device(index)?))).collect()
}

impl Session {
    pub(super) fn create_program_with_source(&mut self, m: CreateProgramWithSource) -> Result<(), End> {
        let total = self.objects();
        let context = self.context(m.context)?.clone();
        let program = Arc::new(self.new_program(context, Some(m.source)));
        claim(total, &mut self.programs, m.program, program)
    }

    pub(super) fn create_program_with_binary(
        &mut self,
        m: CreateProgramWithBinary,
        call: CallId<BinaryReply>,
    ) -> Result<(), End> {
        let context = self.context(m.context)?.clone();
        let mut binaries = Vec::new();
        for binary in m.binaries {
            let device = context.device(binary.device)?;
            binaries.push((binary, device));
        }
        match self.program_to_load(m.program, m.context)? {
            Ok(program) => self.start(Job::Load(program, binaries, call)),
            Err(status) => self.answer(call, Err(status)),
        }
        Ok(())
    }

    pub(super) fn put_content(&mut self, m: PutContent, tail: &mut dyn Tail) -> Result<(), End> {
        let (total, len) = (m.total, tail.remaining());
        if total > MAX_CONTENT as u64 || !self.common.cache.make_room(len) {
            return Err(End::refused(format_args!("program contents of {total} bytes are over the limit")));
        }
        let arriving = self.contents.entry(m.hash).or_insert_with(|| Arriving { total, bytes: Vec::new() });
        // The first piece fixed the total, and no more than that is ever taken in, so the subtraction below cannot
        // underflow.
        let received = arriving.bytes.len() as u64;
        if arriving.total != total || m.offset != received || len as u64 > total - received {
            return Err(End::refused(format_args!("a piece of program contents that is not the next one")));
        }
        arriving.bytes.extend_from_slice(&tail.read_to_vec()?);
        if (arriving.bytes.len() as u64) < total {
            return Ok(());
        }
        let content = self.contents.remove(&m.hash).map(|arriving| arriving.bytes).unwrap_or_default();
        if ContentHash::of(&content) != m.hash {
            return Err(End::refused("program contents under a name that is not theirs"));
        }
        self.common.cache.put(m.hash, content);
        Ok(())
    }

    pub(super) fn build_program(&mut self, m: BuildProgram<'_>, call: CallId<BuildReply>) -> Result<(), End> {
        let program = self.programs.get(&m.program).ok_or_else(|| unknown(m.program))?.clone();
        let devices = devices_of(&program.context, &m.devices)?;
        self.start(Job::Build(program, (devices, m.named as usize), Step::Build, m.options.to_owned(), call));
        Ok(())
    }

    pub(super) fn compile_program(&mut self, m: CompileProgram<'_>, call: CallId<BuildReply>) -> Result<(), End> {
        let program = self.programs.get(&m.program).ok_or_else(|| unknown(m.program))?.clone();
        let devices = devices_of(&program.context, &m.devices)?;
        self.start(Job::Build(program, (devices, m.named as usize), Step::Compile, m.options.to_owned(), call));
        Ok(())
    }

    pub(super) fn link_program(&mut self, m: LinkProgram<'_>, call: CallId<BuildReply>) -> Result<(), End> {
        let total = self.objects();
        let context = self.context(m.context)?.clone();
        let devices = devices_of(&context, &m.devices)?;
        let input = |id: &ProgramId| self.programs.get(id).cloned().ok_or_else(|| unknown(*id));
        let inputs = m.inputs.iter().map(input).collect::<Result<_, _>>()?;
        let allowed = self.allow_object();
        let program = Arc::new(self.new_program(context, None));
        claim(total, &mut self.programs, m.program, program.clone())?;
        match allowed {
            Ok(()) => {
                self.start(Job::Link(program, (devices, m.named as usize), inputs, m.options.to_owned(), call));
            }
            Err(status) => self.answer(call, Err(status)),
        }
        Ok(())
    }

    pub(super) fn program_binary_size(&mut self, m: ProgramBinarySize, call: CallId<u64>) -> Result<(), End> {
        let program = self.programs.get(&m.program).ok_or_else(|| unknown(m.program))?.clone();
        let device = program.context.device(m.device)?;
        // Some implementations compile for it.
        self.start(Job::Run(Box::new(move |common| {
            let _building = common.clock.building();
            let size = match &lock(&program.state).native {
                Some(Ok(native)) => Ok(native.binary_size(device)),
                Some(Err(status)) => Err(*status),
                None => Ok(0),
            };
            common.client.answer(&call, &size)
        })));
        Ok(())
    }

    pub(super) fn program_binary(&mut self, m: ProgramBinary, call: CallId<u64>) -> Result<(), End> {
        let program = self.programs.get(&m.program).ok_or_else(|| unknown(m.program))?.clone();
        let device = program.context.device(m.device)?;
        self.start(Job::Binary(program, device, m.transfer, call));
        Ok(())
    }

    pub(super) fn release_program(&mut self, m: ReleaseProgram) -> Result<(), End> {
        self.programs.remove(&m.program).map(drop).ok_or_else(|| unknown(m.program))
    }

    pub(super) fn create_program_with_il(
        &mut self,
        m: CreateProgramWithIl,
        call: CallId<BinaryReply>,
    ) -> Result<(), End> {
        let program = match self.program_to_load(m.program, m.context)? {
            Ok(program) => program,
            Err(status) => {
                self.answer(call, Err(status));
                return Ok(());
            }
        };
        self.start(Job::Run(Box::new(move |common| {
            let _building = common.clock.building();
            let reply = build::load_il((&common.client, &common.cache), &program, m.il);
            common.client.answer(&call, &reply)
        })));
        Ok(())
    }

    /// A program without contents; one that cannot be used, if the session may have no more objects.
    fn new_program(&self, context: Arc<Context>, source: Option<ContentHash>) -> Program {
        let native = self.allow_object().err().map(Err);
        Program { context, state: ProgramState { native, source, ..ProgramState::default() }.into() }
    }

    /// The program of this name, which is new, or was asked for before while contents were missing. The inner error is
    /// for a program that cannot be made.
    fn program_to_load(&mut self, id: ProgramId, context: ContextId) -> Result<Result<Arc<Program>, Status>, End> {
        let total = self.objects();
        let context = self.context(context)?.clone();
        if let Some(program) = self.programs.get(&id) {
            return Ok(Ok(program.clone()));
        }
        let allowed = self.allow_object();
        let program = Arc::new(self.new_program(context, None));
        claim(total, &mut self.programs, id, program.clone())?;
        Ok(allowed.map(|()| program))
    }

    pub(super) fn set_specialization_constant(
        &mut self,
        m: SetSpecializationConstant<'_>,
        call: CallId<()>,
    ) -> Result<(), End> {
        let program = self.programs.get(&m.program).ok_or_else(|| unknown(m.program))?.clone();
        let (id, value) = (m.id, m.value.to_vec());
        self.start(Job::Run(Box::new(move |common| {
            let outcome = match (&lock(&program.state).native, program.context.devices.first()) {
                (Some(Ok(native)), Some((_, device))) => native.set_specialization_constant(*device, id, &value),
                (Some(Err(status)), _) => Err(*status),
                _ => Err(cl::CL_INVALID_PROGRAM),
            };
            common.client.answer(&call, &outcome)
        })));
        Ok(())
    }

    pub(super) fn create_program_with_built_in_kernels(
        &mut self,
        m: CreateProgramWithBuiltInKernels<'_>,
        call: CallId<BuildReply>,
    ) -> Result<(), End> {
        let total = self.objects();
        let context = self.context(m.context)?.clone();
        let devices = devices_of(&context, &m.devices)?;
        let allowed = self.allow_object();
        let program = Arc::new(self.new_program(context, None));
        claim(total, &mut self.programs, m.program, program.clone())?;
        if let Err(status) = allowed {
            self.answer(call, Err(status));
            return Ok(());
        }
        let names = m.names.to_owned();
        self.start(Job::Run(Box::new(move |common| {
            let _building = common.clock.building();
            build::answer(&common.client, &build::built_in(&program, &devices, &names), &call)
        })));
        Ok(())
    }
}
