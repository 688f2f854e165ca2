"""A replica set of three processes, as PyMongo sees it: discovery, failover, a member that comes back, changes of the set."""

import contextlib
import signal
import threading
import time
import uuid

import bson
import pymongo
import pytest
from pymongo.errors import AutoReconnect, NotPrimaryError, OperationFailure, PyMongoError, WTimeoutError

from arbor_process import Members

SECONDARY = pymongo.ReadPreference.SECONDARY_PREFERRED
MAJORITY = pymongo.WriteConcern("majority")
CONFIGURATION_IN_PROGRESS = 109


def direct(member, **options):
    return pymongo.MongoClient(
        "127.0.0.1", member.port, directConnection=True, serverSelectionTimeoutMS=10_000, **options)


def until(condition, limit_s=20, what="the condition"):
    deadline = time.monotonic() + limit_s
    while True:
        last = None
        try:
            last = condition()
            if last:
                return last
        except PyMongoError as error:
            last = error
        assert time.monotonic() < deadline, f"{what} did not come true within {limit_s} s: {last!r}"
        time.sleep(0.02)


def hello(member):
    with direct(member) as client:
        return client.admin.command("hello")


def status(client):
    return client.admin.command("replSetGetStatus")


def in_sync(client, count):
    return until(lambda: len(status(client)["arbor"]["inSync"]) == count, what=f"{count} members in sync")


def primary_of(members):
    found = [member for member in members.members if member.process.poll() is None and hello(member)["isWritablePrimary"]]
    return found[0] if len(found) == 1 else None


def documents(member):
    with direct(member) as client:
        collection = client.db.get_collection("c", read_preference=SECONDARY)
        return sorted(doc["_id"] for doc in collection.find())


def digest(member):
    with direct(member) as client:
        return client.db.command("dbHash", read_preference=SECONDARY)["collections"]


@contextlib.contextmanager
def initiated(directory, sync=3, **of_members):
    with Members(directory) as members:
        with direct(members.members[0]) as first:
            first.admin.command("replSetInitiate", members.config(**of_members))
        with pymongo.MongoClient(members.uri, serverSelectionTimeoutMS=20_000) as client:
            client.db.c.insert_one({"_id": -1})
            in_sync(client, sync)
            yield members, client


def test_a_primary_that_nothing_is_heard_of_denies_nothing(tmp_path):
    """It may be deposed: what it has not, the next primary may have. A client that learns that its transaction is not there begins it again."""
    with initiated(tmp_path) as (members, client):
        client.db.c.insert_one({"_id": "there"})
        first = primary_of(members)
        others = [member for member in members.members if member is not first]

        def refused(client, **command):
            with pytest.raises((AutoReconnect, OperationFailure)) as caught:
                client.get_database("admin" if "commitTransaction" in command else "db").command(command)
            return caught.value.details

        own = {"id": bson.Binary.from_uuid(uuid.uuid4())}
        unknown = {"commitTransaction": 1, "lsid": own, "txnNumber": bson.Int64(7), "autocommit": False}
        with direct(first, retryWrites=False) as alone:
            assert refused(alone, **unknown)["code"] == 251
            try:
                for member in others:
                    member.process.send_signal(signal.SIGSTOP)
                until(lambda: not reads(alone), what="reads end")
                details = refused(alone, **unknown)
                assert details["code"] == 11602 and "TransientTransactionError" not in details.get("errorLabels", []), details
                update = {"q": {"_id": "missing"}, "u": {"$set": {"a": 1}}}
                assert refused(alone, update="c", updates=[update])["code"] == 11602
                assert refused(alone, insert="c", documents=[{"_id": "there"}])["code"] == 11602
                modify = {"query": {"_id": "missing"}, "update": {"$set": {"a": 1}}}
                assert refused(alone, findAndModify="c", **modify)["code"] == 11602
            finally:
                for member in others:
                    member.process.send_signal(signal.SIGCONT)
        until(lambda: client.db.c.update_one({"_id": "missing"}, {"$set": {"a": 1}}).matched_count == 0, what="writes continue")


def reads(client):
    try:
        client.db.command({"find": "c"})
        return True
    except (AutoReconnect, OperationFailure):
        return False


