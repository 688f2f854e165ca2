//! One of several engines that work as one.

use arbor_base::Position;

/// An engine of this server, and how it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    pub name: String,
    /// New trees of users go here when they name no engine.
    pub is_default: bool,
    pub state: MemberState,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemberState {
    Open {
        applied: Position,
        durable: Position,
    },
    /// Nothing lives there yet; it is opened when a tree is created in it.
    Closed,
    /// It holds trees that cannot be reached.
    Unavailable {
        reason: String,
    },
}
