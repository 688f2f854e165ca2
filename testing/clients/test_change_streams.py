"""Change streams as PyMongo's `watch` sees them: kinds of events, images, resuming also across kill -9, errors."""

import os
import threading
import time

import bson
import pymongo
import pytest
from pymongo.errors import OperationFailure

from arbor_process import ReplicaSet


@pytest.fixture
def own(set_client, request):
    """An empty database of a replica set, named after the test."""
    name = request.node.name.replace("[", "_").replace("]", "").replace("-", "_")[:60]
    set_client.drop_database(name)
    yield set_client[name]
    set_client.drop_database(name)


def take(stream, count, wait_s=20):
    """So many events, and not one more for a moment."""
    found = []
    until = time.monotonic() + wait_s
    while len(found) < count and time.monotonic() < until:
        event = stream.try_next()
        if event is not None:
            found.append(event)
    assert len(found) == count, found
    return found


def kinds(events):
    return [event["operationType"] for event in events]


def code_of(call):
    with pytest.raises(OperationFailure) as caught:
        call()
    return caught.value.code


def watch(target, *stages, **options):
    return target.watch(list(stages), max_await_time_ms=200, **options)


def test_changes_of_documents(own):
    with watch(own.c) as stream:
        own.c.insert_one({"_id": 1, "a": 1, "list": [1, 2, 3], "long": "x" * 300})
        own.c.update_one({"_id": 1}, {"$set": {"a": 2}, "$unset": {"b": 1}, "$pop": {"list": 1}})
        own.c.replace_one({"_id": 1}, {"b": 1})
        own.c.find_one_and_delete({"_id": 1})
        own.other.insert_one({"_id": 1})
        insert, update, replace, delete = take(stream, 4)
    for event, kind in zip((insert, update, replace, delete), ("insert", "update", "replace", "delete")):
        assert event["operationType"] == kind
        assert event["ns"] == {"db": own.name, "coll": "c"} and event["documentKey"] == {"_id": 1}
        assert isinstance(event["clusterTime"], bson.Timestamp) and event["wallTime"].year >= 2024
        assert "lsid" not in event and "collectionUUID" not in event
    assert insert["fullDocument"]["long"] == "x" * 300 and replace["fullDocument"] == {"_id": 1, "b": 1}
    assert "fullDocument" not in update and "fullDocument" not in delete
    assert update["updateDescription"] == {
        "updatedFields": {"a": 2, "list": [1, 2]},
        "removedFields": [],
        "truncatedArrays": [],
    }


