//! Samplers.

use std::sync::Arc;

use ropeway_protocol::ids::SamplerId;
use ropeway_protocol::image::SamplerDescription;
use ropeway_protocol::messages::{CreateSampler, ReleaseSampler, SamplerStatus};

use crate::Result;
use crate::context::Context;

/// A sampler.
#[derive(Debug)]
pub struct Sampler {
    id: SamplerId,
    context: Arc<Context>,
    like: SamplerDescription,
}

impl Sampler {
    /// Makes a sampler.
    ///
    /// # Errors
    /// [`crate::SERVER_LOST`].
    pub fn new(context: &Arc<Context>, like: SamplerDescription) -> Result<Arc<Self>> {
        let id = SamplerId(context.connection().new_id());
        context.connection().post(&CreateSampler { sampler: id, context: context.id(), like })?;
        Ok(Arc::new(Self { id, context: Arc::clone(context), like }))
    }

    /// Asks the server whether it could be made, where the client cannot tell.
    ///
    /// # Errors
    /// What the native call returned, [`crate::SERVER_LOST`].
    pub fn confirm(&self) -> Result<()> {
        self.context.connection().call(&SamplerStatus { sampler: self.id })
    }

    /// How it samples.
    pub fn like(&self) -> &SamplerDescription {
        &self.like
    }

    pub(crate) fn id(&self) -> SamplerId {
        self.id
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        // A lost server has dropped it already.
        let _ = self.context.connection().post(&ReleaseSampler { sampler: self.id });
    }
}
