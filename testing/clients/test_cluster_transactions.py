"""Transactions over several shards: all parts or none, whatever process is killed at which step, and reads of one time."""

import contextlib
import os
import random
import threading
import time

import bson
import pymongo
import pytest
from pymongo.errors import OperationFailure, PyMongoError
from pymongo.read_concern import ReadConcern
from pymongo.write_concern import WriteConcern

from arbor_cluster import Cluster, Router
from test_chunk_moves import until
from test_router import code_of

ACCOUNTS = 24
EACH = 100
FLAGS = ["--setParameter", "enableTestCommands=1"]


class Bank(Cluster):
    """Three shards, each with a third of `bank.accounts`, and two routers."""

    def __init__(self, directory, stack):
        super().__init__(directory, stack, shards=3, flags=FLAGS, config_flags=FLAGS)
        with self.routers[0].client() as client:
            client.admin.command("enableSharding", "bank", primaryShard="s0")
            client.admin.command("shardCollection", "bank.accounts", key={"_id": 1})
            third = ACCOUNTS // 3
            for at, name in ((1, "s1"), (2, "s2")):
                client.admin.command("split", "bank.accounts", middle={"_id": at * third})
                client.admin.command("moveChunk", "bank.accounts", find={"_id": at * third}, to=name)

    def fill(self, client):
        client.bank.accounts.delete_many({})
        client.bank.accounts.insert_many([{"_id": n, "n": EACH} for n in range(ACCOUNTS)])


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with contextlib.ExitStack() as stack:
        yield Bank(tmp_path_factory.mktemp("transactions"), stack)


@pytest.fixture
def routed(cluster):
    with cluster.routers[0].client() as client:
        cluster.fill(client)
        yield client


@pytest.fixture
def other(cluster):
    with cluster.routers[1].client() as client:
        yield client


def transfer(client, session, source, target, amount=1):
    accounts = client.bank.accounts
    accounts.update_one({"_id": source}, {"$inc": {"n": -amount}}, session=session)
    accounts.update_one({"_id": target}, {"$inc": {"n": amount}}, session=session)


def balance(client, account):
    return client.bank.accounts.find_one({"_id": account})["n"]


def total(client, session=None):
    return sum(doc["n"] for doc in client.bank.accounts.find({}, session=session))


def left(cluster):
    """Promises and decisions that are still kept."""
    kept = 0
    for shard in cluster.shards:
        with shard.client() as client:
            listed = client.admin.command("_shardsvrPreparedTransactions")
            kept += len(listed["prepared"]) + len(listed["decisions"])
    return kept


def test_all_parts_or_none(cluster, routed, other):
    with routed.start_session() as session:
        with session.start_transaction():
            transfer(routed, session, 0, 9)
            transfer(routed, session, 1, 20)
            assert balance(other, 9) == EACH, "it is not committed"
            found = routed.bank.accounts.find({"_id": {"$in": [0, 9, 20]}}, session=session).sort("_id", 1)
            assert [doc["n"] for doc in found] == [EACH - 1, EACH + 1, EACH + 1]
        assert [balance(other, n) for n in (0, 1, 9, 20)] == [EACH - 1, EACH - 1, EACH + 1, EACH + 1]
        with pytest.raises(ZeroDivisionError), session.start_transaction():
            transfer(routed, session, 0, 9, 50)
            1 / 0
        assert [balance(other, n) for n in (0, 9)] == [EACH - 1, EACH + 1]
        # one that only reads, one that writes on one shard, and one whose writes find nothing
        with session.start_transaction():
            assert total(routed, session) == ACCOUNTS * EACH
        with session.start_transaction():
            assert total(routed, session) == ACCOUNTS * EACH
            routed.bank.accounts.update_one({"_id": 3}, {"$set": {"x": 1}}, session=session)
        with session.start_transaction():
            routed.bank.accounts.update_one({"_id": 4}, {"$set": {"x": 1}}, session=session)
            routed.bank.accounts.update_one({"_id": 12, "no": 1}, {"$set": {"x": 1}}, session=session)
        assert routed.bank.accounts.count_documents({"x": 1}) == 2
    until(lambda: left(cluster) == 0)


