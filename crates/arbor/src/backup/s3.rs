//! A target in an object store that speaks the protocol of S3: `s3://BUCKET/PREFIX`.
//!
//! A directory is a common prefix of keys; `NAME/.begun` is there from the begin, so that an interrupted backup is seen. Objects appear whole or
//! not at all, large ones by a multipart upload. They do not grow: each block of the log is an object.
//!
//! The credentials and the place are those of Amazon's own tools, of the environment only:
//!
//! | variable | meaning |
//! |---|---|
//! | `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_SESSION_TOKEN` | the credentials; the last one for temporary ones |
//! | `AWS_REGION`, or `AWS_DEFAULT_REGION` | the region, `us-east-1` if there is none |
//! | `AWS_ENDPOINT_URL_S3`, or `AWS_ENDPOINT_URL` | another store than Amazon's; the bucket is part of the path then, else of the name of the host |
//!
//! Requests are signed by version 4 of Amazon's signatures, with the SHA-256 of the body.

use std::fs::File;
use std::io::Read;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};
use ureq::http::{Request, Response};
use ureq::tls::{Certificate, RootCerts, TlsConfig};
use ureq::{Agent, Body};

use super::files::{Entry, Files, Growing, NewFile, Opened};
use super::{Error, Result, damaged};

const SCHEME: &str = "s3://";
/// An object beyond this size is sent in parts; so is what is kept in memory. Amazon takes 10,000 parts of at least 5 MB.
const PART_BYTES: usize = 16 << 20;
/// Parts after which they become larger, so that there is no limit before that of the store.
const PARTS_OF_A_SIZE: usize = 1000;
const TRIES: u32 = 6;
const FIRST_RETRY: Duration = Duration::from_millis(200);
const TIMEOUT: Duration = Duration::from_secs(60);
/// Messages of the store that are read.
const REPLY_BYTES_MAX: u64 = 8 << 20;
const MARKER: &str = ".begun";

/// The store, by the prefix of a target in one of its buckets.
pub(super) struct Store {
    connection: Arc<Connection>,
}

#[derive(Clone)]
struct Connection {
    agent: Agent,
    /// `http://HOST:PORT`, and what of the path comes before the key.
    base: String,
    host: String,
    root: String,
    bucket: String,
    /// Without a `/` at its end.
    prefix: String,
    region: String,
    key_id: String,
    secret: String,
    token: Option<String>,
}

/// The place and the credentials, from the environment.
fn variable(names: &[&str]) -> Option<String> {
    names.iter().find_map(|name| std::env::var(name).ok().filter(|value| !value.is_empty()))
}

impl Store {
    /// `None`: the text does not begin with `s3://`.
    pub(super) fn of(text: &str) -> Option<Result<Store>> {
        text.strip_prefix(SCHEME).map(|rest| Store::new(text, rest))
    }

    fn new(text: &str, rest: &str) -> Result<Store> {
        let refused = |reason: &str| Error::Refused(format!("{text}: {reason}"));
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let is_valid = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b".-_".contains(&byte);
        if bucket.is_empty() || !bucket.bytes().all(is_valid) {
            return Err(refused("it is not of the form s3://BUCKET/PREFIX"));
        }
        let (Some(key_id), Some(secret)) = (variable(&["AWS_ACCESS_KEY_ID"]), variable(&["AWS_SECRET_ACCESS_KEY"]))
        else {
            return Err(refused("AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are not set"));
        };
        let region = variable(&["AWS_REGION", "AWS_DEFAULT_REGION"]).unwrap_or_else(|| "us-east-1".to_owned());
        let (base, root) = match variable(&["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"]) {
            Some(endpoint) => (endpoint.trim_end_matches('/').to_owned(), format!("/{bucket}")),
            None => (format!("https://{bucket}.s3.{region}.amazonaws.com"), String::new()),
        };
        let host = base.strip_prefix("https://").map(|host| host.trim_end_matches(":443"));
        let host = host.or_else(|| base.strip_prefix("http://").map(|host| host.trim_end_matches(":80")));
        let host = host.filter(|host| !host.is_empty() && !host.contains('/'));
        let host = host.ok_or_else(|| refused("AWS_ENDPOINT_URL is not of the form https://HOST:PORT"))?.to_owned();
        let connection = Connection {
            agent: agent(base.starts_with("https://")),
            base,
            host,
            root,
            bucket: bucket.to_owned(),
            prefix: prefix.trim_matches('/').to_owned(),
            region,
            key_id,
            secret,
            token: variable(&["AWS_SESSION_TOKEN"]),
        };
        Ok(Store { connection: Arc::new(connection) })
    }
}

