//! `$merge`: the documents of a pipeline are written into a collection, which keeps its other documents.
//!
//! `{ $merge: "c" }` or `{ $merge: { into: "c" | { db, coll }, on: "f" | ["f", ..], let: {..}, whenMatched: "merge" |
//! "replace" | "keepExisting" | "fail" | [..], whenNotMatched: "insert" | "discard" | "fail" } }`. The `on` fields must
//! have a unique index. Each document is found and changed in one transaction, many documents in each.

use std::cmp::Ordering;

use arbor_bson::{Array, ArrayBuf, Doc, DocBuf, ValueRef, compare};
use arbor_lang::update::Update;
use arbor_lang::{Code, Collation, Context, Expression, Filter, Path, field_path, text};
use arbor_store::{Collection, CollectionGuard, Namespace, UpdateKind};
use arbor_txn::{MaybeConflict, Transaction};

use super::next_documents::next_documents;
use crate::plan::Query;
use crate::write::{Validated, find_one, is_full, new_object_id, prepare};
use crate::{Cursor, Error, Interrupt, Result, Scope};

#[derive(Clone)]
pub(crate) struct Merge {
    into: Namespace,
    /// Never empty.
    on: Vec<Path>,
    matched: Matched,
    not_matched: NotMatched,
    variables: Vec<(String, Expression)>,
    context: Context,
}

#[derive(Clone, Debug)]
enum Matched {
    Replace,
    KeepExisting,
    Merge,
    Fail,
    Pipeline(ArrayBuf),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NotMatched {
    Insert,
    Discard,
    Fail,
}

impl Merge {
    pub(crate) fn parse(spec: ValueRef<'_>, db: &str, context: &Context) -> Result<Merge> {
        let mut merge = Merge {
            into: match spec {
                ValueRef::String(name) => Namespace::new(db, name)?,
                ValueRef::Document(doc) => target(doc, db)?,
                other => {
                    let found = text::type_name(Some(other));
                    let message = format!("$merge requires a string or object argument, but found {found}");
                    return Err(Error::new(Code::TYPE_MISMATCH, message));
                }
            },
            on: vec![Path::new("_id")],
            matched: Matched::Merge,
            not_matched: NotMatched::Insert,
            variables: Vec::new(),
            context: context.clone(),
        };
        if let ValueRef::Document(doc) = spec {
            merge.read_options(doc)?;
        }
        merge.check()?;
        Ok(merge)
    }

    fn read_options(&mut self, spec: Doc<'_>) -> Result<()> {
        let mut variables = None;
        for (name, value) in spec {
            match (name, value) {
                ("into", _) => {}
                // as if it were not there
                ("let" | "whenNotMatched", ValueRef::Null) => {}
                ("on", value) => self.on = on_fields(value)?,
                ("let", ValueRef::Document(doc)) => variables = Some(doc),
                ("let", other) => return Err(wrong_type("let", other, "object")),
                ("whenMatched", ValueRef::Array(stages)) => self.matched = Matched::Pipeline(stages.to_buf()),
                ("whenMatched", ValueRef::String(mode)) => self.matched = matched_mode(mode)?,
                ("whenMatched", other) => {
                    let found = text::type_name(Some(other));
                    let message =
                        format!("$merge 'whenMatched' field  must be either a string or an array, but found {found}");
                    return Err(location(51191, message));
                }
                ("whenNotMatched", ValueRef::String(mode)) => self.not_matched = not_matched_mode(mode)?,
                ("whenNotMatched", other) => return Err(wrong_type("whenNotMatched", other, "string")),
                _ => return Err(location(40415, format!("BSON field '$merge.{name}' is an unknown field."))),
            }
        }
        match (&self.matched, variables) {
            (Matched::Pipeline(_), Some(variables)) => {
                for (name, value) in variables {
                    arbor_lang::expression::variable::check_user_name(name)?;
                    if name == "new" && !matches!(value, ValueRef::String("$$ROOT")) {
                        let message =
                            "'let' may not define a value for the reserved 'new' variable other than '$$ROOT'";
                        return Err(location(51273, message.to_owned()));
                    }
                    self.variables.push((name.to_owned(), Expression::parse(value, &self.context)?));
                }
            }
            (Matched::Pipeline(_), None) => self.variables.push(("new".to_owned(), Expression::Root)),
            (mode, Some(_)) => {
                let message = format!("Cannot use 'let' variables with 'whenMatched: {}' mode", mode.name());
                return Err(location(51199, message));
            }
            (_, None) => {}
        }
        Ok(())
    }

