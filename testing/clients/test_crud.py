"""Collections, cursors, bulk writes, GridFS and write errors through PyMongo."""

import gridfs
import pytest
from pymongo import ASCENDING, DESCENDING, DeleteOne, InsertOne, ReplaceOne, UpdateMany, UpdateOne
from pymongo.errors import BulkWriteError, CursorNotFound, DuplicateKeyError, OperationFailure


def test_a_new_database_exists_with_its_first_write(client, db):
    assert db.name not in client.list_database_names()
    assert db.c.find_one() is None and db.c.count_documents({}) == 0 and db.list_collection_names() == []
    db.c.insert_one({"a": 1})
    assert db.name in client.list_database_names()
    assert db.list_collection_names() == ["c"]
    client.drop_database(db.name)
    assert db.name not in client.list_database_names()


def test_cursor_over_100_000_documents(db):
    for base in range(0, 100_000, 10_000):
        db.c.insert_many([{"_id": base + i, "v": "x" * 20} for i in range(10_000)])
    seen = [d["_id"] for d in db.c.find({}, batch_size=7_000)]
    assert seen == list(range(100_000))
    assert db.c.estimated_document_count() == 100_000
    assert db.c.count_documents({"_id": {"$gte": 99_000}}) == 1_000


def test_sort_skip_limit_projection(db):
    db.c.insert_many([{"_id": i, "a": i % 10, "b": -i, "pad": "p"} for i in range(300)])
    expect = sorted(range(300), key=lambda i: (i % 10, i))
    def ids(): return [d["_id"] for d in db.c.find({}, {"_id": 1}).sort([("a", 1), ("b", -1)])]
    assert ids() == expect
    db.c.create_index([("a", ASCENDING), ("b", DESCENDING)])
    assert ids() == expect
    page = list(db.c.find({"a": {"$gt": 3}}, {"pad": 0}).sort("b", 1).skip(5).limit(3))
    assert [d["_id"] for d in page] == [i for i in range(299, 0, -1) if i % 10 > 3][5:8]
    assert set(page[0]) == {"_id", "a", "b"}
    assert list(db.c.find({"_id": 7}, {"a": 1, "_id": 0})) == [{"a": 7}]


def test_kill_cursor_and_get_more(db):
    db.c.insert_many([{"_id": i} for i in range(500)])
    cursor = db.c.find(batch_size=10)
    next(cursor)
    reply = db.command("killCursors", "c", cursors=[cursor.cursor_id])
    assert reply["cursorsKilled"] == [cursor.cursor_id]
    with pytest.raises(CursorNotFound) as caught:
        list(cursor)
    assert caught.value.code == 43


def test_duplicate_key(db):
    db.c.create_index([("a", 1), ("b", -1)], unique=True)
    db.c.insert_one({"_id": 1, "a": "x", "b": 2})
    with pytest.raises(DuplicateKeyError) as caught:
        db.c.insert_one({"_id": 2, "a": "x", "b": 2.0})
    details = caught.value.details
    assert details["code"] == 11000
    assert details["keyPattern"] == {"a": 1, "b": -1} and details["keyValue"] == {"a": "x", "b": 2.0}
    assert details["errmsg"] == (
        f'E11000 duplicate key error collection: {db.name}.c index: a_1_b_-1 dup key: {{ a: "x", b: 2.0 }}'
    )
    with pytest.raises(DuplicateKeyError) as caught:
        db.c.insert_one({"_id": 1})
    assert caught.value.details["keyPattern"] == {"_id": 1}
    with pytest.raises(DuplicateKeyError):
        db.c.insert_one({"_id": 3}) and db.c.insert_one({"_id": 4})
    with pytest.raises(DuplicateKeyError):
        db.c.update_one({"_id": 3}, {"$set": {"a": "x", "b": 2}})
    assert db.c.find_one({"_id": 3}) == {"_id": 3}