fn agent(is_tls: bool) -> Agent {
    let mut options =
        TlsConfig::builder().unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()));
    if is_tls {
        let found = rustls_native_certs::load_native_certs().certs;
        let authorities = found.iter().map(|der| Certificate::from_der(der).to_owned()).collect::<Vec<_>>();
        options = options.root_certs(RootCerts::from(authorities));
    }
    let config = Agent::config_builder()
        .http_status_as_error(false)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .user_agent("arbor")
        .timeout_connect(Some(TIMEOUT))
        .timeout_recv_response(Some(TIMEOUT))
        .timeout_per_read(Some(TIMEOUT))
        .tls_config(options.build())
        .build();
    Agent::new_with_config(config)
}

/// A request before it is signed.
struct Call<'c> {
    method: &'static str,
    key: &'c str,
    query: &'c [(&'c str, &'c str)],
    headers: &'c [(&'c str, &'c str)],
    body: &'c [u8],
}

impl<'c> Call<'c> {
    fn new(method: &'static str, key: &'c str) -> Call<'c> {
        Call { method, key, query: &[], headers: &[], body: &[] }
    }
}

/// Encodes what is not a letter, a digit or one of `-._~`; and `/`, if `slash`.
fn encoded(text: &str, slash: bool) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => out.push(char::from(byte)),
            b'/' if !slash => out.push('/'),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn keyed(key: &[u8], text: &str) -> Vec<u8> {
    let mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of every length");
    mac.chain_update(text.as_bytes()).finalize().into_bytes().to_vec()
}

/// A signature of version 4. `headers` are in the order of their names. Returns the header `Authorization`.
fn authorization(
    connection: &Connection,
    (method, path, query): (&str, &str, &str),
    headers: &[(String, String)],
    (time, body_hash): (&str, &str),
) -> String {
    let names: Vec<&str> = headers.iter().map(|(name, _)| name.as_str()).collect();
    let signed = names.join(";");
    let lines: String = headers.iter().map(|(name, value)| format!("{name}:{}\n", value.trim())).collect();
    let canonical = format!("{method}\n{path}\n{query}\n{lines}\n{signed}\n{body_hash}");
    let day = time.get(..8).unwrap_or_default();
    let scope = format!("{day}/{}/s3/aws4_request", connection.region);
    let text = format!("AWS4-HMAC-SHA256\n{time}\n{scope}\n{}", hex(&Sha256::digest(canonical.as_bytes())));
    let mut key = format!("AWS4{}", connection.secret).into_bytes();
    for part in [day, &connection.region, "s3", "aws4_request"] {
        key = keyed(&key, part);
    }
    let signature = hex(&keyed(&key, &text));
    let id = &connection.key_id;
    format!("AWS4-HMAC-SHA256 Credential={id}/{scope}, SignedHeaders={signed}, Signature={signature}")
}

/// The reason why a store refuses a request.
struct Denial {
    status: u16,
    code: String,
    message: String,
}

impl Connection {
    /// The key of a file, or of a directory's children if it ends with `/`.
    fn key(&self, name: &str) -> String {
        match (self.prefix.is_empty(), name.is_empty()) {
            (true, _) => name.to_owned(),
            (false, true) => self.prefix.clone(),
            (false, false) => format!("{}/{name}", self.prefix),
        }
    }

    fn shown(&self) -> String {
        let slash = if self.prefix.is_empty() { "" } else { "/" };
        format!("{SCHEME}{}{slash}{}", self.bucket, self.prefix)
    }

