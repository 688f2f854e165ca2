//! The collections of the source, and their creation at the target.

use arbor_bson::{Doc, DocBuf, Value, ValueRef, identical};

use super::server::{NAMESPACE_EXISTS, NAMESPACE_NOT_FOUND, Server, text};
use super::{Error, Migration, Result, state};

/// Databases that a deployment keeps for itself.
const OWN_DATABASES: [&str; 4] = ["admin", "config", "local", state::DATABASE];
/// Options that `collMod` changes.
const CHANGEABLE: [&str; 4] = ["validator", "validationLevel", "validationAction", "changeStreamPreAndPostImages"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Copied in the order of `_id`, from any place on.
    Ordered,
    /// Copied from the begin to the end: its `_id` has no order that the target has as well, or another order matters (capped).
    Whole,
    /// Like `Whole`; and its changes are in no stream.
    TimeSeries,
    View,
}

#[derive(Clone, Debug)]
pub(super) struct Collection {
    pub db: String,
    pub name: String,
    pub kind: Kind,
    pub options: DocBuf,
    pub uuid: Option<Value>,
}

impl Collection {
    fn read(db: &str, doc: Doc<'_>) -> Option<Collection> {
        let name = doc.get("name").and_then(text)?;
        let options = match doc.get("options") {
            Some(ValueRef::Document(options)) => options.to_buf(),
            _ => DocBuf::new(),
        };
        let uuid = match doc.get("info") {
            Some(ValueRef::Document(info)) => info.get("uuid").map(ValueRef::to_value),
            _ => None,
        };
        let kind = match doc.get("type") {
            Some(ValueRef::String("view")) => Kind::View,
            Some(ValueRef::String("timeseries")) => Kind::TimeSeries,
            _ if options.get("capped").is_some() || options.get("collation").is_some() => Kind::Whole,
            _ => Kind::Ordered,
        };
        // System collections come with what they belong to.
        (!name.starts_with("system.")).then(|| Collection { db: db.to_owned(), name, kind, options, uuid })
    }

    pub(super) fn namespace(&self) -> String {
        format!("{}.{}", self.db, self.name)
    }

    /// Returns a copy of it under another name.
    pub(super) fn at(&self, (db, name): &(String, String)) -> Collection {
        Collection { db: db.clone(), name: name.clone(), ..self.clone() }
    }
}

/// All collections of a database.
pub(super) fn collections(server: &mut Server, db: &str) -> Result<Vec<Collection>> {
    let listed = server.all(db, &DocBuf::new().with("listCollections", 1))?;
    Ok(listed.iter().filter_map(|doc| Collection::read(db, doc.as_doc())).collect())
}

pub(super) fn collection(server: &mut Server, db: &str, name: &str) -> Result<Option<Collection>> {
    let filter = DocBuf::new().with("name", name);
    let listed = server.all(db, &DocBuf::new().with("listCollections", 1).with("filter", &filter))?;
    Ok(listed.first().and_then(|doc| Collection::read(db, doc.as_doc())))
}

/// Names and specifications of the indexes but that of `_id`.
fn indexes(server: &mut Server, own: &Collection) -> Result<Vec<(String, DocBuf)>> {
    let listed = match server.all(&own.db, &DocBuf::new().with("listIndexes", own.name.as_str())) {
        Err(error) if error.code() == Some(NAMESPACE_NOT_FOUND) => Vec::new(),
        listed => listed?,
    };
    let mut found = Vec::new();
    for doc in listed {
        let Some(name) = doc.get("name").and_then(text) else { continue };
        let mut spec = DocBuf::new();
        for (field, value) in doc.as_doc().iter().filter(|(field, _)| !["ns", "v", "background"].contains(field)) {
            spec.append(field, value);
        }
        if name != "_id_" && doc.get("clustered").is_none() {
            found.push((name, spec));
        }
    }
    Ok(found)
}

fn is_unique(spec: &DocBuf) -> bool {
    matches!(spec.get("unique"), Some(ValueRef::Bool(true)))
}

