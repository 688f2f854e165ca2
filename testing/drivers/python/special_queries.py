"""MongoEngine's and Spring's ways to ask for places, collation and measurements."""

import datetime

import mongoengine as me
import pymongo
from flow import DATABASE, URI, empty_database, fails, finish, same, step
from pymongo.collation import Collation
from pymongo.errors import OperationFailure

empty_database()
me.connect(DATABASE, host=URI, uuidRepresentation="standard")
db = pymongo.MongoClient(URI)[DATABASE]


class Shop(me.Document):
    name = me.StringField()
    about = me.StringField()
    spot = me.PointField()
    flat = me.GeoPointField()
    way = me.LineStringField()
    area = me.PolygonField()


with step("MongoEngine: indexes of geo fields") as seen:
    Shop.ensure_indexes()
    keys = {tuple(pair) for index in Shop._get_collection().index_information().values() for pair in index["key"]}
    for expected in (("spot", "2dsphere"), ("flat", "2d"), ("way", "2dsphere"), ("area", "2dsphere")):
        assert expected in keys, f"{expected} is not in {keys}"
    Shop.objects.insert([
        Shop(name="Books and maps", about="We sell books", spot=[13.40, 52.52], flat=[13.40, 52.52], way=[[13.3, 52.5], [13.5, 52.5]], area=[[[13, 52], [14, 52], [14, 53], [13, 53], [13, 52]]]),
        Shop(name="Bakery", about="Bread, and books of recipes", spot=[13.06, 52.40], flat=[13.06, 52.40]),
        Shop(name="Harbour", about="Ships", spot=[9.99, 53.55], flat=[9.99, 53.55])])

with step("MongoEngine: geo operators") as seen:
    name = lambda found: [shop.name for shop in found]  # noqa: E731
    same(name(Shop.objects(spot__near=[13.4, 52.5], spot__max_distance=60_000)), ["Books and maps", "Bakery"])
    same(name(Shop.objects(spot__near={"type": "Point", "coordinates": [10, 53.5]}, spot__max_distance=60_000)), ["Harbour"])
    same(Shop.objects(spot__geo_within=[[[9, 52], [14, 52], [14, 53], [9, 53], [9, 52]]]).count(), 2)
    same(Shop.objects(spot__geo_within_center=[(13.4, 52.5), 0.5]).count(), 2)
    same(Shop.objects(spot__geo_within_sphere=[(13.4, 52.5), 60 / 6378.1]).count(), 2)
    same(Shop.objects(spot__geo_within_box=[(9, 53), (11, 54)]).count(), 1)
    same(Shop.objects(spot__geo_within_polygon=[(9, 53), (11, 53), (10, 55)]).count(), 1)
    same(Shop.objects(area__geo_intersects={"type": "Point", "coordinates": [13.5, 52.5]}).count(), 1)
    same(Shop.objects(way__geo_intersects=[[13.4, 52.0], [13.4, 53.0]]).count(), 1)
    same(name(Shop.objects(flat__near=[9, 53]).limit(1)), ["Harbour"])
    same(name(Shop.objects(flat__within_distance=[(13.4, 52.5), 0.5]).order_by("name")), ["Bakery", "Books and maps"])
    same(Shop.objects(flat__within_box=[(9, 53), (11, 54)]).count(), 1)
    same(Shop.objects(flat__within_spherical_distance=[(13.4, 52.5), 60 / 6378.1]).count(), 2)

with step("Spring: $near with paging, geoNear of a repository") as seen:
    place = db.place
    place.create_index([("location", "2dsphere")])
    place.insert_many([{"_id": n, "location": {"type": "Point", "coordinates": [n / 100, 0]}, "open": n % 2 == 0} for n in range(100)])
    near = {"location": {"$nearSphere": {"$geometry": {"type": "Point", "coordinates": [0, 0]}, "$minDistance": 1000, "$maxDistance": 100_000}}}
    same([doc["_id"] for doc in place.find({**near, "open": True}).skip(1).limit(3)], [4, 6, 8])
    rows = list(place.aggregate([{"$geoNear": {"near": {"type": "Point", "coordinates": [0, 0]}, "distanceField": "dis", "distanceMultiplier": 0.001, "spherical": True, "query": {"open": True}}}, {"$limit": 2}]))
    same([(row["_id"], round(row["dis"], 2)) for row in rows], [(0, 0.0), (2, 2.23)])
    with fails(OperationFailure, code=5626500):
        place.count_documents(near)
    same(place.count_documents({"location": {"$geoWithin": {"$centerSphere": [[0, 0], 0.001]}}}), 6)
    place.delete_many(near)
    same(place.estimated_document_count(), 1 + 10)

with step("Spring: ignore-case by collation, sort by it, unique index by it, views with it") as seen:
    insensitive = Collation("en", strength=2)
    names = db.names
    names.create_index("name", unique=True, collation=insensitive)
    names.insert_many([{"name": name} for name in ("beta", "Alpha", "gamma")])
    same([doc["name"] for doc in names.find({"name": {"$gte": "ALPHA"}}, collation=insensitive).sort("name")], ["Alpha", "beta", "gamma"])
    with fails(pymongo.errors.DuplicateKeyError, code=11000):
        names.insert_one({"name": "BETA"})
    same(names.count_documents({"name": "GAMMA"}, collation=insensitive), 1)
    same(names.find_one_and_update({"name": "GAMMA"}, {"$set": {"x": 1}}, collation=insensitive, return_document=True)["x"], 1)
    same(names.bulk_write([pymongo.UpdateOne({"name": "ALPHA"}, {"$set": {"x": 2}}, collation=insensitive), pymongo.DeleteOne({"name": "BETA"}, collation=insensitive)]).bulk_api_result["nRemoved"], 1)
    db.create_collection("seen", viewOn="names", pipeline=[], collation={"locale": "en", "strength": 2})
    same(db.seen.count_documents({"name": "alpha"}), 1)
    with fails(OperationFailure, code=167):
        list(db.seen.find({}, collation={"locale": "fr"}))

with step("time series: create, insert, window, bucket limits") as seen:
    db.create_collection("weather", timeseries={"timeField": "ts", "metaField": "where", "granularity": "hours"})
    base = datetime.datetime(2024, 1, 1)
    db.weather.insert_many([{"ts": base + datetime.timedelta(hours=n), "where": {"city": n % 3}, "t": n} for n in range(90)])
    same(db.weather.count_documents({"where.city": 1, "ts": {"$lt": base + datetime.timedelta(days=1)}}), 8)
    rows = list(db.weather.aggregate([{"$match": {"where.city": 0}}, {"$setWindowFields": {"partitionBy": "$where.city", "sortBy": {"ts": 1}, "output": {"m": {"$avg": "$t", "window": {"range": [-1, 0], "unit": "day"}}}}}, {"$limit": 3}, {"$project": {"_id": 0, "m": 1}}]))
    same(rows, [{"m": 0.0}, {"m": 1.5}, {"m": 3.0}])

finish()
