"""$setWindowFields, $densify, $fill, $median and $percentile through PyMongo; sums are checked against plain Python."""

import datetime
import random

import pytest
from pymongo.errors import OperationFailure


def refused(run, code, text=""):
    with pytest.raises(OperationFailure) as caught:
        list(run())
    assert caught.value.code == code, caught.value
    assert text in str(caught.value)


def day(text):
    return datetime.datetime.fromisoformat(text)


CAKES = [
    {"_id": 0, "type": "chocolate", "at": day("2020-05-18"), "state": "CA", "price": 13, "quantity": 120},
    {"_id": 1, "type": "chocolate", "at": day("2021-03-20"), "state": "WA", "price": 14, "quantity": 140},
    {"_id": 2, "type": "vanilla", "at": day("2021-01-11"), "state": "CA", "price": 12, "quantity": 145},
    {"_id": 3, "type": "vanilla", "at": day("2020-02-08"), "state": "WA", "price": 13, "quantity": 104},
    {"_id": 4, "type": "berry", "at": day("2019-05-18"), "state": "CA", "price": 41, "quantity": 162},
    {"_id": 5, "type": "berry", "at": day("2019-01-08"), "state": "WA", "price": 43, "quantity": 134},
]


@pytest.fixture
def cakes(db):
    db.cakes.insert_many(CAKES)
    return db.cakes


def window(cakes, output, **more):
    spec = {"partitionBy": "$state", "sortBy": {"at": 1}, "output": {"v": output}} | more
    return {doc["_id"]: doc["v"] for doc in cakes.aggregate([{"$setWindowFields": spec}])}


@pytest.mark.parametrize("indexed", [False, True])
def test_running_sums_and_averages(cakes, indexed):
    if indexed:
        cakes.create_index([("state", 1), ("at", 1)])
    assert window(cakes, {"$sum": "$quantity", "window": {"documents": ["unbounded", "current"]}}) == {
        4: 162, 0: 282, 2: 427, 5: 134, 3: 238, 1: 378}
    assert window(cakes, {"$avg": "$quantity", "window": {"documents": [-1, 0]}}) == {
        4: 162.0, 0: 141.0, 2: 132.5, 5: 134.0, 3: 119.0, 1: 122.0}
    by_year = {"$setWindowFields": {"partitionBy": {"$year": "$at"}, "output": {"most": {"$max": "$quantity"}}}}
    assert {doc["_id"]: doc["most"] for doc in cakes.aggregate([by_year])} == {0: 120, 3: 120, 1: 145, 2: 145, 4: 162, 5: 162}


def test_ranges(cakes):
    assert window(cakes, {"$push": "$_id", "window": {"range": ["unbounded", 10], "unit": "month"}}) == {
        4: [4], 0: [4, 0, 2], 2: [4, 0, 2], 5: [5], 3: [5, 3], 1: [5, 3, 1]}
    assert window(cakes, {"$push": "$_id", "window": {"range": [-10, 10]}}, sortBy={"price": 1}) == {
        2: [2, 0], 0: [2, 0], 4: [4], 3: [3, 1], 1: [3, 1], 5: [5]}


def test_ranks_and_shifts(cakes):
    cakes.insert_one({"_id": 6, "state": "WA", "quantity": 134})
    spec = {"partitionBy": "$state", "sortBy": {"quantity": -1}}
    assert window(cakes, {"$rank": {}}, **spec) == {4: 1, 2: 2, 0: 3, 1: 1, 5: 2, 6: 2, 3: 4}
    assert window(cakes, {"$denseRank": {}}, **spec) == {4: 1, 2: 2, 0: 3, 1: 1, 5: 2, 6: 2, 3: 3}
    assert window(cakes, {"$documentNumber": {}}, **spec) == {4: 1, 2: 2, 0: 3, 1: 1, 5: 2, 6: 3, 3: 4}
    assert window(cakes, {"$shift": {"output": "$quantity", "by": 1, "default": "none"}}, **spec) == {
        4: 145, 2: 120, 0: "none", 1: 134, 5: 134, 6: 104, 3: "none"}


