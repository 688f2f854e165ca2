"""Change streams over several shards: every event once, in the order of time, from any token on, whatever chunks do meanwhile."""

import contextlib
import threading
import time

import bson
import pytest
from pymongo.errors import OperationFailure, PyMongoError

from arbor_cluster import Cluster
from test_chunk_moves import until
from test_router import code_of


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with contextlib.ExitStack() as stack:
        yield Cluster(tmp_path_factory.mktemp("streams"), stack, shards=3)


@pytest.fixture(scope="module")
def routed(cluster):
    with cluster.routers[0].client() as client:
        yield client


@pytest.fixture(scope="module")
def other(cluster):
    with cluster.routers[1].client() as client:
        yield client


def sharded(routed, name, documents=30):
    """Returns a collection whose thirds are on three shards; its database is on s0."""
    db, collection = name.split(".")
    routed.admin.command("enableSharding", db, primaryShard="s0")
    routed.admin.command("shardCollection", name, key={"_id": 1})
    for at, shard in ((1, "s1"), (2, "s2")):
        bound = {"_id": at * documents // 3}
        routed.admin.command("split", name, middle=bound)
        routed.admin.command("moveChunk", name, find=bound, to=shard)
    return routed[db][collection]


def shown(event):
    return event["operationType"], event.get("documentKey", {}).get("_id")


def next_of(stream, count):
    """Returns the next events; fails when they do not come."""
    deadline, events = time.monotonic() + 20, []
    while len(events) < count:
        event = stream.try_next()
        if event is not None:
            events.append(event)
        assert time.monotonic() < deadline, events
    return events


def in_order(events):
    return [event["_id"]["_data"] for event in events] and [event["clusterTime"] for event in events]


def test_events_of_all_shards_in_their_order(routed, other):
    collection = sharded(routed, "all.c")
    with collection.watch(max_await_time_ms=500) as stream:
        for n in range(30):
            (routed if n % 2 else other).all.c.insert_one({"_id": n})
        collection.update_one({"_id": 25}, {"$set": {"a": 1}})
        collection.replace_one({"_id": 5}, {"b": 1})
        collection.delete_one({"_id": 15})
        events = next_of(stream, 33)
    assert [shown(event) for event in events] == [
        *(("insert", n) for n in range(30)), ("update", 25), ("replace", 5), ("delete", 15)]
    assert in_order(events) == sorted(in_order(events))
    assert events[30]["updateDescription"]["updatedFields"] == {"a": 1}
    # from each token on, on another router
    for at in (0, 3, 17, 32):
        for option in ("resume_after", "start_after"):
            with other.all.c.watch(max_await_time_ms=100, **{option: events[at]["_id"]}) as stream:
                rest = next_of(stream, 32 - at)
                assert rest == events[at + 1:] and stream.try_next() is None
                end = stream.resume_token
    with collection.watch(start_at_operation_time=events[29]["clusterTime"], max_await_time_ms=100) as stream:
        assert next_of(stream, 4) == events[29:]
    # the token of a time at which nothing more had happened
    collection.insert_one({"_id": 100})
    with collection.watch(resume_after=end, max_await_time_ms=100) as stream:
        assert [shown(event) for event in next_of(stream, 1)] == [("insert", 100)]


def test_stages_and_lookups_run_on_the_shards(routed):
    collection = sharded(routed, "staged.c")
    pipeline = [{"$match": {"operationType": "update", "documentKey._id": {"$gte": 10}}}, {"$project": {"fullDocument": 1}}]
    with collection.watch(pipeline, full_document="updateLookup", max_await_time_ms=200) as stream:
        collection.insert_many([{"_id": n} for n in range(30)])
        collection.update_many({}, {"$set": {"v": 1}})
        assert sorted(event["fullDocument"]["_id"] for event in next_of(stream, 20)) == list(range(10, 30))
        assert stream.try_next() is None
    for stage, code in (({"$group": {"_id": 1}}, 20), ({"$nope": 1}, 40324)):
        assert code_of(lambda: collection.watch([stage])) == code
    assert code_of(lambda: routed.staged.command(
        "aggregate", "c", pipeline=[{"$changeStream": {"fullDocument": "never"}}], cursor={})) == 2
    assert code_of(lambda: routed.staged.command(
        "aggregate", "c", pipeline=[{"$changeStream": {"resumeAfter": {"_data": "00"}}}], cursor={})) == 50811


def test_document_keys_have_the_fields_of_the_shard_key(cluster, routed):
    collection = routed.keyed.c
    routed.admin.command("enableSharding", "keyed", primaryShard="s0")
    with collection.watch(max_await_time_ms=300) as stream:
        collection.insert_one({"_id": 1, "a": {"b": 1}, "h": "x"})
        collection.create_index("a.b")
        routed.admin.command("shardCollection", "keyed.c", key={"a.b": 1})
        for at, shard in ((10, "s1"), (20, "s2")):
            routed.admin.command("split", "keyed.c", middle={"a.b": at})
            routed.admin.command("moveChunk", "keyed.c", find={"a.b": at}, to=shard)
        collection.insert_many([{"_id": 2, "a": {"b": 12}, "h": "y"}, {"_id": 3, "a": {"b": 22}}, {"_id": 4}])
        collection.update_one({"_id": 2}, {"$set": {"v": 1}})
        collection.replace_one({"_id": 3, "a.b": 22}, {"a": {"b": 22}, "v": 1})
        collection.delete_one({"_id": 3})
        collection.create_index([("a.b", 1), ("h", 1)])
        routed.admin.command("refineCollectionShardKey", "keyed.c", key={"a.b": 1, "h": 1})
        collection.update_one({"_id": 2}, {"$set": {"v": 2}})
        collection.delete_many({})
        events = next_of(stream, 11)
    keys = [(event["operationType"], list(event["documentKey"].items())) for event in events]
    assert keys[:8] == [
        ("insert", [("_id", 1)]), ("insert", [("a.b", 12), ("_id", 2)]), ("insert", [("a.b", 22), ("_id", 3)]),
        ("insert", [("_id", 4)]), ("update", [("a.b", 12), ("_id", 2)]), ("replace", [("a.b", 22), ("_id", 3)]),
        ("delete", [("a.b", 22), ("_id", 3)]), ("update", [("a.b", 12), ("h", "y"), ("_id", 2)])]
    assert sorted(keys[8:], key=str) == [
        ("delete", [("_id", 4)]), ("delete", [("a.b", 1), ("h", "x"), ("_id", 1)]),
        ("delete", [("a.b", 12), ("h", "y"), ("_id", 2)])]
    # from each token on the same keys come again, and a shard says the same to a direct client, also after a restart
    with collection.watch(resume_after=events[2]["_id"], max_await_time_ms=300) as stream:
        assert next_of(stream, 8) == events[3:]
    cluster.shards[1].kill()
    cluster.shards[1].start()
    routed.keyed.c.insert_one({"_id": 9, "a": {"b": 13}, "h": "z"})
    with cluster.shards[1].client() as direct:
        with direct.keyed.c.watch(start_at_operation_time=events[0]["clusterTime"], max_await_time_ms=300) as stream:
            own = [event for event in next_of(stream, 5) if event["operationType"] != "create"]
            assert own[0]["documentKey"] == {"a.b": 12, "_id": 2}
        with direct.keyed.c.watch(max_await_time_ms=300) as stream:
            direct.keyed.c.delete_one({"_id": 9})
            assert list(next_of(stream, 1)[0]["documentKey"].items()) == [("a.b", 13), ("h", "z"), ("_id", 9)]


def test_an_update_finds_its_document_on_any_shard(routed, other):
    routed.admin.command("enableSharding", "found", primaryShard="s0")
    routed.admin.command("shardCollection", "found.c", key={"k": 1})
    collection = routed.found.c
    for at, shard in ((10, "s1"), (20, "s2")):
        routed.admin.command("split", "found.c", middle={"k": at})
        routed.admin.command("moveChunk", "found.c", find={"k": at}, to=shard)
    routed.found.command("collMod", "c", changeStreamPreAndPostImages={"enabled": True})
    start = collection.watch(max_await_time_ms=100)
    assert start.try_next() is None
    token = start.resume_token
    start.close()
    collection.insert_many([{"_id": n, "k": n} for n in range(30)])
    for n in (1, 11, 21, 22, 23):
        collection.update_one({"k": n}, {"$set": {"v": 1}})
    # one has moved with its chunk, another one has got another shard key, and one is gone; one has a namesake on another shard
    routed.admin.command("moveChunk", "found.c", find={"k": 11}, to="s0")
    with routed.start_session() as session:
        assert other.found.c.update_one({"k": 21}, {"$set": {"k": 5}}).modified_count == 1
        with session.start_transaction():
            assert collection.update_one({"k": 1}, {"$set": {"k": 25}}, session=session).modified_count == 1
    collection.delete_one({"k": 22})
    collection.insert_one({"_id": 23, "k": 2, "namesake": True})

    def updates(**options):
        with other.found.c.watch(resume_after=token, max_await_time_ms=300, **options) as stream:
            events = [event for event in next_of(stream, 41) if event["operationType"] == "update"]
            return [(event["documentKey"], event["fullDocument"]) for event in events]

    keys = [{"k": n, "_id": n} for n in (1, 11, 21, 22, 23)]
    expected = [{"_id": 1, "k": 25, "v": 1}, {"_id": 11, "k": 11, "v": 1}, {"_id": 21, "k": 5, "v": 1}, None,
                {"_id": 23, "k": 23, "v": 1}]
    assert updates(full_document="updateLookup") == list(zip(keys, expected))
    images = [{"_id": n, "k": n, "v": 1} for n in (1, 11, 21, 22, 23)]
    for option in ("whenAvailable", "required"):
        assert updates(full_document=option) == list(zip(keys, images))
    # stages see the document that was found, and an event that is too large comes in parts, from any of which a stream can be resumed
    pipeline = [{"$match": {"operationType": "update", "fullDocument.k": 25}}, {"$project": {"fullDocument": 1}}, {"$changeStreamSplitLargeEvent": {}}]
    with other.found.c.watch(pipeline, full_document="updateLookup", resume_after=token, max_await_time_ms=300) as stream:
        assert next_of(stream, 1)[0]["fullDocument"] == expected[0]
        assert stream.try_next() is None
    collection.insert_one({"_id": 50, "k": 12})
    with collection.watch([{"$match": {"operationType": "update"}}, {"$changeStreamSplitLargeEvent": {}}],
                          full_document="updateLookup", full_document_before_change="whenAvailable", max_await_time_ms=300) as stream:
        collection.update_one({"k": 12, "_id": 50}, {"$set": {"big": "x" * (9 << 20)}})
        collection.update_one({"k": 12, "_id": 50}, {"$set": {"big": "y" * (9 << 20)}})
        events = next_of(stream, 5)
    parts = [event.get("splitEvent") for event in events]
    assert [part and (part["fragment"], part["of"]) for part in parts] == [(1, 2), (2, 2), (1, 3), (2, 3), (3, 3)]
    with other.found.c.watch([{"$match": {"operationType": "update"}}, {"$changeStreamSplitLargeEvent": {}}],
                             full_document="updateLookup", full_document_before_change="whenAvailable",
                             resume_after=events[3]["_id"], max_await_time_ms=300) as stream:
        assert next_of(stream, 1) == events[4:]


def test_an_idle_stream_moves_on(routed):
    collection = sharded(routed, "idle.c")
    with collection.watch(max_await_time_ms=100) as stream:
        assert stream.try_next() is None
        first = stream.resume_token
        routed.elsewhere.c.insert_one({})
        until(lambda: stream.try_next() is None and stream.resume_token["_data"] > first["_data"])
        # an event comes at once, not when the other shards have written something
        took = []
        for n in range(5):
            begun = time.monotonic()
            collection.insert_one({"_id": n * 6})
            next_of(stream, 1)
            took.append(time.monotonic() - begun)
        assert min(took) < 1, took


def test_databases_and_the_cluster(routed):
    collection = sharded(routed, "whole.c")
    with routed.whole.watch(max_await_time_ms=200) as of_database, routed.watch(max_await_time_ms=200) as of_cluster:
        collection.insert_many([{"_id": n} for n in range(0, 30, 5)])
        routed.whole.d.insert_one({"_id": "d"})
        routed.another.e.insert_one({"_id": "e"})
        routed.whole.d.drop()
        collection.drop()
        expected = [*(("insert", n) for n in range(0, 30, 5)), ("insert", "d"), ("drop", None), ("drop", None)]
        assert sorted(map(str, map(shown, next_of(of_database, 9)))) == sorted(map(str, expected))
        assert of_database.try_next() is None
        events = next_of(of_cluster, 10)
        assert sorted(map(str, map(shown, events))) == sorted(map(str, [*expected, ("insert", "e")]))
        assert of_cluster.try_next() is None
    sharded(routed, "whole.c")
    routed.whole.d.insert_one({"_id": "d"})
    with routed.whole.watch(max_await_time_ms=200) as of_database:
        routed.drop_database("whole")
        events = [(event["operationType"], event.get("ns", {}).get("coll")) for event in next_of(of_database, 4)]
        assert sorted(events[:2]) == [("drop", "c"), ("drop", "d")]
        assert events[2:] == [("dropDatabase", None), ("invalidate", None)]


def test_a_drop_invalidates_once(routed):
    collection = sharded(routed, "dropped.c")
    collection.insert_many([{"_id": n} for n in range(30)])
    with collection.watch(max_await_time_ms=200) as stream:
        collection.drop()
        events = next_of(stream, 2)
        assert [event["operationType"] for event in events] == ["drop", "invalidate"]
        with pytest.raises(StopIteration):
            stream.next()
    sharded(routed, "dropped.c")
    assert code_of(lambda: collection.watch(resume_after=events[1]["_id"])) == 260
    with collection.watch(start_after=events[1]["_id"], max_await_time_ms=200) as stream:
        collection.insert_many([{"_id": n} for n in range(0, 30, 5)])
        assert {shown(event) for event in next_of(stream, 6)} == {("insert", n) for n in range(0, 30, 5)}


def test_moves_do_not_show(cluster, routed, other):
    """Each write once, in the order in which it was acknowledged, while its document goes from shard to shard."""
    collection = sharded(routed, "moving.c")
    collection.insert_many([{"_id": n, "n": 0} for n in range(30)])
    stop, acknowledged = threading.Event(), []

    def write():
        n = 0
        while not stop.is_set():
            n += 1
            other.moving.c.update_one({"_id": n * 7 % 30}, {"$set": {"n": n}})
            acknowledged.append(n)

    with collection.watch(max_await_time_ms=200) as stream:
        writer = threading.Thread(target=write)
        writer.start()
        for turn in range(6):
            for account in (5, 15, 25):
                with contextlib.suppress(PyMongoError):
                    routed.admin.command("moveChunk", "moving.c", find={"_id": account}, to=f"s{(turn + account) % 3}")
        stop.set()
        writer.join()
        events = next_of(stream, len(acknowledged))
        assert stream.try_next() is None
    assert [event["updateDescription"]["updatedFields"]["n"] for event in events] == acknowledged
    middle = len(events) // 2
    with other.moving.c.watch(resume_after=events[middle]["_id"], max_await_time_ms=200) as stream:
        assert next_of(stream, len(events) - middle - 1) == events[middle + 1:]


def test_transactions_over_shards_are_shown_whole(routed):
    collection = sharded(routed, "together.c")
    with collection.watch(max_await_time_ms=200) as stream, routed.start_session() as session:
        with session.start_transaction():
            for n in (5, 15, 25):
                collection.insert_one({"_id": n}, session=session)
        events = next_of(stream, 3)
        assert {shown(event) for event in events} == {("insert", n) for n in (5, 15, 25)}
        assert len({event["txnNumber"] for event in events}) == 1


def test_a_shard_ends_and_returns(cluster, routed):
    """The driver resumes the stream by itself."""
    collection = sharded(routed, "ending.c")
    with collection.watch(max_await_time_ms=200) as stream:
        collection.insert_one({"_id": 1})
        next_of(stream, 1)
        cluster.shards[2].kill()
        cluster.shards[2].start()
        collection.insert_many([{"_id": n} for n in (2, 12, 22)])
        deadline, seen = time.monotonic() + 30, set()
        while len(seen) < 3:
            with contextlib.suppress(OperationFailure):
                seen |= {shown(event)[1] for event in [stream.try_next()] if event}
            assert time.monotonic() < deadline
        assert seen == {2, 12, 22}


def test_a_new_shard_is_followed(cluster, routed, tmp_path):
    from arbor_cluster import Member

    collection = sharded(routed, "growing.c")
    with Member(tmp_path, "s3", "--shardsvr") as member:
        member.initiate()
        with collection.watch(max_await_time_ms=200) as stream:
            assert stream.try_next() is None
            routed.admin.command("addShard", member.hosts)
            routed.admin.command("moveChunk", "growing.c", find={"_id": 25}, to="s3")
            collection.insert_many([{"_id": n} for n in (5, 15, 25)])
            assert {shown(event) for event in next_of(stream, 3)} == {("insert", n) for n in (5, 15, 25)}
        routed.admin.command("moveChunk", "growing.c", find={"_id": 25}, to="s0")
        until(lambda: routed.admin.command("removeShard", "s3")["state"] == "completed")