    /// Checks the modes, before there is a document.
    fn check(&self) -> Result<()> {
        let together = match &self.matched {
            Matched::KeepExisting | Matched::Fail => self.not_matched == NotMatched::Insert,
            _ => true,
        };
        if !together {
            let message = format!(
                "Combination of $merge modes 'whenMatched: {}' and 'whenNotMatched: {}' is not supported",
                self.matched.name(),
                self.not_matched.name()
            );
            return Err(location(51181, message));
        }
        if matches!(self.into.db(), "admin" | "config" | "local") {
            return Err(location(31320, format!("Cannot $merge to internal database: {}", self.into.db())));
        }
        if self.into.collection().starts_with("system.") {
            return Err(location(31319, format!("Cannot $merge to special collection: {}", self.into.collection())));
        }
        if let Matched::Pipeline(stages) = &self.matched {
            let mut context = self.context.clone();
            for (name, expression) in &self.variables {
                context.variables.set_or_missing(name, expression.eval(Doc::empty())?);
            }
            Update::parse(ValueRef::Array(stages.as_array()), &[], &context)?;
        }
        Ok(())
    }

    pub(crate) fn write(
        &self,
        scope: &Scope<'_>,
        mut cursor: Cursor,
        bypass: bool,
        interrupt: &Interrupt,
    ) -> Result<()> {
        self.check_target(scope)?;
        while let Some(documents) = next_documents(scope, &mut cursor, interrupt)? {
            let Some(held) = self.hold(scope)? else { continue };
            let collection = Validated::new(scope, &held, bypass)?;
            let (mut rest, mut first) = (documents.as_slice(), None);
            while !rest.is_empty() {
                let write = |txn: &mut Transaction| self.write_group(scope, &collection, txn, rest, interrupt);
                let (done, failed) = scope.write(write)?;
                // the others of the batch are written nonetheless
                let skipped = usize::from(failed.is_some());
                first = first.or(failed);
                rest = rest.get(done + skipped..).unwrap_or_default();
            }
            if let Some(error) = first {
                return Err(error);
            }
        }
        Ok(())
    }

    /// The collection; made if documents are to be inserted. None: it does not exist, and nothing is to be done.
    fn hold(&self, scope: &Scope<'_>) -> Result<Option<CollectionGuard>> {
        match (self.not_matched, scope.store.hold(&self.into)) {
            (_, Some(held)) => Ok(Some(held)),
            (NotMatched::Insert, None) => Ok(Some(scope.store.hold_or_create(&self.into)?)),
            (NotMatched::Discard, None) => Ok(None),
            (NotMatched::Fail, None) => Err(no_match()),
        }
    }

    /// Returns how many documents were written, and why the next one was not.
    fn write_group(
        &self,
        scope: &Scope<'_>,
        collection: &Validated<'_>,
        txn: &mut Transaction,
        documents: &[DocBuf],
        interrupt: &Interrupt,
    ) -> Result<(usize, Option<Error>)> {
        for (done, document) in documents.iter().enumerate() {
            if done > 0 && is_full(txn) {
                return Ok((done, None));
            }
            match self.write_one(scope, collection, txn, document, interrupt) {
                Ok(()) => {}
                Err(error) if error.is_conflict() || !error.concerns_document() => return Err(error),
                Err(error) => return Ok((done, Some(error))),
            }
        }
        Ok((documents.len(), None))
    }

