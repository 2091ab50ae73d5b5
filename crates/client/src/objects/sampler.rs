//! Samplers.

use std::sync::Arc;

use ropeway_protocol::ids::SamplerId;
use ropeway_protocol::image::SamplerDescription;
use ropeway_protocol::messages::{CreateSampler, ReleaseSampler, SamplerStatus};

use crate::base::ids::new_id;
use crate::base::status::Result;
use crate::objects::context::Context;
use crate::objects::home::{CreatedIn, Home, in_each};

/// A sampler.
#[derive(Debug)]
pub struct Sampler {
    id: u64,
    context: Arc<Context>,
    made: CreatedIn,
    like: SamplerDescription,
}

impl Sampler {
    /// Makes a sampler.
    ///
    /// # Errors
    /// [`crate::SERVER_LOST`].
    pub fn new(context: &Arc<Context>, like: SamplerDescription) -> Result<Arc<Self>> {
        let sampler = Self { id: new_id(), context: Arc::clone(context), made: CreatedIn::default(), like };
        if let Some(home) = context.only_home() {
            sampler.ensure(home)?;
        }
        Ok(Arc::new(sampler))
    }

    /// Has it made in a home where it was not yet.
    ///
    /// # Errors
    /// [`crate::SERVER_LOST`].
    pub(crate) fn ensure(&self, home: &Home) -> Result<()> {
        let create = CreateSampler { sampler: self.id(home), context: home.context(), like: self.like };
        self.made.ensure(home, || home.connection().post(&create))
    }

    /// Asks the servers whether it could be made, where the client cannot tell: success in one home is enough, as a
    /// native context with several devices needs only one that has it.
    ///
    /// # Errors
    /// The status of the native call, or [`crate::SERVER_LOST`].
    pub fn confirm(&self) -> Result<()> {
        let asked = in_each(self.context.all_homes(), |home| {
            self.ensure(home)?;
            home.connection().call(&SamplerStatus { sampler: self.id(home) })
        });
        asked.into_iter().reduce(Result::or).unwrap_or(Ok(()))
    }

    /// How it samples.
    pub fn like(&self) -> &SamplerDescription {
        &self.like
    }

    /// Its name in a home.
    pub(crate) fn id(&self, home: &Home) -> SamplerId {
        SamplerId(home.name(self.id))
    }

    /// Its name in this process: the same in all homes.
    pub(crate) fn name(&self) -> u64 {
        self.id
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        for home in self.made.among(self.context.homes()) {
            // A lost server has dropped it already.
            let _ = home.connection().post(&ReleaseSampler { sampler: self.id(home) });
        }
    }
}
