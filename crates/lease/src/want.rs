//! What a client asks for, as people write it.
//!
//! ```text
//! 2 gpu, memory>=40G
//! 2 gpu on one server, extensions has cl_khr_fp64 and 1 cpu
//! gpu, vendor~NVIDIA, share=0.25, memory=10G
//! 4 devices on different servers, max_compute_units>=16
//! ```
//!
//! A request is one or more groups with `and` between them. A group is a number of devices (1 where none is said), a
//! type or `devices`, where they have to be, and conditions behind commas. A condition is the name of a property
//! ([`crate::property`]) or a place ([`crate::place`]), an operator and a value. `memory` in a condition is `global_mem_size`; `memory=` and `share=`
//! say how much of each device is wanted.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::grant::{Share, WHOLE};
use crate::place::is_place;
use crate::property::{Properties, Value, is_known};

/// Most devices in one request.
pub const MAX_DEVICES: u32 = 4096;

/// Most groups in one request.
pub const MAX_GROUPS: usize = 32;

/// Most conditions of one group.
pub const MAX_CONDITIONS: usize = 16;

/// Longest text of a request, in bytes.
pub const MAX_TEXT: usize = 4096;

/// A request: all of these groups at once, each of other devices.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Want {
    /// The groups.
    pub groups: Vec<Group>,
}

/// Some devices that are alike.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Group {
    /// How many.
    pub count: u32,
    /// The properties of each.
    pub conditions: Vec<Condition>,
    /// Where they have to be.
    pub placement: Placement,
    /// How much of each one's time.
    pub share: Share,
    /// How many bytes of each one's memory; `None`: all, if it is wanted whole, else as much as its share.
    pub memory: Option<u64>,
}

/// Where the devices of a group have to be.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub enum Placement {
    /// Anywhere.
    #[default]
    Any,
    /// All on one server.
    OneServer,
    /// Each on another server.
    Spread,
}

/// One property that a device must have.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Condition {
    /// The property's name.
    pub property: String,
    /// How it is compared.
    pub operator: Operator,
    /// With what, as it was written.
    pub value: String,
}

/// How a property is compared with a value.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Operator {
    /// Equal; of a list, one of its values.
    Equal,
    /// Not equal; of a list, none of its values.
    Different,
    /// At least.
    AtLeast,
    /// At most.
    AtMost,
    /// More.
    More,
    /// Less.
    Less,
    /// A text that contains the value, in whatever case.
    Contains,
    /// A list that has the value.
    Has,
}

/// The operators as they are written, the longer ones first where one begins another.
const OPERATORS: [(&str, Operator); 8] = [
    (">=", Operator::AtLeast),
    ("<=", Operator::AtMost),
    ("!=", Operator::Different),
    (" has ", Operator::Has),
    ("=", Operator::Equal),
    (">", Operator::More),
    ("<", Operator::Less),
    ("~", Operator::Contains),
];

/// What people call types of devices.
const TYPES: [(&str, Option<&str>); 11] = [
    ("gpu", Some("gpu")),
    ("gpus", Some("gpu")),
    ("cpu", Some("cpu")),
    ("cpus", Some("cpu")),
    ("accelerator", Some("accelerator")),
    ("accelerators", Some("accelerator")),
    ("custom", Some("custom")),
    ("device", None),
    ("devices", None),
    ("any", None),
    ("", None),
];

/// What people call where devices have to be.
const PLACEMENTS: [(&str, Placement); 4] = [
    (" on one server", Placement::OneServer),
    (" on the same server", Placement::OneServer),
    (" on different servers", Placement::Spread),
    (" spread", Placement::Spread),
];

impl Want {
    /// How many devices in all.
    pub fn devices(&self) -> u32 {
        self.groups.iter().map(|group| group.count).sum()
    }
}

impl Group {
    /// Whether a device with these properties is one that is wanted, when all of it is free, wherever it is.
    pub fn takes(&self, properties: &Properties) -> bool {
        self.conditions.iter().all(|condition| condition.is_place() || condition.holds(properties))
            && self.memory.is_none_or(|bytes| memory_of(properties).is_some_and(|has| has >= bytes))
    }

    /// How many bytes of a device's memory its lease takes of the `all` that it has.
    pub fn memory_of(&self, all: u64) -> u64 {
        self.memory.unwrap_or_else(|| (u128::from(all) * u128::from(self.share) / u128::from(WHOLE)) as u64)
    }
}