    fn write_one(
        &self,
        scope: &Scope<'_>,
        collection: &Validated<'_>,
        txn: &mut Transaction,
        document: &DocBuf,
        interrupt: &Interrupt,
    ) -> Result<()> {
        let with_id = self.with_id(document);
        let document = with_id.as_ref().unwrap_or(document).as_doc();
        match self.find(scope, collection, txn, document, interrupt)? {
            Some(old) => match self.changed(collection, old.as_doc(), document)? {
                Some(new) => collection.update(txn, old.as_doc(), new.as_doc(), self.update_kind()),
                None => Ok(()),
            },
            None => match self.not_matched {
                NotMatched::Insert => {
                    let prepared = prepare(document)?;
                    collection.insert(txn, Doc::trusted(&prepared))
                }
                NotMatched::Discard => Ok(()),
                NotMatched::Fail => Err(no_match()),
            },
        }
    }

    fn update_kind(&self) -> UpdateKind<'static> {
        if matches!(self.matched, Matched::Replace) { UpdateKind::Replacement } else { UpdateKind::Update }
    }

    /// The document with an `_id` made for it, where it is found by that and has none.
    fn with_id(&self, document: &DocBuf) -> Option<DocBuf> {
        let by_id = self.on.iter().any(|path| path.as_str() == "_id");
        if !by_id || document.get("_id").is_some() {
            return None;
        }
        let mut with_id = DocBuf::new().with("_id", new_object_id());
        for (name, value) in document.as_doc() {
            with_id.append(name, value);
        }
        Some(with_id)
    }

    fn find(
        &self,
        scope: &Scope<'_>,
        collection: &Collection,
        txn: &Transaction,
        document: Doc<'_>,
        interrupt: &Interrupt,
    ) -> Result<Option<DocBuf>> {
        let mut filter = DocBuf::new();
        for path in &self.on {
            let value = on_value(path, document)?;
            let comparable = self.context.collation == collection.collation || !Collation::touches(value);
            if self.on.len() == 1 && path.as_str() == "_id" && comparable {
                let record = arbor_store::record(txn, collection, &collection.id_key(value))?;
                return Ok(record.map(|record| DocBuf::from_trusted(record.into_owned())));
            }
            filter.append(path.as_str(), &DocBuf::new().with("$eq", value));
        }
        let query = Query::new(Filter::parse(filter.as_doc(), &self.context)?);
        Ok(find_one(scope, txn, collection, &query, interrupt)?.map(|row| row.document))
    }

    /// Returns the new version of a document of the collection. None: it stays as it is.
    fn changed(&self, collection: &Collection, old: Doc<'_>, new: Doc<'_>) -> Result<Option<DocBuf>> {
        let changed = match &self.matched {
            Matched::KeepExisting => return Ok(None),
            Matched::Fail => return Err(self.duplicate(collection, new)),
            Matched::Replace => replaced(old, new)?,
            Matched::Merge => merged(old, new)?,
            Matched::Pipeline(stages) => {
                return Ok(self.update(stages.as_array(), new)?.apply(old, None).map_err(not_updated)?);
            }
        };
        if changed.as_bytes() == old.as_bytes() {
            return Ok(None);
        }
        let stored = prepare(changed.as_doc())?.into_owned();
        Ok(Some(DocBuf::from_trusted(stored)))
    }

    /// The update pipeline with its variables for one document.
    fn update(&self, stages: Array<'_>, new: Doc<'_>) -> Result<Update> {
        let mut context = self.context.clone();
        for (name, expression) in &self.variables {
            // one without a value is not defined
            if let Some(value) = expression.eval(new)? {
                context.variables.set(name, value);
            }
        }
        Ok(Update::parse(ValueRef::Array(stages), &[], &context)?)
    }

    fn duplicate(&self, collection: &Collection, new: Doc<'_>) -> Error {
        let (mut key_pattern, mut key_value) = (DocBuf::new(), DocBuf::new());
        for path in &self.on {
            key_pattern.append(path.as_str(), 1i32);
            key_value.append(path.as_str(), path.get_strict(new).unwrap_or(ValueRef::Null));
        }
        let index = collection.indexes.iter().find(|index| self.is_by(&index_fields(index)));
        let index_name = index.map_or("_id_".to_owned(), |index| index.name.clone());
        Error::Store(arbor_store::Error::DuplicateKey {
            namespace: collection.namespace.clone(),
            index_name,
            key_pattern,
            key_value,
            collation: Collation::simple(),
        })
    }