def test_conflicts_abort_all_parts(cluster, routed, other):
    with routed.start_session() as one, other.start_session() as two:
        one.start_transaction()
        two.start_transaction()
        transfer(routed, one, 0, 9)
        with pytest.raises(OperationFailure) as caught:
            transfer(other, two, 1, 9)
        assert caught.value.code == 112 and caught.value.has_error_label("TransientTransactionError")
        with pytest.raises(OperationFailure) as caught:
            other.bank.accounts.find_one({"_id": 1}, session=two)
        assert caught.value.code == 251
        one.commit_transaction()
    assert [balance(routed, n) for n in (0, 1, 9)] == [EACH - 1, EACH, EACH + 1]
    # a write that finds the promise of another transaction waits for its end
    other.bank.accounts.update_one({"_id": 9}, {"$inc": {"n": 1}})
    assert balance(routed, 9) == EACH + 2


def test_errors_end_the_transaction(routed):
    with routed.start_session() as session:
        session.start_transaction()
        transfer(routed, session, 0, 9)
        with pytest.raises(PyMongoError):
            routed.bank.accounts.insert_one({"_id": 20}, session=session)
        with pytest.raises(OperationFailure) as caught:
            session.commit_transaction()
        assert caught.value.code == 251 and caught.value.has_error_label("TransientTransactionError")
    assert [balance(routed, n) for n in (0, 9)] == [EACH, EACH]


def test_joins_over_shards_are_of_the_transaction(cluster, routed, other):
    client = routed
    client.admin.command("shardCollection", "bank.owners", key={"account": "hashed"})
    client.bank.owners.delete_many({})
    client.bank.owners.insert_many([{"account": n, "name": f"owner{n}"} for n in range(ACCOUNTS)])
    client.bank.plain.delete_many({})
    client.bank.plain.insert_many([{"_id": n, "next": n + 1} for n in range(5)])
    join = {"$lookup": {"from": "owners", "localField": "_id", "foreignField": "account", "as": "owner"}}
    names = lambda db, session: [
        doc["owner"][0]["name"] if doc["owner"] else None
        for doc in db.accounts.aggregate([{"$sort": {"_id": 1}}, join], session=session, batchSize=3)]
    for level in ("local", "snapshot"):
        before = [f"owner{n}" for n in range(ACCOUNTS)]
        with client.start_session() as session, session.start_transaction(read_concern=ReadConcern(level)):
            assert names(client.bank, session) == before
            client.bank.owners.update_one({"account": 3}, {"$set": {"name": "own"}}, session=session)
            client.bank.owners.delete_one({"account": 20}, session=session)
            # a writer of before is not seen in a snapshot, which all shards are in by now
            other.bank.owners.update_one({"account": 11}, {"$set": {"name": f"other {level}"}})
            mine = before[:3] + ["own"] + before[4:20] + [None] + before[21:]
            assert names(client.bank, session) == mine
            union = client.bank.accounts.aggregate(
                [{"$match": {"_id": {"$lt": 2}}}, {"$unionWith": {"coll": "owners", "pipeline": [{"$match": {"account": {"$in": [3, 20]}}}]}}],
                session=session)
            assert sorted(str(doc.get("name")) for doc in union) == ["None", "None", "own"]
            # from one on a single shard as well, by names that are found out
            walked = client.bank.plain.aggregate(
                [{"$match": {"_id": 2}}, {"$graphLookup": {"from": "accounts", "startWith": "$next", "connectFromField": "n",
                                                           "connectToField": "_id", "as": "found"}}], session=session).to_list()
            assert [doc["_id"] for doc in walked[0]["found"]] == [3]
        with client.start_session() as session:
            after = names(client.bank, session)
            assert after == mine[:11] + [f"other {level}"] + mine[12:]
            # what was written is undone for the next one
            client.bank.owners.update_many({"account": {"$in": [3, 11]}}, [{"$set": {"name": {"$concat": ["owner", {"$toString": "$account"}]}}}])
            client.bank.owners.insert_one({"account": 20, "name": "owner20"})
    # a statement that fails ends all parts, and the session continues
    with client.start_session() as session:
        session.start_transaction()
        assert code_of(lambda: list(client.bank.accounts.aggregate(
            [{"$lookup": {"from": "owners", "pipeline": [{"$set": {"x": {"$divide": [1, 0]}}}], "as": "x"}}], session=session))) > 0
        session.abort_transaction()
    # reads of one time outside of transactions, too
    with client.start_session(snapshot=True) as session:
        # all shards have read at this time
        assert len(list(client.bank.accounts.find({}, session=session))) == ACCOUNTS
        other.bank.owners.update_one({"account": 5}, {"$set": {"name": "later"}})
        assert names(client.bank, session)[5] == "owner5"
    client.bank.owners.drop()
    client.bank.plain.drop()
    until(lambda: left(cluster) == 0)


