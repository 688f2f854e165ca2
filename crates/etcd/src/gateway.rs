//! Requests to etcd's JSON gateway (`POST /v3/...`), by one of several endpoints.
//!
//! A request that changes something is sent to one endpoint after the other only as long as it is certain that none has received it:
//! after anything else its outcome is unknown, and that is what the caller gets.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::RwLock;
use serde_json::Value;
use ureq::tls::{Certificate, ClientCert, PemItem, PrivateKey, RootCerts, TlsConfig, parse_pem};
use ureq::{Agent, Timeout};

/// Longer replies are not etcd's: an agreement has at most 16 KB, a list of members less.
const REPLY_BYTES_MAX: u64 = 4 << 20;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("no etcd endpoint is given")]
    NoEndpoint,
    #[error("'{0}' is no etcd endpoint: it must be like https://host:2379")]
    BadEndpoint(String),
    #[error("{file}: {reason}")]
    BadCertificate { file: String, reason: String },
    /// No endpoint received the request.
    #[error("no etcd can be reached: {0}")]
    Unreachable(String),
    /// The request may have been executed.
    #[error("etcd did not reply: {0}")]
    Unknown(String),
    /// etcd refused the request and did not execute it.
    #[error("etcd at {endpoint} refused the request: {reason}")]
    Refused { endpoint: String, reason: String },
    #[error("{endpoint} does not speak etcd's JSON gateway: {reason}")]
    NotEtcd { endpoint: String, reason: String },
    #[error("{endpoint} is etcd {found}, which is too old: {oldest} is the oldest that is safe here")]
    TooOld { endpoint: String, found: super::Release, oldest: super::Release },
    #[error("the key {key} of etcd {reason}")]
    Value { key: String, reason: String },
    #[error("{0}")]
    Process(String),
}

impl From<Error> for io::Error {
    fn from(error: Error) -> io::Error {
        let kind = match &error {
            Error::NoEndpoint | Error::BadEndpoint(_) | Error::BadCertificate { .. } => io::ErrorKind::InvalidInput,
            Error::Unreachable(_) => io::ErrorKind::NotConnected,
            Error::Unknown(_) => io::ErrorKind::TimedOut,
            Error::Refused { .. } => io::ErrorKind::PermissionDenied,
            Error::NotEtcd { .. } | Error::Value { .. } => io::ErrorKind::InvalidData,
            Error::TooOld { .. } => io::ErrorKind::Unsupported,
            Error::Process(_) => io::ErrorKind::Other,
        };
        io::Error::new(kind, error)
    }
}

/// Certificates of etcd, in PEM.
#[derive(Clone, Debug, Default)]
pub struct TlsFiles {
    /// Authorities of the endpoints' certificates.
    pub ca: Option<PathBuf>,
    /// Certificate and key that this server shows.
    pub certificate_key: Option<PathBuf>,
}

/// Effect of a request that was sent.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// None; it may be sent again.
    Read,
    /// A change, which may be made once.
    Change,
}

pub(crate) struct Gateway {
    endpoints: RwLock<Vec<String>>,
    /// Index of the endpoint that replied last.
    preferred: AtomicUsize,
    agent: Agent,
}

/// Reason for the lack of a proper reply from one endpoint.
enum Failed {
    /// It has not received the request.
    NotSent(String),
    Unknown(String),
    Final(Error),
}

impl Gateway {
    pub(crate) fn new(endpoints: &[String], tls: &TlsFiles, timeout: Duration) -> Result<Gateway, Error> {
        Gateway::with_agent(endpoints, agent(tls, timeout, Some(timeout))?)
    }

    /// Returns a gateway whose replies have no end, as those of a watch, as long as bytes come within `silence`.
    pub(crate) fn streaming(endpoints: &[String], tls: &TlsFiles, silence: Duration) -> Result<Gateway, Error> {
        Gateway::with_agent(endpoints, agent(tls, silence, None)?)
    }

    fn with_agent(endpoints: &[String], agent: Agent) -> Result<Gateway, Error> {
        let endpoints = checked(endpoints)?;
        Ok(Gateway { endpoints: RwLock::new(endpoints), preferred: AtomicUsize::new(0), agent })
    }

    pub(crate) fn endpoints(&self) -> Vec<String> {
        self.endpoints.read().clone()
    }

    pub(crate) fn set_endpoints(&self, endpoints: &[String]) -> Result<(), Error> {
        *self.endpoints.write() = checked(endpoints)?;
        Ok(())
    }

    /// Returns the reply to a request, of the first endpoint that gives one.
    pub(crate) fn post(&self, kind: Kind, path: &str, request: &Value) -> Result<Value, Error> {
        self.first(kind, |endpoint| self.send(endpoint, path, Some(request)).map(|reply| reply.1))
    }

    /// Returns the reply to a GET of one endpoint.
    pub(crate) fn get_from(&self, endpoint: &str, path: &str) -> Result<Value, Error> {
        self.one(endpoint, path, None)
    }