def test_bulk_write(db):
    db.c.insert_many([{"_id": i, "n": 0} for i in range(5)])
    result = db.c.bulk_write([
        InsertOne({"_id": 10}),
        UpdateOne({"_id": 1}, {"$inc": {"n": 1}}),
        UpdateMany({"n": 0}, {"$set": {"m": 1}}),
        ReplaceOne({"_id": 11}, {"z": 1}, upsert=True),
        DeleteOne({"_id": 0}),
    ])
    assert (result.inserted_count, result.matched_count, result.modified_count) == (1, 5, 5)
    assert (result.upserted_ids, result.deleted_count) == ({3: 11}, 1)


def test_ordered_and_unordered_write_errors(db):
    documents = [{"_id": 1}, {"_id": 2}, {"_id": 1}, {"_id": 3}, {"_id": 2}]
    with pytest.raises(BulkWriteError) as caught:
        db.ordered.insert_many(documents)
    assert caught.value.details["nInserted"] == 2
    assert [e["index"] for e in caught.value.details["writeErrors"]] == [2]
    with pytest.raises(BulkWriteError) as caught:
        db.unordered.insert_many(documents, ordered=False)
    assert caught.value.details["nInserted"] == 3
    assert [(e["index"], e["code"]) for e in caught.value.details["writeErrors"]] == [(2, 11000), (4, 11000)]
    assert sorted(d["_id"] for d in db.unordered.find()) == [1, 2, 3]


def test_deletes(db):
    db.c.create_index("a")
    db.c.insert_many([{"_id": i, "a": i % 4} for i in range(40)])
    assert db.c.delete_one({"a": 1}).deleted_count == 1
    assert db.c.delete_many({"a": {"$in": [1, 2]}}).deleted_count == 19
    assert db.c.delete_many({}).deleted_count == 20
    assert db.c.estimated_document_count() == 0
    assert db.validate_collection("c", full=True)["valid"]


def test_distinct(db):
    db.c.insert_many([{"a": [1, 2]}, {"a": 2.0}, {"a": "x"}, {"a": None}, {}])
    assert sorted(db.c.distinct("a"), key=str) == [1, 2, None, "x"]
    assert db.c.distinct("a", {"a": {"$type": "number"}}) == [1, 2]


def test_indexes(db):
    assert db.c.create_index([("a", 1)]) == "a_1"
    db.c.create_index([("b", 1), ("c.d", -1)], name="bc", unique=True, sparse=True)
    info = db.c.index_information()
    assert info["_id_"]["key"] == [("_id", 1)] and info["a_1"]["key"] == [("a", 1)]
    assert info["bc"]["unique"] and info["bc"]["sparse"]
    with pytest.raises(OperationFailure) as caught:
        db.c.create_index([("a", -1)], name="a_1")
    assert caught.value.code == 86
    with pytest.raises(OperationFailure) as caught:
        db.c.create_index([("a", 1)], name="other")
    assert caught.value.code == 85
    db.c.drop_index("bc")
    with pytest.raises(OperationFailure) as caught:
        db.c.drop_index("bc")
    assert caught.value.code == 27
    with pytest.raises(OperationFailure) as caught:
        db.c.drop_index("_id_")
    assert caught.value.code == 72


def test_unique_index_build_over_duplicates_fails_and_leaves_nothing(db):
    db.c.insert_many([{"a": 1}, {"a": 1}])
    with pytest.raises(DuplicateKeyError):
        db.c.create_index("a", unique=True)
    assert list(db.c.index_information()) == ["_id_"]


def test_parallel_arrays(db):
    db.c.create_index([("a", 1), ("b", 1)])
    with pytest.raises(OperationFailure) as caught:
        db.c.insert_one({"a": [1], "b": [2]})
    assert caught.value.code == 171


def test_sparse_unique_allows_many_missing(db):
    db.c.create_index("a", unique=True, sparse=True)
    db.c.insert_many([{}, {}, {"a": 1}])
    assert sorted(d.get("a", 0) for d in db.c.find()) == [0, 0, 1]


