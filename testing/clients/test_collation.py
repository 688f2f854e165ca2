"""Collation: how strings compare in statements, indexes, collections and views."""

import pytest
from pymongo import UpdateMany, UpdateOne
from pymongo.collation import Collation
from pymongo.errors import DuplicateKeyError, OperationFailure

CASELESS = Collation("en", strength=2)
FULL = {
    "locale": "en",
    "caseLevel": False,
    "caseFirst": "off",
    "strength": 2,
    "numericOrdering": False,
    "alternate": "non-ignorable",
    "maxVariable": "punct",
    "normalization": False,
    "backwards": False,
    "version": "57.1",
}


def plan_of(cursor):
    return cursor.explain()["queryPlanner"]


def scan_of(cursor):
    plan = plan_of(cursor)["winningPlan"]
    while "inputStage" in plan:
        plan = plan["inputStage"]
    return plan


def validated(db, name="c"):
    report = db.validate_collection(name, full=True)
    assert report["valid"], report
    return report["keysPerIndex"]


def test_login_by_a_caseless_index(db):
    db.c.insert_many([{"_id": i, "user": f"User{i}"} for i in range(200)])
    db.c.create_index("user", name="plain")
    db.c.create_index("user", name="caseless", collation=CASELESS)
    found = db.c.find({"user": "USER17"}).collation(CASELESS)
    assert plan_of(found.clone())["collation"] == FULL
    scan = scan_of(found.clone())
    assert (scan["stage"], scan["indexName"], scan["collation"]) == ("IXSCAN", "caseless", FULL)
    assert scan["indexBounds"]["user"][0].startswith("[CollationKey(0x"), scan
    stats = found.clone().explain()["executionStats"]
    assert (stats["totalKeysExamined"], stats["totalDocsExamined"], stats["nReturned"]) == (1, 1, 1)
    assert [doc["_id"] for doc in found] == [17]
    # another collation, or none: not this index
    assert scan_of(db.c.find({"user": "User17"}))["indexName"] == "plain"
    assert scan_of(db.c.find({"user": "User17"}).collation(Collation("fr")))["stage"] == "COLLSCAN"
    assert list(db.c.find({"user": "USER17"})) == []
    # a hint takes it anyway, without bounds on strings
    hinted = db.c.find({"user": "User17"}).hint("caseless")
    assert scan_of(hinted.clone())["indexBounds"]["user"] == ["[MinKey, MaxKey]"]
    assert [doc["_id"] for doc in hinted] == [17]
    # sorted by the index, and never answered by it alone
    by_user = db.c.find({}, {"_id": 0, "user": 1}).sort("user").collation(CASELESS)
    assert scan_of(by_user.clone())["indexName"] == "caseless"
    assert [doc["user"] for doc in by_user][:3] == ["User0", "User1", "User10"]
    assert db.c.index_information()["caseless"]["collation"] == FULL
    assert validated(db) == {"_id_": 200, "plain": 200, "caseless": 200}


def test_orders(db):
    db.c.insert_many([{"_id": word} for word in ["file10", "file9", "File1", "élan", "Elan", "zebra", "cote", "côte", "coté"]])

    def ordered(**collation):
        return [doc["_id"] for doc in db.c.find().sort("_id").collation(Collation(**collation))]

    assert ordered(locale="en", numericOrdering=True)[-4:] == ["File1", "file9", "file10", "zebra"]
    assert ordered(locale="en")[-4:] == ["File1", "file10", "file9", "zebra"]
    assert ordered(locale="en")[:3] == ["cote", "coté", "côte"]
    assert ordered(locale="fr_CA")[:3] == ["cote", "côte", "coté"]
    assert db.c.count_documents({"_id": "ELAN"}, collation=Collation("en", strength=1)) == 2
    assert db.c.count_documents({"_id": "ELAN"}, collation=CASELESS) == 1
    assert db.c.count_documents({"_id": {"$gt": "M"}}, collation=CASELESS) == 1
    assert db.c.count_documents({"_id": {"$regex": "^FILE"}}, collation=CASELESS) == 0


