"""Places as applications use them: restaurants and neighbourhoods, legacy pairs, errors, what listIndexes and explain show."""

import math
import random

import pytest
from pymongo import GEO2D, GEOSPHERE
from pymongo.errors import OperationFailure, WriteError

EARTH = 6378100.0


def point(lng, lat):
    return {"type": "Point", "coordinates": [lng, lat]}


def square(lng, lat, size):
    return {
        "type": "Polygon",
        "coordinates": [[[lng, lat], [lng + size, lat], [lng + size, lat + size], [lng, lat + size], [lng, lat]]],
    }


def metres(a, b):
    (lng1, lat1), (lng2, lat2) = ([math.radians(part) for part in place] for place in (a, b))
    h = math.sin((lat2 - lat1) / 2) ** 2 + math.cos(lat1) * math.cos(lat2) * math.sin((lng2 - lng1) / 2) ** 2
    return 2 * EARTH * math.asin(math.sqrt(h))


def stages(plan):
    found = [plan["stage"]]
    for child in [plan.get("inputStage")] + plan.get("inputStages", []):
        if child:
            found += stages(child)
    return found


def refused(run, code, text=""):
    with pytest.raises(OperationFailure) as caught:
        run()
    assert caught.value.code == code, caught.value
    assert text in str(caught.value)


@pytest.fixture
def city(db):
    rng = random.Random(5)
    db.restaurants.create_index([("location", GEOSPHERE)])
    db.neighborhoods.create_index([("geometry", GEOSPHERE)])
    spots = [(-74 + rng.random() * 0.2, 40.6 + rng.random() * 0.2) for _ in range(2000)]
    db.restaurants.insert_many(
        {"_id": n, "name": f"r{n}", "stars": n % 5, "location": point(*spot)} for n, spot in enumerate(spots)
    )
    db.neighborhoods.insert_many(
        {"_id": (x, y).__repr__(), "name": f"n{x}{y}", "geometry": square(-74 + x * 0.02, 40.6 + y * 0.02, 0.02)}
        for x in range(10)
        for y in range(10)
    )
    return db, spots


def test_restaurants_of_a_neighborhood(city):
    db, spots = city
    here = [-73.91, 40.71]
    home = db.neighborhoods.find_one({"geometry": {"$geoIntersects": {"$geometry": point(*here)}}})
    assert home["name"] == "n45"
    inside = db.restaurants.count_documents({"location": {"$geoWithin": {"$geometry": home["geometry"]}}})
    expected = sum(-73.92 <= lng <= -73.90 and 40.7 <= lat <= 40.72 for lng, lat in spots)
    assert abs(inside - expected) <= 1
    around = {"location": {"$geoWithin": {"$centerSphere": [here, 2000 / EARTH]}}}
    expected = {n for n, spot in enumerate(spots) if metres(spot, here) <= 2000}
    assert {r["_id"] for r in db.restaurants.find(around)} == expected
    near = {"location": {"$nearSphere": {"$geometry": point(*here), "$maxDistance": 2000}}}
    found = [r["_id"] for r in db.restaurants.find(near)]
    assert set(found) == expected
    assert found == sorted(found, key=lambda n: metres(spots[n], here))
    assert [r["_id"] for r in db.restaurants.find(near).limit(3)] == found[:3]
    assert [r["_id"] for r in db.restaurants.find({**near, "stars": 4})] == [n for n in found if n % 5 == 4]
    assert [r["_id"] for r in db.restaurants.find(near).sort("_id")] == sorted(found)
    ring = {"location": {"$near": {"$geometry": point(*here), "$minDistance": 1000, "$maxDistance": 2000}}}
    assert [r["_id"] for r in db.restaurants.find(ring).batch_size(7)] == [
        n for n in found if metres(spots[n], here) >= 1000
    ]


def test_geo_near(city):
    db, spots = city
    here = [-73.91, 40.71]
    stage = {"near": point(*here), "distanceField": "far.m", "maxDistance": 1500, "query": {"stars": {"$gt": 2}}}
    found = list(db.restaurants.aggregate([{"$geoNear": {**stage, "includeLocs": "at"}}]))
    assert found and all(r["stars"] > 2 and r["at"] == r["location"] for r in found)
    assert all(abs(r["far"]["m"] - metres(spots[r["_id"]], here)) < 1e-6 for r in found)
    assert [r["far"]["m"] for r in found] == sorted(r["far"]["m"] for r in found)
    by_stars = list(
        db.restaurants.aggregate([{"$geoNear": stage}, {"$group": {"_id": "$stars", "least": {"$min": "$far.m"}}}])
    )
    assert {r["_id"] for r in by_stars} == {3, 4}
    radians = list(
        db.restaurants.aggregate([{"$geoNear": {"near": here, "spherical": True, "distanceField": "d"}}, {"$limit": 1}])
    )
    assert radians[0]["d"] * EARTH == pytest.approx(min(metres(spot, here) for spot in spots), abs=1e-3)
    meta = db.restaurants.find(
        {"location": {"$near": {"$geometry": point(*here)}}}, {"d": {"$meta": "geoNearDistance"}, "location": 1}
    ).limit(2)
    assert all(abs(r["d"] - metres(r["location"]["coordinates"], here)) < 1e-6 for r in meta)
    lookup = [
        {"$limit": 1},
        {
            "$lookup": {
                "from": "restaurants",
                "pipeline": [{"$geoNear": {"near": point(*here), "distanceField": "d"}}, {"$limit": 2}],
                "as": "close",
            }
        },
    ]
    assert len(list(db.neighborhoods.aggregate(lookup))[0]["close"]) == 2


