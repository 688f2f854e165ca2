//! The chunks of sharded collections, and their last moves, as the console draws them.

use std::cmp::Reverse;
use std::time::Duration;

use arbor_bson::{ArrayBuf, Doc, DocBuf, ValueRef};
use arbor_command::Result;
use arbor_query::Interrupt;

use crate::catalog::Catalog;
use crate::fields;
use crate::table::Table;

/// Collections of the map; the others are counted.
const COLLECTIONS_MAX: usize = 20;

/// Parts of the bar of one collection.
const RUNS_MAX: usize = 400;

/// Events of moves that are read, of which a move has three.
const EVENTS_MAX: i64 = 120;

/// The event that begins a move.
const START: &str = "moveChunk.start";

pub(crate) const TIME_MAX: Duration = Duration::from_secs(3);

impl Catalog {
    pub(crate) fn chunk_map(&self, interrupt: &Interrupt) -> Result<DocBuf> {
        let all = self.sharded(interrupt)?;
        let mut collections = ArrayBuf::new();
        for namespace in all.iter().take(COLLECTIONS_MAX) {
            if let Some(table) = self.table(namespace, interrupt)?.filter(|table| !table.unsplittable) {
                collections.push(&row(&table));
            }
        }
        let shards: ArrayBuf = self.shards(interrupt)?.iter().map(|shard| shard.name.as_str()).collect();
        let mut moves: Vec<DocBuf> =
            self.last_events("moveChunk.", EVENTS_MAX, interrupt)?.iter().filter_map(event).collect();
        // Where the collection is not capped yet, its order is that of the routers.
        moves.sort_by_key(|event| {
            (Reverse(time_of(event.as_doc())), fields::string(event.as_doc(), "what") == Some(START))
        });
        let moves: ArrayBuf = moves.iter().collect();
        let hidden = all.len().saturating_sub(COLLECTIONS_MAX) as i64;
        Ok(DocBuf::new()
            .with("shards", &shards)
            .with("collections", &collections)
            .with("hidden", hidden)
            .with("moves", &moves))
    }
}

fn row(table: &Table) -> DocBuf {
    let run = |(shard, chunks): (&str, usize)| DocBuf::new().with("shard", shard).with("chunks", chunks as i64);
    let runs: Vec<DocBuf> = table.runs(RUNS_MAX).into_iter().map(run).collect();
    let by_shard: DocBuf = table.chunks_by_shard().into_iter().map(|(shard, chunks)| (shard, chunks as i64)).collect();
    DocBuf::new()
        .with("ns", table.namespace.as_str())
        .with("key", &table.key)
        .with("chunks", table.chunks() as i64)
        .with("byShard", &by_shard)
        .with("runs", &runs.iter().collect::<ArrayBuf>())
}

fn time_of(event: Doc<'_>) -> Option<i64> {
    match event.get("time") {
        Some(ValueRef::DateTime(time)) => Some(time),
        _ => None,
    }
}

/// Returns what the console shows of a row of `config.changelog`.
fn event(row: &DocBuf) -> Option<DocBuf> {
    let row = row.as_doc();
    let details = fields::document(row, "details").unwrap_or(Doc::empty());
    let text = |doc, name| fields::string(doc, name).unwrap_or_default();
    let time = time_of(row)?;
    let mut shown = DocBuf::new()
        .with("time", ValueRef::DateTime(time))
        .with("what", text(row, "what"))
        .with("ns", text(row, "ns"));
    shown.append("from", text(details, "from")).append("to", text(details, "to"));
    for name in ["min", "totalTimeMS", "criticalSectionMicros", "errmsg"] {
        if let Some(value) = details.get(name) {
            shown.append(name, value);
        }
    }
    Some(shown)
}
