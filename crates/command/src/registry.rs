//! The one table of commands, in alphabetical order: what is known of each, and the function that runs it.

use arbor_auth::Action;
use arbor_protocol::metrics::Kind;
use arbor_protocol::{CommandInfo, Runs};

use crate::Result;
use crate::access;
use crate::access::Access::{self, By, Cluster, Collection, Database, LoggedIn, Open};
use crate::call::Call;
use crate::cmd::{admin, crud, ddl, diagnostics, repl, session, sharding, users};
use crate::moves;
use crate::routing::not_here;
use crate::session::{remembered, two_phase};

/// A command's own code.
pub(crate) type Run = fn(&mut Call<'_>) -> Result<()>;

/// A command: its properties, its code, and what a user has to be permitted for it.
pub(crate) type Row = (CommandInfo, Run, Access);

const fn quick(name: &'static str, help: &'static str) -> CommandInfo {
    CommandInfo::quick(name, help)
}

const fn slow(name: &'static str, help: &'static str) -> CommandInfo {
    CommandInfo::slow(name, help)
}

const fn read(name: &'static str, help: &'static str) -> CommandInfo {
    CommandInfo::read(name, help)
}

const fn write(name: &'static str, help: &'static str) -> CommandInfo {
    CommandInfo::write(name, help)
}

#[rustfmt::skip]
static COMMANDS: &[Row] = &[
    (slow("_arborMember", "Messages between the members of a replica set").admin().waiting(), repl::arbor_member::run, Cluster(Action::Internal)),
    (slow("_arborTree", "Trees of a member, for another one that fetches them").admin(), repl::arbor_tree::run, Cluster(Action::Internal)),
    (quick("_killOperations", "Ends operations that a router has sent").admin(), admin::kill_operations::run, Cluster(Action::Internal)),
    (slow("_mergeAuthzCollections", "Restores users and roles from other collections").admin().writing(), users::merge_authz_collections::run, By(access::merge_authz_collections)),
    (slow("abortLoad", "Takes back beginLoad (TokuMX)").writing(), session::load::abort, LoggedIn),
    (slow("abortTransaction", "Ends a transaction without its changes").writing().v1(), session::commit_transaction::abort, LoggedIn),
    (slow("addPartition", "Adds a partition behind the last one (TokuMX)").writing().lenient(), ddl::partitions::add, Collection(Action::CollMod)),
    (read("aggregate", "Runs an aggregation pipeline").writing().v1(), crud::aggregate::run, By(access::aggregate)),
    (slow("analyzeShardKey", "How well a shard key would divide a collection").admin(), sharding::analyze_shard_key::run, By(access::sharding::analyze)),
    (slow("appendOplogNote", "Writes a note into the oplog").admin().writing(), repl::append_oplog_note::run, Cluster(Action::AppendOplogNote)),
    (slow("applyOps", "Does what entries of an oplog say").writing(), repl::apply_ops::run, By(access::apply_ops)),
    (slow("arborBackup", "The trees of the server at one moment, for a backup").admin(), admin::arbor_backup::run, By(access::backup)),
    (slow("authenticate", "Logs in by certificate").v1().lenient().secret(), users::authenticate::run, Open),
    (slow("autoCompact", "Compacts all collections in the background").admin(), admin::auto_compact::run, Cluster(Action::Compact)),
    (slow("beginLoad", "Begins to load a new collection in a transaction (TokuMX)").writing(), session::load::begin, By(access::begin_load)),
    (slow("beginTransaction", "Begins a transaction of this connection (TokuMX)"), session::begin_transaction::run, LoggedIn),
    (quick("buildInfo", "Version and build of the server").v1().lenient(), diagnostics::build_info::run, Open),
    (quick("buildinfo", "Old spelling of buildInfo").lenient(), diagnostics::build_info::run, Open),
    (write("bulkWrite", "Inserts, updates and deletes over several collections").admin().v1(), crud::bulk_write::run, By(access::bulk_write)),
    (slow("cleanupStructuredEncryptionData", "Refused: there are no encrypted collections").writing(), admin::encrypted_data::run, Collection(Action::CleanupStructuredEncryptionData)),
    (slow("cloneCollectionAsCapped", "Copies the last documents of a collection into a capped one").writing().lenient(), ddl::clone_collection_as_capped::run, By(access::clone_as_capped)),
    (slow("collMod", "Changes a collection or a view").writing().v1(), ddl::coll_mod::run, By(access::coll_mod)),
    (slow("collStats", "Statistics of a collection"), diagnostics::coll_stats::run, Collection(Action::CollStats)),
    (slow("collstats", "Old spelling of collStats"), diagnostics::coll_stats::run, Collection(Action::CollStats)),
    (slow("commitLoad", "Ends beginLoad (TokuMX)").writing(), session::load::commit, LoggedIn),
    (slow("commitTransaction", "Ends a transaction with its changes").writing().v1(), session::commit_transaction::commit, LoggedIn),
    (slow("compact", "Gives space of a collection back to the file system"), admin::compact::run, Collection(Action::Compact)),
    (slow("compactStructuredEncryptionData", "Refused: there are no encrypted collections").writing(), admin::encrypted_data::run, Collection(Action::CompactStructuredEncryptionData)),
    (slow("configureFailPoint", "Test aid: makes commands fail").admin(), admin::configure_fail_point::run, Cluster(Action::SetParameter)),
    (slow("configureQueryAnalyzer", "Which statements of a collection are sampled").admin().writing(), sharding::configure_query_analyzer::run, By(access::sharding::configure_analyzer)),
    (quick("connPoolStats", "Connections to other servers: there are none").lenient(), diagnostics::small::connection_pool_stats, Cluster(Action::ConnPoolStats)),
    (quick("connectionStatus", "Who is connected").v1().lenient(), diagnostics::connection_status::run, Open),
    (slow("convertToCapped", "Makes a collection a capped one").writing().lenient(), ddl::convert_to_capped::run, Collection(Action::ConvertToCapped)),
    (slow("convertToPartitioned", "Makes a collection a partitioned one (TokuMX)").writing().lenient(), ddl::partitions::convert, Collection(Action::CollMod)),
    (read("count", "Counts documents").v1(), crud::count::run, Collection(Action::Find)),
    (slow("create", "Creates a collection").writing().v1(), ddl::create::run, By(access::create)),
    (slow("createIndexes", "Builds indexes").writing().v1(), ddl::create_indexes::run, Collection(Action::CreateIndex)),
    (slow("createRole", "Creates a role").writing(), users::create_role::run, By(access::create_role)),
    (slow("createSearchIndexes", "Refused: there is no search process").writing(), ddl::search_indexes::run, Collection(Action::CreateSearchIndexes)),
    (slow("createUser", "Creates a user").writing().secret(), users::create_user::run, By(access::create_user)),
    (quick("currentOp", "Running operations").admin().lenient(), diagnostics::current_op::run, By(access::current_op)),
    (slow("dataSize", "Size of a collection's documents").lenient(), diagnostics::data_size::run, By(access::data_size)),
    (slow("dbHash", "Digests of the collections' documents").lenient(), diagnostics::db_hash::run, Database(Action::DbHash)),
    (slow("dbStats", "Statistics of a database"), diagnostics::db_stats::run, Database(Action::DbStats)),
    (slow("dbstats", "Old spelling of dbStats"), diagnostics::db_stats::run, Database(Action::DbStats)),
    (write("delete", "Deletes documents").counted_as(Kind::Delete).v1(), crud::delete::run, Collection(Action::Remove)),
    (slow("deleteIndexes", "Old spelling of dropIndexes").writing(), ddl::drop_indexes::run, Collection(Action::DropIndex)),
    (read("distinct", "Distinct values of a field"), crud::distinct::run, Collection(Action::Find)),
    (slow("drop", "Drops a collection").writing().v1(), ddl::drop::run, Collection(Action::DropCollection)),
    (slow("dropAllRolesFromDatabase", "Drops the roles of a database").writing(), users::drop_role::run_all, Database(Action::DropRole)),
    (slow("dropAllUsersFromDatabase", "Drops the users of a database").writing(), users::drop_user::run_all, Database(Action::DropUser)),
    (quick("dropConnections", "Closes connections to other servers: there are none").admin(), diagnostics::small::drop_connections, Cluster(Action::DropConnections)),
    (slow("dropDatabase", "Drops a database").writing().v1(), ddl::drop_database::run, Database(Action::DropDatabase)),
    (slow("dropIndexes", "Drops indexes").writing().v1(), ddl::drop_indexes::run, Collection(Action::DropIndex)),
    (slow("dropPartition", "Drops partitions with their documents (TokuMX)").writing().lenient(), ddl::partitions::drop, Collection(Action::DropCollection)),
    (slow("dropRole", "Drops a role").writing(), users::drop_role::run, Database(Action::DropRole)),
    (slow("dropSearchIndex", "Refused: there is no search process").writing(), ddl::search_indexes::run, Collection(Action::DropSearchIndex)),
    (slow("dropUser", "Drops a user").writing(), users::drop_user::run, Database(Action::DropUser)),
    (quick("endSessions", "Ends sessions").at(Runs::Blocking).v1(), session::end_sessions::run, LoggedIn),
    (slow("engineStatus", "Statistics of engines, log and locks in one flat document (TokuMX)").admin(), diagnostics::engine_status::run, Cluster(Action::ServerStatus)),
    (slow("explain", "Explains how a command would run").v1(), crud::explain::run, By(access::explain)),
    (quick("features", "The machine, as an ObjectId names it").lenient(), diagnostics::small::features, Open),
    (slow("filemd5", "MD5 of a GridFS file").lenient(), diagnostics::file_md5::run, Database(Action::Find)),
    (read("find", "Finds documents").at(Runs::InlineById).counted_as(Kind::Query).v1(), crud::find::run, Collection(Action::Find)),
    (write("findAndModify", "Changes one document and answers it").v1(), crud::find_and_modify::run, By(access::find_and_modify)),
    (write("findandmodify", "Old spelling of findAndModify"), crud::find_and_modify::run, By(access::find_and_modify)),
    (slow("fsync", "Makes everything durable with a checkpoint").admin(), admin::fsync::run, Cluster(Action::Fsync)),
    (slow("fsyncUnlock", "Undoes fsync with lock").admin().lenient(), admin::fsync::unlock, Cluster(Action::Unlock)),
    (slow("getClusterParameter", "Settings of the whole replica set").admin(), admin::cluster_parameter::get, Cluster(Action::GetClusterParameter)),
    (quick("getCmdLineOpts", "How the server was started").admin().lenient(), diagnostics::get_cmd_line_opts::run, Cluster(Action::GetCmdLineOpts)),
    (quick("getDefaultRWConcern", "Cluster-wide defaults").admin(), repl::set_default_rw_concern::get, Cluster(Action::GetDefaultRwConcern)),
    (slow("getDiagnosticData", "A sample of all statistics").admin(), diagnostics::small::get_diagnostic_data, Cluster(Action::ServerStatus)),
    (quick("getFreeMonitoringStatus", "Always disabled").admin().lenient(), diagnostics::get_free_monitoring_status::run, LoggedIn),
    (slow("getLastError", "What the last write without an answer did").lenient(), crud::get_last_error::run, LoggedIn),
    (quick("getLog", "Last lines of the log").admin().lenient(), diagnostics::get_log::run, Cluster(Action::GetLog)),
    (read("getMore", "Next batch of a cursor").counted_as(Kind::GetMore).v1(), crud::get_more::run, LoggedIn),
    (quick("getParameter", "Server parameters").admin(), admin::get_parameter::run, Cluster(Action::GetParameter)),
    (quick("getPartitionInfo", "The partitions of a collection (TokuMX)").lenient(), ddl::partitions::info, Collection(Action::CollStats)),
    (slow("getlasterror", "Old spelling of getLastError").lenient(), crud::get_last_error::run, LoggedIn),
    (quick("getnonce", "A random number, for clients of 2013").lenient(), diagnostics::small::get_nonce, Open),
    (slow("grantPrivilegesToRole", "Adds privileges to a role").writing(), users::grant_privileges_to_role::grant, By(access::grant_privileges_to_role)),
    (slow("grantRolesToRole", "Makes a role inherit others").writing(), users::grant_roles_to_role::grant, By(access::grant_roles)),
    (slow("grantRolesToUser", "Gives roles to a user").writing(), users::grant_roles_to_user::grant, By(access::grant_roles)),
    (quick("hello", "What the server is").v1().lenient(), diagnostics::hello::run, Open),
    (quick("hostInfo", "The machine"), diagnostics::host_info::run, Cluster(Action::HostInfo)),
    (write("insert", "Inserts documents").counted_as(Kind::Insert).v1(), crud::insert::run, By(access::insert)),
    (quick("invalidateUserCache", "Reads users and roles again").admin(), users::invalidate_user_cache::run, Cluster(Action::InvalidateUserCache)),
    (quick("isMaster", "Old spelling of hello").lenient(), diagnostics::hello::run_legacy, Open),
    (quick("ismaster", "Old spelling of hello").lenient(), diagnostics::hello::run_legacy, Open),
    (slow("killAllSessions", "Kills all sessions").lenient(), session::kill_sessions::run_all, Cluster(Action::KillAnySession)),
    (slow("killAllSessionsByPattern", "Kills the sessions of a pattern"), session::kill_sessions::run_by_pattern, Cluster(Action::KillAnySession)),
    (slow("killCursors", "Closes cursors").v1(), crud::kill_cursors::run, LoggedIn),
    (quick("killOp", "Interrupts an operation").admin().lenient(), admin::kill_op::run, LoggedIn),
    (slow("killSessions", "Kills sessions").lenient(), session::kill_sessions::run, LoggedIn),
    (slow("listCollections", "Collections of a database").v1(), ddl::list_collections::run, By(access::list_collections)),
    (quick("listCommands", "This table").lenient(), diagnostics::list_commands::run, LoggedIn),
    (slow("listDatabases", "Databases").admin().v1(), ddl::list_databases::run, LoggedIn),
    (slow("listIndexes", "Indexes of a collection").v1(), ddl::list_indexes::run, Collection(Action::ListIndexes)),
    (quick("lockInfo", "Locks that statements can wait for").admin(), admin::fsync::lock_info, Cluster(Action::ServerStatus)),
    (slow("logRotate", "Begins a new log file").admin().lenient(), admin::log_rotate::run, Cluster(Action::LogRotate)),
    (quick("logout", "Ends the login of the connection").lenient(), users::sasl::logout, Open),
    (quick("ping", "Answers").v1().lenient(), diagnostics::ping::run, Open),
    (quick("planCacheClear", "Forgets which plans won").lenient(), admin::index_filters::clear_plans, Collection(Action::PlanCacheWrite)),
    (quick("planCacheClearFilters", "Removes index filters").lenient(), admin::index_filters::clear, Collection(Action::PlanCacheIndexFilter)),
    (quick("planCacheListFilters", "Index filters of a collection").lenient(), admin::index_filters::list, Collection(Action::PlanCacheIndexFilter)),
    (quick("planCacheSetFilter", "Limits the indexes that queries of a shape may use").lenient(), admin::index_filters::set, Collection(Action::PlanCacheIndexFilter)),
    (slow("profile", "Level of the profiler, threshold of the slow query log"), admin::profile::run, By(access::profile)),
    (slow("reIndex", "Rebuilds the indexes of a collection").writing().lenient(), ddl::re_index::run, Collection(Action::ReIndex)),
    (quick("refreshSessions", "Keeps sessions alive").v1(), session::refresh_sessions::run, LoggedIn),
    (slow("removeQuerySettings", "Removes the settings of a query shape").admin().writing(), admin::query_settings::remove, Cluster(Action::QuerySettings)),
    (slow("renameCollection", "Renames a collection").admin().writing(), ddl::rename_collection::run, By(access::rename_collection)),
    (slow("replGetExpireOplog", "How long the oplog is kept (TokuMX)").admin(), repl::repl_expire_oplog::get, Cluster(Action::ReplSetGetStatus)),
    (quick("replSetAbortPrimaryCatchUp", "Fails: a set of one member has no catch-up").admin(), repl::repl_set_others::abort_catch_up, Cluster(Action::ReplSetStateChange)),
    (slow("replSetExpireOplog", "How long the oplog is kept, whatever its size (TokuMX)").admin(), repl::repl_expire_oplog::set, Cluster(Action::ReplSetResizeOplog)),
    (slow("replSetFreeze", "Keeps a member from becoming primary").admin().lenient(), repl::repl_set_freeze::run, Cluster(Action::ReplSetStateChange)),
    (quick("replSetGetConfig", "Configuration of the replica set").admin().lenient(), repl::repl_set_get_config::run, Cluster(Action::ReplSetGetConfig)),
    (quick("replSetGetRBID", "Number of the last rollback").admin().lenient(), repl::repl_set_others::rollback_id, Cluster(Action::ReplSetGetStatus)),
    (quick("replSetGetStatus", "Members of the replica set").admin().lenient(), repl::repl_set_get_status::run, Cluster(Action::ReplSetGetStatus)),
    (slow("replSetHeartbeat", "What a member says of itself to the others").admin().lenient(), repl::repl_set_heartbeat::run, Cluster(Action::Internal)),
    (slow("replSetInitiate", "Makes a replica set").admin(), repl::repl_set_initiate::run, Cluster(Action::ReplSetConfigure)),
    (quick("replSetMaintenance", "Maintenance mode, which a primary does not have").admin().lenient(), repl::repl_set_others::maintenance, Cluster(Action::ReplSetStateChange)),
    (slow("replSetReconfig", "Changes the configuration of the replica set").admin(), repl::repl_set_reconfig::run, Cluster(Action::ReplSetConfigure)),
    (slow("replSetResizeOplog", "How much of the oplog is kept").admin(), repl::repl_set_resize_oplog::run, Cluster(Action::ReplSetResizeOplog)),
    (slow("replSetStepDown", "The primary leaves its office for a time").admin().lenient(), repl::repl_set_step_down::run, Cluster(Action::ReplSetStateChange)),
    (slow("replSetStepUp", "Takes the office of primary again").admin(), repl::repl_set_others::step_up, Cluster(Action::ReplSetStateChange)),
    (quick("replSetSyncFrom", "From whom to copy; a primary does not").admin().lenient(), repl::repl_set_others::sync_from, Cluster(Action::ReplSetStateChange)),
    (slow("replSetTestEgress", "Whether a member can be reached").admin(), repl::repl_set_others::test_egress, Cluster(Action::ReplSetGetStatus)),
    (slow("revokePrivilegesFromRole", "Takes privileges from a role").writing(), users::grant_privileges_to_role::revoke, By(access::revoke_privileges_from_role)),
    (slow("revokeRolesFromRole", "Ends the inheritance of roles").writing(), users::grant_roles_to_role::revoke, By(access::revoke_roles)),
    (slow("revokeRolesFromUser", "Takes roles from a user").writing(), users::grant_roles_to_user::revoke, By(access::revoke_roles)),
    (slow("rolesInfo", "Roles and what they permit"), users::roles_info::run, By(access::roles_info)),
    (slow("rollbackTransaction", "Undoes beginTransaction (TokuMX)"), session::commit_transaction::roll_back, LoggedIn),
    (slow("rotateCertificates", "Reads the certificates of TLS again").admin(), admin::rotate_certificates::run, Cluster(Action::RotateCertificates)),
    (slow("saslContinue", "Continues a login").v1().secret(), users::sasl::proceed, Open),
    (slow("saslStart", "Begins a login").v1().secret(), users::sasl::start, Open),
    (slow("serverStatus", "Statistics of the server").lenient(), diagnostics::server_status::run, Cluster(Action::ServerStatus)),
    (slow("setClusterParameter", "Changes settings of the whole replica set").admin().writing(), admin::cluster_parameter::set, Cluster(Action::SetClusterParameter)),
    (slow("setDefaultRWConcern", "Sets the default read and write concern").admin().writing(), repl::set_default_rw_concern::set, Cluster(Action::SetDefaultRwConcern)),
    (slow("setFeatureCompatibilityVersion", "Sets the version that is shown: 8.0 or 7.0").admin().writing(), admin::set_feature_compatibility_version::run, Cluster(Action::SetFeatureCompatibilityVersion)),
    (slow("setIndexCommitQuorum", "Members that a build of an index waits for").writing(), ddl::set_index_commit_quorum::run, Collection(Action::CreateIndex)),
    (slow("setParameter", "Sets a server parameter").admin(), admin::set_parameter::run, Cluster(Action::SetParameter)),
    (slow("setQuerySettings", "Settings for all statements of a query shape").admin().writing(), admin::query_settings::set, Cluster(Action::QuerySettings)),
    (quick("setUserWriteBlockMode", "Makes writes of users fail").admin(), admin::set_user_write_block_mode::run, Cluster(Action::SetUserWriteBlockMode)),
    (quick("showLiveTransactions", "Open transactions (TokuMX)"), session::show_live_transactions::run, LoggedIn),
    (quick("showPendingLockRequests", "Commits that wait for other transactions (TokuMX)"), session::show_pending_lock_requests::run, Cluster(Action::Inprog)),
    (slow("shutdown", "Stops the server").admin().lenient(), admin::shutdown::run, Cluster(Action::Shutdown)),
    (quick("startSession", "Makes a session id").lenient(), session::start_session::run, LoggedIn),
    (quick("testVersion2", "Test aid: a command that is not in the stable API").lenient(), diagnostics::small::test_version_2, LoggedIn),
    (slow("top", "Use per collection").admin().lenient(), diagnostics::top::run, Cluster(Action::Top)),
    (write("update", "Updates documents").counted_as(Kind::Update).v1(), crud::update::run, By(access::update)),
    (slow("updateRole", "Replaces what a role has").writing(), users::update_role::run, By(access::update_role)),
    (slow("updateSearchIndex", "Refused: there is no search process").writing(), ddl::search_indexes::run, Collection(Action::UpdateSearchIndex)),
    (slow("updateUser", "Replaces what a user has").writing().secret(), users::update_user::run, By(access::update_user)),
    (slow("usersInfo", "Users and what they may do"), users::users_info::run, By(access::users_info)),
    (slow("validate", "Verifies a collection and its indexes").lenient(), diagnostics::validate::run, Collection(Action::Validate)),
    (slow("validateDBMetadata", "Looks for indexes that the stable API does not have"), diagnostics::validate_db_metadata::run, By(access::validate_metadata)),
    (quick("whatsmyuri", "The client's address").lenient(), diagnostics::whatsmyuri::run, Open),
];

/// Returns all commands, in the order of the table.
#[rustfmt::skip]
static OF_ROUTERS: &[Row] = &[
    (slow("addShard", "Adds a shard to the cluster").admin().writing(), not_here, Cluster(Action::AddShard)),
    (slow("addShardToZone", "Makes a shard part of a zone").admin().writing(), not_here, By(access::sharding::zone_of_shard)),
    (slow("balancerCollectionStatus", "Whether a collection's chunks are where they should be").admin(), not_here, By(access::sharding::shard_collection)),
    (slow("balancerStart", "Allows the balancer to run").admin().writing(), not_here, By(access::sharding::balancer_switch)),
    (slow("balancerStatus", "Whether the balancer may run").admin(), not_here, By(access::sharding::balancer_status)),
    (slow("balancerStop", "Stops the balancer").admin().writing(), not_here, By(access::sharding::balancer_switch)),
    (slow("checkMetadataConsistency", "Compares the config servers with the shards"), not_here, By(access::sharding::consistency)),
    (slow("clearJumboFlag", "Lets the balancer split or move a chunk again").admin().writing(), not_here, By(access::sharding::clear_jumbo)),
    (slow("configureCollectionBalancing", "The balancer's settings of a collection").admin().writing(), not_here, By(access::sharding::shard_collection)),
    (slow("enableSharding", "Creates a database, on a shard that may be named").admin().writing(), not_here, By(access::sharding::of_database)),
    (slow("flushRouterConfig", "Forgets what the router knows of the cluster").admin(), not_here, Cluster(Action::FlushRouterConfig)),
    (slow("getShardMap", "The addresses of the shards").admin(), not_here, Cluster(Action::GetShardMap)),
    (slow("getShardVersion", "The version of a collection's routing table").admin(), not_here, By(access::sharding::shard_version)),
    (quick("isdbgrid", "Whether this is a router"), not_here, Open),
    (slow("listShards", "The shards of the cluster").admin(), not_here, Cluster(Action::ListShards)),
    (slow("mergeChunks", "Makes neighbouring chunks of a shard one").admin().writing(), not_here, By(access::sharding::split)),
    (slow("abortMoveCollection", "Ends a move of a collection").admin().writing(), not_here, By(access::sharding::reshard)),
    (slow("abortReshardCollection", "Ends a change of a shard key").admin().writing(), not_here, By(access::sharding::reshard)),
    (slow("abortUnshardCollection", "Ends the unsharding of a collection").admin().writing(), not_here, By(access::sharding::reshard)),
    (slow("commitReshardCollection", "Ends a change of a shard key as soon as it can").admin().writing(), not_here, By(access::sharding::reshard)),
    (slow("moveCollection", "Moves a collection that is not sharded to another shard").admin().writing(), not_here, By(access::sharding::reshard)),
    (slow("reshardCollection", "Gives a collection another shard key").admin().writing(), not_here, By(access::sharding::reshard)),
    (slow("unshardCollection", "Makes a sharded collection one of a single shard").admin().writing(), not_here, By(access::sharding::reshard)),
    (slow("mergeAllChunksOnShard", "Merges the neighbouring chunks of a shard").admin().writing(), not_here, By(access::sharding::split)),
    (slow("refineCollectionShardKey", "Adds fields at the end of a shard key").admin().writing(), not_here, By(access::sharding::refine)),
    (slow("setAllowMigrations", "Whether chunks of a collection may be moved").admin().writing(), not_here, By(access::sharding::move_chunk)),
    (slow("moveChunk", "Moves a chunk to another shard").admin().writing(), not_here, By(access::sharding::move_chunk)),
    (slow("movePrimary", "Moves the unsharded collections of a database").admin().writing(), not_here, By(access::sharding::move_primary)),
    (slow("moveRange", "Moves a range of a shard key to another shard").admin().writing(), not_here, By(access::sharding::move_chunk)),
    (slow("removeShard", "Takes a shard out of the cluster").admin().writing(), not_here, Cluster(Action::RemoveShard)),
    (slow("removeShardFromZone", "Takes a shard out of a zone").admin().writing(), not_here, By(access::sharding::zone_of_shard)),
    (slow("shardCollection", "Distributes a collection over the shards").admin().writing(), not_here, By(access::sharding::shard_collection)),
    (slow("split", "Splits a chunk").admin().writing(), not_here, By(access::sharding::split)),
    (slow("updateZoneKeyRange", "Assigns a range of a shard key to a zone").admin().writing(), not_here, By(access::sharding::zone_of_range)),
];

#[rustfmt::skip]
static OF_SHARDS: &[Row] = &[
    (slow("_shardsvrDataSizes", "Bytes of collections").admin(), sharding::sizes::data_sizes, Cluster(Action::Internal)),
    (slow("_shardsvrForgetDecisions", "Forgets decisions about transactions").admin().writing(), two_phase::forget_decisions, Cluster(Action::Internal)),
    (slow("_shardsvrJoin", "Makes this server a shard of a cluster").admin().writing(), sharding::join, Cluster(Action::Internal)),
    (slow("_shardsvrLeave", "Forgets the cluster").admin().writing(), sharding::leave, Cluster(Action::Internal)),
    (slow("_shardsvrMoveChanges", "Changes of a range that moves").admin().writing(), moves::move_changes, Cluster(Action::Internal)),
    (slow("_shardsvrMoveClients", "Latencies of clients").admin(), moves::move_clients, Cluster(Action::Internal)),
    (slow("_shardsvrMoveClose", "Holds the writers of a range that moves").admin().writing(), moves::move_close, Cluster(Action::Internal)),
    (slow("_shardsvrMoveIn", "Begins to take a range").admin().writing(), moves::move_in, Cluster(Action::Internal)),
    (slow("_shardsvrMoveOpen", "Lets the writers of a range continue").admin().writing(), moves::move_open, Cluster(Action::Internal)),
    (slow("_shardsvrMoveOut", "Begins to give a range away").admin().writing(), moves::move_out, Cluster(Action::Internal)),
    (slow("_shardsvrMoveRanges", "The ranges that move, or have").admin().writing(), moves::move_ranges, Cluster(Action::Internal)),
    (slow("_shardsvrMoveRead", "Documents of a range that moves").admin().writing(), moves::move_read, Cluster(Action::Internal)),
    (slow("_shardsvrMoveWrite", "Takes documents of a range").admin().writing(), moves::move_write, Cluster(Action::Internal)),
    (slow("_shardsvrPreparedTransactions", "Promises and decisions").admin().writing(), two_phase::prepared_transactions, Cluster(Action::Internal)),
    (slow("_shardsvrRangeSizes", "Bytes of ranges of a collection").admin(), sharding::sizes::range_sizes, Cluster(Action::Internal)),
    (slow("_shardsvrReplaceCollection", "Puts a collection in the place of another one").admin().writing(), sharding::replace_collection, Cluster(Action::Internal)),
    (slow("_shardsvrSetOwnership", "Sets the version of a collection or database").admin().writing(), sharding::set_ownership, Cluster(Action::Internal)),
    (slow("_shardsvrSettleTransaction", "Carries out the decision about a transaction").admin().writing(), two_phase::settle, Cluster(Action::Internal)),
    (slow("_shardsvrSplitPoint", "The key behind a number of bytes").admin(), sharding::sizes::split_point, Cluster(Action::Internal)),
    (slow("_shardsvrStatement", "What a statement of a retryable write has done").writing(), remembered::statement, Cluster(Action::Internal)),
    (slow("_shardsvrTakeDocuments", "Takes documents that streams do not show").admin().writing(), moves::take_all, Cluster(Action::Internal)),
    (slow("_shardsvrTransactionDecision", "The decision about a transaction").admin().writing(), two_phase::transaction_decision, Cluster(Action::Internal)),
    (slow("coordinateCommitTransaction", "The outcome of a transaction").admin().writing(), two_phase::coordinate, LoggedIn),
    (slow("prepareTransaction", "Promises to commit a transaction").admin().writing(), two_phase::prepare, Cluster(Action::Internal)),
];

#[rustfmt::skip]
static OF_CONFIG_SERVERS: &[Row] = &[
    (slow("_configsvrBalancerStatus", "The rounds of the balancer").admin(), sharding::balancer_status, Cluster(Action::Internal)),
];

/// Returns a command that only routers have.
pub(crate) fn of_routers(name: &str) -> Option<&'static Row> {
    OF_ROUTERS.iter().find(|(info, ..)| info.name == name)
}