@pytest.mark.parametrize(
    "before, update, filters, updated, removed, disambiguated",
    [
        ({"a": 1}, {"$unset": {"a": 1}}, None, {}, ["a"], {}),
        ({"a": 1}, {"$rename": {"a": "b"}}, None, {"b": 1}, ["a"], {}),
        ({"a": {"b": 1, "c": 1}}, {"$set": {"a.b": 2, "a.c": 3}}, None, {"a.b": 2, "a.c": 3}, [], {}),
        ({"a": 1}, {"$set": {"b.c": 1, "b.d": 2}}, None, {"b": {"c": 1, "d": 2}}, [], {}),
        ({"a": 1}, {"$set": {"a": 1, "b": 1}}, None, {"b": 1}, [], {}),
        ({"a": [1]}, {"$push": {"a": {"$each": [2, 3]}}}, None, {"a.1": 2, "a.2": 3}, [], {}),
        ({"a": []}, {"$push": {"a": 1}}, None, {"a": [1]}, [], {}),
        ({"a": [1, 2]}, {"$push": {"a": {"$each": [3], "$position": 0}}}, None, {"a": [3, 1, 2]}, [], {}),
        ({"a": [1, 2]}, {"$push": {"a": {"$each": [3], "$slice": -2}}}, None, {"a": [2, 3]}, [], {}),
        ({"a": [1, 2]}, {"$addToSet": {"a": 3}}, None, {"a": [1, 2, 3]}, [], {}),
        ({"a": [1, 2]}, {"$pull": {"a": 1}}, None, {"a": [2]}, [], {}),
        ({"a": [1, 2]}, {"$set": {"a.3": 4}}, None, {"a.3": 4}, [], {}),
        ({"a": [1, 2]}, {"$unset": {"a.0": 1}}, None, {"a.0": None}, [], {}),
        ({"a": [1, 2, 3]}, {"$inc": {"a.$[]": 1}}, None, {"a": [2, 3, 4]}, [], {}),
        ({"a": [1, 2, 3]}, {"$inc": {"a.$[x]": 1}}, [{"x": 2}], {"a.1": 3}, [], {}),
        ({"a": [{"b": 1}, {"b": 2}]}, {"$inc": {"a.$[x].b": 1}}, [{"x.b": 2}], {"a.1.b": 3}, [], {}),
        ({"a": {"1": 1}}, {"$set": {"a.1": 2}}, None, {"a.1": 2}, [], {"a.1": ["a", "1"]}),
        ({"a": [{"1": 1}]}, {"$set": {"a.0.1": 2}}, None, {"a.0.1": 2}, [], {"a.0.1": ["a", 0, "1"]}),
    ],
)
def test_updates_by_operators_show_what_they_wrote(own, before, update, filters, updated, removed, disambiguated):
    own.c.insert_one({"_id": 1, **before})
    with watch(own.c, show_expanded_events=True) as stream:
        own.c.update_one({"_id": 1}, update, array_filters=filters)
        (event,) = take(stream, 1)
    assert event["operationType"] == "update"
    assert event["updateDescription"] == {
        "updatedFields": updated,
        "removedFields": removed,
        "truncatedArrays": [],
        "disambiguatedPaths": disambiguated,
    }
    (entry,) = own.client.local.oplog.rs.find({"ns": f"{own.name}.c", "op": "u"}).sort("$natural", -1).limit(1)
    assert entry["o"]["$v"] == 2
    # the entry, applied again, makes the same document
    after = own.c.find_one()
    own.c.replace_one({"_id": 1}, {"_id": 1, **before})
    own.client.admin.command("applyOps", [{key: entry[key] for key in ("op", "ns", "o", "o2")}])
    assert own.c.find_one() == after


def test_pipelines_show_the_difference_or_the_whole(own):
    own.c.insert_one({"_id": 1, "a": [1, 2, 3], "long": "x" * 300})
    own.c.insert_one({"_id": 2, "a": 1, "b": 1})
    with watch(own.c) as stream:
        own.c.update_one({"_id": 1}, [{"$set": {"a": {"$slice": ["$a", 2]}}}])
        own.c.update_one({"_id": 2}, [{"$replaceWith": {"_id": 2, "c": 3}}])
        by_difference, whole = take(stream, 2)
    assert by_difference["updateDescription"]["truncatedArrays"] == [{"field": "a", "newSize": 2}]
    assert whole["operationType"] == "replace" and whole["fullDocument"] == {"_id": 2, "c": 3}


def test_the_first_batch_has_what_was_acknowledged(own, set_client):
    acknowledged = own.c.with_options(write_concern=pymongo.WriteConcern("majority"))
    with watch(own.c), set_client.start_session() as session:
        for n in range(200):
            acknowledged.insert_one({"_id": n}, session=session)
            stage = {"$changeStream": {"startAtOperationTime": session.operation_time}}
            reply = own.command({"aggregate": "c", "pipeline": [stage], "cursor": {}})
            assert [event["documentKey"]["_id"] for event in reply["cursor"]["firstBatch"]] == [n]
            own.command({"killCursors": "c", "cursors": [reply["cursor"]["id"]]})