def test_slopes_and_areas(db):
    start = day("2021-01-01T10:00:00")
    hours = datetime.timedelta(minutes=30)
    db.trucks.insert_many([{"_id": n, "t": start + n * hours, "miles": miles, "kw": kw}
                           for n, (miles, kw) in enumerate([(10, 4.0), (30, 5.0), (55, 3.0), (56, 3.0)])])
    speed = {"$setWindowFields": {"sortBy": {"t": 1}, "output": {
        "speed": {"$derivative": {"input": "$miles", "unit": "hour"}, "window": {"range": [-30, 0], "unit": "minute"}},
        "used": {"$integral": {"input": "$kw", "unit": "hour"}, "window": {"documents": ["unbounded", "current"]}},
        "mean": {"$expMovingAvg": {"input": "$kw", "N": 3}},
    }}}
    found = list(db.trucks.aggregate([speed]))
    assert [doc["speed"] for doc in found] == [None, 40.0, 50.0, 2.0]
    assert [doc["used"] for doc in found] == [0.0, 2.25, 4.25, 5.75]
    assert [doc["mean"] for doc in found] == [4.0, 4.5, 3.75, 3.375]


def test_windows_against_python(db):
    """Every accumulator that can be checked simply, over windows of many shapes."""
    rng = random.Random(5)
    docs = [{"_id": n, "p": n % 3, "x": rng.randrange(100), "y": rng.choice([None, 1, 2.5, "s", 7])} for n in range(200)]
    db.c.insert_many(docs)
    for low, high in [("unbounded", "unbounded"), ("unbounded", 0), (-3, 2), (0, "unbounded"), (2, 5), (-5, -2), (-1000, 1000)]:
        output = {
            "sum": {"$sum": "$y", "window": {"documents": [low, high]}},
            "ids": {"$push": "$_id", "window": {"documents": [low, high]}},
            "min": {"$min": "$x", "window": {"documents": [low, high]}},
            "last": {"$last": "$x", "window": {"documents": [low, high]}},
            "dev": {"$stdDevPop": "$x", "window": {"documents": [low, high]}},
        }
        stage = {"$setWindowFields": {"partitionBy": "$p", "sortBy": {"x": 1, "_id": 1}, "output": output}}
        for part in range(3):
            rows = sorted((doc for doc in docs if doc["p"] == part), key=lambda doc: (doc["x"], doc["_id"]))
            found = list(db.c.aggregate([{"$match": {"p": part}}, stage]))
            assert [doc["_id"] for doc in found] == [doc["_id"] for doc in rows]
            for at, doc in enumerate(found):
                first = 0 if low == "unbounded" else max(at + low, 0)
                behind = len(rows) if high == "unbounded" else max(at + high + 1, 0)
                inside = rows[first:behind]
                numbers = [row["y"] for row in inside if isinstance(row["y"], (int, float))]
                values = [row["x"] for row in inside]
                assert doc["ids"] == [row["_id"] for row in inside], (low, high, at)
                assert doc["sum"] == pytest.approx(sum(numbers))
                assert doc["min"] == (min(values) if values else None)
                assert doc["last"] == (values[-1] if values else None)
                if values:
                    mean = sum(values) / len(values)
                    assert doc["dev"] == pytest.approx((sum((v - mean) ** 2 for v in values) / len(values)) ** 0.5, abs=1e-9)
                else:
                    assert doc["dev"] is None


def test_a_large_window_moves_quickly(db):
    db.c.insert_many([{"_id": n, "v": n % 11} for n in range(20_000)])
    stage = {"$setWindowFields": {"sortBy": {"_id": 1}, "output": {"s": {"$sum": "$v", "window": {"documents": [-9999, 0]}}}}}
    found = list(db.c.aggregate([stage, {"$match": {"_id": {"$gte": 19_999}}}], maxTimeMS=20_000))
    assert found[0]["s"] == sum(n % 11 for n in range(10_000, 20_000))


def test_window_errors(cakes):
    stage = {"sortBy": {"at": 1}, "output": {"v": {"$sum": 1, "window": {"range": [-1, 0]}}}}
    refused(lambda: cakes.aggregate([{"$setWindowFields": stage}]), 5429513, "a unit must be provided")
    refused(lambda: cakes.aggregate([{"$setWindowFields": {"output": {"v": {"$rank": {}}}}}]), 5371602)
    refused(lambda: cakes.aggregate([{"$setWindowFields": {"partitionBy": ["$a"], "output": {}}}]), 14)


