#!/usr/bin/env python3
"""The same random history on one server and on three shards behind two routers: the same answers, errors and content.

    ARBOR=path/to/arbor same_answers.py --seeds 20 --steps 300

Statements are raw commands. What may differ is left out of them: of several documents that match, a statement for one of them names an
order; documents that come in no order are compared as a set. Chunks move meanwhile.
"""

import argparse
import contextlib
import datetime
import pathlib
import random
import sys
import tempfile

import bson
import pymongo
from pymongo.errors import OperationFailure

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from arbor_cluster import Cluster  # noqa: E402
from arbor_process import Arbor  # noqa: E402

KEYS = [{"k": 1}, {"k": "hashed"}, {"_id": "hashed"}, {"a": 1, "k": 1}, {"d.x": 1}, {"_id": 1}, {"a": "hashed", "k": 1}]
BEGIN = datetime.datetime(2026, 1, 1)
NAMES = ["c", "other", "plain"]
STRINGS = ["", "a", "B", "b", "ä", "Z", "café", "cafe"]


class Generator:
    """Random statements."""

    def __init__(self, rng):
        self.rng = rng
        self.next_id = 0
        # the same `_id` twice: on several shards it is not seen
        self.repeats = False

    def pick(self, *options):
        return self.rng.choice(options)

    def number(self):
        rng = self.rng
        return self.pick(rng.randrange(20), rng.randrange(-3, 40), bson.Int64(rng.randrange(10)), rng.randrange(20) / 4,
                         bson.Decimal128(str(rng.randrange(10))))

    def value(self):
        rng = self.rng
        return self.pick(self.number(), self.number(), rng.choice(STRINGS), None, True, [rng.randrange(5)], {"x": rng.randrange(5)},
                         BEGIN + datetime.timedelta(hours=rng.randrange(48)))

    def document(self, id_=None):
        rng = self.rng
        if id_ is None:
            self.next_id += 1
            id_ = self.next_id
            if self.repeats and rng.random() < 0.1:
                id_ = rng.randrange(self.next_id)
        doc = {"_id": id_, "k": self.number(), "a": rng.randrange(6), "n": rng.randrange(50)}
        optional = {
            "s": rng.choice(STRINGS),
            "t": [rng.randrange(6) for _ in range(rng.randrange(4))],
            "d": {"x": rng.randrange(20), "y": rng.choice(STRINGS)},
            "v": self.value(),
            "at": BEGIN + datetime.timedelta(hours=rng.randrange(200)),
            "list": [{"i": rng.randrange(4), "j": rng.randrange(4)} for _ in range(rng.randrange(3))],
        }
        doc.update({name: value for name, value in optional.items() if rng.random() < 0.8})
        if rng.random() < 0.1:
            del doc[rng.choice(["k", "a", "n"])]
        return doc

    def id(self):
        return self.rng.randrange(self.next_id + 3)

    def condition(self):
        rng = self.rng
        number = lambda: rng.randrange(20)
        return self.pick(
            lambda: {"_id": self.id()},
            lambda: {"k": self.number()},
            lambda: {"k": {"$gte": number(), "$lt": number() + 8}},
            lambda: {"k": {"$in": [self.number() for _ in range(3)]}},
            lambda: {"a": rng.randrange(6)},
            lambda: {"a": rng.randrange(6), "k": {"$gt": number()}},
            lambda: {"d.x": number()},
            lambda: {"d.x": {"$lte": number()}},
            lambda: {"d": {"x": number(), "y": rng.choice(STRINGS)}},
            lambda: {"t": {"$all": [rng.randrange(6)], "$size": 2}},
            lambda: {"t": {"$elemMatch": {"$gt": 2, "$lt": 5}}},
            lambda: {"list": {"$elemMatch": {"i": 1, "j": {"$gt": 1}}}},
            lambda: {"s": {"$regex": self.pick("^b", "caf", "A"), "$options": self.pick("", "i")}},
            lambda: {"s": {"$exists": self.pick(True, False)}},
            lambda: {"v": {"$type": self.pick("number", "string", "array", "date", "null", "object")}},
            lambda: {"v": self.value()},
            lambda: {"n": {"$mod": [self.pick(2, 3), 1]}},
            lambda: {"$expr": {"$gt": ["$n", {"$multiply": ["$a", 7]}]}},
            lambda: {"at": {"$gte": BEGIN + datetime.timedelta(hours=rng.randrange(150))}},
            lambda: {"k": None},
            lambda: {"$nor": [{"a": rng.randrange(6)}, {"n": {"$lt": 10}}]},
        )()

    def filter(self):
        rng = self.rng
        kind = rng.random()
        if kind < 0.1:
            return {}
        if kind < 0.7:
            return self.condition()
        return {self.pick("$and", "$or"): [self.condition() for _ in range(rng.randrange(2, 4))]}

    def modification(self):
        """One that cannot fail: of many documents, other shards would continue."""
        rng = self.rng
        return self.pick(
            lambda: {"$set": {"n": rng.randrange(50)}},
            lambda: {"$inc": {"n": self.pick(1, -2)}},
            lambda: {"$mul": {"n": 2}},
            lambda: {"$min": {"n": rng.randrange(50)}, "$max": {"a2": rng.randrange(9)}},
            lambda: {"$unset": {self.pick("s", "v", "d.y"): 1}},
            lambda: {"$rename": {"s": "s2"}},
            lambda: {"$push": {"t": self.pick(3, {"$each": [1, 2], "$slice": -3}, {"$each": [5, 0], "$sort": 1})}},
            lambda: {"$addToSet": {"t": {"$each": [1, 4]}}},
            lambda: {"$pull": {self.pick("t", "list"): self.pick({"$gt": 3}, {"i": 1})}},
            lambda: {"$pop": {"t": self.pick(1, -1)}},
            lambda: {"$setOnInsert": {"new": True}, "$set": {"v": self.value()}},
            lambda: [{"$set": {"n": {"$add": [{"$ifNull": ["$n", 0]}, 1]}, "sum": {"$size": {"$ifNull": ["$t", []]}}}}],
            lambda: [{"$unset": ["s"]}, {"$set": {"v": "$a"}}],
            lambda: {"$oops": {"a": 1}},
            lambda: {"$set": {"n": {"$bad": 1}}, "$inc": {"n": 1}},
            lambda: [{"$match": {}}],
        )()

    def risky(self):
        return self.pick({"$set": {"v.x": 1}}, {"$inc": {"s": 1}}, {"$push": {"n": 1}}, {"$set": {"_id": -1}},
                         {"$bit": {"n": {"xor": 3}}}, {"$set": {"list.$[e].j": 9}})

    def update(self, multi):
        rng, statement = self.rng, {}
        statement["q"] = self.filter()
        statement["u"] = self.modification()
        statement["multi"] = multi
        if multi and any(operator in statement["u"] for operator in ("$inc", "$mul")):
            statement["q"] = {"$and": [statement["q"], {"n": {"$type": "number", "$not": {"$type": "array"}}}]}
        if not statement["multi"]:
            kind = rng.random()
            if kind < 0.5:
                statement["q"] = {"_id": self.id()}
                if rng.random() < 0.4:
                    statement["upsert"] = True
                    statement["u"] = self.pick(
                        {"$set": {"k": self.number(), "a": rng.randrange(6)}, "$inc": {"n": 1}}, self.document(id_=statement["q"]["_id"]))
            else:
                statement["sort"] = {"_id": self.pick(1, -1)}
            if rng.random() < 0.1:
                statement["u"] = self.risky()
            elif rng.random() < 0.15:
                statement["u"] = self.pick({"$set": {"k": self.number()}}, {"$inc": {"k": 1}}, {"$set": {"d": {"x": rng.randrange(20)}}})
        if "list.$[e].j" in str(statement["u"]):
            statement["arrayFilters"] = [{"e.i": {"$gte": 1}}]
        return statement

    def delete(self):
        statement = {"q": self.filter(), "limit": self.pick(0, 1)}
        if statement["limit"]:
            statement["q"] = {"_id": self.id()}
        return statement

    def projection(self):
        return self.pick(
            {"n": 1}, {"t": 0, "v": 0}, {"d.x": 1, "_id": 0}, {"m": {"$add": ["$n", 1]}}, {"t": {"$slice": 1}}, {"list": {"$elemMatch": {"i": 1}}},
            {"_id": 1, "a": {"$literal": 5}}, {"a": 1, "b": 0})

    def order(self):
        rng = self.rng
        fields = rng.sample(["k", "a", "n", "s", "d.x", "v", "at", "t"], rng.randrange(3))
        return {**{field: self.pick(1, -1) for field in fields}, "_id": self.pick(1, -1)}

    def find(self, name):
        rng = self.rng
        command = {"find": name, "filter": self.filter(), "sort": self.order()}
        if rng.random() < 0.15:
            del command["sort"]
        else:
            if rng.random() < 0.4:
                command["limit"] = rng.randrange(12)
            if rng.random() < 0.3:
                command["skip"] = rng.randrange(8)
        if rng.random() < 0.4:
            command["projection"] = self.projection()
        if rng.random() < 0.4:
            command["batchSize"] = rng.randrange(6)
        if rng.random() < 0.1:
            command["collation"] = {"locale": "en", "strength": self.pick(1, 2, 3)}
        if rng.random() < 0.05:
            command.update(self.pick({"limit": -1}, {"skip": "x"}, {"filter": {"$bad": 1}}, {"projection": 5}, {"sort": {"a": 2}}, {"unknown": 1}))
        if rng.random() < 0.1:
            command["let"] = {"low": 3}
            command["filter"] = {"$expr": {"$lt": ["$a", "$$low"]}}
        return command

    def accumulator(self):
        return self.pick(
            {"$sum": "$n"}, {"$sum": 1}, {"$avg": "$a"}, {"$min": "$n"}, {"$max": "$s"}, {"$count": {}}, {"$min": "$at"},
            {"$top": {"output": "$_id", "sortBy": {"n": 1, "_id": 1}}}, {"$bottomN": {"n": 2, "output": "$_id", "sortBy": {"a": 1, "_id": 1}}},
            {"$maxN": {"n": 2, "input": "$n"}}, {"$sum": {"$multiply": ["$a", "$n"]}}, {"$sum": "$v"}, {"$avg": "$v"},
            {"$median": {"input": "$n", "method": "approximate"}})

    def key(self):
        return self.pick("$a", "$s", {"$mod": ["$n", 4]}, {"a": "$a", "s": "$s"}, None, "$d.x", {"$type": "$v"})

    def stages(self, depth=0):
        """Stages, and whether their documents come in a total order by then."""
        rng, stages, ordered = self.rng, [], False
        if rng.random() < 0.6:
            stages.append({"$match": self.filter()})
        for _ in range(rng.randrange(1, 5)):
            more, ordered = self.stage(depth, ordered)
            stages += more
        return stages, ordered

    def stage(self, depth, ordered):
        rng = self.rng
        sort = {"$sort": self.order()}
        by_all = lambda stage: ([stage, {"$sort": {"_id": 1}}], True)
        kind = rng.randrange(24)
        if kind == 0:
            return [sort], True
        if kind == 1:
            return [sort, {"$skip": rng.randrange(5)}, {"$limit": rng.randrange(1, 9)}], True
        if kind == 2:
            return by_all({"$group": {"_id": self.key(), "x": self.accumulator(), "n": self.accumulator()}})
        if kind == 3:
            return by_all({"$sortByCount": self.key()})
        if kind == 4:
            return by_all({"$bucket": {"groupBy": "$n", "boundaries": [0, 10, 30], "default": "rest", "output": {"n": self.accumulator()}}})
        if kind == 5:
            return [{"$sort": {"_id": 1}}, {"$bucketAuto": {"groupBy": "$_id", "buckets": 3, "output": {"n": {"$sum": 1}}}}], True
        if kind == 6:
            return [{"$count": self.pick("n", "total")}], True
        if kind == 7:
            return [{"$unwind": self.pick("$t", {"path": "$list", "preserveNullAndEmptyArrays": True})}], False
        if kind == 8:
            return [{"$project": self.pick({"n": 1, "a": 1}, {"v": 0}, {"n": 1, "z": {"$concat": [{"$ifNull": ["$s", "-"]}, "x"]}},
                                           {"n": {"$cond": [{"$gt": ["$n", 10]}, "$n", "$$REMOVE"]}, "a": 1})}], ordered
        if kind == 9:
            return [{self.pick("$set", "$addFields"): {"n": {"$add": [self.pick(1, "$a"), {"$size": {"$ifNull": ["$t", []]}}]}}}], ordered
        if kind == 10:
            return [{"$match": self.filter()}], ordered
        if kind == 11 and depth < 2:
            inner, inner_ordered = self.stages(depth + 1)
            if not inner_ordered:
                inner.append({"$sort": {"_id": 1}})
            spec = {"from": self.pick(*NAMES), "as": "joined", "localField": self.pick("a", "k", "_id", "t"), "foreignField": self.pick("a", "_id", "n", "t")}
            if rng.random() < 0.6:
                spec["pipeline"] = inner
            else:
                spec["pipeline"] = [{"$sort": {"_id": 1}}, {"$limit": 3}]
            return [{"$lookup": spec}], ordered
        if kind == 12 and depth < 2:
            inner, _ = self.stages(depth + 1)
            return [{"$lookup": {"from": self.pick(*NAMES), "let": {"own": "$a"}, "as": "joined", "pipeline": [
                {"$match": {"$expr": {"$eq": ["$a", "$$own"]}}}, *inner, {"$sort": {"_id": 1}}, {"$limit": 4}]}}], ordered
        if kind == 13 and depth < 2:
            inner, _ = self.stages(depth + 1)
            return [{"$unionWith": {"coll": self.pick(*NAMES), "pipeline": inner}}], False
        if kind == 14 and depth < 2:
            facets = {}
            for name in ("p", "q"):
                inner, inner_ordered = self.stages(2)
                facets[name] = inner if inner_ordered else [*inner, {"$sort": {"_id": 1, "n": 1}}]
            return [{"$facet": facets}], True
        if kind == 15:
            return [{"$setWindowFields": {"partitionBy": self.pick("$a", None), "sortBy": {"_id": 1}, "output": {
                "w": {**self.pick({"$sum": "$n"}, {"$max": "$n"}, {"$push": "$_id"}), "window": {"documents": [-2, "current"]}},
                "r": self.pick({"$documentNumber": {}}, {"$rank": {}}, {"$shift": {"output": "$n", "by": 1}})}}}], False
        if kind == 16:
            return [{"$sort": {"_id": 1}}, {"$fill": {"sortBy": {"_id": 1}, "output": {"s": {"method": "locf"}, "v": {"value": 0}}}}], True
        if kind == 17:
            return [{"$graphLookup": {"from": self.pick(*NAMES), "startWith": "$a", "connectFromField": "n", "connectToField": "_id",
                                      "as": "reached", "maxDepth": 2, "depthField": "depth"}},
                    {"$set": {"reached": {"$sortArray": {"input": "$reached", "sortBy": {"_id": 1}}}}}], ordered
        if kind == 18:
            return [{self.pick("$replaceRoot", "$replaceRoot"): {"newRoot": {"$mergeObjects": [{"_id": "$_id"}, "$d"]}}}], ordered
        if kind == 19:
            return [{"$redact": {"$cond": [{"$gt": ["$a", 2]}, "$$PRUNE", "$$DESCEND"]}}], ordered
        if kind == 20:
            return [{"$unset": self.pick("t", ["v", "d.y"])}], ordered
        if kind == 21:
            return [sort, {"$group": {"_id": self.key(), "first": {"$first": "$_id"}, "all": {"$push": "$n"}}}, {"$sort": {"_id": 1}}], True
        if kind == 22:
            return [{"$match": {"n": {"$gte": 0, "$lt": 30}}}, {"$group": {"_id": "$n", "n": {"$first": "$n"}}}, {"$project": {"_id": 0}},
                    {"$densify": {"field": "n", "range": {"step": 5, "bounds": [0, 30]}}}, {"$match": {"n": {"$type": "number"}}},
                    {"$sort": {"n": 1}}], True
        if kind == 23 and rng.random() < 0.3:
            return [self.pick({"$nonsense": {}}, {"$limit": 0}, {"$project": {}}, {"$group": {"x": 1}}, {"$unwind": "t"},
                              {"$set": {"n": {"$divide": ["$n", 0]}}}, {"$sort": {}}, {"$lookup": {"from": "c"}},
                              {"$match": {"$bad": 1}}, {"$count": ""}, {"$out": 5}, {"$facet": {}})], ordered
        return [sort], True

    def aggregate(self, name):
        rng = self.rng
        stages, ordered = self.stages()
        command = {"aggregate": name, "pipeline": stages, "cursor": self.pick({}, {}, {"batchSize": rng.randrange(5)})}
        # of strings that are equal by a collation, any may be the key of a group
        if rng.random() < 0.2 and not any(word in str(stages) for word in ("group", "sortBy", "bucket")):
            command["collation"] = {"locale": "en", "strength": self.pick(1, 2)}
        return command, ordered

    def writing(self, name):
        """A pipeline that writes, and does not fail in between; `$merge` finds documents by their `_id`, which must be all of the shard key then."""
        stages = [{"$match": self.filter()}, {"$project": {"k": 1, "a": 1, "n": 1, "d": 1}}]
        if self.rng.random() < 0.5:
            into = self.pick(*(NAMES if self.repeats else NAMES[1:]))
            stages.append({"$merge": {"into": into, "on": "_id", "whenMatched": self.pick("merge", "keepExisting", [{"$set": {"n": "$$new.n"}}]),
                                      "whenNotMatched": self.pick("insert", "discard")}})
        else:
            stages.append({"$out": self.pick("plain", "made")})
        return {"aggregate": name, "pipeline": stages, "cursor": {}}

    def find_and_modify(self, name):
        rng = self.rng
        command = {"findAndModify": name, "query": self.filter(), "sort": {"_id": self.pick(1, -1)}}
        if rng.random() < 0.3:
            return {**command, "remove": True}
        command["update"] = self.pick({"$inc": {"n": 1}}, {"$set": {"s": "x"}}, {"$push": {"t": 7}}, [{"$set": {"n": "$a"}}], {"$inc": {"k": 1}})
        command["new"] = self.pick(True, False)
        if rng.random() < 0.3:
            command["fields"] = self.pick({"n": 1}, {"v": 0}, {"k": 1, "_id": 0})
        if rng.random() < 0.2:
            command["query"] = {"_id": self.id()}
            command["upsert"] = True
        return command

    def index(self, name):
        key = self.pick({"n": 1}, {"a": 1, "n": -1}, {"t": 1}, {"s": 1}, {"d.x": 1, "n": 1}, {"s": "hashed"}, {"$**": 1})
        options = self.pick({}, {}, {"sparse": True}, {"partialFilterExpression": {"n": {"$gt": 10}}})
        if "$**" in key or "hashed" in key.values():
            options = {}
        title = "_".join(f"{field}_{direction}" for field, direction in key.items()) + "".join(options)
        return self.pick(
            {"createIndexes": name, "indexes": [{"key": key, "name": title, **options}]},
            {"createIndexes": name, "indexes": [{"key": key, "name": title, **options}]},
            {"dropIndexes": name, "index": title},
        )

    def definition(self, name):
        return self.pick(
            {"collMod": name, "validator": {"n": {"$not": {"$gt": 1000}}}},
            {"collMod": name, "validator": {}},
            {"create": "v", "viewOn": name, "pipeline": [{"$match": {"a": {"$lt": 4}}}, {"$set": {"w": {"$add": ["$a", 1]}}}]},
            {"drop": "v"},
            {"create": name},
            {"collMod": "v", "viewOn": name, "pipeline": [{"$group": {"_id": "$a", "n": {"$sum": "$n"}}}]},
            {"drop": "made"},
            {"listIndexes": "nothing"},
            {"collMod": name, "unknown": 1},
        )

    def bulk(self, db):
        ops = []
        for _ in range(self.rng.randrange(1, 5)):
            at = self.rng.randrange(2)
            update = self.update(True)
            ops.append(self.pick(
                {"insert": at, "document": self.document()},
                {"update": at, "filter": update.pop("q"), "updateMods": update.pop("u"), **update},
                {"delete": at, "filter": {"_id": self.id()}, "multi": False},
                {"delete": at, "filter": self.filter(), "multi": True},
            ))
        infos = [{"ns": f"{db}.c"}, {"ns": f"{db}.plain"}]
        return {"bulkWrite": 1, "ops": ops, "nsInfo": infos, "ordered": self.pick(True, False)}


