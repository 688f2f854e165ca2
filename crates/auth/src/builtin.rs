//! The built-in roles and their privileges, as the public manual of MongoDB 7.0 lists them ("Built-In Roles"). The roles of
//! database users and administrators exist in each database, the others in `admin` only.
//!
//! COMPAT: actions of features that this server does not have (sharding, search indexes) are listed all the same, so that
//! scripts which compare or copy privileges work.

use crate::Action::*;
use crate::action::ActionSet;
use crate::{Privilege, Resource, RoleName};

/// Roles of each database.
const OF_DATABASE: &[&str] = &["dbAdmin", "dbOwner", "read", "readWrite", "userAdmin"];

/// Roles of `admin` only.
const OF_ADMIN: &[&str] = &[
    "__system",
    "backup",
    "clusterAdmin",
    "clusterManager",
    "clusterMonitor",
    "dbAdminAnyDatabase",
    "enableSharding",
    "hostManager",
    "readAnyDatabase",
    "readWriteAnyDatabase",
    "restore",
    "root",
    "userAdminAnyDatabase",
];

const READ: ActionSet = WATCH.and(ActionSet::of(&[ChangeStream]));

const READ_WRITE: ActionSet = READ.and(ActionSet::of(&[
    CleanupStructuredEncryptionData,
    CompactStructuredEncryptionData,
    ConvertToCapped,
    CreateCollection,
    CreateIndex,
    CreateSearchIndexes,
    DropCollection,
    DropIndex,
    DropSearchIndex,
    Insert,
    Remove,
    RenameCollectionSameDb,
    Update,
    UpdateSearchIndex,
]));

const DB_ADMIN: ActionSet = ActionSet::of(&[
    BypassDocumentValidation,
    CollMod,
    CollStats,
    Compact,
    ConvertToCapped,
    CreateCollection,
    CreateIndex,
    CreateSearchIndexes,
    DbStats,
    DropCollection,
    DropDatabase,
    DropIndex,
    DropSearchIndex,
    EnableProfiler,
    ListCollections,
    ListIndexes,
    ListSearchIndexes,
    PlanCacheIndexFilter,
    PlanCacheRead,
    PlanCacheWrite,
    ReIndex,
    RenameCollectionSameDb,
    UpdateSearchIndex,
    Validate,
]);

/// Actions of a database's administrator on the profile.
const PROFILE: ActionSet = READ.and(ActionSet::of(&[ConvertToCapped, CreateCollection, DropCollection]));

const USER_ADMIN: ActionSet = ActionSet::of(&[
    ChangeCustomData,
    ChangePassword,
    CreateRole,
    CreateUser,
    DropRole,
    DropUser,
    GrantRole,
    RevokeRole,
    SetAuthenticationRestriction,
    ViewRole,
    ViewUser,
]);

/// Reading without change streams: of `config` and `local`, for monitors and managers.
const WATCH: ActionSet = ActionSet::of(&[
    CollStats,
    DbHash,
    DbStats,
    Find,
    KillCursors,
    ListCollections,
    ListIndexes,
    ListSearchIndexes,
    PlanCacheRead,
]);

const CLUSTER_MONITOR: ActionSet = ActionSet::of(&[
    ConnPoolStats,
    GetCmdLineOpts,
    GetDefaultRwConcern,
    GetLog,
    GetParameter,
    GetShardMap,
    HostInfo,
    Inprog,
    ListDatabases,
    ListSampledQueries,
    ListSessions,
    ListShards,
    ReplSetGetConfig,
    ReplSetGetStatus,
    ServerStatus,
    ShardingState,
    Top,
    UseUuid,
]);

const MONITOR_DATABASES: ActionSet = ActionSet::of(&[CollStats, DbStats, GetShardVersion, IndexStats]);

const CLUSTER_MANAGER: ActionSet = ActionSet::of(&[
    AddShard,
    AppendOplogNote,
    ApplicationMessage,
    CheckMetadataConsistency,
    CleanupOrphaned,
    FlushRouterConfig,
    GetClusterParameter,
    GetDefaultRwConcern,
    ListSessions,
    ListShards,
    RemoveShard,
    ReplSetConfigure,
    ReplSetGetConfig,
    ReplSetGetStatus,
    ReplSetResizeOplog,
    QuerySettings,
    ReplSetStateChange,
    Resync,
    SetClusterParameter,
    SetDefaultRwConcern,
    SetFeatureCompatibilityVersion,
]);