def test_unique_by_the_collation(db):
    db.c.create_index("mail", unique=True, collation=CASELESS)
    db.c.insert_one({"mail": "Ann@example.org"})
    with pytest.raises(DuplicateKeyError) as caught:
        db.c.insert_one({"mail": "ANN@example.org"})
    details = caught.value.details
    assert details["code"] == 11000 and details["collation"] == FULL and details["keyPattern"] == {"mail": 1}
    assert details["keyValue"]["mail"].startswith("0x")
    assert 'collation: { locale: "en"' in details["errmsg"] and 'dup key: { mail: "0x' in details["errmsg"]
    with pytest.raises(DuplicateKeyError):
        db.c.update_one({}, {"$set": {"mail": "x"}}) and db.c.insert_one({"mail": "X"})
    assert db.c.find_one({"mail": "X"}, collation=CASELESS)["mail"] == "x"


def test_indexes_side_by_side(db):
    db.c.create_index("a")
    db.c.create_index("a", name="fr", collation=Collation("fr"))
    db.c.create_index("a", name="fr", collation=Collation("fr"))
    with pytest.raises(OperationFailure) as caught:
        db.c.create_index("a", name="fr", collation=Collation("de"))
    assert caught.value.code == 86
    with pytest.raises(OperationFailure) as caught:
        db.c.create_index("a", name="other", collation=Collation("fr"))
    assert caught.value.code == 85
    db.c.insert_many([{"a": value} for value in [1, "x", ["y", "Z"], {"b": "x"}, None]])
    assert sorted(validated(db).values()) == [5, 6, 6]
    db.c.create_index([("$**", 1)], name="any", collation=CASELESS)
    db.c.create_index([("a", "hashed")], name="of_strings", collation=CASELESS, partialFilterExpression={"b": "on"})
    assert scan_of(db.c.find({"a": "X"}).collation(CASELESS))["indexName"] == "any"
    assert db.c.count_documents({"a": "z"}, collation=CASELESS) == 1
    db.c.insert_many([{"a": "Q", "b": "ON"}, {"a": "q", "b": "off"}])
    found = db.c.find({"a": "q", "b": "On"}).collation(CASELESS).hint("of_strings")
    assert [doc["a"] for doc in found] == ["Q"]
    assert validated(db)["of_strings"] == 1


def test_default_of_a_collection(db):
    db.create_collection("c", collation=CASELESS)
    assert next(db.list_collections())["options"]["collation"] == FULL
    db.c.insert_many([{"_id": "a", "v": "One"}, {"_id": "b", "v": "two"}])
    with pytest.raises(DuplicateKeyError) as caught:
        db.c.insert_one({"_id": "A"})
    assert 'index: _id_ collation: { locale: "en"' in caught.value.details["errmsg"]
    assert db.c.find_one({"_id": "A"})["v"] == "One"
    assert scan_of(db.c.find({"_id": "A"}))["stage"] in ("IDHACK", "EXPRESS_IXSCAN")
    assert db.c.find_one({"_id": "A"}, collation=Collation("simple")) is None
    assert db.c.find_one({"v": "ONE"})["_id"] == "a"
    assert db.c.distinct("v", {"v": {"$in": ["ONE", "TWO"]}}) == ["One", "two"]
    db.c.create_index("v")
    db.c.create_index("v", name="bytes", collation=Collation("simple"))
    indexes = db.c.index_information()
    assert indexes["v_1"]["collation"] == FULL and indexes["_id_"]["collation"] == FULL
    assert "collation" not in indexes["bytes"]
    assert scan_of(db.c.find({"v": "ONE"}))["indexName"] == "v_1"
    assert scan_of(db.c.find({"v": "One"}).collation(Collation("simple")))["indexName"] == "bytes"
    with pytest.raises(OperationFailure) as caught:
        db.command("createIndexes", "c", indexes=[{"key": {"_id": 1}, "name": "_id_", "collation": {"locale": "fr"}}])
    assert caught.value.code == 2
    assert db.c.replace_one({"_id": "B"}, {"v": "2"}).modified_count == 1
    assert db.c.delete_one({"_id": "B"}).deleted_count == 1
    with pytest.raises(OperationFailure) as caught:
        db.c.create_index([("place", "2d")])
    assert caught.value.code == 67
    db.c.create_index([("place", "2d")], collation=Collation("simple"))
    list(db.c.aggregate([{"$out": "c"}]))
    assert db.c.index_information()["v_1"]["collation"] == FULL
    assert "collation" not in db.c.index_information()["bytes"]
    validated(db)