/// The bytes of a device's memory.
pub fn memory_of(properties: &Properties) -> Option<u64> {
    match properties.get("global_mem_size") {
        Some(Value::Number(bytes)) => Some(*bytes),
        _ => None,
    }
}

impl Condition {
    /// Whether a device with these properties meets it.
    pub fn holds(&self, properties: &Properties) -> bool {
        match properties.get(&self.property) {
            Some(value) => self.operator.holds(value, &self.value),
            // What a device does not have is different from everything.
            None => self.operator == Operator::Different,
        }
    }
}

impl Operator {
    pub(crate) fn holds(self, value: &Value, wanted: &str) -> bool {
        match (self, value) {
            (Self::Different, value) => !Self::Equal.holds(value, wanted),
            (Self::Contains, Value::List(values)) => values.iter().any(|value| self.holds(value, wanted)),
            (Self::Contains, value) => value.to_string().to_lowercase().contains(&wanted.to_lowercase()),
            (Self::Equal | Self::Has, Value::List(values)) => {
                values.iter().any(|value| Self::Equal.holds(value, wanted))
            }
            (Self::AtLeast | Self::AtMost | Self::More | Self::Less, Value::List(values)) => {
                values.iter().any(|value| self.holds(value, wanted))
            }
            (Self::Equal | Self::Has, Value::Text(text)) => text.eq_ignore_ascii_case(wanted),
            (Self::Equal | Self::Has, Value::Truth(truth)) => truth_of(wanted) == Some(*truth),
            (Self::Equal | Self::Has, Value::Number(number)) => number_of(wanted) == Some(*number),
            (_, Value::Number(number)) => number_of(wanted).is_some_and(|wanted| self.orders(number, &wanted)),
            (_, Value::Text(text)) => {
                version_in(text).zip(version_in(wanted)).is_some_and(|(has, wanted)| self.orders(&has, &wanted))
            }
            (_, Value::Truth(_)) => false,
        }
    }

    fn orders<T: Ord>(self, has: &T, wanted: &T) -> bool {
        match self {
            Self::AtLeast => has >= wanted,
            Self::AtMost => has <= wanted,
            Self::More => has > wanted,
            Self::Less => has < wanted,
            Self::Equal | Self::Different | Self::Contains | Self::Has => false,
        }
    }

    fn text(self) -> &'static str {
        OPERATORS.iter().find(|(_, operator)| *operator == self).map_or("", |(text, _)| text)
    }
}

/// `true` or `false`, or a number as C has it.
fn truth_of(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "yes" | "1" => Some(true),
        "false" | "no" | "0" => Some(false),
        _ => None,
    }
}

/// A number such as `16`, `0x10DE` or `40G` (of 1,024 each).
fn number_of(text: &str) -> Option<u64> {
    let text = text.trim();
    if let Some(digits) = text.strip_prefix("0x") {
        return u64::from_str_radix(digits, 16).ok();
    }
    let (digits, shift) = match text.char_indices().next_back()? {
        (at, 'k' | 'K') => (&text[..at], 10),
        (at, 'm' | 'M') => (&text[..at], 20),
        (at, 'g' | 'G') => (&text[..at], 30),
        (at, 't' | 'T') => (&text[..at], 40),
        _ => (text, 0),
    };
    if digits.contains('.') {
        let number: f64 = digits.parse().ok().filter(|number: &f64| (0.0..1e18).contains(number))?;
        return Some((number * (1u64 << shift) as f64) as u64);
    }
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

/// The first numbers with points between them in a text: `OpenCL 3.0 PoCL 6.0` is 3.0.
fn version_in(text: &str) -> Option<Vec<u64>> {
    let start = text.find(|letter: char| letter.is_ascii_digit())?;
    let rest = &text[start..];
    let end = rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(rest.len());
    rest[..end].split('.').filter(|part| !part.is_empty()).map(|part| part.parse().ok()).collect()
}

impl FromStr for Want {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.len() > MAX_TEXT {
            return Err(format!("a request is of {MAX_TEXT} bytes at most"));
        }
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let groups: Vec<Group> = text.split(" and ").map(str::parse).collect::<Result<_, _>>()?;
        let want = Self { groups };
        if want.groups.len() > MAX_GROUPS {
            return Err(format!("a request has {MAX_GROUPS} groups at most"));
        }
        let devices: u64 = want.groups.iter().map(|group| u64::from(group.count)).sum();
        if devices > MAX_DEVICES.into() {
            return Err(format!("a request is for {MAX_DEVICES} devices at most"));
        }
        Ok(want)
    }
}

