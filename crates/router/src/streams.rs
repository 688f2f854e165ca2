//! Change streams over several shards.
//!
//! Every shard has a cursor of its own. Its events come in the order of their resume tokens, and each of its batches says up to which time it has
//! shown everything: also where nothing happens, since a shard's clock follows the times that this router has seen.
//!
//! M1: an event is returned once every shard has shown everything before it. M2: tokens are those of the shards; events of one time on two shards
//! are in the order of the shards' deployments, which tokens contain. M3: changes of the catalogue, which every shard logs, are those of the
//! primary shard of their database.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arbor_base::memory::{self, Class, Reservation};
use arbor_bson::{Array, ArrayBuf, Code, Doc, DocBuf, ValueRef};
use arbor_command::{Answer, Error, Result, RoutedCursor};
use arbor_protocol::cluster_time::timestamp;
use arbor_query::cursor::{Filler, RowSource};
use arbor_query::stream::{self, DOCUMENTS_ONLY, ResumeToken, StartAt};
use arbor_query::{Cursor, Interrupt};
use arbor_store::Namespace;

use crate::catalog::Catalog;
use crate::rows::{as_query, reserve};
use crate::shard::Shard;
use crate::{Request, fields};

/// Default timeout of a `getMore`.
const PATIENCE: Duration = Duration::from_secs(1);
/// Longest wait of the shards for events: an event of one waits for the replies of the others.
const ROUND: Duration = Duration::from_millis(100);
/// Wait of shards whose time is behind an event of another one; doubled up to [`ROUND`].
const CATCH_UP: Duration = Duration::from_millis(1);
/// Interval at which the list of shards is read.
const SHARDS_INTERVAL: Duration = Duration::from_secs(1);
const START_OPTIONS: &[&str] = &["resumeAfter", "startAfter", "startAtOperationTime"];
/// Kinds of events about documents. The others are about the catalogue.
const OF_DOCUMENTS: &[&str] = &["insert", "update", "replace", "delete"];

/// Cursor of one shard.
struct Source {
    shard: Arc<Shard>,
    id: i64,
    db: String,
    collection: String,
    waiting: VecDeque<(ResumeToken, DocBuf)>,
    /// Memory of `waiting`.
    memory: Reservation,
    /// Everything up to here was shown, or waits.
    frontier: ResumeToken,
}

/// Parts of the request that shards get.
struct Opening {
    catalog: Arc<Catalog>,
    db: String,
    /// The command, without its pipeline.
    command: DocBuf,
    /// Options of `$changeStream`, without the start.
    options: DocBuf,
    stages: ArrayBuf,
    /// Name of the shard whose changes of the catalogue are shown. None: not known yet, or of the whole cluster.
    primary: Option<String>,
    /// Fields that each getMore repeats.
    session: DocBuf,
}

struct MergedStream {
    opening: Opening,
    sources: Vec<Source>,
    /// Everything up to here was returned.
    after: ResumeToken,
    /// Time at which the list of shards was read last, and the time of the stream then.
    checked: (Instant, u64),
    patience: Duration,
    started: bool,
    /// The invalidate event was returned.
    ended: bool,
}

/// Returns a token in the order of the merge.
fn rank(token: &ResumeToken) -> (u64, bool, [u8; 12], u32, bool, u16) {
    (token.time, token.end, token.deployment, token.index, token.of_invalidate, token.fragment)
}

fn start_at(time: u64) -> DocBuf {
    DocBuf::new().with("startAtOperationTime", timestamp(time))
}

