//! `readDistribution` and `writeDistribution`: to which ranges of a shard key the sampled statements would go.

use arbor_bson::keystring::KeyBuilder;
use arbor_bson::{ArrayBuf, Doc, DocBuf, ValueRef};
use arbor_lang::{Collation, Context, Filter};
use arbor_protocol::log::now_ms;
use arbor_query::{KeySpan, shard_key_spans};

use super::{Analysis, Analyzed, Totals, is_hashed};
use crate::Result;

/// `analyzeShardKeyNumRanges`
const RANGES: usize = 100;
/// Documents of the sample for each bound of a range.
const SAMPLES_OF_RANGE: usize = 10;

const READS: [&str; 4] = ["find", "aggregate", "count", "distinct"];
const WRITES: [&str; 3] = ["update", "delete", "findAndModify"];

/// The way of a statement, whatever the shards have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    /// It names the whole key.
    Single,
    /// It names a part of it, several keys or a range.
    Multi,
    Scatter,
}

/// Counts over the samples of reads, or of writes.
struct Counts {
    kinds: Vec<(&'static str, i64)>,
    reaches: [i64; 3],
    ranges: Vec<i64>,
    key_updates: i64,
    single_without: i64,
    multi_without: i64,
}

/// A statement of a sample.
struct Statement<'s> {
    filter: Doc<'s>,
    update: Option<ValueRef<'s>>,
    multi: bool,
    collation: Option<Doc<'s>>,
    let_variables: Option<Doc<'s>>,
}

fn document<'d>(doc: Doc<'d>, name: &str) -> Option<Doc<'d>> {
    match doc.get(name) {
        Some(ValueRef::Document(value)) => Some(value),
        _ => None,
    }
}

impl<'s> Statement<'s> {
    fn of(sample: Doc<'s>) -> Option<(&'s str, Statement<'s>)> {
        let Some(ValueRef::String(kind)) = sample.get("cmdName") else { return None };
        let command = document(sample, "cmd")?;
        let let_variables = document(command, "let");
        let of_list = |field: &str| match command.get(field) {
            Some(ValueRef::Array(statements)) => match statements.get(0) {
                Some(ValueRef::Document(statement)) => Some(statement),
                _ => None,
            },
            _ => None,
        };
        let (within, filter, update) = match kind {
            "update" => (of_list("updates")?, "q", Some("u")),
            "delete" => (of_list("deletes")?, "q", None),
            "findAndModify" => (command, "query", Some("update")),
            _ => (command, "filter", None),
        };
        let multi = match kind {
            "update" => matches!(within.get("multi"), Some(ValueRef::Bool(true))),
            "delete" => within.get("limit").and_then(arbor_lang::number::exact_i64) == Some(0),
            _ => false,
        };
        let statement = Statement {
            filter: document(within, filter).unwrap_or(Doc::empty()),
            update: update.and_then(|name| within.get(name)),
            multi,
            collation: document(within, "collation"),
            let_variables,
        };
        Some((kind, statement))
    }

    fn spans(&self, key: Doc<'_>) -> Result<Vec<KeySpan>> {
        let mut context = Context::new(now_ms());
        if let Some(collation) = self.collation.filter(|collation| !collation.is_empty()) {
            context.collation = Collation::parse(collation)?;
        }
        if self.let_variables.is_some() {
            // a value that a variable gives is not known here
            let own = self.filter.iter().filter(|(name, _)| *name != "$expr").collect::<DocBuf>();
            return Ok(shard_key_spans(&Filter::parse_query(own.as_doc(), &context)?, key));
        }
        Ok(shard_key_spans(&Filter::parse_query(self.filter, &context)?, key))
    }