impl FromStr for Group {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut parts = text.split(',').map(str::trim);
        let head = parts.next().unwrap_or_default();
        let mut group =
            Self { count: 1, conditions: Vec::new(), placement: Placement::Any, share: WHOLE, memory: None };
        // The first part may be a condition, too.
        let is_condition = OPERATORS.iter().any(|(operator, _)| head.contains(operator));
        if is_condition {
            group.condition(head)?;
        } else {
            group.head(head)?;
        }
        parts.try_for_each(|part| group.condition(part))?;
        if group.conditions.len() > MAX_CONDITIONS {
            return Err(format!("a group has {MAX_CONDITIONS} conditions at most"));
        }
        Ok(group)
    }
}

impl Group {
    /// Takes in how many devices of which type are wanted, and where.
    fn head(&mut self, text: &str) -> Result<(), String> {
        let lower = format!(" {}", text.to_ascii_lowercase());
        let placed = PLACEMENTS.iter().find_map(|(ending, placement)| Some((lower.strip_suffix(ending)?, *placement)));
        let (rest, placement) = placed.unwrap_or((&lower, Placement::Any));
        self.placement = placement;
        let rest = rest.trim();
        let digits = rest.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(rest.len());
        if digits > 0 {
            let count = rest[..digits].parse().ok().filter(|count| (1..=MAX_DEVICES).contains(count));
            self.count = count.ok_or_else(|| format!("'{text}': from 1 to {MAX_DEVICES} devices can be asked for"))?;
        }
        let kind = rest[digits..].trim();
        let known = TYPES.iter().find(|(name, _)| *name == kind && !rest.is_empty());
        let (_, kind) = known.ok_or_else(|| {
            format!("'{text}' is not a number of devices and a type, as in '2 gpu', nor a condition, as in memory>=40G")
        })?;
        if let Some(kind) = kind {
            let value = (*kind).to_owned();
            self.conditions.push(Condition { property: "type".to_owned(), operator: Operator::Equal, value });
        }
        Ok(())
    }

    /// Takes in a condition, or how much of a device is wanted.
    fn condition(&mut self, text: &str) -> Result<(), String> {
        let wrong = |why: &str| format!("'{text}' is not a condition: {why}");
        let found = OPERATORS.iter().filter_map(|(written, operator)| Some((text.find(written)?, *written, *operator)));
        // The first in the text counts, as a value may contain others; of two at one place, the longer.
        let first = found.min_by_key(|(at, written, _)| (*at, std::cmp::Reverse(written.len())));
        let (at, written, operator) =
            first.ok_or_else(|| wrong("it has no operator; there are = != >= <= > < ~ and has"))?;
        let (name, value) = (text[..at].trim().to_ascii_lowercase(), text[at + written.len()..].trim());
        if value.is_empty() {
            return Err(wrong("it has no value"));
        }
        match (name.as_str(), operator) {
            ("share", Operator::Equal) => {
                let share: Option<f64> = value.parse().ok().filter(|share| (0.001..=1.0).contains(share));
                let share = share.ok_or_else(|| wrong("a share is from 0.001 to 1"))?;
                self.share = (share * f64::from(WHOLE)).round() as Share;
                return Ok(());
            }
            ("memory", Operator::Equal) => {
                let bytes = number_of(value).filter(|bytes| *bytes > 0);
                self.memory = Some(bytes.ok_or_else(|| wrong("its value is not a size, such as 10G"))?);
                return Ok(());
            }
            _ => {}
        }
        let property = if name == "memory" { "global_mem_size".to_owned() } else { name };
        if !is_known(&property) && !is_place(&property) {
            return Err(wrong(&format!(
                "'{property}' is not a property of devices; they are named as in clGetDeviceInfo: global_mem_size, name, extensions; or server and device"
            )));
        }
        self.conditions.push(Condition { property, operator, value: value.to_owned() });
        Ok(())
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}{}", self.property, self.operator.text(), self.value)
    }
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.count, if self.count == 1 { "device" } else { "devices" })?;
        match self.placement {
            Placement::Any => {}
            Placement::OneServer => f.write_str(" on one server")?,
            Placement::Spread => f.write_str(" on different servers")?,
        }
        self.conditions.iter().try_for_each(|condition| write!(f, ", {condition}"))?;
        if self.share != WHOLE {
            write!(f, ", share={}", f64::from(self.share) / f64::from(WHOLE))?;
        }
        self.memory.map_or(Ok(()), |bytes| write!(f, ", memory={bytes}"))
    }
}

