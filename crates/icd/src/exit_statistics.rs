//! `ROPEWAY_STATS=1`: prints the counts when the process ends or unloads the library.
//!
//! A destructor of the shared object, which the dynamic linker calls and forgets with the library, unlike a function
//! registered with `atexit`.

use std::ffi::OsStr;
use std::io::Write as _;

use ropeway_client::stats::STATS;

use crate::guard;

// SAFETY: the section holds pointers to functions of this type; the function may run after main.
#[unsafe(link_section = ".fini_array")]
#[used]
static AT_END: extern "C" fn() = at_end;

extern "C" fn at_end() {
    // A forked child would print its parent's counts.
    if std::env::var_os("ROPEWAY_STATS").as_deref() == Some(OsStr::new("1")) && !guard::forked() {
        // Nobody is left to hear of a closed standard error.
        let _ = std::io::stderr().write_all(format!("ropeway: stats: {STATS}\n").as_bytes());
    }
}
