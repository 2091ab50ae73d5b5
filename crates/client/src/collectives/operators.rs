//! Operators that combine data: kernels over the types of OpenCL C, built where they are first needed, and the
//! application's own kernels.

use std::fmt::Write;
use std::sync::{Arc, Mutex, MutexGuard};

use ropeway_abi::{
    CL_BUILD_PROGRAM_FAILURE, CL_COMMAND_NDRANGE_KERNEL, CL_DEVICE_DOUBLE_FP_CONFIG, CL_INVALID_OPERATION,
    CL_OUT_OF_RESOURCES,
};
use ropeway_protocol::types::NdRange;

use crate::base::status::Result;
use crate::base::sync::lock;
use crate::commands::command::{Enqueued, Order};
use crate::objects::context::Context;
use crate::objects::device::Device;
use crate::objects::kernel::{Arg, Kernel};
use crate::objects::memory::Memory;
use crate::objects::program::{Program, Step};
use crate::objects::queue::Queue;

/// The types of OpenCL C that are combined.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "named as in OpenCL C")]
pub enum Element {
    Char,
    Uchar,
    Short,
    Ushort,
    Int,
    Uint,
    Long,
    Ulong,
    Half,
    Float,
    Double,
}

/// How they are combined.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "they say what they are")]
pub enum Function {
    Sum,
    Product,
    Min,
    Max,
}

/// An operator of two operands.
#[derive(Clone, Copy, Debug)]
pub enum Operator<'a> {
    /// One of Ropeway's own.
    BuiltIn(Element, Function),
    /// A kernel of the application's: its first three arguments are the left operands, the right ones, and the results;
    /// it is launched with one work-item for each element.
    Kernel {
        /// The kernel.
        kernel: &'a Kernel,
        /// Bytes of an element.
        element: usize,
        /// Whether operands may not change places.
        ordered: bool,
    },
}

impl Element {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::Char,
        Self::Uchar,
        Self::Short,
        Self::Ushort,
        Self::Int,
        Self::Uint,
        Self::Long,
        Self::Ulong,
        Self::Half,
        Self::Float,
        Self::Double,
    ];

    /// Its size in bytes.
    pub fn size(self) -> usize {
        match self {
            Self::Char | Self::Uchar => 1,
            Self::Short | Self::Ushort | Self::Half => 2,
            Self::Int | Self::Uint | Self::Float => 4,
            Self::Long | Self::Ulong | Self::Double => 8,
        }
    }

    /// Returns its name, and that of the type in which sums and products are computed: an unsigned type wraps on
    /// overflow, while OpenCL C leaves signed overflow undefined.
    fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Char => ("char", "uint"),
            Self::Uchar => ("uchar", "uint"),
            Self::Short => ("short", "uint"),
            Self::Ushort => ("ushort", "uint"),
            Self::Int => ("int", "uint"),
            Self::Uint => ("uint", "uint"),
            Self::Long => ("long", "ulong"),
            Self::Ulong => ("ulong", "ulong"),
            // A float holds the result of two halves precisely enough that rounding it gives the correctly rounded
            // half.
            Self::Half => ("half", "float"),
            Self::Float => ("float", "float"),
            Self::Double => ("double", "double"),
        }
    }

    /// Whether a device can combine it.
    pub fn runs_on(self, device: &Device) -> bool {
        self != Self::Double || device.number(CL_DEVICE_DOUBLE_FP_CONFIG) != 0
    }

    fn is_float(self) -> bool {
        matches!(self, Self::Half | Self::Float | Self::Double)
    }

    fn is_signed(self) -> bool {
        matches!(self, Self::Char | Self::Short | Self::Int | Self::Long)
    }

    /// Its kernels.
    fn source(self) -> String {
        let (name, wide) = self.names();
        let mut source = String::new();
        if self == Self::Double {
            source.push_str("#if __OPENCL_C_VERSION__ < 120\n#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n#endif\n");
        }
        let (min, max) = if self.is_float() { ("fmin", "fmax") } else { ("min", "max") };
        let sum = |sign: char| format!("({name})(({wide})a {sign} ({wide})b)");
        let each = [sum('+'), sum('*'), format!("{min}(a, b)"), format!("{max}(a, b)")];
        for (function, value) in Function::ALL.iter().zip(each) {
            // Halves are read and written as such on every device, also where there is no arithmetic of theirs.
            let body = match self {
                Self::Half => {
                    let value = value.replace("(half)", "");
                    format!(
                        "float a = vload_half(i, left), b = vload_half(i, right); vstore_half_rte({value}, i, out);"
                    )
                }
                _ => format!("{name} a = left[i], b = right[i]; out[i] = {value};"),
            };
            let kernel = function.kernel();
            // Writing to a String cannot fail.
            let _ = writeln!(
                source,
                "__kernel void {kernel}(__global const {name} *left, __global const {name} *right, __global {name} *out, ulong count)\n\
                 {{\n    size_t i = get_global_id(0);\n    if (i < count) {{ {body} }}\n}}"
            );
        }
        source
    }
}

