//! Sessions over a commit path in memory: numbers, one operation at a time, statements that are done once, restarts.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use arbor_base::TreeId;
use arbor_oplog::{Retry, Statement};
use arbor_session::{CheckedOut, Ended, Error, Intent, Kill, Limits, Outcome, SessionId, Sessions, TIMEOUT};
use arbor_txn::testing::InMemory;
use arbor_txn::{Durability, Options, Retention, Transaction, Transactions, View};
use uuid::Uuid;

/// Counts those that are gone.
struct Work(Arc<AtomicUsize>);

impl Drop for Work {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

const DATA: TreeId = TreeId(9);

fn id(number: u128) -> SessionId {
    SessionId { id: Uuid::from_u128(number), user: [7; 32] }
}

fn in_memory() -> InMemory {
    let own = InMemory::new(Options::default()).unwrap();
    own.transactions
        .retry::<_, arbor_txn::Error>(Durability::Journaled, |txn| txn.create_fixed_tree(DATA, Default::default()))
        .unwrap();
    own
}

fn out<T>(sessions: &Sessions<T>, session: u128, number: i64, intent: Intent) -> Result<CheckedOut<'_, T>, Error> {
    sessions.check_out(id(session), number, intent, 1000, &|| false)
}

fn code<T>(outcome: Result<T, Error>) -> i32 {
    outcome.err().unwrap().code().unwrap().0
}

/// A retryable write of statements that count in `DATA`; returns the number that ran.
fn write(sessions: &Sessions<Work>, transactions: &Transactions, number: i64, statements: &[i32]) -> usize {
    let out = out(sessions, 1, number, Intent::Write).unwrap();
    let work = |txn: &mut Transaction| -> Result<usize, Error> {
        let mut done = Vec::new();
        for statement in statements {
            if out.journal().executed(*statement)?.is_none() {
                done.push((*statement, &b"answer"[..]));
                txn.put(DATA, statement.to_be_bytes().to_vec(), b"x".to_vec());
            }
        }
        let ran = done.len();
        out.journal().record(txn, done)?;
        Ok(ran)
    };
    transactions.retry(Durability::Journaled, work).unwrap().0
}

/// A second registry over the same rows is another member that led meanwhile.
#[test]
fn a_new_term_reads_the_rows_again() {
    let own = in_memory();
    let (sessions, other) = (Sessions::new(own.transactions.clone()), Sessions::new(own.transactions.clone()));
    assert_eq!(write(&sessions, &own.transactions, 5, &[0]), 1);
    assert_eq!(write(&other, &own.transactions, 6, &[0, 1]), 2);
    sessions.forget_terms();
    assert_eq!(write(&sessions, &own.transactions, 6, &[0, 1]), 0, "they were done by another member");
    assert_eq!(code(out(&sessions, 1, 5, Intent::Write)), 225);

    let gone = Arc::new(AtomicUsize::new(0));
    let begin = |number| {
        let mut out = out(&sessions, 1, number, Intent::Begin).unwrap();
        out.begin(Work(gone.clone()), 9, 1, Vec::new());
        out
    };
    drop(begin(7));
    sessions.forget_terms();
    assert_eq!((gone.load(Ordering::Relaxed), sessions.open_transactions().len()), (1, 0));
    let busy = begin(8);
    sessions.forget_terms();
    assert_eq!(busy.kill_requested(), Some(Kill::Killed));
    drop(busy);
    assert_eq!((gone.load(Ordering::Relaxed), sessions.open_transactions().len()), (2, 0));
    assert_eq!(write(&sessions, &own.transactions, 6, &[0]), 0, "its row is still of 6");
}

