//! `$clusterTime` and `operationTime`: the hybrid logical time that servers and clients exchange.
//!
//! Every reply of a member carries the newest time. A client sends the newest time that it has seen anywhere; the member's clock
//! advances past it, unless the drift is absurd. Times are unsigned: there is no access control.

use arbor_bson::{Code, DocBuf, ValueRef};
use arbor_protocol::cluster_time::timestamp;
use arbor_protocol::log::now_ms;

use crate::{Commands, Error, Result};

/// Seconds; the default of the parameter of this name: a year.
const DRIFT_MAX: i64 = 365 * 24 * 3600;
const DRIFT_PARAMETER: &str = "maxAcceptableLogicalClockDriftSecs";

impl Commands {
    /// A client showed a time.
    pub(crate) fn advance_time(&self, shown: u64) -> Result<()> {
        let transactions = &self.database.transactions;
        let known = self.router.as_ref().map_or_else(|| transactions.time(), |router| router.time());
        if shown <= known {
            return Ok(());
        }
        let drift_max = self.parameters.int(DRIFT_PARAMETER).unwrap_or(DRIFT_MAX);
        let (seconds, now) = ((shown >> 32) as i64, now_ms() / 1000);
        if seconds - now > drift_max {
            let text = format!("New cluster time, {seconds}, is too far from this node's wall clock time, {now}.");
            return Err(Error::new(Code::CLUSTER_TIME_FAILS_RATE_LIMITER, text));
        }
        match &self.router {
            Some(router) => router.advance_time(shown),
            None => transactions.advance_time(shown),
        }
        Ok(())
    }

    /// Appends the time to a reply. A standalone has none, nor has a set before it is initiated.
    pub(crate) fn append_time(&self, reply: &mut DocBuf) {
        if let Some(router) = &self.router {
            let time = timestamp(router.time());
            // replies of shards have the times of their own
            if router.time() > 0 && reply.get("$clusterTime").is_none() {
                reply.append("$clusterTime", &signed(time));
                reply.append("operationTime", time);
            }
            return;
        }
        let Some(replication) = self.replication.as_ref().filter(|replication| replication.is_initiated()) else {
            return;
        };
        // The time of a record here: another member may never have one of a time that was only heard of.
        let follows = self.several.handle().is_some() && !replication.is_primary();
        let shown = follows.then(|| timestamp(self.database.transactions.applied_time()));
        let time = timestamp(self.database.transactions.time());
        reply.append("$clusterTime", &signed(time));
        reply.append("operationTime", shown.unwrap_or(time));
    }
}

fn signed(time: ValueRef<'_>) -> DocBuf {
    let unsigned = ValueRef::Binary { subtype: 0, bytes: &[0; 20] };
    let signature = DocBuf::new().with("hash", unsigned).with("keyId", 0i64);
    DocBuf::new().with("clusterTime", time).with("signature", &signature)
}
