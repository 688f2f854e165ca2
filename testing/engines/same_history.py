"""The same operations give the same history on every engine.

One server per engine, and one in which every collection lives on another engine, are driven by the same random operations:
inserts of every BSON type, updates, replacements, deletes, reads, aggregations, index builds, drops and renames, in good and in
bad order. After each operation all answers are compared, error codes and texts included; after each round `dbHash`, `count` and
`validate`. Between rounds the servers are killed with -9 after a journaled write, or stopped, and started again. The mixed server also
moves its collections to other engines meanwhile. Ends with a non-zero code at the first difference and says how to repeat it.
"""

import argparse
import datetime
import os
import pathlib
import random
import re
import shutil
import sys
import tempfile
import time

import bson
import pymongo
from pymongo.errors import BulkWriteError, OperationFailure
from pymongo.write_concern import WriteConcern

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from arbor_process import Arbor  # noqa: E402

COLLECTIONS = ["a", "b", "c", "d"]
FIELDS = ["x", "y", "t", "s.u", "s.v"]
EPOCH = datetime.datetime(2026, 1, 1)


class Server:
    """A server on one engine, or on several (`mix`)."""

    def __init__(self, directory, engines, cache_flags):
        self.engines = engines
        self.name = engines[0] if len(engines) == 1 else "mix"
        flags = ["--storageEngine", engines[0], "--syncdelay", "1", *cache_flags]
        self.arbor = Arbor(directory / self.name, flags)
        self.open()

    def open(self):
        self.arbor.start()
        self.client = pymongo.MongoClient(self.arbor.uri, retryWrites=False, directConnection=True)
        self.db = self.client.get_database("same", write_concern=WriteConcern(w=1))

    def again(self, kill):
        """Ends the server as asked and starts it again. What was acknowledged before a journaled write is kept by either way."""
        self.client.same.marks.with_options(write_concern=WriteConcern(w=1, j=True)).replace_one({"_id": 1}, {}, upsert=True)
        self.client.close()
        self.arbor.kill() if kill else self.arbor.stop()
        self.open()

    def place(self, rng):
        """The option that says where a collection or index goes; takes the same random number on each server."""
        number = rng.randrange(1 << 20)
        return {"storageEngine": {self.engines[number % len(self.engines)]: {}}} if len(self.engines) > 1 else {}


def scalar(rng):
    choices = [
        lambda: rng.randrange(-5, 30), lambda: bson.int64.Int64(rng.randrange(-(2**62), 2**62)),
        lambda: rng.choice([0.0, -0.0, 1.5, 2.0, float("inf"), -3.25]), lambda: rng.choice("abcdefg") * rng.randrange(4),
        lambda: None, lambda: rng.random() < 0.5, lambda: EPOCH + datetime.timedelta(seconds=rng.randrange(1000)),
        lambda: bson.ObjectId(rng.randbytes(12)), lambda: bson.Binary(rng.randbytes(rng.randrange(6)), rng.choice([0, 5])),
        lambda: bson.Decimal128(str(rng.randrange(40))), lambda: bson.Timestamp(rng.randrange(1, 99), rng.randrange(9)),
        lambda: bson.MinKey(), lambda: bson.MaxKey(), lambda: bson.Regex("^" + rng.choice("abc")),
        lambda: rng.randrange(10), lambda: rng.randrange(10),
    ]
    return rng.choice(choices)()


def value(rng):
    choice = rng.random()
    if choice < 0.15:
        return [scalar(rng) for _ in range(rng.randrange(4))]
    if choice < 0.2:
        return {"u": scalar(rng)}
    return scalar(rng)


def document(rng, _id):
    doc = {"_id": _id}
    for field in ["x", "y", "t"]:
        if rng.random() < 0.8:
            doc[field] = value(rng)
    if rng.random() < 0.5:
        doc["s"] = {"u": value(rng), "v": rng.randrange(20)}
    if rng.random() < 0.3:
        doc["pad"] = "p" * rng.choice([10, 300, 5000, 40000])
    return doc


def an_id(rng):
    return rng.choice([rng.randrange(400), f"k{rng.randrange(200)}"])


def a_filter(rng):
    field = rng.choice(FIELDS)
    return rng.choice([
        lambda: {}, lambda: {"_id": an_id(rng)}, lambda: {"_id": {"$gte": rng.randrange(300), "$lt": rng.randrange(400)}},
        lambda: {field: scalar(rng)}, lambda: {field: {"$gt": scalar(rng)}}, lambda: {field: {"$lte": rng.randrange(20)}},
        lambda: {field: {"$in": [scalar(rng) for _ in range(rng.randrange(5))]}}, lambda: {field: {"$exists": rng.random() < 0.5}},
        lambda: {"$or": [{field: rng.randrange(9)}, {rng.choice(FIELDS): {"$lt": rng.randrange(9)}}]},
        lambda: {field: {"$type": rng.choice(["int", "string", "array", "null"])}}, lambda: {field: {"$ne": scalar(rng)}},
        lambda: {"t": {"$elemMatch": {"$gt": rng.randrange(9)}}}, lambda: {"t": {"$size": rng.randrange(3)}},
        lambda: {"x": {"$regex": "^a"}}, lambda: {field: {"$not": {"$gt": rng.randrange(9)}}},
    ])()