/// The leader lost its term before it knew what became of a commit. A client that commits again must not be sent away with a transaction
/// that was aborted: it would run it a second time.
#[test]
fn a_commit_that_is_not_settled_is_decided_by_the_row() {
    let own = in_memory();
    let sessions: Sessions<Work> = Sessions::new(own.transactions.clone());
    for (number, counts) in [(5, true), (6, false)] {
        let mut begun = out(&sessions, 1, number, Intent::Begin).unwrap();
        begun.begin(Work(Arc::default()), 9, 1, Vec::new());
        drop(begun);
        let mut commit = out(&sessions, 1, number, Intent::Commit).unwrap();
        let record = |txn: &mut Transaction| {
            if counts {
                commit.record_commit(txn, 77);
            }
            Ok(())
        };
        own.transactions.retry::<_, arbor_txn::Error>(Durability::Journaled, record).unwrap();
        drop(commit.take_work());
        commit.unsettled();
        drop(commit);
        let again = out(&sessions, 1, number, Intent::Commit);
        match counts {
            true => assert_eq!(again.unwrap().outcome(), Outcome::WasCommitted),
            false => assert_eq!(code(again), 251, "it has no row"),
        }
    }
    assert!(sessions.open_transactions().is_empty());
}

#[test]
fn an_open_transaction_waits_for_its_next_operation() {
    let own = in_memory();
    let sessions: Sessions<Work> = Sessions::new(own.transactions.clone());
    let gone = Arc::new(AtomicUsize::new(0));
    let mut first = out(&sessions, 1, 5, Intent::Begin).unwrap();
    first.begin(Work(gone.clone()), 9, 1, b"about".to_vec());
    assert!(sessions.open_transaction(id(1)).unwrap().active);
    drop(first);
    let open = sessions.open_transactions();
    assert_eq!((open.len(), open[0].number, open[0].active, &*open[0].about), (1, 5, false, &b"about"[..]));
    assert!(out(&sessions, 1, 5, Intent::Continue).unwrap().work().is_some());
    assert_eq!(code(out(&sessions, 1, 4, Intent::Continue)), 251);
    assert_eq!(code(out(&sessions, 1, 5, Intent::Begin)), 50911);
    assert_eq!(code(out(&sessions, 2, 5, Intent::Commit)), 251);
    let mut commit = out(&sessions, 1, 5, Intent::Commit).unwrap();
    let work = commit.take_work().unwrap();
    own.transactions
        .retry::<_, arbor_txn::Error>(Durability::Journaled, |txn| {
            commit.record_commit(txn, 77);
            Ok(())
        })
        .unwrap();
    drop(work);
    commit.committed();
    drop(commit);
    assert!(sessions.open_transactions().is_empty());
    assert_eq!(code(out(&sessions, 1, 5, Intent::Continue)), 256);
    assert_eq!(out(&sessions, 1, 5, Intent::Commit).unwrap().outcome(), Outcome::WasCommitted);
    // another process with the same directory
    let later: Sessions<Work> = Sessions::new(own.transactions.clone());
    assert_eq!(out(&later, 1, 5, Intent::Commit).unwrap().outcome(), Outcome::WasCommitted);
    assert_eq!(code(out(&later, 1, 5, Intent::Abort)), 256);
    let rows = later.rows(10).unwrap();
    assert_eq!((rows.len(), rows[0].session, rows[0].row.wall, rows[0].row.ended), (1, id(1), 77, Ended::Committed));
    assert_eq!(sessions.statistics().committed.get(), 1);
}

#[test]
fn what_was_begun_is_given_back_when_it_is_over() {
    let own = in_memory();
    let sessions: Sessions<Work> = Sessions::new(own.transactions.clone());
    let gone = Arc::new(AtomicUsize::new(0));
    let begin = |number| {
        let mut out = out(&sessions, 1, number, Intent::Begin).unwrap();
        out.begin(Work(gone.clone()), 9, 1, Vec::new());
    };
    let is_gone = |n| assert_eq!((gone.load(Ordering::Relaxed), sessions.statistics().aborted.get()), (n, n as u64));
    begin(1);
    begin(2); // a newer one ends it
    is_gone(1);
    out(&sessions, 1, 2, Intent::Continue).unwrap().abort(); // an error ends it
    is_gone(2);
    assert_eq!(code(out(&sessions, 1, 2, Intent::Continue)), 251);
    begin(3);
    drop(out(&sessions, 1, 4, Intent::Write).unwrap()); // a retryable write ends it
    is_gone(3);
    begin(5);
    assert!(sessions.end(id(1)) && !sessions.end(id(1)));
    is_gone(4);
    begin(6);
    assert!(sessions.abort_expired(Duration::from_secs(60)).is_empty());
    is_gone(4);
    assert!(sessions.abort_expired(Duration::ZERO).is_empty());
    is_gone(5);
    assert_eq!(code(out(&sessions, 1, 6, Intent::Commit)), 251);
    // its first operation failed
    drop(out(&sessions, 1, 7, Intent::Begin).unwrap());
    assert_eq!(code(out(&sessions, 1, 7, Intent::Continue)), 251);
    assert!(sessions.open_transactions().is_empty());
}

