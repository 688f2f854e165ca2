//! The slow query log: one line per request that took longer than the threshold, in MongoDB's layout.

use std::sync::atomic::Ordering;
use std::time::Duration;

use arbor_bson::{Doc, DocBuf, ValueRef};
use arbor_lang::Collation;
use arbor_protocol::log::events;
use arbor_query::ShapeHash;
use arbor_wire::Form;

use crate::call::Plan;
use crate::execution::Incoming;
use crate::{Commands, Connection, Error};

impl Commands {
    pub(crate) fn log_if_slow(
        &self,
        connection: &Connection,
        request: &Incoming<'_>,
        took: Duration,
        plan: &Plan,
        reply_bytes: usize,
        error: Option<&Error>,
    ) {
        let slow_ms = self.slow_ms.load(Ordering::Relaxed);
        if slow_ms < 0 || took.as_millis() < slow_ms as u128 {
            return;
        }
        if self.options.slow_sample_rate < 1.0 && rand::random::<f64>() >= self.options.slow_sample_rate {
            return;
        }
        let mut attributes = DocBuf::new().with("type", "command").with("isFromUserConnection", true);
        let collection = match request.body.first() {
            Some((_, ValueRef::String(collection))) => collection,
            _ => "$cmd",
        };
        attributes.append("ns", &format!("{}.{collection}", request.db));
        if let Some(name) = connection.slot.app_name() {
            attributes.append("appName", &name);
        }
        attributes.append("command", &shortened(request.body));
        if plan.cursor_id != 0 {
            attributes.append("cursorid", plan.cursor_id);
        }
        if let Some(returned) = plan.returned {
            attributes.append("nreturned", returned as i64);
        }
        if let Some(error) = error {
            attributes.append("errMsg", &error.message).append("errName", &*error.code.name());
            attributes.append("errCode", error.code.0);
        }
        if let Some(shape) = shape_of(request.body) {
            attributes.append("queryHash", &shape).append("planCacheShapeHash", &shape);
        }
        attributes.append("numYields", 0i32).append("reslen", reply_bytes as i32);
        attributes.append("remote", &connection.peer.remote.to_string());
        let message = matches!(request.reply_to.form, Form::Message { .. });
        attributes.append("protocol", if message { "op_msg" } else { "op_query" });
        attributes.append("durationMillis", took.as_millis() as i64);
        self.log.info(events::SLOW_QUERY, &connection.name, attributes);
    }
}

/// The shape of a longer command is not made for the log: nothing ends that any more, and the statement took its time already.
const SHAPED_BYTES_MAX: usize = 64 << 10;

/// Returns the hash of a `find` under which the plan cache and `explain` list queries of its shape.
fn shape_of<'b>(body: Doc<'b>) -> Option<String> {
    let document = |name: &str| -> Option<Doc<'b>> {
        match body.get(name) {
            Some(ValueRef::Document(document)) => Some(document),
            _ => None,
        }
    };
    if body.first()?.0 != "find" || body.as_bytes().len() > SHAPED_BYTES_MAX {
        return None;
    }
    let filter = document("filter").unwrap_or(Doc::empty());
    let collation = match document("collation").map(Collation::parse) {
        Some(Ok(collation)) => collation,
        _ => Collation::simple(),
    };
    let shape = ShapeHash::of_find(filter, document("sort"), document("projection"), collation);
    shape.ok().map(ShapeHash::text)
}

/// The command for a log line: long arrays and strings would make it unreadable.
fn shortened(body: Doc<'_>) -> DocBuf {
    const SHOWN_BYTES_MAX: usize = 4096;
    if body.as_bytes().len() <= SHOWN_BYTES_MAX {
        return body.to_buf();
    }
    let mut doc = DocBuf::new();
    for (name, value) in body {
        if doc.as_bytes().len() > SHOWN_BYTES_MAX {
            return doc.with("$truncated", true);
        }
        let name = name.get(..name.floor_char_boundary(SHOWN_BYTES_MAX / 4)).unwrap_or_default();
        if value.content_bytes() <= SHOWN_BYTES_MAX / 4 {
            doc.append(name, value);
        } else {
            doc.append(name, "...");
        }
    }
    doc
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_of_a_command_is_bounded() {
        let fields = || (0..100_000).map(|n| (format!("a{n}"), n)).collect::<DocBuf>();
        let long = DocBuf::new().with("find", "c").with("filter", &fields()).with(&"n".repeat(1 << 20), 1);
        let shown = shortened(long.as_doc());
        assert!(matches!(shown.get("filter"), Some(ValueRef::String("..."))));
        assert!(shown.as_bytes().len() < 8192 && shape_of(long.as_doc()).is_none());
        let wide = shortened(fields().as_doc());
        assert!(wide.as_bytes().len() < 8192 && wide.get("$truncated").is_some());
        let short = DocBuf::new().with("find", "c").with("filter", &DocBuf::new().with("a", 1));
        assert_eq!(shortened(short.as_doc()).as_bytes(), short.as_bytes());
        assert!(shape_of(short.as_doc()).is_some());
    }
}
