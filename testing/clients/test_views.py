"""Views through PyMongo: reading, nesting, changing, and everything that a view refuses."""

import pytest
from pymongo.errors import CollectionInvalid, OperationFailure

PEOPLE = [
    {"_id": 1, "name": "ann", "age": 31, "tags": ["a", "b"], "boss": None},
    {"_id": 2, "name": "bob", "age": 17, "tags": ["b"], "boss": 1},
    {"_id": 3, "name": "cid", "age": 45, "tags": ["c"], "boss": 1},
    {"_id": 4, "name": "dan", "age": 52, "tags": [], "boss": 3},
]
ADULTS = [{"$match": {"age": {"$gte": 18}}}, {"$set": {"adult": True}}]


@pytest.fixture
def views(db):
    db.people.insert_many(PEOPLE)
    db.command("create", "adults", viewOn="people", pipeline=ADULTS)
    db.command("create", "names", viewOn="adults", pipeline=[{"$project": {"name": 1, "boss": 1}}])
    return db


def refused(run, code, text=""):
    with pytest.raises(OperationFailure) as caught:
        run()
    assert caught.value.code == code, caught.value
    assert text in str(caught.value)


def test_find(views):
    assert [doc["_id"] for doc in views.adults.find().sort("_id")] == [1, 3, 4]
    assert views.adults.find_one({"_id": 3}) == {**PEOPLE[2], "adult": True}
    assert views.adults.find_one({"_id": 2}) is None
    assert views.adults.find_one({"adult": True, "name": "dan"}, {"name": 1}) == {"_id": 4, "name": "dan"}
    found = views.names.find({"_id": {"$gt": 1}}).sort("name", -1)
    assert list(found) == [{"_id": 4, "name": "dan", "boss": 3}, {"_id": 3, "name": "cid", "boss": 1}]
    assert [doc["_id"] for doc in views.names.find().sort("_id").skip(1).limit(1)] == [3]
    # in batches, under the view's own name
    cursor = views.adults.find(batch_size=1)
    assert len(list(cursor)) == 3
    answer = views.command("find", "adults", batchSize=1)
    assert answer["cursor"]["ns"] == f"{views.name}.adults" and answer["cursor"]["id"] != 0
    more = views.command("getMore", answer["cursor"]["id"], collection="adults")
    assert len(more["cursor"]["nextBatch"]) == 2
    for option in [{"min": {"_id": 1}, "hint": {"_id": 1}}, {"showRecordId": True}]:
        refused(lambda: views.command("find", "adults", **option), 168, "not supported in aggregation")


def test_count_distinct_aggregate(views):
    assert views.adults.count_documents({}) == 3
    assert views.adults.estimated_document_count() == 3
    assert views.command("count", "adults", query={"age": {"$gt": 40}}, skip=1)["n"] == 1
    assert views.command("count", "adults", limit=2)["n"] == 2
    assert views.command("count", "adults", query={"age": 1})["n"] == 0
    assert sorted(views.adults.distinct("tags")) == ["a", "b", "c"]
    assert views.adults.distinct("tags", {"_id": 3}) == ["c"]
    assert list(views.names.aggregate([{"$group": {"_id": None, "n": {"$sum": 1}}}])) == [{"_id": None, "n": 3}]
    views.names.aggregate([{"$out": "copy"}])
    assert views.copy.count_documents({}) == 3
    plan = views.command("explain", {"find": "adults", "filter": {"_id": 1}}, verbosity="queryPlanner")
    assert "$cursor" in plan["stages"][0]
    assert views.command("explain", {"count": "names"}, verbosity="executionStats")["ok"] == 1