def test_writes(db):
    db.c.insert_many([{"_id": i, "k": k, "tags": ["Red", "blue"]} for i, k in enumerate(["x", "X", "y"])])
    assert db.c.update_many({"k": "X"}, {"$set": {"n": 1}}, collation=CASELESS).modified_count == 2
    assert db.c.update_many({"k": "X"}, {"$set": {"n": 2}}).modified_count == 1
    result = db.c.bulk_write(
        [
            UpdateOne({"k": "Y"}, {"$pull": {"tags": "RED"}}, collation=CASELESS),
            UpdateMany({"k": "x"}, {"$addToSet": {"tags": "BLUE"}}, collation=CASELESS),
            UpdateOne({"_id": 0}, {"$set": {"tags.$[t]": "green"}}, array_filters=[{"t": "RED"}], collation=CASELESS),
        ]
    )
    assert result.modified_count == 2
    assert [doc["tags"] for doc in db.c.find().sort("_id")] == [["green", "blue"], ["Red", "blue"], ["blue"]]
    assert db.c.update_one({"tags": "BLUE"}, {"$set": {"tags.$": "sky"}}, collation=CASELESS).modified_count == 1
    assert db.c.find_one({"_id": 0})["tags"] == ["green", "sky"]
    assert db.c.find_one_and_update({"k": "Y"}, {"$max": {"k": "Z"}}, collation=CASELESS, new=True)["k"] == "Z"
    assert db.c.delete_many({"k": "z"}, collation=CASELESS).deleted_count == 1
    assert db.c.update_one({"k": "NEW"}, {"$set": {"n": 1}}, upsert=True, collation=CASELESS).upserted_id


def test_aggregation(db):
    db.c.insert_many([{"k": k, "n": 1} for k in ["a", "A", "b", "B", "b"]])
    db.other.insert_many([{"k": "A", "o": 1}, {"k": "B", "o": 2}])

    def run(*stages):
        return list(db.c.aggregate(list(stages), collation=CASELESS))

    groups = run({"$group": {"_id": "$k", "n": {"$sum": "$n"}}}, {"$sort": {"_id": 1}})
    assert [(doc["_id"].lower(), doc["n"]) for doc in groups] == [("a", 2), ("b", 3)]
    assert [doc["count"] for doc in run({"$sortByCount": "$k"})] == [3, 2]
    lookup = {"from": "other", "localField": "k", "foreignField": "k", "as": "found"}
    assert all(len(doc["found"]) == 1 for doc in run({"$lookup": lookup}))
    db.other.create_index("k", collation=CASELESS)
    assert all(len(doc["found"]) == 1 for doc in run({"$lookup": lookup}))
    inner = {"from": "other", "let": {"k": "$k"}, "pipeline": [{"$match": {"$expr": {"$eq": ["$k", "$$k"]}}}], "as": "f"}
    assert all(len(doc["f"]) == 1 for doc in run({"$lookup": inner}))
    assert len(run({"$match": {"$expr": {"$eq": ["$k", "B"]}}})) == 3
    assert [doc["_id"] for doc in run({"$bucket": {"groupBy": "$k", "boundaries": ["A", "B", "C"]}})] == ["A", "B"]
    assert run({"$facet": {"a": [{"$match": {"k": "A"}}, {"$count": "n"}]}}) == [{"a": [{"n": 2}]}]
    assert len(run({"$unionWith": {"coll": "other", "pipeline": [{"$match": {"k": "a"}}]}})) == 6
    graph = {"from": "other", "startWith": "$k", "connectFromField": "k", "connectToField": "k", "as": "g"}
    assert all(len(doc["g"]) == 1 for doc in run({"$graphLookup": graph}))
    db.other.drop_indexes()
    with pytest.raises(OperationFailure) as caught:
        run({"$merge": {"into": "other", "on": "k"}})
    assert caught.value.code == 51183
    db.other.create_index("k", unique=True, collation=CASELESS)
    run({"$project": {"_id": 0}}, {"$merge": {"into": "other", "on": "k", "whenMatched": "merge"}})
    assert db.other.count_documents({}) == 2