    fn send(&self, call: &Call<'_>) -> std::result::Result<Response<Body>, ureq::Error> {
        let path = format!("{}/{}", self.root, encoded(call.key, false));
        let mut query: Vec<String> = call
            .query
            .iter()
            .map(|(name, value)| format!("{}={}", encoded(name, true), encoded(value, true)))
            .collect();
        query.sort();
        let query = query.join("&");
        let time = jiff::Timestamp::now().strftime("%Y%m%dT%H%M%SZ").to_string();
        let body_hash = hex(&Sha256::digest(call.body));
        let mut headers = vec![
            ("host".to_owned(), self.host.clone()),
            ("x-amz-content-sha256".to_owned(), body_hash.clone()),
            ("x-amz-date".to_owned(), time.clone()),
        ];
        headers.extend(self.token.iter().map(|token| ("x-amz-security-token".to_owned(), token.clone())));
        headers.extend(call.headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        headers.sort();
        let authorization = authorization(self, (call.method, &path, &query), &headers, (&time, &body_hash));
        let mark = if query.is_empty() { "" } else { "?" };
        let mut request = Request::builder().method(call.method).uri(format!("{}{path}{mark}{query}", self.base));
        for (name, value) in &headers {
            request = request.header(name, value);
        }
        let request = request.header("authorization", authorization);
        match call.method {
            "PUT" | "POST" => self.agent.run(request.body(call.body)?),
            _ => self.agent.run(request.body(())?),
        }
    }

    /// Sends a request, again when the store is away or busy. Returns the reply with its status, and whether it was sent before.
    fn call(&self, call: &Call<'_>) -> Result<(std::result::Result<Response<Body>, Denial>, bool)> {
        let (mut wait, mut tries) = (FIRST_RETRY, 0);
        loop {
            tries += 1;
            let failed = match self.send(call) {
                Ok(reply) if reply.status().is_success() => return Ok((Ok(reply), tries > 1)),
                Ok(reply) => {
                    let denial = Denial::read(reply);
                    if !(denial.status >= 500 || denial.status == 429) {
                        return Ok((Err(denial), tries > 1));
                    }
                    self.refused(&denial)
                }
                Err(error) => Error::Refused(format!("{}: cannot reach {}: {error}", self.shown(), self.base)),
            };
            if tries == TRIES {
                return Err(failed);
            }
            std::thread::sleep(wait);
            wait *= 2;
        }
    }

    /// Sends a request that is to succeed.
    fn run(&self, call: &Call<'_>) -> Result<Response<Body>> {
        self.call(call)?.0.map_err(|denial| self.refused(&denial))
    }

    fn text(&self, call: &Call<'_>) -> Result<String> {
        let read = self.run(call)?.into_body().with_config().limit(REPLY_BYTES_MAX).read_to_string();
        read.map_err(|error| Error::Refused(format!("{}: cannot read a reply: {error}", self.shown())))
    }

    /// A sentence about a denial.
    fn refused(&self, denial: &Denial) -> Error {
        let says = format!("the store says {}", denial.shown());
        let what = match (denial.code.as_str(), denial.status) {
            ("NoSuchBucket", _) => format!("there is no bucket {}", self.bucket),
            ("InvalidAccessKeyId" | "SignatureDoesNotMatch" | "InvalidToken" | "ExpiredToken", _) => {
                format!("the credentials (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY) are wrong: {says}")
            }
            ("RequestTimeTooSkewed", _) => format!("the clock of this machine is wrong: {says}"),
            ("PermanentRedirect" | "AuthorizationHeaderMalformed", _) | (_, 301 | 307) => {
                format!("the bucket is in another region than AWS_REGION ({}): {says}", self.region)
            }
            (_, 401 | 403) => format!("the credentials have not the right to do that: {says}"),
            _ => says,
        };
        Error::Refused(format!("{}: {what}", self.shown()))
    }

    /// Lists the objects, and the directories if a delimiter is given. Names are behind the prefix of `directory`.
    fn list(&self, directory: &str, is_deep: bool) -> Result<Vec<Entry>> {
        let key = self.key(directory);
        let prefix = if key.is_empty() { String::new() } else { format!("{key}/") };
        let (mut found, mut next) = (Vec::new(), String::new());
        loop {
            let mut query = vec![("list-type", "2"), ("prefix", prefix.as_str())];
            if !is_deep {
                query.push(("delimiter", "/"));
            }
            if !next.is_empty() {
                query.push(("continuation-token", next.as_str()));
            }
            let text = self.text(&Call { query: &query, ..Call::new("GET", "") })?;
            let name = |key: String| key.strip_prefix(&prefix).map(|name| name.trim_end_matches('/').to_owned());
            for object in elements(&text, "Contents") {
                let bytes = element(object, "Size").and_then(|size| size.parse().ok()).unwrap_or(0);
                if let Some(name) = element(object, "Key").and_then(name) {
                    found.push(Entry { name, is_directory: false, bytes });
                }
            }
            for common in elements(&text, "CommonPrefixes") {
                if let Some(name) = element(common, "Prefix").and_then(name) {
                    found.push(Entry { name, is_directory: true, bytes: 0 });
                }
            }
            next = element(&text, "NextContinuationToken").unwrap_or_default();
            if next.is_empty() {
                return Ok(found);
            }
        }
    }

    /// Writes an object. `is_new`: false if there is one already; a store that does not know the condition replaces it.
    fn put(&self, name: &str, body: &[u8], is_new: bool) -> Result<bool> {
        let headers: &[(&str, &str)] = if is_new { &[("if-none-match", "*")] } else { &[] };
        let key = self.key(name);
        let (reply, is_repeated) = self.call(&Call { headers, body, ..Call::new("PUT", &key) })?;
        match reply {
            Ok(_) => Ok(true),
            // The reply to the first request was lost; or it is somebody else's.
            Err(denial) if denial.status == 412 && is_repeated => {
                let mut found = Vec::new();
                if let Some(opened) = self.open(name, 0)? {
                    let read = opened.into_reader().read_to_end(&mut found);
                    read.map_err(super::io("read", self.path(name)))?;
                }
                Ok(found == body)
            }
            Err(denial) if matches!(denial.status, 409 | 412) && is_new => Ok(false),
            Err(denial) => Err(self.refused(&denial)),
        }
    }

    fn open(&self, name: &str, at: u64) -> Result<Option<Body>> {
        let (key, range) = (self.key(name), format!("bytes={at}-"));
        let headers: &[(&str, &str)] = if at > 0 { &[("range", &range)] } else { &[] };
        match self.call(&Call { headers, ..Call::new("GET", &key) })?.0 {
            Ok(reply) => Ok(Some(reply.into_body())),
            Err(denial) if denial.status == 404 && denial.code != "NoSuchBucket" => Ok(None),
            Err(denial) => Err(self.refused(&denial)),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        let slash = if name.is_empty() { "" } else { "/" };
        PathBuf::from(format!("{}{slash}{name}", self.shown()))
    }

    fn remove_key(&self, key: &str) -> Result<()> {
        match self.call(&Call::new("DELETE", key))?.0 {
            Err(denial) if denial.status != 404 || denial.code == "NoSuchBucket" => Err(self.refused(&denial)),
            _ => Ok(()),
        }
    }

    /// Ends multipart uploads of processes that were killed.
    fn remove_uploads(&self, directory: &str) -> Result<()> {
        let prefix = format!("{}/", self.key(directory));
        let text = self.text(&Call { query: &[("uploads", ""), ("prefix", &prefix)], ..Call::new("GET", "") })?;
        for upload in elements(&text, "Upload") {
            if let (Some(key), Some(id)) = (element(upload, "Key"), element(upload, "UploadId")) {
                self.abort(&key, &id);
            }
        }
        Ok(())
    }

    fn abort(&self, key: &str, upload: &str) {
        // Its parts only take space; the store may be set to remove them by itself.
        let _aborted = self.call(&Call { query: &[("uploadId", upload)], ..Call::new("DELETE", key) });
    }
}

impl Denial {
    fn read(reply: Response<Body>) -> Denial {
        let status = reply.status().as_u16();
        let text = reply.into_body().with_config().limit(REPLY_BYTES_MAX).read_to_string().unwrap_or_default();
        let part = |name| element(&text, name).unwrap_or_default();
        Denial { status, code: part("Code"), message: part("Message") }
    }

    fn shown(&self) -> String {
        match self.code.is_empty() {
            true => format!("{} to a request", self.status),
            false => format!("{} ({}: {})", self.status, self.code, self.message),
        }
    }
}

/// The contents of all elements of a name. The replies of stores are flat: an element is not within one of the same name.
fn elements<'t>(text: &'t str, name: &str) -> Vec<&'t str> {
    let (open, close) = (format!("<{name}>"), format!("</{name}>"));
    let mut found = Vec::new();
    let mut rest = text;
    while let Some((own, behind)) = rest.split_once(&open).and_then(|(_, rest)| rest.split_once(&close)) {
        found.push(own);
        rest = behind;
    }
    found
}

