//! Samplers.

use ropeway_abi as cl;
use ropeway_protocol::image::SamplerDescription;
use ropeway_protocol::types::Status;

use super::api::api;
use super::{Context, check};

/// A native sampler.
#[derive(Debug)]
pub struct Sampler(pub(super) cl::cl_sampler);

// SAFETY: OpenCL's handles may be used from any thread (OpenCL 3.0 API, appendix A.2).
unsafe impl Send for Sampler {}
// SAFETY: as above.
unsafe impl Sync for Sampler {}

impl Sampler {
    /// clCreateSampler.
    ///
    /// # Errors
    /// The status of the native call.
    pub fn new(context: &Context, like: SamplerDescription) -> Result<Self, Status> {
        let mut status = 0;
        // SAFETY: the context is alive; the call checks the other arguments itself.
        let sampler = unsafe {
            (api().clCreateSampler)(
                context.0,
                u32::from(like.normalized),
                like.addressing,
                like.filter,
                &raw mut status,
            )
        };
        check(status)?;
        Ok(Self(sampler))
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        // SAFETY: this is the one reference that the value owns.
        unsafe { (api().clReleaseSampler)(self.0) };
    }
}
