"""Depth: dotted paths of many names, values that expressions build level by level, variables, pipelines within each other. Each
is answered, the server lives, and what it stores can be read and written back."""

import bson
import pymongo
from pymongo.errors import OperationFailure, PyMongoError

from support import Attack, directory, server

UPDATES = {
    "$set": 1, "$unset": 1, "$inc": 1, "$mul": 2, "$min": 1, "$max": 1, "$push": 1, "$addToSet": 1, "$pull": 1, "$pullAll": [1],
    "$pop": 1, "$bit": {"or": 1}, "$currentDate": True, "$setOnInsert": 1, "$rename": "b",
}
STORED_LEVELS_MAX = 180


def path(rng):
    return ".".join([rng.choice(["a", "0", "$[]"]) if rng.random() < 0.01 else "a"] * rng.choice([3, 150, 199, 200, 201, 2000, 100_000]))


def built(rng):
    """An expression whose value nests many levels."""
    inside = rng.choice([["$$value"], {"a": "$$value"}, {"a": ["$$value"]}, {"$mergeObjects": [{"a": "$$value"}, {"b": 1}]}])
    levels = rng.choice([100, 170, 178, 179, 180, 198, 199, 200, 5000, 100_000])
    return {"$reduce": {"input": {"$range": [0, levels]}, "initialValue": {"x": 1}, "in": inside}}


def stages(rng):
    return [
        rng.choice([
            {"$redact": "$$DESCEND"},
            {"$project": {"h": {"$toHashedIndexKey": "$x"}}},
            {"$project": {path(rng): 1}},
            {"$addFields": {path(rng): "$x"}},
            {"$unset": path(rng)},
            {"$sort": {"x": 1}},
            {"$group": {"_id": "$x", "all": {"$push": "$$ROOT"}}},
            {"$facet": {"a": [{"$match": {}}]}},
            {"$setWindowFields": {"output": {"w": {"$addToSet": "$x"}}}},
            {"$lookup": {"from": "c", "pipeline": [{"$group": {"_id": None}}] * rng.choice([1, 900]), "as": "x"}},
            {"$out": "o"},
            {"$merge": "o"},
        ])
        for _ in range(rng.randrange(1, 6))
    ]


def statement(rng, db):
    """Runs one statement; returns its text."""
    value, long = built(rng), path(rng)
    kind = rng.randrange(8)
    if kind == 0:
        name = rng.choice(list(UPDATES))
        db.c.update_one({"_id": rng.choice([1, "new"])}, {name: {long: UPDATES[name]}}, upsert=rng.random() < 0.5)
    elif kind == 1:
        db.c.update_one({long: 1}, {"$set": {"z": 1}}, upsert=True)
    elif kind == 2:
        db.c.update_one({"_id": 1}, [{"$set": {rng.choice(["x", "y.z"]): value}}])
    elif kind == 3:
        list(db.c.aggregate([{"$addFields": {"x": value}}, *stages(rng)]))
    elif kind == 4:
        list(db.c.find({rng.choice([long, "x"]): {"$gt": 1}}, {long: 1}, sort=[(long, 1)]))
    elif kind == 5:
        db.c.create_index([(rng.choice([long, "x", "$**"]), rng.choice([1, "hashed"]))])
    elif kind == 6:
        variables = {f"v{n}": n for n in range(rng.choice([10, 7500, 60_000]))}
        list(db.c.aggregate([{"$project": {"x": {"$let": {"vars": variables, "in": "$$v9"}}}}], let=variables))
    else:
        around = [{"$group": {"_id": "$_id"}}] * rng.choice([5, 50, 300, 990])
        pipeline = around
        # each one runs for every row of the one around it
        for _ in range(rng.choice([1, 3])):
            pipeline = [{"$lookup": {"from": "c", "pipeline": pipeline, "as": "x"}}, *around]
        list(db.c.aggregate(pipeline, maxTimeMS=20_000))


def can_be_written_back(db):
    for name in ("c", "o"):
        for document in db[name].find().limit(50):
            db.back.replace_one({"_id": document["_id"]}, document, upsert=True)


def attack(found, arbor, engine, statements):
    with pymongo.MongoClient(arbor.uri, timeoutMS=60_000) as client:
        db = client.deep
        db.c.insert_many([{"_id": 1}, {"_id": 2, "a": [{"a": 1}]}])
        for _ in range(statements):
            state = found.random.getstate()
            try:
                statement(found.random, db)
            except (OperationFailure, bson.errors.InvalidDocument):
                pass
            except PyMongoError as error:
                found.finding(f"{engine}: {error!r} after a statement; state of the random numbers {hash(state)}")
            if not found.expect(arbor.process.poll() is None, f"{engine}: the server died: {arbor.log_tail()[-500:]}"):
                return
        can_be_written_back(db)
        for name in ("c", "o"):
            if name in db.list_collection_names():
                valid = db.command("validate", name, full=True)["valid"]
                found.expect(valid, f"{engine}: {name} is not valid")
        # collections do not grow over the rounds
        client.drop_database("deep")


def main():
    found = Attack(__doc__)
    rounds = 0
    for _, engine in found.rounds():
        with directory() as path, server(path, engine) as arbor:
            arbor.start()
            attack(found, arbor, engine, 150)
            found.expect(arbor.process.poll() is None and arbor.stop() == 0, f"{engine}: the server does not end cleanly")
        rounds += 1
    found.end(f"{rounds} rounds of deep values")


if __name__ == "__main__":
    main()
