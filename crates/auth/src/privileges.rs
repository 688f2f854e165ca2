//! Privileges: one, as the documents of roles have it, and all of a user, prepared for checks on the path of each request.

use std::collections::{BTreeMap, HashMap};

use arbor_bson::{ArrayBuf, Doc, DocBuf, ValueRef};
use arbor_protocol::Error;

use crate::action::ANY_ACTION;
use crate::resource::{is_apart, is_system};
use crate::{Action, ActionSet, Resource, Result, Target};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Privilege {
    pub resource: Resource,
    pub actions: ActionSet,
}

impl Privilege {
    pub fn new(resource: Resource, actions: ActionSet) -> Privilege {
        Privilege { resource, actions }
    }

    pub fn read(doc: Doc<'_>) -> Result<Privilege> {
        let Some(ValueRef::Document(resource)) = doc.get("resource") else {
            return Err(Error::bad_value("A privilege requires the document \"resource\""));
        };
        let Some(ValueRef::Array(names)) = doc.get("actions") else {
            return Err(Error::bad_value("A privilege requires the array \"actions\""));
        };
        let resource = Resource::read(resource)?;
        if names.is_empty() {
            return Err(Error::bad_value("The actions of a privilege must not be empty"));
        }
        let mut actions = ActionSet::NONE;
        for name in names.iter() {
            let ValueRef::String(name) = name else {
                return Err(Error::type_mismatch("The actions of a privilege are strings"));
            };
            let unknown = || Error::failed_to_parse(format!("Unrecognized action privilege string: {name}"));
            actions = actions.and(match name {
                ANY_ACTION => ActionSet::any(),
                name => ActionSet::of(&[Action::by_name(name).ok_or_else(unknown)?]),
            });
        }
        Ok(Privilege { resource, actions })
    }

    /// Reads an array of privileges; several of one resource become one.
    pub fn read_all(value: ValueRef<'_>) -> Result<Vec<Privilege>> {
        let ValueRef::Array(values) = value else {
            return Err(Error::type_mismatch("The privileges of a role are an array"));
        };
        let mut all = Vec::new();
        for value in values.iter() {
            let ValueRef::Document(doc) = value else {
                return Err(Error::type_mismatch("A privilege is a document"));
            };
            add(&mut all, &Privilege::read(doc)?);
        }
        Ok(all)
    }

    pub fn to_doc(&self) -> DocBuf {
        let names: ArrayBuf = self.actions.names().into_iter().collect();
        DocBuf::new().with("resource", &self.resource.to_doc()).with("actions", &names)
    }
}

/// Adds a privilege to those of a role.
pub fn add(all: &mut Vec<Privilege>, privilege: &Privilege) {
    match all.iter_mut().find(|each| each.resource == privilege.resource) {
        Some(known) => known.actions = known.actions.and(privilege.actions),
        None => all.push(privilege.clone()),
    }
}

/// Takes the actions of a privilege from those of a role; privileges without actions go.
pub fn remove(all: &mut Vec<Privilege>, privilege: &Privilege) {
    for known in all.iter_mut().filter(|each| each.resource == privilege.resource) {
        known.actions = known.actions.without(privilege.actions);
    }
    all.retain(|each| !each.actions.is_empty());
}

/// All privileges of a user. A check takes at most four lookups.
#[derive(Clone, Debug, Default)]
pub struct Privileges {
    all: BTreeMap<Resource, ActionSet>,
    cluster: ActionSet,
    /// On everything.
    any: ActionSet,
    /// On all databases and their collections, with the exceptions of [`Resource::any_normal`].
    normal: ActionSet,
    databases: HashMap<String, ActionSet>,
    /// By the collection's name, in every database.
    collections: HashMap<String, ActionSet>,
    exact: HashMap<String, HashMap<String, ActionSet>>,
}

impl Privileges {
    pub fn add(&mut self, privilege: &Privilege) {
        let actions = privilege.actions;
        let add = |set: &mut ActionSet| *set = set.and(actions);
        add(self.all.entry(privilege.resource.clone()).or_default());
        add(match &privilege.resource {
            Resource::Cluster => &mut self.cluster,
            Resource::Any => &mut self.any,
            Resource::Namespace { db, collection } => match (db.as_str(), collection.as_str()) {
                ("", "") => &mut self.normal,
                (db, "") => self.databases.entry(db.to_owned()).or_default(),
                ("", collection) => self.collections.entry(collection.to_owned()).or_default(),
                (db, collection) => {
                    self.exact.entry(db.to_owned()).or_default().entry(collection.to_owned()).or_default()
                }
            },
        });
    }

    /// Returns the actions that are permitted on a target.
    pub fn on(&self, target: Target<'_>) -> ActionSet {
        let of_db = |db: &str| {
            let own = self.databases.get(db).copied().unwrap_or_default();
            if is_apart(db) { own } else { own.and(self.normal) }
        };
        let permitted = match target {
            Target::Cluster => self.cluster,
            Target::Database(db) => of_db(db),
            Target::Collection { db, collection } => {
                let exact = self.exact.get(db).and_then(|of_db| of_db.get(collection)).copied().unwrap_or_default();
                let named = self.collections.get(collection).copied().unwrap_or_default();
                let own = exact.and(named);
                if is_system(db, collection) { own } else { own.and(of_db(db)) }
            }
        };
        permitted.and(self.any)
    }