def test_plans(city):
    db, _ = city
    near = db.restaurants.find({"location": {"$near": {"$geometry": point(-73.9, 40.7)}}}).limit(5).explain()
    assert stages(near["queryPlanner"]["winningPlan"])[:2] == ["LIMIT", "GEO_NEAR_2DSPHERE"]
    assert near["executionStats"]["totalDocsExamined"] < 1000
    within = db.restaurants.find({"location": {"$geoWithin": {"$geometry": square(-73.9, 40.7, 0.01)}}}).explain()
    assert stages(within["queryPlanner"]["winningPlan"]) == ["FETCH", "IXSCAN"]
    assert within["executionStats"]["totalDocsExamined"] < 200
    stage = {"$geoNear": {"near": point(0, 0), "distanceField": "d"}}
    explained = db.command("explain", {"aggregate": "restaurants", "pipeline": [stage], "cursor": {}})
    assert "$geoNearCursor" in explained["stages"][0]


def test_legacy_pairs(db):
    db.c.create_index([("pos", GEO2D)], min=0, max=100, bits=20)
    db.c.insert_many({"_id": x * 10 + y, "pos": [x, y] if (x + y) % 2 else {"x": x, "y": y}} for x in range(10) for y in range(10))
    db.c.insert_one({"_id": 500, "pos": [[50, 50], [60, 60]]})
    assert db.c.count_documents({"pos": {"$geoWithin": {"$box": [[1, 1], [3, 4]]}}}) == 12
    assert db.c.count_documents({"pos": {"$within": {"$center": [[5, 5], 1]}}}) == 5
    assert db.c.count_documents({"pos": {"$geoWithin": {"$polygon": [[0, 0], [2, 0], [2, 2]]}}}) == 5
    assert [d["_id"] for d in db.c.find({"pos": {"$near": [59, 60]}}).limit(1)] == [500]
    assert [d["_id"] for d in db.c.find({"pos": {"$near": [3, 3], "$maxDistance": 1}})][0] == 33
    assert db.c.count_documents({"pos": {"$geoWithin": {"$box": [[49, 49], [51, 51]]}}}) == 1
    assert stages(db.c.find({"pos": {"$near": [3, 3]}}).explain()["queryPlanner"]["winningPlan"])[0] == "GEO_NEAR_2D"
    refused(lambda: db.c.insert_one({"pos": [101, 5]}), 13027, "point not in interval of [ 0, 100 ]")
    refused(lambda: db.c.insert_one({"pos": "here"}), 13026)
    assert db.command("validate", "c")["valid"]


def test_indexes_are_listed(db):
    db.c.create_index([("loc", GEOSPHERE), ("name", 1)])
    db.c.create_index([("pos", GEO2D)], bits=20, min=-10, max=10)
    info = db.c.index_information()
    assert info["loc_2dsphere_name_1"]["2dsphereIndexVersion"] == 3
    assert {k: info["pos_2d"][k] for k in ("bits", "min", "max")} == {"bits": 20, "min": -10, "max": 10}
    refused(lambda: db.c.create_index([("a", 1), ("b", GEO2D)]), 16801)
    refused(lambda: db.c.create_index([("a", GEO2D)], bits=40), 72)


def test_documents_without_a_place_are_not_in_the_index(db):
    db.c.create_index([("loc", GEOSPHERE), ("name", 1)])
    db.c.insert_many([{"_id": 1, "name": "a"}, {"_id": 2, "loc": None, "name": "a"}, {"_id": 3, "loc": point(1, 1), "name": "a"}])
    assert sorted(d["_id"] for d in db.c.find({"name": "a"})) == [1, 2, 3]
    assert [d["_id"] for d in db.c.find({"loc": {"$near": {"$geometry": point(0, 0)}}})] == [3]
    db.c.update_one({"_id": 1}, {"$set": {"loc": point(2, 2)}})
    db.c.update_one({"_id": 3}, {"$set": {"loc": point(80, 80)}})
    assert [d["_id"] for d in db.c.find({"loc": {"$near": {"$geometry": point(0, 0)}}})] == [1, 3]
    db.c.delete_one({"_id": 1})
    assert [d["_id"] for d in db.c.find({"loc": {"$near": {"$geometry": point(0, 0)}}})] == [3]
    assert db.command("validate", "c")["valid"]