impl Request<'_> {
    /// A pipeline that begins with `$changeStream`, on a collection, a database or the cluster.
    pub(crate) fn change_stream(&self, stages: Array<'_>, batch_size: Option<i64>) -> Result<Answer> {
        let given = match stages.get(0) {
            Some(ValueRef::Document(stage)) => stage.get("$changeStream").unwrap_or(ValueRef::Null),
            _ => ValueRef::Null,
        };
        let start = stream::start_of(given).map_err(Error::from)?;
        let ValueRef::Document(given) = given else { return self.forward(false) };
        let (plain, interrupt) = (self.plain(), self.interrupt());
        let is_of_cluster = fields::is_true(given, "allChangesForCluster");
        let database = match is_of_cluster {
            true => None,
            false => self.catalog().database(self.routed.db, interrupt)?,
        };
        let session = |name: &str| matches!(name, "lsid" | "$audit" | "txnNumber" | "autocommit");
        let opening = Opening {
            catalog: self.router.catalog.clone(),
            db: self.routed.db.to_owned(),
            command: fields::without(plain.as_doc(), &["pipeline", "cursor"]),
            options: fields::without(given, START_OPTIONS),
            stages: stages.iter().skip(1).collect(),
            primary: database.map(|database| database.primary),
            session: plain.as_doc().iter().filter(|(name, _)| session(name)).collect(),
        };
        let (after, name) = match &start {
            // all that was acknowledged by now is of an earlier time
            None => (ResumeToken::end_of(self.catalog().clock.now(0), [0; 12]), ""),
            Some(StartAt::Time(time)) => (ResumeToken::end_of(time.saturating_sub(1), [0; 12]), ""),
            Some(StartAt::Resume(token)) => (*token, "resumeAfter"),
            Some(StartAt::After(token)) => (*token, "startAfter"),
        };
        // events of the token's time on other shards may come after it
        let time = after.time.saturating_add(u64::from(after.end));
        let start = if after.end { start_at(time) } else { DocBuf::new().with(name, &after.to_doc()) };
        let shards = self.catalog().refresh_shards(interrupt)?;
        let opened = opening.open_all(&shards, &start, interrupt);
        let refused = |outcome: &Result<(Source, String)>| {
            matches!(outcome, Err(error) if error.code == Code::INVALID_RESUME_TOKEN) && !after.end
        };
        let (mut sources, mut namespace) = (Vec::new(), String::new());
        for (shard, outcome) in shards.iter().zip(opened) {
            let (source, own) = match refused(&outcome) {
                // the token is of another shard
                true => opening.open(shard, &start_at(time), interrupt)?,
                false => outcome?,
            };
            sources.push(source);
            namespace = own;
        }
        if sources.is_empty() {
            return Err(Error::new(Code::SHARD_NOT_FOUND, "the cluster has no shards"));
        }
        let checked = (Instant::now(), time.saturating_sub(1));
        let merged =
            MergedStream { opening, sources, after, checked, patience: PATIENCE, started: false, ended: false };
        Ok(Answer::Cursor(RoutedCursor {
            cursor: Box::new(Cursor::over_rows(Namespace::parse(&namespace)?, merged)),
            batch_size: batch_size.and_then(|size| u64::try_from(size).ok()),
            single_batch: false,
            no_timeout: false,
            time: None,
            extra: None,
        }))
    }
}

impl Opening {
    fn command_for(&self, shard: &Shard, start: &DocBuf) -> DocBuf {
        let mut options: DocBuf = self.options.as_doc().iter().chain(start.as_doc().iter()).collect();
        if self.primary.as_ref().is_some_and(|primary| *primary != shard.name) {
            options.append(DOCUMENTS_ONLY, true);
        }
        let first = DocBuf::new().with("$changeStream", &options);
        let mut pipeline = ArrayBuf::new();
        pipeline.push(&first);
        self.stages.as_array().iter().for_each(|stage| {
            pipeline.push(stage);
        });
        let mut command = DocBuf::new();
        for (at, (name, value)) in self.command.as_doc().iter().enumerate() {
            command.append(name, value);
            if at == 0 {
                command.append("pipeline", &pipeline).append("cursor", &DocBuf::new());
            }
        }
        command
    }

    /// Opens the cursor of a shard; returns the namespace of the cursor as well.
    fn open(&self, shard: &Arc<Shard>, start: &DocBuf, interrupt: &Interrupt) -> Result<(Source, String)> {
        let opened = self.open_all(std::slice::from_ref(shard), start, interrupt);
        opened.into_iter().next().unwrap_or_else(|| unreachable!("one outcome for each shard"))
    }

    fn open_all(&self, shards: &[Arc<Shard>], start: &DocBuf, interrupt: &Interrupt) -> Vec<Result<(Source, String)>> {
        let commands = shards.iter().map(|shard| (shard, self.command_for(shard, start)));
        let begun: Vec<_> = commands
            .map(|(shard, command)| (shard, shard.begin(&self.db, &command, &[], interrupt), command))
            .collect();
        let ended = begun.into_iter().map(|(shard, begun, command)| {
            let reply = shard.end(begun, &self.db, &command, &[], interrupt)?;
            Source::begin(shard.clone(), reply.as_doc())
        });
        ended.collect()
    }

