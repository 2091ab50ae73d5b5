//! Messages of the library to a person, on standard error.
//!
//! `ROPEWAY_LOG` chooses: `off`, `error`, `warn` (the default), `info`, `debug` (every call).

use std::fmt;
use std::sync::atomic::{AtomicU8, Ordering};

/// How much is said; each level includes those before it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
#[repr(u8)]
pub enum Level {
    /// Nothing.
    Off = 0,
    /// Something failed and stays failed.
    Error = 1,
    /// A person should know it: a server cannot be reached, for example.
    #[default]
    Warn = 2,
    /// Normal events, such as a connection that was made.
    Info = 3,
    /// Every OpenCL call.
    Debug = 4,
}

static LEVEL: AtomicU8 = AtomicU8::new(Level::Warn as u8);

/// Sets how much is said from now on.
pub fn set_level(level: Level) {
    LEVEL.store(level as u8, Ordering::Relaxed);
}

/// Whether something of this level would be said; cheap.
#[inline]
pub fn enabled(level: Level) -> bool {
    level as u8 <= LEVEL.load(Ordering::Relaxed)
}

/// Says one line.
pub fn say(level: Level, text: fmt::Arguments<'_>) {
    if enabled(level) {
        use std::io::Write as _;
        // One write for one line; a closed standard error is nobody's business.
        let _ = std::io::stderr().write_all(format!("ropeway: {text}\n").as_bytes());
    }
}

/// Says an error: what failed, where, what to do.
#[macro_export]
macro_rules! error {
    ($($text:tt)*) => { $crate::log::say($crate::log::Level::Error, format_args!($($text)*)) };
}

/// Says a warning.
#[macro_export]
macro_rules! warning {
    ($($text:tt)*) => { $crate::log::say($crate::log::Level::Warn, format_args!($($text)*)) };
}

/// Says what went as it should.
#[macro_export]
macro_rules! info {
    ($($text:tt)*) => { $crate::log::say($crate::log::Level::Info, format_args!($($text)*)) };
}

/// Traces; the arguments are not evaluated unless somebody listens.
#[macro_export]
macro_rules! debug {
    ($($text:tt)*) => {
        if $crate::log::enabled($crate::log::Level::Debug) {
            $crate::log::say($crate::log::Level::Debug, format_args!($($text)*))
        }
    };
}
