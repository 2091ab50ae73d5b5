//! The native OpenCL implementations that tests run on: PoCL, and those that `scripts/natives.sh` installs.
//!
//! Tests name the one that they want: they do not see what else is registered on this machine.

use std::fs;
use std::path::PathBuf;

use crate::places::{kept, target};

/// A native implementation.
#[derive(Clone, Debug)]
pub struct Native {
    /// As `scripts/natives.sh` names it.
    pub name: String,
    env: Vec<(String, String)>,
}

impl Native {
    /// PoCL, which is the system's.
    ///
    /// # Panics
    /// When it is not installed.
    pub fn pocl() -> Self {
        let vendors = kept("natives/pocl/vendors");
        let (registered, ours) = ("/etc/OpenCL/vendors/pocl.icd", vendors.join("native.icd"));
        let library =
            fs::read(registered).unwrap_or_else(|error| panic!("PoCL is not installed: {registered}: {error}"));
        // Several tests, also of one process, may do this at once, and none may find half a file.
        if fs::read(&ours).ok().as_ref() != Some(&library) {
            let mine = ours.with_extension(format!("{}-{:?}", std::process::id(), std::thread::current().id()));
            fs::write(&mine, library).expect("a file can be made");
            fs::rename(&mine, &ours).expect("a file can be renamed");
        }
        Self { name: "pocl".to_owned(), env: vec![vendors_at(vendors)] }
    }

    /// The one with this name.
    ///
    /// # Panics
    /// When it is not installed.
    pub fn named(name: &str) -> Self {
        if name == "pocl" {
            return Self::pocl();
        }
        let folder = target().join("e2e/natives").join(name);
        let listed = fs::read_to_string(folder.join("env"));
        let listed = listed.unwrap_or_else(|_| panic!("{name} is not installed: run scripts/natives.sh {name} first"));
        let variables = listed.lines().filter_map(|line| line.split_once('='));
        let mut env: Vec<_> = variables.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        env.push(vendors_at(folder.join("vendors")));
        Self { name: name.to_owned(), env }
    }

    /// Those that this run of the tests is for: `ROPEWAY_NATIVES`, with commas between them, or PoCL and Intel's.
    pub fn chosen() -> Vec<Self> {
        Self::chosen_or("pocl,intel")
    }

    /// Those of `ROPEWAY_NATIVES`, or these: for tests that take too long to run on several each time.
    pub fn chosen_or(names: &str) -> Vec<Self> {
        let names = std::env::var("ROPEWAY_NATIVES").unwrap_or_else(|_| names.to_owned());
        names.split(',').map(Self::named).collect()
    }

    /// Those of [`Self::chosen`] that are not PoCL, on which the other tests run.
    pub fn others() -> Vec<Self> {
        Self::chosen().into_iter().filter(|native| native.name != "pocl").collect()
    }

    /// The variables by which programs and servers find it, and nothing else.
    pub fn env(&self) -> Vec<(&str, &str)> {
        self.env.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect()
    }

    /// The folder with its `.icd` file.
    pub fn vendors(&self) -> PathBuf {
        let found = self.env.iter().find(|(name, _)| name == VENDORS);
        found.map(|(_, folder)| folder.into()).expect("each has one")
    }
}

const VENDORS: &str = "OCL_ICD_VENDORS";

fn vendors_at(folder: PathBuf) -> (String, String) {
    (VENDORS.to_owned(), folder.into_os_string().into_string().expect("the target folder's path is UTF-8"))
}