    /// Errors: the target is a view, or has no unique index on exactly the `on` fields.
    pub(crate) fn check_target(&self, scope: &Scope<'_>) -> Result<()> {
        scope.store.refuse_view(&self.into)?;
        let by_id = self.is_by(&["_id"]);
        let collection = scope.store.collection(&self.into);
        let by_index = collection.is_some_and(|collection| {
            collection.indexes.iter().any(|index| {
                let partial = index.partial.is_some();
                let same = index.collation == self.context.collation;
                index.unique && !partial && same && self.is_by(&index_fields(index))
            })
        });
        match by_id || by_index {
            true => Ok(()),
            false => Err(location(51183, "Cannot find index to verify that join fields will be unique")),
        }
    }

    fn is_by(&self, fields: &[&str]) -> bool {
        fields.len() == self.on.len() && self.on.iter().all(|path| fields.contains(&path.as_str()))
    }
}

impl Matched {
    fn name(&self) -> &'static str {
        match self {
            Matched::Replace => "replace",
            Matched::KeepExisting => "keepExisting",
            Matched::Merge => "merge",
            Matched::Fail => "fail",
            Matched::Pipeline(_) => "pipeline",
        }
    }
}

impl NotMatched {
    fn name(self) -> &'static str {
        match self {
            NotMatched::Insert => "insert",
            NotMatched::Discard => "discard",
            NotMatched::Fail => "fail",
        }
    }
}

fn no_match() -> Error {
    let message = "$merge could not find a matching document in the target collection for at least one document in the \
                   source collection";
    location(13113, message)
}

fn target(spec: Doc<'_>, db: &str) -> Result<Namespace> {
    match spec.get("into") {
        Some(ValueRef::String("")) => Err(location(5786800, "$merge 'into' field cannot be an empty string")),
        Some(ValueRef::String(name)) => Ok(Namespace::new(db, name)?),
        Some(ValueRef::Document(into)) => {
            let part = |name: &str| match into.get(name) {
                Some(ValueRef::String(text)) => Ok(Some(text)),
                None | Some(ValueRef::Null) => Ok(None),
                Some(other) => Err(wrong_type(&format!("into.{name}"), other, "string")),
            };
            if let Some((name, _)) = into.iter().find(|(name, _)| !matches!(*name, "db" | "coll")) {
                return Err(location(40415, format!("BSON field 'into.{name}' is an unknown field.")));
            }
            let Some(coll) = part("coll")? else {
                let message = "$merge 'into' field must specify a 'coll' that is not empty, null or undefined";
                return Err(location(51178, message));
            };
            if coll.is_empty() {
                let message = "$merge 'into' field must specify a 'coll' that is not empty, null or undefined";
                return Err(location(5786800, message.to_owned()));
            }
            Ok(Namespace::new(part("db")?.filter(|db| !db.is_empty()).unwrap_or(db), coll)?)
        }
        Some(other) => {
            let found = text::type_name(Some(other));
            let message = format!("$merge 'into' field  must be either a string or an object, but found {found}");
            Err(location(51178, message))
        }
        None => Err(location(40414, "BSON field '$merge.into' is missing but a required field")),
    }
}

fn on_fields(value: ValueRef<'_>) -> Result<Vec<Path>> {
    match value {
        ValueRef::String(name) => Ok(vec![field_path::parse(name)?]),
        ValueRef::Array(names) => {
            let mut paths: Vec<Path> = Vec::new();
            for name in names.iter() {
                let ValueRef::String(name) = name else {
                    let found = text::type_name(Some(name));
                    let message = format!("$merge 'on' array elements must be strings, but found {found}");
                    return Err(location(51134, message));
                };
                let path = field_path::parse(name)?;
                if paths.contains(&path) {
                    return Err(location(31465, format!("Found a duplicate field '{name}'")));
                }
                paths.push(path);
            }
            match paths.is_empty() {
                true => Err(location(51187, "If explicitly specifying $merge 'on', must include at least one field")),
                false => Ok(paths),
            }
        }
        other => {
            let found = text::type_name(Some(other));
            let message =
                format!("$merge 'on' field  must be either a string or an array of strings, but found {found}");
            Err(location(51186, message))
        }
    }
}