const MANAGE_DATABASES: ActionSet = ActionSet::of(&[
    AnalyzeShardKey,
    ClearJumboFlag,
    ConfigureQueryAnalyzer,
    EnableSharding,
    MoveChunk,
    RefineCollectionShardKey,
    ReshardCollection,
    SplitVector,
]);

const HOST_MANAGER: ActionSet = ActionSet::of(&[
    ApplicationMessage,
    CloseAllDatabases,
    Compact,
    ConnPoolSync,
    DropConnections,
    FlushRouterConfig,
    Fsync,
    InvalidateUserCache,
    KillAnyCursor,
    KillAnySession,
    KillOp,
    LogRotate,
    OidReset,
    Resync,
    RotateCertificates,
    SetParameter,
    Shutdown,
    Touch,
    Unlock,
]);

const ENABLE_SHARDING: ActionSet =
    ActionSet::of(&[AnalyzeShardKey, EnableSharding, RefineCollectionShardKey, ReshardCollection]);

/// Actions of a restore on collections.
const RESTORE: ActionSet = ActionSet::of(&[
    BypassDocumentValidation,
    CollMod,
    ConvertToCapped,
    CreateCollection,
    CreateIndex,
    CreateSearchIndexes,
    DropCollection,
    Insert,
    UpdateSearchIndex,
]);

/// On the collections of users and roles, for administrators of users.
const USER_COLLECTIONS: ActionSet = ActionSet::of(&[
    CollStats,
    CreateIndex,
    CreateSearchIndexes,
    DbHash,
    DbStats,
    DropIndex,
    DropSearchIndex,
    Find,
    KillCursors,
    ListIndexes,
    PlanCacheRead,
]);

const LIST_DATABASES: ActionSet = ActionSet::of(&[ListDatabases]);

/// Returns true if the role is built in.
pub fn is_one(name: &RoleName) -> bool {
    OF_DATABASE.contains(&name.role.as_str()) || name.db == "admin" && OF_ADMIN.contains(&name.role.as_str())
}

/// Returns the built-in roles of a database, in the order of their names.
pub fn names(db: &str) -> Vec<RoleName> {
    let of_admin = OF_ADMIN.iter().filter(|_| db == "admin");
    let mut names: Vec<RoleName> = OF_DATABASE.iter().chain(of_admin).map(|role| RoleName::new(*role, db)).collect();
    names.sort();
    names
}

/// Returns the privileges of a built-in role; None: it is not built in.
pub fn privileges(name: &RoleName) -> Option<Vec<Privilege>> {
    if !is_one(name) {
        return None;
    }
    let mut list = List::default();
    list.role(&name.role, &name.db);
    Some(list.0)
}

#[derive(Default)]
struct List(Vec<Privilege>);

impl List {
    fn add(&mut self, resource: Resource, actions: ActionSet) {
        crate::privileges::add(&mut self.0, &Privilege::new(resource, actions));
    }

    fn cluster(&mut self, actions: ActionSet) {
        self.add(Resource::Cluster, actions);
    }

    /// On all databases, and the same on a system collection of each.
    fn everywhere(&mut self, actions: ActionSet, collection: &str, on_collection: ActionSet) {
        self.add(Resource::any_normal(), actions);
        self.add(Resource::collection("", collection), on_collection);
    }

