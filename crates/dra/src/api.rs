//! The cluster's API server.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use ureq::Agent;
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};

use crate::DraError;
use crate::objects::{Claim, List, Slice, VERSION};
use crate::slices::Plan;

/// Where Kubernetes puts what a pod needs to speak to the API server.
const ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// How long the API server has for an answer.
const ANSWER: Duration = Duration::from_secs(15);

/// Longest answer, in bytes.
const MAX_ANSWER: u64 = 64 << 20;

/// How the API server is reached; what is not said is as pods have it.
#[derive(Clone, Debug, Default)]
pub struct ApiOptions {
    /// `https://host:port` or `http://host:port`.
    pub server: Option<String>,
    /// The file with the certificates of who signs for it.
    pub authority: Option<PathBuf>,
    /// The file with the token that it is shown.
    pub token: Option<PathBuf>,
}

/// An API server.
#[derive(Clone, Debug)]
pub struct Cluster {
    agent: Agent,
    server: String,
    /// The file is read for each request: Kubernetes replaces it.
    token: Option<PathBuf>,
}

/// A name that the API server gives objects is a part of URLs.
fn is_name(text: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-' || byte == b'.';
    !text.is_empty() && !text.starts_with('.') && text.bytes().all(is_letter)
}

impl Cluster {
    /// Prepares to use it.
    ///
    /// # Errors
    /// It is not known where it is, or its authority's file cannot be read.
    pub fn new(options: &ApiOptions) -> Result<Self, DraError> {
        let is_pod = options.server.is_none();
        let server = match &options.server {
            Some(server) => server.trim_end_matches('/').to_owned(),
            None => in_cluster()?,
        };
        let of_pod = |name: &str| is_pod.then(|| Path::new(ACCOUNT).join(name));
        let authority = options.authority.clone().or_else(|| of_pod("ca.crt"));
        let mut tls = TlsConfig::builder()
            .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()));
        match authority {
            Some(path) => {
                let wrong = |why: String| DraError::new(format!("cannot use the authority {}: {why}", path.display()));
                let bytes = std::fs::read(&path).map_err(|error| wrong(error.to_string()))?;
                let roots: Vec<Certificate<'static>> = parse_pem(&bytes)
                    .filter_map(|item| match item {
                        Ok(PemItem::Certificate(certificate)) => Some(certificate),
                        _ => None,
                    })
                    .collect();
                if roots.is_empty() {
                    return Err(wrong("it has no certificate".to_owned()));
                }
                tls = tls.root_certs(RootCerts::Specific(Arc::new(roots)));
            }
            None if server.starts_with("https:") => {
                return Err(DraError::new("say by --api-ca who signs for the API server"));
            }
            None => {}
        }
        let agent = Agent::config_builder()
            .timeout_global(Some(ANSWER))
            .http_status_as_error(false)
            .proxy(None)
            .tls_config(tls.build());
        Ok(Self { agent: agent.build().into(), server, token: options.token.clone().or_else(|| of_pod("token")) })
    }

    /// The claim of this name.
    pub(crate) fn claim(&self, namespace: &str, name: &str) -> Result<Claim, DraError> {
        if !is_name(namespace) || !is_name(name) {
            return Err(DraError::new(format!("'{namespace}/{name}' is not the name of a claim")));
        }
        self.ask("GET", &format!("namespaces/{namespace}/resourceclaims/{name}"), None)
            .map_err(|why| DraError::new(format!("cannot read the claim {namespace}/{name}: {why}")))
    }

    /// The slices of a driver.
    pub(crate) fn slices(&self, driver: &str) -> Result<Vec<Slice>, DraError> {
        let list = self.ask("GET", &format!("resourceslices?fieldSelector=spec.driver%3D{driver}"), None);
        list.map(|list: List<Slice>| list.items)
            .map_err(|why| DraError::new(format!("cannot list the ResourceSlices of {driver}: {why}")))
    }

    /// Does what is planned; what has changed meanwhile is seen by the next plan.
    pub(crate) fn carry_out(&self, plan: &Plan) -> Result<(), DraError> {
        let wrong = |why: String| DraError::new(format!("cannot write a ResourceSlice: {why}"));
        let body = |slice: &Slice| json!({"apiVersion": VERSION, "kind": "ResourceSlice", "metadata": slice.metadata, "spec": slice.spec});
        for slice in &plan.replace {
            self.ask::<Value>("PUT", &format!("resourceslices/{}", slice.name()), Some(body(slice))).map_err(wrong)?;
        }
        for slice in &plan.create {
            self.ask::<Value>("POST", "resourceslices", Some(body(slice))).map_err(wrong)?;
        }
        for name in &plan.delete {
            self.ask::<Value>("DELETE", &format!("resourceslices/{name}"), None).map_err(wrong)?;
        }
        Ok(())
    }

    /// Asks for something of the group; says in a part of a sentence why there is no answer.
    fn ask<T: DeserializeOwned>(&self, method: &str, what: &str, body: Option<Value>) -> Result<T, String> {
        let url = format!("{}/apis/{VERSION}/{what}", self.server);
        let mut request = ureq::http::Request::builder().method(method).uri(url).header("Accept", "application/json");
        if let Some(path) = &self.token {
            let token = std::fs::read_to_string(path)
                .map_err(|error| format!("its token {} cannot be read: {error}", path.display()))?;
            request = request.header("Authorization", format!("Bearer {}", token.trim()));
        }
        let wrong = |error: ureq::Error| format!("the API server {}: {error}", self.server);
        let answered = match body {
            Some(body) => {
                let request = request.header("Content-Type", "application/json").body(body.to_string());
                self.agent.run(request.map_err(|error| error.to_string())?)
            }
            None => self.agent.run(request.body(()).map_err(|error| error.to_string())?),
        };
        let mut response = answered.map_err(wrong)?;
        let status = response.status();
        let answer = response.body_mut().with_config().limit(MAX_ANSWER).read_to_vec().map_err(wrong)?;
        if !status.is_success() {
            // A Status says in its message what was wrong.
            let said: Option<Value> = serde_json::from_slice(&answer).ok();
            let said = said.and_then(|said| Some(said["message"].as_str()?.to_owned()));
            return Err(said.unwrap_or_else(|| format!("the API server {} answers {status}", self.server)));
        }
        serde_json::from_slice(&answer).map_err(|error| format!("its answer cannot be read: {error}"))
    }
}

fn in_cluster() -> Result<String, DraError> {
    let variable = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
    let (host, port) = (variable("KUBERNETES_SERVICE_HOST"), variable("KUBERNETES_SERVICE_PORT"));
    let (Some(host), Some(port)) = (host, port) else {
        return Err(DraError::new(
            "this is no pod of a cluster; say where the API server is with --api-server, such as that of `kubectl proxy`",
        ));
    };
    Ok(if host.contains(':') { format!("https://[{host}]:{port}") } else { format!("https://{host}:{port}") })
}