    /// Returns true for a change of the catalogue that the primary shard of its database shows, and this shard is another one.
    fn is_of_another(&self, shard: &Shard, event: Doc<'_>, interrupt: &Interrupt) -> Result<bool> {
        if self.primary.is_some() || OF_DOCUMENTS.contains(&fields::string(event, "operationType").unwrap_or("insert"))
        {
            return Ok(false);
        }
        let db = fields::document(event, "ns").and_then(|own| fields::string(own, "db")).unwrap_or(&self.db);
        // of a database that was dropped nothing is known any more
        let database = self.catalog.database(db, interrupt)?;
        Ok(database.is_some_and(|database| database.primary != shard.name))
    }
}

impl Source {
    fn begin(shard: Arc<Shard>, reply: Doc<'_>) -> Result<(Source, String)> {
        let cursor = fields::document(reply, "cursor").ok_or_else(|| no_stream(&shard))?;
        let namespace = fields::string(cursor, "ns").unwrap_or_default().to_owned();
        let (db, collection) = namespace.split_once('.').ok_or_else(|| no_stream(&shard))?;
        let mut source = Source {
            id: fields::int(cursor, "id"),
            db: db.to_owned(),
            collection: collection.to_owned(),
            waiting: VecDeque::new(),
            memory: memory::process().reservation(Class::Batch),
            frontier: ResumeToken::end_of(0, [0; 12]),
            shard,
        };
        source.take(cursor, "firstBatch")?;
        Ok((source, namespace))
    }

    /// Takes a batch. Errors: it is not one of a change stream, or there is no memory for it.
    fn take(&mut self, cursor: Doc<'_>, name: &str) -> Result<()> {
        assert!(self.waiting.is_empty(), "a batch is read before the next one");
        self.memory.shrink_to(0);
        let batch = fields::array(cursor, name).ok_or_else(|| no_stream(&self.shard))?;
        reserve(&mut self.memory, batch.as_bytes().len())?;
        let token = |doc: Doc<'_>, name: &str| -> Result<ResumeToken> {
            let value = doc.get(name).ok_or_else(|| no_stream(&self.shard))?;
            Ok(ResumeToken::parse(name, value)?)
        };
        for value in batch.iter() {
            let ValueRef::Document(event) = value else { return Err(no_stream(&self.shard)) };
            self.waiting.push_back((token(event, "_id")?, event.to_buf()));
        }
        let in_order = self.waiting.iter().is_sorted_by_key(|(token, _)| *token);
        if !in_order {
            let text = format!("shard {} sent the events of a change stream out of order", self.shard.name);
            return Err(Error::new(Code::INTERNAL_ERROR, text));
        }
        self.frontier = token(cursor, "postBatchResumeToken")?;
        Ok(())
    }

    /// Returns true if all events to come are after one of this rank.
    fn has_passed(&self, event: &ResumeToken) -> bool {
        match self.waiting.front() {
            Some((next, _)) => rank(next) >= rank(event),
            None => rank(&self.frontier) >= rank(event),
        }
    }

    /// Returns the time up to which all events of this shard were returned.
    fn time(&self) -> u64 {
        match self.waiting.front() {
            Some((next, _)) => next.time.saturating_sub(1),
            None => self.frontier.time.saturating_sub(u64::from(!self.frontier.end)),
        }
    }
}

/// The shard closes a cursor that is not read any more; where it cannot be reached, its timeout does.
impl Drop for Source {
    fn drop(&mut self) {
        if self.id != 0 && self.shard.idle_connections() > 0 {
            let cursors: ArrayBuf = std::iter::once(self.id).collect();
            let kill = DocBuf::new().with("killCursors", self.collection.as_str()).with("cursors", &cursors);
            let _ = self.shard.call(&self.db, &kill, &Interrupt::never().within(PATIENCE));
        }
    }
}

fn no_stream(shard: &Shard) -> Error {
    Error::new(Code::INTERNAL_ERROR, format!("shard {} sent a reply that is not one of a change stream", shard.name))
}

impl RowSource for MergedStream {
    fn fill(&mut self, filler: &mut Filler, _: &Namespace, interrupt: &Interrupt) -> arbor_query::Result<bool> {
        let interrupt = interrupt.without_deadline();
        // the first batch does not wait
        let until = self.started.then(|| Instant::now() + self.patience);
        self.started = true;
        let mut catch_up = CATCH_UP;
        loop {
            filler.fill(|| self.next(&interrupt).map_err(as_query))?;
            if !filler.is_empty() || self.ended {
                break;
            }
            let left = until.map_or(Duration::ZERO, |until| until.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                break;
            }
            interrupt.check()?;
            let wait = match (self.sources.iter().any(|source| !source.waiting.is_empty()), self.sources.len()) {
                (true, _) => {
                    catch_up = (2 * catch_up).min(ROUND);
                    catch_up
                }
                (false, 1) => SHARDS_INTERVAL,
                (false, _) => ROUND,
            };
            self.poll(wait.min(left), &interrupt).map_err(as_query)?;
        }
        if !filler.has_waiting() {
            self.advance();
        }
        Ok(self.ended && !filler.has_waiting())
    }

