//! Changes of the worker to its own process.

use std::os::fd::{AsFd, OwnedFd};

unsafe extern "C" {
    /// C's standard output stream.
    static stdout: *mut libc::FILE;
    fn ftrylockfile(file: *mut libc::FILE) -> libc::c_int;
    fn funlockfile(file: *mut libc::FILE);
}

/// Sets an environment variable, for the OpenCL loader and drivers to see.
pub fn set_env(name: &str, value: &str) {
    // SAFETY: the worker calls this before it has a second thread.
    unsafe { std::env::set_var(name, value) };
}

/// Sets C's standard output stream to line buffering.
pub fn buffer_stdout_by_line() {
    // SAFETY: nothing has been printed yet, so the stream's buffer may still be chosen.
    unsafe { libc::setvbuf(stdout, std::ptr::null_mut(), libc::_IOLBF, 4096) };
}

/// Has all threads allocate from one heap.
///
/// The threads of a session take turns in making and releasing objects. With a heap for each of them, memory of buffers
/// that were released would not be found again by the next thread: CPU devices would get new pages for new buffers, and
/// their kernels would take several times as long over the first use of them as in a program of one thread.
pub fn use_one_heap() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it only sets a number that the allocator looks at when a thread first allocates.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
    }
}

/// Flushes C's standard output stream; returns false, without waiting, while another thread is printing.
pub fn flush_stdout() -> bool {
    // SAFETY: the stream is open as long as the process lives, and unlocked by the thread that has locked it.
    unsafe {
        if ftrylockfile(stdout) != 0 {
            return false;
        }
        libc::fflush(stdout);
        funlockfile(stdout);
    }
    true
}

/// Prints as a driver does.
#[cfg(test)]
pub fn print(bytes: &[u8]) {
    // SAFETY: the bytes are there, the stream is open.
    unsafe { libc::fwrite(bytes.as_ptr().cast(), 1, bytes.len(), stdout) };
}

/// Puts `fd` in the place of standard output and `error` in that of standard error.
///
/// # Errors
/// The error of dup2.
pub fn replace_outputs(output: &OwnedFd, error: &OwnedFd) -> std::io::Result<()> {
    rustix::stdio::dup2_stdout(output.as_fd())?;
    rustix::stdio::dup2_stderr(error.as_fd())?;
    Ok(())
}

/// Ends the process at once, whatever its threads are doing; drivers' exit handlers do not run.
pub fn exit(code: i32) -> ! {
    // SAFETY: _exit has no preconditions.
    unsafe { libc::_exit(code) }
}

/// How a session ends: with its process.
#[derive(Clone, Default)]
pub struct Exit {
    /// Who is told instead.
    #[cfg(feature = "fuzz")]
    told: Option<std::sync::Arc<dyn Fn(i32) + Send + Sync>>,
}

impl Exit {
    /// The end of a session whose process goes on: `told` gets the exit code.
    #[cfg(feature = "fuzz")]
    pub fn telling(told: impl Fn(i32) + Send + Sync + 'static) -> Self {
        Self { told: Some(std::sync::Arc::new(told)) }
    }

    /// Ends the process at once, whatever its threads are doing, or keeps this thread for ever.
    pub fn exit(&self, code: i32) -> ! {
        #[cfg(feature = "fuzz")]
        if let Some(told) = &self.told {
            told(code);
            loop {
                std::thread::park();
            }
        }
        exit(code)
    }
}