def test_a_new_collection_on_a_second_shard_is_refused(routed):
    routed.admin.command("enableSharding", "fresh", primaryShard="s1")
    with routed.start_session() as session:
        session.start_transaction()
        routed.bank.accounts.update_one({"_id": 0}, {"$inc": {"n": 1}}, session=session)
        routed.fresh.c.insert_one({"_id": 1}, session=session)
        with pytest.raises(OperationFailure) as caught:
            session.commit_transaction()
        assert caught.value.code == 263
    assert balance(routed, 0) == EACH and routed.fresh.c.count_documents({}) == 0


def raw_commit(client, session, **fields):
    """The driver adds the session that it is given; another client has one of its own."""
    number = bson.Int64(session._server_session.transaction_id)
    command = {"commitTransaction": 1, "txnNumber": number, "autocommit": False, **fields}
    with client.start_session() as twin:
        twin._materialize()
        own, twin._server_session = twin._server_session, session._server_session
        try:
            return client.admin.command(command, session=twin)
        finally:
            twin._server_session = own


def test_a_commit_is_repeated_on_any_router(routed, other):
    with routed.start_session() as session:
        session.start_transaction()
        transfer(routed, session, 0, 9)
        token = session._transaction.recovery_token
        assert token == {"recoveryShardId": "s0"}
        session.commit_transaction()
        session.commit_transaction()
        for client in (routed, other):
            assert raw_commit(client, session, recoveryToken=token)["ok"] == 1
        session.start_transaction()
        transfer(routed, session, 0, 9)
        # another router that is asked for the outcome decides it
        assert code_of(lambda: raw_commit(other, session, recoveryToken=token)) == 251
        with pytest.raises(OperationFailure) as caught:
            session.commit_transaction()
        assert caught.value.code == 251
        assert code_of(lambda: raw_commit(other, session)) == 251, "without a token"
    assert [balance(routed, n) for n in (0, 9)] == [EACH - 1, EACH + 1]


def test_snapshots_of_all_shards_are_of_one_time(cluster, routed, other):
    stop, failures = threading.Event(), []

    def write(seed):
        choice = random.Random(seed)
        with cluster.routers[seed % 2].client() as client, client.start_session() as session:
            while not stop.is_set():
                source, target = choice.sample(range(ACCOUNTS), 2)
                session.with_transaction(lambda own: transfer(client, own, source, target))

    def read():
        with other.start_session() as session:
            while not stop.is_set():
                with session.start_transaction(read_concern=ReadConcern("snapshot")):
                    sums = [total(other, session)]
                    sums.append(sum(doc["n"] for doc in other.bank.accounts.aggregate([], session=session)))
                if sums != [ACCOUNTS * EACH] * 2:
                    failures.append(sums)

    threads = [threading.Thread(target=write, args=(seed,)) for seed in range(3)] + [threading.Thread(target=read)]
    for thread in threads:
        thread.start()
    time.sleep(8)
    stop.set()
    for thread in threads:
        thread.join()
    assert not failures and total(routed) == ACCOUNTS * EACH


def test_snapshot_sessions_read_all_shards_at_one_time(cluster, routed, other):
    stop, failures, moved = threading.Event(), [], [0]

    def write():
        with cluster.routers[0].client() as client, client.start_session() as session:
            while not stop.is_set():
                # accounts of different shards
                session.with_transaction(lambda own: transfer(client, own, 0, 9))
                moved[0] += 1

    thread = threading.Thread(target=write)
    thread.start()
    try:
        for _ in range(60):
            with other.start_session(snapshot=True) as session:
                accounts = other.bank.accounts
                sums = [sum(doc["n"] for doc in accounts.find({}, session=session))]
                first = {doc["_id"]: doc["n"] for doc in accounts.aggregate([], session=session)}
                sums.append(sum(first.values()))
                again = {doc["_id"]: doc["n"] for doc in accounts.find({}, session=session)}
            if sums != [ACCOUNTS * EACH] * 2 or again != first:
                failures.append((sums, first, again))
    finally:
        stop.set()
        thread.join()
    assert not failures and moved[0] > 0
    with other.start_session(snapshot=True) as session:
        assert len(other.bank.accounts.distinct("_id", session=session)) == ACCOUNTS


