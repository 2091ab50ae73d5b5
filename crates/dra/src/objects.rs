//! The objects of the cluster that the driver reads and writes, as far as it does (resource.k8s.io/v1).
//!
//! They are written by hand. Kubernetes's client for Rust (`kube`, `k8s-openapi`) was tried: for the five calls that the
//! driver makes it brings all kinds of objects, readers of YAML and of JSONPath and the platform's stores of certificates,
//! some 60 more packages, and minutes more of building for everybody who builds Ropeway.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The group and version of all of them.
pub const VERSION: &str = "resource.k8s.io/v1";

/// Most devices of one slice (ResourceSliceMaxDevices).
pub const MAX_DEVICES: usize = 128;

/// Most bytes of an attribute's text (DeviceAttributeMaxValueLength).
pub const MAX_TEXT: usize = 64;

/// Several objects.
#[derive(Debug, Deserialize)]
pub struct List<T> {
    /// The objects.
    pub items: Vec<T>,
}

/// A ResourceSlice: some devices of a pool.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Slice {
    /// Its name, its version and what others have added, which is sent back as it was.
    pub metadata: Value,
    /// What it says.
    pub spec: SliceSpec,
}

impl Slice {
    /// Its name.
    pub fn name(&self) -> &str {
        self.metadata["name"].as_str().unwrap_or_default()
    }
}

/// What a ResourceSlice says.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SliceSpec {
    /// The driver.
    pub driver: String,
    /// The pool.
    pub pool: Pool,
    /// Whether all nodes reach the devices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub all_nodes: Option<bool>,
    /// Else, which nodes do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_selector: Option<Value>,
    /// The devices.
    #[serde(default)]
    pub devices: Vec<Device>,
}

/// The pool of a slice, as it is at one time.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Pool {
    /// Its name.
    pub name: String,
    /// Counted up whenever anything about the pool changes.
    pub generation: i64,
    /// How many slices it has.
    pub resource_slice_count: usize,
}

/// A device of a slice.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Device {
    /// Its name: one label of the DNS.
    pub name: String,
    /// What claims can ask for.
    #[serde(default)]
    pub attributes: BTreeMap<String, Attribute>,
    /// How much of what it has.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub capacity: BTreeMap<String, Capacity>,
}

/// An attribute of a device.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Attribute {
    /// A text.
    String(String),
    /// A number.
    Int(i64),
    /// Whether.
    Bool(bool),
    /// A semantic version.
    Version(String),
}

/// A capacity of a device.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Capacity {
    /// A quantity, such as `80Gi`.
    pub value: String,
}

/// A ResourceClaim.
#[derive(Debug, Deserialize)]
pub struct Claim {
    /// Which it is.
    pub metadata: ClaimMetadata,
    /// What has come of it.
    #[serde(default)]
    pub status: ClaimStatus,
}

/// Which claim.
#[derive(Debug, Deserialize)]
pub struct ClaimMetadata {
    /// What tells it from another of the same name.
    pub uid: String,
}

/// What has come of a claim.
#[derive(Default, Debug, Deserialize)]
pub struct ClaimStatus {
    /// What the scheduler has given it.
    #[serde(default)]
    pub allocation: Option<Allocation>,
}

/// What the scheduler has given a claim.
#[derive(Debug, Deserialize)]
pub struct Allocation {
    /// The devices.
    #[serde(default)]
    pub devices: AllocatedDevices,
}

/// Devices that the scheduler has given a claim.
#[derive(Default, Debug, Deserialize)]
pub struct AllocatedDevices {
    /// One each.
    #[serde(default)]
    pub results: Vec<Allocated>,
}

/// A device that the scheduler has given a claim.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Allocated {
    /// The request of the claim that it is for.
    pub request: String,
    /// The driver.
    pub driver: String,
    /// The pool.
    pub pool: String,
    /// Its name.
    pub device: String,
    /// Whether it is given for administration, beside who has it.
    #[serde(default)]
    pub admin_access: Option<bool>,
}
