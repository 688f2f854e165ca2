//! The newest time that this router has seen, of any shard or client.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use arbor_bson::{Doc, DocBuf, ValueRef};
use arbor_protocol::cluster_time::timestamp;

use crate::fields;

/// Shared with the connections to the shards: each reply shows a time, and each request shows the newest one.
#[derive(Debug, Default)]
pub(crate) struct ClusterClock(AtomicU64);

impl ClusterClock {
    pub(crate) fn last(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    pub(crate) fn advance(&self, time: u64) {
        self.0.fetch_max(time, Ordering::AcqRel);
    }

    /// Takes the time of a reply.
    pub(crate) fn see(&self, message: Doc<'_>) {
        let shown = fields::document(message, "$clusterTime").and_then(|shown| fields::time(shown, "clusterTime"));
        shown.iter().for_each(|time| self.advance(*time));
    }

    /// Returns a time for a snapshot of several shards, not before `after`: the present one. The counter of a time goes up to the end of its
    /// second, so that with equal clocks all that has ended by now is before it.
    pub(crate) fn now(&self, after: u64) -> u64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let fraction = (u64::from(since.subsec_nanos()) << 32) / 1_000_000_000;
        self.advance(after.max(since.as_secs() << 32 | fraction));
        self.last()
    }

    /// Adds the time to a command. None: none is known, or the command shows a later one.
    pub(crate) fn shown_to(&self, command: &DocBuf) -> Option<DocBuf> {
        let last = self.last();
        let given = fields::document(command.as_doc(), "$clusterTime").and_then(|own| fields::time(own, "clusterTime"));
        if last == 0 || given.is_some_and(|given| given >= last) {
            return None;
        }
        let plain =
            if given.is_some() { fields::without(command.as_doc(), &["$clusterTime"]) } else { command.clone() };
        Some(plain.with("$clusterTime", &of(last)))
    }
}

/// Returns a time as messages show it.
fn of(time: u64) -> DocBuf {
    let unsigned = ValueRef::Binary { subtype: 0, bytes: &[0; 20] };
    let signature = DocBuf::new().with("hash", unsigned).with("keyId", 0i64);
    DocBuf::new().with("clusterTime", timestamp(time)).with("signature", &signature)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_shows_the_newest_time() {
        let clock = ClusterClock::default();
        let find = DocBuf::new().with("find", "c");
        assert!(clock.shown_to(&find).is_none());
        clock.see(find.clone().with("$clusterTime", &of(7 << 32 | 3)).as_doc());
        let shown = clock.shown_to(&find).unwrap();
        assert!(clock.shown_to(&shown).is_none(), "it shows that time already");
        let now = clock.now(0);
        assert!(now > 7 << 32 && clock.now(now + 5) >= now + 5);
        let later = clock.shown_to(&shown).unwrap();
        let time = fields::document(later.as_doc(), "$clusterTime").and_then(|own| fields::time(own, "clusterTime"));
        assert_eq!(time, Some(clock.last()));
        assert_eq!(later.as_doc().iter().filter(|(name, _)| *name == "$clusterTime").count(), 1);
    }
}
