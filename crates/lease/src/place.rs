//! Where a device is, as conditions of a request name it: `server=rack7, device=0`.
//!
//! These are no properties of devices: two devices that say the same of themselves are at different places.

use crate::property::Value;
use crate::want::{Condition, Group, Operator};

/// The server's name, or its public key as text.
pub const SERVER: &str = "server";

/// The device's number, in the order in which its server lists all its devices, from 0.
pub const DEVICE: &str = "device";

/// Whether a condition on this is about where a device is.
pub fn is_place(name: &str) -> bool {
    name == SERVER || name == DEVICE
}

impl Condition {
    /// Whether it is about where a device is.
    pub fn is_place(&self) -> bool {
        is_place(&self.property)
    }

    /// Whether a server with this name and key meets it, as far as it is about servers.
    pub fn holds_for_server(&self, name: &str, key: &str) -> bool {
        if self.property != SERVER {
            return true;
        }
        // A key is written exactly; a name in whatever case, as all texts.
        let is_key = self.value == key;
        match self.operator {
            Operator::Equal => is_key || name.eq_ignore_ascii_case(&self.value),
            Operator::Different => !is_key && !name.eq_ignore_ascii_case(&self.value),
            operator => operator.holds(&Value::Text(name.to_owned()), &self.value),
        }
    }

    /// Whether a server's device with this number meets it, as far as it is about numbers.
    pub fn holds_for_device(&self, number: u32) -> bool {
        self.property != DEVICE || self.operator.holds(&Value::Number(number.into()), &self.value)
    }
}

impl Group {
    /// Whether any of its conditions is about where devices are.
    pub fn names_places(&self) -> bool {
        self.conditions.iter().any(Condition::is_place)
    }

    /// Whether its devices may be on this server.
    pub fn takes_server(&self, name: &str, key: &str) -> bool {
        self.conditions.iter().all(|condition| condition.holds_for_server(name, key))
    }

    /// Whether its devices may have this number.
    pub fn takes_device(&self, number: u32) -> bool {
        self.conditions.iter().all(|condition| condition.holds_for_device(number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_compared_with_conditions() {
        for (text, holds) in [
            ("server=rack7", true),
            ("server=Rack7, device=1", true),
            ("server=AtJJ", true),
            ("server=atjj", false),
            ("server!=rack7", false),
            ("server!=AtJJ", false),
            ("server!=rack8", true),
            ("server~rack", true),
            ("server~AtJJ", false),
            ("device=1", true),
            ("device=0", false),
            ("device>=1, device<3", true),
            ("device!=1", false),
            ("device=one", false),
            ("gpu", true),
        ] {
            let group: Group = text.parse().unwrap();
            assert_eq!(group.takes_server("rack7", "AtJJ") && group.takes_device(1), holds, "{text}");
            assert_eq!(group.names_places(), text != "gpu");
            // What a device says of itself has nothing to do with that.
            assert!(text == "gpu" || group.takes(&crate::property::Properties::new()), "{text}");
        }
    }
}
