//! What a session may use of its machine.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use ropeway_abi as cl;
use serde::{Deserialize, Serialize};

/// What the daemon allows one session.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Allowance {
    /// The devices that it sees: those that one of these names. `None`: all.
    pub devices: Option<Vec<DeviceSelector>>,
    /// The most bytes of buffers that all sessions of its client may have together. `None`: as many as the server's
    /// options say.
    pub memory: Option<u64>,
    /// The most live objects that all sessions of its client may have together. `None`: as many as any session.
    pub objects: Option<u64>,
    /// How long a kernel may run. `None`: for ever.
    pub kernel_time: Option<Duration>,
    /// How long a build, compilation or link may take. `None`: for ever.
    pub build_time: Option<Duration>,
    /// The name of the client whose rules these are, as the daemon fills it in for a session.
    pub client: Option<String>,
}

impl Allowance {
    /// Whether the session sees the custom device of this number and name.
    pub fn has_custom(&self, number: u32, name: &str) -> bool {
        let selects = |selector: &DeviceSelector| selector.selects(number, cl::CL_DEVICE_TYPE_CUSTOM, name);
        self.devices.as_ref().is_none_or(|devices| devices.iter().any(selects))
    }
}

/// One or more devices of a machine, as access rules name them.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum DeviceSelector {
    /// The device of this number, in the order in which the server lists all its devices, from 0.
    Number(u32),
    /// All devices of this type: `cpu`, `gpu`, `accelerator` or `custom`.
    Type(u64),
    /// All devices whose names contain this, in whatever case.
    Name(String),
}

/// The names of types.
const TYPES: [(&str, u64); 4] = [
    ("cpu", cl::CL_DEVICE_TYPE_CPU),
    ("gpu", cl::CL_DEVICE_TYPE_GPU),
    ("accelerator", cl::CL_DEVICE_TYPE_ACCELERATOR),
    ("custom", cl::CL_DEVICE_TYPE_CUSTOM),
];

impl DeviceSelector {
    /// Whether it names the device of this number, type and name.
    pub fn selects(&self, number: u32, device_type: u64, name: &str) -> bool {
        match self {
            Self::Number(wanted) => *wanted == number,
            Self::Type(wanted) => device_type & wanted != 0,
            Self::Name(part) => name.to_lowercase().contains(&part.to_lowercase()),
        }
    }
}

impl FromStr for DeviceSelector {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if text.is_empty() {
            return Err(
                "a device is named by its number, by cpu, gpu, accelerator or custom, or by a part of its name".into(),
            );
        }
        if let Ok(number) = text.parse() {
            return Ok(Self::Number(number));
        }
        let of_type = TYPES.iter().find(|(name, _)| name.eq_ignore_ascii_case(text));
        Ok(of_type.map_or_else(|| Self::Name(text.to_owned()), |(_, wanted)| Self::Type(*wanted)))
    }
}

impl fmt::Display for DeviceSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Type(wanted) => {
                f.write_str(TYPES.iter().find(|(_, bits)| bits == wanted).map_or("?", |(name, _)| name))
            }
            Self::Name(part) => f.write_str(part),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_are_numbers_types_or_parts_of_names() {
        let gpu = cl::CL_DEVICE_TYPE_GPU | cl::CL_DEVICE_TYPE_DEFAULT;
        for (text, expected) in
            [("1", true), ("0", false), ("GPU", true), ("cpu", false), ("h200", true), ("A100", false)]
        {
            let selector: DeviceSelector = text.parse().unwrap();
            assert_eq!(selector.selects(1, gpu, "NVIDIA H200"), expected, "{text}");
            assert_eq!(selector.to_string().parse(), Ok(selector));
        }
        assert!(" ".parse::<DeviceSelector>().is_err());
    }
}
