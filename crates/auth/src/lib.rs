//! Access control without sockets and without storage: who a client is, and what it may do. Documents of users and roles
//! come in, decisions go out; `command` stores the documents and asks before each request.
//!
//! | file | contents |
//! |---|---|
//! | `mechanism` | [`Mechanism`]: hashes of SCRAM-SHA-1 and SCRAM-SHA-256, shared with the client |
//! | `scram` | [`scram::Conversation`]: the server's half of a SCRAM conversation |
//! | `credentials` | [`Credentials`]: what is stored in place of a password |
//! | `certificate` | [`Subject`] of a certificate, and private keys that are encrypted |
//! | `names` | [`UserName`], [`RoleName`] |
//! | `action` | [`Action`], [`ActionSet`] |
//! | `resource` | [`Resource`]: what a privilege is about; [`Target`]: what a request touches |
//! | `privileges` | [`Privilege`], and [`Privileges`]: all of a user, prepared for quick checks |
//! | `builtin` | the built-in roles |
//! | `roles` | user-defined roles and the graph of all roles |
//! | `user` | documents of `admin.system.users` |
//! | `restrictions` | from and to which addresses a user may connect |
//!
//! **Invariant:** no password is kept: it is digested in the request that carries it, and its copies are overwritten.

#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

pub mod action;
pub mod builtin;
mod certificate;
mod credentials;
mod mechanism;
mod names;
pub mod privileges;
pub mod resource;
mod restrictions;
pub mod roles;
pub mod scram;
mod user;

pub use action::{Action, ActionSet};
pub use arbor_protocol::{Error, Result};
pub use certificate::{Subject, decrypted_key};
pub use credentials::{Credentials, Stored};
pub use mechanism::Mechanism;
pub use names::{EXTERNAL, RoleName, UserName};
pub use privileges::{Privilege, Privileges};
pub use resource::{Resource, Target};
pub use restrictions::Restrictions;
pub use roles::{Flattened, Role, Roles};
pub use user::User;
