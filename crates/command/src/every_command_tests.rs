//! Every command of the registry: its minimal form and the fields of its reply, a wrong type for each field that it needs, a field that
//! it does not know, and `help`.
//!
//! The server is a standalone over an empty store in memory, with one collection `db.c` that has a document and an index.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

use arbor_bson::{DocBuf, ValueRef};
use arbor_notation::doc;
use arbor_protocol::log::Log;
use arbor_protocol::transport::{NetworkStatistics, News, Peer};
use arbor_query::Database;
use arbor_wire::{Form, ReplyTo};

use crate::connection::Sent;
use crate::incoming::Incoming;
use crate::{Answer, Commands, Connection, Forwarded, Host, Options, Parameters, Routed, registry};

struct NoHost;

impl Host for NoHost {
    fn network(&self) -> NetworkStatistics {
        NetworkStatistics::default()
    }

    fn rotate_certificates(&self) -> Result<(), String> {
        Err("TLS is not enabled".to_owned())
    }

    fn shut_down(&self) {}

    fn topology_changed(&self) {}
}

struct Server {
    commands: Commands,
    connection: Connection,
}

impl Server {
    fn new() -> Server {
        let store = arbor_store::testing::store().unwrap();
        let transactions = store.transactions().clone();
        let (parameters, _) = Parameters::new(&[("enableTestCommands".to_owned(), "1".to_owned())]).unwrap();
        let log = Arc::new(Log::in_memory());
        let database = Database::new(store, transactions);
        let commands = Commands::new(database, log, parameters, Options::default(), Box::new(NoHost));
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
        let connection = commands.open(Peer::new(1, address, address, 1));
        let mut server = Server { commands, connection };
        for command in [
            "{insert: 'c', documents: [{_id: 1, a: 1}]}",
            "{createIndexes: 'c', indexes: [{key: {a: 1}, name: 'a_1'}]}",
        ] {
            let reply = server.run("db", &doc(command));
            assert_eq!(code(&reply), 0, "{reply:?}");
        }
        server
    }

    fn run(&mut self, db: &str, command: &DocBuf) -> DocBuf {
        let request = Incoming {
            db,
            body: command.as_doc(),
            sequences: &[],
            reply_to: ReplyTo { request_id: 1, form: Form::Message { checksum: false }, compressor: None },
            may_stream: false,
            waited_until: None,
        };
        self.commands.execute(&mut self.connection, &request).expect("no fail point closes the connection").reply
    }
}

/// A reply that no request is to have.
struct OfAnother;

impl Forwarded for OfAnother {
    fn news(&self) -> News {
        Box::pin(std::future::ready(()))
    }

    fn has_succeeded(&self) -> bool {
        true
    }

    fn complete(self: Box<Self>, _: &Routed<'_>) -> crate::Result<Option<Answer>> {
        unreachable!("the request of this reply was refused")
    }
}

/// A router's `find` that is refused between its two parts leaves no reply behind; nor is one left to a request that begins.
#[test]
fn a_refused_request_leaves_no_reply_to_the_next_one() {
    let mut server = Server::new();
    let refused = (doc("{find: 'c', maxTimeMS: 'long'}"), Some(Instant::now()));
    for (body, waited_until) in [refused, (doc("{ping: 1}"), None)] {
        server.connection.sent = Some(Sent { forwarded: Box::new(OfAnother), begun: Instant::now() });
        let reply_to = ReplyTo { request_id: 1, form: Form::Message { checksum: false }, compressor: None };
        let request =
            Incoming { db: "db", body: body.as_doc(), sequences: &[], reply_to, may_stream: false, waited_until };
        let done = server.commands.execute(&mut server.connection, &request).expect("the connection stays open");
        assert_eq!(code(&done.reply), if waited_until.is_some() { TYPE_MISMATCH } else { 0 });
        assert!(server.connection.sent.is_none(), "the reply is gone after {body:?}");
    }
}

/// Returns the code of an error, or 0.
fn code(reply: &DocBuf) -> i32 {
    match (reply.get("ok"), reply.get("code")) {
        (Some(ValueRef::Double(1.0)), None) => 0,
        (Some(ValueRef::Double(0.0)), Some(ValueRef::Int32(code))) => code,
        _ => panic!("neither a success nor an error: {reply:?}"),
    }
}