def is_of_one(command):
    return "findAndModify" in command or "updates" in command and not any(one["multi"] for one in command["updates"])


def plain(value):
    """Of equal numbers any may be returned."""
    if isinstance(value, bson.Decimal128):
        return float(value.to_decimal())
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


def canonical(document):
    return bson.encode(document)


def collected(db, reply, **session):
    cursor = reply["cursor"]
    documents = list(cursor["firstBatch"])
    while cursor["id"]:
        name = cursor["ns"].split(".", 1)[1]
        cursor = db.command({"getMore": cursor["id"], "collection": name}, **session)["cursor"]
        documents += cursor["nextBatch"]
    return documents


def perform(db, command, ordered, **session):
    """The answer to a command, without what may differ."""
    name = next(iter(command))
    target = db.client.admin if name == "bulkWrite" else db
    try:
        reply = target.command(command, **session)
        if "cursor" in reply and name != "bulkWrite":
            documents = [canonical(document) for document in collected(db, reply, **session)]
            return "documents", documents if ordered else sorted(documents)
    except OperationFailure as error:
        if error.has_error_label("TransientTransactionError"):
            return "transient", error.code
        return "error", error.code
    if name == "bulkWrite":
        counts = [reply[field] for field in ("nErrors", "nInserted", "nMatched", "nModified", "nUpserted", "nDeleted")]
        outcomes = [(one["idx"], one["ok"], one.get("code"), one.get("n")) for one in collected(target, reply, **session)]
        return "bulk", counts, sorted(outcomes)
    if "values" in reply:
        return "values", sorted(canonical({"v": plain(value)}) for value in reply["values"])
    if name == "findAndModify":
        value = reply["value"]
        return "value", value and canonical(value), reply["lastErrorObject"]
    errors = [(error["index"], error["code"]) for error in reply.get("writeErrors", [])]
    upserted = [(one["index"], one["_id"]) for one in reply.get("upserted", [])]
    return "done", reply.get("n"), reply.get("nModified"), upserted, errors


