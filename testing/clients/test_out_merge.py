"""$out and $merge through PyMongo: every mode, restrictions, other databases, errors that leave what was there."""

import pytest
from pymongo import WriteConcern
from pymongo.errors import DuplicateKeyError, OperationFailure

BOOKS = [
    {"_id": 8751, "title": "The Banquet", "author": "Dante", "copies": 2},
    {"_id": 8752, "title": "Divine Comedy", "author": "Dante", "copies": 1},
    {"_id": 8645, "title": "Eclogues", "author": "Dante", "copies": 2},
    {"_id": 7000, "title": "The Odyssey", "author": "Homer", "copies": 10},
]


@pytest.fixture
def books(db):
    db.books.insert_many(BOOKS)
    return db.books


def refused(run, code, text=""):
    with pytest.raises(OperationFailure) as caught:
        list(run())
    assert caught.value.code == code, caught.value
    assert text in str(caught.value)
    return caught.value


def by_author(out):
    return [{"$group": {"_id": "$author", "books": {"$push": "$title"}}}, {"$sort": {"_id": 1}}, out]


def everything(coll):
    return list(coll.find().sort("_id"))


def test_out(client, db, books):
    answer = db.command("aggregate", "books", pipeline=by_author({"$out": "authors"}), cursor={})
    assert answer["cursor"] == {"id": 0, "ns": f"{db.name}.books", "firstBatch": []}
    assert [doc["_id"] for doc in everything(db.authors)] == ["Dante", "Homer"]
    # what was there goes, indexes stay
    db.authors.create_index("books")
    books.aggregate([{"$match": {"author": "Homer"}}, {"$project": {"title": 1}}, {"$out": {"db": db.name, "coll": "authors"}}])
    assert everything(db.authors) == [{"_id": 7000, "title": "The Odyssey"}]
    assert set(db.authors.index_information()) == {"_id_", "books_1"}
    # another database, its own source, nothing at all
    other = db.name[:50] + "_other"
    client.drop_database(other)
    books.aggregate([{"$out": {"db": other, "coll": "copy"}}])
    assert everything(client[other].copy) == everything(books)
    client.drop_database(other)
    books.aggregate([{"$set": {"n": 1}}, {"$out": "books"}])
    assert all(doc["n"] == 1 for doc in everything(books))
    books.aggregate([{"$match": {"_id": 0}}, {"$out": "authors"}])
    assert everything(db.authors) == [] and "authors" in db.list_collection_names()
    db.aggregate([{"$documents": [{"_id": 1}]}, {"$out": "made"}])
    assert everything(db.made) == [{"_id": 1}]
    assert not [name for name in db.list_collection_names() if name.startswith("tmp.")]


def test_out_that_fails_leaves_what_was_there(db, books):
    db.authors.insert_one({"_id": "old", "k": 1})
    db.authors.create_index("k", unique=True)
    with pytest.raises(DuplicateKeyError):
        books.aggregate([{"$project": {"k": {"$literal": 7}}}, {"$out": "authors"}])
    refused(lambda: books.aggregate([{"$project": {"k": {"$divide": [1, {"$subtract": ["$copies", 10]}]}}}, {"$out": "authors"}]), 2)
    assert everything(db.authors) == [{"_id": "old", "k": 1}]
    assert sorted(db.list_collection_names()) == ["authors", "books"]


