//! The column of the registry that says what a command needs.

use arbor_auth::Action;

use super::Needed;
use crate::incoming::Incoming;

/// Rights that a user needs for a command.
#[derive(Clone, Copy)]
pub(crate) enum Access {
    /// Nothing: before the login as well.
    Open,
    /// To be logged in. The command shows and changes only what belongs to the user, or asks for more itself.
    LoggedIn,
    /// An action on the cluster.
    Cluster(Action),
    /// An action on the database of the request.
    Database(Action),
    /// An action on the collection behind the command's name.
    Collection(Action),
    /// The rights that a function finds in the request.
    By(fn(&Incoming<'_>, &mut Needed<'_>)),
}
