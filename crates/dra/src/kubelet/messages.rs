//! What kubelet and its plug-ins say to each other: the messages of two protocols of Kubernetes, as gRPC has them.
//!
//! Written by hand after `k8s.io/kubelet/pkg/apis/pluginregistration/v1/api.proto` and
//! `k8s.io/kubelet/pkg/apis/dra/v1/api.proto` (1.35), so that no protocol compiler is needed to build Ropeway. The fields'
//! numbers are theirs.

use std::collections::HashMap;

/// `pluginregistration.InfoRequest`: kubelet asks what a plug-in is.
#[derive(Clone, PartialEq, prost::Message)]
pub struct InfoRequest {}

/// `pluginregistration.PluginInfo`: what it is.
#[derive(Clone, PartialEq, prost::Message)]
pub struct PluginInfo {
    /// Of a driver for Dynamic Resource Allocation: `DRAPlugin`.
    #[prost(string, tag = "1")]
    pub r#type: String,
    /// The driver's name.
    #[prost(string, tag = "2")]
    pub name: String,
    /// The socket at which it serves.
    #[prost(string, tag = "3")]
    pub endpoint: String,
    /// The services that it has there, such as `v1.DRAPlugin`.
    #[prost(string, repeated, tag = "4")]
    pub supported_versions: Vec<String>,
}

/// `pluginregistration.RegistrationStatus`: whether kubelet takes it.
#[derive(Clone, PartialEq, prost::Message)]
pub struct RegistrationStatus {
    /// It does.
    #[prost(bool, tag = "1")]
    pub plugin_registered: bool,
    /// Why it does not.
    #[prost(string, tag = "2")]
    pub error: String,
}

/// `pluginregistration.RegistrationStatusResponse`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct RegistrationStatusResponse {}

/// `dra.v1.Claim`: which claim.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct Claim {
    /// Its namespace.
    #[prost(string, tag = "1")]
    pub namespace: String,
    /// What tells it from another of the same name, earlier or later.
    #[prost(string, tag = "2")]
    pub uid: String,
    /// Its name.
    #[prost(string, tag = "3")]
    pub name: String,
}

/// `dra.v1.NodePrepareResourcesRequest`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct PrepareRequest {
    /// The claims of a pod that is to start.
    #[prost(message, repeated, tag = "1")]
    pub claims: Vec<Claim>,
}

/// `dra.v1.NodePrepareResourcesResponse`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct PrepareResponse {
    /// For each claim, by its UID.
    #[prost(map = "string, message", tag = "1")]
    pub claims: HashMap<String, Prepared>,
}

/// `dra.v1.NodePrepareResourceResponse`: one claim.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Prepared {
    /// Its devices.
    #[prost(message, repeated, tag = "1")]
    pub devices: Vec<Device>,
    /// Why there are none, if it says anything.
    #[prost(string, tag = "2")]
    pub error: String,
}

/// `dra.v1.Device`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Device {
    /// The requests of the claim for which it is.
    #[prost(string, repeated, tag = "1")]
    pub request_names: Vec<String>,
    /// Its pool.
    #[prost(string, tag = "2")]
    pub pool_name: String,
    /// Its name there.
    #[prost(string, tag = "3")]
    pub device_name: String,
    /// What the container runtime is to give to containers.
    #[prost(string, repeated, tag = "4")]
    pub cdi_device_ids: Vec<String>,
    /// Which part of a device that is shared.
    #[prost(string, optional, tag = "5")]
    pub share_id: Option<String>,
}

/// `dra.v1.NodeUnprepareResourcesRequest`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct UnprepareRequest {
    /// The claims of a pod that has ended.
    #[prost(message, repeated, tag = "1")]
    pub claims: Vec<Claim>,
}

/// `dra.v1.NodeUnprepareResourcesResponse`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct UnprepareResponse {
    /// For each claim, by its UID.
    #[prost(map = "string, message", tag = "1")]
    pub claims: HashMap<String, Unprepared>,
}

/// `dra.v1.NodeUnprepareResourceResponse`: one claim.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Unprepared {
    /// Why it is not done, if it says anything.
    #[prost(string, tag = "1")]
    pub error: String,
}

/// The calls of both services.
pub mod path {
    /// `Registration.GetInfo`: [`super::InfoRequest`] to [`super::PluginInfo`].
    pub const GET_INFO: &str = "/pluginregistration.Registration/GetInfo";
    /// `Registration.NotifyRegistrationStatus`: [`super::RegistrationStatus`] to [`super::RegistrationStatusResponse`].
    pub const NOTIFY: &str = "/pluginregistration.Registration/NotifyRegistrationStatus";
    /// `DRAPlugin.NodePrepareResources`: [`super::PrepareRequest`] to [`super::PrepareResponse`].
    pub const PREPARE: &str = "/k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin/NodePrepareResources";
    /// `DRAPlugin.NodeUnprepareResources`: [`super::UnprepareRequest`] to [`super::UnprepareResponse`].
    pub const UNPREPARE: &str = "/k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin/NodeUnprepareResources";
}

#[cfg(test)]
mod tests {
    use prost::Message as _;

    use super::*;

    #[test]
    fn messages_are_as_their_protocols_have_them() {
        let info = PluginInfo {
            r#type: "DRAPlugin".into(),
            name: "r".into(),
            endpoint: "/s".into(),
            supported_versions: vec!["v1.DRAPlugin".into()],
        };
        // Each field: its number and kind (2: of a length), its length, its bytes.
        assert_eq!(info.encode_to_vec(), b"\x0a\x09DRAPlugin\x12\x01r\x1a\x02/s\x22\x0cv1.DRAPlugin");
        let status = RegistrationStatus { plugin_registered: true, error: String::new() };
        assert_eq!(status.encode_to_vec(), b"\x08\x01");
        let request = PrepareRequest::decode(&b"\x0a\x0c\x0a\x02ns\x12\x03uid\x1a\x01n"[..]).unwrap();
        assert_eq!(request.claims, [Claim { namespace: "ns".into(), uid: "uid".into(), name: "n".into() }]);
        let device = Device {
            request_names: vec!["r".into()],
            pool_name: "p".into(),
            device_name: "d".into(),
            cdi_device_ids: vec!["c".into()],
            share_id: None,
        };
        let prepared = Prepared { devices: vec![device], error: String::new() };
        let response = PrepareResponse { claims: [("u".into(), prepared)].into() };
        // A map is a list of entries with a key (1) and a value (2).
        assert_eq!(response.encode_to_vec(), b"\x0a\x13\x0a\x01u\x12\x0e\x0a\x0c\x0a\x01r\x12\x01p\x1a\x01d\x22\x01c");
        let failed = UnprepareResponse { claims: [("u".into(), Unprepared { error: "e".into() })].into() };
        assert_eq!(failed.encode_to_vec(), b"\x0a\x08\x0a\x01u\x12\x03\x0a\x01e");
    }
}
