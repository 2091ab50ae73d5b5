//! Shared libraries, loaded when first wanted.

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

/// Loads the first library that is there, by name or path. Otherwise says why the first could not be loaded.
pub(crate) fn first(names: &[impl AsRef<std::ffi::OsStr>]) -> Result<Library, String> {
    let mut why = None;
    for name in names {
        // SAFETY: the names are those of codec libraries, whose initialisers do nothing but fill tables of their own.
        match unsafe { Library::open(Some(name), RTLD_NOW | RTLD_LOCAL) } {
            Ok(library) => return Ok(library),
            Err(error) => {
                why.get_or_insert_with(|| error.to_string());
            }
        }
    }
    Err(why.unwrap_or_else(|| "no name to look for".into()))
}

/// A struct of function pointers, and how to find them in a library: `functions! { struct Name { f: fn(...) -> ...; } }`.
macro_rules! functions {
    ($(#[$about:meta])* struct $table:ident { $($name:ident: fn($($argument:ty),* $(,)?) $(-> $result:ty)?;)* }) => {
        $(#[$about])*
        #[allow(non_snake_case)]
        pub(crate) struct $table { $(pub(crate) $name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)* }

        impl $table {
            /// Finds the functions, which stay valid: the library is never unloaded.
            ///
            /// # Safety
            ///
            /// The library's functions have these types.
            pub(crate) unsafe fn of(library: libloading::os::unix::Library) -> Result<Self, String> {
                let table = Self {
                    // SAFETY: the caller vouches for the types.
                    $($name: *unsafe { library.get(concat!(stringify!($name), "\0").as_bytes()) }
                        .map_err(|error| format!("{} is missing: {error}", stringify!($name)))?,)*
                };
                // Codec libraries keep threads and tables of their own.
                std::mem::forget(library);
                Ok(table)
            }
        }
    };
}
pub(crate) use functions;