def an_update(rng):
    field = rng.choice(FIELDS)
    return rng.choice([
        lambda: {"$set": {field: value(rng)}}, lambda: {"$inc": {field: rng.randrange(5)}}, lambda: {"$unset": {field: ""}},
        lambda: {"$push": {"t": scalar(rng)}}, lambda: {"$addToSet": {"t": rng.randrange(9)}}, lambda: {"$pull": {"t": rng.randrange(9)}},
        lambda: {"$min": {field: scalar(rng)}}, lambda: {"$mul": {field: 2}}, lambda: {"$rename": {"x": "y"}},
        lambda: [{"$set": {"y": {"$ifNull": ["$x", 0]}}}], lambda: {"$set": {"_id": 5}}, lambda: {"$bogus": 1},
    ])()


def pipeline(rng):
    field = rng.choice(["x", "y", "s.v"])
    return rng.choice([
        lambda: [{"$match": a_filter(rng)}, {"$group": {"_id": f"${field}", "n": {"$sum": 1}, "m": {"$max": "$_id"}}}, {"$sort": {"_id": 1}}],
        lambda: [{"$unwind": "$t"}, {"$sort": {"_id": 1, "t": 1}}, {"$limit": 50}],
        lambda: [{"$sort": {field: rng.choice([1, -1]), "_id": 1}}, {"$skip": 3}, {"$limit": 20}, {"$project": {"x": 1, "y": 1}}],
        lambda: [{"$lookup": {"from": rng.choice(COLLECTIONS), "localField": field, "foreignField": "_id", "as": "f"}},
                 {"$project": {"n": {"$size": "$f"}}}, {"$sort": {"_id": 1}}],
        lambda: [{"$match": a_filter(rng)}, {"$count": "n"}],
    ])()


def step(rng):
    """One operation: what it is called, and how to run it on a server (with its own copy of the randomness)."""
    coll, seed = rng.choice(COLLECTIONS), rng.random()
    choice = rng.random()
    kinds = [(0.30, "insert"), (0.45, "update"), (0.52, "replace"), (0.60, "delete"), (0.75, "find"), (0.83, "aggregate"),
             (0.87, "count"), (0.90, "modify"), (0.93, "index"), (0.95, "unindex"), (0.96, "drop"), (0.97, "rename"),
             (0.98, "move"), (1.0, "bulk")]
    kind = next(name for limit, name in kinds if choice <= limit)
    return kind, coll, seed


def run(server, kind, name, seed):
    rng, db = random.Random(seed), server.db
    coll = db[name]
    ordered = [("_id", 1)]
    if kind == "insert":
        docs = [document(rng, an_id(rng)) for _ in range(rng.choice([1, 1, 5, 40]))]
        return coll.insert_many(docs, ordered=rng.random() < 0.5).inserted_ids
    if kind == "update":
        many, upsert = rng.random() < 0.5, rng.random() < 0.2
        update = coll.update_many if many else coll.update_one
        selected = a_filter(rng) if many else {"_id": an_id(rng)}
        return update(selected, an_update(rng), upsert=upsert and not many).raw_result
    if kind == "replace":
        _id = an_id(rng)
        return coll.replace_one({"_id": _id}, document(rng, _id), upsert=rng.random() < 0.5).raw_result
    if kind == "delete":
        selected = rng.choice([{"_id": an_id(rng)}, {"_id": {"$gte": rng.randrange(400), "$lt": rng.randrange(400)}}, {"s.v": rng.randrange(20)}])
        return coll.delete_many(selected).raw_result
    if kind == "find":
        selected, sort = a_filter(rng), [(rng.choice(FIELDS), rng.choice([1, -1])), *ordered]
        found = coll.find(selected).sort(sort).skip(rng.choice([0, 0, 2])).limit(rng.choice([0, 10, 100]))
        if rng.random() < 0.3:
            return sorted(map(bson.encode, coll.find(selected)))
        return [bson.encode(doc) for doc in found]
    if kind == "aggregate":
        return [bson.encode(doc) for doc in coll.aggregate(pipeline(rng))]
    if kind == "count":
        selected = a_filter(rng)
        return coll.count_documents(selected), coll.estimated_document_count(), len(coll.distinct(rng.choice(FIELDS), selected))
    if kind == "modify":
        return coll.find_one_and_update({"_id": an_id(rng)}, an_update(rng), return_document=rng.random() < 0.5)
    if kind == "index":
        keys = [(field, rng.choice([1, -1])) for field in rng.sample(FIELDS, rng.choice([1, 1, 2]))]
        options = {"unique": True, "sparse": True} if rng.random() < 0.1 else {}
        return coll.create_index(keys, **options, **server.place(rng))
    if kind == "unindex":
        names = sorted(coll.index_information())
        return coll.drop_index(rng.choice(names)) if names else None
    if kind == "drop":
        coll.drop()
        return sorted(db.create_collection(name, **server.place(rng)).index_information())
    if kind == "rename":
        coll.rename(rng.choice(COLLECTIONS), dropTarget=rng.random() < 0.7)
        return None
    if kind == "move":
        option = server.place(rng)
        if option and name in db.list_collection_names():
            db.command("collMod", name, **option)
        return None
    requests = [rng.choice([
        lambda: pymongo.InsertOne(document(rng, an_id(rng))), lambda: pymongo.UpdateOne({"_id": an_id(rng)}, an_update(rng)),
        lambda: pymongo.DeleteOne({"_id": an_id(rng)})])() for _ in range(10)]
    return coll.bulk_write(requests, ordered=rng.random() < 0.5).bulk_api_result


