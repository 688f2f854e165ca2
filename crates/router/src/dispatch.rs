//! Which requests are answered where.

use std::collections::HashSet;
use std::sync::Arc;

use arbor_auth::{Action, Target};
use arbor_bson::{ArrayBuf, Code, DocBuf, ValueRef};
use arbor_command::{Answer, Commands, Error, Result, Routed};

use crate::catalog::{Routing, versioned};
use crate::shard::Shard;
use crate::transactions::{Pinned, cursor_of_get_more};
use crate::{Request, Router, fields, on_behalf, snapshot};

/// Attempts of a read at a time that the router chooses.
const SNAPSHOT_ATTEMPTS: u32 = 8;

/// Commands about the server itself.
const LOCAL: &[&str] = &[
    "authenticate",
    "buildInfo",
    "buildinfo",
    "configureFailPoint",
    "connPoolStats",
    "connectionStatus",
    "endSessions",
    "features",
    "getCmdLineOpts",
    "getDiagnosticData",
    "getFreeMonitoringStatus",
    "getLog",
    "getParameter",
    "getnonce",
    "hello",
    "hostInfo",
    "invalidateUserCache",
    "isMaster",
    "ismaster",
    "killAllSessions",
    "killAllSessionsByPattern",
    "killSessions",
    "listCommands",
    "logRotate",
    "logout",
    "ping",
    "refreshSessions",
    "rotateCertificates",
    "saslContinue",
    "saslStart",
    "serverStatus",
    "setParameter",
    "shutdown",
    "startSession",
    "whatsmyuri",
];

/// Commands on one collection, or on one database, that the shard with it runs as they are, if the collection is not sharded.
const FORWARDED: &[&str] = &[
    "cleanupStructuredEncryptionData",
    "collStats",
    "collstats",
    "compact",
    "compactStructuredEncryptionData",
    "convertToCapped",
    "createSearchIndexes",
    "dbHash",
    "dropSearchIndex",
    "filemd5",
    "listCollections",
    "listIndexes",
    "planCacheClear",
    "planCacheClearFilters",
    "planCacheListFilters",
    "planCacheSetFilter",
    "profile",
    "reIndex",
    "setIndexCommitQuorum",
    "updateSearchIndex",
    "validate",
];

/// Commands about users and defaults of the cluster, which are on the config servers.
const OF_CONFIG: &[&str] = &[
    "createRole",
    "createUser",
    "dropAllRolesFromDatabase",
    "dropAllUsersFromDatabase",
    "dropRole",
    "dropUser",
    "getClusterParameter",
    "getDefaultRWConcern",
    "grantPrivilegesToRole",
    "grantRolesToRole",
    "grantRolesToUser",
    "revokePrivilegesFromRole",
    "revokeRolesFromRole",
    "revokeRolesFromUser",
    "rolesInfo",
    "setDefaultRWConcern",
    "updateRole",
    "updateUser",
    "usersInfo",
];

/// Commands that MongoDB's router does not know either.
const OF_SERVERS: &[&str] = &[
    "applyOps",
    "autoCompact",
    "lockInfo",
    "replSetFreeze",
    "replSetGetConfig",
    "replSetGetRBID",
    "replSetHeartbeat",
    "replSetInitiate",
    "replSetMaintenance",
    "replSetReconfig",
    "replSetResizeOplog",
    "replSetStepDown",
    "replSetStepUp",
    "replSetSyncFrom",
    "replSetAbortPrimaryCatchUp",
    "top",
];

/// Commands that all members of the cluster run.
const OF_ALL: &[&str] = &["fsync", "fsyncUnlock", "setClusterParameter", "setFeatureCompatibilityVersion"];

/// Attempts of a read whose name becomes a view.
pub(crate) const VIEW_ATTEMPTS: u32 = 5;

pub(crate) fn is_view(error: &Error) -> bool {
    error.code == Code::COMMAND_ON_SHARDED_VIEW_NOT_SUPPORTED_ON_MONGOD
}

