//! Facts about this machine's drivers that no query tells. The daemon has them found out once, by a process that may hang ([`crate::probe`]), and
//! tells all workers.

use std::collections::BTreeMap;
use std::sync::Mutex;

use serde::{Deserialize, Serialize};

use super::lock::lock;

/// What is known of one driver.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DriverFact {
    /// Device and driver, by their names and versions.
    pub driver: String,
    /// Whether writes take their bytes when they are carried out, and not when they are enqueued.
    pub takes_bytes_late: bool,
}

static FACTS: Mutex<BTreeMap<String, bool>> = Mutex::new(BTreeMap::new());

/// Takes in what is known.
pub fn learn(facts: Vec<DriverFact>) {
    lock(&FACTS).extend(facts.into_iter().map(|fact| (fact.driver, fact.takes_bytes_late)));
}

/// Whether this driver's writes take their bytes when they are carried out; `None` where it is not known yet.
pub fn takes_bytes_late(driver: &str) -> Option<bool> {
    lock(&FACTS).get(driver).copied()
}
