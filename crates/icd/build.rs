//! Link options of `libropeway.so`.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    // Loaders close drivers, and the library has threads: its code stays mapped until the process ends.
    println!("cargo:rustc-link-arg-cdylib=-Wl,-z,nodelete");
}
