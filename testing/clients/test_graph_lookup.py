"""$graphLookup through PyMongo."""

import pytest
from pymongo.errors import OperationFailure

STAFF = [("Dev", None), ("Eliot", "Dev"), ("Ron", "Eliot"), ("Andrew", "Eliot"), ("Asya", "Ron"), ("Dan", "Andrew")]
AIRPORTS = [("JFK", ["BOS", "ORD"]), ("BOS", ["JFK", "PWM"]), ("ORD", ["JFK"]), ("PWM", ["BOS", "LHR"]), ("LHR", ["PWM"])]


@pytest.fixture
def staff(db):
    db.staff.insert_many([{"_id": n, "name": name} | ({"boss": boss} if boss else {}) for n, (name, boss) in enumerate(STAFF, 1)])
    return db.staff


def refused(run, code, text=""):
    with pytest.raises(OperationFailure) as caught:
        list(run())
    assert caught.value.code == code, caught.value
    assert text in str(caught.value)


def graph(**spec):
    return {"$graphLookup": spec}


@pytest.mark.parametrize("indexed", [False, True])
def test_a_chain(staff, indexed):
    if indexed:
        staff.create_index("name")
    up = graph(**{"from": "staff", "startWith": "$boss", "connectFromField": "boss", "connectToField": "name", "as": "above",
                  "depthField": "steps"})
    found = {doc["name"]: [(other["name"], other["steps"]) for other in doc["above"]] for doc in staff.aggregate([up])}
    assert found["Dev"] == []
    assert found["Asya"] == [("Ron", 0), ("Eliot", 1), ("Dev", 2)]
    assert found["Dan"] == [("Andrew", 0), ("Eliot", 1), ("Dev", 2)]


@pytest.fixture
def travel(db):
    db.airports.insert_many([{"_id": n, "airport": name, "connects": to} for n, (name, to) in enumerate(AIRPORTS)])
    db.travelers.insert_many([{"_id": 1, "name": "Dev", "nearest": "JFK"}, {"_id": 2, "name": "Jeff", "nearest": ["BOS", "LHR"]}])
    return db.travelers


@pytest.mark.parametrize("depth, dev, jeff", [
    (0, ["JFK"], ["BOS", "LHR"]),
    (1, ["BOS", "JFK", "ORD"], ["BOS", "JFK", "LHR", "PWM"]),
    (2, ["BOS", "JFK", "ORD", "PWM"], ["BOS", "JFK", "LHR", "ORD", "PWM"]),
    (None, ["BOS", "JFK", "LHR", "ORD", "PWM"], ["BOS", "JFK", "LHR", "ORD", "PWM"]),
])
def test_cycles_and_depth(travel, depth, dev, jeff):
    spec = {"from": "airports", "startWith": "$nearest", "connectFromField": "connects", "connectToField": "airport", "as": "there.all"}
    if depth is not None:
        spec["maxDepth"] = depth
    found = [sorted(port["airport"] for port in doc["there"]["all"]) for doc in travel.aggregate([{"$graphLookup": spec}])]
    assert found == [dev, jeff]


def test_a_restriction(db):
    db.people.insert_many([
        {"_id": 1, "name": "Ann", "friends": ["Ben", "Cat"], "hobbies": ["golf"]},
        {"_id": 2, "name": "Ben", "friends": ["Dot"], "hobbies": ["golf"]},
        {"_id": 3, "name": "Cat", "friends": ["Eve"], "hobbies": ["tennis"]},
        {"_id": 4, "name": "Dot", "friends": [], "hobbies": ["golf"]},
        {"_id": 5, "name": "Eve", "friends": [], "hobbies": ["golf"]},
    ])
    stage = graph(**{"from": "people", "startWith": "$friends", "connectFromField": "friends", "connectToField": "name",
                     "as": "golfers", "restrictSearchWithMatch": {"hobbies": "golf"}})
    found = list(db.people.aggregate([{"$match": {"name": "Ann"}}, stage, {"$project": {"names": "$golfers.name", "_id": 0}}]))
    assert found == [{"names": ["Ben", "Dot"]}]


def test_steps_use_the_index(db):
    db.chain.insert_many([{"_id": n, "next": n + 1} for n in range(20_000)])
    stage = graph(**{"from": "chain", "startWith": "$next", "connectFromField": "next", "connectToField": "_id", "as": "all", "maxDepth": 300})
    # by a scan of all documents this would be 6 million of them
    found = list(db.chain.aggregate([{"$match": {"_id": 5}}, stage, {"$project": {"n": {"$size": "$all"}}}], maxTimeMS=8000))
    assert found == [{"_id": 5, "n": 301}]


def test_what_is_refused(db, staff):
    whole = {"from": "staff", "startWith": "$boss", "connectFromField": "boss", "connectToField": "name", "as": "above"}
    for change, code in [({"maxDepth": "x"}, 40100), ({"maxDepth": -1}, 40101), ({"maxDepth": 1.5}, 40102), ({"as": 1}, 40103),
                         ({"nope": 1}, 40104), ({"restrictSearchWithMatch": 1}, 40185), ({"as": "$a"}, 16410)]:
        refused(lambda: staff.aggregate([{"$graphLookup": whole | change}]), code)
    for name in whole:
        less = {key: value for key, value in whole.items() if key != name}
        refused(lambda: staff.aggregate([{"$graphLookup": less}]), 40105)
    refused(lambda: staff.aggregate([{"$graphLookup": 1}]), 9)
    assert all(doc["above"] == [] for doc in staff.aggregate([{"$graphLookup": whole | {"from": "nothing_there"}}]))


def test_memory_and_time_are_bounded(db):
    db.wide.insert_many([{"_id": n, "to": n + 1, "x": "x" * 1_000_000} for n in range(120)])
    stage = graph(**{"from": "wide", "startWith": "$to", "connectFromField": "to", "connectToField": "_id", "as": "all"})
    refused(lambda: db.wide.aggregate([{"$match": {"_id": 0}}, stage, {"$count": "n"}]), 40099)
    db.slow.insert_many([{"_id": n, "to": n + 1} for n in range(3000)])
    by_scan = graph(**{"from": "slow", "startWith": "$to", "connectFromField": "to", "connectToField": "nope", "as": "all"})
    refused(lambda: db.slow.aggregate([by_scan], maxTimeMS=50), 50)