def test_collection_database_and_everything(own, set_client):
    second = set_client[own.name + "_2"]
    with watch(own.c) as of_c, watch(own) as of_db, watch(set_client) as of_all:
        own.c.insert_one({"_id": 1})
        own.d.insert_one({"_id": 1})
        second.c.insert_one({"_id": 1})
        assert len(take(of_c, 1)) == 1
        assert [e["ns"]["coll"] for e in take(of_db, 2)] == ["c", "d"]
        assert [(e["ns"]["db"], e["ns"]["coll"]) for e in take(of_all, 3)] == [
            (own.name, "c"),
            (own.name, "d"),
            (second.name, "c"),
        ]
        assert of_c.try_next() is None and of_db.try_next() is None and of_all.try_next() is None
    set_client.drop_database(second.name)


def test_resuming_at_every_event(own):
    with watch(own.c) as stream:
        begin = stream.resume_token
        own.c.insert_many([{"_id": n} for n in range(10)])
        events = take(stream, 10)
        assert events == sorted(events, key=lambda event: event["_id"]["_data"])
        end = stream.resume_token
    for at, event in enumerate(events):
        for option in ("resume_after", "start_after"):
            with watch(own.c, **{option: event["_id"]}) as again:
                assert take(again, 9 - at) == events[at + 1 :]
        with watch(own.c, start_at_operation_time=event["clusterTime"]) as again:
            assert take(again, 10 - at) == events[at:]
    with watch(own.c, resume_after=begin) as again:
        assert take(again, 10) == events
    with watch(own.c, resume_after=end) as again:
        assert again.try_next() is None


def test_images(own):
    own.create_collection("c", changeStreamPreAndPostImages={"enabled": True})
    own.plain.insert_one({"_id": 1, "a": 0, "long": "x" * 200})
    both = {"full_document": "required", "full_document_before_change": "required"}
    with watch(own.c, **both) as stream, watch(own.c, full_document="updateLookup") as looked_up:
        own.c.insert_one({"_id": 1, "a": 1, "long": "x" * 200})
        own.c.update_one({"_id": 1}, {"$set": {"a": 2}})
        own.c.update_one({"_id": 1}, {"$set": {"a": 3}})
        own.c.replace_one({"_id": 1}, {"a": 4})
        own.c.delete_one({"_id": 1})
        events = take(stream, 5)
        assert [e.get("fullDocument", {}).get("a") for e in events] == [1, 2, 3, 4, None]
        assert "fullDocumentBeforeChange" not in events[0]
        assert [e["fullDocumentBeforeChange"]["a"] for e in events[1:]] == [1, 2, 3, 4]
        # the document as it is when it is asked for: it is gone
        assert [e["fullDocument"] for e in take(looked_up, 5)[1:3]] == [None, None]
    available = {"full_document": "whenAvailable", "full_document_before_change": "whenAvailable"}
    with watch(own.plain, **available) as stream, watch(own.plain, full_document="updateLookup") as looked_up:
        own.plain.update_one({"_id": 1}, {"$set": {"a": 1}})
        (event,) = take(stream, 1)
        assert event["fullDocument"] is None and event["fullDocumentBeforeChange"] is None
        assert take(looked_up, 1)[0]["fullDocument"]["a"] == 1
    for option in ({"full_document": "required"}, {"full_document_before_change": "required"}):
        with watch(own.plain, **option) as stream:
            own.plain.update_one({"_id": 1}, {"$inc": {"a": 1}})
            assert code_of(lambda: take(stream, 1)) == 47
    own.command("collMod", "plain", changeStreamPreAndPostImages={"enabled": True})
    with watch(own.plain, full_document_before_change="required") as stream:
        own.plain.update_one({"_id": 1}, {"$set": {"a": 100}})
        assert take(stream, 1)[0]["fullDocumentBeforeChange"]["a"] == 3


