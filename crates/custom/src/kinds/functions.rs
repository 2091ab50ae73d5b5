//! Functions of an operator's shared library as built-in kernels (`include/ropeway_functions.h`).
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use ropeway_abi::ropeway::custom;
use serde::{Deserialize, Serialize};

use crate::kind::{Argument, Call, Failure, Instance, Kind, Parameter, Passed, Signature};

/// A `[[functions]]` table of the operator's file.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Declaration {
    /// The device's name.
    pub name: String,
    /// The shared library: an absolute path.
    pub library: PathBuf,
    /// Its functions.
    #[serde(rename = "kernel")]
    pub kernels: Vec<KernelDeclaration>,
}

/// A `[[functions.kernel]]` table.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KernelDeclaration {
    /// The built-in kernel's name.
    pub name: String,
    /// The function's.
    pub symbol: String,
    /// Its arguments as in OpenCL C, such as `global const float *x` or `uint n`.
    pub arguments: Vec<String>,
}

impl Declaration {
    /// Holds it against what is allowed.
    ///
    /// # Errors
    /// One sentence.
    pub fn check(&self) -> Result<(), String> {
        if !self.library.is_absolute() {
            return Err(format!("the library {} must be given with its whole path", self.library.display()));
        }
        if !self.library.is_file() {
            return Err(format!("the library {} is not there", self.library.display()));
        }
        if self.kernels.is_empty() {
            return Err("it has no [[functions.kernel]]".to_owned());
        }
        for kernel in &self.kernels {
            if !is_kernel_name(&kernel.name) {
                return Err(format!("'{}' is no name for a kernel: letters, digits, '_' and '.' are", kernel.name));
            }
            kernel.signature()?;
        }
        Ok(())
    }
}

/// Names are in a list with semicolons between, and in programs.
fn is_kernel_name(name: &str) -> bool {
    let is_good = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'.';
    !name.is_empty() && name.len() < 64 && name.bytes().all(is_good) && !name.starts_with("ropeway.")
}

impl KernelDeclaration {
    fn signature(&self) -> Result<Signature, String> {
        let parameters = self.arguments.iter().map(|text| parameter(text)).collect::<Result<_, _>>()?;
        Ok(Signature { name: self.name.clone(), parameters, is_ranged: true })
    }
}

/// The bytes of OpenCL's scalar types.
fn scalar(name: &str) -> Option<usize> {
    Some(match name {
        "char" | "uchar" => 1,
        "short" | "ushort" | "half" => 2,
        "int" | "uint" | "float" => 4,
        "long" | "ulong" | "double" => 8,
        _ => return None,
    })
}

fn parameter(text: &str) -> Result<Parameter, String> {
    let unclear = || {
        format!(
            "the argument '{text}' is unclear: write 'global const float *x' for a buffer that is read, 'global float *x' \
             for one that is written, 'uint n' for a number"
        )
    };
    let spaced = text.replace('*', " * ");
    let mut words: Vec<_> = spaced.split_ascii_whitespace().collect();
    let name = words.pop().filter(|name| *name != "*").ok_or_else(unclear)?.to_owned();
    let is_pointer = words.pop_if(|word| *word == "*").is_some();
    let is_global = !words.is_empty() && matches!(words[0], "global" | "__global");
    if is_global {
        words.remove(0);
    }
    let is_const = !words.is_empty() && words[0] == "const";
    if is_const {
        words.remove(0);
    }
    let [type_name] = words[..] else { return Err(unclear()) };
    let size = scalar(type_name).ok_or_else(unclear)?;
    Ok(match (is_global, is_pointer) {
        (true, true) => {
            let passed = if is_const { Passed::In } else { Passed::InOut };
            Parameter::buffer(&name, &format!("{type_name}*"), passed, 0)
        }
        (false, false) => {
            let (passed, type_name) = (Passed::Value(size), type_name.to_owned());
            Parameter { name, type_name, passed, is_optional: false, least: 0 }
        }
        _ => return Err(unclear()),
    })
}

/// `ropeway_argument`: a buffer's bytes or a number's.
#[repr(C)]
struct FunctionArgument {
    at: *mut c_void,
    size: usize,
}

/// `ropeway_function`: the global size (three numbers), the number of arguments, the arguments; 0 for success.
type Function = unsafe extern "C" fn(*const usize, u32, *const FunctionArgument) -> i32;