/// The text of the first element of a name.
fn element(text: &str, name: &str) -> Option<String> {
    let found = elements(text, name).first()?.to_string();
    let plain = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#34;", "\""), ("&apos;", "'"), ("&#39;", "'")];
    let plain = plain.iter().fold(found, |text, (coded, plain)| text.replace(coded, plain));
    Some(plain.replace("&amp;", "&"))
}

impl Files for Store {
    fn path(&self, name: &str) -> PathBuf {
        self.connection.path(name)
    }

    fn child(&self, name: &str) -> Arc<dyn Files> {
        let prefix = self.connection.key(name);
        Arc::new(Store { connection: Arc::new(Connection { prefix, ..Connection::clone(&self.connection) }) })
    }

    /// A bucket has an owner, costs and rights: it is made by people.
    fn make(&self) -> Result<()> {
        self.connection.list("", false).map(drop)
    }

    fn list(&self, directory: &str) -> Result<Option<Vec<Entry>>> {
        let found = self.connection.list(directory, false)?;
        Ok((directory.is_empty() || !found.is_empty()).then_some(found))
    }

    fn open(&self, name: &str, at: u64) -> Result<Option<Opened>> {
        let Some(body) = self.connection.open(name, at)? else { return Ok(None) };
        let Some(rest) = body.content_length() else {
            return Err(damaged(self.path(name), "the store does not say its size"));
        };
        let bytes = at + rest;
        let connection = Arc::clone(&self.connection);
        let reader =
            ObjectReader { connection, name: name.to_owned(), at, bytes, body: Some(Box::new(body.into_reader())) };
        Ok(Some(Opened { bytes, reader: Box::new(reader) }))
    }

