"""What Spring Data MongoDB sends for repositories and templates, replayed: the documents are the ones of its query log."""

import datetime
import re

import bson
import pymongo
from bson.son import SON
from flow import DATABASE, URI, empty_database, fails, finish, same, step
from pymongo.errors import OperationFailure, WriteError

empty_database()
client = pymongo.MongoClient(URI)
db = client[DATABASE]
people = db.person
PERSON = "org.example.Person"

with step("template: save, class names, auditing and optimistic locking") as seen:
    now = datetime.datetime(2024, 5, 1)
    documents = [{"_id": bson.ObjectId(), "firstname": f"First{n}", "lastname": ["Smith", "smith", "Jones", "O'Neil (x)"][n % 4], "age": n,
                  "address": {"city": f"City{n % 3}", "location": [n / 10, n / 10]}, "createdDate": now, "version": bson.Int64(0), "_class": PERSON}
                 for n in range(60)]
    people.insert_many(documents)
    one = documents[0]
    changed = people.replace_one({"_id": one["_id"], "version": 0}, {**one, "version": bson.Int64(1), "lastModifiedDate": now})
    same((changed.matched_count, changed.modified_count), (1, 1))
    stale = people.replace_one({"_id": one["_id"], "version": 0}, {**one, "version": bson.Int64(1)})
    same((stale.matched_count, stale.modified_count), (0, 0))
    same(people.delete_one({"_id": one["_id"], "version": 0}).deleted_count, 0)
    with fails(WriteError, code=66):
        people.update_one({"_id": one["_id"]}, {"$set": {"_id": 5}})

with step("derived queries: equals, between, in, like, ignore case, null, nested, negations") as seen:
    count = people.count_documents
    same([count({"lastname": "Smith"}), count({"age": {"$gt": 10, "$lt": 20}}), count({"age": {"$gte": 10, "$lte": 20}}), count({"age": {"$in": [1, 2, 100]}})], [15, 9, 11, 2])
    same([count({"lastname": re.compile("^smith$", re.I)}), count({"lastname": {"$regex": r"^\Qsmith\E$", "$options": "i"}}), count({"lastname": {"$regex": ".*mit.*", "$options": ""}}),
          count({"lastname": {"$regex": r"^\QO'Neil (\E", "$options": "i"}}), count({"lastname": {"$not": re.compile(".*mit.*")}})], [30, 30, 30, 15, 30])
    same([count({"$or": [{"firstname": "First1"}, {"lastname": "Jones"}]}), count({"$and": [{"age": {"$ne": 3}}, {"age": {"$lt": 5}}]}), count({"email": None}),
          count({"email": {"$exists": False}}), count({"address.city": "City1"}), count({"address": {"city": "City0", "location": [0.0, 0.0]}})], [16, 4, 60, 60, 20, 1])
    same([count({"_class": {"$in": [PERSON, PERSON + "Sub"]}}), count({"$nor": [{"age": 1}, {"age": 2}]}), count({"age": {"$mod": [2, 0]}}), count({"age": {"$type": 16}})], [60, 58, 30, 60])

with step("paging: a count with skip, limit, sort; windows by key set; exists, first, delete ... by") as seen:
    page = list(people.find({"address.city": "City1"}, sort=[("age", -1)], skip=5, limit=5))
    same(([doc["age"] for doc in page], people.count_documents({"address.city": "City1"})), ([43, 40, 37, 34, 31], 20))
    pipeline = [{"$match": {"address.city": "City1"}}, {"$group": {"_id": 1, "n": {"$sum": 1}}}]
    same(list(people.aggregate(pipeline))[0]["n"], 20)
    after = list(people.find({"$or": [{"age": {"$gt": 10}}, {"age": 10, "_id": {"$gt": documents[10]["_id"]}}]}, sort=[("age", 1), ("_id", 1)], limit=3))
    same([doc["age"] for doc in after], [11, 12, 13])
    same(len(list(people.find({"age": 1}, projection={"_id": 1}, limit=1))), 1)
    same(people.find_one_and_delete({"age": 59})["firstname"], "First59")
    same(people.delete_many({"age": {"$gt": 57}}).deleted_count, 1)

with step("updates: findAndModify, upsert, push with options, current date, array filters, bulk operations") as seen:
    same(people.find_one_and_update({"age": 5}, {"$inc": {"visits": 1}, "$setOnInsert": {"x": 1}}, upsert=True, return_document=True)["visits"], 1)
    people.update_one({"age": 5}, {"$push": {"marks": {"$each": [{"s": 3}, {"s": 1}, {"s": 2}], "$sort": {"s": -1}, "$slice": 2}}, "$currentDate": {"seen": True, "stamp": {"$type": "timestamp"}}})
    same([mark["s"] for mark in people.find_one({"age": 5})["marks"]], [3, 2])
    people.update_one({"age": 5}, {"$set": {"marks.$[m].ok": True}, "$bit": {"flags": {"or": 5}}}, array_filters=[{"m.s": {"$gt": 2}}])
    same(people.find_one({"age": 5, "marks": {"$elemMatch": {"s": 3, "ok": True}}})["flags"], 5)
    result = people.bulk_write([pymongo.UpdateMany({"age": {"$lt": 3}}, {"$set": {"young": True}}), pymongo.UpdateOne({"age": 900}, {"$set": {"a": 1}}, upsert=True), pymongo.DeleteOne({"age": 900})], ordered=True)
    same((result.modified_count, len(result.upserted_ids), result.deleted_count), (3, 1, 1))
    same(people.update_one({"age": 6}, [{"$set": {"full": {"$concat": ["$firstname", " ", "$lastname"]}}}]).modified_count, 1)