#[test]
fn a_kill_ends_a_transaction_with_its_operation() {
    let own = in_memory();
    let sessions: Sessions<Work> = Sessions::new(own.transactions.clone());
    let gone = Arc::new(AtomicUsize::new(0));
    let mut running = out(&sessions, 1, 1, Intent::Begin).unwrap();
    running.begin(Work(gone.clone()), 9, 1, Vec::new());
    assert_eq!(sessions.abort_expired(Duration::ZERO), [id(1)]);
    assert_eq!(running.kill_requested(), Some(Kill::Expired));
    assert!(sessions.end(id(1)), "it stays until the operation ends");
    assert!(sessions.contains(id(1)) && running.work().is_some());
    drop(running);
    assert_eq!((gone.load(Ordering::Relaxed), sessions.statistics().aborted.get()), (1, 1));
    assert_eq!(code(out(&sessions, 1, 1, Intent::Commit)), 251);
    assert!(sessions.end(id(1)) && sessions.is_empty());
}

#[test]
fn one_operation_has_a_session_at_a_time() {
    let own = in_memory();
    let sessions: Sessions<Work> = Sessions::new(own.transactions.clone());
    let first = out(&sessions, 1, 1, Intent::Write).unwrap();
    let refused = sessions.check_out(id(1), 1, Intent::Write, 0, &|| true);
    assert!(matches!(refused, Err(Error::Interrupted)));
    drop(out(&sessions, 2, 1, Intent::Write).unwrap());
    let (sender, receiver) = mpsc::channel();
    std::thread::scope(|scope| {
        let sessions = &sessions;
        scope.spawn(move || {
            let second = out(sessions, 1, 1, Intent::Write).unwrap();
            sender.send(()).unwrap();
            drop(second);
        });
        assert!(receiver.recv_timeout(Duration::from_millis(120)).is_err(), "the second one waits");
        drop(first);
        receiver.recv_timeout(Duration::from_secs(10)).unwrap();
    });
}

#[test]
fn a_statement_is_done_once() {
    let own = in_memory();
    let sessions = Sessions::new(own.transactions.clone());
    let transactions = &own.transactions;
    assert_eq!(write(&sessions, transactions, 1, &[0, 1, 2]), 3);
    assert_eq!(write(&sessions, transactions, 1, &[0, 1, 2]), 0);
    assert_eq!(write(&sessions, transactions, 1, &[2, 3]), 1);
    assert_eq!(write(&sessions, transactions, 2, &[0, 1]), 2);
    assert_eq!(code(out(&sessions, 1, 1, Intent::Write)), 225);
    assert_eq!(sessions.statistics().retried_statements.get(), 4);
    // a restart
    let later = Sessions::new(transactions.clone());
    assert_eq!(write(&later, transactions, 2, &[0, 1, 9]), 1);
    assert_eq!(code(out(&later, 1, 1, Intent::Write)), 225);
    assert_eq!(write(&later, transactions, 3, &[0]), 1);
    let answer = out(&later, 1, 3, Intent::Write).unwrap().journal().executed(0).unwrap();
    assert_eq!(answer.as_deref(), Some(&b"answer"[..]));
}

