//! The one table of commands, in alphabetical order: what is known of each, and the function that runs it.

use crate::Result;
use crate::call::Call;
use crate::cmd;
use crate::command_info::{CommandInfo, Runs};
use crate::metrics::Kind;

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
    (slow("abortTransaction", "Ends a transaction without its changes").writing().v1(), cmd::commit_transaction::abort),
    (read("aggregate", "Runs an aggregation pipeline").writing().v1(), cmd::aggregate::run),
    (slow("appendOplogNote", "Writes a note into the oplog").admin().writing(), cmd::append_oplog_note::run),
    (slow("applyOps", "Does what entries of an oplog say").writing(), cmd::apply_ops::run),
    (quick("authenticate", "Access control is not in this build yet"), cmd::sasl::run),
    (slow("beginTransaction", "Begins a transaction of this connection (TokuMX)"), cmd::begin_transaction::run),
    (quick("buildInfo", "Version and build of the server").v1(), cmd::build_info::run),
    (quick("buildinfo", "Old spelling of buildInfo"), cmd::build_info::run),
    (write("bulkWrite", "Inserts, updates and deletes over several collections").admin().v1(), cmd::bulk_write::run),
    (slow("collMod", "Changes a collection or a view").writing().v1(), cmd::coll_mod::run),
    (slow("collStats", "Figures of a collection"), cmd::coll_stats::run),
    (slow("collstats", "Old spelling of collStats"), cmd::coll_stats::run),
    (slow("commitTransaction", "Ends a transaction with its changes").writing().v1(), cmd::commit_transaction::commit),
    (slow("compact", "Gives space of a collection back to the file system"), cmd::compact::run),
    (slow("configureFailPoint", "Test aid: makes commands fail").admin(), cmd::configure_fail_point::run),
    (quick("connectionStatus", "Who is connected").v1(), cmd::connection_status::run),
    (slow("convertToCapped", "Makes a collection a capped one").writing(), cmd::convert_to_capped::run),
    (read("count", "Counts documents").v1(), cmd::count::run),
    (slow("create", "Creates a collection").writing().v1(), cmd::create::run),
    (slow("createIndexes", "Builds indexes").writing().v1(), cmd::create_indexes::run),
    (quick("currentOp", "Running operations").admin(), cmd::current_op::run),
    (slow("dataSize", "Size of a collection's documents"), cmd::data_size::run),
    (slow("dbHash", "Digests of the collections' documents"), cmd::db_hash::run),
    (slow("dbStats", "Figures of a database"), cmd::db_stats::run),
    (slow("dbstats", "Old spelling of dbStats"), cmd::db_stats::run),
    (write("delete", "Deletes documents").counted_as(Kind::Delete).v1(), cmd::delete::run),
    (slow("deleteIndexes", "Old spelling of dropIndexes").writing(), cmd::drop_indexes::run),
    (read("distinct", "Distinct values of a field"), cmd::distinct::run),
    (slow("drop", "Drops a collection").writing().v1(), cmd::drop::run),
    (slow("dropDatabase", "Drops a database").writing().v1(), cmd::drop_database::run),
    (slow("dropIndexes", "Drops indexes").writing().v1(), cmd::drop_indexes::run),
    (quick("endSessions", "Ends sessions").at(Runs::Blocking).v1(), cmd::end_sessions::run),
    (slow("explain", "Explains how a command would run").v1(), cmd::explain::run),
    (read("find", "Finds documents").at(Runs::InlineById).counted_as(Kind::Query).v1(), cmd::find::run),
    (write("findAndModify", "Changes one document and answers it").v1(), cmd::find_and_modify::run),
    (write("findandmodify", "Old spelling of findAndModify"), cmd::find_and_modify::run),
    (slow("fsync", "Makes everything durable with a checkpoint").admin(), cmd::fsync::run),
    (slow("fsyncUnlock", "Undoes fsync with lock").admin(), cmd::fsync::unlock),
    (slow("getClusterParameter", "Settings of the whole replica set").admin(), cmd::cluster_parameter::get),
    (quick("getCmdLineOpts", "How the server was started").admin(), cmd::get_cmd_line_opts::run),
    (quick("getDefaultRWConcern", "Cluster-wide defaults").admin(), cmd::set_default_rw_concern::get),
    (quick("getFreeMonitoringStatus", "Always disabled").admin(), cmd::get_free_monitoring_status::run),
    (slow("getLastError", "What the last write without an answer did"), cmd::get_last_error::run),
    (quick("getLog", "Last lines of the log").admin(), cmd::get_log::run),
    (read("getMore", "Next batch of a cursor").counted_as(Kind::GetMore).v1(), cmd::get_more::run),
    (quick("getParameter", "Server parameters").admin(), cmd::get_parameter::run),
    (slow("getlasterror", "Old spelling of getLastError"), cmd::get_last_error::run),
    (quick("hello", "What the server is").v1(), cmd::hello::run),
    (quick("hostInfo", "The machine"), cmd::host_info::run),
    (write("insert", "Inserts documents").counted_as(Kind::Insert).v1(), cmd::insert::run),
    (quick("isMaster", "Old spelling of hello"), cmd::hello::run_legacy),
    (quick("ismaster", "Old spelling of hello"), cmd::hello::run_legacy),
    (slow("killAllSessions", "Kills all sessions"), cmd::kill_sessions::run_all),
    (slow("killAllSessionsByPattern", "Kills the sessions of a pattern"), cmd::kill_sessions::run_by_pattern),
    (slow("killCursors", "Closes cursors").v1(), cmd::kill_cursors::run),
    (quick("killOp", "Interrupts an operation").admin(), cmd::kill_op::run),
    (slow("killSessions", "Kills sessions"), cmd::kill_sessions::run),
    (slow("listCollections", "Collections of a database").v1(), cmd::list_collections::run),
    (quick("listCommands", "This table"), cmd::list_commands::run),
    (slow("listDatabases", "Databases").admin().v1(), cmd::list_databases::run),
    (slow("listIndexes", "Indexes of a collection").v1(), cmd::list_indexes::run),
    (slow("logRotate", "Begins a new log file").admin(), cmd::log_rotate::run),
    (quick("logout", "Access control is not in this build yet"), cmd::sasl::logout),
    (quick("ping", "Answers").v1(), cmd::ping::run),
    (quick("planCacheClear", "Forgets which plans won"), cmd::plan_cache_clear::run),
    (quick("planCacheListFilters", "Index filters: there are none"), cmd::plan_cache_clear::list_filters),
    (quick("profile", "Threshold of the slow query log"), cmd::profile::run),
    (slow("reIndex", "Builds the indexes of a collection anew").writing(), cmd::re_index::run),
    (quick("refreshSessions", "Keeps sessions alive").v1(), cmd::refresh_sessions::run),
    (slow("renameCollection", "Renames a collection").admin().writing(), cmd::rename_collection::run),
    (quick("replSetAbortPrimaryCatchUp", "There is nobody to catch up with").admin(), cmd::repl_set_others::abort_catch_up),
    (slow("replSetFreeze", "Keeps a member from becoming primary").admin(), cmd::repl_set_freeze::run),
    (quick("replSetGetConfig", "Configuration of the replica set").admin(), cmd::repl_set_get_config::run),
    (quick("replSetGetRBID", "Number of the last rollback").admin(), cmd::repl_set_others::rollback_id),
    (quick("replSetGetStatus", "Members of the replica set").admin(), cmd::repl_set_get_status::run),
    (slow("replSetInitiate", "Makes a replica set").admin(), cmd::repl_set_initiate::run),
    (quick("replSetMaintenance", "Maintenance mode, which a primary does not have").admin(), cmd::repl_set_others::maintenance),
    (slow("replSetReconfig", "Changes the configuration of the replica set").admin(), cmd::repl_set_reconfig::run),
    (slow("replSetResizeOplog", "How much of the oplog is kept").admin(), cmd::repl_set_resize_oplog::run),
    (slow("replSetStepDown", "The primary leaves its office for a time").admin(), cmd::repl_set_step_down::run),
    (slow("replSetStepUp", "Takes the office of primary again").admin(), cmd::repl_set_others::step_up),
    (quick("replSetSyncFrom", "From whom to copy; a primary does not").admin(), cmd::repl_set_others::sync_from),
    (slow("replSetTestEgress", "Whether a member can be reached").admin(), cmd::repl_set_others::test_egress),
    (quick("rolesInfo", "Roles: none, access control is not in this build yet"), cmd::roles_info::run),
    (slow("rollbackTransaction", "Undoes beginTransaction (TokuMX)"), cmd::commit_transaction::roll_back),
    (quick("saslContinue", "Access control is not in this build yet"), cmd::sasl::run),
    (quick("saslStart", "Access control is not in this build yet"), cmd::sasl::run),
    (slow("serverStatus", "Figures of the server"), cmd::server_status::run),
    (slow("setClusterParameter", "Changes settings of the whole replica set").admin().writing(), cmd::cluster_parameter::set),
    (slow("setDefaultRWConcern", "Sets the default read and write concern").admin().writing(), cmd::set_default_rw_concern::set),
    (quick("setFeatureCompatibilityVersion", "Fixed at 7.0").admin().writing(), cmd::set_feature_compatibility_version::run),
    (slow("setParameter", "Sets a server parameter").admin(), cmd::set_parameter::run),
    (quick("showLiveTransactions", "Open transactions (TokuMX)"), cmd::show_live_transactions::run),
    (slow("shutdown", "Stops the server").admin(), cmd::shutdown::run),
    (quick("startSession", "Makes a session id"), cmd::start_session::run),
    (slow("top", "Use per collection").admin(), cmd::top::run),
    (write("update", "Updates documents").counted_as(Kind::Update).v1(), cmd::update::run),
    (quick("usersInfo", "Users: none, access control is not in this build yet"), cmd::users_info::run),
    (slow("validate", "Verifies a collection and its indexes"), cmd::validate::run),
    (quick("whatsmyuri", "The client's address"), cmd::whatsmyuri::run),
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
            assert!(name < next, "{name} stands before {next}");
        }
        for command in COMMANDS {
            assert!(std::ptr::eq(find(command.0.name).unwrap(), command));
            assert!(!command.0.help.is_empty());
        }
        assert!(find("nosuch").is_none());
    }
}
