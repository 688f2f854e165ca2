//! Which collection of the target is which one of the source: by identity (M3).
//!
//! While two collections of the source have had the same name since the begin, and both are at the target, one of them has a name of its own there,
//! `arbor_migrate_` and its key.

use std::collections::{BTreeMap, HashMap};

use arbor_bson::{DocBuf, Value, ValueRef, identical};

use super::collections::{Collection, Kind, collection, collections};
use super::server::NAMESPACE_NOT_FOUND;
use super::state::{DATABASE, Progress};
use super::{Migration, Result};

/// By key.
pub(super) type Places = BTreeMap<String, Progress>;

/// Returns the key of a collection with that UUID.
pub(super) fn key_of(uuid: &[u8]) -> String {
    uuid.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn is_same(one: Option<&Value>, other: Option<&Value>) -> bool {
    matches!((one, other), (Some(one), Some(other)) if identical(ValueRef::from(one), ValueRef::from(other)))
}

fn own_name(key: &str) -> String {
    format!("{DATABASE}_{}", key.replace('.', "_"))
}

impl Collection {
    pub(super) fn key(&self) -> String {
        match self.uuid.as_ref().map(ValueRef::from) {
            Some(ValueRef::Binary { bytes, .. }) => key_of(bytes),
            _ => self.namespace(),
        }
    }
}

impl Migration {
    /// Reads what earlier processes have noted. A collection may have got another name without a note of it.
    pub(super) fn read_places(&mut self) -> Result<()> {
        let mut listed: HashMap<String, Vec<Collection>> = HashMap::new();
        for mut progress in Progress::all(&mut self.target)? {
            let (db, name) = &mut progress.place;
            if !listed.contains_key(db) {
                listed.insert(db.clone(), collections(&mut self.target, db)?);
            }
            let mut there = listed.get(db).into_iter().flatten();
            let found = there.find(|there| is_same(there.uuid.as_ref(), progress.there.as_ref()));
            if let Some(found) = found.filter(|found| found.name != *name) {
                name.clone_from(&found.name);
                progress.write(&mut self.target)?;
            }
            self.places.insert(progress.key.clone(), progress);
        }
        Ok(())
    }

    /// Takes note of a change of what the target has.
    pub(super) fn note(&mut self, key: &str, change: impl FnOnce(&mut Progress)) -> Result<()> {
        let Some(progress) = self.places.get_mut(key) else { return Ok(()) };
        change(progress);
        progress.write(&mut self.target)
    }

    /// Drops what the target has of a collection.
    pub(super) fn forget(&mut self, key: &str) -> Result<()> {
        let Some(progress) = self.places.get(key) else { return Ok(()) };
        self.target.drop_collection(&progress.place.0, &progress.place.1)?;
        Progress::remove(&mut self.target, key)?;
        self.places.remove(key);
        Ok(())
    }

    /// Returns the key of the collection that has this name at the target.
    pub(super) fn occupant(&self, place: &(String, String)) -> Option<String> {
        self.places.values().find(|progress| progress.place == *place).map(|progress| progress.key.clone())
    }

    /// Has the collection that has this name at the target compared at the end.
    pub(super) fn doubt(&mut self, place: &(String, String)) -> Result<()> {
        let key = self.occupant(place).filter(|key| self.places.get(key).is_some_and(|found| !found.is_doubtful));
        key.map_or(Ok(()), |key| self.note(&key, |progress| progress.is_doubtful = true))
    }

    /// A collection of the source under the name that it has at the target.
    pub(super) fn at_target(&self, own: &Collection) -> Collection {
        self.places.get(&own.key()).map_or_else(|| own.clone(), |progress| own.at(&progress.place))
    }

    /// Creates a collection at the target, unless it was already.
    pub(super) fn begin_copy(&mut self, own: &Collection) -> Result<()> {
        let key = own.key();
        if !self.places.contains_key(&key) {
            let mut place = (own.db.clone(), own.name.clone());
            if self.occupant(&place).is_some() {
                place.1 = own_name(&key);
            } else {
                self.check_is_free(own)?;
            }
            let progress = Progress { key: key.clone(), place, uuid: own.uuid.clone(), ..Progress::default() };
            progress.write(&mut self.target)?;
            self.places.insert(key.clone(), progress);
        }
        if self.places.get(&key).is_some_and(|progress| progress.there.is_some()) {
            return Ok(());
        }
        let there = self.at_target(own);
        self.create(&there)?;
        self.copy_partitions(own, &there)?;
        let there = collection(&mut self.target, &there.db, &there.name)?.and_then(|there| there.uuid);
        self.note(&key, |progress| progress.there = there)
    }

    /// Makes the collection at the target an empty one.
    pub(super) fn empty(&mut self, own: &Collection) -> Result<()> {
        let there = self.at_target(own);
        self.note(&own.key(), |progress| progress.there = None)?;
        self.target.drop_collection(&there.db, &there.name)?;
        self.begin_copy(own)
    }

    /// Gives a collection of the target another name. Requires that no collection has it.
    pub(super) fn move_to(&mut self, key: &str, name: &str) -> Result<()> {
        let Some(progress) = self.places.get(key).filter(|progress| progress.place.1 != name) else { return Ok(()) };
        let ((db, from), there) = (progress.place.clone(), progress.there.clone());
        let (from, to) = (format!("{db}.{from}"), format!("{db}.{name}"));
        let command = DocBuf::new().with("renameCollection", from.as_str()).with("to", to.as_str());
        match self.target.run("admin", &command) {
            Err(error) if error.code() == Some(NAMESPACE_NOT_FOUND) => {
                let found = collection(&mut self.target, &db, name)?.and_then(|found| found.uuid);
                // The reply to the first request may be lost. If it is not that, somebody else has dropped it.
                if !is_same(found.as_ref(), there.as_ref()) {
                    return self.forget(key);
                }
            }
            renamed => drop(renamed?),
        }
        self.note(key, |progress| progress.place.1 = name.to_owned())
    }

    /// Drops what the source no longer has, and gives the others the source's names.
    pub(super) fn finish_places(&mut self, asked: &[Collection]) -> Result<()> {
        let asked: HashMap<String, &Collection> = asked.iter().map(|own| (own.key(), own)).collect();
        let keys: Vec<String> = self.places.keys().cloned().collect();
        let mut misnamed = Vec::new();
        for key in keys {
            let Some(progress) = self.places.get(&key) else { continue };
            match asked.get(&key) {
                Some(own) if (&own.db, &own.name) == (&progress.place.0, &progress.place.1) => {}
                Some(own) if own.db == progress.place.0 && matches!(own.kind, Kind::Ordered | Kind::Whole) => {
                    misnamed.push((key, own.name.clone()));
                }
                _ => self.forget(&key)?,
            }
        }
        // Two may have exchanged their names.
        for (key, _) in &misnamed {
            self.move_to(key, &own_name(key))?;
        }
        for (key, name) in &misnamed {
            self.move_to(key, name)?;
        }
        Ok(())
    }
}
