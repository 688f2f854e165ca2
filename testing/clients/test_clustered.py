"""Clustered collections: records are kept by _id anyway, and these say so."""

import datetime
import time

import pytest
from pymongo.errors import OperationFailure

SPEC = {"key": {"_id": 1}, "unique": True}
KEPT = {"v": 2, "key": {"_id": 1}, "name": "_id_", "unique": True}


@pytest.fixture
def c(db):
    db.create_collection("c", clusteredIndex=SPEC)
    db.c.insert_many([{"_id": i, "a": i % 3} for i in range(20)])
    return db.c


def code_of(run):
    with pytest.raises(OperationFailure) as caught:
        run()
    return caught.value.code


def test_how_it_is_listed(db, c):
    entry = db.command("listCollections", filter={"name": "c"})["cursor"]["firstBatch"][0]
    assert entry["options"] == {"clusteredIndex": KEPT} and "idIndex" not in entry and entry["type"] == "collection"
    assert list(c.list_indexes()) == [{**KEPT, "clustered": True}]
    stats = db.command("collStats", "c")
    assert (stats["count"], stats["nindexes"], stats["indexSizes"], stats["clustered"]) == (20, 0, {}, True)
    c.create_index("a")
    assert db.command("collStats", "c")["nindexes"] == 1
    assert db.validate_collection("c")["valid"]


def test_plans(db, c):
    def plan(filter, **more):
        return db.command("explain", {"find": "c", "filter": filter, **more}, verbosity="executionStats")

    ranged = plan({"_id": {"$gte": 5, "$lt": 9}, "a": 1})
    stage = ranged["queryPlanner"]["winningPlan"]
    assert (stage["stage"], stage["minRecord"], stage["maxRecord"]) == ("CLUSTERED_IXSCAN", 5, 9)
    assert "a" in str(stage["filter"]) and stage["direction"] == "forward"
    assert ranged["executionStats"]["totalDocsExamined"] == 4 and ranged["executionStats"]["nReturned"] == 1
    point = plan({"_id": 7})["queryPlanner"]["winningPlan"]
    assert (point["stage"], point["minRecord"], point["maxRecord"]) == ("CLUSTERED_IXSCAN", 7, 7)
    assert plan({"a": 1})["queryPlanner"]["winningPlan"]["stage"] == "COLLSCAN"
    hinted = plan({"a": 1}, hint={"_id": 1})["queryPlanner"]["winningPlan"]
    assert hinted["stage"] == "CLUSTERED_IXSCAN" and "minRecord" not in hinted
    assert [d["_id"] for d in c.find({"_id": {"$gt": 17}}).sort("_id", -1)] == [19, 18]
    assert c.find_one({"_id": 7})["a"] == 1 and c.update_one({"_id": 7}, {"$set": {"a": 9}}).modified_count == 1
    assert c.delete_many({"_id": {"$in": [1, 2, 99]}}).deleted_count == 2


def test_a_name_of_its_own(db):
    db.create_collection("n", clusteredIndex={**SPEC, "name": "mine"})
    db.n.insert_many([{"_id": i} for i in range(3)])
    assert [index["name"] for index in db.n.list_indexes()] == ["mine"]
    assert db.n.find({"_id": {"$gt": 0}}).hint("mine").to_list() == [{"_id": 1}, {"_id": 2}]
    assert code_of(lambda: db.n.drop_index("mine")) == 5979800


def test_the_clustered_index_stays(db, c):
    assert code_of(lambda: c.drop_index("_id_")) == 5979800
    assert code_of(lambda: db.command("dropIndexes", "c", index={"_id": 1})) == 5979800
    c.create_index("a")
    c.drop_indexes()
    assert [index["name"] for index in c.list_indexes()] == ["_id_"]
    reply = db.command("createIndexes", "c", indexes=[{"key": {"_id": 1}, "name": "_id_", "clustered": True, "unique": True}])
    assert reply["note"] == "all indexes already exist"
    bad = {"key": {"_id": 1}, "name": "i", "clustered": True, "unique": True}
    assert code_of(lambda: db.command("createIndexes", "other", indexes=[bad])) == 6243700


@pytest.mark.parametrize(
    "options, code",
    [
        ({"clusteredIndex": True}, 5979703),
        ({"clusteredIndex": {"key": {"_id": 1}}}, 40414),
        ({"clusteredIndex": {"key": {"_id": 1}, "unique": False}}, 5979700),
        ({"clusteredIndex": {"key": {"a": 1}, "unique": True}}, 197),
        ({"clusteredIndex": {"key": {"_id": -1}, "unique": True}}, 197),
        ({"clusteredIndex": {**SPEC, "x": 1}}, 40415),
        ({"clusteredIndex": SPEC, "capped": True, "size": 1000}, 6049200),
        ({"expireAfterSeconds": 5}, 72),
        ({"clusteredIndex": SPEC, "expireAfterSeconds": -1}, 72),
    ],
    ids=str,
)
def test_bad_options(db, options, code):
    assert code_of(lambda: db.command("create", "bad", **options)) == code


def test_same_options_again_are_no_error(db, c):
    db.command("create", "c", clusteredIndex=SPEC)
    assert code_of(lambda: db.command("create", "c")) == 48


def test_documents_expire_by_their_id(client, db):
    client.admin.command("setParameter", 1, ttlMonitorSleepSecs=1)
    now = datetime.datetime.now(datetime.timezone.utc)
    db.create_collection("t", clusteredIndex=SPEC, expireAfterSeconds=3600)
    old = [now - datetime.timedelta(hours=2, seconds=i) for i in range(5)]
    db.t.insert_many([{"_id": at} for at in [*old, now]] + [{"_id": "no date"}])
    deadline = time.monotonic() + 30
    while db.t.count_documents({}) > 2 and time.monotonic() < deadline:
        time.sleep(0.2)
    assert db.t.count_documents({}) == 2
    options = db.command("listCollections", filter={"name": "t"})["cursor"]["firstBatch"][0]["options"]
    assert options["expireAfterSeconds"] == 3600
    db.command("collMod", "t", expireAfterSeconds="off")
    options = db.command("listCollections", filter={"name": "t"})["cursor"]["firstBatch"][0]["options"]
    assert options == {"clusteredIndex": KEPT}
    db.command("collMod", "t", expireAfterSeconds=1)
    db.plain.insert_one({})
    assert code_of(lambda: db.command("collMod", "plain", expireAfterSeconds=1)) == 72
