//! Change streams over several shards.
//!
//! Every shard has a cursor of its own. Its events come in the order of their resume tokens, and each of its batches says up to which time it has
//! shown everything: also where nothing happens, since a shard's clock follows the times that this router has seen.
//!
//! M1: an event is returned once every shard has shown everything before it. M2: tokens are those of the shards; events of one time on two shards
//! are in the order of the shards' deployments, which tokens contain. M3: changes of the catalogue, which every shard logs, are those of the
//! primary shard of their database. M4: with `updateLookup` the stages run here, since they need the document, which any shard may have by now.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arbor_base::memory::{self, Class, Reservation};
use arbor_bson::{Array, ArrayBuf, Code, Doc, DocBuf, ValueRef};
use arbor_command::{Answer, Error, Result, RoutedCursor};
use arbor_protocol::cluster_time::timestamp;
use arbor_query::cursor::{Filler, RowSource};
use arbor_query::stream::{self, DOCUMENTS_ONLY, LOOKED_UP_LATER, ResumeToken, Stages, StartAt};
use arbor_query::{Cursor, Interrupt};
use arbor_store::Namespace;

use crate::catalog::Catalog;
use crate::look_up::{MANY_MAX, look_up, look_up_many};
use crate::pipeline::stage_of;
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
const SPLIT: &str = "$changeStreamSplitLargeEvent";
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
    /// The first fragments of an event that is put together here.
    fragments: Option<DocBuf>,
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
    /// Those that run on the shards.
    stages: ArrayBuf,
    /// Shards split large events, only to send them.
    joins: bool,
    /// Name of the shard whose changes of the catalogue are shown. None: not known yet, or of the whole cluster.
    primary: Option<String>,
    /// Fields that each getMore repeats.
    session: DocBuf,
}

