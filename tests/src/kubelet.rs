//! A kubelet and an API server that are none, as `ropeway dra` sees them, and containers that are made as it says.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use http_body_util::{BodyExt as _, Full};
use hyper::body::Bytes;
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use ropeway_dra::kubelet::messages::{
    Claim, InfoRequest, PluginInfo, PrepareRequest, PrepareResponse, Prepared, RegistrationStatus,
    RegistrationStatusResponse, UnprepareRequest, UnprepareResponse, Unprepared, path,
};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::UnixStream;

use crate::daemon::Daemon;
use crate::places::{library, ropeway};
use crate::wait_for;

/// How long something takes to be there on a busy machine.
const SOON: Duration = Duration::from_secs(30);

/// The objects of an API server, by their paths.
type Objects = Arc<Mutex<BTreeMap<String, Value>>>;

const GROUP: &str = "/apis/resource.k8s.io/v1";

/// An API server that knows ResourceSlices and ResourceClaims.
pub struct FakeApi {
    address: String,
    objects: Objects,
}

impl FakeApi {
    /// Starts one; it ends with the test.
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has ports");
        let address = listener.local_addr().expect("it is bound").to_string();
        let objects = Objects::default();
        let served = objects.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                // A client that goes away has its reasons.
                let _ = answer(&stream, &served);
            }
        });
        Self { address, objects }
    }

    /// Its URL.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Makes a claim to which these devices of a pool are allocated.
    pub fn allocate(&self, name: &str, pool: &str, devices: &[&str]) -> Claim {
        let uid = format!("{name}-uid");
        let result = |device: &&str| json!({"request": "r", "driver": "ropeway.io", "pool": pool, "device": device});
        let results: Vec<_> = devices.iter().map(result).collect();
        let claim = json!({
            "metadata": {"name": name, "namespace": "default", "uid": uid},
            "status": {"allocation": {"devices": {"results": results}}},
        });
        self.put(&format!("{GROUP}/namespaces/default/resourceclaims/{name}"), claim);
        Claim { namespace: "default".to_owned(), uid, name: name.to_owned() }
    }

    /// Puts an object there.
    pub fn put(&self, path: &str, object: Value) {
        self.objects.lock().expect("no test panics in it").insert(path.to_owned(), object);
    }

    /// The ResourceSlices.
    pub fn slices(&self) -> Vec<Value> {
        let objects = self.objects.lock().expect("no test panics in it");
        let slices = objects.iter().filter(|(path, _)| path.starts_with(&format!("{GROUP}/resourceslices/")));
        slices.map(|(_, slice)| slice.clone()).collect()
    }

    /// The names of the devices in the slices of the latest generation, once there are so many.
    pub fn expect_devices(&self, count: usize) -> Vec<String> {
        wait_for(&format!("{count} devices in the cluster"), SOON, || {
            let slices = self.slices();
            let names =
                slices.iter().flat_map(|slice| slice["spec"]["devices"].as_array().cloned().unwrap_or_default());
            let names: Vec<_> = names.map(|device| device["name"].as_str().unwrap_or_default().to_owned()).collect();
            (names.len() == count).then_some(names)
        })
    }
}

/// Answers one request; whoever asks connects again for the next.
fn answer(stream: &TcpStream, objects: &Objects) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let mut words = line.split_whitespace();
    let (method, target) = (words.next().unwrap_or_default().to_owned(), words.next().unwrap_or_default().to_owned());
    let mut length = 0;
    loop {
        line.clear();
        reader.read_line(&mut line)?;
        if line.trim().is_empty() {
            break;
        }
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().unwrap_or(0);
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let (status, answer) = act(&method, &target, serde_json::from_slice(&body).unwrap_or_default(), objects);
    let text = answer.to_string();
    let head = format!("HTTP/1.1 {status} x\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", text.len());
    (&*stream).write_all((head + &text).as_bytes())
}