/// A device of an operator's functions.
pub struct Functions {
    declaration: Declaration,
    kernels: Vec<Signature>,
    library: Arc<OnceLock<Result<Library, String>>>,
}

impl Functions {
    /// The device of a declaration that [`Declaration::check`] has passed.
    ///
    /// # Errors
    /// As [`Declaration::check`].
    pub fn new(declaration: Declaration) -> Result<Self, String> {
        let kernels = declaration.kernels.iter().map(KernelDeclaration::signature).collect::<Result<_, _>>()?;
        Ok(Self { declaration, kernels, library: Arc::default() })
    }
}

impl Kind for Functions {
    fn name(&self) -> String {
        self.declaration.name.clone()
    }

    fn kernels(&self) -> Vec<Signature> {
        self.kernels.clone()
    }

    fn open(&self) -> Box<dyn Instance> {
        let symbols = self.declaration.kernels.iter().map(|kernel| kernel.symbol.clone()).collect();
        Box::new(Opened { path: self.declaration.library.clone(), symbols, library: self.library.clone() })
    }
}

struct Opened {
    path: PathBuf,
    symbols: Vec<String>,
    library: Arc<OnceLock<Result<Library, String>>>,
}

impl Instance for Opened {
    fn run(&self, call: &mut Call) -> Result<(), Failure> {
        let missing = |text: String| Failure::new(custom::CL_LIBRARY_MISSING_ROPEWAY, text);
        let library = self.library.get_or_init(|| load(&self.path)).as_ref().map_err(|text| missing(text.clone()))?;
        let symbol = &self.symbols[call.kernel];
        // SAFETY: the operator says in the file that this is a function of the type in ropeway_functions.h.
        let function = unsafe { library.get::<Function>(symbol.as_bytes()) };
        let function =
            function.map_err(|_| missing(format!("the library {} has no function '{symbol}'", self.path.display())))?;
        let global = call.global;
        let mut values: Vec<_> = call
            .arguments()
            .iter()
            .map(|argument| match argument {
                Argument::Value(bytes) => Some(bytes.clone()),
                Argument::Buffer(_) => None,
            })
            .collect();
        let passed = |(argument, value): (&Argument, &mut Option<Vec<u8>>)| match (argument, value) {
            (Argument::Buffer(Some(range)), _) => FunctionArgument { at: range.pointer().cast(), size: range.len() },
            (_, Some(bytes)) => FunctionArgument { at: bytes.as_mut_ptr().cast(), size: bytes.len() },
            (_, None) => FunctionArgument { at: std::ptr::null_mut(), size: 0 },
        };
        let arguments: Vec<_> = call.arguments().iter().zip(&mut values).map(passed).collect();
        // SAFETY: the pointers are to as many bytes as they say, which `call` and `values` keep until it has returned. What it does
        // besides is the operator's, in a sandboxed process that serves one client.
        let code = unsafe { function(global.as_ptr(), arguments.len() as u32, arguments.as_ptr()) };
        if code == 0 {
            return Ok(());
        }
        Err(Failure::new(
            custom::CL_FUNCTION_FAILED_ROPEWAY,
            format!("the function '{symbol}' returned the error {code}"),
        ))
    }
}

fn load(path: &Path) -> Result<Library, String> {
    // SAFETY: the operator wants this library's initialisers run in workers.
    let library = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) };
    library.map_err(|error| format!("the library {} cannot be loaded: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_read_like_opencl_c() {
        let buffer = parameter("global const float *x").unwrap();
        assert_eq!((buffer.name.as_str(), buffer.type_name.as_str(), buffer.passed), ("x", "float*", Passed::In));
        assert_eq!(parameter("__global uchar* bytes").unwrap().passed, Passed::InOut);
        assert_eq!(parameter("ulong n").unwrap().passed, Passed::Value(8));
        for bad in ["", "n", "float *x", "global float x", "int n, int m", "global image2d_t *x", "uint *"] {
            assert!(parameter(bad).unwrap_err().contains("unclear"), "{bad}");
        }
    }

    #[test]
    fn names_stay_out_of_the_way() {
        assert!(is_kernel_name("lab.sort_u32"));
        for bad in ["", "a;b", "ropeway.mine", "a b"] {
            assert!(!is_kernel_name(bad), "{bad}");
        }
    }
}
