//! Logins since the start, by mechanism, as `serverStatus.security.authentication` shows them.

use std::sync::atomic::{AtomicU64, Ordering};

use arbor_bson::DocBuf;

use super::certificate::X509;

/// Mechanisms in the order of the reply.
const MECHANISMS: [&str; 3] = [X509, "SCRAM-SHA-1", "SCRAM-SHA-256"];

/// Counters of logins.
#[derive(Default)]
pub(crate) struct Attempts {
    of: [Counters; MECHANISMS.len()],
    mechanisms_asked: AtomicU64,
}

/// One mechanism.
#[derive(Default)]
struct Counters {
    all: Pair,
    /// In the handshake of a driver.
    speculative: Pair,
    /// By members of the cluster.
    cluster: Pair,
}

#[derive(Default)]
struct Pair {
    received: AtomicU64,
    successful: AtomicU64,
}

impl Pair {
    fn to_doc(&self) -> DocBuf {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed) as i64;
        // A certificate shows only when it is accepted that it is a member's.
        let (successful, received) = (count(&self.successful), count(&self.received));
        DocBuf::new().with("received", received.max(successful)).with("successful", successful)
    }
}

/// The kind of a login.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Kind {
    pub speculative: bool,
    pub cluster: bool,
}

impl Attempts {
    /// Counts a login that begins.
    pub(crate) fn received(&self, mechanism: &str, kind: Kind) {
        self.count(mechanism, kind, |pair| &pair.received);
    }

    /// Counts a login that was received and has succeeded.
    pub(crate) fn successful(&self, mechanism: &str, kind: Kind) {
        self.count(mechanism, kind, |pair| &pair.successful);
    }

    /// Counts a question for the mechanisms of a user.
    pub(crate) fn mechanisms_asked(&self) {
        self.mechanisms_asked.fetch_add(1, Ordering::Relaxed);
    }

    fn count(&self, mechanism: &str, kind: Kind, counter: impl Fn(&Pair) -> &AtomicU64) {
        let Some(at) = MECHANISMS.iter().position(|name| *name == mechanism) else { return };
        let Some(counters) = self.of.get(at) else { return };
        let pairs =
            [(&counters.all, true), (&counters.speculative, kind.speculative), (&counters.cluster, kind.cluster)];
        for (pair, _) in pairs.into_iter().filter(|(_, counts)| *counts) {
            counter(pair).fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn to_doc(&self) -> DocBuf {
        let mut mechanisms = DocBuf::new();
        for (name, counters) in MECHANISMS.iter().zip(&self.of) {
            let doc = DocBuf::new()
                .with("speculativeAuthenticate", &counters.speculative.to_doc())
                .with("clusterAuthenticate", &counters.cluster.to_doc())
                .with("authenticate", &counters.all.to_doc());
            mechanisms.append(name, &doc);
        }
        let asked = self.mechanisms_asked.load(Ordering::Relaxed) as i64;
        let authentication = DocBuf::new().with("saslSupportedMechsReceived", asked).with("mechanisms", &mechanisms);
        DocBuf::new().with("authentication", &authentication)
    }
}