    fn role(&mut self, role: &str, db: &str) {
        match role {
            "read" => self.on_database(db, READ, "system.js", READ),
            "readWrite" => self.on_database(db, READ_WRITE, "system.js", READ_WRITE),
            "dbAdmin" => self.on_database(db, DB_ADMIN, "system.profile", PROFILE),
            "userAdmin" => self.add(Resource::database(db), USER_ADMIN),
            "dbOwner" => ["readWrite", "dbAdmin", "userAdmin"].iter().for_each(|role| self.role(role, db)),
            "readAnyDatabase" => {
                self.everywhere(READ, "system.js", READ);
                self.cluster(LIST_DATABASES);
            }
            "readWriteAnyDatabase" => {
                self.everywhere(READ_WRITE, "system.js", READ_WRITE);
                self.cluster(LIST_DATABASES);
            }
            "dbAdminAnyDatabase" => {
                self.everywhere(DB_ADMIN, "system.profile", PROFILE);
                self.cluster(ActionSet::of(&[ApplyOps, ListDatabases]));
            }
            "userAdminAnyDatabase" => self.user_admin_any_database(),
            "clusterMonitor" => self.cluster_monitor(),
            "clusterManager" => self.cluster_manager(),
            "hostManager" => {
                self.cluster(HOST_MANAGER);
                self.add(Resource::any_normal(), ActionSet::of(&[KillCursors]));
            }
            "enableSharding" => self.add(Resource::any_normal(), ENABLE_SHARDING),
            "clusterAdmin" => {
                let parts = ["clusterMonitor", "clusterManager", "hostManager", "enableSharding"];
                parts.iter().for_each(|role| self.role(role, db));
                self.add(Resource::any_normal(), ActionSet::of(&[DropDatabase]));
            }
            "backup" => self.backup(),
            "restore" => self.restore(),
            "root" => self.root(),
            "__system" => self.add(Resource::Any, ActionSet::any()),
            _ => {}
        }
    }

    fn on_database(&mut self, db: &str, actions: ActionSet, collection: &str, on_collection: ActionSet) {
        self.add(Resource::database(db), actions);
        self.add(Resource::collection(db, collection), on_collection);
    }

    fn user_admin_any_database(&mut self) {
        self.add(Resource::any_normal(), USER_ADMIN);
        for db in ["local", "config"] {
            self.add(Resource::database(db), USER_ADMIN);
        }
        self.cluster(ActionSet::of(&[AuthSchemaUpgrade, InvalidateUserCache, ListDatabases, ViewUser]));
        for collection in ["system.users", "system.roles"] {
            self.add(Resource::collection("admin", collection), USER_COLLECTIONS);
        }
        self.add(Resource::collection("", "system.users"), USER_COLLECTIONS);
        self.add(Resource::collection("admin", "system.version"), ActionSet::of(&[Find]));
    }

    fn cluster_monitor(&mut self) {
        self.cluster(CLUSTER_MONITOR);
        self.add(Resource::any_normal(), MONITOR_DATABASES);
        self.add(Resource::collection("", "system.profile"), ActionSet::of(&[Find]));
        for db in ["config", "local"] {
            self.on_database(db, WATCH.and(MONITOR_DATABASES), "system.js", WATCH);
        }
        for collection in ["system.replset", "system.profile"] {
            self.add(Resource::collection("local", collection), ActionSet::of(&[Find]));
        }
    }

    fn cluster_manager(&mut self) {
        const WRITE: ActionSet = ActionSet::of(&[EnableSharding, Insert, MoveChunk, Remove, Update]);
        self.cluster(CLUSTER_MANAGER);
        self.add(Resource::any_normal(), MANAGE_DATABASES);
        self.on_database("config", WATCH.and(WRITE), "system.js", WATCH);
        self.add(Resource::database("local"), WRITE);
        self.add(Resource::collection("local", "system.replset"), WATCH);
    }

    fn backup(&mut self) {
        const FIND: ActionSet = ActionSet::of(&[Find]);
        self.cluster(ActionSet::of(&[
            AppendOplogNote,
            GetParameter,
            ListDatabases,
            ServerStatus,
            SetUserWriteBlockMode,
        ]));
        self.add(Resource::Any, ActionSet::of(&[ListCollections, ListDatabases, ListIndexes, ListSearchIndexes]));
        for resource in [Resource::any_normal(), Resource::database("config"), Resource::database("local")] {
            self.add(resource, FIND);
        }
        for collection in ["system.js", "system.profile", "system.users"] {
            self.add(Resource::collection("", collection), FIND);
        }
        for collection in ["system.backup_users", "system.new_users", "system.roles", "system.users", "system.version"]
        {
            self.add(Resource::collection("admin", collection), FIND);
        }
        self.add(Resource::collection("local", "replset.election"), FIND);
        self.add(Resource::collection("local", "replset.minvalid"), FIND);
        self.add(Resource::collection("local", "system.replset"), FIND);
        self.add(Resource::collection("admin", "mms.backup"), ActionSet::of(&[Insert, Update]));
        self.add(Resource::collection("config", "settings"), ActionSet::of(&[Find, Insert, Update]));
    }

