//! The one table of commands, in alphabetical order: what is known of each, and the function that runs it.

use arbor_protocol::metrics::Kind;
use arbor_protocol::{CommandInfo, Runs};

use crate::Result;
use crate::call::Call;
use crate::cmd::{admin, crud, ddl, diagnostics, repl, session};

/// A command's own code.
pub type Run = fn(&mut Call<'_>) -> Result<()>;

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
static COMMANDS: &[(CommandInfo, Run)] = &[
    (slow("abortTransaction", "Ends a transaction without its changes").writing().v1().lenient(), session::commit_transaction::abort),
    (read("aggregate", "Runs an aggregation pipeline").writing().v1(), crud::aggregate::run),
    (slow("appendOplogNote", "Writes a note into the oplog").admin().writing(), repl::append_oplog_note::run),
    (slow("applyOps", "Does what entries of an oplog say").writing(), repl::apply_ops::run),
    (quick("authenticate", "Access control is not in this build yet"), admin::sasl::run),
    (slow("beginTransaction", "Begins a transaction of this connection (TokuMX)"), session::begin_transaction::run),
    (quick("buildInfo", "Version and build of the server").v1().lenient(), diagnostics::build_info::run),
    (quick("buildinfo", "Old spelling of buildInfo").lenient(), diagnostics::build_info::run),
    (write("bulkWrite", "Inserts, updates and deletes over several collections").admin().v1(), crud::bulk_write::run),
    (slow("collMod", "Changes a collection or a view").writing().v1(), ddl::coll_mod::run),
    (slow("collStats", "Statistics of a collection"), diagnostics::coll_stats::run),
    (slow("collstats", "Old spelling of collStats"), diagnostics::coll_stats::run),
    (slow("commitTransaction", "Ends a transaction with its changes").writing().v1().lenient(), session::commit_transaction::commit),
    (slow("compact", "Gives space of a collection back to the file system"), admin::compact::run),
    (slow("configureFailPoint", "Test aid: makes commands fail").admin(), admin::configure_fail_point::run),
    (quick("connectionStatus", "Who is connected").v1().lenient(), diagnostics::connection_status::run),
    (slow("convertToCapped", "Makes a collection a capped one").writing().lenient(), ddl::convert_to_capped::run),
    (read("count", "Counts documents").v1(), crud::count::run),
    (slow("create", "Creates a collection").writing().v1(), ddl::create::run),
    (slow("createIndexes", "Builds indexes").writing().v1(), ddl::create_indexes::run),
    (quick("currentOp", "Running operations").admin().lenient(), diagnostics::current_op::run),
    (slow("dataSize", "Size of a collection's documents").lenient(), diagnostics::data_size::run),
    (slow("dbHash", "Digests of the collections' documents").lenient(), diagnostics::db_hash::run),
    (slow("dbStats", "Statistics of a database"), diagnostics::db_stats::run),
    (slow("dbstats", "Old spelling of dbStats"), diagnostics::db_stats::run),
    (write("delete", "Deletes documents").counted_as(Kind::Delete).v1(), crud::delete::run),
    (slow("deleteIndexes", "Old spelling of dropIndexes").writing(), ddl::drop_indexes::run),
    (read("distinct", "Distinct values of a field"), crud::distinct::run),
    (slow("drop", "Drops a collection").writing().v1(), ddl::drop::run),
    (slow("dropDatabase", "Drops a database").writing().v1(), ddl::drop_database::run),
    (slow("dropIndexes", "Drops indexes").writing().v1(), ddl::drop_indexes::run),
    (quick("endSessions", "Ends sessions").at(Runs::Blocking).v1(), session::end_sessions::run),
    (slow("explain", "Explains how a command would run").v1(), crud::explain::run),
    (read("find", "Finds documents").at(Runs::InlineById).counted_as(Kind::Query).v1(), crud::find::run),
    (write("findAndModify", "Changes one document and answers it").v1(), crud::find_and_modify::run),
    (write("findandmodify", "Old spelling of findAndModify"), crud::find_and_modify::run),
    (slow("fsync", "Makes everything durable with a checkpoint").admin().lenient(), admin::fsync::run),
    (slow("fsyncUnlock", "Undoes fsync with lock").admin().lenient(), admin::fsync::unlock),
    (slow("getClusterParameter", "Settings of the whole replica set").admin(), admin::cluster_parameter::get),
    (quick("getCmdLineOpts", "How the server was started").admin().lenient(), diagnostics::get_cmd_line_opts::run),
    (quick("getDefaultRWConcern", "Cluster-wide defaults").admin(), repl::set_default_rw_concern::get),
    (quick("getFreeMonitoringStatus", "Always disabled").admin().lenient(), diagnostics::get_free_monitoring_status::run),
    (slow("getLastError", "What the last write without an answer did").lenient(), crud::get_last_error::run),
    (quick("getLog", "Last lines of the log").admin().lenient(), diagnostics::get_log::run),
    (read("getMore", "Next batch of a cursor").counted_as(Kind::GetMore).v1(), crud::get_more::run),
    (quick("getParameter", "Server parameters").admin(), admin::get_parameter::run),
    (slow("getlasterror", "Old spelling of getLastError").lenient(), crud::get_last_error::run),
    (quick("hello", "What the server is").v1().lenient(), diagnostics::hello::run),
    (quick("hostInfo", "The machine"), diagnostics::host_info::run),
    (write("insert", "Inserts documents").counted_as(Kind::Insert).v1(), crud::insert::run),
    (quick("isMaster", "Old spelling of hello").lenient(), diagnostics::hello::run_legacy),
    (quick("ismaster", "Old spelling of hello").lenient(), diagnostics::hello::run_legacy),
    (slow("killAllSessions", "Kills all sessions"), session::kill_sessions::run_all),
    (slow("killAllSessionsByPattern", "Kills the sessions of a pattern"), session::kill_sessions::run_by_pattern),
    (slow("killCursors", "Closes cursors").v1(), crud::kill_cursors::run),
    (quick("killOp", "Interrupts an operation").admin().lenient(), admin::kill_op::run),
    (slow("killSessions", "Kills sessions"), session::kill_sessions::run),
    (slow("listCollections", "Collections of a database").v1(), ddl::list_collections::run),
    (quick("listCommands", "This table").lenient(), diagnostics::list_commands::run),
    (slow("listDatabases", "Databases").admin().v1(), ddl::list_databases::run),
    (slow("listIndexes", "Indexes of a collection").v1(), ddl::list_indexes::run),
    (slow("logRotate", "Begins a new log file").admin().lenient(), admin::log_rotate::run),
    (quick("logout", "Access control is not in this build yet"), admin::sasl::logout),
    (quick("ping", "Answers").v1().lenient(), diagnostics::ping::run),
    (quick("planCacheClear", "Forgets which plans won").lenient(), admin::plan_cache_clear::run),
    (quick("planCacheListFilters", "Index filters: there are none").lenient(), admin::plan_cache_clear::list_filters),
    (quick("profile", "Threshold of the slow query log"), admin::profile::run),
    (slow("reIndex", "Rebuilds the indexes of a collection").writing().lenient(), ddl::re_index::run),
    (quick("refreshSessions", "Keeps sessions alive").v1(), session::refresh_sessions::run),
    (slow("renameCollection", "Renames a collection").admin().writing(), ddl::rename_collection::run),
    (quick("replSetAbortPrimaryCatchUp", "Fails: a set of one member has no catch-up").admin(), repl::repl_set_others::abort_catch_up),
    (slow("replSetFreeze", "Keeps a member from becoming primary").admin().lenient(), repl::repl_set_freeze::run),
    (quick("replSetGetConfig", "Configuration of the replica set").admin().lenient(), repl::repl_set_get_config::run),
    (quick("replSetGetRBID", "Number of the last rollback").admin().lenient(), repl::repl_set_others::rollback_id),
    (quick("replSetGetStatus", "Members of the replica set").admin().lenient(), repl::repl_set_get_status::run),
    (slow("replSetInitiate", "Makes a replica set").admin(), repl::repl_set_initiate::run),
    (quick("replSetMaintenance", "Maintenance mode, which a primary does not have").admin().lenient(), repl::repl_set_others::maintenance),
    (slow("replSetReconfig", "Changes the configuration of the replica set").admin(), repl::repl_set_reconfig::run),
    (slow("replSetResizeOplog", "How much of the oplog is kept").admin(), repl::repl_set_resize_oplog::run),
    (slow("replSetStepDown", "The primary leaves its office for a time").admin().lenient(), repl::repl_set_step_down::run),
    (slow("replSetStepUp", "Takes the office of primary again").admin(), repl::repl_set_others::step_up),
    (quick("replSetSyncFrom", "From whom to copy; a primary does not").admin().lenient(), repl::repl_set_others::sync_from),
    (slow("replSetTestEgress", "Whether a member can be reached").admin(), repl::repl_set_others::test_egress),
    (quick("rolesInfo", "Roles: none, access control is not in this build yet"), admin::roles_info::run),
    (slow("rollbackTransaction", "Undoes beginTransaction (TokuMX)"), session::commit_transaction::roll_back),
    (quick("saslContinue", "Access control is not in this build yet"), admin::sasl::run),
    (quick("saslStart", "Access control is not in this build yet"), admin::sasl::run),
    (slow("serverStatus", "Statistics of the server").lenient(), diagnostics::server_status::run),
    (slow("setClusterParameter", "Changes settings of the whole replica set").admin().writing(), admin::cluster_parameter::set),
    (slow("setDefaultRWConcern", "Sets the default read and write concern").admin().writing(), repl::set_default_rw_concern::set),
    (quick("setFeatureCompatibilityVersion", "Fixed at 7.0").admin().writing(), admin::set_feature_compatibility_version::run),
    (slow("setParameter", "Sets a server parameter").admin(), admin::set_parameter::run),
    (quick("showLiveTransactions", "Open transactions (TokuMX)"), session::show_live_transactions::run),
    (slow("shutdown", "Stops the server").admin().lenient(), admin::shutdown::run),
    (quick("startSession", "Makes a session id").lenient(), session::start_session::run),
    (slow("top", "Use per collection").admin().lenient(), diagnostics::top::run),
    (write("update", "Updates documents").counted_as(Kind::Update).v1(), crud::update::run),
    (quick("usersInfo", "Users: none, access control is not in this build yet"), admin::users_info::run),
    (slow("validate", "Verifies a collection and its indexes").lenient(), diagnostics::validate::run),
    (quick("whatsmyuri", "The client's address").lenient(), diagnostics::whatsmyuri::run),
];

/// Returns all commands, in the order of the table.
pub fn commands() -> impl Iterator<Item = &'static CommandInfo> {
    COMMANDS.iter().map(|(info, _)| info)
}

/// Returns the command of this name, and its code.
pub fn find(name: &str) -> Option<&'static (CommandInfo, Run)> {
    COMMANDS.binary_search_by(|(info, _)| info.name.cmp(name)).ok().and_then(|index| COMMANDS.get(index))
}

/// Returns what is known of the command of this name.
pub fn info(name: &str) -> Option<&'static CommandInfo> {
    find(name).map(|(info, _)| info)
}

#[cfg(test)]
mod tests {
    use super::*;

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
