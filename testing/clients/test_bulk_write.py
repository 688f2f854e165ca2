"""`bulkWrite` over several collections, as drivers send it for wire version 25, and `sort` of an update."""

import pymongo
import pytest
from pymongo import DeleteMany, DeleteOne, InsertOne, ReplaceOne, UpdateMany, UpdateOne
from pymongo.errors import ClientBulkWriteException, OperationFailure


def ns(db, name):
    return f"{db.name}.{name}"


def test_driver_writes_over_several_collections(client, db):
    a, b = ns(db, "a"), ns(db, "b")
    result = client.bulk_write(
        [
            InsertOne({"_id": 1, "n": 1}, namespace=a),
            InsertOne({"_id": 2, "n": 2}, namespace=a),
            InsertOne({"_id": 1}, namespace=b),
            UpdateMany({}, {"$inc": {"n": 10}}, namespace=a),
            UpdateOne({"_id": 9}, {"$set": {"n": 9}}, upsert=True, namespace=b),
            ReplaceOne({"_id": 1}, {"r": 1}, namespace=b),
            DeleteOne({"_id": 2}, namespace=a),
            DeleteMany({"n": 9}, namespace=b),
        ],
        verbose_results=True,
    )
    assert (result.inserted_count, result.matched_count, result.modified_count) == (3, 3, 3)
    assert (result.upserted_count, result.deleted_count) == (1, 2)
    assert result.update_results[4].upserted_id == 9
    assert result.insert_results[2].inserted_id == 1
    assert list(db.a.find()) == [{"_id": 1, "n": 11}] and list(db.b.find()) == [{"_id": 1, "r": 1}]


def test_ordered_stops_and_unordered_goes_on(client, db):
    a = ns(db, "a")
    db.a.insert_one({"_id": 1})
    models = [InsertOne({"_id": i}, namespace=a) for i in (0, 1, 2)]
    with pytest.raises(ClientBulkWriteException) as caught:
        client.bulk_write(models, verbose_results=True)
    assert [(e["idx"], e["code"]) for e in caught.value.write_errors] == [(1, 11000)]
    assert caught.value.partial_result.inserted_count == 1
    assert sorted(d["_id"] for d in db.a.find()) == [0, 1]
    with pytest.raises(ClientBulkWriteException) as caught:
        client.bulk_write(models, ordered=False)
    assert [e["idx"] for e in caught.value.write_errors] == [0, 1]
    assert sorted(d["_id"] for d in db.a.find()) == [0, 1, 2]


def test_reply_in_full(client, db):
    reply = client.admin.command(
        "bulkWrite",
        1,
        ops=[
            {"insert": 0, "document": {"_id": 1}},
            {"insert": 0, "document": {"_id": 1}},
            {"update": 0, "filter": {"_id": 1}, "updateMods": {"$set": {"a": 1}}},
            {"delete": 0, "filter": {}, "multi": True},
        ],
        nsInfo=[{"ns": ns(db, "a")}],
        ordered=False,
        comment="c",
    )
    cursor = reply.pop("cursor")
    assert cursor["id"] == 0 and cursor["ns"] == "admin.$cmd.bulkWrite"
    good, bad, updated, deleted = cursor["firstBatch"]
    assert good == {"ok": 1.0, "idx": 0, "n": 1}
    assert (bad["ok"], bad["idx"], bad["n"], bad["code"], bad["keyValue"]) == (0.0, 1, 0, 11000, {"_id": 1})
    assert updated == {"ok": 1.0, "idx": 2, "n": 1, "nModified": 1}
    assert deleted == {"ok": 1.0, "idx": 3, "n": 1}
    del reply["ok"]
    assert reply == {"nErrors": 1, "nInserted": 1, "nMatched": 1, "nModified": 1, "nUpserted": 0, "nDeleted": 1}