def test_images_expire(own, set_client):
    own.create_collection("c", changeStreamPreAndPostImages={"enabled": True})
    own.c.insert_one({"_id": 1, "a": 0})
    admin = set_client.admin
    parameter = {"preAndPostImages": {"expireAfterSeconds": 1}}
    with watch(own.c) as stream:
        begin = stream.resume_token
    own.c.update_one({"_id": 1}, {"$set": {"a": 1}})
    admin.command({"setClusterParameter": {"changeStreamOptions": parameter}})
    try:
        (shown,) = admin.command({"getClusterParameter": "changeStreamOptions"})["clusterParameters"]
        assert shown["_id"] == "changeStreamOptions" and shown["preAndPostImages"] == {"expireAfterSeconds": 1}
        time.sleep(1.2)
        with watch(own.c, resume_after=begin, full_document_before_change="whenAvailable") as stream:
            assert take(stream, 1)[0]["fullDocumentBeforeChange"] is None
    finally:
        parameter["preAndPostImages"]["expireAfterSeconds"] = "off"
        admin.command({"setClusterParameter": {"changeStreamOptions": parameter}})
    with watch(own.c, resume_after=begin, full_document_before_change="whenAvailable") as stream:
        assert take(stream, 1)[0]["fullDocumentBeforeChange"] == {"_id": 1, "a": 0}


def test_changes_of_the_catalogue(own):
    with watch(own, show_expanded_events=True) as stream, watch(own) as plain:
        own.create_collection("c")
        own.c.create_index([("a", 1)])
        own.c.insert_one({"_id": 1, "a": 1})
        own.c.create_index([("b", 1)], unique=True)
        own.command("collMod", "c", validator={"a": {"$gt": 0}})
        own.c.drop_index("a_1")
        own.c.rename("d")
        own.d.drop()
        events = take(stream, 8)
        names = ["create", "createIndexes", "insert", "createIndexes", "modify", "dropIndexes", "rename", "drop"]
        assert kinds(events) == names
        create, built, insert, unique, modify, dropped, rename, drop = events
        assert create["operationDescription"]["idIndex"]["name"] == "_id_"
        assert built["operationDescription"]["indexes"] == [{"v": 2, "key": {"a": 1}, "name": "a_1"}]
        assert unique["operationDescription"]["indexes"][0]["unique"] is True
        assert modify["operationDescription"]["validator"] == {"a": {"$gt": 0}}
        assert "collectionOptions" in modify["stateBeforeChange"]
        assert dropped["operationDescription"]["indexes"] == [{"v": 2, "key": {"a": 1}, "name": "a_1"}]
        assert rename["to"] == {"db": own.name, "coll": "d"} == rename["operationDescription"]["to"]
        assert drop["ns"] == {"db": own.name, "coll": "d"}
        assert len({e["collectionUUID"] for e in events}) == 1
        assert kinds(take(plain, 3)) == ["insert", "rename", "drop"]


def test_changes_of_views_and_commands_that_change_nothing(own):
    own.create_collection("c")
    with watch(own, show_expanded_events=True) as stream, watch(own) as plain, watch(own.c, show_expanded_events=True) as of_one:
        own.create_collection("v", viewOn="c", pipeline=[{"$match": {"a": 1}}])
        own.command("collMod", "v", viewOn="c", pipeline=[])
        own.v.drop()
        own.command("collMod", "c")
        own.c.insert_one({"_id": 1})
        create, change, drop, modify, _ = events = take(stream, 5)
        assert kinds(events) == ["create", "modify", "drop", "modify", "insert"]
        assert {event["ns"]["coll"] for event in (create, change, drop)} == {"v"}
        assert create["operationDescription"] == {"viewOn": "c", "pipeline": [{"$match": {"a": 1}}]}
        assert change["operationDescription"] == {"viewOn": "c", "pipeline": []}
        assert modify["ns"] == {"db": own.name, "coll": "c"}
        assert kinds(take(of_one, 2)) == ["modify", "insert"]
        assert kinds(take(plain, 1)) == ["insert"]


def test_labels_say_whether_a_stream_can_be_resumed(own, set_client):
    own.c.insert_one({"_id": 1})

    def without_tokens():
        with watch(own.c, {"$project": {"_id": 0}}) as stream:
            own.c.insert_one({"_id": 2})
            take(stream, 1)

    with pytest.raises(OperationFailure) as caught:
        without_tokens()
    assert caught.value.code == 280 and caught.value.has_error_label("NonResumableChangeStreamError")
    assert caught.value.details["errmsg"].startswith("Executor error during getMore :: caused by :: ")