def test_where_they_are_allowed(db, books):
    for stage in [{"$out": "x"}, {"$merge": "x"}]:
        name = next(iter(stage))
        refused(lambda: books.aggregate([stage, {"$match": {}}]), 40601, f"{name} can only be the final stage in the pipeline")
        refused(lambda: books.aggregate([{"$facet": {"a": [stage]}}]), 40600)
        refused(lambda: books.aggregate([{"$lookup": {"from": "books", "as": "b", "pipeline": [stage]}}]), 51047)
    refused(lambda: books.aggregate([{"$out": 1}]), 16990)
    refused(lambda: books.aggregate([{"$out": "system.x"}]), 17385)
    refused(lambda: books.aggregate([{"$out": {"db": "local", "coll": "x"}}]), 31321)
    refused(lambda: books.aggregate([{"$merge": 1}]), 14)
    refused(lambda: books.aggregate([{"$merge": {"into": "x", "nope": 1}}]), 40415)
    refused(lambda: books.aggregate([{"$merge": {"into": "x", "on": "title"}}]), 51183)
    refused(lambda: books.aggregate([{"$merge": {"into": "x", "on": []}}]), 51187)
    refused(lambda: books.aggregate([{"$merge": {"into": "x", "on": ["a", "a"]}}]), 31465)
    refused(lambda: books.aggregate([{"$merge": {"into": "x", "whenMatched": "nope"}}]), 2)
    refused(lambda: books.aggregate([{"$merge": {"into": "x", "whenMatched": "fail", "whenNotMatched": "fail"}}]), 51181)
    refused(lambda: books.aggregate([{"$merge": {"into": "x", "let": {"a": 1}, "whenMatched": "merge"}}]), 51199)
    assert db.list_collection_names() == ["books"]


OLD = [{"_id": "Dante", "born": 1265, "n": 1}, {"_id": "Ovid", "born": -43}]
NEW = [{"$group": {"_id": "$author", "n": {"$sum": "$copies"}}}]
DANTE, HOMER, OVID = {"_id": "Dante", "n": 5}, {"_id": "Homer", "n": 10}, OLD[1]
MODES = [
    ("merge", "insert", [{"_id": "Dante", "born": 1265, "n": 5}, HOMER, OVID]),
    ("merge", "discard", [{"_id": "Dante", "born": 1265, "n": 5}, OVID]),
    ("replace", "insert", [DANTE, HOMER, OVID]),
    ("replace", "discard", [DANTE, OVID]),
    ("keepExisting", "insert", [OLD[0], HOMER, OVID]),
    ([{"$set": {"n": {"$add": ["$n", "$$new.n"]}}}], "insert", [{"_id": "Dante", "born": 1265, "n": 6}, HOMER, OVID]),
    ([{"$set": {"n": {"$add": ["$n", "$$new.n"]}}}], "discard", [{"_id": "Dante", "born": 1265, "n": 6}, OVID]),
]


@pytest.mark.parametrize("matched, not_matched, expect", MODES, ids=lambda value: str(value)[:12])
def test_merge_modes(db, books, matched, not_matched, expect):
    db.authors.insert_many(OLD)
    merge = {"into": "authors", "whenMatched": matched, "whenNotMatched": not_matched}
    assert list(books.aggregate(NEW + [{"$merge": merge}])) == []
    assert everything(db.authors) == expect


def test_merge_modes_that_fail(db, books):
    db.authors.insert_many(OLD)
    merge = {"into": "authors", "whenMatched": "fail"}
    error = refused(lambda: books.aggregate(NEW + [{"$merge": merge}]), 11000, "E11000 duplicate key error")
    assert error.details["keyValue"] == {"_id": "Dante"}
    db.authors.delete_many({"_id": "Homer"})
    merge = {"into": "authors", "whenMatched": "merge", "whenNotMatched": "fail"}
    refused(lambda: books.aggregate(NEW + [{"$sort": {"_id": 1}}, {"$merge": merge}]), 13113)
    # what came before the document that failed is written
    assert db.authors.find_one({"_id": "Dante"})["n"] == 5


def test_merge_makes_a_collection_only_to_insert(db, books):
    books.aggregate([{"$match": {"_id": 0}}, {"$merge": "nothing"}])
    books.aggregate([{"$merge": {"into": "nothing", "whenNotMatched": "discard"}}])
    refused(lambda: books.aggregate([{"$merge": {"into": "nothing", "whenNotMatched": "fail"}}]), 13113)
    assert db.list_collection_names() == ["books"]
    books.aggregate([{"$merge": "made"}])
    assert everything(db.made) == everything(books)


