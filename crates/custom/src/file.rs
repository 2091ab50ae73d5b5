//! The operator's file: which custom devices a server offers.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use ropeway_stream as stream;
use serde::{Deserialize, Serialize};

use crate::kind::Kind;
use crate::kinds::decoder::{self, Decoder};
use crate::kinds::draco::{self, Draco};
use crate::kinds::encoder::{self, Encoder};
use crate::kinds::functions::{self, Functions};
use crate::kinds::source::StreamSource;

/// What the file declares, in its order by kinds.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Declarations {
    /// Streams.
    #[serde(default, rename = "source")]
    pub sources: Vec<stream::Table>,
    /// Decoders of video.
    #[serde(default, rename = "decoder")]
    pub decoders: Vec<decoder::Declaration>,
    /// Encoders of video.
    #[serde(default, rename = "encoder")]
    pub encoders: Vec<encoder::Declaration>,
    /// Decoders of point clouds.
    #[serde(default, rename = "draco")]
    pub clouds: Vec<draco::Declaration>,
    /// Functions of shared libraries.
    #[serde(default)]
    pub functions: Vec<functions::Declaration>,
}

impl Declarations {
    /// Reads a file.
    ///
    /// # Errors
    /// One sentence: it cannot be read, or what is wrong in it.
    pub fn read(path: &Path) -> Result<Self, String> {
        let at = path.display();
        let text = std::fs::read_to_string(path).map_err(|error| format!("cannot read {at}: {error}"))?;
        let mut found: Self =
            toml::from_str(&text).map_err(|error| format!("{at}: {}", error.to_string().trim_end()))?;
        let folder = std::path::absolute(path).map_err(|error| format!("cannot find {at}: {error}"))?;
        for source in &mut found.sources {
            source.resolve(folder.parent().unwrap_or(Path::new("/")));
        }
        found.check().map_err(|error| format!("{at}: {error}"))?;
        Ok(found)
    }

    fn check(&self) -> Result<(), String> {
        if *self == Self::default() {
            return Err("it declares no device".to_owned());
        }
        let streams = self.streams()?;
        let names = streams
            .iter()
            .map(|stream| &stream.name)
            .chain(self.decoders.iter().map(|declared| &declared.name))
            .chain(self.encoders.iter().map(|declared| &declared.name))
            .chain(self.clouds.iter().map(|declared| &declared.name))
            .chain(self.functions.iter().map(|declared| &declared.name));
        let mut known = BTreeSet::new();
        if let Some(name) = names.into_iter().find(|name| !known.insert(*name)) {
            return Err(format!("two of its devices have the name '{name}'"));
        }
        for declared in &self.decoders {
            declared.check().map_err(|error| format!("[[decoder]] '{}': {error}", declared.name))?;
        }
        for declared in &self.encoders {
            declared.check().map_err(|error| format!("[[encoder]] '{}': {error}", declared.name))?;
        }
        for declared in &self.functions {
            declared.check().map_err(|error| format!("[[functions]] '{}': {error}", declared.name))?;
        }
        Ok(())
    }

    /// The streams, in their order.
    ///
    /// # Errors
    /// What is wrong with one: the end of a sentence that begins with the file.
    pub fn streams(&self) -> Result<Vec<stream::Declaration>, String> {
        self.sources.iter().zip(1..).map(|(table, number)| table.check(number)).collect()
    }

    /// As text for the workers' command line, which every user of the machine can read, and kernels too: without secrets.
    /// [`Declarations::from_text`] reads it.
    pub fn to_text(&self) -> String {
        let sources = self.sources.iter().map(stream::Table::without_secrets).collect();
        let public = Self { sources, ..self.clone() };
        serde_json::to_string(&public).expect("tables of text and numbers are JSON")
    }

    /// Reads what [`Declarations::to_text`] has written.
    ///
    /// # Errors
    /// One sentence: it has not.
    pub fn from_text(text: &str) -> Result<Self, String> {
        serde_json::from_str(text).map_err(|error| format!("cannot read the custom devices: {error}"))
    }

    /// The devices.
    ///
    /// # Errors
    /// One sentence.
    pub fn kinds(self) -> Result<Vec<Box<dyn Kind>>, String> {
        let mut kinds: Vec<Box<dyn Kind>> = Vec::new();
        for declared in self.streams()? {
            kinds.push(Box::new(StreamSource::new(declared)));
        }
        kinds.extend(self.decoders.into_iter().map(|declared| Box::new(Decoder::new(declared)) as Box<dyn Kind>));
        kinds.extend(self.encoders.into_iter().map(|declared| Box::new(Encoder::new(declared)) as Box<dyn Kind>));
        kinds.extend(self.clouds.into_iter().map(|declared| Box::new(Draco::new(declared)) as Box<dyn Kind>));
        for declared in self.functions {
            kinds.push(Box::new(Functions::new(declared)?));
        }
        Ok(kinds)
    }

    /// Whether only a trial tells if the machine can do what is declared: [`Kind::prove`](crate::kind::Kind::prove).
    pub fn needs_proof(&self) -> bool {
        self.decoders.iter().any(|declared| declared.hardware.is_some())
    }

    /// Whether kernels make CUDA's contexts.
    pub fn uses_cuda(&self) -> bool {
        self.decoders.iter().any(|declared| declared.hardware == Some(decoder::Hardware::Nvdec))
    }

    /// The files that workers read for these devices.
    pub fn files(&self) -> Vec<PathBuf> {
        let adaptor =
            ropeway_codec::Draco::places().into_iter().filter(|place| !self.clouds.is_empty() && place.is_file());
        self.functions.iter().map(|declared| declared.library.clone()).chain(adaptor).collect()
    }
}