impl Function {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Sum, Self::Product, Self::Min, Self::Max];

    fn kernel(self) -> &'static str {
        match self {
            Self::Sum => "ropeway_sum",
            Self::Product => "ropeway_product",
            Self::Min => "ropeway_min",
            Self::Max => "ropeway_max",
        }
    }

    /// Returns the identity element: the value that changes nothing when it is combined with another one.
    pub fn identity(self, element: Element) -> Vec<u8> {
        let size = element.size();
        let (one, infinity): (u64, u64) = match element {
            Element::Half => (0x3c00, 0x7c00),
            Element::Float => (0x3f80_0000, 0x7f80_0000),
            Element::Double => (0x3ff0_0000_0000_0000, 0x7ff0_0000_0000_0000),
            _ => (1, u64::MAX),
        };
        let sign = 1 << (8 * size - 1);
        let value = match self {
            Self::Sum => 0,
            Self::Product => one,
            Self::Min if element.is_signed() => sign - 1,
            Self::Min => infinity,
            Self::Max if element.is_signed() => sign,
            Self::Max if element.is_float() => infinity | sign,
            Self::Max => 0,
        };
        value.to_le_bytes()[..size].to_vec()
    }
}

impl Operator<'_> {
    /// Bytes of an element.
    pub fn element(&self) -> usize {
        match self {
            Self::BuiltIn(element, _) => element.size(),
            Self::Kernel { element, .. } => *element,
        }
    }

    /// Whether operands may not change places.
    pub fn is_ordered(&self) -> bool {
        matches!(self, Self::Kernel { ordered: true, .. })
    }
}

/// The kernels of one type on one device, in the order of [`Function::ALL`].
pub(super) struct Built {
    element: Element,
    device: Arc<Device>,
    kernels: Vec<Arc<Kernel>>,
}

/// The kernels that a context has built so far.
#[derive(Default)]
pub struct Operators(Mutex<Vec<Built>>);

impl std::fmt::Debug for Operators {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} types on devices", lock(&self.0).len())
    }
}

/// An operator, ready for the devices of some queues.
pub(super) enum Ready<'a> {
    /// The lock makes others wait that would set arguments of the same kernels.
    BuiltIn(MutexGuard<'a, Vec<Built>>, Element, Function),
    /// A copy for each rank, so that the application's own keeps its arguments.
    Kernel(Vec<Arc<Kernel>>, usize),
}

impl Operators {
    /// Builds what is missing.
    pub(super) fn ready<'a>(&'a self, operator: &Operator<'_>, queues: &[Arc<Queue>]) -> Result<Ready<'a>> {
        let (element, function) = match *operator {
            Operator::BuiltIn(element, function) => (element, function),
            Operator::Kernel { kernel, element, .. } => {
                let copies = queues.iter().map(|_| kernel.copy()).collect::<Result<_>>()?;
                return Ok(Ready::Kernel(copies, element));
            }
        };
        let mut built = lock(&self.0);
        let mut missing: Vec<Arc<Device>> = Vec::new();
        for queue in queues {
            let device = queue.device();
            let same = |other: &Arc<Device>| Arc::ptr_eq(other, device);
            if !built.iter().any(|one| one.element == element && same(&one.device)) && !missing.iter().any(same) {
                missing.push(Arc::clone(device));
            }
        }
        if let Some(queue) = queues.first().filter(|_| !missing.is_empty()) {
            built.extend(build(queue.context(), element, missing)?);
        }
        Ok(Ready::BuiltIn(built, element, function))
    }
}

