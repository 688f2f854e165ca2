//! Actions that privileges permit, MongoDB's, and sets of them.

use std::fmt::{self, Debug, Formatter};

macro_rules! actions {
    ($($variant:ident = $name:literal,)*) => {
        /// One action of MongoDB's privileges.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Action { $($variant,)* }

        impl Action {
            pub const ALL: &'static [Action] = &[$(Action::$variant,)*];

            pub fn name(self) -> &'static str {
                match self { $(Action::$variant => $name,)* }
            }
        }
    };
}

// In the order of the names, in which privileges list them.
actions! {
    AddShard = "addShard",
    AnalyzeShardKey = "analyzeShardKey",
    AppendOplogNote = "appendOplogNote",
    ApplicationMessage = "applicationMessage",
    ApplyOps = "applyOps",
    AuthSchemaUpgrade = "authSchemaUpgrade",
    BypassDocumentValidation = "bypassDocumentValidation",
    BypassWriteBlockingMode = "bypassWriteBlockingMode",
    ChangeCustomData = "changeCustomData",
    ChangeOwnCustomData = "changeOwnCustomData",
    ChangeOwnPassword = "changeOwnPassword",
    ChangePassword = "changePassword",
    ChangeStream = "changeStream",
    CheckMetadataConsistency = "checkMetadataConsistency",
    CleanupOrphaned = "cleanupOrphaned",
    CleanupStructuredEncryptionData = "cleanupStructuredEncryptionData",
    ClearJumboFlag = "clearJumboFlag",
    CloseAllDatabases = "closeAllDatabases",
    CollMod = "collMod",
    CollStats = "collStats",
    Compact = "compact",
    CompactStructuredEncryptionData = "compactStructuredEncryptionData",
    ConfigureQueryAnalyzer = "configureQueryAnalyzer",
    ConnPoolStats = "connPoolStats",
    ConnPoolSync = "connPoolSync",
    ConvertToCapped = "convertToCapped",
    CpuProfiler = "cpuProfiler",
    CreateCollection = "createCollection",
    CreateDatabase = "createDatabase",
    CreateIndex = "createIndex",
    CreateRole = "createRole",
    CreateSearchIndexes = "createSearchIndexes",
    CreateUser = "createUser",
    DbHash = "dbHash",
    DbStats = "dbStats",
    DropCollection = "dropCollection",
    DropConnections = "dropConnections",
    DropDatabase = "dropDatabase",
    DropIndex = "dropIndex",
    DropRole = "dropRole",
    DropSearchIndex = "dropSearchIndex",
    DropUser = "dropUser",
    EnableProfiler = "enableProfiler",
    EnableSharding = "enableSharding",
    Find = "find",
    FlushRouterConfig = "flushRouterConfig",
    ForceUuid = "forceUUID",
    Fsync = "fsync",
    GetClusterParameter = "getClusterParameter",
    GetCmdLineOpts = "getCmdLineOpts",
    GetDefaultRwConcern = "getDefaultRWConcern",
    GetLog = "getLog",
    GetParameter = "getParameter",
    GetShardMap = "getShardMap",
    GetShardVersion = "getShardVersion",
    GrantRole = "grantRole",
    HostInfo = "hostInfo",
    Impersonate = "impersonate",
    IndexStats = "indexStats",
    Inprog = "inprog",
    Insert = "insert",
    Internal = "internal",
    InvalidateUserCache = "invalidateUserCache",
    KillAnyCursor = "killAnyCursor",
    KillAnySession = "killAnySession",
    KillCursors = "killCursors",
    KillOp = "killop",
    ListCachedAndActiveUsers = "listCachedAndActiveUsers",
    ListCollections = "listCollections",
    ListCursors = "listCursors",
    ListDatabases = "listDatabases",
    ListIndexes = "listIndexes",
    ListSearchIndexes = "listSearchIndexes",
    ListSampledQueries = "listSampledQueries",
    ListSessions = "listSessions",
    ListShards = "listShards",
    LogRotate = "logRotate",
    MoveChunk = "moveChunk",
    Netstat = "netstat",
    OidReset = "oidReset",
    OperationMetrics = "operationMetrics",
    PlanCacheIndexFilter = "planCacheIndexFilter",
    PlanCacheRead = "planCacheRead",
    PlanCacheWrite = "planCacheWrite",
    QuerySettings = "querySettings",
    QueryStatsRead = "queryStatsRead",
    QueryStatsReadTransformed = "queryStatsReadTransformed",
    ReIndex = "reIndex",
    RefineCollectionShardKey = "refineCollectionShardKey",
    Remove = "remove",
    RemoveShard = "removeShard",
    RenameCollection = "renameCollection",
    RenameCollectionSameDb = "renameCollectionSameDB",
    ReplSetConfigure = "replSetConfigure",
    ReplSetGetConfig = "replSetGetConfig",
    ReplSetGetStatus = "replSetGetStatus",
    ReplSetHeartbeat = "replSetHeartbeat",
    ReplSetReconfig = "replSetReconfig",
    ReplSetResizeOplog = "replSetResizeOplog",
    ReplSetStateChange = "replSetStateChange",
    ReshardCollection = "reshardCollection",
    Resync = "resync",
    RevokeRole = "revokeRole",
    RotateCertificates = "rotateCertificates",
    RunTenantMigration = "runTenantMigration",
    ServerStatus = "serverStatus",
    SetAuthenticationRestriction = "setAuthenticationRestriction",
    SetClusterParameter = "setClusterParameter",
    SetDefaultRwConcern = "setDefaultRWConcern",
    SetFeatureCompatibilityVersion = "setFeatureCompatibilityVersion",
    SetParameter = "setParameter",
    SetUserWriteBlockMode = "setUserWriteBlockMode",
    ShardedDataDistribution = "shardedDataDistribution",
    ShardingState = "shardingState",
    Shutdown = "shutdown",
    SplitChunk = "splitChunk",
    SplitVector = "splitVector",
    StorageDetails = "storageDetails",
    Top = "top",
    Touch = "touch",
    TrafficRecord = "trafficRecord",
    Unlock = "unlock",
    UpdateSearchIndex = "updateSearchIndex",
    Update = "update",
    UseTenant = "useTenant",
    UseUuid = "useUUID",
    Validate = "validate",
    ViewRole = "viewRole",
    ViewUser = "viewUser",
}

