//! Comparison of a requested index with the existing ones: it exists, is new, or contradicts one of them.
//!
//! Key pattern, collation, `unique`, `sparse` and the partial filter identify an index; its name and the other options are settings of it.

use arbor_bson::compare_docs;

use crate::index::refusal::{problem, shown};
use crate::index::spec::IndexSpec;
use crate::{Index, IndexProblem, Result};

/// Similarity of a requested index to an existing one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Likeness {
    /// Another key pattern, or other options that make it another index.
    Different,
    /// An equal index with other settings.
    Equivalent,
    Identical,
}

impl IndexSpec {
    fn likeness(&self, existing: &Index) -> Likeness {
        let same_key = compare_docs(self.key.as_doc(), existing.key.as_doc()).is_eq();
        let same_filter = match (&self.partial, &existing.partial) {
            (None, None) => true,
            (Some(own), Some(other)) => compare_docs(own.doc().as_doc(), other.doc().as_doc()).is_eq(),
            _ => false,
        };
        if !same_key
            || !same_filter
            || self.collation != existing.collation
            || (self.generator != existing.generator && self.generator.text().is_none())
            || self.unique != existing.unique
            || self.sparse != existing.sparse
        {
            return Likeness::Different;
        }
        let same_settings = self.generator == existing.generator
            && self.hidden == existing.hidden
            && self.clustering == existing.clustering
            && self.expire_after_seconds == existing.expire_after_seconds;
        if same_settings { Likeness::Identical } else { Likeness::Equivalent }
    }

    /// Returns true if it has to be built in addition to `existing`; an identical one need not.
    pub(crate) fn is_new(&self, existing: &[impl AsRef<Index>]) -> Result<bool> {
        let both = |index: &Index| {
            format!("Requested index: {}, existing index: {}", shown(self.doc.as_doc()), shown(index.spec.doc.as_doc()))
        };
        if let Some(index) = existing.iter().map(AsRef::as_ref).find(|index| index.name == self.name) {
            return match self.likeness(index) {
                Likeness::Identical => Ok(false),
                Likeness::Equivalent => problem(
                    IndexProblem::OptionsConflict,
                    format!(
                        "An equivalent index already exists with the same name but different options. {}",
                        both(index)
                    ),
                ),
                Likeness::Different => problem(
                    IndexProblem::KeySpecsConflict,
                    format!(
                        "An existing index has the same name as the requested index. When index names are not specified, \
                         they are auto generated and can cause conflicts. Please refer to our documentation. {}",
                        both(index)
                    ),
                ),
            };
        }
        for index in existing.iter().map(AsRef::as_ref) {
            match self.likeness(index) {
                Likeness::Different => {}
                Likeness::Identical => {
                    let reason = format!("Index already exists with a different name: {}", index.name);
                    return problem(IndexProblem::OptionsConflict, reason);
                }
                Likeness::Equivalent => {
                    let reason = format!(
                        "An equivalent index already exists with a different name and options. {}",
                        both(index)
                    );
                    return problem(IndexProblem::OptionsConflict, reason);
                }
            }
        }
        let text = existing.iter().map(AsRef::as_ref).find(|index| index.generator.text().is_some());
        match text.filter(|_| self.generator.text().is_some()) {
            Some(index) => problem(
                IndexProblem::CannotCreate,
                format!("only one text index per collection allowed, found existing text index \"{}\"", index.name),
            ),
            None => Ok(true),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;
    use crate::index::Multikey;
    use arbor_base::TreeId;
    use arbor_bson::{DocBuf, Value};

    const ONE: Value = Value::Int32(1);

    fn text(text: &str) -> Value {
        Value::String(text.into())
    }

    fn spec(key: &[(&str, Value)], options: &[(&str, Value)]) -> DocBuf {
        let key: DocBuf = key.iter().map(|(name, value)| (*name, value)).collect();
        let mut spec = DocBuf::new().with("key", &key);
        for (name, value) in options {
            spec.append(name, value);
        }
        spec
    }

    #[test]
    fn existing_indexes_make_conflicts() {
        let parse = |doc: &DocBuf| IndexSpec::parse(doc.as_doc()).unwrap();
        let existing = |doc: &DocBuf| {
            vec![std::sync::Arc::new(parse(doc).into_index(TreeId(99), "ftree".into(), Multikey::default()))]
        };
        let plain = spec(&[("a", ONE)], &[]);
        let check = |existing: &[std::sync::Arc<Index>], requested: DocBuf, outcome: Result<bool, IndexProblem>| {
            let got = parse(&requested).is_new(existing).map_err(|error| match error {
                Error::Index { kind, .. } => kind,
                other => panic!("{other}"),
            });
            assert_eq!(got, outcome, "{requested:?}");
        };
        let own = existing(&plain);
        let with = |options: &[(&str, Value)]| spec(&[("a", ONE)], options);
        check(&own, plain.clone(), Ok(false));
        check(&own, spec(&[("a", Value::Double(1.0))], &[]), Ok(false));
        check(&own, spec(&[("b", ONE)], &[]), Ok(true));
        check(&own, spec(&[("a", Value::Int32(-1))], &[]), Ok(true));
        check(&own, spec(&[("b", ONE)], &[("name", text("a_1"))]), Err(IndexProblem::KeySpecsConflict));
        check(&own, with(&[("unique", Value::Bool(true))]), Err(IndexProblem::KeySpecsConflict));
        check(&own, with(&[("unique", Value::Bool(true)), ("name", text("u"))]), Ok(true));
        check(&own, with(&[("expireAfterSeconds", ONE)]), Err(IndexProblem::OptionsConflict));
        check(&own, with(&[("name", text("other"))]), Err(IndexProblem::OptionsConflict));
        check(
            &own,
            with(&[("hidden", Value::Bool(true)), ("name", text("other"))]),
            Err(IndexProblem::OptionsConflict),
        );
    }
}
