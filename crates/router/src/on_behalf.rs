//! The user of a request. The router checks what the user may do and asks the shards as a member of the cluster; the user's name goes
//! along, so that sessions, cursors and operations on the shards are the user's own.
//!
//! U1: a request that reaches a shard names the user in `$audit`, and in `lsid` as the owner of the session.

use arbor_auth::{Action, Target};
use arbor_bson::DocBuf;
use arbor_command::Routed;

use crate::{Request, fields};

/// Returns the digest of the user's name. None: there is no access control, or no user is logged in.
pub(crate) fn digest(routed: &Routed<'_>) -> Option<[u8; 32]> {
    routed.user.map(|user| user.digest)
}

/// Returns the body of a request with its user. None: there is no access control.
pub(crate) fn named(routed: &Routed<'_>) -> Option<DocBuf> {
    let user = routed.user?;
    let mut body = fields::without(routed.body, &["lsid", "$audit"]);
    if let Some(session) = routed.generic.session {
        body.append("lsid", &session.to_doc());
    }
    Some(body.with("$audit", &DocBuf::new().with("$impersonatedUser", &user.name.to_doc())))
}

impl Request<'_> {
    /// Returns true if an action is permitted to the user.
    pub(crate) fn permits(&self, target: Target<'_>, action: Action) -> bool {
        self.routed.user.is_none_or(|user| user.privileges().allow(target, action))
    }

    /// Returns true if the user may read something in a database.
    pub(crate) fn reaches(&self, db: &str) -> bool {
        self.routed.user.is_none_or(|user| user.privileges().reach(db, Action::Find))
    }

    pub(crate) fn reaches_collection(&self, name: &str) -> bool {
        const ANY_OF: [Action; 5] = [Action::Find, Action::Insert, Action::Update, Action::Remove, Action::CollStats];
        let target = Target::Collection { db: self.routed.db, collection: name };
        ANY_OF.iter().any(|action| self.permits(target, *action))
    }
}