def test_collections(client, db):
    db.create_collection("x")
    with pytest.raises(OperationFailure) as caught:
        db.command("create", "x", capped=True, size=4096)
    assert caught.value.code in (48, 238)
    db.x.insert_one({"_id": 1})
    db.x.rename("y")
    assert db.list_collection_names() == ["y"] and db.y.find_one() == {"_id": 1}
    db.z.insert_one({})
    with pytest.raises(OperationFailure) as caught:
        db.y.rename("z")
    assert caught.value.code == 48
    db.y.rename("z", dropTarget=True)
    assert db.z.find_one() == {"_id": 1}
    with pytest.raises(OperationFailure) as caught:
        db.nope.rename("other")
    assert caught.value.code == 26
    assert db.drop_collection("z")["ok"] == 1
    info = client.admin.command("listDatabases", nameOnly=True)
    assert {"admin", "local"} - {d["name"] for d in info["databases"]} in ({"admin", "local"}, {"admin"}, {"local"}, set())


def test_gridfs(db):
    fs = gridfs.GridFS(db)
    content = bytes(range(256)) * 4_000
    file_id = fs.put(content, filename="f.bin", kind="test")
    assert fs.get(file_id).read() == content
    assert fs.find_one({"filename": "f.bin"}).length == len(content)
    fs.delete(file_id)
    assert not fs.exists(file_id) and db.fs.chunks.count_documents({}) == 0


def test_explain_names_the_stages(db):
    db.c.create_index("a")
    db.c.insert_many([{"_id": i, "a": i} for i in range(100)])

    def stages(cursor):
        stage, names = cursor.explain()["queryPlanner"]["winningPlan"], []
        while stage:
            names.append(stage["stage"])
            stage = stage.get("inputStage")
        return names

    assert stages(db.c.find({"b": 1})) == ["COLLSCAN"]
    assert stages(db.c.find({"a": 5})) == ["FETCH", "IXSCAN"]
    assert stages(db.c.find().sort("b", 1)) == ["SORT", "COLLSCAN"]
    assert stages(db.c.find().sort("a", 1)) == ["FETCH", "IXSCAN"]
    assert stages(db.c.find({"_id": 5})) == ["IDHACK"]
    execution = db.command(
        "explain", {"find": "c", "filter": {"a": {"$gte": 90}}}, verbosity="executionStats"
    )["executionStats"]
    assert (execution["nReturned"], execution["totalKeysExamined"], execution["totalDocsExamined"]) == (10, 10, 10)


def test_big_documents(db):
    db.c.insert_one({"_id": 1, "v": "x" * (16 * 1024 * 1024 - 100)})
    assert len(db.c.find_one()["v"]) == 16 * 1024 * 1024 - 100
    with pytest.raises(OperationFailure) as caught:
        db.c.update_one({"_id": 1}, {"$set": {"w": "y" * 1000}})
    assert caught.value.code in (17419, 10334)
    big = {"_id": 2, "v": "x" * (16 * 1024 * 1024)}
    reply = db.command("insert", "c", documents=[big, {"_id": 3}], ordered=False)
    size = 16 * 1024 * 1024
    text = f"object to insert too large. size in bytes: {size + 22}, max size: {size}"
    assert reply["n"] == 1
    assert reply["writeErrors"] == [{"index": 0, "code": 2, "errmsg": text}]


def test_journaled_changes_of_the_catalogue_are_durable_when_they_are_answered(client, db):
    journaled = {"w": 1, "j": True}
    for command in [
        {"create": "c", "writeConcern": journaled},
        {"createIndexes": "c", "indexes": [{"key": {"a": 1}, "name": "a_1"}], "writeConcern": journaled},
        {"dropIndexes": "c", "index": "a_1", "writeConcern": journaled},
        {"drop": "c", "writeConcern": {"w": "majority"}},
    ]:
        db.command(command)
        log = client.admin.command("serverStatus")["arborLog"]
        assert log["durable"] == log["appended"], command