impl Router {
    pub(crate) fn dispatch(&self, server: &Commands, routed: &Routed<'_>) -> Result<Answer> {
        let name = routed.info.name;
        if LOCAL.contains(&name) || routed.db == "local" {
            return Ok(Answer::Local);
        }
        let named = on_behalf::named(routed);
        let named = named.as_ref().map(|body| Routed { body: body.as_doc(), ..*routed });
        let routed = named.as_ref().unwrap_or(routed);
        if !snapshot::lacks_time(routed) {
            return self.run_request(server, routed);
        }
        let mut attempts = 0;
        loop {
            let (body, time) = snapshot::at_present(routed, &self.catalog.clock);
            let answer = self.run_request(server, &Routed { body: body.as_doc(), ..*routed });
            match answer {
                // a range has moved since then
                Err(error) if snapshot::is_too_old(&error) && attempts < SNAPSHOT_ATTEMPTS => {
                    routed.interrupt.check()?;
                    attempts += 1;
                }
                answer => return Ok(snapshot::with_time(answer?, name, time)),
            }
        }
    }

    fn run_request(&self, server: &Commands, routed: &Routed<'_>) -> Result<Answer> {
        let request = Request { router: self, server, routed };
        let mut attempts = 0;
        let answer = loop {
            match request.answer(routed.info.name) {
                // the name was no view before, or another one is sharded now
                Err(error) if is_view(&error) && attempts < VIEW_ATTEMPTS => {
                    self.catalog.forget_no_views();
                    // it reads another collection, which was not sharded before
                    let other = error.details.as_ref().and_then(|details| fields::string(details.as_doc(), "ns"));
                    if let Some((other, (db, _))) = other.and_then(|other| Some((other, other.split_once('.')?))) {
                        self.catalog.forget(db, other);
                    }
                    attempts += 1;
                }
                answer => break answer,
            }
        };
        request.in_transaction(answer)
    }
}