def test_merge_on_other_fields(db, books):
    db.stock.create_index([("author", 1), ("shelf.row", -1)], unique=True)
    db.stock.insert_one({"_id": 1, "author": "Dante", "shelf": {"row": 3}, "n": 0})
    pipeline = [{"$group": {"_id": "$author", "n": {"$sum": 1}}}, {"$project": {"_id": 0, "author": "$_id", "n": 1, "shelf.row": {"$literal": 3}}}]
    merge = {"$merge": {"into": "stock", "on": ["shelf.row", "author"]}}
    books.aggregate(pipeline + [merge])
    found = everything(db.stock)
    assert found[0] == {"_id": 1, "author": "Dante", "shelf": {"row": 3}, "n": 3}
    assert len(found) == 2 and found[1]["author"] == "Homer"
    refused(lambda: books.aggregate([{"$project": {"author": 1}}, merge]), 51132)
    refused(lambda: books.aggregate([{"$project": {"author": ["$author"], "shelf.row": {"$literal": 3}}}, merge]), 51185)
    with_id = [{"$match": {"_id": 7000}}, {"$project": {"author": 1, "shelf.row": {"$literal": 3}}}, merge]
    refused(lambda: books.aggregate(with_id), 66, "did you attempt to modify the _id")
    db.parts.create_index("a", unique=False)
    refused(lambda: books.aggregate([{"$merge": {"into": "parts", "on": "a"}}]), 51183)


def test_merge_with_variables(db, books):
    db.totals.insert_one({"_id": "Dante", "thumbsup": 1})
    merge = {"into": "totals", "let": {"count": "$n", "year": 2019},
             "whenMatched": [{"$set": {"thumbsup": {"$add": ["$thumbsup", "$$count"]}, "year": "$$year"}}]}
    books.aggregate(NEW + [{"$merge": merge}])
    assert everything(db.totals) == [{"_id": "Dante", "thumbsup": 6, "year": 2019}, {"_id": "Homer", "n": 10}]
    refused(lambda: books.aggregate(NEW + [{"$merge": {**merge, "whenMatched": [{"$group": {"_id": 1}}]}}]), 72)


def test_merge_into_its_source_and_into_another_database(client, db, books):
    books.aggregate([{"$project": {"copies": {"$multiply": ["$copies", 2]}}}, {"$merge": "books"}])
    assert [doc["copies"] for doc in everything(books)] == [20, 4, 4, 2]
    other = db.name[:50] + "_other"
    client.drop_database(other)
    books.aggregate([{"$merge": {"into": {"db": other, "coll": "b"}}}])
    assert everything(client[other].b) == everything(books)
    client.drop_database(other)


def test_many_documents(db):
    db.many.insert_many([{"_id": n, "v": n % 7} for n in range(5000)])
    db.many.aggregate([{"$out": "copy"}])
    db.many.aggregate([{"$set": {"w": {"$add": ["$v", 1]}}}, {"$merge": "copy"}])
    assert db.copy.count_documents({}) == 5000
    assert db.copy.count_documents({"$expr": {"$eq": ["$w", {"$add": ["$v", 1]}]}}) == 5000
    assert db.command("validate", "copy", full=True)["valid"]
    journaled = db.get_collection("many", write_concern=WriteConcern(j=True))
    journaled.aggregate([{"$limit": 3}, {"$out": "copy"}])
    assert db.copy.count_documents({}) == 3


def test_explain_writes_nothing(db, books):
    explained = db.command("explain", {"aggregate": "books", "pipeline": [{"$out": "x"}], "cursor": {}})
    assert [next(iter(stage)) for stage in explained["stages"]] == ["$cursor", "$out"]
    assert db.list_collection_names() == ["books"]
