//! The hint that the key has changed: one thread that holds a watch open. It may lose events, and nothing depends on them.

use std::io::{BufRead, BufReader, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use arbor_repl::Version;
use serde_json::{Value, json};

use crate::coordinator::{EtcdOptions, number};
use crate::gateway::{Error, Gateway, Kind};

/// A watch without events is opened again after this time: its peer may be gone without a sign.
const SILENCE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(500);
/// An event has one agreement, of 16 KB.
const EVENT_BYTES_MAX: u64 = 1 << 20;

pub(crate) struct Watch {
    newest: AtomicU64,
    stopped: AtomicBool,
    streams: Gateway,
    requests: Gateway,
    /// In base64.
    key: String,
}

impl Watch {
    pub(crate) fn start(options: &EtcdOptions, key: String) -> Result<Arc<Watch>, Error> {
        let watch = Arc::new(Watch {
            newest: AtomicU64::new(0),
            stopped: AtomicBool::new(false),
            streams: Gateway::streaming(&options.endpoints, &options.tls, SILENCE)?,
            requests: Gateway::new(&options.endpoints, &options.tls, options.timeout)?,
            key,
        });
        let own = watch.clone();
        let thread = thread::Builder::new().name("etcd-watch".to_owned());
        thread.spawn(move || own.run()).map_err(|error| Error::Process(format!("no thread for etcd: {error}")))?;
        Ok(watch)
    }

    /// Ends the thread, at the next event or after the silence.
    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    pub(crate) fn saw(&self, version: Version) {
        self.newest.fetch_max(version.0, Ordering::Relaxed);
    }

    pub(crate) fn newest(&self) -> Option<Version> {
        Some(Version(self.newest.load(Ordering::Relaxed))).filter(|version| version.0 > 0)
    }

    pub(crate) fn set_endpoints(&self, endpoints: &[String]) -> Result<(), Error> {
        self.streams.set_endpoints(endpoints)?;
        self.requests.set_endpoints(endpoints)
    }

    fn run(&self) {
        while !self.stopped.load(Ordering::Relaxed) {
            // Changes while no watch was open; any member's state does, a hint needs no majority.
            let range = json!({ "key": self.key, "serializable": true, "keys_only": true });
            if let Ok(reply) = self.requests.post(Kind::Read, "/v3/kv/range", &range) {
                let pair = reply.get("kvs").and_then(|pairs| pairs.get(0));
                self.saw_pair(pair);
            }
            if self.follow().is_err() && !self.stopped.load(Ordering::Relaxed) {
                thread::sleep(PAUSE);
            }
        }
    }

    fn follow(&self) -> Result<(), Error> {
        let request = json!({ "create_request": { "key": self.key, "filters": ["NODELETE"] } });
        let mut stream = BufReader::new(self.streams.open("/v3/watch", &request)?);
        let mut line = Vec::new();
        while !self.stopped.load(Ordering::Relaxed) {
            line.clear();
            match Read::by_ref(&mut stream).take(EVENT_BYTES_MAX).read_until(b'\n', &mut line) {
                Ok(1..) => {}
                Ok(0) | Err(_) => return Ok(()),
            }
            let Ok(event) = serde_json::from_slice::<Value>(&line) else { return Ok(()) };
            let events = event.get("result").and_then(|result| result.get("events")).and_then(Value::as_array);
            events.into_iter().flatten().for_each(|event| self.saw_pair(event.get("kv")));
        }
        Ok(())
    }

    fn saw_pair(&self, pair: Option<&Value>) {
        if let Some(revision) = number(pair.and_then(|pair| pair.get("mod_revision"))) {
            self.saw(Version(revision));
        }
    }
}