    fn restore(&mut self) {
        const OF_USERS: ActionSet = RESTORE.and(ActionSet::of(&[Find, Remove, Update]));
        self.cluster(ActionSet::of(&[
            BypassWriteBlockingMode,
            ForceUuid,
            GetParameter,
            SetUserWriteBlockMode,
            UseUuid,
        ]));
        self.add(Resource::any_normal(), RESTORE.and(USER_ADMIN));
        self.add(Resource::Any, ActionSet::of(&[ListCollections]));
        self.add(Resource::collection("", "system.js"), RESTORE);
        for db in ["config", "local"] {
            self.add(Resource::database(db), RESTORE);
        }
        self.add(Resource::collection("", "system.users"), OF_USERS);
        self.add(Resource::collection("", "system.views"), ActionSet::of(&[DropCollection]));
        self.add(Resource::collection("admin", "system.users"), OF_USERS);
        self.add(Resource::collection("admin", "system.roles"), ActionSet::of(&[CreateIndex, Find]));
        self.add(Resource::collection("admin", "system.version"), RESTORE.and(ActionSet::of(&[Find])));
        // where a restore puts users and roles before they are merged
        for collection in ["system.backup_users", "system.new_users", "tempusers", "temproles"] {
            self.add(Resource::collection("admin", collection), RESTORE.and(ActionSet::of(&[Find])));
        }
    }