    fn create(&self, name: &str) -> Result<Box<dyn NewFile>> {
        let (connection, key) = (Arc::clone(&self.connection), self.connection.key(name));
        Ok(Box::new(Upload { connection, name: name.to_owned(), key, part: Vec::new(), id: None, tags: Vec::new() }))
    }

    fn create_directory(&self, name: &str) -> Result<bool> {
        let is_free = self.connection.list(name, false)?.is_empty();
        Ok(is_free && self.connection.put(&format!("{name}/{MARKER}"), b"", true)?)
    }

    fn remove(&self, name: &str) -> Result<()> {
        self.connection.remove_key(&self.connection.key(name))
    }

    /// The marker is the last one to go.
    fn remove_directory(&self, name: &str) -> Result<()> {
        self.connection.remove_uploads(name)?;
        let mut found = self.connection.list(name, true)?;
        found.sort_by_key(|entry| entry.name == MARKER);
        found.iter().try_for_each(|entry| self.remove(&format!("{name}/{}", entry.name)))
    }

    fn begin_log(&self, name: &str, replaces: bool) -> Result<Box<dyn Growing>> {
        let connection = Arc::clone(&self.connection);
        Ok(Box::new(LogObject { connection, name: name.to_owned(), replaces }))
    }

    fn log_file_bytes(&self) -> u64 {
        1
    }

    fn cut(&self, name: &str, _: u64) -> Result<()> {
        Err(damaged(self.path(name), "its last block is cut short"))
    }

    /// A block that another process has written is found when it is to be written (see [`LogObject`]).
    fn lock(&self, _: &str) -> Result<Option<File>> {
        Ok(None)
    }
}

/// Reads an object; continues where a connection broke.
struct ObjectReader {
    connection: Arc<Connection>,
    name: String,
    at: u64,
    bytes: u64,
    body: Option<Box<dyn Read + Send>>,
}

impl ObjectReader {
    fn reopen(&mut self) -> std::io::Result<()> {
        let other = |error: Error| std::io::Error::other(error.to_string());
        let body = self.connection.open(&self.name, self.at).map_err(other)?;
        let body = body.ok_or_else(|| std::io::Error::other("it was removed while it was read"))?;
        // A store that passes over the range would send the begin again.
        if body.content_length() != Some(self.bytes - self.at) {
            return Err(std::io::Error::other("the store does not continue where it has ended"));
        }
        self.body = Some(Box::new(body.into_reader()));
        Ok(())
    }
}

impl Read for ObjectReader {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        if self.at >= self.bytes || into.is_empty() {
            return Ok(0);
        }
        let mut tries = 0;
        loop {
            if self.body.is_none() {
                self.reopen()?;
            }
            let read = self.body.as_mut().map_or(Ok(0), |body| body.read(into));
            match read {
                Ok(read) if read > 0 => {
                    self.at += read as u64;
                    return Ok(read);
                }
                read => {
                    tries += 1;
                    if tries == TRIES {
                        return read;
                    }
                    self.body = None;
                    std::thread::sleep(FIRST_RETRY);
                }
            }
        }
    }
}

/// An object on its way: its last part, and what was sent.
struct Upload {
    connection: Arc<Connection>,
    name: String,
    key: String,
    part: Vec<u8>,
    id: Option<String>,
    /// By which the store knows the parts.
    tags: Vec<String>,
}

