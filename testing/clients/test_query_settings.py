"""setQuerySettings, removeQuerySettings and $querySettings, on a member of a replica set."""
import pytest
from pymongo.errors import OperationFailure


def listed(db):
    stage = {"$querySettings": {"showDebugQueryShape": True}}
    return db.command({"aggregate": 1, "pipeline": [stage], "cursor": {}})["cursor"]["firstBatch"]


@pytest.fixture
def collection(set_client):
    db = set_client["query_settings"]
    db.c.drop()
    db.c.insert_many([{"_id": n, "a": n, "b": n} for n in range(5)])
    db.c.create_index("a", name="a_1")
    db.c.create_index([("a", 1), ("b", 1)], name="a_1_b_1")
    yield db.c
    for setting in listed(db):
        db.client.admin.command("removeQuerySettings", setting["queryShapeHash"])


def of(collection, command):
    return {**command, "$db": collection.database.name}


def hints(collection, *indexes):
    ns = {"db": collection.database.name, "coll": collection.name}
    return {"indexHints": [{"ns": ns, "allowedIndexes": list(indexes)}]}


def planned(collection, command):
    explained = collection.database.command("explain", command, verbosity="queryPlanner")
    return explained["queryPlanner"]


def index_of(plan):
    return plan.get("indexName") or (index_of(plan["inputStage"]) if "inputStage" in plan else plan["stage"])


@pytest.mark.parametrize("command", [{"find": "c", "filter": {"a": 1}}, {"aggregate": "c", "pipeline": [{"$match": {"a": 1}}], "cursor": {}}])
def test_hints_choose_the_index(collection, command):
    admin = collection.database.client.admin
    for name in ("a_1", "a_1_b_1"):
        admin.command("setQuerySettings", of(collection, command), settings=hints(collection, name))
        planner = planned(collection, command)
        assert index_of(planner["winningPlan"]) == name
        assert planner["querySettings"]["indexHints"][0]["allowedIndexes"] == [name]
        assert not planner["indexFilterSet"]
    assert list(collection.find({"a": 3})) == [{"_id": 3, "a": 3, "b": 3}]
    # they are dropped where they leave no plan but a scan
    admin.command("setQuerySettings", of(collection, command), settings=hints(collection, "none"))
    assert index_of(planned(collection, command)["winningPlan"]) in ("a_1", "a_1_b_1")
    admin.command("setQuerySettings", of(collection, command), settings=hints(collection, {"$natural": 1}))
    assert index_of(planned(collection, command)["winningPlan"]) == "COLLSCAN"


def test_rejected_shapes(collection):
    admin, db = collection.database.client.admin, collection.database
    query = of(collection, {"find": "c", "filter": {"a": 1, "b": "x"}})
    answer = admin.command("setQuerySettings", query, settings={"reject": True})
    with pytest.raises(OperationFailure) as error:
        db.command("find", "c", filter={"a": 7, "b": "y"})
    assert error.value.code == 411
    db.command("find", "c", filter={"a": 7, "b": 5})
    # by the hash, and the rest of the settings stays
    admin.command("setQuerySettings", answer["queryShapeHash"], settings={"reject": False, "queryFramework": "classic"})
    db.command("find", "c", filter={"a": 7, "b": "y"})
    shown = listed(db)
    assert [one["settings"] for one in shown] == [{"reject": False, "queryFramework": "classic"}]
    assert shown[0]["representativeQuery"] == query
    assert shown[0]["debugQueryShape"]["filter"] == {"$and": [{"a": {"$eq": "?number"}}, {"b": {"$eq": "?string"}}]}
    explained = db.command("explain", {"find": "c", "filter": {"a": 0, "b": ""}}, verbosity="queryPlanner")
    assert explained["queryShapeHash"] == answer["queryShapeHash"]
    admin.command("removeQuerySettings", query)
    assert listed(db) == []


def test_distinct_has_settings(collection):
    admin = collection.database.client.admin
    query = {"distinct": "c", "key": "b", "query": {"a": 1}}
    admin.command("setQuerySettings", of(collection, query), settings={"reject": True})
    with pytest.raises(OperationFailure, match="rejected"):
        collection.distinct("b", {"a": 4})
    collection.distinct("a", {"a": 4})


@pytest.mark.parametrize(
    "query, settings, code",
    [
        ({"find": "c", "filter": {"_id": 1}, "$db": "query_settings"}, {"reject": True}, 7746606),
        ({"find": "c", "filter": {"a": 1}, "$db": "admin"}, {"reject": True}, 8584900),
        ({"count": "c", "$db": "query_settings"}, {"reject": True}, 7746402),
        ({"find": "c", "filter": {"a": 1}, "$db": "query_settings"}, {}, 8727502),
        ({"find": "c", "filter": {"a": 1}, "$db": "query_settings"}, {"reject": False}, 7746604),
        ({"find": "c", "filter": {"a": 1}, "$db": "query_settings"}, {"queryFramework": "x"}, 2),
        ({"find": "c", "filter": {"a": 1}, "$db": "query_settings"}, {"indexHints": [{"ns": {"coll": "c"}, "allowedIndexes": []}]}, 8727500),
        ("0" * 64, {"reject": True}, 7746401),
    ],
)
def test_refusals(collection, query, settings, code):
    with pytest.raises(OperationFailure) as error:
        collection.database.client.admin.command("setQuerySettings", query, settings=settings)
    assert error.value.code == code