    /// Returns true if an update names a field of the key. COMPAT: MongoDB compares documents before and after it.
    fn changes_key(&self, key: Doc<'_>) -> bool {
        let touches = |changed: &str| {
            let within = |one: &str, other: &str| {
                one == other || one.strip_prefix(other).is_some_and(|rest| rest.starts_with('.'))
            };
            key.iter().any(|(path, _)| within(path, changed) || within(changed, path))
        };
        let of_operators = |update: Doc<'_>| {
            let mut operators = update.iter().filter(|(name, _)| *name != "$setOnInsert");
            operators.any(|(_, fields)| match fields {
                ValueRef::Document(fields) => fields.iter().any(|(name, _)| touches(name)),
                ValueRef::Array(names) => {
                    names.iter().any(|name| matches!(name, ValueRef::String(name) if touches(name)))
                }
                ValueRef::String(name) => touches(name),
                _ => false,
            })
        };
        match self.update {
            Some(ValueRef::Document(update)) if update.first().is_some_and(|(name, _)| name.starts_with('$')) => {
                of_operators(update)
            }
            Some(ValueRef::Array(stages)) => stages.iter().any(|stage| match stage {
                ValueRef::Document(stage) => of_operators(stage),
                _ => false,
            }),
            _ => false,
        }
    }
}

impl Counts {
    fn new(kinds: &[&'static str], ranges: usize) -> Counts {
        Counts {
            kinds: kinds.iter().map(|kind| (*kind, 0)).collect(),
            reaches: [0; 3],
            ranges: vec![0; ranges],
            key_updates: 0,
            single_without: 0,
            multi_without: 0,
        }
    }

    fn add(&mut self, kind: &str, statement: &Statement<'_>, key: Doc<'_>, bounds: &[Vec<u8>]) {
        let Ok(spans) = statement.spans(key) else { return };
        let Some((_, count)) = self.kinds.iter_mut().find(|(own, _)| *own == kind) else { return };
        *count += 1;
        let reach = reach_of(&spans, key);
        if let Some(count) = self.reaches.get_mut(reach as usize) {
            *count += 1;
        }
        for (at, count) in self.ranges.iter_mut().enumerate() {
            let low = at.checked_sub(1).and_then(|before| bounds.get(before));
            let high = bounds.get(at);
            let overlaps = |span: &KeySpan| {
                let below_end = high.is_none_or(|high| span.low < *high);
                let above_begin = low.is_none_or(|low| span.high.as_ref().is_none_or(|end| low < end));
                below_end && above_begin
            };
            *count += i64::from(spans.iter().any(overlaps));
        }
        self.key_updates += i64::from(statement.changes_key(key));
        if reach != Reach::Single {
            let count = if statement.multi { &mut self.multi_without } else { &mut self.single_without };
            *count += 1;
        }
    }

    /// `noun` is that of the names, as `Reads`.
    fn show(&self, noun: &str, is_of_writes: bool) -> DocBuf {
        let total: i64 = self.kinds.iter().map(|(_, count)| count).sum();
        let mut sizes = DocBuf::new().with("total", total);
        self.kinds.iter().for_each(|(kind, count)| {
            sizes.append(kind, *count);
        });
        let mut shown = DocBuf::new().with("sampleSize", &sizes);
        if total == 0 {
            return shown;
        }
        let percentage = |count: i64| count as f64 * 100.0 / total as f64;
        for (name, count) in ["SingleShard", "MultiShard", "ScatterGather"].iter().zip(self.reaches) {
            shown.append(&format!("percentageOf{name}{noun}"), percentage(count));
        }
        let ranges: ArrayBuf = self.ranges.iter().copied().collect();
        shown.append(&format!("num{noun}ByRange"), &ranges);
        if is_of_writes {
            shown
                .append("percentageOfShardKeyUpdates", percentage(self.key_updates))
                .append("percentageOfSingleWritesWithoutShardKey", percentage(self.single_without))
                .append("percentageOfMultiWritesWithoutShardKey", percentage(self.multi_without));
        }
        shown
    }
}

fn bound(key: Doc<'_>, value: ValueRef<'_>) -> Vec<u8> {
    let mut builder = KeyBuilder::new();
    key.iter().for_each(|_| {
        builder.push(value, false);
    });
    builder.bytes().to_vec()
}

fn reach_of(spans: &[KeySpan], key: Doc<'_>) -> Reach {
    let (lowest, highest) = (bound(key, ValueRef::MinKey), bound(key, ValueRef::MaxKey));
    let is_whole = |span: &KeySpan| span.low <= lowest && span.high.as_ref().is_none_or(|high| *high >= highest);
    match spans {
        // nothing can match
        [] => Reach::Single,
        [only] if only.point => Reach::Single,
        spans if spans.iter().any(is_whole) => Reach::Scatter,
        _ => Reach::Multi,
    }
}

impl Analysis {
    /// Appends both distributions.
    pub(super) fn distributions(&self, on: &dyn Analyzed, totals: Totals, reply: &mut DocBuf) -> Result<()> {
        let key = self.key.as_doc();
        let samples = on.samples(&self.namespace)?;
        let bounds = if samples.is_empty() { Vec::new() } else { self.bounds(on, totals)? };
        let ranges = bounds.len() + 1;
        let (mut reads, mut writes) = (Counts::new(&READS, ranges), Counts::new(&WRITES, ranges));
        for sample in &samples {
            let Some((kind, statement)) = Statement::of(sample.as_doc()) else { continue };
            let counts = if WRITES.contains(&kind) { &mut writes } else { &mut reads };
            counts.add(kind, &statement, key, &bounds);
        }
        reply.append("readDistribution", &reads.show("Reads", false));
        reply.append("writeDistribution", &writes.show("Writes", true));
        Ok(())
    }