impl Upload {
    fn send_part(&mut self) -> Result<()> {
        let id = match &self.id {
            Some(id) => id.clone(),
            None => {
                let text = self.connection.text(&Call { query: &[("uploads", "")], ..Call::new("POST", &self.key) })?;
                let id = element(&text, "UploadId");
                id.ok_or_else(|| damaged(self.connection.path(&self.name), "the store began no upload"))?
            }
        };
        self.id = Some(id.clone());
        let number = (self.tags.len() + 1).to_string();
        let query = [("partNumber", number.as_str()), ("uploadId", id.as_str())];
        let call = Call { query: &query, body: &self.part, ..Call::new("PUT", &self.key) };
        let reply = self.connection.run(&call)?;
        let tag = reply.headers().get("etag").and_then(|tag| tag.to_str().ok()).map(str::to_owned);
        self.tags.push(tag.ok_or_else(|| damaged(self.connection.path(&self.name), "the store took no part"))?);
        self.part.clear();
        Ok(())
    }

    fn complete(&mut self, id: &str) -> Result<()> {
        let part = |(at, tag): (usize, &String)| {
            let tag = tag.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;");
            format!("<Part><PartNumber>{}</PartNumber><ETag>{tag}</ETag></Part>", at + 1)
        };
        let parts: String = self.tags.iter().enumerate().map(part).collect();
        let body = format!("<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>");
        let query = [("uploadId", id)];
        let call = Call { query: &query, body: body.as_bytes(), ..Call::new("POST", &self.key) };
        let text = self.connection.text(&call)?;
        // It may say that it works, and then that it has failed.
        match element(&text, "Code") {
            Some(code) => {
                let message = element(&text, "Message").unwrap_or_default();
                Err(self.connection.refused(&Denial { status: 200, code, message }))
            }
            None => Ok(()),
        }
    }
}

impl NewFile for Upload {
    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.part.extend_from_slice(bytes);
        match self.part.len() >= PART_BYTES * (1 + self.tags.len() / PARTS_OF_A_SIZE) {
            true => self.send_part(),
            false => Ok(()),
        }
    }

    fn finish(mut self: Box<Self>) -> Result<()> {
        if self.id.is_none() {
            return self.connection.put(&self.name, &self.part, false).map(drop);
        }
        if !self.part.is_empty() {
            self.send_part()?;
        }
        let id = self.id.clone().unwrap_or_default();
        self.complete(&id)?;
        self.id = None;
        Ok(())
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        if let Some(id) = self.id.take() {
            self.connection.abort(&self.key, &id);
        }
    }
}

/// A block of the log. One that is there is of another process, unless it has no records.
struct LogObject {
    connection: Arc<Connection>,
    name: String,
    replaces: bool,
}

impl Growing for LogObject {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        match self.connection.put(&self.name, bytes, !self.replaces)? {
            true => Ok(()),
            false => {
                Err(Error::Refused(format!("another process archives into {}", self.connection.path("log").display())))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_read() {
        let text = "<R><Contents><Key>a&amp;b</Key><Size>7</Size></Contents><Contents><Key>c</Key></Contents></R>";
        let keys: Vec<_> = elements(text, "Contents").into_iter().map(|own| element(own, "Key")).collect();
        assert_eq!(keys, [Some("a&b".to_owned()), Some("c".to_owned())]);
        assert_eq!(element(text, "Code"), None);
        assert_eq!(elements("<Key>a", "Key"), Vec::<&str>::new());
    }

    #[test]
    fn names_in_a_request() {
        assert_eq!(encoded("a b/c~+\u{e9}", false), "a%20b/c~%2B%C3%A9");
        assert_eq!(encoded("a/b", true), "a%2Fb");
    }

    /// The example of Amazon's description of its signatures: a GET of a part of an object.
    #[test]
    fn a_signature() {
        let connection = Connection {
            agent: agent(false),
            base: String::new(),
            host: "examplebucket.s3.amazonaws.com".to_owned(),
            root: String::new(),
            bucket: "examplebucket".to_owned(),
            prefix: String::new(),
            region: "us-east-1".to_owned(),
            key_id: "AKIAIOSFODNN7EXAMPLE".to_owned(),
            secret: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY".to_owned(),
            token: None,
        };
        let empty = hex(&Sha256::digest(b""));
        let headers = [
            ("host", connection.host.as_str()),
            ("range", "bytes=0-9"),
            ("x-amz-content-sha256", empty.as_str()),
            ("x-amz-date", "20130524T000000Z"),
        ];
        let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let found = authorization(&connection, ("GET", "/test.txt", ""), &headers, ("20130524T000000Z", &empty));
        let signature = "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41";
        assert!(found.ends_with(&format!("Signature={signature}")), "{found}");
    }
}
