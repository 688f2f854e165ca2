//! Document validation: what the `validator` of a collection says about the documents that are written to it.

mod mismatch;

use std::time::{SystemTime, UNIX_EPOCH};

use arbor_bson::{Doc, DocBuf, Timestamp, ValueRef};
use arbor_lang::{Code, Collation, Context, Filter};
use arbor_store::{Collection, Namespace};

use crate::operator::Run;
use crate::plan::{self, Query, Slots};
use crate::{Database, Error, Interrupt, Result, Scope};

#[derive(Clone, Debug)]
pub(crate) struct Validator {
    filter: Filter,
    /// As the client wrote it.
    source: DocBuf,
    level: Level,
    action: Action,
}

/// `validationLevel`; a collection whose level is `off` has no validator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    Strict,
    /// A document that was wrong before may stay wrong.
    Moderate,
}

/// `validationAction`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Refuse,
    Warn,
}

impl Validator {
    /// None: any document may be written.
    pub(crate) fn of(collection: &Collection, cluster_time: Option<Timestamp>) -> Result<Option<Validator>> {
        let option = |name| match collection.options.get(name) {
            Some(ValueRef::String(value)) => value,
            _ => "",
        };
        let source = match collection.options.get("validator") {
            Some(ValueRef::Document(source)) if !source.is_empty() && option("validationLevel") != "off" => source,
            _ => return Ok(None),
        };
        let level = if option("validationLevel") == "moderate" { Level::Moderate } else { Level::Strict };
        let action = if option("validationAction") == "warn" { Action::Warn } else { Action::Refuse };
        let filter = parse(source, &collection.collation, cluster_time)?;
        Ok(Some(Validator { filter, source: source.to_buf(), level, action }))
    }

    /// Describes why a document that replaces `old` fails; None: it passes, or the failure does not count.
    pub(crate) fn mismatch(&self, old: Option<Doc<'_>>, new: Doc<'_>) -> Result<Option<DocBuf>> {
        if self.filter.matches(new)? {
            return Ok(None);
        }
        if let (Level::Moderate, Some(old)) = (self.level, old)
            && !self.filter.matches(old)?
        {
            return Ok(None);
        }
        let mut info = DocBuf::new();
        if let Some(id) = new.get("_id") {
            info.append("failingDocumentId", id);
        }
        Ok(Some(info.with("details", &mismatch::of_filter(&self.filter, self.source.as_doc(), new)?)))
    }

    pub(crate) fn only_warns(&self) -> bool {
        self.action == Action::Warn
    }
}

/// Refuses what may not be the validator of a collection.
pub fn check_validator(namespace: &Namespace, validator: Doc<'_>) -> Result<()> {
    if validator.is_empty() {
        return Ok(());
    }
    let refused = |message: String| Err(Error::new(Code::INVALID_OPTIONS, message));
    if namespace.is_system() {
        return refused(format!("Document validators not allowed on system collection {namespace}"));
    }
    if matches!(namespace.db(), "admin" | "config" | "local") {
        let db = namespace.db();
        return refused(format!(
            "Document validators are not allowed on collection {namespace} in the {db} internal database"
        ));
    }
    // it is there when documents are written, on a member of a set
    parse(validator, &Collation::simple(), Some(Timestamp { seconds: 0, increment: 0 })).map(drop)
}

/// Counts the documents of a collection that fail its validator.
pub fn count_mismatches(database: &Database, namespace: &Namespace, interrupt: &Interrupt) -> Result<u64> {
    let Some((collection, view)) = database.snapshot(namespace)? else { return Ok(0) };
    let Some(validator) = Validator::of(&collection, Scope::of(database).cluster_time())? else { return Ok(0) };
    let every = Query::new(Filter::everything(&collection.collation));
    let solution = plan::plan(&view, &collection, &every)?.winner;
    let mut slots = Slots::default();
    let mut root = plan::operator(&solution, &every, &database.settings, &mut slots);
    let mut run = Run::new(&view, Some(&collection), interrupt, slots.count());
    let mut wrong = 0;
    while let Some(row) = root.next(&mut run)? {
        wrong += u64::from(!validator.filter.matches(row.document.as_doc())?);
    }
    Ok(wrong)
}

fn parse(validator: Doc<'_>, collation: &Collation, cluster_time: Option<Timestamp>) -> Result<Filter> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64);
    let context = Context { collation: collation.clone(), cluster_time, ..Context::new(now) };
    Ok(Filter::parse(validator, &context)?.without_text()?)
}