def test_the_end_of_what_is_watched(own, set_client):
    own.c.insert_one({"_id": 1})
    for end in (own.c.drop, lambda: own.c.rename("other", dropTarget=True)):
        with watch(own.c) as stream:
            end()
            last, invalidate = take(stream, 2)
            assert invalidate["operationType"] == "invalidate" and set(invalidate) == {
                "_id",
                "operationType",
                "clusterTime",
                "wallTime",
            }
            assert stream.try_next() is None and not stream.alive
        own.c.insert_one({"_id": 2})
        assert code_of(lambda: watch(own.c, resume_after=invalidate["_id"])) == 260
        with watch(own.c, start_after=invalidate["_id"]) as stream:
            assert kinds(take(stream, 1)) == ["insert"]
        with watch(own.c, resume_after=last["_id"]) as stream:
            assert kinds(take(stream, 1)) == ["invalidate"]
    with watch(own) as stream, watch(set_client) as everything:
        set_client.drop_database(own.name)
        found = []
        while "invalidate" not in kinds(found):
            found += take(stream, 1)
        assert set(kinds(found[:-2])) == {"drop"} and kinds(found[-2:]) == ["dropDatabase", "invalidate"]
        assert not stream.alive
        assert kinds(take(everything, len(found) - 1))[-1] == "dropDatabase"
        assert everything.alive


def test_transactions(own, set_client):
    own.create_collection("c")
    with watch(own) as stream:
        with set_client.start_session() as session:
            with session.start_transaction():
                own.c.insert_many([{"_id": n} for n in range(3)], session=session)
                own.d.insert_one({"_id": 9}, session=session)
                own.c.update_one({"_id": 0}, {"$set": {"a": 1}}, session=session)
            session.start_transaction()
            own.c.insert_one({"_id": "never"}, session=session)
            session.abort_transaction()
        own.c.insert_one({"_id": "after"})
        events = take(stream, 6)
    assert [e["documentKey"]["_id"] for e in events] == [0, 1, 2, 9, 0, "after"]
    inside = events[:5]
    assert len({e["clusterTime"] for e in inside}) == 1 and len({e["txnNumber"] for e in inside}) == 1
    assert all(e["lsid"]["id"] == inside[0]["lsid"]["id"] for e in inside) and "lsid" not in events[5]
    for at, event in enumerate(inside):
        with watch(own, resume_after=event["_id"]) as again:
            assert take(again, 5 - at) == events[at + 1 :]


def test_stages(own):
    stages = [
        {"$match": {"operationType": "insert", "fullDocument.n": {"$gte": 5}}},
        {"$project": {"n": "$fullDocument.n", "ns": 1}},
        {"$set": {"square": {"$multiply": ["$n", "$n"]}}},
    ]
    with watch(own.c, *stages) as stream:
        own.c.insert_many([{"n": n} for n in range(8)])
        assert [(e["n"], e["square"]) for e in take(stream, 3)] == [(5, 25), (6, 36), (7, 49)]
    for stage, code in [
        ({"$group": {"_id": 1}}, 20),
        ({"$limit": 1}, 20),
        ({"$out": "x"}, 20),
        ({"$nope": 1}, 40324),
    ]:
        assert code_of(lambda stage=stage: watch(own.c, stage)) == code
    with watch(own.c, {"$project": {"_id": 0}}) as stream:
        own.c.insert_one({})
        with pytest.raises((OperationFailure, pymongo.errors.InvalidOperation)):
            take(stream, 1)