def answer(server, operation):
    """What the server answered, or its error, as something that can be compared."""
    try:
        return plain(run(server, *operation))
    except BulkWriteError as error:
        return plain({"bulk error": error.details})
    except OperationFailure as error:
        # an error about an index shows its whole specification, and with it the engine that the mixed server was given
        text = re.sub(r", storageEngine: \{ \w+: \{\} \}", "", error.details.get("errmsg", ""))
        # builds and collections have random ids
        return ("error", error.code, re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "UUID", text))


def plain(result):
    """Without what differs between servers by right: times, and engines by name."""
    if isinstance(result, dict):
        return {key: plain(v) for key, v in result.items() if key not in ("ok", "operationTime", "$clusterTime", "op")}
    if isinstance(result, (list, tuple)):
        return [plain(v) for v in result]
    return repr(result)


def states(server):
    names = sorted(server.db.list_collection_names())
    hashes = server.db.command("dbHash")["collections"]
    reports = {name: server.db.command("validate", name) for name in names}
    bad = {name: report["errors"] for name, report in reports.items() if not report["valid"]}
    indexes = {name: sorted(server.db[name].index_information()) for name in names}
    return {"names": names, "hashes": hashes, "invalid": bad, "indexes": indexes,
            "counts": {name: server.db[name].estimated_document_count() for name in names}}


def compare(servers, results, what, repeat):
    for server, result in zip(servers[1:], results[1:]):
        if result != results[0]:
            print(f"{what}: {servers[0].name} and {server.name} differ\n  {str(results[0])[:2000]}\n  {str(result)[:2000]}\nrepeat: {repeat}")
            return False
    return True


def history(directory, engines, mixed, seed, steps, rounds):
    rng = random.Random(seed)
    cache = ["--setParameter", "enableTestCommands=1"]
    servers = [Server(directory, [engine], cache) for engine in engines]
    if mixed:
        servers.append(Server(directory, engines, cache))
    repeat = f"same_history.py --engines {','.join(engines)} --seed {seed} --steps {steps} --rounds {rounds}"
    try:
        failed = 0
        for number in range(rounds):
            for place in range(steps):
                operation = step(rng)
                results = [answer(server, operation) for server in servers]
                failed += isinstance(results[0], tuple)
                if not compare(servers, results, f"round {number}, step {place}, {operation}", repeat):
                    return False
            found = [states(server) for server in servers]
            if found[0]["invalid"] or not compare(servers, found, f"state after round {number}", repeat):
                print(found[0]["invalid"])
                return False
            kill = rng.random() < 0.6
            for server in servers:
                server.again(kill)
            again = [states(server) for server in servers]
            for one in again:
                for part in ("names", "hashes", "counts", "indexes"):
                    one[part] = [x for x in one[part] if x != "marks"] if isinstance(one[part], list) else \
                        {k: v for k, v in one[part].items() if k != "marks"}
            if not compare(servers, again, f"state after the restart of round {number} (kill={kill})", repeat):
                return False
        names = ", ".join(server.name for server in servers)
        print(f"seed {seed}: {rounds} rounds of {steps} operations ({failed} answered with an error) agree on {names}", flush=True)
        return True
    finally:
        for server in servers:
            server.client.close()
            server.arbor.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engines", default="ftree,lmdb")
    parser.add_argument("--no-mix", action="store_true")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--histories", type=int, default=5)
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--rounds", type=int, default=4)
    args = parser.parse_args()
    engines = args.engines.split(",")
    seeds = [args.seed] if args.seed is not None else [random.randrange(1 << 30) for _ in range(args.histories)]
    began = time.monotonic()
    for seed in seeds:
        directory = pathlib.Path(tempfile.mkdtemp(prefix="arbor-same-"))
        if not history(directory, engines, not args.no_mix and len(engines) > 1, seed, args.steps, args.rounds):
            print(f"data kept in {directory}")
            sys.exit(1)
        shutil.rmtree(directory)
    print(f"{len(seeds)} histories, no difference, {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