    fn root(&mut self) {
        for role in
            ["readWriteAnyDatabase", "dbAdminAnyDatabase", "userAdminAnyDatabase", "clusterAdmin", "restore", "backup"]
        {
            self.role(role, "admin");
        }
        self.add(Resource::Any, ActionSet::of(&[Validate]));
        self.add(Resource::collection("config", "system.preimages"), ActionSet::of(&[Find, Remove]));
        self.cluster(ActionSet::of(&[ListCursors, QueryStatsRead, QueryStatsReadTransformed]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Action, Privileges, Target};

    fn of(role: &str, db: &str) -> Privileges {
        privileges(&RoleName::new(role, db)).unwrap().iter().collect()
    }

    /// Rows: who may (`+`) and may not (`-`) do what on what.
    #[test]
    fn roles_permit_what_the_manual_says() {
        let c = |db, collection| Target::Collection { db, collection };
        let cases: &[(&str, &str, Action, Target<'_>, bool)] = &[
            ("read", "d", Find, c("d", "c"), true),
            ("read", "d", Insert, c("d", "c"), false),
            ("read", "d", Find, c("e", "c"), false),
            ("read", "d", Find, c("d", "system.js"), true),
            ("read", "d", Find, c("d", "system.profile"), false),
            ("read", "d", ListDatabases, Target::Cluster, false),
            ("readWrite", "d", Insert, c("d", "c"), true),
            ("readWrite", "d", DropDatabase, Target::Database("d"), false),
            ("readWrite", "d", CollMod, c("d", "c"), false),
            ("readWrite", "d", CreateIndex, c("d", "c"), true),
            ("readWrite", "admin", Insert, c("admin", "system.users"), false),
            ("dbAdmin", "d", CollMod, c("d", "c"), true),
            ("dbAdmin", "d", Find, c("d", "c"), false),
            ("dbAdmin", "d", Find, c("d", "system.profile"), true),
            ("dbAdmin", "d", DropDatabase, Target::Database("d"), true),
            ("dbAdmin", "d", CreateUser, Target::Database("d"), false),
            ("userAdmin", "d", CreateUser, Target::Database("d"), true),
            ("userAdmin", "d", CreateUser, Target::Database("e"), false),
            ("userAdmin", "d", Find, c("d", "c"), false),
            ("dbOwner", "d", CreateUser, Target::Database("d"), true),
            ("dbOwner", "d", Insert, c("d", "c"), true),
            ("dbOwner", "d", Insert, c("e", "c"), false),
            ("readAnyDatabase", "admin", Find, c("e", "c"), true),
            ("readAnyDatabase", "admin", Find, c("local", "oplog.rs"), false),
            ("readAnyDatabase", "admin", Find, c("admin", "system.users"), false),
            ("readAnyDatabase", "admin", ListDatabases, Target::Cluster, true),
            ("readWriteAnyDatabase", "admin", Insert, c("e", "c"), true),
            ("readWriteAnyDatabase", "admin", Insert, c("config", "c"), false),
            ("userAdminAnyDatabase", "admin", GrantRole, Target::Database("e"), true),
            ("userAdminAnyDatabase", "admin", Find, c("admin", "system.users"), true),
            ("userAdminAnyDatabase", "admin", Insert, c("admin", "system.users"), false),
            ("userAdminAnyDatabase", "admin", Find, c("e", "c"), false),
            ("dbAdminAnyDatabase", "admin", CollMod, c("e", "c"), true),
            ("dbAdminAnyDatabase", "admin", Find, c("e", "c"), false),
            ("dbAdminAnyDatabase", "admin", ApplyOps, Target::Cluster, true),
            ("clusterMonitor", "admin", ServerStatus, Target::Cluster, true),
            ("clusterMonitor", "admin", Shutdown, Target::Cluster, false),
            ("clusterMonitor", "admin", Find, c("local", "oplog.rs"), true),
            ("clusterMonitor", "admin", Find, c("e", "c"), false),
            ("clusterMonitor", "admin", CollStats, c("e", "c"), true),
            ("clusterManager", "admin", ReplSetConfigure, Target::Cluster, true),
            ("clusterManager", "admin", Shutdown, Target::Cluster, false),
            ("clusterManager", "admin", Update, c("config", "settings"), true),
            ("hostManager", "admin", Shutdown, Target::Cluster, true),
            ("hostManager", "admin", KillOp, Target::Cluster, true),
            ("hostManager", "admin", ServerStatus, Target::Cluster, false),
            ("clusterAdmin", "admin", DropDatabase, Target::Database("e"), true),
            ("clusterAdmin", "admin", Shutdown, Target::Cluster, true),
            ("clusterAdmin", "admin", Find, c("e", "c"), false),
            ("backup", "admin", Find, c("e", "c"), true),
            ("backup", "admin", Find, c("local", "oplog.rs"), true),
            ("backup", "admin", Find, c("admin", "system.users"), true),
            ("backup", "admin", Insert, c("e", "c"), false),
            ("backup", "admin", ListCollections, Target::Database("e"), true),
            ("restore", "admin", Insert, c("e", "c"), true),
            ("restore", "admin", Find, c("e", "c"), false),
            ("restore", "admin", Update, c("admin", "system.users"), true),
            ("restore", "admin", Insert, c("admin", "tempusers"), true),
            ("root", "admin", Insert, c("e", "c"), true),
            ("root", "admin", Shutdown, Target::Cluster, true),
            ("root", "admin", CreateUser, Target::Database("e"), true),
            ("root", "admin", Find, c("admin", "system.users"), true),
            ("root", "admin", Validate, c("e", "system.js"), true),
            ("root", "admin", Internal, Target::Cluster, false),
            ("__system", "admin", Internal, Target::Cluster, true),
            ("__system", "admin", Remove, c("local", "replset.minvalid"), true),
        ];
        for (role, db, action, target, expect) in cases {
            assert_eq!(of(role, db).allow(*target, *action), *expect, "{role}@{db}: {} on {target:?}", action.name());
        }
        for role in OF_DATABASE.iter().chain(OF_ADMIN) {
            assert!(!privileges(&RoleName::new(*role, "admin")).unwrap().is_empty(), "{role}");
            let may = cases.iter().filter(|case| case.0 == *role && case.4).count();
            assert!(may > 0 || *role == "enableSharding", "{role} has its rows");
        }
    }

    #[test]
    fn roles_are_where_the_manual_says() {
        assert!(is_one(&RoleName::new("read", "d")) && is_one(&RoleName::new("root", "admin")));
        assert!(!is_one(&RoleName::new("root", "d")) && !is_one(&RoleName::new("nosuch", "admin")));
        assert_eq!(names("d").len(), 5);
        assert_eq!(names("admin").len(), 18);
        assert!(privileges(&RoleName::new("root", "d")).is_none());
        let only_system = names("admin").iter().filter(|name| of(&name.role, "admin").is_system()).count();
        assert_eq!(only_system, 1);
    }
}