def test_large_events(own):
    own.create_collection("c", changeStreamPreAndPostImages={"enabled": True})
    own.c.insert_one({"_id": 1, "a": "x" * 9_000_000})
    options = {"full_document": "whenAvailable", "full_document_before_change": "whenAvailable"}
    with watch(own.c, **options) as stream, watch(own.c, {"$changeStreamSplitLargeEvent": {}}, **options) as split:
        own.c.update_one({"_id": 1}, {"$set": {"b": 1}})
        assert code_of(lambda: take(stream, 1)) == 10334
        fragments = take(split, 2)
        assert [f["splitEvent"] for f in fragments] == [{"fragment": 1, "of": 2}, {"fragment": 2, "of": 2}]
        whole = {name: value for f in fragments for name, value in f.items()}
        assert len(whole["fullDocument"]["a"]) == len(whole["fullDocumentBeforeChange"]["a"]) == 9_000_000
    with watch(own.c, {"$changeStreamSplitLargeEvent": {}}, resume_after=fragments[0]["_id"], **options) as split:
        assert take(split, 1) == fragments[1:]


def test_bad_tokens(own, tmp_path):
    with watch(own.c) as stream:
        own.c.insert_one({"_id": 1})
        own.d.insert_one({"_id": 1})
        token = take(stream, 1)[0]["_id"]["_data"]
    for data, code in [
        ("82" + "00" * 40, 260),
        (token[:20] + "F" + token[21:], 260),
        (token[:-4], 15),
        (token[:10], 15),
        ("", 40649),
        ("not hex at all", 9),
        ("é" * 68, 9),
        ("00", 50811),
        (5, 40647),
    ]:
        assert code_of(lambda data=data: watch(own.c, resume_after={"_data": data})) == code, data
    assert code_of(lambda: watch(own.c, resume_after={})) == 40647
    # what follows the token means nothing, and its last byte may be missing
    for data in [token[:-2], token + "00", token.lower()]:
        watch(own.c, resume_after={"_data": data}).close()
    # of another collection's stream
    def elsewhere():
        with watch(own.d, resume_after={"_data": token}) as other:
            take(other, 1)
    assert code_of(elsewhere) == 280
    opened = own.command({"aggregate": "d", "pipeline": [{"$changeStream": {"resumeAfter": {"_data": token}}}], "cursor": {}})["cursor"]
    assert opened["firstBatch"] == [] and opened["id"]
    assert code_of(lambda: own.command({"getMore": opened["id"], "collection": "d"})) == 280
    # of another deployment
    with ReplicaSet(tmp_path / "other") as foreign, pymongo.MongoClient(foreign.uri) as client:
        assert code_of(lambda: client.d.c.watch(resume_after={"_data": token})) == 260


def test_bad_options(own, set_client):
    def aggregate(db, target, stage, **more):
        return lambda: db.command("aggregate", target, pipeline=[{"$changeStream": stage}], cursor={}, **more)

    time_ = bson.Timestamp(int(time.time()), 1)
    own.create_collection("view", viewOn="c", pipeline=[])
    for call, code in [
        (aggregate(own, "c", 5), 6188500),
        (aggregate(own, "c", {"nope": 1}), 40415),
        (aggregate(own, "c", {"fullDocument": "always"}), 2),
        (aggregate(own, "c", {"startAtOperationTime": 5}), 14),
        (aggregate(own, "c", {"startAtOperationTime": time_, "resumeAfter": {"_data": "00"}}), 50811),
        (aggregate(set_client.admin, 1, {}), 73),
        (aggregate(set_client.config, "c", {}), 73),
        (aggregate(own, 1, {"allChangesForCluster": True}), 72),
        (aggregate(own, "view", {}), 166),
        (aggregate(own, "c", {}, readConcern={"level": "local"}), 72),
    ]:
        assert code_of(call) == code


def test_a_standalone_has_none(client):
    assert code_of(lambda: client.d.c.watch()) == 40573


def test_waiting(own, set_client):
    with own.c.watch(max_await_time_ms=20_000) as stream:
        threading.Timer(0.3, lambda: own.c.insert_one({"_id": 1})).start()
        began = time.monotonic()
        assert stream.try_next()["documentKey"] == {"_id": 1}
        assert time.monotonic() - began < 10
    # nothing comes: the wait ends when it is to, and the token moves on
    with own.c.watch(max_await_time_ms=300) as stream:
        before = stream.resume_token
        own.other.insert_one({})
        began = time.monotonic()
        assert stream.try_next() is None
        assert 0.2 < time.monotonic() - began < 5
        assert stream.resume_token["_data"] > before["_data"]


