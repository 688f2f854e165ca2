//! The agreement of one set as one key of etcd.
//!
//! The version of the agreement is the key's `mod_revision`, which etcd raises with every write and never gives twice. It is 0 where
//! there is no key, so "if there is none" is a comparison like any other.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use arbor_repl::{Agreement, Coordinator, Replaced, Version};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use crate::gateway::{Error, Gateway, Kind, TlsFiles};
use crate::value;
use crate::version::{OLDEST, Release};
use crate::watch::Watch;

/// The endpoints of etcd, and the set whose key is used.
#[derive(Clone, Debug)]
pub struct EtcdOptions {
    /// `http://host:port` or `https://host:port`.
    pub endpoints: Vec<String>,
    /// Deployments that share an etcd have a prefix each.
    pub prefix: String,
    /// Name of the set.
    pub set: String,
    pub tls: TlsFiles,
    /// For one request to one endpoint.
    pub timeout: Duration,
}

impl EtcdOptions {
    pub const PREFIX: &str = "/arbor/1";

    pub fn new(endpoints: Vec<String>, set: &str) -> EtcdOptions {
        EtcdOptions {
            endpoints,
            prefix: EtcdOptions::PREFIX.to_owned(),
            set: set.to_owned(),
            tls: TlsFiles::default(),
            timeout: Duration::from_millis(1500),
        }
    }
}

/// The coordinator of a set of several members.
pub struct Etcd {
    pub(crate) gateway: Gateway,
    set: String,
    key: String,
    watch: Arc<Watch>,
}

/// State of the endpoints.
#[derive(Clone, Debug)]
pub struct Health {
    /// Endpoints that reply, with their release.
    pub up: Vec<(String, Release)>,
    /// Reasons of the others.
    pub down: Vec<String>,
    /// Reasons to use another release of etcd.
    pub warnings: Vec<String>,
}

impl Etcd {
    /// Returns the coordinator; nothing is asked of etcd yet.
    pub fn new(options: &EtcdOptions) -> Result<Etcd, Error> {
        let gateway = Gateway::new(&options.endpoints, &options.tls, options.timeout)?;
        let key = format!("{}/rs/{}/state", options.prefix.trim_end_matches('/'), options.set);
        let watch = Watch::start(options, BASE64_STANDARD.encode(&key))?;
        Ok(Etcd { gateway, set: options.set.clone(), key, watch })
    }

    /// Returns which endpoints are there. Errors: none is, or one of them must not be used.
    pub fn health(&self) -> Result<Health, Error> {
        let mut health = Health { up: Vec::new(), down: Vec::new(), warnings: Vec::new() };
        for endpoint in self.gateway.endpoints() {
            match self.release_of(&endpoint) {
                Ok(release) => {
                    if release.is_too_old() {
                        return Err(Error::TooOld { endpoint, found: release, oldest: OLDEST });
                    }
                    health.warnings.extend(release.warning().map(|text| format!("{endpoint}: {text}")));
                    health.up.push((endpoint, release));
                }
                Err(error @ (Error::Unreachable(_) | Error::Unknown(_))) => health.down.push(error.to_string()),
                Err(error) => return Err(error),
            }
        }
        match health.up.is_empty() {
            true => Err(Error::Unreachable(health.down.join("; "))),
            false => Ok(health),
        }
    }

    fn release_of(&self, endpoint: &str) -> Result<Release, Error> {
        let reply = self.gateway.get_from(endpoint, "/version")?;
        let release = reply.get("etcdserver").and_then(Value::as_str).and_then(Release::parse);
        release.ok_or_else(|| Error::NotEtcd {
            endpoint: endpoint.to_owned(),
            reason: "its /version names no release".to_owned(),
        })
    }

    pub fn endpoints(&self) -> Vec<String> {
        self.gateway.endpoints()
    }

    /// Replaces the endpoints, after members of etcd were added or removed.
    pub fn set_endpoints(&self, endpoints: &[String]) -> Result<(), Error> {
        self.gateway.set_endpoints(endpoints)?;
        self.watch.set_endpoints(endpoints)
    }