impl Request<'_> {
    /// Completes the answer to a statement of a transaction; one that failed ends all parts of the transaction.
    fn in_transaction(&self, answer: Result<Answer>) -> Result<Answer> {
        let is_of_one = self.routed.generic.numbered.is_some_and(|numbered| numbered.is_transaction());
        if !is_of_one || ["commitTransaction", "abortTransaction"].contains(&self.routed.info.name) {
            return answer;
        }
        match answer {
            Ok(Answer::Reply(reply)) if reply.get("recoveryToken").is_none() => {
                let shard = self.router.transactions.recovery_shard(self.routed);
                let token = shard.map_or_else(DocBuf::new, |name| DocBuf::new().with("recoveryShardId", name.as_str()));
                Ok(Answer::Reply(reply.with("recoveryToken", &token)))
            }
            Err(error) => {
                self.router.transactions.fail(self.routed);
                self.abort_failed();
                Err(error)
            }
            other => other,
        }
    }

    fn answer(&self, name: &str) -> Result<Answer> {
        if let Some(table) = self.buckets()?
            && let Some(answer) = self.on_time_series(name, &table)?
        {
            return Ok(answer);
        }
        match name {
            "find" => self.find(),
            "aggregate" => self.aggregate(),
            "count" => self.count(),
            "distinct" => self.distinct(),
            "explain" => self.explain(),
            "insert" => self.insert(),
            "update" | "delete" => self.change(),
            "findAndModify" | "findandmodify" => self.find_and_modify(),
            "bulkWrite" => self.bulk_write(),
            "getMore" => self.get_more(),
            "killCursors" => self.kill_cursors(),
            "cloneCollectionAsCapped" => self.clone_as_capped(),
            "commitTransaction" | "abortTransaction" => self.end_transaction(),
            "collMod" | "create" | "createIndexes" | "dropIndexes" | "deleteIndexes" | "drop" | "dropDatabase"
            | "renameCollection" => self.define(name),
            "listDatabases" => self.list_databases(),
            "dataSize" => self.data_size(),
            "dbStats" | "dbstats" => self.database_statistics(),
            "isdbgrid" => {
                let host = arbor_protocol::process::host_name();
                Ok(Answer::Reply(DocBuf::new().with("isdbgrid", 1i32).with("hostname", host.as_str())))
            }
            "currentOp" => self.current_op(),
            "killOp" => self.kill_op(),
            "listCollections" => self.list_collections(),
            "analyzeShardKey" => self.analyze_shard_key(),
            "configureQueryAnalyzer" => self.configure_query_analyzer(),
            _ if FORWARDED.contains(&name) => self.forward(false),
            _ if OF_CONFIG.contains(&name) => {
                let config = self.catalog().config.clone();
                let reply = self.forward_to(&Routing::Config(config.clone()), &config);
                // even if it failed, a part may have been done
                self.server.accounts_changed();
                Ok(Answer::Reply(reply?))
            }
            _ if OF_ALL.contains(&name) => self.on_every_set(),
            "checkMetadataConsistency" => self.check_consistency(),
            "validateDBMetadata" => self.validate_metadata(),
            _ => match self.administer(name)? {
                Some(reply) => Ok(Answer::Reply(reply)),
                None if OF_SERVERS.contains(&name) => {
                    Err(Error::new(Code::COMMAND_NOT_FOUND, format!("no such command: '{name}'")))
                }
                None => {
                    let text = format!("{name} is not supported by the router");
                    Err(Error::new(Code::COMMAND_NOT_SUPPORTED, text))
                }
            },
        }
    }

    /// Returns the collection behind the command's name; of a command on a database, the empty string.
    pub(crate) fn collection(&self) -> Result<&str> {
        match self.body().first() {
            Some((_, ValueRef::String(name) | ValueRef::Symbol(name))) if name.is_empty() => {
                let text = format!("Invalid namespace specified '{}.'", self.routed.db);
                Err(Error::new(Code::INVALID_NAMESPACE, text))
            }
            Some((_, ValueRef::String(name) | ValueRef::Symbol(name))) => Ok(name),
            _ => Ok(""),
        }
    }

    pub(crate) fn namespace(&self) -> Result<String> {
        Ok(format!("{}.{}", self.routed.db, self.collection()?))
    }

    /// Sends the request as it is to the shard of an unsharded collection, or to the one shard that has all of a sharded one.
    pub(crate) fn forward(&self, create: bool) -> Result<Answer> {
        let namespace = self.namespace()?;
        let reply = self.with_routing(self.routed.db, &namespace, create, |routing| match routing {
            Routing::Unsharded(shard, _) | Routing::Config(shard) => self.forward_to(routing, shard),
            Routing::Sharded(table, database) => {
                let names: Vec<&str> = table.shards().collect();
                let any_will_do = ["listCollections", "listIndexes"].contains(&self.routed.info.name);
                let own = database.as_ref().map(|database| database.primary.as_str()).filter(|own| names.contains(own));
                match (names.as_slice(), own.or(names.first().copied())) {
                    ([only], _) => {
                        let only = self.catalog().shard(only, self.interrupt())?;
                        self.forward_to(routing, &self.by_preference(only)?)
                    }
                    (_, Some(one)) if any_will_do => {
                        self.forward_to(routing, &self.catalog().shard(one, self.interrupt())?)
                    }
                    _ => self.over_shards(table, routing),
                }
            }
        })?;
        Ok(Answer::Reply(reply))
    }

    pub(crate) fn forward_to(&self, routing: &Routing, shard: &Arc<Shard>) -> Result<DocBuf> {
        self.check_series(routing)?;
        let command = versioned(self.plain(), routing, &shard.name);
        let sequences = self.sequences();
        let sequences: Vec<(&str, &[DocBuf])> = sequences.iter().map(|(name, some)| (*name, some.as_slice())).collect();
        let reply = self.on_one(shard, self.routed.db, command, &sequences)?;
        self.router.transactions.keep_cursor(self.routed, shard, reply.as_doc());
        Ok(fields::passed(&reply))
    }

    fn get_more(&self) -> Result<Answer> {
        let Some(id) = cursor_of_get_more(self.body()) else { return Ok(Answer::Local) };
        let Some(Pinned { shard, owner }) = self.router.transactions.cursor(id) else { return Ok(Answer::Local) };
        if owner != on_behalf::digest(self.routed) {
            let text = format!("cursor id {id} was not created by the authenticated user");
            return Err(Error::new(Code::UNAUTHORIZED, text));
        }
        let reply = self.on_one(&shard, self.routed.db, self.plain(), &[]);
        let ended = match &reply {
            Ok(reply) => fields::document(reply.as_doc(), "cursor").is_none_or(|cursor| fields::int(cursor, "id") == 0),
            Err(error) => error.code == Code::CURSOR_NOT_FOUND,
        };
        if ended {
            self.router.transactions.forget_cursor(id);
        }
        Ok(Answer::Reply(fields::passed(&reply?)))
    }

    fn kill_cursors(&self) -> Result<Answer> {
        let Some(ids) = fields::array(self.body(), "cursors") else { return Ok(Answer::Local) };
        let ids: Vec<i64> =
            ids.iter().filter_map(|id| if let ValueRef::Int64(id) = id { Some(id) } else { None }).collect();
        let pinned: Vec<(i64, Pinned)> =
            ids.iter().filter_map(|id| self.router.transactions.cursor(*id).map(|pinned| (*id, pinned))).collect();
        if pinned.is_empty() {
            return Ok(Answer::Local);
        }
        let of_others = |(_, pinned): &(i64, Pinned)| pinned.owner != on_behalf::digest(self.routed);
        if pinned.iter().any(of_others) && !self.permits(Target::Cluster, Action::KillAnyCursor) {
            return Err(Error::new(Code::UNAUTHORIZED, "not authorized on the cluster to execute killAnyCursor"));
        }
        let (mut killed, mut not_found) = (ArrayBuf::new(), ArrayBuf::new());
        for id in ids {
            let mut was_killed = false;
            if let Some((_, Pinned { shard, .. })) = pinned.iter().find(|(pinned, _)| *pinned == id) {
                let cursors: ArrayBuf = std::iter::once(id).collect();
                let command = DocBuf::new().with("killCursors", self.collection()?).with("cursors", &cursors);
                let reply = shard.call(self.routed.db, &command, self.interrupt())?;
                was_killed = fields::array(reply.as_doc(), "cursorsKilled").is_some_and(|killed| !killed.is_empty());
                self.router.transactions.forget_cursor(id);
            } else {
                was_killed |= self.server.database.cursors.kill(id, None) == arbor_query::Killed::Killed;
            }
            if was_killed {
                killed.push(id)
            } else {
                not_found.push(id)
            };
        }
        let none = ArrayBuf::new();
        let reply = DocBuf::new().with("cursorsKilled", &killed).with("cursorsNotFound", &not_found);
        Ok(Answer::Reply(reply.with("cursorsAlive", &none).with("cursorsUnknown", &none)))
    }

    /// Runs a command on the config servers and then, if they have accepted it, on all shards.
    fn on_every_set(&self) -> Result<Answer> {
        let reply = self.catalog().config.call(self.routed.db, &self.plain(), self.interrupt())?;
        for shard in self.catalog().refresh_shards(self.interrupt())? {
            shard.call(self.routed.db, &self.plain(), self.interrupt())?;
        }
        Ok(Answer::Reply(fields::passed(&reply)))
    }

    /// Each shard has the definitions of its collections; those of several shards are named once.
    fn validate_metadata(&self) -> Result<Answer> {
        let commands = self.catalog().shards(self.interrupt())?.into_iter().map(|shard| (shard, self.plain()));
        let replies = self.on_all(self.routed.db, commands.collect())?;
        let (mut seen, mut errors) = (HashSet::new(), ArrayBuf::new());
        let mut has_more = false;
        for (_, reply) in &replies {
            has_more |= fields::is_true(reply.as_doc(), "hasMoreErrors");
            let found = fields::array(reply.as_doc(), "apiVersionErrors");
            for value in found.iter().flat_map(|found| found.iter()) {
                if let ValueRef::Document(error) = value
                    && seen.insert(error.as_bytes().to_vec())
                {
                    errors.push(error);
                }
            }
        }
        let reply = DocBuf::new().with("apiVersionErrors", &errors);
        Ok(Answer::Reply(if has_more { reply.with("hasMoreErrors", true) } else { reply }))
    }
}