impl Migration {
    /// The collections that are migrated; views are the last ones, since they read others.
    pub(super) fn asked_collections(&mut self) -> Result<Vec<Collection>> {
        let listed = self.source.run("admin", &DocBuf::new().with("listDatabases", 1).with("nameOnly", true))?;
        let mut names = Vec::new();
        if let Some(ValueRef::Array(databases)) = listed.get("databases") {
            let name = |value| match value {
                ValueRef::Document(database) => database.get("name").and_then(text),
                _ => None,
            };
            names.extend(databases.iter().filter_map(name));
        }
        let mut found = Vec::new();
        for db in names.iter().filter(|name| !OWN_DATABASES.contains(&name.as_str())) {
            found.extend(collections(&mut self.source, db)?);
        }
        found.retain(|own| self.is_asked(&own.db, &own.name));
        found.sort_by_key(|own| own.kind == Kind::View);
        Ok(found)
    }

    /// Creates a collection at the target, whose name it has; one that is there stays.
    pub(super) fn create(&mut self, there: &Collection) -> Result<()> {
        let mut command = DocBuf::new().with("create", there.name.as_str());
        for (name, value) in there.options.as_doc().iter() {
            command.append(name, value);
        }
        match self.target.run(&there.db, &command) {
            Err(error) if error.code() == Some(NAMESPACE_EXISTS) => Ok(()),
            created => created.map(drop),
        }
    }

    /// Builds the indexes of a collection that the target lacks; unique ones only if `with_unique`.
    pub(super) fn build_indexes(&mut self, own: &Collection, with_unique: bool) -> Result<()> {
        let there = self.at_target(own);
        let built = indexes(&mut self.target, &there)?;
        for (name, spec) in indexes(&mut self.source, own)? {
            let same = built.iter().find(|(other, _)| *other == name);
            if same.is_some_and(|(_, other)| other.as_bytes() == spec.as_bytes()) || (is_unique(&spec) && !with_unique)
            {
                continue;
            }
            if same.is_some() {
                self.drop_index(&there, &name)?;
            }
            let specs: arbor_bson::ArrayBuf = [&spec].into_iter().collect();
            let command = DocBuf::new().with("createIndexes", there.name.as_str()).with("indexes", &specs);
            self.target.run(&there.db, &command)?;
        }
        Ok(())
    }

    fn drop_index(&mut self, there: &Collection, name: &str) -> Result<()> {
        let command = DocBuf::new().with("dropIndexes", there.name.as_str()).with("index", name);
        self.target.run(&there.db, &command).map(drop)
    }

    /// Makes the collections of the target those of the source.
    pub(super) fn finish_collections(&mut self) -> Result<()> {
        let asked = self.asked_collections()?;
        self.finish_places(&asked)?;
        for own in &asked {
            let there = collection(&mut self.target, &own.db, &own.name)?;
            let is_known = self.places.contains_key(&own.key());
            match (own.kind, there) {
                (Kind::View, Some(there)) if is_known && there.options.as_bytes() == own.options.as_bytes() => {}
                // Changes of time series are in no stream.
                (Kind::View | Kind::TimeSeries, Some(_)) if is_known => self.copy_again(own)?,
                (_, Some(there)) if is_known => {
                    self.repair(own)?;
                    self.change_options(own, &there)?;
                }
                _ => self.copy_again(own)?,
            }
            if own.kind != Kind::View {
                self.drop_other_indexes(own)?;
                self.build_indexes(own, true)?;
            }
        }
        Ok(())
    }

    fn drop_other_indexes(&mut self, own: &Collection) -> Result<()> {
        let asked = indexes(&mut self.source, own)?;
        for (name, _) in indexes(&mut self.target, own)? {
            if asked.iter().all(|(other, _)| *other != name) {
                self.drop_index(own, &name)?;
            }
        }
        Ok(())
    }

    fn change_options(&mut self, own: &Collection, there: &Collection) -> Result<()> {
        let mut change = DocBuf::new().with("collMod", own.name.as_str());
        for name in CHANGEABLE {
            let (asked, found) = (own.options.get(name), there.options.get(name));
            let is_same = |found| asked.is_some_and(|asked| identical(asked, found));
            if let (Some(asked), false) = (asked, found.is_some_and(is_same)) {
                change.append(name, asked);
            }
        }
        if change.as_doc().iter().count() > 1 {
            self.target.run(&own.db, &change)?;
        }
        Ok(())
    }

    /// Refuses a target that has documents of its own where the source's go.
    pub(super) fn check_is_free(&mut self, own: &Collection) -> Result<()> {
        match collection(&mut self.target, &own.db, &own.name)? {
            None => Ok(()),
            Some(_) => Err(Error::Refused(format!("the target has a collection {} already", own.namespace()))),
        }
    }
}