struct MergedStream {
    opening: Opening,
    sources: Vec<Source>,
    /// The stages that run here, if documents are looked up.
    stages: Option<Stages>,
    /// Events, or their fragments, as these have made them.
    ready: VecDeque<(ResumeToken, DocBuf)>,
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
        let looks_up = fields::string(given, "fullDocument") == Some("updateLookup");
        let mut options = fields::without(given, START_OPTIONS);
        let (mut sent, mut own, mut joins): (ArrayBuf, _, _) = (stages.iter().skip(1).collect(), None, false);
        if looks_up {
            options = fields::without(options.as_doc(), &["fullDocument"]).with(LOOKED_UP_LATER, true);
            let splits = |stage: &ValueRef<'_>| matches!(stage_of(Some(*stage)), Some((SPLIT, _)));
            sent = stages.iter().last().filter(splits).into_iter().collect();
            joins = !sent.is_empty();
            let context = self.context(fields::document(self.body(), "collation"));
            own = Some(Stages::parse(stages.iter().skip(1), &context).map_err(Error::from)?);
        }
        let opening = Opening {
            catalog: self.router.catalog.clone(),
            db: self.routed.db.to_owned(),
            command: fields::without(plain.as_doc(), &["pipeline", "cursor"]),
            options,
            stages: sent,
            joins,
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
        let start = match after.end || looks_up && after.fragment > 0 {
            // a shard has other fragments of the event
            true => start_at(time),
            false => DocBuf::new().with(name, &after.to_doc()),
        };
        let shards = self.catalog().newest_shards(interrupt)?;
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
        let merged = MergedStream {
            opening,
            sources,
            stages: own,
            ready: VecDeque::new(),
            after,
            checked,
            patience: PATIENCE,
            started: false,
            ended: false,
        };
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
            Source::begin(shard.clone(), reply.as_doc(), self.joins)
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

/// Returns the namespace and the key of an update whose document is to be looked up. `is_first`: and was not yet, together with others.
fn to_look_up(event: Doc<'_>, is_first: bool) -> Option<(Namespace, Doc<'_>)> {
    let is_to_do = matches!(event.get("fullDocument"), Some(ValueRef::Bool(not_yet)) if not_yet || !is_first)
        && fields::string(event, "operationType") == Some("update");
    let namespace = fields::document(event, "ns").filter(|_| is_to_do)?;
    let (db, name) = (fields::string(namespace, "db")?, fields::string(namespace, "coll")?);
    Some((Namespace::new(db, name).ok()?, fields::document(event, "documentKey")?))
}

fn with_document(event: Doc<'_>, found: ValueRef<'_>) -> DocBuf {
    event.iter().map(|(name, value)| (name, if name == "fullDocument" { found } else { value })).collect()
}

impl Opening {
    /// Looks up the documents of the events that wait, if the first one needs one: of its collection, by one request, as far as they are
    /// found so and there is memory for them.
    fn complete_some(&self, source: &mut Source, interrupt: &Interrupt) -> Result<()> {
        let first = source.waiting.front().and_then(|(_, event)| to_look_up(event.as_doc(), true));
        let Some((namespace, _)) = first else { return Ok(()) };
        let (mut places, mut keys) = (Vec::new(), Vec::new());
        for (at, (_, event)) in source.waiting.iter().enumerate().take(MANY_MAX) {
            if let Some((_, key)) = to_look_up(event.as_doc(), true).filter(|(own, _)| *own == namespace) {
                places.push(at);
                keys.push(key.to_buf());
            }
        }
        let found = look_up_many(&self.catalog, &self.session, &namespace, &keys, interrupt)?;
        let mut bytes = source.waiting.iter().map(|(_, event)| event.as_bytes().len()).sum::<usize>();
        for (at, document) in places.into_iter().zip(found) {
            bytes += document.as_ref().map_or(0, |document| document.as_bytes().len());
            if reserve(&mut source.memory, bytes).is_err() {
                break;
            }
            if let Some((_, event)) = source.waiting.get_mut(at) {
                // false: it is to be looked up alone
                let shown = document.as_ref().map_or(ValueRef::Bool(false), ValueRef::from);
                *event = with_document(event.as_doc(), shown);
            }
        }
        Ok(())
    }

    /// Puts the document into an update whose shard has left that to this router.
    fn complete(&self, event: DocBuf, interrupt: &Interrupt) -> Result<DocBuf> {
        let Some((namespace, key)) = to_look_up(event.as_doc(), false) else { return Ok(event) };
        let found = look_up(&self.catalog, &self.session, &namespace, key, interrupt)?;
        Ok(with_document(event.as_doc(), found.as_ref().map_or(ValueRef::Null, ValueRef::from)))
    }
}

impl Source {
    fn begin(shard: Arc<Shard>, reply: Doc<'_>, joins: bool) -> Result<(Source, String)> {
        let cursor = fields::document(reply, "cursor").ok_or_else(|| no_stream(&shard))?;
        let namespace = fields::string(cursor, "ns").unwrap_or_default().to_owned();
        let (db, collection) = namespace.split_once('.').ok_or_else(|| no_stream(&shard))?;
        let mut source = Source {
            id: fields::int(cursor, "id"),
            db: db.to_owned(),
            collection: collection.to_owned(),
            waiting: VecDeque::new(),
            fragments: None,
            memory: memory::process().reservation(Class::Batch),
            frontier: ResumeToken::end_of(0, [0; 12]),
            shard,
        };
        source.take(cursor, "firstBatch", joins)?;
        Ok((source, namespace))
    }

    /// Takes a batch; `joins`: its fragments of events become whole. Errors: it is not one of a change stream, or there is no memory for it.
    fn take(&mut self, cursor: Doc<'_>, name: &str, joins: bool) -> Result<()> {
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
            let (at, event) = (token(event, "_id")?, event.to_buf());
            if !joins || at.fragment == 0 {
                self.waiting.push_back((at, event));
                continue;
            }
            let part = fields::document(event.as_doc(), "splitEvent").unwrap_or(Doc::empty());
            let before = self.fragments.take().unwrap_or_default();
            let joined: DocBuf = before.as_doc().iter().chain(event.as_doc()).filter(is_of_whole).collect();
            match fields::int(part, "fragment") < fields::int(part, "of") {
                true => self.fragments = Some(joined),
                false => {
                    let whole = ResumeToken { fragment: 0, ..at };
                    self.waiting.push_back((whole, in_usual_order(&whole, joined.as_doc())));
                }
            }
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

/// Fields of events, in the order in which they are shown.
const FIELDS: &[&str] = &[
    "operationType",
    "clusterTime",
    "collectionUUID",
    "wallTime",
    "lsid",
    "txnNumber",
    "fullDocument",
    "ns",
    "documentKey",
    "updateDescription",
    "fullDocumentBeforeChange",
];

fn is_of_whole((name, _): &(&str, ValueRef<'_>)) -> bool {
    !matches!(*name, "_id" | "splitEvent")
}

/// Returns an event with its fields in the order that they have before it is split.
fn in_usual_order(token: &ResumeToken, event: Doc<'_>) -> DocBuf {
    let others = event.iter().filter(|(name, _)| !FIELDS.contains(name));
    let usual = FIELDS.iter().filter_map(|name| Some((*name, event.get(name)?)));
    usual.chain(others).fold(DocBuf::new().with("_id", &token.to_doc()), |doc, (name, value)| doc.with(name, value))
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
        loop {
            if let Some((token, event)) = self.ready.pop_front() {
                self.after = token;
                return Ok(Some(event));
            }
            if self.ended {
                return Ok(None);
            }
            let waiting = self.sources.iter().enumerate().filter_map(|(at, own)| Some((at, own.waiting.front()?.0)));
            let Some((at, token)) = waiting.min_by_key(|(_, token)| rank(token)) else { return Ok(None) };
            if !self.sources.iter().all(|source| source.has_passed(&token)) {
                return Ok(None);
            }
            let Some(source) = self.sources.get_mut(at) else { return Ok(None) };
            if self.stages.is_some() {
                self.opening.complete_some(source, interrupt)?;
            }
            let Some((_, event)) = source.waiting.pop_front() else { return Ok(None) };
            let last = ResumeToken { fragment: u16::MAX, ..token };
            let is_split = self.stages.is_some() && self.after.fragment > 0 && rank(&last) > rank(&self.after);
            // a resumed stream begins with what the client has already
            if rank(&token) <= rank(&self.after) && !self.after.end && !is_split {
                continue;
            }
            let before = std::mem::replace(&mut self.after, token);
            if self.opening.is_of_another(&source.shard, event.as_doc(), interrupt)? {
                continue;
            }
            self.ended = token.of_invalidate;
            let Some(stages) = &mut self.stages else { return Ok(Some(event)) };
            let event = self.opening.complete(event, interrupt)?;
            let pieces = stages.run(token, event).map_err(Error::from)?;
            self.ready.extend(pieces.into_iter().filter(|(piece, _)| !is_split || rank(piece) > rank(&before)));
        }
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
        let (session, joins) = (&self.opening.session, self.opening.joins);
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
            source.take(cursor, "nextBatch", joins)?;
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
        let shards = self.opening.catalog.newest_shards(interrupt)?;
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