/// What a request does, as the real one does it: objects have versions, and only the latest can be replaced.
fn act(method: &str, target: &str, mut body: Value, objects: &Objects) -> (u16, Value) {
    let mut objects = objects.lock().expect("no test panics in it");
    let path = target.split('?').next().unwrap_or_default();
    let slices = format!("{GROUP}/resourceslices");
    let said = |code: u16, why: &str| (code, json!({"kind": "Status", "message": why}));
    match method {
        "GET" if path == slices => {
            let driver = target.split("spec.driver%3D").nth(1).unwrap_or_default();
            let items = objects
                .iter()
                .filter(|(path, object)| path.starts_with(&format!("{slices}/")) && object["spec"]["driver"] == driver);
            (200, json!({"items": items.map(|(_, object)| object.clone()).collect::<Vec<_>>()}))
        }
        "GET" => match objects.get(path) {
            Some(object) => (200, object.clone()),
            None => said(404, &format!("{path} not found")),
        },
        "POST" if path == slices => {
            let prefix = body["metadata"]["generateName"].as_str().unwrap_or_default().to_owned();
            let number = (0..).find(|number| !objects.contains_key(&format!("{slices}/{prefix}{number}")));
            let name = format!("{prefix}{}", number.unwrap_or(0));
            body["metadata"]["name"] = name.clone().into();
            body["metadata"]["resourceVersion"] = "1".into();
            objects.insert(format!("{slices}/{name}"), body.clone());
            (201, body)
        }
        "PUT" => match objects.get(path).map(|there| there["metadata"]["resourceVersion"].clone()) {
            Some(version) if version == body["metadata"]["resourceVersion"] => {
                let next = version.as_str().and_then(|text| text.parse::<u64>().ok()).unwrap_or(0) + 1;
                body["metadata"]["resourceVersion"] = next.to_string().into();
                objects.insert(path.to_owned(), body.clone());
                (200, body)
            }
            Some(_) => said(409, "the object has been modified"),
            None => said(404, &format!("{path} not found")),
        },
        "DELETE" => match objects.remove(path) {
            Some(object) => (200, object),
            None => said(404, &format!("{path} not found")),
        },
        _ => said(405, "not known here"),
    }
}

/// A node's folders, and who asks the plug-in there as kubelet does.
pub struct Kubelet {
    folder: TempDir,
    node: &'static str,
}

impl Kubelet {
    /// That of the node `n1`, without a plug-in.
    pub fn new() -> Self {
        Self::of("n1")
    }

    /// That of a node with this name.
    pub fn of(node: &'static str) -> Self {
        Self { folder: tempfile::tempdir().expect("a folder can be made"), node }
    }