fn matched_mode(mode: &str) -> Result<Matched> {
    Ok(match mode {
        "replace" => Matched::Replace,
        "keepExisting" => Matched::KeepExisting,
        "merge" => Matched::Merge,
        "fail" => Matched::Fail,
        _ => return Err(not_a_mode("whenMatched", mode)),
    })
}

fn not_matched_mode(mode: &str) -> Result<NotMatched> {
    Ok(match mode {
        "insert" => NotMatched::Insert,
        "discard" => NotMatched::Discard,
        "fail" => NotMatched::Fail,
        _ => return Err(not_a_mode("$merge.whenNotMatched", mode)),
    })
}

fn not_a_mode(field: &str, mode: &str) -> Error {
    Error::bad_value(format!("Enumeration value '{mode}' for field '{field}' is not a valid value."))
}

/// The value that a document is found by.
fn on_value<'d>(path: &Path, document: Doc<'d>) -> Result<ValueRef<'d>> {
    match path.get_strict(document) {
        Some(ValueRef::Array(_)) => Err(location(51185, "$merge write error: 'on' field cannot be an array")),
        None | Some(ValueRef::Null | ValueRef::Undefined) => {
            Err(location(51132, "$merge write error: 'on' field cannot be missing, null or undefined"))
        }
        Some(value) => Ok(value),
    }
}

/// `new` with the `_id` of `old`.
fn replaced(old: Doc<'_>, new: Doc<'_>) -> Result<DocBuf> {
    check_same_id(old, new)?;
    let mut out = DocBuf::new();
    if let Some(id) = old.get("_id") {
        out.append("_id", id);
    }
    for (name, value) in new.iter().filter(|(name, _)| *name != "_id") {
        out.append(name, value);
    }
    Ok(out)
}

/// `old` with the fields of `new` over its own.
fn merged(old: Doc<'_>, new: Doc<'_>) -> Result<DocBuf> {
    check_same_id(old, new)?;
    let mut out = DocBuf::new();
    for (name, value) in old {
        out.append(name, new.get(name).filter(|_| name != "_id").unwrap_or(value));
    }
    for (name, value) in new.iter().filter(|(name, _)| old.get(name).is_none()) {
        out.append(name, value);
    }
    Ok(out)
}

fn check_same_id(old: Doc<'_>, new: Doc<'_>) -> Result<()> {
    match (old.get("_id"), new.get("_id")) {
        (Some(old), Some(new)) if compare(old, new) != Ordering::Equal => {
            let message = "Performing an update on the path '_id' would modify the immutable field '_id'";
            Err(not_updated(arbor_lang::Error::new(Code::IMMUTABLE_FIELD, message)).into())
        }
        _ => Ok(()),
    }
}

fn not_updated(error: arbor_lang::Error) -> arbor_lang::Error {
    if error.code != Code::IMMUTABLE_FIELD {
        return error;
    }
    let message = format!(
        "$merge failed to update the matching document, did you attempt to modify the _id or the shard key? :: caused \
         by :: {}",
        error.message
    );
    arbor_lang::Error::new(error.code, message)
}

fn index_fields(index: &arbor_store::Index) -> Vec<&str> {
    index.key_pattern.iter().map(|field| field.path.as_str()).collect()
}

fn wrong_type(field: &str, value: ValueRef<'_>, expected: &str) -> Error {
    let found = text::type_name(Some(value));
    let message = format!("BSON field '$merge.{field}' is the wrong type '{found}', expected type '{expected}'");
    Error::new(Code::TYPE_MISMATCH, message)
}

fn location(code: i32, message: impl Into<String>) -> Error {
    Error::Lang(arbor_lang::Error::location(code, message))
}