def test_densify(db):
    db.w.insert_many([{"_id": n, "t": day(f"2021-05-18T{hour}:00:00"), "v": n} for n, hour in enumerate(["00", "04", "12"])])
    stage = {"$densify": {"field": "t", "range": {"step": 1, "unit": "hour", "bounds": [day("2021-05-18T00:00:00"), day("2021-05-18T08:00:00")]}}}
    found = list(db.w.aggregate([stage]))
    assert [doc["t"].hour for doc in found] == [0, 1, 2, 3, 4, 5, 6, 7, 12]
    assert found[1] == {"t": day("2021-05-18T01:00:00")}
    db.coffee.insert_many([{"alt": 600, "kind": "Arabica", "score": 68.3}, {"alt": 750, "kind": "Arabica", "score": 69.5},
                           {"alt": 950, "kind": "Arabica", "score": 70.5}, {"alt": 1250, "kind": "Gesha", "score": 88.15},
                           {"alt": 1700, "kind": "Gesha", "score": 95.5, "price": 1029}])
    stage = {"$densify": {"field": "alt", "partitionByFields": ["kind"], "range": {"bounds": "full", "step": 200}}}
    found = list(db.coffee.aggregate([stage]))
    made = sorted((doc["kind"], doc["alt"]) for doc in found if "score" not in doc)
    assert made == [("Arabica", alt) for alt in (800, 1000, 1200, 1400, 1600)] + [("Gesha", alt) for alt in (600, 800, 1000, 1200, 1400, 1600)]
    stage["$densify"]["range"]["bounds"] = "partition"
    made = sorted((doc["kind"], doc["alt"]) for doc in db.coffee.aggregate([stage]) if "score" not in doc)
    assert made == [("Arabica", 800), ("Gesha", 1450), ("Gesha", 1650)]
    refused(lambda: db.coffee.aggregate([{"$densify": {"field": "kind", "range": {"step": 1, "bounds": "full"}}}]), 5733201)
    many = [{"$densify": {"field": "alt", "range": {"step": 0.001, "bounds": "full"}}}, {"$count": "n"}]
    refused(lambda: db.coffee.aggregate(many), 5897900)
    refused(lambda: db.coffee.aggregate(many, maxTimeMS=20), 50)


def test_fill(db):
    db.stock.insert_many([{"_id": 1, "t": day("2021-03-08"), "price": 500}, {"_id": 2, "t": day("2021-03-09")},
                          {"_id": 3, "t": day("2021-03-10")}, {"_id": 4, "t": day("2021-03-11"), "price": 515}])
    linear = [{"$fill": {"sortBy": {"t": 1}, "output": {"price": {"method": "linear"}}}}]
    assert [doc["price"] for doc in db.stock.aggregate(linear)] == [500, 505, 510, 515]
    carried = [{"$fill": {"sortBy": {"t": 1}, "output": {"price": {"method": "locf"}, "note": {"value": "none"}}}}]
    assert [(doc["price"], doc["note"]) for doc in db.stock.aggregate(carried)] == [
        (500, "none"), (500, "none"), (500, "none"), (515, "none")]
    refused(lambda: db.stock.aggregate([{"$fill": {"output": {"price": {"method": "up"}}}}]), 6050202)


def test_median_and_percentile(db):
    scores = [(1, 62, 81), (2, 60, 83), (3, 67, 80), (4, 64, 72), (5, 60, 53)]
    db.scores.insert_many([{"_id": n, "a": a, "b": b} for n, a, b in scores])
    group = {"$group": {"_id": None, "m": {"$median": {"input": "$a", "method": "approximate"}},
                        "p": {"$percentile": {"input": "$b", "p": [0.5, 0.75, 0.95], "method": "approximate"}}}}
    assert list(db.scores.aggregate([group])) == [{"_id": None, "m": 62.0, "p": [80.0, 81.0, 83.0]}]
    project = {"$project": {"m": {"$median": {"input": ["$a", "$b", 70], "method": "approximate"}}}}
    assert [doc["m"] for doc in db.scores.aggregate([project])] == [70, 70, 70, 70, 60]
    windows = {"$setWindowFields": {"sortBy": {"a": 1}, "output": {"p": {
        "$percentile": {"input": "$a", "p": [1.0], "method": "approximate"}, "window": {"range": [-2, 2]}}}}}
    assert [doc["p"] for doc in db.scores.aggregate([windows])] == [[62.0], [62.0], [64.0], [64.0], [67.0]]
    refused(lambda: db.scores.aggregate([{"$group": {"_id": 1, "m": {"$median": {"input": "$a", "method": "exact"}}}}]), 2)
