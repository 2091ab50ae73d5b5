//! Speaking with etcd, by the JSON that its members serve beside gRPC: of all that etcd can do, a broker reads ranges of
//! keys and runs transactions.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use ureq::Agent;
use ureq::tls::{Certificate, ClientCert, PemItem, PrivateKey, RootCerts, TlsConfig, parse_pem};

use super::address::{EtcdAddress, EtcdFiles, read};

/// Longest answer, in bytes. A page of what is stored is far shorter.
const MAX_ANSWER: u64 = 256 << 20;

/// Longest reason of a refusal that is told, in letters.
const MAX_REASON: usize = 300;

/// The code of gRPC that a token which is not valid any more is answered with.
const UNAUTHENTICATED: u64 = 16;

/// A key, what it has, and the revision at which it got that.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Entry {
    pub(super) key: Vec<u8>,
    pub(super) value: Vec<u8>,
    pub(super) revision: String,
}

/// What an answer said.
#[derive(Debug)]
pub(super) struct Outcome {
    /// Of a transaction: whether its conditions were met.
    pub(super) has_succeeded: bool,
    /// What its ranges held, in their order.
    pub(super) ranges: Vec<Vec<Entry>>,
}

/// A part of what a range holds.
#[derive(Debug)]
pub(super) struct Page {
    pub(super) entries: Vec<Entry>,
    pub(super) has_more: bool,
    /// The revision that it shows.
    pub(super) revision: String,
}

/// Connections to etcd's members, of which one is used until it fails.
#[derive(Debug)]
pub(super) struct Client {
    agent: Agent,
    scheme: &'static str,
    members: Vec<String>,
    login: Option<(String, String)>,
    token: Option<String>,
    /// The member that is used.
    at: usize,
}

/// The bytes of a key or a value, as JSON has them.
pub(super) fn text(bytes: impl AsRef<[u8]>) -> String {
    STANDARD.encode(bytes)
}

/// The condition that a key has this value; `None`: that it is not there.
pub(super) fn has(key: &str, value: Option<&[u8]>) -> Value {
    match value {
        Some(value) => json!({"key": text(key), "target": "VALUE", "result": "EQUAL", "value": text(value)}),
        None => json!({"key": text(key), "target": "CREATE", "result": "EQUAL", "create_revision": "0"}),
    }
}

/// The condition that a key was last written at this revision.
pub(super) fn is_of(key: &str, revision: &str) -> Value {
    json!({"key": text(key), "target": "MOD", "result": "EQUAL", "mod_revision": revision})
}

/// Writing a key.
pub(super) fn put(key: &str, value: &[u8]) -> Value {
    json!({"request_put": {"key": text(key), "value": text(value)}})
}

/// Removing a key.
pub(super) fn delete(key: &str) -> Value {
    json!({"request_delete_range": {"key": text(key)}})
}

/// Reading a key.
pub(super) fn range(key: &str) -> Value {
    json!({"request_range": {"key": text(key)}})
}