def test_stages_read_views(views):
    lookup = {"from": "names", "localField": "boss", "foreignField": "_id", "as": "b"}
    found = list(views.people.aggregate([{"$lookup": lookup}, {"$sort": {"_id": 1}}]))
    assert [doc["b"] for doc in found[1:]] == [[{"_id": 1, "name": "ann", "boss": None}]] * 2 + [[{"_id": 3, "name": "cid", "boss": 1}]]
    piped = {"from": "adults", "as": "b", "let": {"age": "$age"}, "pipeline": [{"$match": {"$expr": {"$gt": ["$age", "$$age"]}}}, {"$count": "n"}]}
    found = list(views.people.aggregate([{"$match": {"_id": 3}}, {"$lookup": piped}]))
    assert found[0]["b"] == [{"n": 1}]
    union = [{"$match": {"_id": 2}}, {"$unionWith": {"coll": "names", "pipeline": [{"$match": {"name": "ann"}}]}}]
    assert [doc["_id"] for doc in views.people.aggregate(union)] == [2, 1]
    graph = {"from": "names", "startWith": "$boss", "connectFromField": "boss", "connectToField": "_id", "as": "way", "depthField": "d"}
    found = list(views.people.aggregate([{"$match": {"_id": 4}}, {"$graphLookup": graph}]))
    assert sorted((doc["_id"], doc["d"]) for doc in found[0]["way"]) == [(1, 1), (3, 0)]
    # a view whose own pipeline reads another view
    views.command("create", "bosses", viewOn="names", pipeline=[{"$lookup": lookup}, {"$unwind": "$b"}])
    assert sorted(doc["b"]["name"] for doc in views.bosses.find()) == ["ann", "cid"]


def test_listed(client, views):
    listed = {doc["name"]: doc for doc in views.list_collections()}
    assert listed["adults"] == {
        "name": "adults",
        "type": "view",
        "options": {"viewOn": "people", "pipeline": ADULTS},
        "info": {"readOnly": True},
    }
    assert views.list_collection_names(filter={"type": "view"}) == ["adults", "names"]
    assert views.command("dbStats")["views"] == 2
    # the same again is no error, another one is
    views.command("create", "adults", viewOn="people", pipeline=ADULTS)
    refused(lambda: views.command("create", "adults", viewOn="people"), 48)
    refused(lambda: views.command("create", "adults"), 48)
    refused(lambda: views.command("create", "people", viewOn="x"), 48)
    with pytest.raises(CollectionInvalid):
        views.create_collection("adults")


def test_changed_and_dropped(client, views):
    views.command("collMod", "adults", viewOn="people", pipeline=[{"$match": {"age": {"$gt": 50}}}])
    assert [doc["_id"] for doc in views.names.find()] == [4]
    refused(lambda: views.command("collMod", "adults", pipeline=[]), 72, "Must specify both")
    refused(lambda: views.command("collMod", "adults", validator={}), 72, "on a view")
    refused(lambda: views.command("collMod", "people", viewOn="x", pipeline=[]), 72, "on a collection")
    views.adults.drop()
    # what a view reads may be missing, and may come back
    assert list(views.names.find()) == []
    views.command("create", "adults", viewOn="people")
    assert views.names.count_documents({}) == 4
    assert views.people.count_documents({}) == 4
    # a database with nothing but a view
    views.people.drop()
    views.names.drop()
    assert views.name in client.list_database_names()
    client.drop_database(views.name)
    assert views.name not in client.list_database_names()


def test_nothing_is_written(views):
    view = views.adults
    writes = [
        lambda: view.insert_one({}),
        lambda: view.insert_many([{}, {}]),
        lambda: view.update_one({}, {"$set": {"a": 1}}),
        lambda: view.update_many({}, {"$set": {"a": 1}}, upsert=True),
        lambda: view.replace_one({}, {}),
        lambda: view.delete_one({}),
        lambda: view.delete_many({}),
        lambda: view.find_one_and_update({}, {"$set": {"a": 1}}),
        lambda: view.find_one_and_delete({}),
        lambda: views.people.aggregate([{"$out": "adults"}]),
        lambda: views.people.aggregate([{"$merge": "adults"}]),
        lambda: view.create_index("a"),
        lambda: view.index_information() and view.drop_index("a"),
        lambda: views.command("dropIndexes", "adults", index="*"),
        lambda: views.command("collStats", "adults"),
        lambda: list(view.aggregate([{"$collStats": {"count": {}}}])),
        lambda: views.command("validate", "adults"),
        lambda: views.command("compact", "adults"),
        lambda: view.rename("other"),
    ]
    for write in writes:
        refused(write, 166)
    refused(lambda: views.people.rename("adults", dropTarget=True), 48)
    assert views.people.count_documents({}) == 4


