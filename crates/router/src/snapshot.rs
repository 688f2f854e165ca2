//! Reads of the level `snapshot` outside of transactions: all shards are read at one time, which the router chooses if the client does not.

use arbor_bson::{Code, DocBuf};
use arbor_command::{Answer, Error, Routed};
use arbor_protocol::cluster_time::timestamp;
use arbor_protocol::read_concern::Level;

use crate::clock::ClusterClock;
use crate::fields;
use crate::transactions::at_one_time;

const READS: &[&str] = &["find", "aggregate", "distinct"];

/// Returns true for a read that needs a time.
pub(crate) fn lacks_time(routed: &Routed<'_>) -> bool {
    let concern = routed.generic.read_concern;
    concern.level == Some(Level::Snapshot)
        && concern.at.is_none()
        && !routed.generic.is_in_transaction()
        && READS.contains(&routed.info.name)
}

/// Returns the body of a read at the present time, and the time.
pub(crate) fn at_present(routed: &Routed<'_>, clock: &ClusterClock) -> (DocBuf, u64) {
    let mut chosen = 0;
    let concern = fields::document(routed.body, "readConcern").map(|concern| {
        at_one_time(concern, |after| {
            chosen = clock.now(after);
            chosen
        })
    });
    let mut body = fields::without(routed.body, &["readConcern"]);
    concern.iter().for_each(|concern| {
        body.append("readConcern", concern);
    });
    (body, chosen)
}

/// Returns true if a later time may be read.
pub(crate) fn is_too_old(error: &Error) -> bool {
    matches!(error.code, Code::MIGRATION_CONFLICT | Code::SNAPSHOT_TOO_OLD | Code::SNAPSHOT_UNAVAILABLE)
}

/// Adds the time to the answer, at which a client may read again.
pub(crate) fn with_time(answer: Answer, command: &str, time: u64) -> Answer {
    match answer {
        Answer::Cursor(cursor) => Answer::Cursor(arbor_command::RoutedCursor { time: Some(time), ..cursor }),
        Answer::Reply(reply) if command == "distinct" && reply.get("atClusterTime").is_none() => {
            Answer::Reply(reply.with("atClusterTime", timestamp(time)))
        }
        other => other,
    }
}
