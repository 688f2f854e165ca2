//! `keyCharacteristics`: how many values a shard key has, and how often the most common ones are.

use arbor_bson::{Array, ArrayBuf, Code, Doc, DocBuf, ValueRef};

use super::{Analysis, Analyzed, Sample, Totals, is_hashed};
use crate::{Error, Result};

/// `analyzeShardKeyNumMostCommonValues`
const COMMON_VALUES: i32 = 5;
/// A longer value is not shown: all of them must fit into the reply.
const VALUE_BYTES_MAX: usize = (15 << 20) / COMMON_VALUES as usize;

impl Analysis {
    /// Returns None if the shard key has no supporting index.
    pub(super) fn characteristics(&self, on: &dyn Analyzed, totals: Totals) -> Result<Option<DocBuf>> {
        let indexes = on.indexes(&self.namespace)?;
        if !indexes.iter().any(|index| supports(index.as_doc(), self.key.as_doc())) {
            return Ok(None);
        }
        if totals.documents == 0 {
            let text = format!("cannot analyze a shard key of the collection {}, which is empty", self.namespace);
            return Err(Error::new(Code::ILLEGAL_OPERATION, text));
        }
        let found = on.aggregate(&self.namespace, &self.pipeline(totals))?;
        let empty = DocBuf::new();
        let found = found.first().unwrap_or(&empty).as_doc();
        // an index with arrays is no supporting one
        if matches!(found.get("arrays"), Some(ValueRef::Bool(true))) {
            return Ok(None);
        }
        let number = |name| found.get(name).and_then(arbor_lang::number::exact_i64).unwrap_or(0);
        let mut shown = DocBuf::new().with("numDocsTotal", totals.documents as i64);
        if let Some(orphans) = totals.orphans {
            shown.append("numOrphanDocs", orphans as i64);
        }
        shown.append("avgDocSizeBytes", totals.bytes_of_document as i64);
        shown.append("numDocsSampled", number("sampled"));
        shown.append("isUnique", indexes.iter().any(|index| makes_unique(index.as_doc(), self.key.as_doc())));
        shown.append("numDistinctValues", number("distinct"));
        let common = match found.get("common") {
            Some(ValueRef::Array(common)) => common,
            _ => Array::empty(),
        };
        let common: Vec<DocBuf> = common.iter().filter_map(|one| self.common_value(one)).collect();
        shown.append("mostCommonValues", &common.iter().collect::<ArrayBuf>());
        // COMPAT: records are kept by `_id`, as in a clustered collection, of which MongoDB does not know it either
        shown.append("monotonicity", &DocBuf::new().with("type", "unknown"));
        Ok(Some(shown))
    }

    fn common_value(&self, one: ValueRef<'_>) -> Option<DocBuf> {
        let ValueRef::Document(one) = one else { return None };
        let Some(ValueRef::Document(values)) = one.get("value") else { return None };
        let named = self.key.as_doc().iter().zip(values.iter()).map(|((path, _), (_, value))| (path, value));
        let named: DocBuf = named.collect();
        let mut shown = DocBuf::new();
        match named.as_bytes().len() > VALUE_BYTES_MAX {
            true => shown.append("value", "truncated"),
            false => shown.append("value", &named),
        };
        Some(shown.with("frequency", one.get("frequency").unwrap_or(ValueRef::Int64(0))))
    }