class Pair:
    """One server and one cluster with the same content."""

    def __init__(self, cluster, server, seed):
        self.rng = random.Random(seed)
        self.make = Generator(self.rng)
        self.db = f"same{seed}"
        self.cluster = cluster
        self.one = pymongo.MongoClient(server.uri, retryWrites=False, socketTimeoutMS=30_000)
        self.routed = [router.client(socketTimeoutMS=30_000) for router in cluster.routers]
        self.key = KEYS[seed % len(KEYS)]

    def __enter__(self):
        admin = self.routed[0].admin
        for client in (self.one, self.routed[0]):
            client.drop_database(self.db)
        admin.command("enableSharding", self.db, primaryShard=f"s{self.rng.randrange(len(self.cluster.shards))}")
        for name, key in (("c", self.key), ("other", {"_id": "hashed"})):
            admin.command("shardCollection", f"{self.db}.{name}", key=key)
        if "hashed" not in self.key.values():
            first = next(iter(self.key))
            for at, middle in enumerate((5, 10, 15)):
                bound = {field: middle if field == first else bson.MinKey() for field in self.key}
                admin.command("split", f"{self.db}.c", middle=bound)
                self.move(f"s{at % 3}", bound)
        self.one[self.db].create_collection("c")
        self.one[self.db].create_collection("other")
        self.make.repeats = "_id" in self.key
        for name in NAMES:
            self.run({"insert": name, "documents": [self.make.document() for _ in range(40)], "ordered": False})
        return self

    def __exit__(self, *_):
        self.one.drop_database(self.db)
        self.routed[0].drop_database(self.db)
        for client in (self.one, *self.routed):
            client.close()

    def move(self, to, bound=None):
        admin = self.routed[self.rng.randrange(2)].admin
        if bound is None:
            name = self.rng.choice(["c", "other"])
            uuid = admin.client.config.collections.find_one({"_id": f"{self.db}.{name}"})["uuid"]
            chunks = list(admin.client.config.chunks.find({"uuid": uuid}).sort("min", 1))
            chunk = self.rng.choice(chunks)
            admin.command("moveRange", f"{self.db}.{name}", min=chunk["min"], max=chunk["max"], toShard=to)
        else:
            admin.command("moveRange", f"{self.db}.c", min=bound, toShard=to)

    def run(self, command, ordered=False):
        expected = perform(self.one[self.db], command, ordered)
        routed = self.routed[self.rng.randrange(2)]
        if is_of_one(command):
            # it can be sent again, as drivers do: only then it may change its shard key
            with routed.start_session() as session:
                routed.admin.command("ping", session=session)
                session._server_session.inc_transaction_id()
                number = bson.Int64(session._server_session.transaction_id)
                given = perform(routed[self.db], {**command, "txnNumber": number}, ordered, session=session)
        else:
            given = perform(routed[self.db], command, ordered)
        assert given == expected, self.difference(command, expected, given)


    def difference(self, command, expected, given):
        if expected[0] == given[0] == "documents":
            show = lambda documents: [bson.decode(document) for document in documents[:5]]
            only = lambda own, others: show([document for document in own if document not in others])
            expected, given = (("documents", len(own[1]), "only here:", only(own[1], others[1]), "first:", show(own[1]))
                               for own, others in ((expected, given), (given, expected)))
        return f"key {self.key}\n  {command}\n  one server: {expected}\n  cluster:    {given}"

    def step(self):
        make, rng = self.make, self.rng
        name = rng.choice([*NAMES, "c", "c"])
        kind = rng.random()
        if kind < 0.12:
            self.run({"insert": name, "documents": [make.document() for _ in range(rng.randrange(1, 5))], "ordered": rng.random() < 0.5})
        elif kind < 0.30:
            multi = rng.random() < 0.5
            updates = [make.update(multi) for _ in range(rng.randrange(1, 3))]
            self.run({"update": name, "updates": updates, "ordered": rng.random() < 0.5})
        elif kind < 0.34:
            self.run({"delete": name, "deletes": [make.delete() for _ in range(rng.randrange(1, 3))]})
        elif kind < 0.40:
            self.run(make.find_and_modify(name))
        elif kind < 0.56:
            command = make.find(rng.choice([name, name, name, "v"]))
            self.run(command, "sort" in command)
        elif kind < 0.60:
            command = {"count": name, "query": make.filter()}
            self.run({**command, **make.pick({}, {"limit": 5}, {"skip": 3, "limit": 4}, {"skip": 2})})
        elif kind < 0.64:
            self.run({"distinct": rng.choice([name, "v"]), "key": make.pick("a", "k", "t", "d.x", "s", "list.i", "v"), "query": make.filter()})
        elif kind < 0.84:
            command, ordered = make.aggregate(rng.choice([name, name, name, "v"]))
            self.run(command, ordered)
        elif kind < 0.87:
            self.run(make.writing(name))
        elif kind < 0.90:
            self.run(make.index(name))
        elif kind < 0.92:
            self.run(make.definition(name))
        elif kind < 0.95:
            self.run(make.bulk(self.db))
        elif kind < 0.97:
            self.transaction()
        else:
            with contextlib.suppress(OperationFailure):
                self.move(f"s{rng.randrange(3)}")

    def transaction(self):
        make, rng = self.make, self.rng
        routed = self.routed[rng.randrange(2)]
        commands = []
        for _ in range(rng.randrange(1, 5)):
            name = rng.choice(NAMES)
            commands.append(make.pick(
                ({"insert": name, "documents": [make.document(id_=1_000_000 + rng.randrange(1_000_000))]}, False),
                ({"update": name, "updates": [{"q": make.filter(), "u": {"$inc": {"n": 1}}, "multi": True}]}, False),
                ({"delete": name, "deletes": [{"q": {"_id": make.id()}, "limit": 1}]}, False),
                ({"find": name, "filter": make.filter(), "sort": {"_id": 1}}, True),
                ({"aggregate": name, "pipeline": [{"$group": {"_id": "$a", "n": {"$sum": "$n"}}}, {"$sort": {"_id": 1}}], "cursor": {}}, True),
            ))
        commits = rng.random() < 0.7
        for _ in range(20):
            answers = []
            # the server alone has no transactions: its part runs at the end
            with routed.start_session() as session:
                session.start_transaction()
                for command, ordered in commands:
                    answers.append(perform(routed[self.db], command, ordered, session=session))
                    if answers[-1][0] in ("transient", "error"):
                        break
                is_transient = answers[-1][0] == "transient"
                if commits and answers[-1][0] not in ("transient", "error"):
                    try:
                        session.commit_transaction()
                    except OperationFailure as error:
                        is_transient = error.has_error_label("TransientTransactionError")
                        assert is_transient, error
                else:
                    session.abort_transaction()
            if not is_transient:
                break
        if commits and answers[-1][0] not in ("transient", "error") and not any(answer[0] == "done" and answer[4] for answer in answers):
            for (command, ordered), given in zip(commands, answers):
                expected = perform(self.one[self.db], command, ordered)
                assert given == expected, self.difference(command, expected, given)

    def compare(self):
        for name in [*NAMES, "made"]:
            content = lambda client: [canonical(document) for document in client[self.db][name].find().sort("_id", 1)]
            expected = sorted(content(self.one))
            for routed in self.routed:
                given = sorted(content(routed))
                show = lambda own, others: [bson.decode(document) for document in own if document not in others][:4]
                assert given == expected, f"{name}: one server {show(expected, given)}, cluster {show(given, expected)}"


def history(cluster, server, seed, steps):
    with Pair(cluster, server, seed) as pair:
        for step in range(steps):
            try:
                pair.step()
                if step % 50 == 49:
                    pair.compare()
            except AssertionError as error:
                raise AssertionError(f"seed {seed}, step {step}: {error}") from None
        pair.compare()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=7)
    parser.add_argument("--steps", type=int, default=200)
    options = parser.parse_args()
    failed = 0
    with contextlib.ExitStack() as stack:
        directory = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        cluster = Cluster(directory, stack, shards=3)
        server = stack.enter_context(Arbor(directory / "one"))
        with cluster.routers[0].client() as client:
            client.admin.command("balancerStop")
        for seed in range(options.seed, options.seed + options.seeds):
            try:
                history(cluster, server, seed, options.steps)
            except Exception as error:
                failed += 1
                print(f"{type(error).__name__}: {error}" if not isinstance(error, AssertionError) else error, flush=True)
    print(f"{options.seeds} histories of {options.steps} statements, {failed} differ")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