    /// Returns the bounds between ranges of about the same number of documents.
    fn bounds(&self, on: &dyn Analyzed, totals: Totals) -> Result<Vec<Vec<u8>>> {
        if totals.documents == 0 {
            return Ok(Vec::new());
        }
        let size = (RANGES * SAMPLES_OF_RANGE) as i64;
        let (values, _) = self.value_expressions();
        let pipeline: ArrayBuf = [
            DocBuf::new().with("$sample", &DocBuf::new().with("size", size)),
            DocBuf::new().with("$project", &DocBuf::new().with("_id", 0i32).with("key", &values)),
        ]
        .iter()
        .collect();
        let found = on.aggregate(&self.namespace, &pipeline)?;
        let key_of = |found: &DocBuf| {
            let mut builder = KeyBuilder::new();
            let values = document(found.as_doc(), "key").unwrap_or(Doc::empty());
            values.iter().for_each(|(_, value)| {
                builder.push(value, false);
            });
            builder.bytes().to_vec()
        };
        let mut keys: Vec<Vec<u8>> = found.iter().map(key_of).collect();
        keys.sort_unstable();
        let mut bounds: Vec<Vec<u8>> =
            (1..RANGES).filter_map(|at| keys.get(at * keys.len() / RANGES).cloned()).collect();
        bounds.dedup();
        Ok(bounds)
    }

