//! Users and roles: rows of `admin.system.users` and `admin.system.roles`, and what is remembered of them.
//!
//! A counter, the generation, rises with each change of these rows. What was read in an older generation is read again.
//! Changes by the commands of users and roles wait for each other (`writing`), so that each of them sees the roles as they
//! are when it checks for cycles.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use arbor_auth::{Mechanism, Role, RoleName, Roles, Stored, Subject, User, UserName};
use arbor_bson::{ArrayBuf, Code, Doc, DocBuf, ValueRef};
use arbor_protocol::log::events;
use arbor_query::{DeleteSpec, DeleteStatement, FindSpec, Interrupt, Scope};
use arbor_store::Namespace;
use arbor_txn::Durability;
use parking_lot::{Mutex, MutexGuard, RwLock};

use super::attempts::Attempts;
use super::{Failures, Identity};
use crate::{Commands, Error, Result};

const USERS: &str = "system.users";
const ROLES: &str = "system.roles";
const VERSION: &str = "system.version";

/// Version of the documents of users and roles, that of MongoDB since 3.0.
const SCHEMA_VERSION: i32 = 5;

/// Identities that are remembered.
const REMEMBERED_MAX: usize = 10_000;

/// The secrets that members of a cluster share: one, or several while they are replaced by another.
pub struct Keys {
    sha1: Vec<Stored>,
    sha256: Vec<Stored>,
}

impl Keys {
    /// Errors: a key that SASLprep forbids.
    pub fn of(texts: &[String]) -> std::result::Result<Keys, String> {
        assert!(!texts.is_empty(), "without a key there are no keys");
        let user = UserName::system().user;
        let stored = |mechanism: Mechanism| {
            let salt: [u8; 32] = rand::random();
            let salt = salt.get(..mechanism.salt_bytes()).unwrap_or_default();
            let one = |text: &String| {
                let secret = mechanism.secret(&user, text)?;
                Ok::<Stored, String>(Stored::with_salt(mechanism, &secret, mechanism.rounds(), salt))
            };
            texts.iter().map(one).collect::<std::result::Result<Vec<Stored>, String>>()
        };
        Ok(Keys { sha1: stored(Mechanism::ScramSha1)?, sha256: stored(Mechanism::ScramSha256)? })
    }

    fn get(&self, mechanism: Mechanism) -> &[Stored] {
        match mechanism {
            Mechanism::ScramSha1 => &self.sha1,
            Mechanism::ScramSha256 => &self.sha256,
        }
    }
}

/// Proof by which members of a cluster log in to each other (`clusterAuthMode`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClusterAuth {
    #[default]
    KeyFile,
    /// Sends the key, takes certificates as well.
    SendKeyFile,
    /// Sends its certificate, takes keys as well.
    SendX509,
    X509,
}

impl ClusterAuth {
    pub fn accepts_keys(self) -> bool {
        self != ClusterAuth::X509
    }

    pub fn accepts_certificates(self) -> bool {
        self != ClusterAuth::KeyFile
    }

    pub fn sends_certificate(self) -> bool {
        matches!(self, ClusterAuth::SendX509 | ClusterAuth::X509)
    }
}

pub struct Accounts {
    /// Requests are checked.
    pub enabled: bool,
    /// None: members do not log in by a key.
    keys: RwLock<Option<Arc<Keys>>>,
    pub cluster: ClusterAuth,
    /// Attributes by which certificates of members are known; None: those of the server's own one.
    pub member: Option<Subject>,
    pub(crate) failures: Failures,
    pub(crate) attempts: Attempts,
    /// For the salts of users that do not exist.
    pub secret: [u8; 32],
    generation: Arc<AtomicU64>,
    /// There were users or roles at some time: the exception for the first user has ended.
    any: AtomicBool,
    /// Number of the interval in which a router has last read users again.
    interval: AtomicU64,
    cache: Mutex<Cache>,
    writing: Mutex<()>,
}

#[derive(Default)]
struct Cache {
    roles: Option<(u64, Arc<Roles>)>,
    identities: HashMap<UserName, Arc<Identity>>,
}

impl Accounts {
    pub fn new(enabled: bool, keys: Option<Keys>, cluster: ClusterAuth) -> Accounts {
        Accounts {
            enabled,
            keys: RwLock::new(keys.map(Arc::new)),
            cluster,
            member: None,
            failures: Failures::default(),
            attempts: Attempts::default(),
            secret: rand::random(),
            generation: Arc::new(AtomicU64::new(1)),
            any: AtomicBool::new(false),
            interval: AtomicU64::new(0),
            cache: Mutex::default(),
            writing: Mutex::default(),
        }
    }

    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// The counter, for those who raise it where another member changes users and roles.
    pub fn shared_generation(&self) -> Arc<AtomicU64> {
        self.generation.clone()
    }