impl fmt::Display for Want {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, group) in self.groups.iter().enumerate() {
            let between = if index > 0 { " and " } else { "" };
            write!(f, "{between}{group}")?;
        }
        Ok(())
    }
}

impl Serialize for Want {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Want {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn h200() -> Properties {
        let json = r#"{"type":["gpu"],"global_mem_size":161061273600,"name":"NVIDIA H200","vendor":"NVIDIA Corporation",
            "extensions":["cl_khr_fp64","cl_khr_icd"],"version":"OpenCL 3.0 CUDA","image_support":true,
            "driver_version":"580.159.03","vendor_id":4318,"max_work_item_sizes":[1024,1024,64]}"#;
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn requests_are_read_as_people_write_them() {
        for (text, expected) in [
            ("gpu", "1 device, type=gpu"),
            ("2 GPUs  on one server and 1 CPU", "2 devices on one server, type=gpu and 1 device, type=cpu"),
            ("2 gpu, memory>=40G", "2 devices, type=gpu, global_mem_size>=40G"),
            ("vendor~NVIDIA", "1 device, vendor~NVIDIA"),
            (
                "4 devices on different servers, extensions has cl_khr_fp64",
                "4 devices on different servers, extensions has cl_khr_fp64",
            ),
            ("type=gpu, share=0.25, memory=10G", "1 device, type=gpu, share=0.25, memory=10737418240"),
            ("3", "3 devices"),
        ] {
            let want: Want = text.parse().unwrap();
            assert_eq!(want.to_string(), expected);
            assert_eq!(expected.parse(), Ok(want), "{text} printed");
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, what) in [
            ("", "'' is not a number of devices"),
            ("0 gpu", "from 1 to 4096"),
            ("2 tpu", "'2 tpu' is not a number of devices and a type"),
            ("gpu, colour=red", "'colour' is not a property"),
            ("gpu, memory", "no operator"),
            ("gpu, memory>=", "no value"),
            ("gpu, share=2", "a share is from"),
            ("gpu, share=NaN", "a share is from"),
            ("gpu, memory=much", "not a size"),
            ("4000 gpu and 4000 cpu", "4096 devices at most"),
            ("gpu and", "is not a number of devices"),
        ] {
            let error = text.parse::<Want>().unwrap_err();
            assert!(error.contains(what), "{text}: {error}");
        }
        assert!(vec!["gpu"; MAX_GROUPS + 1].join(" and ").parse::<Want>().is_err());
        assert!("x".repeat(5000).parse::<Want>().is_err());
    }

    #[test]
    fn devices_are_compared_with_conditions() {
        for (condition, holds) in [
            ("memory>=40G", true),
            ("memory>=150G", true),
            ("memory>150G", false),
            ("global_mem_size<1T", true),
            ("type=gpu", true),
            ("type=cpu", false),
            ("type!=cpu", true),
            ("vendor~nvidia", true),
            ("name=nvidia h200", true),
            ("extensions has cl_khr_fp64", true),
            ("extensions has cl_khr_fp16", false),
            ("version>=3.0", true),
            ("version>=3.1", false),
            ("driver_version>=580.65", true),
            ("image_support=true", true),
            ("image_support=0", false),
            ("vendor_id=0x10de", true),
            ("max_work_item_sizes>=1024", true),
            ("max_compute_units>=1", false),
            ("il_version!=x", true),
            ("memory=10G", true),
            ("memory=200G", false),
        ] {
            let group: Group = condition.parse().unwrap();
            assert_eq!(group.takes(&h200()), holds, "{condition}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "[ -~]{0,60}") {
            if let Ok(want) = text.parse::<Want>() {
                prop_assert_eq!(want.to_string().parse(), Ok(want.clone()));
                prop_assert!(want.devices() <= MAX_DEVICES);
            }
        }
    }
}
