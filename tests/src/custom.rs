//! Servers with custom devices.

use std::fs;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::places::{c_library, kept};
use crate::server::Server;

/// The library of `tests/c/functions/functions.c`.
pub fn functions() -> PathBuf {
    static MADE: OnceLock<PathBuf> = OnceLock::new();
    MADE.get_or_init(|| c_library("functions/functions")).clone()
}

/// A `[[functions]]` table of that library's functions.
pub fn function_table() -> String {
    let kernels = [
        ("sort_u32", r#""global uint *keys", "uint count""#),
        ("saxpy", r#""global const float *x", "global float *y", "float a""#),
        ("fails", ""),
        ("missing", ""),
        ("crashes", ""),
        ("sleeps", r#""uint milliseconds""#),
        ("mix", r#""global uint *x", "global const uint *y", "uint a", "uint n""#),
        ("transform", r#""global const uint *from", "global uint *to", "global ulong *size", "uint factor""#),
    ];
    let kernel = |(name, arguments): &(&str, &str)| {
        format!("[[functions.kernel]]\nname = \"lab.{name}\"\nsymbol = \"{name}\"\narguments = [{arguments}]\n")
    };
    let kernels: String = kernels.iter().map(kernel).collect();
    format!("[[functions]]\nname = \"Test functions\"\nlibrary = \"{}\"\n{kernels}", functions().display())
}

/// A file that declares these tables, for `--custom`. It stays for who looks into a failed test.
pub fn custom_file(tables: &str) -> PathBuf {
    static FILES: AtomicU32 = AtomicU32::new(0);
    let number = FILES.fetch_add(1, Ordering::Relaxed);
    let folder = kept("custom");
    fs::create_dir_all(&folder).expect("a folder can be made");
    let path = folder.join(format!("{}-{number}.toml", std::process::id()));
    fs::write(&path, tables).expect("a file can be written");
    path
}

/// A server on a free port of loopback that offers these devices beside the machine's own.
pub fn serve(tables: &str) -> Server {
    serve_with(tables, &[])
}

/// The same, with these variables.
pub fn serve_with(tables: &str, env: &[(&str, &str)]) -> Server {
    let file = custom_file(tables);
    let file = file.to_str().expect("a path in UTF-8");
    Server::start_with(&["--listen", "tcp://127.0.0.1:0", "--custom", file], env)
}