with step("aggregation: facets, buckets, lookups, replaceRoot, conditionals, dates") as seen:
    facets = next(people.aggregate([{"$match": {"_class": PERSON}}, {"$facet": {"metadata": [{"$count": "total"}], "data": [{"$sort": {"age": 1}}, {"$skip": 2}, {"$limit": 2}], "cities": [{"$sortByCount": "$address.city"}], "ages": [{"$bucketAuto": {"groupBy": "$age", "buckets": 3}}]}}, {"$project": {"data.age": 1, "total": {"$arrayElemAt": ["$metadata.total", 0]}, "cities": 1, "n": {"$size": "$ages"}}}]))
    same((facets["total"], facets["n"], [row["age"] for row in facets["data"]], {row["_id"]: row["count"] for row in facets["cities"]}), (58, 3, [2, 3], {"City0": 20, "City1": 19, "City2": 19}))
    db.orders.insert_many([{"person": doc["_id"], "sum": n, "at": now + datetime.timedelta(days=n)} for n, doc in enumerate(documents[:20])])
    rows = list(people.aggregate([
        {"$lookup": {"from": "orders", "localField": "_id", "foreignField": "person", "as": "orders"}}, {"$unwind": {"path": "$orders", "preserveNullAndEmptyArrays": False, "includeArrayIndex": "i"}},
        {"$project": {"month": {"$dateToString": {"format": "%Y-%m", "date": "$orders.at"}}, "size": {"$cond": {"if": {"$gte": ["$orders.sum", 10]}, "then": "big", "else": "small"}}, "sum": "$orders.sum"}},
        {"$group": {"_id": {"month": "$month", "size": "$size"}, "sum": {"$sum": "$sum"}, "n": {"$sum": 1}}}, {"$sort": SON([("_id.month", 1), ("_id.size", 1)])}, {"$replaceRoot": {"newRoot": {"$mergeObjects": ["$_id", {"n": "$n"}]}}}], allowDiskUse=True))
    same(rows, [{"month": "2024-05", "size": "big", "n": 10}, {"month": "2024-05", "size": "small", "n": 10}])
    sub = list(db.orders.aggregate([{"$lookup": {"from": "person", "let": {"p": "$person"}, "pipeline": [{"$match": {"$expr": {"$eq": ["$_id", "$$p"]}}}, {"$project": {"firstname": 1, "_id": 0}}], "as": "who"}}, {"$limit": 1}, {"$set": {"who": {"$first": "$who.firstname"}}}]))
    same(sub[0]["who"], "First0")

with step("DBRefs, maps, schema validation, capped event logs, indexes of annotations") as seen:
    ref = bson.DBRef("orders", db.orders.find_one()["_id"])
    people.update_one({"age": 7}, {"$set": {"order": ref}})
    same(people.count_documents({"order": ref}) + people.count_documents({"order.$id": ref.id}) + people.count_documents({"order.$ref": "orders"}), 3)
    same(db.dereference(people.find_one({"age": 7})["order"])["_id"], ref.id)
    people.create_indexes([pymongo.IndexModel([("lastname", 1), ("age", -1)], name="name_age", background=True), pymongo.IndexModel("address.city"), pymongo.IndexModel("createdDate", expireAfterSeconds=10**8)])
    same(set(people.index_information()), {"_id_", "name_age", "address.city_1", "createdDate_1"})
    db.create_collection("audit", validator={"$jsonSchema": {"bsonType": "object", "required": ["at"], "properties": {"at": {"bsonType": "date"}}}}, validationAction="error", validationLevel="strict")
    with fails(WriteError, code=121):
        db.audit.insert_one({"at": 1})
    same(list(people.find({"lastname": "Jones"}).sort([("lastname", 1), ("age", -1)]).hint("name_age").limit(1))[0]["age"], 54)

with step("streams: a tailable cursor of a capped collection; what a standalone refuses") as seen:
    db.create_collection("events", capped=True, size=100_000)
    db.events.insert_one({"n": 1})
    tail = db.events.find({}, cursor_type=pymongo.CursorType.TAILABLE_AWAIT)
    same(next(tail)["n"], 1)
    db.events.insert_one({"n": 2})
    same(next(tail)["n"], 2)
    tail.close()
    with client.start_session() as session, fails(OperationFailure, code=20):
        with session.start_transaction():
            people.insert_one({}, session=session)

finish()
