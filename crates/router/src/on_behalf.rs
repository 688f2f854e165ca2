//! The user of a request. The router checks what the user may do and asks the shards as a member of the cluster; the user's name goes
//! along, so that sessions, cursors and operations on the shards are the user's own.
//!
//! U1: a request that reaches a shard names the user in `$audit`, and in `lsid` as the owner of the session.

use arbor_auth::{Action, Target};
use arbor_bson::{ArrayBuf, Doc, DocBuf};
use arbor_command::{Answer, Result, Routed};

use crate::definitions::first_batch;
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

    /// `listCollections`. With `authorizedCollections` it shows those with which the user may do anything, which the shard does not know.
    pub(crate) fn list_collections(&self) -> Result<Answer> {
        if self.routed.user.is_none() || !fields::is_true(self.body(), "authorizedCollections") {
            return self.forward(false);
        }
        let filter = fields::document(self.body(), "filter").unwrap_or(Doc::empty());
        let reached: ArrayBuf = self.collection_names()?.iter().filter(|name| self.reaches_collection(name)).collect();
        let by_name = DocBuf::new().with("name", &DocBuf::new().with("$in", &reached));
        let both: ArrayBuf = [filter, by_name.as_doc()].into_iter().collect();
        let body = fields::without(self.body(), &["filter"]).with("filter", &DocBuf::new().with("$and", &both));
        let routed = Routed { body: body.as_doc(), ..*self.routed };
        Request { routed: &routed, ..*self }.forward(false)
    }

    fn collection_names(&self) -> Result<Vec<String>> {
        let mut body = DocBuf::new().with("listCollections", 1i32).with("nameOnly", true);
        fields::copy(self.body(), &["lsid", "$audit", "$db"], &mut body);
        let routed = Routed { body: body.as_doc(), ..*self.routed };
        let Answer::Reply(listed) = (Request { routed: &routed, ..*self }).forward(false)? else {
            return Ok(Vec::new());
        };
        let names = first_batch(listed.as_doc())?.into_iter().filter_map(|entry| fields::string(entry, "name"));
        Ok(names.map(str::to_owned).collect())
    }

    fn reaches_collection(&self, name: &str) -> bool {
        const ANY_OF: [Action; 5] = [Action::Find, Action::Insert, Action::Update, Action::Remove, Action::CollStats];
        let target = Target::Collection { db: self.routed.db, collection: name };
        ANY_OF.iter().any(|action| self.permits(target, *action))
    }
}
