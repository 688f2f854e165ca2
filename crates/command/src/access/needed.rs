//! Rights that one request needs, checked as they are found.

use arbor_auth::{Action, Privileges, Target};

use super::{Access, Identity};
use crate::FENCING_TOKEN;
use crate::incoming::Incoming;

/// Collects what a request needs; one thing that is not permitted refuses all of it.
pub(crate) struct Needed<'w> {
    privileges: &'w Privileges,
    user: Option<&'w Identity>,
    permitted: bool,
}

impl<'w> Needed<'w> {
    pub(crate) fn new(privileges: &'w Privileges) -> Needed<'w> {
        Needed { privileges, user: None, permitted: true }
    }

    pub(crate) fn of(user: &'w Identity) -> Needed<'w> {
        Needed { user: Some(user), ..Needed::new(user.privileges()) }
    }

    /// Returns the user who sends the request.
    pub(crate) fn user(&self) -> Option<&'w Identity> {
        self.user
    }

    pub(crate) fn is_permitted(&self) -> bool {
        self.permitted
    }

    /// Returns true if an action is permitted, without needing it.
    pub(crate) fn may(&self, target: Target<'_>, action: Action) -> bool {
        self.privileges.allow(target, action)
    }

    pub(crate) fn need(&mut self, target: Target<'_>, action: Action) {
        self.permitted &= self.may(target, action);
    }

    pub(crate) fn on_cluster(&mut self, action: Action) {
        self.need(Target::Cluster, action);
    }

    pub(crate) fn on_database(&mut self, db: &str, action: Action) {
        self.need(Target::Database(db), action);
    }

    pub(crate) fn on_collection(&mut self, db: &str, collection: &str, action: Action) {
        self.need(Target::Collection { db, collection }, action);
    }

    /// Like [`Needed::on_collection`], of `db.collection`.
    pub(crate) fn on_namespace(&mut self, namespace: &str, action: Action) {
        match namespace.split_once('.') {
            Some((db, collection)) => self.on_collection(db, collection, action),
            None => self.on_database(namespace, action),
        }
    }

    /// Needs every action on everything.
    pub(crate) fn everything(&mut self) {
        self.permitted &= self.privileges.is_system();
    }

    /// Needs what the column says.
    pub(crate) fn column(&mut self, access: &Access, request: &Incoming<'_>) {
        if request.body.get(FENCING_TOKEN).is_some() {
            self.on_cluster(Action::Internal);
        }
        match access {
            Access::Open | Access::LoggedIn => {}
            Access::Cluster(action) => self.on_cluster(*action),
            Access::Database(action) => self.on_database(request.db, *action),
            Access::Collection(action) => match request.body.first() {
                Some((_, arbor_bson::ValueRef::String(name) | arbor_bson::ValueRef::Symbol(name))) => {
                    self.on_collection(request.db, name, *action);
                }
                // the command refuses it
                _ => self.on_database(request.db, *action),
            },
            Access::By(find) => find(request, self),
        }
    }
}