def test_killed_while_it_waits(own, set_client):
    pipeline = [{"$changeStream": {}}]
    cursor = own.command("aggregate", "c", pipeline=pipeline, cursor={})["cursor"]
    more = {"getMore": bson.Int64(cursor["id"]), "collection": "c", "maxTimeMS": 30_000}
    failed = []

    def get_more():
        try:
            own.command(more)
        except OperationFailure as error:
            failed.append(error.code)

    with set_client.start_session():
        waiter = threading.Thread(target=get_more)
        waiter.start()
        time.sleep(0.5)
        operations = [o for o in set_client.admin.aggregate([{"$currentOp": {}}]) if o.get("op") == "getmore"]
        assert len(operations) == 1, operations
        set_client.admin.command("killOp", op=operations[0]["opid"])
        waiter.join(timeout=10)
        assert failed == [11601]


def test_across_kills(tmp_path):
    """Every acknowledged write exactly once and in order, whatever is killed in between."""
    seen, acknowledged = [], []
    with ReplicaSet(tmp_path / "data") as server:
        token = None
        for round_ in range(4):
            with pymongo.MongoClient(server.uri, w="majority") as client:
                stream = client.d.c.watch(resume_after=token, max_await_time_ms=100)
                if token is None:
                    token = stream.resume_token
                for n in range(40):
                    client.d.c.insert_one({"_id": f"{round_}-{n}"})
                    acknowledged.append(f"{round_}-{n}")
                    if n == 20:
                        for _ in range(10):
                            event = stream.try_next()
                            if event:
                                seen.append(event["documentKey"]["_id"])
                                token = event["_id"]
            server.kill()
            server.start()
        with pymongo.MongoClient(server.uri) as client:
            with client.d.c.watch(resume_after=token, max_await_time_ms=200) as stream:
                while (event := stream.try_next()) is not None:
                    seen.append(event["documentKey"]["_id"])
    assert seen == acknowledged


def test_history_that_is_gone(tmp_path):
    with ReplicaSet(tmp_path / "data", ["--oplogSize", "1"]) as server, pymongo.MongoClient(server.uri) as client:
        with client.d.c.watch() as stream:
            token = stream.resume_token
        # the log does not make it shorter
        payload = os.urandom(1_000_000)
        for _ in range(60):
            for _ in range(5):
                client.d.big.insert_one({"p": payload})
            client.admin.command("fsync")
            if client.local["oplog.rs"].find_one(sort=[("$natural", 1)])["ts"] > bson.Timestamp(0, 1) and gone(client, token):
                break
        else:
            raise AssertionError("the log was never trimmed")
        assert code_of(lambda: client.d.c.watch(start_at_operation_time=bson.Timestamp(1, 1))) == 286


def gone(client, token):
    try:
        client.d.c.watch(resume_after=token).close()
        return False
    except OperationFailure as error:
        assert error.code == 286
        return True


def test_a_batch_has_all_that_was_acknowledged_before(set_client):
    """Also what the thread that reads the log for all streams has not come to yet."""
    db = set_client.in_one_batch
    db.c.drop()
    db.create_collection("c")
    stream = db.command("aggregate", "c", pipeline=[{"$changeStream": {"showExpandedEvents": True}}], cursor={})
    in_parts = 0
    for n in range(100):
        db.c.insert_one({"_id": n})
        db.c.create_index("a")
        db.c.drop_index("a_1")
        batches = []
        while sum(map(len, batches)) < 3:
            batches.append(db.command("getMore", stream["cursor"]["id"], collection="c", maxTimeMS=500)["cursor"]["nextBatch"])
        assert [event["operationType"] for batch in batches for event in batch] == ["insert", "createIndexes", "dropIndexes"]
        in_parts += len(batches) > 1
    # on a machine that is very busy that thread may not run for a while
    assert in_parts <= 2