def test_definitions_are_checked(views):
    def create(name="v", code=0, **options):
        refused(lambda: views.command("create", name, **options), code)

    create(viewOn="people", pipeline=[{"$out": "x"}], code=167)
    create(viewOn="people", pipeline=[{"$match": {}}, {"$merge": "x"}], code=167)
    create(viewOn="people", pipeline=[{"$nope": 1}], code=40324)
    create(viewOn="people", pipeline=[{"$match": {"a": {"$nope": 1}}}], code=2)
    create(viewOn="people", pipeline=[1], code=14)
    create(viewOn="people", pipeline={}, code=14)
    create(viewOn="people", capped=True, size=4096, code=72)
    create(viewOn="people", validator={"a": 1}, code=72)
    create(viewOn="", code=2)
    create(viewOn=1, code=14)
    create(pipeline=[], code=72)
    create("system.v", viewOn="people", code=73)
    create(viewOn="people", collation={"locale": "xx"}, code=2)
    assert sorted(views.list_collection_names()) == ["adults", "names", "people", "system.views"]


def test_definitions_can_be_read(views):
    name = views.name
    found = {view["_id"]: view for view in views["system.views"].find({"viewOn": "people"})}
    assert found[f"{name}.adults"]["pipeline"] and set(found[f"{name}.adults"]) == {"_id", "viewOn", "pipeline"}
    assert views["system.views"].count_documents({}) == 2
    assert sorted(views["system.views"].distinct("_id")) == [f"{name}.adults", f"{name}.names"]
    assert views["system.views"].find_one({"_id": f"{name}.none"}) is None
    refused(lambda: views["system.views"].insert_one({"_id": f"{name}.x", "viewOn": "people", "pipeline": []}), 73)


def test_cycles_and_depth(views):
    refused(lambda: views.command("create", "own", viewOn="own"), 5, "View cycle detected")
    views.command("create", "a", viewOn="b")
    refused(lambda: views.command("create", "b", viewOn="a"), 5)
    looked = [{"$lookup": {"from": "a", "pipeline": [], "as": "x"}}]
    refused(lambda: views.command("create", "b", viewOn="people", pipeline=looked), 5)
    refused(lambda: views.command("collMod", "adults", viewOn="names", pipeline=[]), 5)
    views.command("create", "v1", viewOn="people", pipeline=[{"$set": {"n": 1}}])
    for n in range(2, 21):
        views.command("create", f"v{n}", viewOn=f"v{n - 1}", pipeline=[{"$set": {"n": n}}])
    assert {doc["n"] for doc in views.v20.find()} == {20}
    refused(lambda: views.command("create", "v21", viewOn="v20"), 165)
    # views that are put below others may make a way too long; it is refused when it is gone
    views.command("create", "below", viewOn="people")
    views.command("collMod", "v1", viewOn="below", pipeline=[])
    refused(lambda: list(views.v20.find()), 165)
    assert len(list(views.v19.find())) == 4


def test_the_collection_of_views_can_be_validated(db):
    db.create_collection("own", viewOn="c", pipeline=[])
    names = db.list_collection_names(filter={"type": "collection"})
    assert names == ["system.views"]
    report = db.command("validate", "system.views")
    assert (report["valid"], report["nrecords"], report["keysPerIndex"]) == (True, 1, {"_id_": 1})
    db.drop_collection("own")
    with pytest.raises(OperationFailure, match="does not exist"):
        db.command("validate", "system.views")
