"""The profiler: what is recorded in `system.profile` at which level, and what its documents and the slow query log say."""

import json
import threading

import pymongo
import pytest
from pymongo.errors import OperationFailure

from arbor_process import Arbor


@pytest.fixture
def profiled(db):
    db.c.insert_many([{"_id": n, "a": n % 10} for n in range(100)])
    db.c.create_index("a")
    yield db
    db.command({"profile": 0, "slowms": 100, "sampleRate": 1.0, "filter": "unset"})


def recorded(db, **filter):
    """The documents of the profile in the order of their operations, without those of `profile` and of this function."""
    filter = {"command.profile": {"$exists": False}, "ns": {"$ne": f"{db.name}.system.profile"}, **filter}
    return list(db["system.profile"].find(filter).sort("$natural", 1))


def test_level_two_records_every_operation(profiled):
    assert profiled.command({"profile": 2})["was"] == 0
    list(profiled.c.find({"a": 3}, batch_size=4))
    profiled.c.find_one({"_id": 4})
    profiled.c.update_many({"a": 3}, {"$inc": {"b": 1}})
    profiled.c.delete_one({"a": 4})
    profiled.c.insert_one({"_id": "x"})
    list(profiled.c.find({"b": 1}).sort("b", 1))
    profiled.c.distinct("a")
    with pytest.raises(OperationFailure):
        profiled.command({"find": "c", "filter": {"$bad": 1}})
    assert profiled.command({"profile": 0})["was"] == 2
    profiled.c.find_one({"_id": 5})
    documents = recorded(profiled)
    assert all(document["ns"] == f"{profiled.name}.c" and document["millis"] >= 0 for document in documents)
    assert all(document["client"] == "127.0.0.1" and document["ts"].year > 2020 for document in documents)

    def shown(document, *names):
        return tuple(document.get(name) for name in names)

    examined = ("op", "planSummary", "keysExamined", "docsExamined", "nreturned")
    assert [shown(document, *examined) for document in documents] == [
        ("query", "IXSCAN { a: 1 }", 4, 4, 4),
        ("getmore", "IXSCAN { a: 1 }", 4, 4, 4),
        ("getmore", "IXSCAN { a: 1 }", 2, 2, 2),
        ("query", "IDHACK", 1, 1, 1),
        ("update", "IXSCAN { a: 1 }", 10, 10, None),
        ("remove", "IXSCAN { a: 1 }", 1, 1, None),
        ("insert", None, 0, 0, None),
        ("query", "COLLSCAN", 0, 100, 10),
        ("command", "DISTINCT_SCAN { a: 1 }", 11, documents[8]["docsExamined"], None),
        ("query", None, 0, 0, None),
    ]
    query, _, last, _, update, remove, insert, sorted_, _, failed = documents
    assert query["cursorid"] and query["execStats"]["inputStage"]["indexName"] == "a_1"
    assert last["cursorExhausted"] and "cursorid" not in last
    assert shown(update, "nMatched", "nModified") == (10, 10) and update["command"]["u"] == {"$inc": {"b": 1}}
    assert shown(remove, "ndeleted", "keysDeleted") == (1, 1) and shown(insert, "ninserted", "keysInserted") == (1, 1)
    assert sorted_["hasSortStage"] and sorted_["cpuNanos"] > 0
    assert shown(failed, "errCode", "errName") == (2, "BadValue")


def test_a_pipeline_that_is_read_to_its_end_says_so(profiled):
    profiled.command({"profile": 2})
    pipeline = [{"$match": {"a": 3}}]
    list(profiled.c.aggregate(pipeline, batchSize=4))
    list(profiled.c.aggregate(pipeline))
    profiled.command({"profile": 0})
    shown = [(one["op"], "cursorid" in one, one.get("cursorExhausted")) for one in recorded(profiled)]
    assert shown == [("command", True, None), ("getmore", True, None), ("getmore", False, True), ("command", False, True)]


def test_level_one_records_what_is_slow_or_what_the_filter_takes(profiled):
    profiled.command({"profile": 1, "slowms": 60_000})
    profiled.c.find_one({"a": 1})
    assert recorded(profiled) == []
    profiled.command({"profile": 1, "slowms": 0})
    profiled.c.find_one({"a": 1})
    assert len(recorded(profiled)) == 1
    profiled.command({"profile": 1, "sampleRate": 0.0})
    profiled.c.find_one({"a": 1})
    assert len(recorded(profiled)) == 1
    profiled.command({"profile": 1, "filter": {"op": "query", "docsExamined": {"$gt": 50}}})
    state = profiled.command({"profile": -1})
    assert state["filter"] == {"op": "query", "docsExamined": {"$gt": 50}} and "note" in state
    profiled.c.find_one({"a": 1})
    list(profiled.c.find({"b": 1}))
    profiled.c.insert_one({})
    assert [document["planSummary"] for document in recorded(profiled)[1:]] == ["COLLSCAN"]
    for wrong in ({"filter": 1}, {"sampleRate": 1.5}):
        with pytest.raises(OperationFailure) as caught:
            profiled.command({"profile": 1, **wrong})
        assert caught.value.code == 2
    assert profiled.client.another_database.command({"profile": -1})["was"] == 0


