//! The one table of commands, in alphabetical order.

use crate::Result;
use crate::call::Call;
use crate::cmd;
use crate::metrics::{Class, Kind};
use crate::place::Place;

/// One command. Old spellings have a row of their own.
pub struct Row {
    pub name: &'static str,
    pub run: fn(&mut Call<'_>) -> Result<()>,
    pub place: Place,
    /// Only on the database `admin`.
    pub admin_only: bool,
    /// Takes a write concern.
    writes: bool,
    /// Part of API version 1.
    stable: bool,
    pub kind: Kind,
    pub class: Class,
    pub help: &'static str,
}

impl Row {
    pub fn takes_write_concern(&self) -> bool {
        self.writes
    }

    pub fn is_in_stable_api(&self) -> bool {
        self.stable
    }

    /// Place of this row in the table.
    pub fn index(&self) -> usize {
        ROWS.partition_point(|row| row.name < self.name)
    }
}

/// A command that is answered from memory.
const fn quick(name: &'static str, run: fn(&mut Call<'_>) -> Result<()>, help: &'static str) -> Row {
    let (kind, class) = (Kind::Command, Class::Command);
    Row { name, run, place: Place::Inline, admin_only: false, writes: false, stable: false, kind, class, help }
}

/// A command that may wait for a disk.
const fn slow(name: &'static str, run: fn(&mut Call<'_>) -> Result<()>, help: &'static str) -> Row {
    let row = quick(name, run, help);
    Row { place: Place::Blocking, ..row }
}

const fn read(name: &'static str, run: fn(&mut Call<'_>) -> Result<()>, help: &'static str) -> Row {
    let row = slow(name, run, help);
    Row { class: Class::Read, ..row }
}

const fn write(name: &'static str, run: fn(&mut Call<'_>) -> Result<()>, help: &'static str) -> Row {
    let row = slow(name, run, help);
    Row { class: Class::Write, writes: true, ..row }
}

impl Row {
    const fn admin(self) -> Row {
        Row { admin_only: true, ..self }
    }

    const fn v1(self) -> Row {
        Row { stable: true, ..self }
    }

    const fn writing(self) -> Row {
        Row { writes: true, ..self }
    }

    const fn counted_as(self, kind: Kind) -> Row {
        Row { kind, ..self }
    }

    const fn at(self, place: Place) -> Row {
        Row { place, ..self }
    }
}

