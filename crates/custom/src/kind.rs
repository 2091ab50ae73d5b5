//! What a kind of custom device is: its built-in kernels, and how one of them runs.

use ropeway_abi as cl;
use ropeway_abi::ropeway::custom;

pub use crate::memory::Range;

/// A device that the operator offers.
pub trait Kind: Send + Sync {
    /// CL_DEVICE_NAME.
    fn name(&self) -> String;

    /// Its built-in kernels, the same each time.
    fn kernels(&self) -> Vec<Signature>;

    /// Tries what it was declared to do with, where only that tells whether the machine has it. One process does so for all workers, as this
    /// may take long.
    ///
    /// # Errors
    /// One sentence: what the machine lacks.
    fn prove(&self) -> Result<(), String> {
        Ok(())
    }

    /// The device as one context uses it. Whatever its kernels remember from one command to the next belongs to this. It must not take long,
    /// and not fail: what fails, does so in the commands.
    fn open(&self) -> Box<dyn Instance>;
}

/// A device as one context uses it.
pub trait Instance: Send + Sync {
    /// Carries out one command; several threads may call this at once.
    ///
    /// # Errors
    /// How the command ends if not well.
    fn run(&self, call: &mut Call) -> Result<(), Failure>;

    /// Calls off the commands that wait for something outside, such as a camera, and all later ones that would.
    fn call_off(&self) {}
}

/// A built-in kernel's name and arguments.
#[derive(Clone, Debug)]
pub struct Signature {
    /// CL_KERNEL_FUNCTION_NAME.
    pub name: String,
    /// Its arguments, in order.
    pub parameters: Vec<Parameter>,
    /// Whether it is given the global size of its launch. Others are launched with a global size of 1.
    pub is_ranged: bool,
}

impl Signature {
    /// A kernel that is launched with a global size of 1.
    pub fn new(name: impl Into<String>, parameters: impl IntoIterator<Item = Parameter>) -> Self {
        Self { name: name.into(), parameters: parameters.into_iter().collect(), is_ranged: false }
    }
}

/// What an argument is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Passed {
    /// A buffer that is read.
    In,
    /// A buffer that is written.
    Out,
    /// A buffer that is read and written.
    InOut,
    /// So many bytes by value.
    Value(usize),
}

/// One argument of a kernel.
#[derive(Clone, Debug)]
pub struct Parameter {
    /// CL_KERNEL_ARG_NAME.
    pub name: String,
    /// CL_KERNEL_ARG_TYPE_NAME, such as `uchar*`.
    pub type_name: String,
    /// What it is.
    pub passed: Passed,
    /// Whether a null buffer may be given.
    pub is_optional: bool,
    /// The fewest bytes of a buffer.
    pub least: usize,
}

impl Parameter {
    /// A buffer that holds at least `least` bytes.
    pub fn buffer(name: &str, type_name: &str, passed: Passed, least: usize) -> Self {
        Self { name: name.to_owned(), type_name: type_name.to_owned(), passed, is_optional: false, least }
    }

    /// A `uint`.
    pub fn uint(name: &str) -> Self {
        let passed = Passed::Value(size_of::<u32>());
        Self { name: name.to_owned(), type_name: "uint".to_owned(), passed, is_optional: false, least: 0 }
    }

    /// The same, but a null buffer may be given.
    #[must_use]
    pub fn optional(self) -> Self {
        Self { is_optional: true, ..self }
    }
}

/// An argument of a command.
#[derive(Clone, Debug)]
pub enum Argument {
    /// A buffer; `None` where a null one is given.
    Buffer(Option<Range>),
    /// By value.
    Value(Vec<u8>),
}

/// One command: a kernel with its arguments.
#[derive(Debug)]
pub struct Call {
    /// The kernel's place among those of the device.
    pub kernel: usize,
    /// The launch's global size; 1 where there is none.
    pub global: [usize; 3],
    arguments: Vec<Argument>,
    passed: Vec<Passed>,
}