def test_the_collection_of_the_profile(profiled):
    profiled.command({"profile": 2})
    (listed,) = profiled.list_collections(filter={"name": "system.profile"})
    assert listed["options"] == {"capped": True, "size": 1 << 20}
    with pytest.raises(OperationFailure) as caught:
        profiled.drop_collection("system.profile")
    assert caught.value.code == 20
    profiled.command({"profile": 0})
    profiled.drop_collection("system.profile")
    assert "system.profile" not in profiled.list_collection_names()
    # operations continue when the collection is not there
    profiled.command({"profile": 2})
    profiled.c.find_one({"_id": 1})
    assert len(recorded(profiled, **{"command.find": "c"})) == 1


def test_the_profile_is_not_in_the_oplog(set_client):
    db = set_client.profile_of_a_member
    db.command({"profile": 2})
    try:
        db.c.insert_one({"_id": 1})
        assert len(recorded(db, op="insert")) == 1
    finally:
        db.command({"profile": 0})
    namespaces = {entry["ns"] for entry in set_client.local.oplog.rs.find({"ns": {"$regex": "^profile_of_a_member"}})}
    assert f"{db.name}.c" in namespaces and f"{db.name}.system.profile" not in namespaces
    creates = set_client.local.oplog.rs.count_documents({"ns": f"{db.name}.$cmd", "o.create": "system.profile"})
    assert creates == 0


def test_the_level_of_the_start(tmp_path):
    with Arbor(tmp_path / "data", ["--profile", "2"]) as server, pymongo.MongoClient(server.uri) as client:
        client.t.c.find_one({"a": 1})
        assert [document["op"] for document in recorded(client.t)] == ["query"]


def test_the_slow_query_log_says_what_was_done(tmp_path):
    with Arbor(tmp_path / "data", ["--slowms", "0"]) as server, pymongo.MongoClient(server.uri) as client:
        client.t.c.insert_many([{"_id": n, "a": n} for n in range(50)])
        client.t.c.create_index("a")
        list(client.t.c.find({"a": {"$lt": 20}}).sort("b", 1))
        lines = [json.loads(line) for line in server.log_path.read_text().splitlines() if "Slow query" in line]
        (find,) = [line["attr"] for line in lines if "find" in line["attr"]["command"]]
        assert find["planSummary"] == "IXSCAN { a: 1 }" and find["hasSortStage"]
        assert (find["keysExamined"], find["docsExamined"], find["nreturned"]) == (20, 20, 20)
        assert find["cpuNanos"] > 0 and "locks" in find and "storage" in find
        assert find["type"] == "command" and find["workingMillis"] <= find["durationMillis"]


def test_the_slow_query_log_shows_the_statement_of_a_write(tmp_path):
    with Arbor(tmp_path / "data", ["--slowms", "0"]) as server, pymongo.MongoClient(server.uri) as client:
        client.t.c.insert_many([{"_id": n, "a": n} for n in range(5)])
        client.t.c.update_many({"a": {"$lt": 2}}, {"$set": {"b": 1}})
        client.t.c.delete_one({"a": 4})
        client.t.c.bulk_write([pymongo.UpdateOne({"_id": n}, {"$set": {"c": 1}}) for n in range(2)])
        lines = [json.loads(line)["attr"] for line in server.log_path.read_text().splitlines() if "Slow query" in line]
    writes = [line for line in lines if line["ns"] == "t.c"]
    assert [line["type"] for line in writes] == ["command", "update", "remove", "command"]
    _, update, remove, bulk = writes
    assert update["command"]["q"] == {"a": {"$lt": 2}} and update["command"]["u"] == {"$set": {"b": 1}} and update["nModified"] == 2
    assert remove["command"] == {"q": {"a": 4}, "limit": 1} and remove["ndeleted"] == 1
    assert bulk["command"]["update"] == "c"


def test_the_summary_of_counts(profiled):
    profiled.command({"profile": 2})
    profiled.c.count_documents({"a": 3})
    profiled.command({"count": "c", "query": {"a": 3}})
    profiled.command({"count": "c", "query": {"a": 3, "_id": {"$gt": 5}}})
    profiled.c.estimated_document_count()
    profiled.command({"profile": 0})
    summaries = [document["planSummary"] for document in recorded(profiled)]
    assert summaries == ["COUNT_SCAN { a: 1 }", "COUNT_SCAN { a: 1 }", "IXSCAN { a: 1 }", "RECORD_STORE_FAST_COUNT"]