/// The name of all actions together.
pub const ANY_ACTION: &str = "anyAction";

const WORDS: usize = 3;

/// Invariant: every action has its bit.
const _: () = assert!(Action::ALL.len() <= WORDS * 64);

/// Set of actions.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct ActionSet([u64; WORDS]);

impl Action {
    pub fn by_name(name: &str) -> Option<Action> {
        Action::ALL.iter().copied().find(|each| each.name() == name)
    }

    const fn place(self) -> (usize, u64) {
        (self as usize / 64, 1 << (self as usize % 64))
    }
}

impl ActionSet {
    pub const NONE: ActionSet = ActionSet([0; WORDS]);

    #[expect(
        clippy::indexing_slicing,
        reason = "an index is below the length and a word below WORDS, and `get` is not `const`"
    )]
    pub const fn of(actions: &[Action]) -> ActionSet {
        let mut set = ActionSet::NONE;
        let mut index = 0;
        while index < actions.len() {
            let (word, bit) = actions[index].place();
            set.0[word] |= bit;
            index += 1;
        }
        set
    }

    /// Returns the set of all actions.
    pub const fn any() -> ActionSet {
        ActionSet::of(Action::ALL)
    }

    pub const fn and(self, other: ActionSet) -> ActionSet {
        let [a, b, c] = self.0;
        let [d, e, f] = other.0;
        ActionSet([a | d, b | e, c | f])
    }

    pub fn without(self, other: ActionSet) -> ActionSet {
        let [a, b, c] = self.0;
        let [d, e, f] = other.0;
        ActionSet([a & !d, b & !e, c & !f])
    }

    pub fn contains(self, action: Action) -> bool {
        let (word, bit) = action.place();
        self.0.get(word).is_some_and(|word| word & bit != 0)
    }

    pub fn is_empty(self) -> bool {
        self == ActionSet::NONE
    }

    pub fn iter(self) -> impl Iterator<Item = Action> {
        Action::ALL.iter().copied().filter(move |action| self.contains(*action))
    }

    /// Returns the names, in their order.
    pub fn names(self) -> Vec<&'static str> {
        match self == ActionSet::any() {
            true => vec![ANY_ACTION],
            false => self.iter().map(Action::name).collect(),
        }
    }
}

impl Debug for ActionSet {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_once() {
        for action in Action::ALL {
            assert_eq!(Action::by_name(action.name()), Some(*action));
        }
        assert_eq!(Action::by_name("nosuch"), None);
        assert_eq!(Action::by_name(ANY_ACTION), None, "a set, not an action");
    }

    #[test]
    fn sets_unite_and_part() {
        let some = ActionSet::of(&[Action::Find, Action::ViewUser, Action::AddShard]);
        assert_eq!(some.names(), ["addShard", "find", "viewUser"]);
        assert!(some.contains(Action::Find) && !some.contains(Action::Insert));
        let both = some.and(ActionSet::of(&[Action::Insert]));
        assert!(some.without(both).is_empty() && !both.without(some).is_empty());
        assert_eq!(both.without(some), ActionSet::of(&[Action::Insert]));
        assert!(both.without(ActionSet::any()).is_empty());
        assert_eq!(ActionSet::any().names(), ["anyAction"]);
    }
}