#[test]
fn many_statements_in_many_transactions() {
    let own = in_memory();
    let sessions: Sessions<Work> = Sessions::new(own.transactions.clone());
    let long = vec![b'y'; 1500];
    let number = 4;
    {
        let out = out(&sessions, 1, number, Intent::Write).unwrap();
        for group in 0..10 {
            let done: Vec<(i32, &[u8])> = (0..3).map(|at| (group * 10 + at * 2, &*long)).collect();
            let record = |txn: &mut Transaction| out.journal().record(txn, done.clone());
            own.transactions.retry(Durability::Applied, record).unwrap();
        }
    }
    let later: Sessions<Work> = Sessions::new(own.transactions.clone());
    for sessions in [&sessions, &later] {
        let out = out(sessions, 1, number, Intent::Write).unwrap();
        for statement in 0..100 {
            let expect = statement % 10 <= 4 && statement % 2 == 0;
            assert_eq!(out.journal().executed(statement).unwrap().is_some(), expect, "{statement}");
        }
    }
    let rows_of = || {
        let view = own.transactions.read().unwrap();
        let mut cursor = view.cursor(TreeId(5)).unwrap();
        let mut rows = Vec::new();
        let mut found = cursor.first().unwrap();
        while found {
            rows.push(cursor.key().len());
            found = cursor.next().unwrap();
        }
        rows
    };
    assert!(rows_of().len() > 5, "{:?}", rows_of());
    assert_eq!(write(&later, &own.transactions, 5, &[0]), 1);
    assert_eq!(rows_of(), [48], "the next number takes the rows of the last one away");
    assert_eq!(later.rows(10).unwrap().len(), 1);
}

#[test]
fn a_commit_that_lost_its_race_was_not_done() {
    let own = in_memory();
    let sessions: Sessions<Work> = Sessions::new(own.transactions.clone());
    {
        let out = out(&sessions, 1, 1, Intent::Write).unwrap();
        let mut lost = own.transactions.begin().unwrap();
        out.journal().record(&mut lost, [(0, &b"a"[..]), (1, &b"b"[..])]).unwrap();
        drop(lost);
        let mut won = own.transactions.begin().unwrap();
        out.journal().record(&mut won, [(1, &b"c"[..])]).unwrap();
        won.commit(Durability::Applied).unwrap();
    }
    let out = out(&sessions, 1, 1, Intent::Write).unwrap();
    assert_eq!(out.journal().executed(0).unwrap(), None);
    assert_eq!(out.journal().executed(1).unwrap().as_deref(), Some(&b"c"[..]));
    assert_eq!(out.journal().retried(), [1]);
}

#[test]
fn work_and_journal_survive_a_crash_together() {
    let own = in_memory();
    let sessions = Sessions::new(own.transactions.clone());
    assert_eq!(write(&sessions, &own.transactions, 1, &[0, 1]), 2);
    drop(sessions);
    let (disk, engine) = (own.disk.crash(3), own.engine.crash());
    drop(own);
    let own = InMemory::open(disk, engine, Options::default()).unwrap();
    let sessions = Sessions::new(own.transactions.clone());
    let there =
        |statement: i32| own.transactions.read().unwrap().get(DATA, &statement.to_be_bytes()).unwrap().is_some();
    assert!(there(0) && there(1) && !there(2));
    assert_eq!(write(&sessions, &own.transactions, 1, &[0, 1, 2]), 1);
    assert!(there(2));
}

#[test]
fn the_history_records_the_session_of_changes() {
    let history = Some(Retention { bytes: 1 << 20, time: Duration::from_secs(60) });
    let own = InMemory::new(Options { history, ..Options::default() }).unwrap();
    let sessions: Sessions<Work> = Sessions::new(own.transactions.clone());
    let out = out(&sessions, 1, 8, Intent::Write).unwrap();
    let mut txn = own.transactions.begin().unwrap();
    txn.describe(DATA, || b"place".to_vec());
    txn.note(DATA, b"note".to_vec());
    out.journal().record(&mut txn, [(0, &b""[..])]).unwrap();
    let position = txn.commit(Durability::Journaled).unwrap();
    let (_, record) = own.transactions.history(position).read().unwrap().unwrap();
    let expected = Statement { session: id(1), number: 8, retry: Retry::Statements };
    assert_eq!(Statement::decode(&record.logical), Ok(Some(expected)));
}

