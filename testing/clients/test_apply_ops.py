"""`applyOps`: entries of an oplog, done again."""

import bson
import pytest
from pymongo.errors import OperationFailure


def apply(db, *operations):
    return db.client.admin.command("applyOps", list(operations))


def test_entries_are_done(db):
    ns = f"{db.name}.c"
    reply = apply(
        db,
        {"op": "c", "ns": f"{db.name}.$cmd", "o": {"create": "c", "idIndex": {"v": 2, "key": {"_id": 1}, "name": "_id_"}}},
        {"op": "c", "ns": f"{db.name}.$cmd", "o": {"createIndexes": "c", "v": 2, "key": {"a": 1}, "name": "a_1"}},
        {"op": "i", "ns": ns, "o": {"_id": 1, "a": 1}},
        {"op": "i", "ns": ns, "o": {"_id": 1, "a": 2}},
        {"op": "i", "ns": ns, "o": {"_id": 2, "a": 5, "b": {"c": 1}}},
        {"op": "u", "ns": ns, "o2": {"_id": 2}, "o": {"$v": 2, "diff": {"u": {"a": 6}, "sb": {"i": {"d": 2}}}}},
        {"op": "u", "ns": ns, "o2": {"_id": 9}, "o": {"$v": 2, "diff": {"u": {"a": 6}}}},
        {"op": "u", "ns": ns, "o2": {"_id": 1}, "o": {"_id": 1, "whole": True}},
        {"op": "u", "ns": ns, "o2": {"_id": 1}, "o": {"$v": 1, "$set": {"more": 1}}},
        {"op": "i", "ns": ns, "o": {"_id": 3}},
        {"op": "d", "ns": ns, "o": {"_id": 3}},
        {"op": "n", "ns": "", "o": {"msg": "nothing"}},
    )
    assert reply["applied"] == 12 and reply["results"] == [True] * 12
    assert list(db.c.find().sort("_id", 1)) == [
        {"_id": 1, "whole": True, "more": 1}, {"_id": 2, "a": 6, "b": {"c": 1, "d": 2}}]
    assert sorted(db.c.index_information()) == ["_id_", "a_1"]
    apply(db, {"op": "c", "ns": "admin.$cmd", "o": {"applyOps": [{"op": "d", "ns": ns, "o": {"_id": 1}}]}},
          {"op": "c", "ns": f"{db.name}.$cmd", "o": {"renameCollection": ns, "to": f"{db.name}.d"}})
    assert db.list_collection_names() == ["d"] and db.d.count_documents({}) == 1


@pytest.mark.parametrize("operation, code", [
    ({"op": "x", "ns": "d.c", "o": {}}, 9),
    ({"op": "i", "o": {"_id": 1}}, 40414),
    ({"op": "i", "ns": "d.c"}, 40414),
    ({"op": "i", "ns": "d.c", "o": {"a": 1}}, 4),
    ({"op": "c", "ns": "d.$cmd", "o": {"shutdown": 1}}, 2),
    ({"op": "c", "ns": "d.$cmd", "o": {}}, 9),
    ({"op": "c", "ns": "d.$cmd", "o": {"collMod": "none"}}, 26),
])
def test_bad_entries(db, operation, code):
    if "ns" in operation:
        operation = {**operation, "ns": operation["ns"].replace("d.", f"{db.name}.", 1)}
    with pytest.raises(OperationFailure) as caught:
        apply(db, {"op": "n", "ns": "", "o": {}}, operation)
    assert caught.value.code == code and caught.value.details["results"] == [True, False]


def test_an_oplog_makes_the_same_documents_elsewhere(set_client, db):
    """The history of a set's documents, applied on another server."""
    source = set_client[db.name]
    set_client.drop_database(db.name)
    begin = set_client.admin.command("ping")["operationTime"]
    source.c.insert_many([{"_id": i, "n": 0, "tags": ["a", "b"]} for i in range(20)])
    source.c.create_index("n")
    source.c.update_many({"_id": {"$lt": 10}}, {"$inc": {"n": 1}, "$push": {"tags": "c"}, "$set": {"deep.er": 1}})
    source.c.replace_one({"_id": 15}, {"replaced": bson.Decimal128("1.5")})
    source.c.delete_many({"_id": {"$gte": 18}})
    entries = list(set_client.local["oplog.rs"].find({"ts": {"$gt": begin}, "ns": {"$in": [f"{db.name}.c", f"{db.name}.$cmd"]}}))
    for _ in range(2):
        apply(db, *entries)
        assert list(db.c.find().sort("_id", 1)) == list(source.c.find().sort("_id", 1))
    assert "n_1" in db.c.index_information()
    set_client.drop_database(db.name)