/// Returns a command that only shards have.
pub(crate) fn of_shards(name: &str) -> Option<&'static Row> {
    OF_SHARDS.iter().find(|(info, ..)| info.name == name)
}

/// Returns a command that only config servers have.
pub(crate) fn of_config_servers(name: &str) -> Option<&'static Row> {
    OF_CONFIG_SERVERS.iter().find(|(info, ..)| info.name == name)
}

pub(crate) fn commands() -> impl Iterator<Item = &'static CommandInfo> {
    COMMANDS.iter().map(|(info, ..)| info)
}

/// Returns the command of this name, and its code.
pub(crate) fn find(name: &str) -> Option<&'static Row> {
    COMMANDS.binary_search_by(|(info, ..)| info.name.cmp(name)).ok().and_then(|index| COMMANDS.get(index))
}

/// Returns where a command runs, whichever servers have it. What no server has is refused where it was read.
pub(crate) fn runs(name: &str) -> Runs {
    let of_roles = || of_shards(name).or_else(|| of_routers(name)).or_else(|| of_config_servers(name));
    find(name).or_else(of_roles).map_or(Runs::Inline, |(info, ..)| info.runs)
}

/// Returns what is known of the command of this name.
pub(crate) fn info(name: &str) -> Option<&'static CommandInfo> {
    find(name).map(|(info, ..)| info)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_write_runs_where_requests_are_read() {
        for (info, ..) in [COMMANDS, OF_ROUTERS, OF_SHARDS, OF_CONFIG_SERVERS].into_iter().flatten() {
            assert_eq!(runs(info.name), info.runs, "{}", info.name);
            // in a set of several members a write waits for messages of the others
            assert!(!info.takes_write_concern() || info.runs == Runs::Blocking, "{} writes", info.name);
        }
        assert_eq!(runs("nosuch"), Runs::Inline);
    }

    #[test]
    fn the_table_is_sorted_and_found() {
        for pair in COMMANDS.windows(2) {
            let (name, next) = (pair[0].0.name, pair[1].0.name);
            assert!(name < next, "{name} precedes {next}");
        }
        for command in COMMANDS {
            assert!(std::ptr::eq(find(command.0.name).unwrap(), command));
            assert!(!command.0.help.is_empty());
        }
        assert!(find("nosuch").is_none());
    }
}