#[test]
fn forgotten_sessions_take_their_rows_with_them() {
    let own = in_memory();
    let sessions = Sessions::new(own.transactions.clone());
    write(&sessions, &own.transactions, 1, &[0]);
    sessions.touch(id(50)).unwrap();
    assert!(sessions.expire(Instant::now()).unwrap().is_empty());
    assert_eq!((sessions.len(), sessions.rows(9).unwrap().len()), (2, 1));
    assert_eq!(sessions.expire(Instant::now() + TIMEOUT).unwrap().len(), 2);
    assert_eq!((sessions.len(), sessions.rows(9).unwrap().len()), (0, 0));
    // of sessions that a restart forgot
    write(&sessions, &own.transactions, 1, &[0]);
    let later: Sessions<Work> = Sessions::new(own.transactions.clone());
    let limit = TIMEOUT.as_millis() as i64;
    assert_eq!(sessions.sweep(1_000_000 + limit).unwrap(), 0, "it is in use");
    assert_eq!(later.sweep(1000 + limit).unwrap(), 0, "it is not old");
    assert_eq!(later.sweep(1001 + limit).unwrap(), 1);
    assert!(later.rows(9).unwrap().is_empty());
}

fn limited(own: &InMemory, sessions_max: usize, transactions_max: usize) -> Sessions<Work> {
    Sessions::with_limits(own.transactions.clone(), Limits { sessions_max, transactions_max })
}

/// Begins a transaction that stays open.
fn begin(sessions: &Sessions<Work>, session: u128, owner: u64) -> Result<(), Error> {
    let mut out = out(sessions, session, 1, Intent::Begin)?;
    out.make_room()?;
    out.begin(Work(Arc::default()), owner, 1, Vec::new());
    Ok(())
}

#[test]
fn the_sessions_used_longest_ago_make_room() {
    let own = in_memory();
    let sessions = limited(&own, 100, 10);
    begin(&sessions, 1, 1).unwrap();
    sessions.touch(id(2)).unwrap();
    (3..2000).for_each(|number| sessions.touch(id(number)).unwrap());
    assert!(sessions.len() <= 100);
    assert!(sessions.contains(id(1)) && sessions.contains(id(1999)) && !sessions.contains(id(2)));
    assert!(sessions.open_transaction(id(1)).is_some());
    // Nothing that was done is forgotten with a session.
    let sessions = limited(&own, 2, 10);
    assert_eq!(write(&sessions, &own.transactions, 2, &[0, 1]), 2);
    (3..9).for_each(|number| drop(out(&sessions, number, 1, Intent::Write).unwrap()));
    assert!(!sessions.contains(id(1)));
    assert_eq!(write(&sessions, &own.transactions, 2, &[0, 1, 2]), 1);
}

#[test]
fn sessions_with_open_transactions_are_not_forgotten() {
    let own = in_memory();
    let sessions = limited(&own, 2, 10);
    begin(&sessions, 1, 1).unwrap();
    begin(&sessions, 2, 1).unwrap();
    assert_eq!(code(sessions.touch(id(3))), 261);
    assert_eq!(code(out(&sessions, 3, 1, Intent::Write)), 261);
    // the same UUID of another user is another session
    let other = SessionId { user: [8; 32], ..id(2) };
    assert_eq!(code(sessions.touch(other)), 261);
    assert!(!sessions.end(other));
    assert!(sessions.end(id(1)));
    sessions.touch(id(3)).unwrap();
}

#[test]
fn the_owner_with_the_most_transactions_makes_room() {
    let own = in_memory();
    let sessions = limited(&own, 1000, 10);
    (0..3).for_each(|session| begin(&sessions, session, 1).unwrap());
    (100..150).for_each(|session| begin(&sessions, session, 2).unwrap());
    let open: Vec<SessionId> = sessions.open_transactions().into_iter().map(|info| info.session).collect();
    assert_eq!(open.len(), 10);
    assert!((0..3).chain(143..150).all(|session| open.contains(&id(session))), "{open:?}");
    assert_eq!(code(out(&sessions, 100, 1, Intent::Continue)), 251);
    assert!(out(&sessions, 1, 1, Intent::Continue).unwrap().work().is_some());
}

#[test]
fn transactions_whose_operations_all_run_make_no_room() {
    let own = in_memory();
    let sessions = limited(&own, 1000, 1);
    begin(&sessions, 1, 1).unwrap();
    let running = out(&sessions, 1, 1, Intent::Continue).unwrap();
    assert_eq!(code(begin(&sessions, 2, 2)), 24);
    drop(running);
    begin(&sessions, 3, 2).unwrap();
}