/// Builds a type's kernels for devices, at once.
fn build(context: &Arc<Context>, element: Element, devices: Vec<Arc<Device>>) -> Result<Vec<Built>> {
    if !devices.iter().all(|device| element.runs_on(device)) {
        return Err(CL_INVALID_OPERATION);
    }
    let program = Program::with_source(context, element.source().into_bytes())?;
    let status = program.begin(Some(devices.clone()), String::new(), Step::Build)?.run()?;
    if status != 0 {
        let logs = devices.iter().filter_map(|device| program.build_info(device)).map(|info| info.log);
        crate::warning!("the kernels that combine data do not build: {}", logs.collect::<Vec<_>>().join("\n"));
        return Err(CL_BUILD_PROGRAM_FAILURE);
    }
    let built = devices.into_iter().map(|device| {
        let kernels = Function::ALL.iter().map(|function| Kernel::new(&program, function.kernel()));
        Ok(Built { element, device, kernels: kernels.collect::<Result<_>>()? })
    });
    built.collect()
}

/// The most work-items of a group.
const GROUP: u64 = 256;

impl Ready<'_> {
    /// Combines the first `size` bytes of `left` and `right` into `out`, which may be one of them.
    pub(super) fn launch(
        &self,
        (rank, queue): (usize, &Arc<Queue>),
        (left, right, out): (&Arc<Memory>, &Arc<Memory>, &Arc<Memory>),
        size: u64,
        order: Order<'_>,
    ) -> Result<Enqueued> {
        let (kernel, count, local) = match self {
            Self::Kernel(copies, element) => (copies.get(rank), size / *element as u64, None),
            Self::BuiltIn(built, element, function) => {
                let here = |one: &&Built| one.element == *element && Arc::ptr_eq(&one.device, queue.device());
                let kernel = built.iter().find(here).and_then(|one| one.kernels.get(*function as usize));
                let most = kernel.and_then(|kernel| kernel.work_group(queue.device()));
                let most = most.map_or(1, |known| known.work_group_size.clamp(1, GROUP));
                // A power of two, which every device likes.
                (kernel, size / element.size() as u64, Some(1 << most.ilog2()))
            }
        };
        let kernel = kernel.ok_or(CL_OUT_OF_RESOURCES)?;
        for (index, memory) in (0..).zip([left, right, out]) {
            kernel.set_arg(index, Arg::Memory(Some(memory)))?;
        }
        let global = match local {
            Some(local) => {
                kernel.set_arg(3, Arg::Bytes(&count.to_ne_bytes()))?;
                count.next_multiple_of(local)
            }
            None => count,
        };
        let range = NdRange { dims: 1, offset: None, global: [global, 0, 0], local: local.map(|local| [local, 0, 0]) };
        queue.enqueue_kernel(kernel, range, CL_COMMAND_NDRANGE_KERNEL, order)
    }

    /// Returns the identity element, with which memory is filled; `None` for the application's own kernels, whose
    /// identity is unknown.
    pub(super) fn identity(&self) -> Option<Vec<u8>> {
        match self {
            Self::BuiltIn(_, element, function) => Some(function.identity(*element)),
            Self::Kernel(..) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identities_are_of_the_size_of_the_type() {
        for element in Element::ALL {
            for function in Function::ALL {
                assert_eq!(function.identity(element).len(), element.size());
            }
        }
        assert_eq!(Function::Min.identity(Element::Char), [0x7f]);
        assert_eq!(Function::Max.identity(Element::Short), [0, 0x80]);
        assert_eq!(Function::Min.identity(Element::Uint), [0xff; 4]);
        assert_eq!(Function::Max.identity(Element::Float), f32::NEG_INFINITY.to_le_bytes());
        assert_eq!(Function::Product.identity(Element::Double), 1_f64.to_le_bytes());
    }

    #[test]
    fn every_type_has_four_kernels() {
        for element in Element::ALL {
            assert_eq!(element.source().matches("__kernel").count(), 4, "{}", element.source());
        }
    }
}