    /// Makes every connection read its user again before its next request. To be called after the change is visible.
    pub fn changed(&self) {
        self.generation.fetch_add(1, Ordering::AcqRel);
    }

    /// Lets a router, which does not see the changes of others, read users and roles again in each interval.
    pub fn begin_interval(&self, number: u64) {
        if self.enabled && self.interval.swap(number, Ordering::AcqRel) != number {
            self.changed();
        }
    }

    /// Forgets what was read.
    pub fn forget(&self) {
        self.changed();
        *self.cache.lock() = Cache::default();
    }

    /// Replaces the keys, for logins from now on.
    pub fn replace_keys(&self, keys: Keys) {
        *self.keys.write() = Some(Arc::new(keys));
    }

    /// Returns what verifies a member of the cluster by its key; nothing where keys are not accepted.
    pub(super) fn of_members(&self, mechanism: Mechanism) -> Vec<Stored> {
        let keys = self.keys.read().clone().filter(|_| self.cluster.accepts_keys());
        keys.map_or_else(Vec::new, |keys| keys.get(mechanism).to_vec())
    }

    /// Returns true if members of a cluster may log in.
    pub fn has_members(&self) -> bool {
        self.keys.read().is_some() || self.cluster.accepts_certificates()
    }

    /// Holds off other changes of users and roles.
    pub fn writing(&self) -> MutexGuard<'_, ()> {
        self.writing.lock()
    }
}

fn namespace(collection: &str) -> Result<Namespace> {
    Ok(Namespace::new("admin", collection)?)
}

/// Returns true if a write to this collection may change users or roles.
pub(super) fn is_of_accounts(db: &str, collection: &str) -> bool {
    db == "admin" && matches!(collection, USERS | ROLES)
}

impl Commands {
    fn rows(&self, collection: &str, filter: Doc<'_>, limit: Option<u64>) -> Result<Vec<DocBuf>> {
        if let Some(router) = &self.router {
            return router.accounts(collection, filter, limit);
        }
        let spec = FindSpec { filter, limit, ..FindSpec::new(namespace(collection)?) };
        let never = Interrupt::never();
        Ok(arbor_query::find(&Scope::of(&self.database), &spec, &never)?.all(&never)?)
    }

    fn remove(&self, collection: &str, filter: Doc<'_>) -> Result<u64> {
        let statement = DeleteStatement { q: filter, multi: true, hint: None, collation: None };
        let spec = DeleteSpec {
            namespace: namespace(collection)?,
            deletes: vec![statement],
            ordered: true,
            let_variables: None,
            durability: Durability::Applied,
        };
        let outcome = arbor_query::delete(&Scope::of_server(&self.database), &spec, &Interrupt::never());
        self.accounts.changed();
        let outcome = outcome?;
        match outcome.errors.into_iter().next() {
            Some(failed) => Err(failed.error.into()),
            None => Ok(outcome.deleted),
        }
    }

    pub fn find_user(&self, name: &UserName) -> Result<Option<User>> {
        let filter = DocBuf::new().with("_id", &name.id());
        Ok(match self.rows(USERS, filter.as_doc(), None)?.first() {
            // a document under another's id grants nothing
            Some(doc) => Some(User::read(doc.as_doc())?).filter(|user| user.name == *name),
            None => None,
        })
    }

    /// Returns the users of a database, or of all; documents that are none are left out.
    pub fn users(&self, db: Option<&str>) -> Result<Vec<User>> {
        let filter = db.map_or_else(DocBuf::new, |db| DocBuf::new().with("db", db));
        let rows = self.rows(USERS, filter.as_doc(), None)?;
        Ok(rows.iter().filter_map(|doc| User::read(doc.as_doc()).ok()).collect())
    }

    /// Inserts or replaces a user.
    pub fn save_user(&self, user: &User) -> Result<()> {
        let done = self.persist(&namespace(USERS)?, user.to_doc().as_doc());
        self.accounts.changed();
        done
    }

    /// Removes users; returns how many.
    pub fn remove_users(&self, names: &[UserName]) -> Result<u64> {
        self.remove(USERS, ids(names.iter().map(UserName::id)).as_doc())
    }

    /// Inserts or replaces a role.
    pub fn save_role(&self, role: &Role) -> Result<()> {
        let done = self.persist(&namespace(ROLES)?, role.to_doc().as_doc());
        self.accounts.changed();
        done
    }

    /// Removes roles from all users and roles that have them, and then the roles; returns how many roles.
    pub fn remove_roles(&self, names: &[RoleName]) -> Result<u64> {
        for mut user in self.users(None)? {
            let before = user.roles.len();
            user.roles.retain(|role| !names.contains(role));
            if user.roles.len() < before {
                self.save_user(&user)?;
            }
        }
        let roles = self.roles()?;
        for role in roles.iter().filter(|role| role.roles.iter().any(|parent| names.contains(parent))) {
            let mut role = role.clone();
            role.roles.retain(|parent| !names.contains(parent));
            self.save_role(&role)?;
        }
        self.remove(ROLES, ids(names.iter().map(RoleName::id)).as_doc())
    }