/// One argument of a call, as the kernel may use it.
#[derive(Debug)]
pub enum Slice<'a> {
    /// To be read: a value's bytes or a buffer's.
    In(&'a [u8]),
    /// To be written, and perhaps read before.
    Out(&'a mut [u8]),
    /// A null buffer.
    Null,
}

impl<'a> Slice<'a> {
    /// The bytes; none of a null buffer.
    pub fn read(self) -> &'a [u8] {
        match self {
            Self::In(bytes) => bytes,
            Self::Out(bytes) => bytes,
            Self::Null => &[],
        }
    }

    /// The bytes to be written; none of a null buffer.
    ///
    /// # Panics
    /// If the kernel's signature says that it only reads them.
    pub fn write(self) -> &'a mut [u8] {
        match self {
            Self::Out(bytes) => bytes,
            Self::Null => &mut [],
            Self::In(_) => panic!("the signature says that it is written"),
        }
    }
}

impl Call {
    /// A command, if its arguments are as `signature` wants them. The types were seen to when they were set.
    ///
    /// # Errors
    /// A buffer is missing or too small, or one that is written is also another argument.
    pub fn new(
        (kernel, signature): (usize, &Signature),
        global: [usize; 3],
        arguments: Vec<Argument>,
    ) -> Result<Self, Failure> {
        for (index, (parameter, argument)) in signature.parameters.iter().zip(&arguments).enumerate() {
            let Argument::Buffer(given) = argument else { continue };
            let Some(range) = given else {
                if parameter.is_optional {
                    continue;
                }
                return Err(Failure::argument(signature, parameter, "is null"));
            };
            if range.len() < parameter.least {
                let why = format!("has {} bytes and needs {}", range.len(), parameter.least);
                return Err(Failure {
                    status: custom::CL_BUFFER_TOO_SMALL_ROPEWAY,
                    ..Failure::argument(signature, parameter, &why)
                });
            }
            let others = arguments.iter().enumerate().filter(|(other, _)| *other != index);
            let is_shared = || {
                others
                    .into_iter()
                    .any(|(_, other)| matches!(other, Argument::Buffer(Some(other)) if other.overlaps(range)))
            };
            if parameter.passed != Passed::In && is_shared() {
                return Err(Failure::argument(signature, parameter, "is written, and is another argument as well"));
            }
        }
        let passed = signature.parameters.iter().map(|parameter| parameter.passed).collect();
        Ok(Self { kernel, global, arguments, passed })
    }

    /// All arguments at once, in order: so a kernel reads some while it writes others.
    pub fn slices(&mut self) -> Vec<Slice<'_>> {
        fn slice<'a>((argument, passed): (&'a mut Argument, &Passed)) -> Slice<'a> {
            match (argument, passed) {
                (Argument::Value(bytes), _) => Slice::In(bytes),
                (Argument::Buffer(None), _) => Slice::Null,
                (Argument::Buffer(Some(range)), Passed::Out | Passed::InOut) => Slice::Out(range.bytes_mut()),
                (Argument::Buffer(Some(range)), _) => Slice::In(range.bytes()),
            }
        }
        self.arguments.iter_mut().zip(&self.passed).map(slice).collect()
    }

    /// A `uint` by value.
    ///
    /// # Panics
    /// If the argument is none.
    pub fn uint(&self, index: usize) -> u32 {
        match &self.arguments[index] {
            Argument::Value(bytes) => u32::from_ne_bytes(bytes.as_slice().try_into().expect("a uint has four bytes")),
            Argument::Buffer(_) => panic!("argument {index} is a value"),
        }
    }

    /// All arguments.
    pub fn arguments(&self) -> &[Argument] {
        &self.arguments
    }
}

/// How a command ends that does not end well.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// The execution status of its event: negative.
    pub status: cl::cl_int,
    /// One sentence for a person, which the context's callback gets.
    pub text: String,
}

impl Failure {
    /// With this status.
    pub fn new(status: cl::cl_int, text: impl Into<String>) -> Self {
        Self { status, text: text.into() }
    }

    fn argument(signature: &Signature, parameter: &Parameter, why: &str) -> Self {
        let text = format!("{}: the buffer '{}' {why}", signature.name, parameter.name);
        Self::new(cl::CL_INVALID_KERNEL_ARGS, text)
    }
}