STEPS = ["prepareTransaction", "commitTransaction", "_shardsvrSettleTransaction", "_shardsvrForgetDecisions"]


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("victim", ["router", "coordinator", "participant", "config"])
def test_a_process_is_killed_at_a_step(cluster, routed, other, step, victim):
    """The shards hold the step up; meanwhile the process is killed."""
    block = {"failCommands": [step], "blockConnection": True, "blockTimeMS": 1500}
    for shard in cluster.shards:
        with shard.client() as client:
            client.admin.command("configureFailPoint", "failCommand", mode="alwaysOn", data=block)
    with contextlib.ExitStack() as stack:
        doomed = stack.enter_context(contextlib.ExitStack())
        router = doomed.enter_context(Router(cluster.directory, cluster.config))
        acknowledged = []

        def run():
            with contextlib.suppress(PyMongoError), router.client(retryReads=False) as client:
                with client.start_session() as session, session.start_transaction():
                    transfer(client, session, 0, 9)
                acknowledged.append(True)

        thread = threading.Thread(target=run)
        thread.start()
        time.sleep(1.0)
        killed = {"router": router, "coordinator": cluster.shards[0], "participant": cluster.shards[1],
                  "config": cluster.config}[victim]
        killed.process.kill()
        killed.process.wait()
        if victim != "router":
            killed.start()
        for shard in cluster.shards:
            with shard.client() as client:
                client.admin.command("configureFailPoint", "failCommand", mode="off")
        thread.join(timeout=60)
        assert not thread.is_alive()
        until(lambda: left(cluster) == 0)
        outcome = (balance(other, 0), balance(other, 9))
        assert outcome in [(EACH, EACH), (EACH - 1, EACH + 1)]
        assert not acknowledged or outcome == (EACH - 1, EACH + 1)
        # nothing is locked any more
        other.bank.accounts.update_one({"_id": 9}, {"$inc": {"n": 1}})


@contextlib.contextmanager
def bank(cluster):
    """Transfers and audits by several threads; the sum is the same in every snapshot."""
    stop, torn, audits, committed = threading.Event(), [], [0], [0]

    def write(seed):
        choice = random.Random(seed)
        with cluster.routers[seed % 2].client() as client:
            while not stop.is_set():
                with contextlib.suppress(PyMongoError), client.start_session() as session:
                    with session.start_transaction(write_concern=WriteConcern("majority")):
                        transfer(client, session, *choice.sample(range(ACCOUNTS), 2))
                    committed[0] += 1

    def audit():
        with cluster.routers[1].client() as client:
            while not stop.is_set():
                with contextlib.suppress(PyMongoError), client.start_session() as session:
                    with session.start_transaction(read_concern=ReadConcern("snapshot")):
                        sum_ = total(client, session)
                    audits[0] += 1
                    if sum_ != ACCOUNTS * EACH:
                        torn.append(sum_)

    threads = [threading.Thread(target=write, args=(seed,)) for seed in range(3)]
    threads += [threading.Thread(target=audit) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        yield time.monotonic() + float(os.environ.get("ARBOR_BANK_SECONDS", "12"))
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    print("audits", audits[0], "transfers", committed[0])
    assert not torn and audits[0] > 10 and committed[0] > 10, torn
    until(lambda: left(cluster) == 0)


def test_the_bank_under_kills(cluster, routed, other):
    choice = random.Random(os.environ.get("ARBOR_SEED", "kills"))
    with bank(cluster) as deadline:
        while time.monotonic() < deadline:
            time.sleep(choice.uniform(0.3, 1.5))
            shard = choice.choice(cluster.shards)
            shard.kill()
            shard.start()
    assert total(routed) == ACCOUNTS * EACH


def test_the_bank_while_chunks_move(cluster, routed, other):
    moves = 0
    with bank(cluster) as deadline:
        while time.monotonic() < deadline:
            for account in (0, 9, 20):
                target = random.choice(["s0", "s1", "s2"])
                with contextlib.suppress(PyMongoError):
                    routed.admin.command("moveChunk", "bank.accounts", find={"_id": account}, to=target)
                    moves += 1
    print("moves", moves)
    assert moves > 2 and total(routed) == ACCOUNTS * EACH
