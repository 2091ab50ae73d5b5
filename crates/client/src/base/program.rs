//! The program that uses the library.

/// Most letters of its name.
const MAX_NAME: usize = 200;

/// Its name, for other people's logs and lists; empty where it has none.
pub fn program_name() -> String {
    let program = std::env::current_exe().ok();
    let name = program.as_deref().and_then(|path| path.file_name()).unwrap_or_default();
    name.to_string_lossy().chars().take(MAX_NAME).collect()
}
