//! Access control: who may run which command on what. The decisions themselves are in the crate `auth`.
//!
//! | file | contents |
//! |---|---|
//! | `column` | [`Access`]: the column of the registry that says what a command needs |
//! | `gate` | the one place that every request passes |
//! | `needed` | [`Needed`]: what one request touches, checked as it is found |
//! | `namespaces` | what statements, pipelines and entries of an oplog touch |
//! | `administration` | what the commands of users and roles need |
//! | `sharding` | what the commands of a cluster need |
//! | `accounts` | [`Accounts`]: users and roles in `admin`, and their cache |
//! | `identity` | [`Identity`]: a user who is logged in |
//! | `login` | conversations of SASL on a connection |
//! | `certificate` | logins by the certificate of TLS |
//! | `attempts` | logins since the start, counted |
//! | `failures` | those who guess passwords are locked out |
//!
//! Rules:
//! - A1: every command has a row in the registry, and its column `Access` is not optional.
//! - A2: the decision precedes the parsing of the command, and reads the command as broadly as any parser may: all fields of
//!   a name count, not only the first.
//! - A3: changes of users and roles have effect with their reply, on all connections: each identity carries the generation
//!   in which it was read, and is read again in another one.
//! - A4: sessions, cursors and operations belong to the user that began them.

mod accounts;
mod administration;
mod attempts;
mod certificate;
mod column;
mod failures;
mod gate;
mod identity;
mod login;
mod namespaces;
mod needed;
pub(crate) mod sharding;

pub use accounts::{Accounts, ClusterAuth, Keys};
pub(crate) use accounts::{no_such_role, no_such_user};
pub(crate) use administration::{
    backup, create_role, create_user, grant_privileges_to_role, grant_roles, merge_authz_collections,
    revoke_privileges_from_role, revoke_roles, roles_info, update_role, update_user, users_info,
};
pub(crate) use certificate::X509;
pub(crate) use column::Access;
pub(crate) use failures::Failures;
pub use identity::Identity;
pub(crate) use login::{Login, Started, read_payload, unavailable};
pub(crate) use namespaces::{
    aggregate, apply_ops, begin_load, bulk_write, clone_as_capped, coll_mod, create, current_op, data_size, explain,
    find_and_modify, insert, list_collections, profile, rename_collection, update, validate_metadata,
};
pub(crate) use needed::Needed;