    /// Starts the plug-in, which waits half a second for devices; returns it once it has registered.
    pub fn plugin(&self, api: &FakeApi, ticket: &str, args: &[&str]) -> Daemon {
        let mut command = Command::new(ropeway());
        command.args([
            "dra",
            "--api-server",
            &api.url(),
            "node",
            "--node-name",
            self.node,
            "--wait",
            "500ms",
            "--kubelet",
        ]);
        command.arg(self.folder.path()).arg("--cdi").arg(self.cdi()).arg("--library").arg(library());
        command.args(args).env("ROPEWAY_BROKER", ticket).env("ROPEWAY_LOG", "info");
        let mut plugin = Daemon::start(command);
        plugin.until_it_says(|log| log.contains("serving kubelet").then_some(()));
        let info = self.info();
        assert_eq!((info.r#type.as_str(), info.name.as_str()), ("DRAPlugin", "ropeway.io"));
        assert_eq!(info.supported_versions, ["v1.DRAPlugin"]);
        let status = RegistrationStatus { plugin_registered: true, error: String::new() };
        let _: RegistrationStatusResponse = call(&self.registration(), path::NOTIFY, &status);
        plugin.expect_log("kubelet has registered ropeway.io");
        plugin
    }

    /// Where the plug-in tells kubelet of itself: kubelet looks for sockets there.
    fn registration(&self) -> PathBuf {
        let entries = fs::read_dir(self.folder.path().join("plugins_registry")).expect("the plug-in makes it");
        let sockets: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
        assert_eq!(sockets.len(), 1, "{sockets:?}");
        sockets[0].clone()
    }

    fn info(&self) -> PluginInfo {
        call(&self.registration(), path::GET_INFO, &InfoRequest {})
    }

    /// Prepares a claim.
    pub fn prepare(&self, claim: &Claim) -> Prepared {
        let request = PrepareRequest { claims: vec![claim.clone()] };
        let mut response: PrepareResponse = call(Path::new(&self.info().endpoint), path::PREPARE, &request);
        assert_eq!(response.claims.len(), 1);
        response.claims.remove(&claim.uid).expect("the claim is answered")
    }

    /// The same, which has to fail; says why.
    pub fn refused(&self, claim: &Claim) -> String {
        let prepared = self.prepare(claim);
        assert_eq!(prepared.devices, []);
        assert!(!prepared.error.is_empty());
        prepared.error
    }

    /// Gives back what a claim has.
    pub fn unprepare(&self, claim: &Claim) {
        let request = UnprepareRequest { claims: vec![claim.clone()] };
        let response: UnprepareResponse = call(Path::new(&self.info().endpoint), path::UNPREPARE, &request);
        assert_eq!(response.claims.get(&claim.uid), Some(&Unprepared::default()));
    }

    /// Removes what the plug-in, which must not run, has written of a claim.
    pub fn forget(&self, claim: &Claim) {
        let claims = self.folder.path().join("plugins/ropeway.io/claims");
        fs::remove_dir_all(claims.join(&claim.uid)).expect("the claim was prepared");
    }

    /// The folder that the container runtime reads.
    pub fn cdi(&self) -> PathBuf {
        self.folder.path().join("cdi")
    }

    /// Runs a program in a container with the devices of these claims, as the container runtime makes it: what the
    /// specifications say is mounted over an empty /opt, /run and folder of .icd files.
    pub fn run(&self, prepared: &[&Prepared], program: &str) -> Output {
        let mut script =
            "set -e\nfor folder in /opt /run /etc/OpenCL/vendors; do mount -t tmpfs none $folder; done\n".to_owned();
        let mut command = Command::new("unshare");
        // An image may name servers of its own.
        command.env("ROPEWAY_SERVERS", "tls://127.0.0.1:1");
        for id in prepared.iter().map(|prepared| &prepared.devices[0].cdi_device_ids[0]) {
            let (kind, name) = id.split_once('=').expect("it is the name of a device");
            let files = fs::read_dir(self.cdi()).expect("the plug-in makes it").flatten();
            let read = files.map(|file| fs::read(file.path()).expect("it can be read"));
            let mut all = read.map(|text| serde_json::from_slice::<Value>(&text).expect("it is JSON"));
            let is_it = |spec: &Value| spec["kind"] == kind && spec["devices"][0]["name"] == name;
            let edits = all.find(is_it).expect("the device is there")["devices"][0]["containerEdits"].clone();
            for mount in edits["mounts"].as_array().expect("there are mounts") {
                let (from, to) = (mount["hostPath"].as_str().unwrap_or_default(), &mount["containerPath"]);
                let make = if Path::new(from).is_dir() { "mkdir -p" } else { "touch" };
                script += &format!("test -e {to} || {make} {to}\nmount --bind -o ro {from} {to}\n");
            }
            for variable in edits["env"].as_array().into_iter().flatten().filter_map(Value::as_str) {
                let (name, value) = variable.split_once('=').expect("it is a variable");
                command.env(name, value);
            }
        }
        command.args(["--mount", "--propagation", "private", "sh", "-c"]).arg(format!("{script}exec {program}"));
        command.env("ROPEWAY_CONNECT_TIMEOUT", "20");
        command.output().expect("unshare starts")
    }
}

impl Default for Kubelet {
    fn default() -> Self {
        Self::new()
    }
}

/// One call of gRPC over a Unix socket. The authority is the socket's path as Go's gRPC writes it, as kubelet has it.
fn call<Q: Message, A: Message + Default>(socket: &Path, method: &str, request: &Q) -> A {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime starts");
    let asked = runtime.block_on(async {
        let stream = UnixStream::connect(socket).await.expect("the plug-in listens");
        let builder = hyper::client::conn::http2::Builder::new(TokioExecutor::new());
        let (mut sender, connection) = builder.handshake(TokioIo::new(stream)).await.expect("it speaks HTTP/2");
        tokio::spawn(connection);
        let authority = match socket.to_str() {
            Some(path) if path.contains('@') => path.replace('/', "%2F"),
            _ => "localhost".to_owned(),
        };
        // A message: not compressed, its length, its bytes.
        let bytes = request.encode_to_vec();
        let mut body = vec![0];
        body.extend((bytes.len() as u32).to_be_bytes());
        body.extend(bytes);
        let request = hyper::Request::post(format!("http://{authority}{method}"))
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .body(Full::new(Bytes::from(body)))
            .expect("it is a request");
        let response = sender.send_request(request).await.expect("it is answered");
        assert_eq!(response.headers().get("grpc-status"), None, "{response:?}");
        let collected = response.into_body().collect().await.expect("the answer comes");
        let status = collected.trailers().and_then(|trailers| trailers.get("grpc-status").cloned());
        assert_eq!(status.expect("there is a status"), "0");
        collected.to_bytes()
    });
    A::decode(&asked[5..]).expect("it is the answer")
}
