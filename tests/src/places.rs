//! Where things are: the build's folder, the programs under test, the C programs compiled on demand.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, OnceLock};

/// The repository's root.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("this crate lies in the repository")
}

/// Cargo's target folder.
pub fn target() -> PathBuf {
    // <target>/<profile>/deps/<test>
    let exe = std::env::current_exe().expect("a test knows its own path");
    exe.ancestors().nth(3).expect("a test lies in the target folder").to_owned()
}

/// A folder for things that the tests build or download once, and keep: compiled programs, caches, Python packages.
pub fn kept(name: &str) -> PathBuf {
    let folder = target().join("e2e").join(name);
    fs::create_dir_all(&folder).unwrap_or_else(|error| panic!("cannot make {}: {error}", folder.display()));
    folder
}

fn built(name: &str) -> PathBuf {
    let path = target().join("release").join(name);
    assert!(path.exists(), "{} is missing; run `make build` first", path.display());
    path
}

/// The program `ropeway`.
pub fn ropeway() -> PathBuf {
    built("ropeway")
}

/// The client library.
pub fn library() -> PathBuf {
    built("libropeway.so")
}

/// PoCL's cache of compiled kernels, shared by native runs and servers so that each kernel is compiled once.
pub fn pocl_cache() -> PathBuf {
    kept("pocl")
}

/// The compiled form of `tests/c/NAME.c`.
///
/// # Panics
/// When it does not compile.
pub fn c_program(name: &str) -> PathBuf {
    static COMPILED: OnceLock<Mutex<HashMap<String, PathBuf>>> = OnceLock::new();
    let mut compiled = COMPILED.get_or_init(Mutex::default).lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    if let Some(path) = compiled.get(name) {
        return path.clone();
    }
    let source = root().join("tests/c").join(format!("{name}.c"));
    let path = kept("bin").join(name);
    compile(&[source], &["-lOpenCL", "-lpthread"], &path);
    compiled.insert(name.to_owned(), path.clone());
    path
}

/// The compiled form of `tests/c/NAME.c` as a shared library.
///
/// # Panics
/// When it does not compile.
pub fn c_library(name: &str) -> PathBuf {
    let source = root().join("tests/c").join(format!("{name}.c"));
    let path = kept("lib").join(format!("lib{}.so", name.replace('/', "-")));
    compile(&[source], &["-fPIC", "-shared"], &path);
    path
}

/// The folder of the C examples, built.
///
/// # Panics
/// When they do not compile.
pub fn examples() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let mut make = Command::new("make");
        make.arg("-C").arg(root().join("examples")).env("CARGO_TARGET_DIR", target());
        let made = make.env("CFLAGS", "-O2 -Werror").output().expect("make is installed");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        target().join("examples")
    })
}

/// The library that shifts a program's clock (`tests/c/shifted_clock.c`).
pub fn shifted_clock() -> PathBuf {
    static MADE: OnceLock<PathBuf> = OnceLock::new();
    let make = || {
        let library = kept("clock").join("libshifted-clock.so");
        compile(&[root().join("tests/c/shifted_clock.c")], &["-fPIC", "-shared"], &library);
        library
    };
    MADE.get_or_init(make).clone()
}

/// A folder with the .icd file of the stub device (`bench/stub`), which only takes its time.
pub fn stub_vendors() -> PathBuf {
    static MADE: OnceLock<PathBuf> = OnceLock::new();
    MADE.get_or_init(|| stub("stub", &[])).clone()
}

/// The folder of a stub into which `tests/c/inside/attempts.c` is linked.
pub fn attempting_vendors() -> PathBuf {
    static MADE: OnceLock<PathBuf> = OnceLock::new();
    MADE.get_or_init(|| stub("attempting", &[root().join("tests/c/inside/attempts.c")])).clone()
}

fn stub(name: &str, more: &[PathBuf]) -> PathBuf {
    let folder = kept(name);
    let library = folder.join("libstub-opencl.so");
    let sources = ["base", "commands", "events", "kernels", "memory", "objects", "programs", "table"];
    let sources = sources.map(|name| root().join("bench/stub").join(format!("{name}.c")));
    let sources = [&sources[..], more].concat();
    compile(&sources, &["-fPIC", "-fvisibility=hidden", "-shared", "-lpthread"], &library);
    // A server of another test may be about to read it: at no time is it there and not whole.
    let mine = folder.join(format!("stub.{}", std::process::id()));
    fs::write(&mine, format!("{}\n", library.display())).expect("an .icd file can be written");
    fs::rename(&mine, folder.join("stub.icd")).expect("what was written can be renamed");
    folder
}

fn compile(sources: &[PathBuf], how: &[&str], path: &Path) {
    fs::create_dir_all(path.parent().expect("it is in a folder")).expect("a folder can be made");
    // Several test processes may compile the same program at once: each its own file, renamed when whole.
    let mine = path.with_extension(std::process::id().to_string());
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let result = Command::new(compiler)
        .args(["-O1", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-o"])
        .arg(&mine)
        .args(sources)
        .arg("-I")
        .arg(root().join("include"))
        .args(how)
        .output()
        .unwrap_or_else(|error| panic!("no C compiler: {error}"));
    assert!(result.status.success(), "{sources:?}:\n{}", String::from_utf8_lossy(&result.stderr));
    fs::rename(&mine, path).expect("what was compiled can be renamed");
}