#[rustfmt::skip]
static ROWS: &[Row] = &[
    slow("abortTransaction", cmd::commit_transaction::abort, "Ends a transaction without its changes").writing().v1(),
    read("aggregate", cmd::aggregate::run, "Runs an aggregation pipeline").writing().v1(),
    slow("appendOplogNote", cmd::append_oplog_note::run, "Writes a note into the oplog").admin().writing(),
    slow("applyOps", cmd::apply_ops::run, "Does what entries of an oplog say").writing(),
    quick("authenticate", cmd::sasl::run, "Access control is not in this build yet"),
    slow("beginTransaction", cmd::begin_transaction::run, "Begins a transaction of this connection (TokuMX)"),
    quick("buildInfo", cmd::build_info::run, "Version and build of the server").v1(),
    quick("buildinfo", cmd::build_info::run, "Old spelling of buildInfo"),
    write("bulkWrite", cmd::bulk_write::run, "Inserts, updates and deletes over several collections").admin().v1(),
    slow("collMod", cmd::coll_mod::run, "Changes a collection or a view").writing().v1(),
    slow("collStats", cmd::coll_stats::run, "Figures of a collection"),
    slow("collstats", cmd::coll_stats::run, "Old spelling of collStats"),
    slow("commitTransaction", cmd::commit_transaction::commit, "Ends a transaction with its changes").writing().v1(),
    slow("compact", cmd::compact::run, "Gives space of a collection back to the file system"),
    slow("configureFailPoint", cmd::configure_fail_point::run, "Test aid: makes commands fail").admin(),
    quick("connectionStatus", cmd::connection_status::run, "Who is connected").v1(),
    slow("convertToCapped", cmd::convert_to_capped::run, "Makes a collection a capped one").writing(),
    read("count", cmd::count::run, "Counts documents").v1(),
    slow("create", cmd::create::run, "Creates a collection").writing().v1(),
    slow("createIndexes", cmd::create_indexes::run, "Builds indexes").writing().v1(),
    quick("currentOp", cmd::current_op::run, "Running operations").admin(),
    slow("dataSize", cmd::data_size::run, "Size of a collection's documents"),
    slow("dbHash", cmd::db_hash::run, "Digests of the collections' documents"),
    slow("dbStats", cmd::db_stats::run, "Figures of a database"),
    slow("dbstats", cmd::db_stats::run, "Old spelling of dbStats"),
    write("delete", cmd::delete::run, "Deletes documents").counted_as(Kind::Delete).v1(),
    slow("deleteIndexes", cmd::drop_indexes::run, "Old spelling of dropIndexes").writing(),
    read("distinct", cmd::distinct::run, "Distinct values of a field"),
    slow("drop", cmd::drop::run, "Drops a collection").writing().v1(),
    slow("dropDatabase", cmd::drop_database::run, "Drops a database").writing().v1(),
    slow("dropIndexes", cmd::drop_indexes::run, "Drops indexes").writing().v1(),
    quick("endSessions", cmd::end_sessions::run, "Ends sessions").at(Place::Blocking).v1(),
    slow("explain", cmd::explain::run, "Explains how a command would run").v1(),
    read("find", cmd::find::run, "Finds documents").at(Place::InlineById).counted_as(Kind::Query).v1(),
    write("findAndModify", cmd::find_and_modify::run, "Changes one document and answers it").v1(),
    write("findandmodify", cmd::find_and_modify::run, "Old spelling of findAndModify"),
    slow("fsync", cmd::fsync::run, "Makes everything durable with a checkpoint").admin(),
    slow("fsyncUnlock", cmd::fsync::unlock, "Undoes fsync with lock").admin(),
    slow("getClusterParameter", cmd::cluster_parameter::get, "Settings of the whole replica set").admin(),
    quick("getCmdLineOpts", cmd::get_cmd_line_opts::run, "How the server was started").admin(),
    quick("getDefaultRWConcern", cmd::set_default_rw_concern::get, "Cluster-wide defaults").admin(),
    quick("getFreeMonitoringStatus", cmd::get_free_monitoring_status::run, "Always disabled").admin(),
    slow("getLastError", cmd::get_last_error::run, "What the last write without an answer did"),
    quick("getLog", cmd::get_log::run, "Last lines of the log").admin(),
    read("getMore", cmd::get_more::run, "Next batch of a cursor").counted_as(Kind::GetMore).v1(),
    quick("getParameter", cmd::get_parameter::run, "Server parameters").admin(),
    slow("getlasterror", cmd::get_last_error::run, "Old spelling of getLastError"),
    quick("hello", cmd::hello::run, "What the server is").v1(),
    quick("hostInfo", cmd::host_info::run, "The machine"),
    write("insert", cmd::insert::run, "Inserts documents").counted_as(Kind::Insert).v1(),
    quick("isMaster", cmd::hello::run_legacy, "Old spelling of hello"),
    quick("ismaster", cmd::hello::run_legacy, "Old spelling of hello"),
    slow("killAllSessions", cmd::kill_sessions::run_all, "Kills all sessions"),
    slow("killAllSessionsByPattern", cmd::kill_sessions::run_by_pattern, "Kills the sessions of a pattern"),
    slow("killCursors", cmd::kill_cursors::run, "Closes cursors").v1(),
    quick("killOp", cmd::kill_op::run, "Interrupts an operation").admin(),
    slow("killSessions", cmd::kill_sessions::run, "Kills sessions"),
    slow("listCollections", cmd::list_collections::run, "Collections of a database").v1(),
    quick("listCommands", cmd::list_commands::run, "This table"),
    slow("listDatabases", cmd::list_databases::run, "Databases").admin().v1(),
    slow("listIndexes", cmd::list_indexes::run, "Indexes of a collection").v1(),
    slow("logRotate", cmd::log_rotate::run, "Begins a new log file").admin(),
    quick("logout", cmd::sasl::logout, "Access control is not in this build yet"),
    quick("ping", cmd::ping::run, "Answers").v1(),
    quick("planCacheClear", cmd::plan_cache_clear::run, "Forgets which plans won"),
    quick("planCacheListFilters", cmd::plan_cache_clear::list_filters, "Index filters: there are none"),
    quick("profile", cmd::profile::run, "Threshold of the slow query log"),
    slow("reIndex", cmd::re_index::run, "Builds the indexes of a collection anew").writing(),
    quick("refreshSessions", cmd::refresh_sessions::run, "Keeps sessions alive").v1(),
    slow("renameCollection", cmd::rename_collection::run, "Renames a collection").admin().writing(),
    quick("replSetAbortPrimaryCatchUp", cmd::repl_set_others::abort_catch_up, "There is nobody to catch up with").admin(),
    slow("replSetFreeze", cmd::repl_set_freeze::run, "Keeps a member from becoming primary").admin(),
    quick("replSetGetConfig", cmd::repl_set_get_config::run, "Configuration of the replica set").admin(),
    quick("replSetGetRBID", cmd::repl_set_others::rollback_id, "Number of the last rollback").admin(),
    quick("replSetGetStatus", cmd::repl_set_get_status::run, "Members of the replica set").admin(),
    slow("replSetInitiate", cmd::repl_set_initiate::run, "Makes a replica set").admin(),
    quick("replSetMaintenance", cmd::repl_set_others::maintenance, "Maintenance mode, which a primary does not have").admin(),
    slow("replSetReconfig", cmd::repl_set_reconfig::run, "Changes the configuration of the replica set").admin(),
    slow("replSetResizeOplog", cmd::repl_set_resize_oplog::run, "How much of the oplog is kept").admin(),
    slow("replSetStepDown", cmd::repl_set_step_down::run, "The primary leaves its office for a time").admin(),
    slow("replSetStepUp", cmd::repl_set_others::step_up, "Takes the office of primary again").admin(),
    quick("replSetSyncFrom", cmd::repl_set_others::sync_from, "From whom to copy; a primary does not").admin(),
    slow("replSetTestEgress", cmd::repl_set_others::test_egress, "Whether a member can be reached").admin(),
    quick("rolesInfo", cmd::roles_info::run, "Roles: none, access control is not in this build yet"),
    slow("rollbackTransaction", cmd::commit_transaction::roll_back, "Undoes beginTransaction (TokuMX)"),
    quick("saslContinue", cmd::sasl::run, "Access control is not in this build yet"),
    quick("saslStart", cmd::sasl::run, "Access control is not in this build yet"),
    slow("serverStatus", cmd::server_status::run, "Figures of the server"),
    slow("setClusterParameter", cmd::cluster_parameter::set, "Changes settings of the whole replica set").admin().writing(),
    slow("setDefaultRWConcern", cmd::set_default_rw_concern::set, "Sets the default read and write concern").admin().writing(),
    quick("setFeatureCompatibilityVersion", cmd::set_feature_compatibility_version::run, "Fixed at 7.0").admin().writing(),
    slow("setParameter", cmd::set_parameter::run, "Sets a server parameter").admin(),
    quick("showLiveTransactions", cmd::show_live_transactions::run, "Open transactions (TokuMX)"),
    slow("shutdown", cmd::shutdown::run, "Stops the server").admin(),
    quick("startSession", cmd::start_session::run, "Makes a session id"),
    slow("top", cmd::top::run, "Use per collection").admin(),
    write("update", cmd::update::run, "Updates documents").counted_as(Kind::Update).v1(),
    quick("usersInfo", cmd::users_info::run, "Users: none, access control is not in this build yet"),
    slow("validate", cmd::validate::run, "Verifies a collection and its indexes"),
    quick("whatsmyuri", cmd::whatsmyuri::run, "The client's address"),
];

pub fn rows() -> &'static [Row] {
    ROWS
}

pub fn find(name: &str) -> Option<&'static Row> {
    ROWS.binary_search_by(|row| row.name.cmp(name)).ok().and_then(|index| ROWS.get(index))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted_and_found() {
        for pair in ROWS.windows(2) {
            assert!(pair[0].name < pair[1].name, "{} stands before {}", pair[0].name, pair[1].name);
        }
        for (index, row) in ROWS.iter().enumerate() {
            assert_eq!(row.index(), index);
            assert!(std::ptr::eq(find(row.name).unwrap(), row));
            assert!(!row.help.is_empty());
        }
        assert!(find("nosuch").is_none());
    }
}
