//! The subscribers by interest: a record is matched only with those that it may concern.

use std::collections::HashMap;
use std::sync::Arc;

use super::subscription::Waiter;
use super::{Arrival, Interest};

#[derive(Default)]
pub(super) struct Subscribers {
    everything: Waiters,
    databases: HashMap<String, Group>,
    count: usize,
}

#[derive(Default)]
struct Group {
    whole: Waiters,
    collections: HashMap<String, Waiters>,
}

type Waiters = Vec<Arc<Waiter>>;

impl Subscribers {
    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub(super) fn add(&mut self, waiter: Arc<Waiter>) {
        self.count += 1;
        self.place(&waiter.interest).push(waiter.clone());
    }

    pub(super) fn remove(&mut self, waiter: &Arc<Waiter>) {
        let place = self.place(&waiter.interest);
        let Some(at) = place.iter().position(|own| Arc::ptr_eq(own, waiter)) else { return };
        place.swap_remove(at);
        self.count -= 1;
        if let Interest::Database(db) | Interest::Collection(db, _) = &waiter.interest
            && let Some(group) = self.databases.get_mut(db)
        {
            group.collections.retain(|_, waiters| !waiters.is_empty());
            if group.collections.is_empty() && group.whole.is_empty() {
                self.databases.remove(db);
            }
        }
    }

    fn place(&mut self, interest: &Interest) -> &mut Waiters {
        match interest {
            Interest::Everything => &mut self.everything,
            Interest::Database(db) => &mut self.databases.entry(db.clone()).or_default().whole,
            Interest::Collection(db, name) => {
                let group = self.databases.entry(db.clone()).or_default();
                group.collections.entry(name.clone()).or_default()
            }
        }
    }

    pub(super) fn all(&self) -> Vec<Arc<Waiter>> {
        let of_groups = self.databases.values().flat_map(|group| {
            let inner = group.collections.values().flatten();
            group.whole.iter().chain(inner)
        });
        self.everything.iter().chain(of_groups).cloned().collect()
    }

    /// Those whom the record concerns; one may come twice.
    pub(super) fn concerned(&self, arrival: &Arrival) -> Vec<Arc<Waiter>> {
        if arrival.changes_catalogue() {
            return self.all();
        }
        let mut concerned = self.everything.clone();
        for (db, collection) in arrival.places() {
            let Some(group) = self.databases.get(db) else { continue };
            concerned.extend_from_slice(&group.whole);
            concerned.extend(group.collections.get(collection).into_iter().flatten().cloned());
        }
        concerned
    }
}