def test_a_killed_primary_loses_nothing(tmp_path):
    with initiated(tmp_path) as (members, client):
        assert len(client.nodes) == 3
        collection = client.db.get_collection("c", write_concern=MAJORITY)
        acknowledged, stop = [-1], threading.Event()

        def write():
            number = 0
            while not stop.is_set():
                collection.insert_one({"_id": number, "text": "x" * 100})
                acknowledged.append(number)
                number += 1

        writer = threading.Thread(target=write)
        writer.start()
        until(lambda: len(acknowledged) > 50)
        first = members.at(client.primary)
        term = status(client)["term"]
        first.kill()
        begun = time.monotonic()
        second = until(lambda: (now := primary_of(members)) is not first and now, what="another primary")
        assert time.monotonic() - begun < 10
        seen = len(acknowledged)
        until(lambda: len(acknowledged) > seen + 50, what="further writes")
        first.start()
        in_sync(client, 3)
        stop.set()
        writer.join()
        assert status(client)["term"] > term
        said = hello(first)
        assert said["secondary"] and not said["isWritablePrimary"] and said["me"] == f"127.0.0.1:{first.port}"
        assert said["primary"] == f"127.0.0.1:{second.port}" and sorted(said["hosts"]) == sorted(members.hosts)
        for member in members.members:
            until(lambda member=member: documents(member) == sorted(acknowledged), what="all writes on all members")
        assert len({str(digest(member)) for member in members.members}) == 1
        states = {member["name"]: member["stateStr"] for member in status(client)["members"]}
        assert states[f"127.0.0.1:{second.port}"] == "PRIMARY"
        until(lambda: sorted(m["stateStr"] for m in status(client)["members"]) == ["PRIMARY", "SECONDARY", "SECONDARY"])


def test_roles_and_step_down(tmp_path):
    with initiated(tmp_path, _0={"tags": {"dc": "a"}}) as (members, client):
        first = members.at(client.primary)
        follower = next(member for member in members.members if member is not first)
        with direct(follower, retryWrites=False) as other:
            with pytest.raises(NotPrimaryError) as refused:
                other.db.c.insert_one({})
            assert refused.value.details["code"] == 10107
            plain = other.db.get_collection("c", read_preference=pymongo.ReadPreference.PRIMARY)
            assert plain.find_one() is not None  # a direct connection permits it
            with pytest.raises((OperationFailure, NotPrimaryError)) as refused:
                other.admin.command("replSetStepDown", 10)
            assert refused.value.details["code"] == 10107
        # all members have it
        until(lambda: sorted(one["state"] for one in status(client)["members"]) == [1, 2, 2], what="heartbeats of secondaries")
        written = client.db.command("insert", "c", documents=[{"_id": 1}], writeConcern={"w": 3, "wtimeout": 10_000})["operationTime"]
        # rs.printSecondaryReplicationInfo() shows no lag of members that have acknowledged it, without a wait for their heartbeats
        said = client.admin.command("replSetGetStatus")["members"]
        assert all(one[name]["ts"] >= written for one in said if not one.get("self") for name in ("optime", "optimeDurable")), said
        for member in members.members:
            assert 1 in documents(member)
        with client.start_session(causal_consistency=True) as session:
            behind = client.db.get_collection("c", read_preference=pymongo.ReadPreference.SECONDARY)
            for number in range(100, 120):
                client.db.c.insert_one({"_id": number}, session=session)
                assert behind.find_one({"_id": number}, session=session) is not None
        client.admin.command("replSetStepDown", 20)
        second = until(lambda: (now := primary_of(members)) is not first and now, what="a successor")
        client.db.c.insert_one({"_id": 2})
        assert primary_of(members) is second
        # w: 3 waits for a member that is gone
        follower = next(member for member in members.members if member not in (first, second))
        follower.kill()
        with pytest.raises(WTimeoutError) as late:
            client.db.get_collection("c", write_concern=pymongo.WriteConcern(3, wtimeout=300)).insert_one({"_id": 3})
        assert late.value.details["code"] == 64
        assert client.db.c.find_one({"_id": 3}) is not None
        follower.start()
        in_sync(client, 3)


def test_transactions_and_retried_writes_over_step_downs(tmp_path):
    with initiated(tmp_path) as (members, client):
        accounts = client.bank.accounts
        accounts.insert_many([{"_id": number, "balance": 100} for number in range(4)])
        counter, stop, done = client.bank.counter, threading.Event(), [0]
        counter.insert_one({"_id": 0, "n": 0})

        def count():
            while not stop.is_set():
                counter.update_one({"_id": 0}, {"$inc": {"n": 1}})
                done[0] += 1

        def transfer(session):
            accounts.update_one({"_id": done[0] % 4}, {"$inc": {"balance": -1}}, session=session)
            accounts.update_one({"_id": (done[0] + 1) % 4}, {"$inc": {"balance": 1}}, session=session)

        counting = threading.Thread(target=count)
        counting.start()
        for _ in range(3):
            for _ in range(10):
                with client.start_session() as session:
                    session.with_transaction(transfer)
            with contextlib.suppress(AutoReconnect):
                client.admin.command("replSetStepDown", 2, secondaryCatchUpPeriodSecs=2)
            until(lambda: primary_of(members), what="a successor")
        stop.set()
        counting.join()
        assert counter.find_one()["n"] == done[0] > 0
        assert sum(account["balance"] for account in accounts.find()) == 400
        in_sync(client, 3)