    pub fn allow(&self, target: Target<'_>, action: Action) -> bool {
        self.on(target).contains(action)
    }

    /// Returns true if an action is permitted on some collection of a database, or on the database.
    pub fn reach(&self, db: &str, action: Action) -> bool {
        self.on(Target::Database(db)).contains(action)
            || self.collections.values().any(|actions| actions.contains(action))
            || self.exact.get(db).is_some_and(|of_db| of_db.values().any(|actions| actions.contains(action)))
    }

    /// Returns true if every action is permitted on everything, which only members of the cluster may.
    pub fn is_system(&self) -> bool {
        self.any == ActionSet::any()
    }

    /// Returns one privilege for each resource, in a fixed order.
    pub fn iter(&self) -> impl Iterator<Item = Privilege> {
        self.all.iter().map(|(resource, actions)| Privilege::new(resource.clone(), *actions))
    }

    pub fn to_array(&self) -> ArrayBuf {
        let mut array = ArrayBuf::new();
        for privilege in self.iter() {
            array.push(&privilege.to_doc());
        }
        array
    }
}

impl<'a> FromIterator<&'a Privilege> for Privileges {
    fn from_iter<I: IntoIterator<Item = &'a Privilege>>(privileges: I) -> Privileges {
        let mut all = Privileges::default();
        privileges.into_iter().for_each(|privilege| all.add(privilege));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn only(resource: Resource) -> Privileges {
        [Privilege::new(resource, ActionSet::of(&[Action::Find]))].iter().collect()
    }

    fn collection<'a>(db: &'a str, collection: &'a str) -> Target<'a> {
        Target::Collection { db, collection }
    }

    #[test]
    fn patterns_match_what_the_table_says() {
        let targets = [
            Target::Cluster,
            Target::Database("d"),
            Target::Database("local"),
            collection("d", "c"),
            collection("d", "system.js"),
            collection("config", "c"),
            collection("local", "replset.minvalid"),
            collection("e", "c"),
        ];
        for (resource, expect) in [
            (Resource::Cluster, "1-------"),
            (Resource::Any, "11111111"),
            (Resource::any_normal(), "-1-1---1"),
            (Resource::database("d"), "-1-1----"),
            (Resource::database("local"), "--1-----"),
            (Resource::collection("d", "c"), "---1----"),
            (Resource::collection("", "c"), "---1-1-1"),
            (Resource::collection("", "system.js"), "----1---"),
            (Resource::collection("d", "system.js"), "----1---"),
        ] {
            let privileges = only(resource.clone());
            let found: String =
                targets.iter().map(|target| if privileges.allow(*target, Action::Find) { '1' } else { '-' }).collect();
            assert_eq!(found, expect, "{resource:?}");
            assert!(!targets.iter().any(|target| privileges.allow(*target, Action::Insert)));
        }
    }

    #[test]
    fn documents_are_read_back() {
        let actions: ArrayBuf = ["find", "insert"].into_iter().collect();
        let resource = DocBuf::new().with("db", "d").with("collection", "c");
        let doc = DocBuf::new().with("resource", &resource).with("actions", &actions);
        assert_eq!(Privilege::read(doc.as_doc()).unwrap().to_doc().as_bytes(), doc.as_bytes());
        let bad: ArrayBuf = ["find", "nosuch"].into_iter().collect();
        let bad = DocBuf::new().with("resource", &resource).with("actions", &bad);
        assert_eq!(Privilege::read(bad.as_doc()).unwrap_err().code.0, 9);
        let any: ArrayBuf = ["anyAction"].into_iter().collect();
        let any = DocBuf::new().with("resource", &resource).with("actions", &any);
        assert_eq!(Privilege::read(any.as_doc()).unwrap().actions, ActionSet::any());
    }

    #[test]
    fn privileges_of_a_resource_unite_and_part() {
        let find = Privilege::new(Resource::Cluster, ActionSet::of(&[Action::Find]));
        let insert = Privilege::new(Resource::Cluster, ActionSet::of(&[Action::Insert]));
        let mut all = Vec::new();
        add(&mut all, &find);
        add(&mut all, &insert);
        assert_eq!(all.len(), 1);
        remove(&mut all, &find);
        assert_eq!(all, std::slice::from_ref(&insert));
        remove(&mut all, &insert);
        assert!(all.is_empty());
    }

    #[test]
    fn a_database_is_reached_by_one_of_its_collections() {
        let one = only(Resource::collection("d", "c"));
        assert!(one.reach("d", Action::Find) && !one.reach("e", Action::Find) && !one.reach("d", Action::Insert));
        assert!(only(Resource::any_normal()).reach("d", Action::Find));
        assert!(!only(Resource::any_normal()).reach("local", Action::Find));
    }
}