def test_views(db):
    db.c.insert_many([{"k": "x"}, {"k": "X"}])
    db.create_collection("v", viewOn="c", pipeline=[{"$match": {"k": "X"}}], collation=CASELESS)
    listed = {doc["name"]: doc["options"] for doc in db.list_collections()}
    assert listed["v"]["collation"] == FULL
    assert db.v.count_documents({}) == 2
    assert len(list(db.v.find({"k": "x"}))) == 2
    assert len(list(db.v.find({"k": "x"}).collation(CASELESS))) == 2
    assert len(db.v.distinct("k")) == 1
    for statement in [
        lambda: list(db.v.find().collation(Collation("fr"))),
        lambda: db.v.count_documents({}, collation=Collation("fr")),
        lambda: db.v.distinct("k", collation=Collation("fr")),
        lambda: db.create_collection("over", viewOn="v", collation=Collation("fr")),
        lambda: list(db.c.aggregate([{"$lookup": {"from": "v", "localField": "k", "foreignField": "k", "as": "f"}}])),
        lambda: list(db.c.aggregate([{"$unionWith": "v"}])),
    ]:
        with pytest.raises(OperationFailure) as caught:
            statement()
        assert caught.value.code == 167, caught.value
    assert len(list(db.c.aggregate([{"$unionWith": "v"}], collation=CASELESS))) == 4


def test_validators_have_the_collation_of_the_collection(db):
    db.create_collection("c", collation=CASELESS, validator={"state": {"$in": ["on", "off"]}})
    db.c.insert_one({"state": "ON"})
    with pytest.raises(OperationFailure) as caught:
        db.c.insert_one({"state": "none"})
    assert caught.value.code == 121


def test_options_of_the_simple_locale_have_no_effect(db):
    db.c.insert_many([{"_id": text} for text in ("a", "A", "b10", "b9")])
    found = db.c.find({}, collation={"locale": "simple", "strength": 1, "numericOrdering": True}).sort("_id")
    assert [doc["_id"] for doc in found] == ["A", "a", "b10", "b9"]


@pytest.mark.parametrize(
    "collation, code",
    [
        ({"locale": "xx"}, 2),
        ({"locale": "en-US"}, 2),
        ({"locale": "en", "strength": 9}, 2),
        ({"locale": "en", "x": 1}, 40415),
        ({"strength": 1}, 40414),
        ({"locale": "en", "backwards": True, "strength": 1}, 2),
        ({"locale": "en", "version": "1.2"}, 161),
        ("en", 14),
    ],
)
def test_refused(db, collation, code):
    for command in [
        {"find": "c", "collation": collation},
        {"aggregate": "c", "pipeline": [], "cursor": {}, "collation": collation},
        {"create": "c2", "collation": collation},
        {"createIndexes": "c", "indexes": [{"key": {"a": 1}, "name": "a", "collation": collation}]},
    ]:
        with pytest.raises(OperationFailure) as caught:
            db.command(command)
        assert caught.value.code == code, (command, caught.value)


def test_after_a_restart_all_is_as_before(tmp_path):
    import pymongo
    from arbor_process import Arbor

    for run in range(2):
        with Arbor(tmp_path, []) as arbor, pymongo.MongoClient(arbor.uri) as client:
            db = client.db
            if run == 0:
                db.create_collection("c", collation=CASELESS)
                db.c.create_index("k", unique=True)
                db.c.insert_one({"_id": "a", "k": "x"})
            assert db.c.find_one({"_id": "A", "k": "X"})["k"] == "x"
            with pytest.raises(DuplicateKeyError):
                db.c.insert_one({"_id": "b", "k": "X"})
            validated(db)