def changed(client, config):
    """Returns false while another change of the set is under way."""
    try:
        client.admin.command("replSetReconfig", config)
    except OperationFailure as error:
        assert error.code == CONFIGURATION_IN_PROGRESS, error
        return False
    return True


def test_members_are_added_and_removed(tmp_path):
    with Members(tmp_path, count=1) as members:
        alone = members.members[0]
        with direct(alone) as client:
            client.admin.command("replSetInitiate", members.config())
            until(lambda: hello(alone)["isWritablePrimary"])
            client.db.c.insert_many([{"_id": number} for number in range(100)])
        joined = members.add_process()
        joined.start()
        with pymongo.MongoClient(f"mongodb://127.0.0.1:{alone.port}/?replicaSet=rs0", serverSelectionTimeoutMS=20_000) as client:
            config = client.admin.command("replSetGetConfig")["config"]
            config["version"] += 1
            config["members"].append({"_id": 1, "host": members.hosts[1]})
            with contextlib.suppress(AutoReconnect):
                client.admin.command("replSetReconfig", config)
            in_sync(client, 2)
            client.db.c.insert_one({"_id": 100})
            until(lambda: documents(joined) == list(range(101)), what="all documents on the member that was added")
            until(lambda: hello(joined)["secondary"])
            config = client.admin.command("replSetGetConfig")["config"]
            config["version"] += 1
            del config["members"][1]
            # the change before may not be finished when its members are in sync
            until(lambda: changed(client, config), what="another change is taken")
            in_sync(client, 1)
            client.db.c.insert_one({"_id": 101})
            until(lambda: "setName" not in hello(joined), what="the removed member knows")


def test_an_index_that_is_loaded_reaches_all_members(tmp_path):
    """Its rows are in no record of the log: the others fetch them before the index is used."""
    with initiated(tmp_path) as (members, client):
        collection = client.db.get_collection("c", write_concern=MAJORITY)
        for first in range(0, 10_000, 1000):
            collection.insert_many([{"_id": n, "k": n % 1000, "text": "x" * 400} for n in range(first, first + 1000)])
        assert collection.create_index("k", maxTimeMS=60_000) == "k_1"
        collection.insert_one({"_id": 10_000, "k": 7})
        for member in members.members:
            with direct(member) as own:
                by_index = own.db.get_collection("c", read_preference=SECONDARY).find({"k": 7}).hint("k_1")
                until(lambda by_index=by_index: len(list(by_index.clone())) == 11, what="the index on every member")
        assert len({str(digest(member)) for member in members.members}) == 1
        first = members.at(client.primary)
        first.kill()
        until(lambda: (now := primary_of(members)) is not first and now, what="another primary")
        assert collection.count_documents({"k": 7}, hint="k_1") == 11


def test_what_cannot_be_initiated(tmp_path):
    with Members(tmp_path, count=2) as members:
        first, second = members.members
        with direct(first) as client:
            def code(config):
                with pytest.raises(OperationFailure) as refused:
                    client.admin.command("replSetInitiate", config)
                return refused.value.code, str(refused.value)

            config = members.config()
            config["members"].append({"_id": 2, "host": "127.0.0.1:1"})
            number, text = code(config)
            assert number == 74 and "127.0.0.1:1 failed with" in text
            with direct(second) as other:
                other.admin.command("replSetInitiate", {"_id": "rs0", "members": [{"_id": 0, "host": members.hosts[1]}]})
            number, text = code(members.config())
            assert number == 74 and "a member of a set already" in text
            assert code({"_id": "rs1", "members": config["members"]})[0] == 93
            # nothing was begun
            assert "setName" not in client.admin.command("hello")
            for garbage in ({"message": b"garbage"}, {"message": 5}, {"join": {}}, {"join": 1}, {"other": 1}):
                with pytest.raises(OperationFailure):
                    client.admin.command({"_arborMember": 1, "set": "rs0", **garbage})
            with pytest.raises(OperationFailure) as refused:
                client.admin.command({"_arborMember": 1, "set": "other", "probe": True})
            assert refused.value.code == 108