def test_answers_beyond_the_first_batch_and_errors_only(client, db):
    ops = [{"insert": 0, "document": {"_id": i % 60}} for i in range(100)]
    command = {"bulkWrite": 1, "ops": ops, "nsInfo": [{"ns": ns(db, "a")}], "ordered": False}
    reply = client.admin.command({**command, "cursor": {"batchSize": 30}})
    cursor = reply["cursor"]
    found = list(cursor["firstBatch"])
    while cursor["id"]:
        cursor = client.admin.command({"getMore": cursor["id"], "collection": "$cmd.bulkWrite"})["cursor"]
        found += cursor["nextBatch"]
    assert [f["idx"] for f in found] == list(range(100)) and reply["nErrors"] == 40
    db.a.drop()
    reply = client.admin.command({**command, "errorsOnly": True})
    assert [f["idx"] for f in reply["cursor"]["firstBatch"]] == list(range(60, 100)) and reply["nInserted"] == 60


def test_let_array_filters_hint_and_validation(client, db):
    db.create_collection("v", validator={"n": {"$type": "int"}})
    reply = client.admin.command(
        "bulkWrite",
        1,
        ops=[
            {"insert": 0, "document": {"_id": 1, "n": 5, "list": [1, 2]}},
            {"insert": 0, "document": {"_id": 2, "n": "x"}},
        ],
        nsInfo=[{"ns": ns(db, "v")}],
    )
    bad = reply["cursor"]["firstBatch"][1]
    assert bad["code"] == 121 and bad["errInfo"]["failingDocumentId"] == 2
    client.bulk_write([InsertOne({"_id": 2, "n": "x"}, namespace=ns(db, "v"))], bypass_document_validation=True)
    models = [
        UpdateOne({"$expr": {"$eq": ["$n", "$$five"]}}, {"$set": {"list.$[e]": 9}}, array_filters=[{"e": 2}],
                  hint="_id_", namespace=ns(db, "v")),
        UpdateOne({"_id": 1}, [{"$set": {"m": "$$five"}}], namespace=ns(db, "v")),
    ]
    client.bulk_write(models, let={"five": 5})
    assert db.v.find_one({"_id": 1}) == {"_id": 1, "n": 5, "list": [1, 9], "m": 5}


@pytest.mark.parametrize(
    "ops, info, code",
    [
        ([], [{"ns": "d.c"}], 16),
        ([{"insert": 0, "document": {}}], [], 16),
        ([{"insert": 1, "document": {}}], [{"ns": "d.c"}], 2),
        ([{"insert": 0, "document": {}}], [{"ns": "dc"}], 73),
        ([{"insert": 0, "document": {}}], [{"namespace": "d.c"}], 40415),
        ([{"upsert": 0}], [{"ns": "d.c"}], 9),
        ([{"update": 0, "filter": {}, "updateMods": {}, "multi": True, "sort": {"a": 1}}], [{"ns": "d.c"}], 9),
    ],
    ids=str,
)
def test_bad_requests(client, ops, info, code):
    with pytest.raises(OperationFailure) as caught:
        client.admin.command("bulkWrite", 1, ops=ops, nsInfo=info)
    assert caught.value.code == code


def test_only_on_admin_and_not_on_views(client, db):
    with pytest.raises(OperationFailure) as caught:
        db.command("bulkWrite", 1, ops=[{"insert": 0, "document": {}}], nsInfo=[{"ns": ns(db, "a")}])
    assert caught.value.code == 13
    db.create_collection("view", viewOn="a", pipeline=[])
    ops = [{"insert": 0, "document": {}}, {"insert": 1, "document": {}}]
    reply = client.admin.command(
        "bulkWrite", 1, ops=ops, nsInfo=[{"ns": ns(db, "view")}, {"ns": ns(db, "a")}], ordered=False
    )
    assert reply["cursor"]["firstBatch"][0]["code"] == 166 and reply["nInserted"] == 1


def test_an_update_takes_the_first_of_a_sort(db):
    db.a.insert_many([{"_id": i, "n": -i} for i in range(5)])
    assert db.a.update_one({}, {"$set": {"hit": 1}}, sort={"n": 1}).modified_count == 1
    assert db.a.find_one({"hit": 1})["_id"] == 4
    db.a.replace_one({"_id": {"$gt": 0}}, {"new": 1}, sort={"_id": pymongo.ASCENDING})
    assert db.a.find_one({"new": 1})["_id"] == 1
    with pytest.raises(OperationFailure) as caught:
        db.command("update", "a", updates=[{"q": {}, "u": {"$set": {"a": 1}}, "multi": True, "sort": {"n": 1}}])
    assert caught.value.code == 9
