"""T1 update operators through PyMongo: result documents, counts, errors."""

import pytest
from pymongo import ReturnDocument
from pymongo.errors import OperationFailure, WriteError

# before, update, after, options
CASES = [
    ({"a": 1}, {"$set": {"b.c": 2}}, {"a": 1, "b": {"c": 2}}),
    ({"a": 1, "b": 2}, {"$unset": {"a": ""}}, {"b": 2}),
    ({"a": 1}, {"$inc": {"a": 2, "n": 5}}, {"a": 3, "n": 5}),
    ({"a": 2147483647}, {"$inc": {"a": 1}}, {"a": 2147483648}),
    ({"a": 3}, {"$mul": {"a": 2, "z": 4}}, {"a": 6, "z": 0}),
    ({"a": 3}, {"$min": {"a": 1}, "$max": {"b": 9}}, {"a": 1, "b": 9}),
    ({"a": 1}, {"$rename": {"a": "x.y"}}, {"x": {"y": 1}}),
    ({"a": [1]}, {"$push": {"a": 2}}, {"a": [1, 2]}),
    ({}, {"$push": {"a": 2}}, {"a": [2]}),
    ({"a": [3, 1]}, {"$push": {"a": {"$each": [2, 5], "$sort": 1, "$slice": -3}}}, {"a": [2, 3, 5]}),
    ({"a": [1, 4]}, {"$push": {"a": {"$each": [2, 3], "$position": 1}}}, {"a": [1, 2, 3, 4]}),
    ({"a": [{"v": 2}, {"v": 1}]}, {"$push": {"a": {"$each": [], "$sort": {"v": 1}}}}, {"a": [{"v": 1}, {"v": 2}]}),
    ({"a": [1, 2, 1]}, {"$pull": {"a": 1}}, {"a": [2]}),
    ({"a": [1, 5, 9]}, {"$pull": {"a": {"$gte": 5}}}, {"a": [1]}),
    ({"a": [{"x": 1, "y": 1}, {"x": 2}]}, {"$pull": {"a": {"x": 1}}}, {"a": [{"x": 2}]}),
    ({"a": [1, 2, 3, 2]}, {"$pullAll": {"a": [2, 3]}}, {"a": [1]}),
    ({"a": [1, 2, 3]}, {"$pop": {"a": -1}}, {"a": [2, 3]}),
    ({"a": [1]}, {"$addToSet": {"a": {"$each": [1, 2, 2.0]}}}, {"a": [1, 2]}),
    ({"a": [1, 2]}, {"$set": {"a.1": 9, "a.3": 7}}, {"a": [1, 9, None, 7]}),
    ({"a": [{"b": 1}, {"b": 2}]}, {"$inc": {"a.$[].b": 10}}, {"a": [{"b": 11}, {"b": 12}]}),
    ({"a": 6}, {"$bit": {"a": {"and": 3}}}, {"a": 2}),
    ({"a": 1, "z": 2}, [{"$set": {"b": {"$add": ["$a", "$z"]}}}, {"$unset": "z"}], {"a": 1, "b": 3}),
]


@pytest.mark.parametrize("before, update, after", CASES, ids=lambda v: str(v)[:50])
def test_update(db, before, update, after):
    db.c.insert_one({"_id": 1, **before})
    result = db.c.update_one({"_id": 1}, update)
    assert db.c.find_one({"_id": 1}) == {"_id": 1, **after}
    assert (result.matched_count, result.modified_count) == (1, int(before != after))


def test_positional_and_array_filters(db):
    db.c.insert_one({"_id": 1, "a": [{"k": 1, "v": 0}, {"k": 2, "v": 0}, {"k": 2, "v": 5}]})
    db.c.update_one({"a.k": 2}, {"$set": {"a.$.v": 7}})
    assert [e["v"] for e in db.c.find_one()["a"]] == [0, 7, 5]
    db.c.update_one({}, {"$inc": {"a.$[e].v": 1}}, array_filters=[{"e.k": 2}])
    assert [e["v"] for e in db.c.find_one()["a"]] == [0, 8, 6]


