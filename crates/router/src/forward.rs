//! Reads that one shard answers, sent by the thread of the client's connection, which waits for nothing: the reply is reported by the
//! runtime. What needs more than what is known here, or fails, runs as other requests do.
//!
//! PERF: a thread that waits for the reply costs three switches of threads for each request, a third of the router's time (2026-11-27, perf).

use std::future::poll_fn;
use std::sync::Arc;

use arbor_bson::Doc;
use arbor_command::{Answer, Forwarded, Result, Routed};
use arbor_lang::Context;
use arbor_protocol::transport::News;
use parking_lot::Mutex;

use crate::catalog::{Routing, versioned};
use crate::read_preference::ReadPreference;
use crate::shard::{Failure, Shard, Way};
use crate::transactions::Transactions;
use crate::{Router, fields, plain, snapshot};

/// A read that was sent to its shard.
pub(crate) struct Sent {
    shard: Arc<Shard>,
    transactions: Arc<Transactions>,
    /// None: it was taken.
    way: Arc<Mutex<Option<Way>>>,
}

impl Router {
    /// Sends a `find` if all that it needs is known.
    pub(crate) fn send_find(&self, routed: &Routed<'_>) -> Option<Sent> {
        let (body, concern) = (routed.body, &routed.generic.read_concern);
        let prefers = ReadPreference::parse(body.get("$readPreference")).ok()?;
        if prefers.is_some() || concern.at.is_some() || snapshot::lacks_time(routed) {
            return None;
        }
        let collection = fields::string(body, "find")?;
        let routing = self.catalog.known_routing(routed.db, collection)?;
        let shard = match &routing {
            Routing::Unsharded(shard, _) | Routing::Config(shard) => shard.clone(),
            Routing::Sharded(table, _) => {
                let context = Context::new(arbor_protocol::log::now_ms());
                let collation = routing.collation(fields::document(body, "collation"));
                if collation.is_some_and(|collation| !collation.is_empty()) || body.get("let").is_some() {
                    return None;
                }
                let filter = fields::document(body, "filter").unwrap_or(Doc::empty());
                let (names, _) = table.shards_for_filter(filter, &context);
                let [name] = names.as_slice() else { return None };
                self.catalog.known_shard(name)?
            }
        };
        let way = shard.send_watched(routed.db, &versioned(plain(body), &routing, &shard.name))?;
        Some(Sent { shard, transactions: self.transactions.clone(), way: Arc::new(Mutex::new(Some(way))) })
    }
}

impl Forwarded for Sent {
    fn news(&self) -> News {
        let way = self.way.clone();
        Box::pin(poll_fn(move |context| match way.lock().as_mut() {
            Some(way) => way.poll(context),
            None => std::task::Poll::Ready(()),
        }))
    }

    fn has_succeeded(&self) -> bool {
        self.way.lock().as_ref().is_some_and(Way::has_succeeded)
    }

    fn complete(self: Box<Self>, routed: &Routed<'_>) -> Result<Option<Answer>> {
        let Some(way) = self.way.lock().take() else { return Ok(None) };
        match self.shard.end_watched(way, routed.interrupt) {
            Ok(reply) => {
                self.transactions.keep_cursor(routed, &self.shard, reply.as_doc());
                Ok(Some(Answer::Reply(fields::passed(&reply))))
            }
            Err(Failure::Ended(error)) => Err(error),
            // which does what is to be done then: other tables, another primary, another attempt
            Err(Failure::Refused(_) | Failure::Lost { .. }) => Ok(None),
        }
    }
}