    /// Notes the version of the documents, which tools ask for.
    pub fn note_schema_version(&self) -> Result<()> {
        let doc = DocBuf::new().with("_id", "authSchema").with("currentVersion", SCHEMA_VERSION);
        match self.rows(VERSION, DocBuf::new().with("_id", "authSchema").as_doc(), None)?.is_empty() {
            true => self.persist(&namespace(VERSION)?, doc.as_doc()),
            false => Ok(()),
        }
    }

    /// Returns the user-defined roles.
    pub fn roles(&self) -> Result<Arc<Roles>> {
        let generation = self.accounts.generation();
        if let Some((known, roles)) = &self.accounts.cache.lock().roles
            && *known == generation
        {
            return Ok(roles.clone());
        }
        let rows = self.rows(ROLES, Doc::empty(), None)?;
        let roles = rows.iter().filter_map(|doc| Role::read(doc.as_doc()).ok());
        let roles: Arc<Roles> = Arc::new(roles.collect());
        self.accounts.cache.lock().roles = Some((generation, roles.clone()));
        Ok(roles)
    }

    /// Like [`Commands::identity`], of a user who is logged in. A router whose config servers cannot be reached keeps what it
    /// knows, until it asks the next time.
    pub(super) fn identity_again(&self, user: &Identity) -> Result<Option<Arc<Identity>>> {
        let generation = self.accounts.generation();
        match self.identity(&user.name) {
            Err(error) if self.router.is_some() => {
                let attributes = DocBuf::new().with("user", &user.name.to_doc()).with("error", &error.message);
                self.log.warn(events::USER_NOT_READ, "access", attributes);
                let kept = Arc::new(user.kept(generation));
                self.accounts.cache.lock().identities.insert(user.name.clone(), kept.clone());
                Ok(Some(kept))
            }
            outcome => outcome,
        }
    }

    /// Returns a user with what its roles grant now; None: there is no such user.
    pub fn identity(&self, name: &UserName) -> Result<Option<Arc<Identity>>> {
        if name.is_system() {
            return Ok(self.accounts.has_members().then(|| Arc::new(Identity::system())));
        }
        let generation = self.accounts.generation();
        if let Some(known) = self.accounts.cache.lock().identities.get(name)
            && known.generation == generation
        {
            return Ok(Some(known.clone()));
        }
        let Some(user) = self.find_user(name)? else { return Ok(None) };
        let granted = self.roles()?.flatten(&user.roles);
        let identity = Arc::new(Identity::of(user, granted, generation));
        let mut cache = self.accounts.cache.lock();
        if cache.identities.len() >= REMEMBERED_MAX {
            cache.identities.clear();
        }
        cache.identities.insert(name.clone(), identity.clone());
        Ok(Some(identity))
    }

    /// Returns true if there are users or user-defined roles.
    pub fn has_accounts(&self) -> Result<bool> {
        if self.accounts.any.load(Ordering::Acquire) {
            return Ok(true);
        }
        let one = |collection| Ok::<bool, Error>(!self.rows(collection, Doc::empty(), Some(1))?.is_empty());
        let any = one(USERS)? || one(ROLES)?;
        self.accounts.any.store(any, Ordering::Release);
        Ok(any)
    }

    /// Notes that a command may have changed users or roles past the commands for them.
    pub(crate) fn note_direct_change(&self, db: &str, body: Doc<'_>) {
        let Some((name, value)) = body.first() else { return };
        let changes = match (name, value) {
            ("applyOps" | "renameCollection" | "dropDatabase" | "aggregate" | "bulkWrite", _) => true,
            (_, ValueRef::String(collection)) => is_of_accounts(db, collection),
            _ => false,
        };
        if changes && (db == "admin" || matches!(name, "applyOps" | "aggregate")) {
            self.accounts.changed();
        }
    }
}

fn ids(ids: impl Iterator<Item = String>) -> DocBuf {
    let mut array = ArrayBuf::new();
    for id in ids {
        array.push(&id);
    }
    DocBuf::new().with("_id", &DocBuf::new().with("$in", &array))
}

/// Refuses a user or role that is not there.
pub(crate) fn no_such_user(name: &UserName) -> Error {
    Error::new(Code::USER_NOT_FOUND, format!("User '{name}' not found"))
}

pub(crate) fn no_such_role(name: &RoleName) -> Error {
    Error::new(Code::ROLE_NOT_FOUND, format!("Could not find role: {name}"))
}