    /// Counts the documents of each value, then the values.
    fn pipeline(&self, totals: Totals) -> ArrayBuf {
        let rate = match self.sample {
            Sample::Rate(rate) => rate,
            Sample::Size(size) => size as f64 / totals.documents as f64,
        };
        let (values, has_array) = self.value_expressions();
        let sum = |of: ValueRef<'_>| DocBuf::new().with("$sum", of);
        let of_value = DocBuf::new()
            .with("_id", &values)
            .with("frequency", &sum(ValueRef::Int64(1)))
            .with("arrays", &DocBuf::new().with("$max", &has_array));
        let shown = DocBuf::new().with("value", "$_id").with("frequency", "$frequency");
        let most = DocBuf::new()
            .with("n", COMMON_VALUES)
            .with("sortBy", &DocBuf::new().with("frequency", -1i32).with("_id", 1i32))
            .with("output", &shown);
        let of_all = DocBuf::new()
            .with("_id", ValueRef::Null)
            .with("sampled", &sum(ValueRef::String("$frequency")))
            .with("distinct", &sum(ValueRef::Int64(1)))
            .with("arrays", &DocBuf::new().with("$max", "$arrays"))
            .with("common", &DocBuf::new().with("$topN", &most));
        let mut pipeline = ArrayBuf::new();
        if rate < 1.0 {
            pipeline.push(&DocBuf::new().with("$match", &DocBuf::new().with("$sampleRate", rate)));
        }
        pipeline.push(&DocBuf::new().with("$group", &of_value));
        pipeline.push(&DocBuf::new().with("$group", &of_all));
        pipeline
    }
}

fn key_of(index: Doc<'_>) -> Doc<'_> {
    match index.get("key") {
        Some(ValueRef::Document(key)) => key,
        _ => Doc::empty(),
    }
}

fn is_ordered(direction: ValueRef<'_>) -> bool {
    matches!(direction, ValueRef::Int32(_) | ValueRef::Int64(_) | ValueRef::Double(_))
}

/// Returns true if an index begins with the fields of a shard key, hashed or not, and has all documents.
fn supports(index: Doc<'_>, key: Doc<'_>) -> bool {
    let is_true = |name: &str| matches!(index.get(name), Some(ValueRef::Bool(true)));
    if is_true("sparse") || index.get("partialFilterExpression").is_some() || index.get("collation").is_some() {
        return false;
    }
    let mut own = key_of(index).iter();
    key.iter().all(|(path, _)| {
        own.next().is_some_and(|(name, direction)| name == path && (is_ordered(direction) || is_hashed(direction)))
    })
}

/// Returns true if an index has each value of a shard key once at most.
fn makes_unique(index: Doc<'_>, key: Doc<'_>) -> bool {
    let own = key_of(index);
    let is_of_id = own.iter().count() == 1 && own.first().is_some_and(|(name, _)| name == "_id");
    let is_unique = is_of_id || matches!(index.get("unique"), Some(ValueRef::Bool(true)));
    let same =
        |((path, _), (name, direction)): ((&str, _), (&str, ValueRef<'_>))| path == name && is_ordered(direction);
    is_unique
        && supports(index, key)
        && own.iter().count() == key.iter().count()
        && key.iter().zip(own.iter()).all(same)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arbor_notation::doc;

    #[test]
    fn indexes_support_keys() {
        let cases = [
            ("{key: {a: 1, b: 1}}", "{a: 1, b: 'hashed'}", true, false),
            ("{key: {a: 'hashed', b: -1, c: 1}}", "{a: 1, b: 'hashed'}", true, false),
            ("{key: {a: 1}, unique: true}", "{a: 1}", true, true),
            ("{key: {a: 1, b: 1}, unique: true}", "{a: 1}", true, false),
            ("{key: {_id: 1}}", "{_id: 'hashed'}", true, true),
            ("{key: {b: 1, a: 1}}", "{a: 1, b: 1}", false, false),
            ("{key: {a: 1}}", "{a: 1, b: 1}", false, false),
            ("{key: {a: '2dsphere'}}", "{a: 1}", false, false),
            ("{key: {a: 1}, sparse: true}", "{a: 1}", false, false),
            ("{key: {a: 1}, unique: true, partialFilterExpression: {}}", "{a: 1}", false, false),
            ("{key: {a: 1}, collation: {locale: 'de'}}", "{a: 1}", false, false),
        ];
        for (index, key, is_supporting, is_unique) in cases {
            let (index, key) = (doc(index), doc(key));
            assert_eq!(supports(index.as_doc(), key.as_doc()), is_supporting, "{index:?} {key:?}");
            assert_eq!(makes_unique(index.as_doc(), key.as_doc()), is_unique, "{index:?} {key:?}");
        }
    }
}
