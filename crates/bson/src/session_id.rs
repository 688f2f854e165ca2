//! The name of a logical session, as requests, the oplog and the session journal have it.

use uuid::Uuid;

use crate::{DocBuf, ValueRef};

/// A logical session: its UUID, and the digest of its user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionId {
    pub id: Uuid,
    pub user: [u8; 32],
}

impl SessionId {
    /// Returns `{id, uid}`.
    pub fn to_doc(self) -> DocBuf {
        DocBuf::new()
            .with("id", ValueRef::Binary { subtype: 4, bytes: self.id.as_bytes() })
            .with("uid", ValueRef::Binary { subtype: 0, bytes: &self.user })
    }
}