/// One command.
struct Case {
    name: &'static str,
    /// With the least that it needs.
    minimal: &'static str,
    /// The code of its reply; 0: it succeeds.
    code: i32,
    /// Fields of a reply that succeeds, besides `ok`.
    reply: &'static str,
    /// A wrong value for each field that it needs, and the code of the refusal.
    wrong: &'static [(&'static str, &'static str, i32)],
}

const fn succeeds(
    minimal: &'static str,
    reply: &'static str,
    wrong: &'static [(&'static str, &'static str, i32)],
) -> Case {
    Case { name: first_word(minimal), minimal, code: 0, reply, wrong }
}

const fn fails(minimal: &'static str, code: i32, wrong: &'static [(&'static str, &'static str, i32)]) -> Case {
    Case { name: first_word(minimal), minimal, code, reply: "", wrong }
}

/// Returns the name of the first field of `{name: ...}`.
const fn first_word(text: &'static str) -> &'static str {
    let (_, rest) = text.split_at(1);
    let mut end = 0;
    while rest.as_bytes()[end] != b':' {
        end += 1;
    }
    rest.split_at(end).0
}

const TYPE_MISMATCH: i32 = 14;
const INVALID_NAMESPACE: i32 = 73;
const UNKNOWN_FIELD: i32 = 40415;
const NO_REPLICATION: i32 = 76;
const FAILED: i32 = 125;
const ILLEGAL_OPERATION: i32 = 20;
const BAD_VALUE: i32 = 2;
const SEARCH_NOT_ENABLED: i32 = 31082;
const NOT_ENCRYPTED: i32 = 6_346_807;
const INDEX_NOT_FOUND: i32 = 27;
const FAILED_TO_PARSE: i32 = 9;
const UNAUTHORIZED: i32 = 13;
const AUTHENTICATION_FAILED: i32 = 18;
const MECHANISM_UNAVAILABLE: i32 = 334;
const PROTOCOL_ERROR: i32 = 17;
const ROLE_NOT_FOUND: i32 = 31;
const USER_NOT_FOUND: i32 = 11;
const INVALID_TLS: i32 = 140;

/// Commands that refuse no field here: their fields are names of parameters, or are not read where there is no set, no
/// transaction and no search.
const TAKES_ANY_FIELD: &[&str] = &[
    "_arborMember",
    "createSearchIndexes",
    "dropSearchIndex",
    "getParameter",
    "removeQuerySettings",
    "replSetInitiate",
    "rollbackTransaction",
    "setParameter",
    "setQuerySettings",
    "updateSearchIndex",
];

#[rustfmt::skip]
static CASES: &[Case] = &[
    fails("{_arborMember: 1, set: 'rs'}", NO_REPLICATION, &[]),
    fails("{_arborTree: 1, begin: true}", NO_REPLICATION, &[]),
    succeeds("{_killOperations: 1, operationKeys: []}", "", &[("operationKeys", "5", TYPE_MISMATCH), ("operationKeys", "[5]", TYPE_MISMATCH)]),
    fails("{_mergeAuthzCollections: 1, db: 'admin', drop: false}", BAD_VALUE, &[("db", "5", TYPE_MISMATCH), ("drop", "'x'", TYPE_MISMATCH)]),
    fails("{abortLoad: 1}", FAILED, &[]),
    fails("{abortTransaction: 1}", UNAUTHORIZED, &[]),
    fails("{addPartition: 'c', newMax: {_id: 1}, info: {}}", ILLEGAL_OPERATION, &[
        ("addPartition", "5", INVALID_NAMESPACE), ("newMax", "5", TYPE_MISMATCH), ("newMax", "{a: 1}", BAD_VALUE), ("info", "5", TYPE_MISMATCH),
    ]),
    succeeds("{aggregate: 'c', pipeline: [], cursor: {}}", "cursor", &[
        ("pipeline", "5", TYPE_MISMATCH), ("cursor", "5", TYPE_MISMATCH),
    ]),
    fails("{analyzeShardKey: 'db.c', key: {a: 1}}", ILLEGAL_OPERATION, &[
        ("analyzeShardKey", "5", TYPE_MISMATCH), ("key", "5", TYPE_MISMATCH), ("keyCharacteristics", "'x'", TYPE_MISMATCH),
        ("sampleRate", "'x'", TYPE_MISMATCH), ("sampleSize", "'x'", TYPE_MISMATCH),
    ]),
    fails("{appendOplogNote: 1, data: {}}", NO_REPLICATION, &[]),
    succeeds("{applyOps: []}", "applied results", &[("applyOps", "5", TYPE_MISMATCH)]),
    succeeds("{arborBackup: 1, begin: true}", "snapshot position epoch time trees deployment host version home collections", &[
        ("begin", "'x'", TYPE_MISMATCH), ("snapshot", "'x'", TYPE_MISMATCH), ("after", "5", TYPE_MISMATCH),
    ]),
    fails("{authenticate: 1, mechanism: 'MONGODB-X509'}", AUTHENTICATION_FAILED, &[]),
    succeeds("{autoCompact: false}", "", &[("autoCompact", "'x'", TYPE_MISMATCH)]),
    fails("{beginLoad: 1, ns: 'n'}", FAILED, &[("ns", "5", TYPE_MISMATCH), ("indexes", "5", TYPE_MISMATCH), ("options", "5", TYPE_MISMATCH)]),
    succeeds("{beginTransaction: 1}", "", &[]),
    succeeds("{buildInfo: 1}", "version gitVersion versionArray maxBsonObjectSize storageEngines", &[]),
    succeeds("{buildinfo: 1}", "version versionArray maxBsonObjectSize", &[]),
    succeeds("{bulkWrite: 1, ops: [{insert: 0, document: {}}], nsInfo: [{ns: 'db.c'}]}", "cursor nErrors nInserted nMatched nModified nUpserted nDeleted", &[
        ("ops", "5", TYPE_MISMATCH), ("nsInfo", "5", TYPE_MISMATCH),
    ]),
    fails("{cleanupStructuredEncryptionData: 'c', cleanupTokens: {}}", NOT_ENCRYPTED, &[
        ("cleanupStructuredEncryptionData", "5", INVALID_NAMESPACE), ("cleanupTokens", "5", TYPE_MISMATCH),
    ]),
    succeeds("{cloneCollectionAsCapped: 'c', toCollection: 'd', size: 4096}", "", &[("toCollection", "5", TYPE_MISMATCH)]),
    succeeds("{collMod: 'c'}", "", &[("collMod", "5", INVALID_NAMESPACE), ("index", "5", TYPE_MISMATCH)]),
    succeeds("{collStats: 'c'}", "ns size count storageSize nindexes indexSizes totalIndexSize totalSize", &[
        ("collStats", "5", INVALID_NAMESPACE), ("scale", "'x'", TYPE_MISMATCH),
    ]),
    succeeds("{collstats: 'c'}", "ns size count", &[("collstats", "5", INVALID_NAMESPACE)]),
    fails("{commitLoad: 1}", FAILED, &[]),
    fails("{commitTransaction: 1}", UNAUTHORIZED, &[]),
    fails("{compact: 'c'}", 115, &[("compact", "5", INVALID_NAMESPACE)]),
    fails("{compactStructuredEncryptionData: 'c', compactionTokens: {}}", NOT_ENCRYPTED, &[
        ("compactStructuredEncryptionData", "5", INVALID_NAMESPACE), ("compactionTokens", "5", TYPE_MISMATCH),
    ]),
    succeeds("{configureFailPoint: 'failCommand', mode: 'off'}", "", &[]),
    fails("{configureQueryAnalyzer: 'db.c', mode: 'off'}", ILLEGAL_OPERATION, &[
        ("configureQueryAnalyzer", "5", TYPE_MISMATCH), ("mode", "5", TYPE_MISMATCH), ("samplesPerSecond", "'x'", TYPE_MISMATCH),
    ]),
    succeeds("{connPoolStats: 1}", "numClientConnections numAScopedConnections totalInUse totalAvailable totalCreated pools hosts", &[]),
    succeeds("{connectionStatus: 1}", "authInfo", &[]),
    succeeds("{convertToCapped: 'c', size: 4096}", "", &[("convertToCapped", "5", INVALID_NAMESPACE)]),
    succeeds("{convertToPartitioned: 'c'}", "", &[("convertToPartitioned", "5", INVALID_NAMESPACE)]),
    succeeds("{count: 'c'}", "n", &[("count", "5", INVALID_NAMESPACE), ("query", "5", TYPE_MISMATCH)]),
    succeeds("{create: 'd'}", "", &[("create", "5", INVALID_NAMESPACE), ("capped", "'x'", TYPE_MISMATCH)]),
    succeeds("{createIndexes: 'c', indexes: [{key: {b: 1}, name: 'b_1'}]}", "numIndexesBefore numIndexesAfter createdCollectionAutomatically", &[
        ("createIndexes", "5", INVALID_NAMESPACE), ("indexes", "5", TYPE_MISMATCH),
    ]),
    succeeds("{createRole: 'r', privileges: [], roles: []}", "", &[
        ("createRole", "5", TYPE_MISMATCH), ("privileges", "5", TYPE_MISMATCH), ("roles", "5", TYPE_MISMATCH), ("roles", "[5]", BAD_VALUE),
    ]),
    fails("{createSearchIndexes: 'c', indexes: []}", SEARCH_NOT_ENABLED, &[]),
    succeeds("{createUser: 'u', pwd: 'p', roles: []}", "", &[
        ("createUser", "5", TYPE_MISMATCH), ("pwd", "5", TYPE_MISMATCH), ("roles", "5", TYPE_MISMATCH), ("roles", "['none']", ROLE_NOT_FOUND),
    ]),
    succeeds("{currentOp: 1}", "inprog", &[]),
    succeeds("{dataSize: 'db.c'}", "size numObjects millis", &[("dataSize", "5", TYPE_MISMATCH)]),
    succeeds("{dbHash: 1}", "host collections md5 timeMillis", &[]),
    succeeds("{dbStats: 1}", "db collections views objects avgObjSize dataSize storageSize indexes indexSize totalSize scaleFactor", &[
        ("scale", "'x'", TYPE_MISMATCH),
    ]),
    succeeds("{dbstats: 1}", "db collections objects", &[]),
    succeeds("{delete: 'c', deletes: [{q: {}, limit: 1}]}", "n", &[
        ("delete", "5", INVALID_NAMESPACE), ("deletes", "5", TYPE_MISMATCH), ("ordered", "'x'", TYPE_MISMATCH),
    ]),
    succeeds("{deleteIndexes: 'c', index: 'a_1'}", "nIndexesWas", &[("deleteIndexes", "5", INVALID_NAMESPACE)]),
    succeeds("{distinct: 'c', key: 'a'}", "values", &[
        ("distinct", "5", INVALID_NAMESPACE), ("key", "5", TYPE_MISMATCH), ("query", "5", TYPE_MISMATCH),
    ]),
    succeeds("{drop: 'c'}", "nIndexesWas ns", &[("drop", "5", INVALID_NAMESPACE)]),
    succeeds("{dropAllRolesFromDatabase: 1}", "n", &[]),
    succeeds("{dropAllUsersFromDatabase: 1}", "n", &[]),
    succeeds("{dropConnections: 1, hostAndPort: ['h:1']}", "", &[("hostAndPort", "5", TYPE_MISMATCH)]),
    succeeds("{dropDatabase: 1}", "dropped", &[]),
    succeeds("{dropIndexes: 'c', index: 'a_1'}", "nIndexesWas", &[("dropIndexes", "5", INVALID_NAMESPACE)]),
    fails("{dropPartition: 'c', id: 0}", ILLEGAL_OPERATION, &[("dropPartition", "5", INVALID_NAMESPACE), ("id", "'x'", TYPE_MISMATCH)]),
    fails("{dropRole: 'r'}", ROLE_NOT_FOUND, &[("dropRole", "5", TYPE_MISMATCH)]),
    fails("{dropSearchIndex: 'c', name: 's'}", SEARCH_NOT_ENABLED, &[]),
    fails("{dropUser: 'u'}", USER_NOT_FOUND, &[("dropUser", "5", TYPE_MISMATCH)]),
    succeeds("{endSessions: []}", "", &[("endSessions", "5", TYPE_MISMATCH)]),
    succeeds("{engineStatus: 1}", "", &[]),
    succeeds("{explain: {find: 'c'}}", "queryPlanner executionStats command serverInfo", &[
        ("explain", "5", TYPE_MISMATCH), ("verbosity", "5", TYPE_MISMATCH),
    ]),
    succeeds("{features: 1}", "oidMachine", &[]),
    succeeds("{filemd5: 1}", "numChunks md5", &[("root", "5", TYPE_MISMATCH)]),
    succeeds("{find: 'c'}", "cursor", &[
        ("find", "5", INVALID_NAMESPACE), ("filter", "5", TYPE_MISMATCH), ("sort", "5", TYPE_MISMATCH),
        ("limit", "'x'", TYPE_MISMATCH),
    ]),
    succeeds("{findAndModify: 'c', query: {}, update: {$set: {a: 2}}}", "lastErrorObject value", &[
        ("findAndModify", "5", INVALID_NAMESPACE), ("query", "5", TYPE_MISMATCH), ("fields", "5", TYPE_MISMATCH),
    ]),
    succeeds("{findandmodify: 'c', query: {}, remove: true}", "lastErrorObject value", &[
        ("findandmodify", "5", INVALID_NAMESPACE), ("query", "5", TYPE_MISMATCH),
    ]),
    succeeds("{fsync: 1}", "numFiles", &[]),
    fails("{fsyncUnlock: 1}", ILLEGAL_OPERATION, &[]),
    fails("{getClusterParameter: 'changeStreamOptions'}", ILLEGAL_OPERATION, &[]),
    succeeds("{getCmdLineOpts: 1}", "argv parsed", &[]),
    fails("{getDefaultRWConcern: 1}", ILLEGAL_OPERATION, &[]),
    succeeds("{getDiagnosticData: 1}", "data", &[]),
    succeeds("{getFreeMonitoringStatus: 1}", "state", &[]),
    succeeds("{getLastError: 1}", "connectionId n err", &[]),
    succeeds("{getLog: 'global'}", "totalLinesWritten log", &[("getLog", "5", TYPE_MISMATCH)]),
    fails("{getMore: Long(1), collection: 'c'}", 43, &[
        ("getMore", "'x'", TYPE_MISMATCH), ("collection", "5", TYPE_MISMATCH),
    ]),
    succeeds("{getParameter: '*'}", "cursorTimeoutMillis", &[]),
    fails("{getPartitionInfo: 'c'}", ILLEGAL_OPERATION, &[("getPartitionInfo", "5", INVALID_NAMESPACE)]),
    succeeds("{getlasterror: 1}", "connectionId n err", &[]),
    succeeds("{getnonce: 1}", "nonce", &[]),
    fails("{grantPrivilegesToRole: 'r', privileges: [{resource: {db: 'db', collection: ''}, actions: ['find']}]}", ROLE_NOT_FOUND, &[
        ("grantPrivilegesToRole", "5", TYPE_MISMATCH), ("privileges", "5", TYPE_MISMATCH),
    ]),
    fails("{grantRolesToRole: 'r', roles: ['read']}", ROLE_NOT_FOUND, &[("grantRolesToRole", "5", TYPE_MISMATCH), ("roles", "5", TYPE_MISMATCH)]),
    fails("{grantRolesToUser: 'u', roles: ['read']}", USER_NOT_FOUND, &[("grantRolesToUser", "5", TYPE_MISMATCH), ("roles", "5", TYPE_MISMATCH)]),
    succeeds("{hello: 1}", "isWritablePrimary maxBsonObjectSize maxMessageSizeBytes maxWriteBatchSize localTime logicalSessionTimeoutMinutes connectionId minWireVersion maxWireVersion readOnly", &[]),
    succeeds("{hostInfo: 1}", "system os extra", &[]),
    succeeds("{insert: 'c', documents: [{}]}", "n", &[
        ("insert", "5", INVALID_NAMESPACE), ("documents", "5", TYPE_MISMATCH), ("ordered", "'x'", TYPE_MISMATCH),
    ]),
    succeeds("{invalidateUserCache: 1}", "", &[]),
    succeeds("{isMaster: 1}", "ismaster maxBsonObjectSize localTime minWireVersion maxWireVersion readOnly", &[]),
    succeeds("{ismaster: 1}", "ismaster maxBsonObjectSize localTime minWireVersion maxWireVersion readOnly", &[]),
    succeeds("{killAllSessions: []}", "", &[("killAllSessions", "5", TYPE_MISMATCH)]),
    succeeds("{killAllSessionsByPattern: []}", "", &[("killAllSessionsByPattern", "5", TYPE_MISMATCH)]),
    succeeds("{killCursors: 'c', cursors: [Long(1)]}", "cursorsKilled cursorsNotFound cursorsAlive cursorsUnknown", &[
        ("killCursors", "5", INVALID_NAMESPACE), ("cursors", "5", TYPE_MISMATCH),
    ]),
    succeeds("{killOp: 1, op: 1}", "info", &[("op", "'x'", TYPE_MISMATCH)]),
    succeeds("{killSessions: []}", "", &[("killSessions", "5", TYPE_MISMATCH)]),
    succeeds("{listCollections: 1}", "cursor", &[
        ("filter", "5", TYPE_MISMATCH), ("cursor", "5", TYPE_MISMATCH), ("nameOnly", "'x'", TYPE_MISMATCH),
    ]),
    succeeds("{listCommands: 1}", "commands", &[]),
    succeeds("{listDatabases: 1}", "databases totalSize totalSizeMb", &[
        ("filter", "5", TYPE_MISMATCH), ("nameOnly", "'x'", TYPE_MISMATCH),
    ]),
    succeeds("{listIndexes: 'c'}", "cursor", &[("listIndexes", "5", INVALID_NAMESPACE), ("cursor", "5", TYPE_MISMATCH)]),
    succeeds("{lockInfo: 1}", "lockInfo", &[]),
    succeeds("{logRotate: 1}", "", &[]),
    succeeds("{logout: 1}", "", &[]),
    succeeds("{ping: 1}", "", &[]),
    succeeds("{planCacheClear: 'c'}", "", &[("planCacheClear", "5", INVALID_NAMESPACE)]),
    succeeds("{planCacheClearFilters: 'c'}", "", &[("planCacheClearFilters", "5", INVALID_NAMESPACE)]),
    succeeds("{planCacheListFilters: 'c'}", "filters", &[("planCacheListFilters", "5", INVALID_NAMESPACE)]),
    succeeds("{planCacheSetFilter: 'c', query: {a: 1}, indexes: [{a: 1}]}", "", &[
        ("planCacheSetFilter", "5", INVALID_NAMESPACE), ("query", "5", BAD_VALUE), ("indexes", "5", BAD_VALUE),
    ]),
    succeeds("{profile: -1}", "was slowms sampleRate", &[("profile", "'x'", TYPE_MISMATCH)]),
    succeeds("{reIndex: 'c'}", "nIndexesWas nIndexes indexes", &[("reIndex", "5", INVALID_NAMESPACE)]),
    succeeds("{refreshSessions: []}", "", &[("refreshSessions", "5", TYPE_MISMATCH)]),
    fails("{removeQuerySettings: {find: 'c', filter: {a: 1}, $db: 'db'}}", ILLEGAL_OPERATION, &[]),
    succeeds("{renameCollection: 'db.c', to: 'db.d'}", "", &[
        ("renameCollection", "5", TYPE_MISMATCH), ("to", "5", TYPE_MISMATCH),
    ]),
    fails("{replGetExpireOplog: 1}", NO_REPLICATION, &[]),
    fails("{replSetAbortPrimaryCatchUp: 1}", NO_REPLICATION, &[]),
    fails("{replSetFreeze: 1}", NO_REPLICATION, &[]),
    fails("{replSetGetConfig: 1}", NO_REPLICATION, &[]),
    fails("{replSetExpireOplog: 1, expireOplogHours: 1}", NO_REPLICATION, &[("expireOplogDays", "'x'", TYPE_MISMATCH)]),
    fails("{replSetGetRBID: 1}", NO_REPLICATION, &[]),
    fails("{replSetGetStatus: 1}", NO_REPLICATION, &[]),
    fails("{replSetHeartbeat: 'rs'}", NO_REPLICATION, &[]),
    fails("{replSetInitiate: {}}", NO_REPLICATION, &[]),
    fails("{replSetMaintenance: 1}", NO_REPLICATION, &[]),
    fails("{replSetReconfig: {}}", NO_REPLICATION, &[]),
    fails("{replSetResizeOplog: 1, size: 1000.0}", ILLEGAL_OPERATION, &[]),
    fails("{replSetStepDown: 1}", NO_REPLICATION, &[]),
    fails("{replSetStepUp: 1}", NO_REPLICATION, &[]),
    fails("{replSetSyncFrom: 'h'}", NO_REPLICATION, &[]),
    fails("{replSetTestEgress: 1}", NO_REPLICATION, &[]),
    fails("{revokePrivilegesFromRole: 'r', privileges: [{resource: {db: 'db', collection: ''}, actions: ['find']}]}", ROLE_NOT_FOUND, &[
        ("revokePrivilegesFromRole", "5", TYPE_MISMATCH), ("privileges", "5", TYPE_MISMATCH),
    ]),
    fails("{revokeRolesFromRole: 'r', roles: ['read']}", ROLE_NOT_FOUND, &[("revokeRolesFromRole", "5", TYPE_MISMATCH), ("roles", "5", TYPE_MISMATCH)]),
    fails("{revokeRolesFromUser: 'u', roles: ['read']}", USER_NOT_FOUND, &[("revokeRolesFromUser", "5", TYPE_MISMATCH), ("roles", "5", TYPE_MISMATCH)]),
    succeeds("{rolesInfo: 1}", "roles", &[("showPrivileges", "'x'", TYPE_MISMATCH), ("showBuiltinRoles", "'x'", TYPE_MISMATCH)]),
    fails("{rollbackTransaction: 1}", FAILED, &[]),
    fails("{rotateCertificates: 1}", INVALID_TLS, &[]),
    fails("{saslContinue: 1, conversationId: 1, payload: Binary(0, '')}", PROTOCOL_ERROR, &[]),
    fails("{saslStart: 1, mechanism: 'NONE', payload: Binary(0, '')}", MECHANISM_UNAVAILABLE, &[("mechanism", "5", TYPE_MISMATCH)]),
    succeeds("{serverStatus: 1}", "host version process pid uptime localTime connections network opcounters mem metrics", &[]),
    fails("{setClusterParameter: {changeStreamOptions: {}}}", ILLEGAL_OPERATION, &[]),
    fails("{setDefaultRWConcern: 1, defaultReadConcern: {level: 'local'}}", ILLEGAL_OPERATION, &[]),
    succeeds("{setFeatureCompatibilityVersion: '7.0', confirm: true}", "", &[("setFeatureCompatibilityVersion", "5", TYPE_MISMATCH)]),
    fails("{setIndexCommitQuorum: 'c', indexNames: ['a_1'], commitQuorum: 1}", INDEX_NOT_FOUND, &[
        ("setIndexCommitQuorum", "5", INVALID_NAMESPACE), ("indexNames", "5", TYPE_MISMATCH), ("indexNames", "[5]", TYPE_MISMATCH),
        ("commitQuorum", "{}", FAILED_TO_PARSE),
    ]),
    succeeds("{setParameter: 1, logLevel: 0}", "was", &[]),
    fails("{setQuerySettings: {find: 'c', filter: {a: 1}, $db: 'db'}, settings: {reject: true}}", ILLEGAL_OPERATION, &[]),
    succeeds("{setUserWriteBlockMode: 1, global: true}", "", &[("global", "5", TYPE_MISMATCH)]),
    succeeds("{showLiveTransactions: 1}", "transactions", &[]),
    succeeds("{showPendingLockRequests: 1}", "requests", &[]),
    succeeds("{shutdown: 1}", "", &[]),
    succeeds("{startSession: 1}", "id timeoutMinutes", &[]),
    succeeds("{testVersion2: 1}", "", &[]),
    succeeds("{top: 1}", "totals", &[]),
    succeeds("{update: 'c', updates: [{q: {}, u: {$set: {a: 3}}}]}", "n nModified", &[
        ("update", "5", INVALID_NAMESPACE), ("updates", "5", TYPE_MISMATCH), ("ordered", "'x'", TYPE_MISMATCH),
    ]),
    fails("{updateRole: 'r', roles: []}", ROLE_NOT_FOUND, &[("updateRole", "5", TYPE_MISMATCH), ("roles", "5", TYPE_MISMATCH)]),
    fails("{updateSearchIndex: 'c', name: 's', definition: {}}", SEARCH_NOT_ENABLED, &[]),
    fails("{updateUser: 'u', roles: []}", USER_NOT_FOUND, &[("updateUser", "5", TYPE_MISMATCH), ("roles", "5", TYPE_MISMATCH)]),
    succeeds("{usersInfo: 1}", "users", &[("showPrivileges", "'x'", TYPE_MISMATCH)]),
    succeeds("{validate: 'c'}", "ns nInvalidDocuments nrecords nIndexes keysPerIndex indexDetails valid warnings errors", &[
        ("validate", "5", INVALID_NAMESPACE),
    ]),
    succeeds("{validateDBMetadata: 1, apiParameters: {version: '1'}}", "apiVersionErrors", &[("apiParameters", "5", TYPE_MISMATCH)]),
    succeeds("{whatsmyuri: 1}", "you", &[]),
];

/// Returns the command with another value for a field, which may be new.
fn with_field(command: &DocBuf, name: &str, value: ValueRef<'_>) -> DocBuf {
    let mut changed: DocBuf =
        command.as_doc().iter().map(|(own, old)| (own, if own == name { value } else { old })).collect();
    if command.get(name).is_none() {
        changed.append(name, value);
    }
    changed
}

fn check(case: &Case, problems: &mut Vec<String>) {
    let info = registry::info(case.name).unwrap_or_else(|| panic!("no command {}", case.name));
    let db = if info.admin_only { "admin" } else { "db" };
    let command = doc(case.minimal);
    let mut expect = |what: &str, command: &DocBuf, expected: i32| {
        let reply = Server::new().run(db, command);
        if code(&reply) != expected {
            problems.push(format!("{what} {command:?}: {expected} expected, {reply:?}"));
        }
        reply
    };
    let reply = expect("minimal", &command, case.code);
    let missing: Vec<&str> = case.reply.split_whitespace().filter(|field| reply.get(field).is_none()).collect();
    for (field, value, expected) in case.wrong {
        let value = doc(&format!("{{v: {value}}}"));
        let value = value.get("v").expect("the field that was just written");
        expect("wrong type of a field:", &with_field(&command, field, value), *expected);
    }
    let takes_any = TAKES_ANY_FIELD.contains(&case.name);
    let unknown = with_field(&command, "noSuchField", ValueRef::Int32(1));
    let expected = if info.ignores_unknown_fields() { case.code } else { UNKNOWN_FIELD };
    if !takes_any {
        expect("unknown field:", &unknown, expected);
    }
    let described = expect("help:", &with_field(&command, "help", ValueRef::Bool(true)), 0);
    if !matches!(described.get("help"), Some(ValueRef::String(text)) if text.starts_with("help for: ")) {
        problems.push(format!("{}: no help in {described:?}", case.name));
    }
    if !missing.is_empty() {
        problems.push(format!("{}: no {missing:?} in {reply:?}", case.name));
    }
}

#[test]
fn commands_read_their_fields_and_reply_as_the_table_says() {
    let mut problems = Vec::new();
    CASES.iter().for_each(|case| check(case, &mut problems));
    assert!(problems.is_empty(), "{} problems:\n{}", problems.len(), problems.join("\n"));
}

#[test]
fn the_table_names_each_command() {
    let named = |name: &str| CASES.iter().filter(|case| case.name == name).count();
    let names = registry::commands().map(|info| info.name);
    let without: Vec<&str> = names.filter(|name| named(name) != 1).collect();
    assert!(without.is_empty(), "give each of {without:?} one case");
}
