"""How often indexes are used; the options of $currentOp."""

import datetime

import pytest
from pymongo.errors import OperationFailure


def accesses(collection):
    return {entry["name"]: entry["accesses"]["ops"] for entry in collection.aggregate([{"$indexStats": {}}])}


def test_uses_are_counted(db):
    db.c.insert_many([{"_id": i, "a": i % 5, "b": i} for i in range(50)])
    db.c.create_index("a")
    db.c.create_index("b")
    assert accesses(db.c) == {"_id_": 0, "a_1": 0, "b_1": 0}
    list(db.c.find({"a": 1}))
    db.c.find_one({"_id": 3})
    db.c.update_one({"_id": 3}, {"$set": {"x": 1}})
    db.c.delete_many({"b": {"$gt": 48}})
    list(db.c.aggregate([{"$match": {"a": 2}}, {"$count": "n"}]))
    db.c.count_documents({"x": 1})
    db.command("explain", {"find": "c", "filter": {"a": 1}})
    assert accesses(db.c) == {"_id_": 2, "a_1": 2, "b_1": 1}
    entry = next(db.c.aggregate([{"$indexStats": {}}, {"$match": {"name": "a_1"}}]))
    assert isinstance(entry["accesses"]["since"], datetime.datetime) and entry["spec"]["key"] == {"a": 1}
    db.c.drop_index("a_1")
    db.c.create_index("a")
    assert accesses(db.c)["a_1"] == 0


def test_scans_are_counted(db):
    db.c.insert_many([{"x": i} for i in range(5)])
    for _ in range(3):
        list(db.c.find({"x": 1}))
    stats = db.c.aggregate([{"$collStats": {"queryExecStats": {}, "count": {}}}]).next()
    assert stats["queryExecStats"]["collectionScans"]["total"] == 3 and stats["count"] == 5


def test_of_a_time_series(db):
    series = db.create_collection("s", timeseries={"timeField": "t", "metaField": "m"})
    series.insert_many([{"t": datetime.datetime(2026, 1, 1, i), "m": i % 3} for i in range(10)])
    assert series.count_documents({"m": 1}, hint={"m": 1, "t": 1}) == 3
    assert series.find({"m": 1}).hint("m_1_t_1").to_list()
    stats = list(series.aggregate([{"$indexStats": {}}]))
    assert [(s["name"], s["key"], s["accesses"]["ops"]) for s in stats] == [("m_1_t_1", {"m": 1, "t": 1}, 2)]
    statistics = series.aggregate([{"$collStats": {"storageStats": {}}}]).next()
    assert statistics["storageStats"]["timeseries"]["bucketCount"] == 10
    with pytest.raises(OperationFailure) as caught:
        list(series.find({"m": 1}).hint({"m": -1}))
    assert caught.value.code == 2


def test_idle_cursors(client, db):
    db.c.insert_many([{"_id": i} for i in range(50)])
    cursor = db.c.find(batch_size=10)
    next(cursor)
    current = lambda **options: list(client.admin.aggregate([{"$currentOp": options}]))
    found = [op for op in current(idleCursors=True) if op["type"] == "idleCursor" and op["ns"] == f"{db.name}.c"]
    assert [op["cursor"]["cursorId"] for op in found] == [cursor.cursor_id]
    assert not [op for op in current() if op["type"] == "idleCursor"]
    cursor.close()
    for options, code in [({"idleCursors": 1}, 14), ({"other": True}, 40415)]:
        with pytest.raises(OperationFailure) as caught:
            current(**options)
        assert caught.value.code == code