    fn resume_token(&self) -> Option<DocBuf> {
        Some(self.after.to_doc())
    }

    fn await_for(&mut self, patience: Option<Duration>) -> bool {
        self.patience = patience.unwrap_or(PATIENCE);
        true
    }
}

impl MergedStream {
    /// Returns the next event. None: there is none, or a shard may still show an earlier one.
    fn next(&mut self, interrupt: &Interrupt) -> Result<Option<DocBuf>> {
        while !self.ended {
            let waiting = self.sources.iter().enumerate().filter_map(|(at, own)| Some((at, own.waiting.front()?.0)));
            let Some((at, token)) = waiting.min_by_key(|(_, token)| rank(token)) else { return Ok(None) };
            if !self.sources.iter().all(|source| source.has_passed(&token)) {
                return Ok(None);
            }
            let Some(source) = self.sources.get_mut(at) else { return Ok(None) };
            let Some((_, event)) = source.waiting.pop_front() else { return Ok(None) };
            // a resumed stream begins with what the client has already
            if rank(&token) <= rank(&self.after) && !self.after.end {
                continue;
            }
            self.after = token;
            if self.opening.is_of_another(&source.shard, event.as_doc(), interrupt)? {
                continue;
            }
            self.ended = token.of_invalidate;
            return Ok(Some(event));
        }
        Ok(None)
    }

    /// Moves the resume token on to the time that all shards have reached.
    fn advance(&mut self) {
        let time = self.sources.iter().map(Source::time).min().unwrap_or(0);
        let deployment = self.sources.first().map_or([0; 12], |source| source.frontier.deployment);
        let reached = ResumeToken::end_of(time, deployment);
        if rank(&reached) > rank(&self.after) && !self.ended {
            self.after = reached;
        }
    }

    /// Reads the next batch of every shard none of whose events wait.
    fn poll(&mut self, wait: Duration, interrupt: &Interrupt) -> Result<()> {
        self.follow_shards(interrupt)?;
        let wait = i64::try_from(wait.as_millis()).unwrap_or(i64::MAX).max(1);
        let session = &self.opening.session;
        let mut begun = Vec::new();
        for source in self.sources.iter_mut().filter(|source| source.waiting.is_empty()) {
            let mut more = DocBuf::new().with("getMore", source.id).with("collection", source.collection.as_str());
            more.append("maxTimeMS", wait);
            session.as_doc().iter().for_each(|(name, value)| {
                more.append(name, value);
            });
            let sent = source.shard.begin(&source.db, &more, &[], interrupt);
            begun.push((source, sent, more));
        }
        // every reply is read, whatever the others say
        let replies: Vec<_> = begun
            .into_iter()
            .map(|(source, sent, more)| {
                let reply = source.shard.end(sent, &source.db, &more, &[], interrupt);
                (source, reply)
            })
            .collect();
        for (source, reply) in replies {
            let reply = reply.inspect_err(|_| source.id = 0)?;
            let cursor = fields::document(reply.as_doc(), "cursor").ok_or_else(|| no_stream(&source.shard))?;
            source.id = fields::int(cursor, "id");
            source.take(cursor, "nextBatch")?;
        }
        Ok(())
    }

    /// Opens the cursors of shards that are new, and of those where a collection was dropped that is there on other shards.
    fn follow_shards(&mut self, interrupt: &Interrupt) -> Result<()> {
        for source in self.sources.iter_mut().filter(|source| source.id == 0 && source.waiting.is_empty()) {
            let start = start_at(source.frontier.time.saturating_add(1));
            *source = self.opening.open(&source.shard, &start, interrupt)?.0;
        }
        if self.checked.0.elapsed() < SHARDS_INTERVAL {
            return Ok(());
        }
        let shards = self.opening.catalog.refresh_shards(interrupt)?;
        self.sources.retain(|source| shards.iter().any(|shard| shard.name == source.shard.name));
        for shard in &shards {
            if !self.sources.iter().any(|source| source.shard.name == shard.name) {
                let start = start_at(self.checked.1.saturating_add(1));
                self.sources.push(self.opening.open(shard, &start, interrupt)?.0);
            }
        }
        self.checked = (Instant::now(), self.sources.iter().map(Source::time).min().unwrap_or(0));
        Ok(())
    }
}
