"""`$queryStats`: what statements cost, by their shape."""

import bson
import pytest
from pymongo.errors import OperationFailure

RATE = "internalQueryStatsRateLimit"


@pytest.fixture
def counted(client, db):
    db.c.insert_many([{"_id": n, "a": n % 10, "b": n} for n in range(100)])
    client.admin.command({"setParameter": 1, RATE: -1})
    yield db
    client.admin.command({"setParameter": 1, RATE: 0})


def entries(db, **options):
    namespace = {"key.queryShape.cmdNs.db": db.name} if not options else {}
    return list(db.client.admin.aggregate([{"$queryStats": options}, {"$match": namespace}]))


def test_nothing_is_counted_unless_asked_for(client, db):
    assert client.admin.command({"getParameter": 1, RATE: 1})[RATE] == 0
    db.c.find_one({"a": 1})
    assert entries(db) == []


def test_statements_of_one_shape_are_one_entry(counted):
    counted.c.create_index("a")
    for value in (1, 2, 2):
        assert len(list(counted.c.find({"a": value}))) == 10
    (entry,) = entries(counted)
    shape = entry["key"]["queryShape"]
    assert shape == {"cmdNs": {"db": counted.name, "coll": "c"}, "command": "find", "filter": {"a": {"$eq": "?number"}}}
    assert entry["key"]["collectionType"] == "collection" and entry["key"]["client"]["driver"]["name"].startswith("PyMongo")
    assert len(entry["keyHash"]) == 64
    explained = counted.command("explain", {"find": "c", "filter": {"a": 5}})
    assert entry["queryShapeHash"] == explained["queryShapeHash"]
    metrics = entry["metrics"]
    assert metrics["execCount"] == 3
    assert (metrics["docsReturned"]["sum"], metrics["docsReturned"]["min"], metrics["docsReturned"]["max"]) == (30, 10, 10)
    assert metrics["docsReturned"]["sumOfSquares"] == bson.Decimal128("300")
    assert metrics["keysExamined"]["sum"] == 30 and metrics["docsExamined"]["sum"] == 30
    assert metrics["hasSortStage"] == {"true": 0, "false": 3} and metrics["usedDisk"] == {"true": 0, "false": 3}
    assert metrics["totalExecMicros"]["max"] >= metrics["totalExecMicros"]["min"] > 0
    assert metrics["firstSeenTimestamp"] <= metrics["latestSeenTimestamp"] and isinstance(entry["asOf"], bson.Timestamp)


def test_other_shapes_options_and_commands_are_other_entries(counted):
    list(counted.c.find({"a": 1}))
    list(counted.c.find({"a": 1}).sort("b", 1))
    list(counted.c.find({"a": 1}, max_time_ms=1000))
    counted.c.distinct("a", {"b": {"$gt": 1}})
    list(counted.c.aggregate([{"$match": {"a": 1}}, {"$group": {"_id": "$b"}}]))
    list(counted.none.find({}))
    found = entries(counted)
    assert sorted(entry["key"]["queryShape"]["command"] for entry in found) == ["aggregate", "distinct", "find", "find", "find", "find"]
    (sorted_,) = [entry for entry in found if "sort" in entry["key"]["queryShape"]]
    assert sorted_["metrics"]["hasSortStage"]["true"] == 1
    (limited,) = [entry for entry in found if "maxTimeMS" in entry["key"]]
    assert limited["key"]["maxTimeMS"] == "?number"
    (missing,) = [entry for entry in found if entry["key"]["queryShape"]["cmdNs"]["coll"] == "none"]
    assert missing["key"]["collectionType"] == "nonExistent"


def test_a_statement_is_counted_with_all_of_its_batches(counted):
    assert len(list(counted.c.find({}, batch_size=30))) == 100
    (entry,) = entries(counted)
    assert entry["metrics"]["execCount"] == 1 and entry["metrics"]["docsReturned"]["max"] == 100
    assert entry["metrics"]["docsExamined"]["sum"] == 100


def test_names_are_replaced_by_hashes(counted):
    list(counted.c.aggregate([{"$match": {"secret.name": 1}}, {"$group": {"_id": "$secret.other", "n": {"$sum": "$$ROOT.secret"}}}]))
    key = bson.Binary(b"x" * 32, 8)
    found = entries(counted, transformIdentifiers={"algorithm": "hmac-sha-256", "hmacKey": key})
    again = entries(counted, transformIdentifiers={"algorithm": "hmac-sha-256", "hmacKey": key})
    (shape,) = [entry["key"]["queryShape"] for entry in found if "$$ROOT" in str(entry["key"]["queryShape"])]
    assert shape in [entry["key"]["queryShape"] for entry in again]
    assert "secret" not in str(shape) and counted.name not in str(shape)
    assert shape["command"] == "aggregate" and "$match" in shape["pipeline"][0] and "$$ROOT." in str(shape)


def test_bad_input(counted):
    admin = counted.client.admin

    def code(database, target, options):
        with pytest.raises(OperationFailure) as caught:
            database.command({"aggregate": target, "pipeline": [{"$queryStats": options}], "cursor": {}})
        return caught.value.code

    assert code(counted, 1, {}) == 73 and code(admin, "c", {}) == 73
    assert code(admin, 1, {"x": 1}) == 40415 and code(admin, 1, {"transformIdentifiers": {}}) == 40414
    key = bson.Binary(b"x" * 32, 8)
    assert code(admin, 1, {"transformIdentifiers": {"algorithm": "rot13", "hmacKey": key}}) == 2
    assert code(admin, 1, {"transformIdentifiers": {"algorithm": "hmac-sha-256"}}) == 40414
    assert code(admin, 1, {"transformIdentifiers": {"algorithm": "hmac-sha-256", "hmacKey": "x"}}) == 14
    with pytest.raises(OperationFailure) as caught:
        list(admin.aggregate([{"$match": {}}, {"$queryStats": {}}]))
    assert caught.value.code == 40602