    /// Returns the reply of one endpoint to a request that concerns it alone.
    pub(crate) fn post_to(&self, endpoint: &str, path: &str, request: &Value) -> Result<Value, Error> {
        self.one(endpoint, path, Some(request))
    }

    fn one(&self, endpoint: &str, path: &str, request: Option<&Value>) -> Result<Value, Error> {
        match self.send(endpoint, path, request) {
            Ok((_, reply)) => Ok(reply),
            Err(Failed::NotSent(reason)) => Err(Error::Unreachable(reason)),
            Err(Failed::Unknown(reason)) => Err(Error::Unknown(reason)),
            Err(Failed::Final(error)) => Err(error),
        }
    }

    /// Returns the body of a reply that has no end, and what to try next when there is none.
    pub(crate) fn open(&self, path: &str, request: &Value) -> Result<ureq::BodyReader<'static>, Error> {
        self.first(Kind::Read, |endpoint| {
            let sent = self.agent.post(format!("{endpoint}{path}")).send(request.to_string());
            let response = sent.map_err(|error| failed(endpoint, &error))?;
            match response.status().as_u16() {
                200 => Ok(response.into_body().into_with_config().limit(u64::MAX).reader()),
                status => Err(Failed::Unknown(format!("{endpoint}: status {status}"))),
            }
        })
    }

    fn first<T>(&self, kind: Kind, mut ask: impl FnMut(&str) -> Result<T, Failed>) -> Result<T, Error> {
        let endpoints = self.endpoints();
        let start = self.preferred.load(Ordering::Relaxed);
        let (mut reasons, mut all_unsent) = (Vec::new(), true);
        for turn in 0..endpoints.len() {
            let at = (start + turn) % endpoints.len();
            let Some(endpoint) = endpoints.get(at) else { break };
            match ask(endpoint) {
                Ok(reply) => {
                    self.preferred.store(at, Ordering::Relaxed);
                    return Ok(reply);
                }
                Err(Failed::NotSent(reason)) => reasons.push(reason),
                Err(Failed::Unknown(reason)) => {
                    // the next request begins elsewhere
                    self.preferred.store(at + 1, Ordering::Relaxed);
                    if kind == Kind::Change {
                        return Err(Error::Unknown(reason));
                    }
                    all_unsent = false;
                    reasons.push(reason);
                }
                Err(Failed::Final(error)) => return Err(error),
            }
        }
        let reasons = reasons.join("; ");
        Err(if all_unsent { Error::Unreachable(reasons) } else { Error::Unknown(reasons) })
    }

    fn send(&self, endpoint: &str, path: &str, request: Option<&Value>) -> Result<(u16, Value), Failed> {
        let url = format!("{endpoint}{path}");
        let sent = match request {
            Some(request) => self.agent.post(url).header("content-type", "application/json").send(request.to_string()),
            None => self.agent.get(url).call(),
        };
        let mut response = sent.map_err(|error| failed(endpoint, &error))?;
        let status = response.status().as_u16();
        let body = response.body_mut().with_config().limit(REPLY_BYTES_MAX).read_to_vec();
        // The request was executed, maybe: the reply was cut off.
        let body = body.map_err(|error| Failed::Unknown(format!("{endpoint}: {error}")))?;
        let reply = serde_json::from_slice::<Value>(&body).ok().filter(Value::is_object);
        match (status, reply) {
            (200, Some(reply)) => Ok((status, reply)),
            (200, None) | (301..=308 | 404 | 405, _) => Err(Failed::Final(Error::NotEtcd {
                endpoint: endpoint.to_owned(),
                reason: format!("status {status}, {}", excerpt(&body)),
            })),
            (_, reply) => Err(refused(endpoint, status, reply.as_ref(), &body)),
        }
    }
}

/// A member that joins serves nothing but reads of its own state: the others are asked.
const LEARNER: &str = "rpc not supported for learner";

/// Returns what an error of the gateway says: `{ code, message }`, with gRPC's codes.
fn refused(endpoint: &str, status: u16, reply: Option<&Value>, body: &[u8]) -> Failed {
    let code = reply.and_then(|reply| reply.get("code")).and_then(Value::as_u64);
    let message = reply.and_then(|reply| reply.get("message")).and_then(Value::as_str);
    let reason = message.map_or_else(|| format!("status {status}, {}", excerpt(body)), str::to_owned);
    if reason.contains(LEARNER) {
        return Failed::NotSent(format!("{endpoint}: {reason}"));
    }
    match code {
        // invalid argument, not found, permission denied, exhausted, failed precondition, unauthenticated: refused before it was proposed
        Some(3 | 5 | 7 | 8 | 9 | 16) => Failed::Final(Error::Refused { endpoint: endpoint.to_owned(), reason }),
        _ => Failed::Unknown(format!("{endpoint}: {reason}")),
    }
}