def test_the_log_level_of_commands(tmp_path):
    with Arbor(tmp_path / "data") as server, pymongo.MongoClient(server.uri) as client:

        def logged():
            return sum("Slow query" in line and '"find":"c"' in line for line in server.log_path.read_text().splitlines())

        client.t.c.find_one({"a": 1})
        assert logged() == 0
        was = client.admin.command({"setParameter": 1, "logComponentVerbosity": {"command": {"verbosity": 1}}})["was"]
        assert was["verbosity"] == 0 and was["storage"]["journal"]["verbosity"] == -1
        client.t.c.find_one({"a": 1})
        assert logged() == 1
        now = client.admin.command({"getParameter": 1, "logComponentVerbosity": 1})["logComponentVerbosity"]
        assert now["command"]["verbosity"] == 1
        client.admin.command({"setParameter": 1, "logComponentVerbosity": {"command": {"verbosity": -1}}})
        client.t.c.find_one({"a": 1})
        assert logged() == 1
        with pytest.raises(OperationFailure) as caught:
            client.admin.command({"setParameter": 1, "logComponentVerbosity": {"nosuch": {"verbosity": 1}}})
        assert caught.value.code == 2


def test_running_operations_show_their_plan(client, db):
    db.c.insert_many([{"a": n} for n in range(2000)])
    slow = {"$expr": {"$gt": [{"$size": {"$range": [0, {"$add": [300, {"$abs": "$a"}]}]}}, 0]}}
    seen = []

    def run():
        list(db.c.find({"b": None, **slow}, batch_size=1000))

    runner = threading.Thread(target=run)
    runner.start()
    while runner.is_alive():
        for operation in client.admin.aggregate([{"$currentOp": {}}, {"$match": {"ns": f"{db.name}.c"}}]):
            seen.append(operation)
    runner.join()
    shown = [operation for operation in seen if "planSummary" in operation]
    assert {operation["planSummary"] for operation in shown} == {"COLLSCAN"}, seen
    last = shown[-1]
    assert last["docsExamined"] >= 128 and last["keysExamined"] == 0 and last["storage"] == {}
    assert last["cpuNanos"] > 0
    assert "hasSortStage" not in last


def test_explain_measures_the_time_of_stages(db):
    db.c.insert_many([{"_id": n, "a": n} for n in range(500)])
    costly = {"$expr": {"$gt": [{"$size": {"$range": [0, {"$add": [2000, "$a"]}]}}, 0]}}
    stats = db.command("explain", {"find": "c", "filter": costly, "sort": {"a": 1}}, verbosity="executionStats")["executionStats"]
    sort, scan = stats["executionStages"], stats["executionStages"]["inputStage"]
    assert (sort["stage"], scan["stage"]) == ("SORT", "COLLSCAN")
    assert 0 < scan["executionTimeMillisEstimate"] <= sort["executionTimeMillisEstimate"] <= stats["executionTimeMillis"]
    # the filter is the scan's
    assert scan["executionTimeMillisEstimate"] * 2 > sort["executionTimeMillisEstimate"]


def test_server_status_has_what_tools_read(client, set_client, db):
    db.c.insert_many([{"a": n} for n in range(50)])
    before = client.admin.command("serverStatus")
    list(db.c.find({"b": 1}).sort("a", 1))
    list(db.c.find({}, batch_size=2).limit(5))
    after = client.admin.command("serverStatus")

    def grown(*path):
        one, other = before, after
        for name in path:
            one, other = one[name], other[name]
        return other - one

    assert grown("metrics", "queryExecutor", "scannedObjects") >= 50
    assert grown("metrics", "queryExecutor", "collectionScans", "total") >= 2
    assert grown("metrics", "operation", "scanAndOrder") == 1
    assert grown("metrics", "cursor", "totalOpened") == 1 and grown("metrics", "cursor", "timedOut") == 0
    assert grown("locks", "Global", "acquireCount", "r") > 0
    assert after["tcmalloc"]["generic"]["physical_memory_used"] > 1 << 20
    assert after["queues"]["execution"]["read"]["available"] > 0
    assert after["flowControl"]["isLagged"] is False and "security" in after
    assert "electionMetrics" not in after and "oplogTruncation" not in after
    of_set = set_client.admin.command("serverStatus")
    assert of_set["electionMetrics"]["stepUpCmd"]["called"] == 0 and of_set["oplogTruncation"]["truncateCount"] >= 0