@pytest.mark.parametrize(
    "loc, text",
    [
        (point(200, 0), "longitude/latitude is out of bounds, lng: 200 lat: 0"),
        (point(float("nan"), 0), "finite"),
        (point(float("inf"), 0), "finite"),
        ({"type": "Polygon", "coordinates": [[[0, 0], [1, 1], [1, 0], [0, 1], [0, 0]]]}, "Edges 0 and 2 cross"),
        ({"type": "Polygon", "coordinates": [[[0, 0], [1, 0], [1, 1]]]}, "Loop is not closed"),
        ({"type": "Polygon", "coordinates": [[[0, 0], [2, 0], [1, 1], [2, 2], [0, 2], [1, 1], [0, 0]]]}, "Duplicate vertices"),
        ({"type": "Circle", "coordinates": [0, 0]}, "unknown GeoJSON type"),
        ("here", "Point must be an array or object"),
    ],
    ids=str,
)
def test_bad_places_are_refused(db, loc, text):
    db.c.create_index([("loc", GEOSPHERE)])
    with pytest.raises(WriteError) as caught:
        db.c.insert_one({"loc": loc})
    assert caught.value.code == 16755 and "Can't extract geo keys" in str(caught.value) and text in str(caught.value)
    db.d.insert_one({"loc": loc})
    refused(lambda: db.d.create_index([("loc", GEOSPHERE)]), 16755, text)


def test_errors_of_queries(db):
    db.c.insert_one({"loc": point(0, 0)})
    near = {"loc": {"$near": {"$geometry": point(0, 0)}}}
    refused(lambda: list(db.c.find(near)), 291, "unable to find index for $geoNear query")
    refused(lambda: list(db.c.aggregate([{"$geoNear": {"near": [0, 0], "distanceField": "d"}}])), 27)
    db.c.create_index([("loc", GEOSPHERE)])
    assert len(list(db.c.find(near))) == 1
    refused(lambda: db.c.count_documents(near), 5626500, "are not allowed in this context")
    refused(lambda: list(db.c.find({"$or": [near, {"a": 1}]})), 2, "geoNear must be top-level expr")
    refused(lambda: list(db.c.find({"$nor": [near]})), 2)
    refused(lambda: list(db.c.aggregate([{"$match": {}}, {"$geoNear": {"near": [0, 0], "distanceField": "d"}}])), 40602)
    refused(lambda: list(db.c.find({"loc": {"$geoWithin": {"$geometry": point(0, 0)}}})), 2, "not supported with provided geometry")
    refused(lambda: db.command("collMod", "c", validator=near), 5626500)
    db.c.create_index([("other", GEOSPHERE)])
    refused(lambda: list(db.c.aggregate([{"$geoNear": {"near": point(0, 0), "distanceField": "d"}}])), 27, "unsure which to use")
    key = {"$geoNear": {"near": point(0, 0), "distanceField": "d", "key": "loc"}}
    assert len(list(db.c.aggregate([key]))) == 1


def test_a_polygon_of_many_vertices(db):
    count = 50_000
    ring = [[10 * math.cos(2 * math.pi * n / count), 10 * math.sin(2 * math.pi * n / count)] for n in range(count)]
    disc = {"type": "Polygon", "coordinates": [ring + ring[:1]]}
    db.c.create_index([("loc", GEOSPHERE)])
    db.c.insert_many({"_id": n, "loc": point(n, 0)} for n in range(20))
    assert db.c.count_documents({"loc": {"$geoWithin": {"$geometry": disc}}}) in (10, 11)
    db.c.insert_one({"_id": "disc", "loc": disc})
    assert [d["_id"] for d in db.c.find({"loc": {"$near": {"$geometry": point(-30, 0)}}}, {"loc": 0}).limit(2)] == ["disc", 0]


def test_updates_and_deletes_by_place(db):
    db.c.create_index([("loc", GEOSPHERE)])
    db.c.insert_many({"_id": n, "loc": [n, 0]} for n in range(10))
    db.c.update_one({"loc": {"$near": {"$geometry": point(3.2, 0)}}}, {"$set": {"hit": 1}})
    assert [d["_id"] for d in db.c.find({"hit": 1})] == [3]
    assert db.c.find_one_and_delete({"loc": {"$nearSphere": [9, 0]}})["_id"] == 9
    assert db.c.delete_many({"loc": {"$geoWithin": {"$centerSphere": [[0, 0], 0.05]}}}).deleted_count == 3
    assert db.c.distinct("_id", {"loc": {"$geoWithin": {"$geometry": square(2.5, -1, 3)}}}) == [3, 4, 5]