    /// Returns the set's key, for messages.
    pub fn key(&self) -> &str {
        &self.key
    }

    fn encoded_key(&self) -> String {
        BASE64_STANDARD.encode(&self.key)
    }

    fn read_key(&self) -> Result<Option<(Version, Agreement)>, Error> {
        // A range is linearizable unless it asks not to be.
        let reply = self.gateway.post(Kind::Read, "/v3/kv/range", &json!({ "key": self.encoded_key() }))?;
        let Some(pair) = reply.get("kvs").and_then(|pairs| pairs.get(0)) else {
            return match reply.get("header") {
                Some(_) => Ok(None),
                None => Err(self.strange("the reply to a range has no header")),
            };
        };
        let version = number(pair.get("mod_revision")).filter(|revision| *revision > 0);
        let version = Version(version.ok_or_else(|| self.strange("a key without revision"))?);
        let bytes = pair.get("value").and_then(Value::as_str).unwrap_or_default();
        let bytes = BASE64_STANDARD.decode(bytes).map_err(|_| self.strange("a value that is not base64"))?;
        let damaged = |reason| Error::Value { key: self.key.clone(), reason };
        let agreement = value::decode(&self.set, &bytes).map_err(damaged)?;
        self.watch.saw(version);
        Ok(Some((version, agreement)))
    }

    fn replace_key(&self, expected: Option<Version>, next: &Agreement) -> Result<Replaced, Error> {
        if expected == Some(Version(0)) {
            return Ok(Replaced::Stale);
        }
        let key = self.encoded_key();
        let revision = expected.map_or(0, |version| version.0);
        let bytes = BASE64_STANDARD.encode(value::encode(&self.set, next));
        let request = json!({
            "compare": [{ "key": key, "target": "MOD", "result": "EQUAL", "modRevision": revision.to_string() }],
            "success": [{ "requestPut": { "key": key, "value": bytes } }],
        });
        let reply = match self.gateway.post(Kind::Change, "/v3/kv/txn", &request) {
            Ok(reply) => reply,
            // Something that does not speak as etcd does may be between this server and an etcd that executed the request.
            Err(Error::Unknown(_) | Error::NotEtcd { .. }) => return Ok(Replaced::Unknown),
            Err(error) => return Err(error),
        };
        // Protobuf's JSON leaves out what is false.
        let succeeded = reply.get("succeeded").and_then(Value::as_bool).unwrap_or(false);
        let revision = number(reply.get("header").and_then(|header| header.get("revision")));
        match (succeeded, revision) {
            (true, Some(revision)) => {
                assert!(expected.is_none_or(|expected| revision > expected.0), "C2: etcd's revisions ascend");
                self.watch.saw(Version(revision));
                Ok(Replaced::Done(Version(revision)))
            }
            (false, Some(_)) => Ok(Replaced::Stale),
            // Not a reply to a transaction, so it says nothing about it.
            (_, None) => Ok(Replaced::Unknown),
        }
    }

    fn strange(&self, reason: &str) -> Error {
        Error::NotEtcd { endpoint: self.endpoints().join(","), reason: reason.to_owned() }
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        self.watch.stop();
    }
}

impl Coordinator for Etcd {
    fn read(&self) -> io::Result<Option<(Version, Agreement)>> {
        self.read_key().map_err(io::Error::from)
    }

    fn replace(&self, expected: Option<Version>, next: &Agreement) -> io::Result<Replaced> {
        self.replace_key(expected, next).map_err(io::Error::from)
    }

    fn changed(&self, seen: Option<Version>) -> bool {
        self.watch.newest() > seen
    }
}

/// Returns a 64-bit number, which protobuf's JSON writes as a string.
pub(crate) fn number(value: Option<&Value>) -> Option<u64> {
    match value? {
        Value::String(text) => text.parse().ok(),
        value => value.as_u64(),
    }
}
