//! Settings, users and roles that another member has changed: what is cached of them here is read again.

use std::sync::atomic::Ordering;

use arbor_store::Namespace;

use crate::Commands;

/// Collections with documents that are cached.
const WATCHED: &[(&str, &str)] = &[
    ("admin", "system.users"),
    ("admin", "system.roles"),
    ("admin", "system.version"),
    ("config", "settings"),
    ("config", "clusterParameters"),
];

impl Commands {
    /// From now on what another member changes in them is noticed. Without effect on the second call.
    pub(crate) fn watch_settings(&self) {
        let names = WATCHED.iter().filter_map(|(db, name)| Namespace::new(db, name).ok()).collect();
        let (users, settings) = (self.accounts.shared_generation(), self.settings_changed.clone());
        let changed = move |name: &Namespace| {
            // The thread that applies calls this: everything is read later.
            if name.db() == "admin" {
                users.fetch_add(1, Ordering::AcqRel);
            }
            settings.store(true, Ordering::Release);
        };
        self.database.store.watch(names, Box::new(changed));
    }

    /// Reads settings again that another member has changed.
    pub(crate) fn reload_settings(&self) {
        if !self.settings_changed.swap(false, Ordering::AcqRel) {
            return;
        }
        let defaults = self.replication.as_ref().map_or(Ok(()), |replication| self.load_defaults(replication));
        let read = defaults.and_then(|()| self.read_cluster_parameters()).and_then(|()| self.read_feature_version());
        if read.is_err() {
            // It may be that the collection is just being replaced.
            self.settings_changed.store(true, Ordering::Release);
        }
    }
}