impl Client {
    /// Prepares connections; a member has `limit` for each answer.
    ///
    /// # Errors
    /// One sentence: a file cannot be read, or is not what it should be.
    pub(super) fn new(address: &EtcdAddress, files: &EtcdFiles, limit: Duration) -> Result<Self, String> {
        let mut tls = TlsConfig::builder()
            .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()));
        if let Some(path) = &files.authority {
            let bytes = read(path)?;
            let roots: Vec<Certificate<'static>> = certificates(&bytes);
            if roots.is_empty() {
                return Err(format!("there is no certificate in {}", path.display()));
            }
            tls = tls.root_certs(RootCerts::Specific(Arc::new(roots)));
        }
        if let Some((chain, key)) = &files.client {
            let key_of = PrivateKey::from_pem(&read(key)?);
            let key_of = key_of.map_err(|error| format!("there is no key in {}: {error}", key.display()))?;
            tls = tls.client_cert(Some(ClientCert::new_with_certs(&certificates(&read(chain)?), key_of)));
        }
        let agent = Agent::config_builder()
            .timeout_global(Some(limit))
            .http_status_as_error(false)
            // What is stored concerns no proxy.
            .proxy(None)
            .tls_config(tls.build());
        Ok(Self {
            agent: agent.build().into(),
            scheme: if files.authority.is_some() { "https" } else { "http" },
            members: address.members.clone(),
            login: address.login(files)?,
            token: None,
            at: 0,
        })
    }

    /// How many members there are.
    pub(super) fn member_count(&self) -> usize {
        self.members.len()
    }

    /// The entry of a key.
    ///
    /// # Errors
    /// One sentence: this member does not answer. The next call asks the next one.
    pub(super) fn get(&mut self, key: &str) -> Result<Option<Entry>, String> {
        let answer = self.ask("kv/range", &json!({"key": text(key)}))?;
        answer["kvs"].get(0).map(entry).transpose()
    }

    /// What the keys hold that begin with `prefix` and come after `after`, up to `limit` of them, at a revision.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub(super) fn page(
        &mut self,
        prefix: &str,
        after: Option<&[u8]>,
        limit: u32,
        revision: Option<&str>,
    ) -> Result<Page, String> {
        let begin = after.map_or_else(|| prefix.as_bytes().to_vec(), |key| [key, &[0]].concat());
        // The first key that does not begin with it: keys are text, so that no byte is the last one.
        let mut end = prefix.as_bytes().to_vec();
        if let Some(last) = end.last_mut() {
            *last += 1;
        }
        let (begin, end) = (text(begin), text(end));
        let asked = json!({"key": begin, "range_end": end, "limit": limit, "revision": revision.unwrap_or("0")});
        let answer = self.ask("kv/range", &asked)?;
        Ok(Page {
            entries: entries(&answer)?,
            has_more: answer["more"].as_bool().unwrap_or(false),
            revision: string(&answer["header"]["revision"])?,
        })
    }

    /// Does one or the other, at one time, as these conditions are met or not.
    ///
    /// # Errors
    /// As [`Client::get`]; it may be done all the same, even later.
    pub(super) fn transact(&mut self, conditions: Value, then: Value, otherwise: Value) -> Result<Outcome, String> {
        let asked = json!({"compare": conditions, "success": then, "failure": otherwise});
        let answer = self.ask("kv/txn", &asked)?;
        let responses = answer["responses"].as_array().map_or(&[][..], Vec::as_slice);
        let ranges = responses.iter().filter_map(|response| response.get("response_range"));
        Ok(Outcome {
            has_succeeded: answer["succeeded"].as_bool().unwrap_or(false),
            ranges: ranges.map(entries).collect::<Result<_, _>>()?,
        })
    }

    /// Asks the member that is used; after a failure, another one is used.
    fn ask(&mut self, what: &str, asked: &Value) -> Result<Value, String> {
        let mut outcome = self.ask_with_token(what, asked);
        if matches!(outcome, Err((_, UNAUTHENTICATED))) && self.login.is_some() {
            self.token = None;
            outcome = self.ask_with_token(what, asked);
        }
        outcome.map_err(|(why, _)| {
            let member = &self.members[self.at];
            let why = format!("etcd at {member}: {why}");
            self.at = (self.at + 1) % self.members.len();
            why
        })
    }

    fn ask_with_token(&mut self, what: &str, asked: &Value) -> Result<Value, (String, u64)> {
        if let (Some((name, password)), None) = (&self.login, &self.token) {
            let answer = self.post("auth/authenticate", &json!({"name": name, "password": password}))?;
            self.token = Some(string(&answer["token"]).map_err(|why| (why, 0))?);
        }
        self.post(what, asked)
    }

    /// Asks; the error is a sentence and the code of gRPC, or 0.
    fn post(&self, what: &str, asked: &Value) -> Result<Value, (String, u64)> {
        let url = format!("{}://{}/v3/{what}", self.scheme, self.members[self.at]);
        let plain = |error: ureq::Error| (error.to_string(), 0);
        let mut request = self.agent.post(url);
        if let Some(token) = &self.token {
            request = request.header("Authorization", token);
        }
        let mut response = request.content_type("application/json").send(asked.to_string()).map_err(plain)?;
        let is_right = response.status().is_success();
        let answer = response.body_mut().with_config().limit(MAX_ANSWER).read_to_vec().map_err(plain)?;
        let text: String = String::from_utf8_lossy(&answer).trim().chars().take(MAX_REASON).collect();
        let read: Result<Value, _> = serde_json::from_slice(&answer);
        let answer = match read {
            Ok(answer) if is_right => return Ok(answer),
            Ok(answer) => answer,
            // What refuses before anything is asked of etcd's heart gives a reason in words.
            Err(_) if !is_right && !text.is_empty() => return Err((text, 0)),
            Err(error) => return Err((error.to_string(), 0)),
        };
        let why = answer["message"].as_str().or_else(|| answer["error"].as_str());
        Err((why.unwrap_or("it refuses").to_owned(), answer["code"].as_u64().unwrap_or(0)))
    }
}

fn certificates(pem: &[u8]) -> Vec<Certificate<'static>> {
    let items = parse_pem(pem).filter_map(Result::ok);
    items.filter_map(|item| if let PemItem::Certificate(found) = item { Some(found) } else { None }).collect()
}

fn string(value: &Value) -> Result<String, String> {
    value.as_str().map(str::to_owned).ok_or_else(|| "its answer is not what etcd answers".to_owned())
}

fn entries(answer: &Value) -> Result<Vec<Entry>, String> {
    answer["kvs"].as_array().map_or(&[][..], Vec::as_slice).iter().map(entry).collect()
}

fn entry(value: &Value) -> Result<Entry, String> {
    let bytes = |name: &str| {
        // What is empty is left out.
        let encoded = value[name].as_str().unwrap_or_default();
        STANDARD.decode(encoded).map_err(|error| format!("its answer cannot be read: {error}"))
    };
    Ok(Entry { key: bytes("key")?, value: bytes("value")?, revision: string(&value["mod_revision"])? })
}