    /// Returns expressions for the values of the key of a document, by number, and for whether there are arrays.
    pub(super) fn value_expressions(&self) -> (DocBuf, DocBuf) {
        let (mut values, mut arrays) = (DocBuf::new(), ArrayBuf::new());
        for (at, (path, direction)) in self.key.as_doc().iter().enumerate() {
            let path = format!("${path}");
            let or_null: ArrayBuf = [ValueRef::String(&path), ValueRef::Null].into_iter().collect();
            let value = DocBuf::new().with("$ifNull", &or_null);
            let value = if is_hashed(direction) { DocBuf::new().with("$toHashedIndexKey", &value) } else { value };
            values.append(&format!("k{at}"), &value);
            let only: ArrayBuf = [path.as_str()].into_iter().collect();
            arrays.push(&DocBuf::new().with("$isArray", &only));
        }
        (values, DocBuf::new().with("$or", &arrays))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arbor_notation::doc;

    fn counts(kind: &str, command: &str, key: &str) -> (Counts, &'static str) {
        let sample = doc(&format!("{{cmdName: '{kind}', cmd: {command}}}"));
        let (kind, statement) = Statement::of(sample.as_doc()).unwrap();
        let is_write = WRITES.contains(&kind);
        let mut counts = Counts::new(if is_write { &WRITES } else { &READS }, 3);
        let at = |value: i32| {
            let mut builder = KeyBuilder::new();
            builder.push(ValueRef::Int32(value), false);
            builder.bytes().to_vec()
        };
        counts.add(kind, &statement, doc(key).as_doc(), &[at(10), at(20)]);
        (counts, if is_write { "Writes" } else { "Reads" })
    }

    #[test]
    fn statements_reach_ranges() {
        for (kind, command, key, reaches, ranges) in [
            ("find", "{filter: {a: 5}}", "{a: 1}", [1, 0, 0], [1, 0, 0]),
            ("find", "{filter: {a: 10}}", "{a: 1}", [1, 0, 0], [0, 1, 0]),
            ("count", "{filter: {a: {$gte: 5, $lt: 15}}}", "{a: 1}", [0, 1, 0], [1, 1, 0]),
            ("distinct", "{filter: {a: {$in: [1, 30]}}}", "{a: 1}", [0, 1, 0], [1, 0, 1]),
            ("aggregate", "{filter: {b: 5}}", "{a: 1}", [0, 0, 1], [1, 1, 1]),
            ("find", "{filter: {a: 5}}", "{a: 1, b: 1}", [0, 1, 0], [1, 0, 0]),
            ("find", "{filter: {a: 5, b: 6}}", "{a: 1, b: 1}", [1, 0, 0], [1, 0, 0]),
            ("find", "{filter: {}}", "{a: 'hashed'}", [0, 0, 1], [1, 1, 1]),
            ("find", "{filter: {a: 'x'}, collation: {locale: 'de'}}", "{a: 1}", [0, 0, 1], [1, 1, 1]),
        ] {
            let (counts, _) = counts(kind, command, key);
            assert_eq!(
                (counts.reaches, counts.ranges.as_slice()),
                (reaches, ranges.as_slice()),
                "{kind} {command} {key}"
            );
        }
    }

    #[test]
    fn writes_are_classified() {
        for (kind, command, key_updates, single_without, multi_without) in [
            ("update", "{update: 'c', updates: [{q: {a: 5}, u: {$set: {b: 1}}}]}", 0, 0, 0),
            ("update", "{update: 'c', updates: [{q: {b: 5}, u: {$set: {a: 1}}}]}", 1, 1, 0),
            ("update", "{update: 'c', updates: [{q: {b: 5}, u: {$inc: {'a.x': 1}}, multi: true}]}", 1, 0, 1),
            ("update", "{update: 'c', updates: [{q: {a: 5}, u: [{$unset: ['a']}]}]}", 1, 0, 0),
            ("update", "{update: 'c', updates: [{q: {a: 5}, u: {$setOnInsert: {a: 5}}}]}", 0, 0, 0),
            ("delete", "{delete: 'c', deletes: [{q: {b: 5}, limit: 0}]}", 0, 0, 1),
            ("delete", "{delete: 'c', deletes: [{q: {b: 5}, limit: 1}]}", 0, 1, 0),
            ("findAndModify", "{findAndModify: 'c', query: {a: 5}, update: {$set: {a: 6}}}", 1, 0, 0),
        ] {
            let (counts, _) = counts(kind, command, "{a: 1}");
            let found = (counts.key_updates, counts.single_without, counts.multi_without);
            assert_eq!(found, (key_updates, single_without, multi_without), "{command}");
        }
    }
}