def test_upsert_takes_equalities_from_the_filter(db):
    result = db.c.update_one(
        {"_id": 5, "a.b": 1, "n": {"$gt": 3}, "$and": [{"c": {"$eq": 2}}]},
        {"$set": {"d": 4}, "$setOnInsert": {"e": 5}},
        upsert=True,
    )
    assert result.upserted_id == 5 and result.matched_count == 0
    assert db.c.find_one() == {"_id": 5, "a": {"b": 1}, "c": 2, "d": 4, "e": 5}
    db.c.update_one({"_id": 5}, {"$setOnInsert": {"e": 6}}, upsert=True)
    assert db.c.find_one()["e"] == 5


def test_no_change_is_matched_but_not_modified(db):
    db.c.insert_one({"_id": 1, "a": 1})
    result = db.c.update_one({"_id": 1}, {"$set": {"a": 1}})
    assert (result.matched_count, result.modified_count) == (1, 0)


def test_replace_keeps_the_id(db):
    db.c.insert_one({"_id": 1, "a": 1})
    db.c.replace_one({"a": 1}, {"b": 2})
    assert db.c.find_one() == {"_id": 1, "b": 2}


def test_update_many_with_an_index_on_the_changed_field(db):
    db.c.create_index("n")
    db.c.insert_many([{"_id": i, "n": i} for i in range(500)])
    result = db.c.update_many({"n": {"$gte": 0}}, {"$inc": {"n": 1000}})
    assert result.modified_count == 500
    assert db.c.count_documents({"n": {"$gte": 1000}}) == 500
    assert db.validate_collection("c", full=True)["valid"]


def test_find_and_modify(db):
    db.c.insert_many([{"_id": i, "n": i % 3} for i in range(6)])
    assert db.c.find_one_and_update({"n": 1}, {"$inc": {"n": 10}}, sort=[("_id", -1)]) == {"_id": 4, "n": 1}
    after = db.c.find_one_and_update({"_id": 1}, {"$set": {"z": 1}}, return_document=ReturnDocument.AFTER, projection={"z": 1})
    assert after == {"_id": 1, "z": 1}
    assert db.c.find_one_and_delete({"_id": 0}) == {"_id": 0, "n": 0}
    assert db.c.find_one_and_replace({"_id": 99}, {"q": 1}, upsert=True, return_document=ReturnDocument.AFTER) == {"_id": 99, "q": 1}
    assert db.c.find_one_and_update({"_id": 12345}, {"$set": {"a": 1}}) is None


ERRORS = [
    ({"a": 1}, {"$set": {"_id": 2}}, 66),
    ({"a": 1}, {"$set": {"a": 1}, "$inc": {"a": 1}}, 40),
    ({"a": 1}, {"$set": {"a": 1, "a.b": 1}}, 40),
    ({"a": 1}, {"$set": {"a.b": 1}}, 28),
    ({"a": "x"}, {"$inc": {"a": 1}}, 14),
    ({"a": 1}, {"$push": {"a": 1}}, 2),
    ({"a": 1}, {"$nope": {"a": 1}}, 9),
    ({"a": [1]}, {"$set": {"a.$.b": 1}}, 2),
    ({"a": 1}, {"$rename": {"a": "a"}}, 2),
    ({"a": 1}, {"$inc": {"b": "x"}}, 14),
    ({"a": 1}, {"$set": {"": 1}}, 56),
]


@pytest.mark.parametrize("before, update, code", ERRORS, ids=str)
def test_error(db, before, update, code):
    db.c.insert_one({"_id": 1, **before})
    with pytest.raises(WriteError) as caught:
        db.c.update_one({"_id": 1}, update)
    assert caught.value.code == code
    assert db.c.find_one() == {"_id": 1, **before}


def test_replacement_may_not_be_multi(db):
    reply = db.command("update", "c", updates=[{"q": {}, "u": {"a": 1}, "multi": True}])
    assert reply["n"] == 0 and [e["code"] for e in reply["writeErrors"]] == [9]


def test_replacement_may_not_change_the_id(db):
    db.c.insert_one({"_id": 1, "a": 1})
    with pytest.raises(OperationFailure) as caught:
        db.c.replace_one({"_id": 1}, {"_id": 2})
    assert caught.value.code == 66