fn failed(endpoint: &str, error: &ureq::Error) -> Failed {
    let reason = format!("{endpoint}: {error}");
    match error {
        ureq::Error::HostNotFound
        | ureq::Error::ConnectionFailed
        | ureq::Error::Timeout(Timeout::Resolve | Timeout::Connect) => Failed::NotSent(reason),
        ureq::Error::Io(error) if error.kind() == io::ErrorKind::ConnectionRefused => Failed::NotSent(reason),
        ureq::Error::BadUri(_) => Failed::Final(Error::BadEndpoint(endpoint.to_owned())),
        _ => Failed::Unknown(reason),
    }
}

fn excerpt(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    let short: String = text.chars().filter(|c| !c.is_control()).take(80).collect();
    if short.is_empty() { "an empty reply".to_owned() } else { format!("'{short}'") }
}

fn checked(endpoints: &[String]) -> Result<Vec<String>, Error> {
    if endpoints.is_empty() {
        return Err(Error::NoEndpoint);
    }
    endpoints.iter().map(|endpoint| checked_endpoint(endpoint)).collect()
}

fn checked_endpoint(endpoint: &str) -> Result<String, Error> {
    let bad = || Error::BadEndpoint(endpoint.to_owned());
    let (scheme, address) = endpoint.trim().trim_end_matches('/').split_once("://").ok_or_else(bad)?;
    let is_clean = address.bytes().all(|b| b.is_ascii_alphanumeric() || b".-_:[]".contains(&b));
    let port = address.rsplit_once(':').and_then(|(host, port)| (!host.is_empty()).then(|| port.parse::<u16>()));
    match (scheme, is_clean, port) {
        ("http" | "https", true, Some(Ok(1..))) => Ok(format!("{scheme}://{address}")),
        _ => Err(bad()),
    }
}

fn agent(tls: &TlsFiles, timeout: Duration, whole: Option<Duration>) -> Result<Agent, Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut options = TlsConfig::builder().unversioned_rustls_crypto_provider(provider);
    // Without authorities of its own, https is refused by the handshake: there is no list of authorities in the binary.
    let authorities = match &tls.ca {
        Some(file) => certificates(file)?,
        None => Vec::new(),
    };
    options = options.root_certs(RootCerts::from(authorities));
    if let Some(file) = &tls.certificate_key {
        options = options.client_cert(Some(client_certificate(file)?));
    }
    let config = Agent::config_builder()
        .http_status_as_error(false)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .proxy(None)
        .user_agent("arbor")
        .timeout_connect(Some(timeout))
        .timeout_global(whole)
        .timeout_per_read(Some(timeout))
        .tls_config(options.build())
        .build();
    Ok(Agent::new_with_config(config))
}

fn read_pem(file: &Path) -> Result<Vec<PemItem<'static>>, Error> {
    let bad = |reason: String| Error::BadCertificate { file: file.display().to_string(), reason };
    let bytes = std::fs::read(file).map_err(|error| bad(error.to_string()))?;
    parse_pem(&bytes).collect::<Result<_, _>>().map_err(|error| bad(error.to_string()))
}

fn certificates(file: &Path) -> Result<Vec<Certificate<'static>>, Error> {
    let of = |item| match item {
        PemItem::Certificate(certificate) => Some(certificate),
        _ => None,
    };
    let certificates: Vec<_> = read_pem(file)?.into_iter().filter_map(of).collect();
    match certificates.is_empty() {
        true => {
            Err(Error::BadCertificate { file: file.display().to_string(), reason: "has no certificate".to_owned() })
        }
        false => Ok(certificates),
    }
}

fn client_certificate(file: &Path) -> Result<ClientCert, Error> {
    let chain = certificates(file)?;
    let key = read_pem(file)?.into_iter().find_map(|item| match item {
        PemItem::PrivateKey(key) => Some(key),
        _ => None,
    });
    let key: PrivateKey<'static> = key.ok_or_else(|| Error::BadCertificate {
        file: file.display().to_string(),
        reason: "has no private key".to_owned(),
    })?;
    Ok(ClientCert::new_with_certs(&chain, key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_that_joins_passes_the_request_on_to_others() {
        let reply = |message: &str| serde_json::json!({ "code": 9, "message": message });
        let learner = reply("etcdserver: rpc not supported for learner");
        assert!(matches!(refused("http://a:1", 400, Some(&learner), b""), Failed::NotSent(_)));
        let other = reply("etcdserver: can only promote a learner member which is in sync with leader");
        assert!(matches!(refused("http://a:1", 400, Some(&other), b""), Failed::Final(_)));
    }

    #[test]
    fn endpoints_are_checked_before_they_are_used() {
        for good in ["http://127.0.0.1:2379", "https://etcd-1.example.net:2379/", "http://[::1]:2379"] {
            assert!(checked_endpoint(good).is_ok(), "{good}");
        }
        for bad in [
            "",
            "localhost:2379",
            "ftp://a:1",
            "http://",
            "http://a",
            "http://:1",
            "http://a:0",
            "http://a b:1",
            "http://a:1/x",
        ] {
            assert!(matches!(checked_endpoint(bad), Err(Error::BadEndpoint(_))), "{bad}");
        }
        assert!(matches!(checked(&[]), Err(Error::NoEndpoint)));
    }
}
