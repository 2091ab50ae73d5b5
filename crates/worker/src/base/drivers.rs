//! Facts about this machine's drivers that no query reveals. The daemon has them determined once, by a process that may
//! hang ([`crate::probe`]), and passes them to all workers.

use std::collections::BTreeMap;
use std::sync::Mutex;

use serde::{Deserialize, Serialize};

use super::lock::lock;

/// The probe's answers about one driver.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DriverFact {
    /// The names and versions of the device and the driver.
    pub driver: String,
    /// Whether writes read their source bytes when they are carried out, not when they are enqueued.
    pub takes_bytes_late: bool,
}

static FACTS: Mutex<BTreeMap<String, bool>> = Mutex::new(BTreeMap::new());

/// Stores the known facts.
pub fn learn(facts: Vec<DriverFact>) {
    lock(&FACTS).extend(facts.into_iter().map(|fact| (fact.driver, fact.takes_bytes_late)));
}

/// Whether this driver's writes read their source bytes when they are carried out; `None` if it is not known yet.
pub fn takes_bytes_late(driver: &str) -> Option<bool> {
    lock(&FACTS).get(driver).copied()
}
