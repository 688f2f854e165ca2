"""Statements of many fields: four times as many take no more than about four times as long, and a time limit ends each of them
soon, while it is parsed as well as while it runs."""

import math
import os
import time

import bson

from support import Attack, ask, connect, directory, message, note, processor_seconds, receive, server

FIELDS = 6000
LIMITED_FIELDS = 60_000
# About as many as a message may have.
MANY_FIELDS = 600_000
LIMIT_MS = 200
TRIES = 4
# Quadratic work takes 16 times as long.
RATIO_MAX = 10
LATE_S_MAX = 5.0
# How much more than its limit a statement takes that fills its message, at best: 100 ms in a release build, reading the message included; a
# debug build takes 15 times as long for everything.
OVERRUN_S_MAX = 0.4 if "/release/" in os.environ["ARBOR"] else 3.0
# Shorter than this says nothing about how it grows.
SHORT_S = 0.3


def fields(n, value):
    return {f"a{i}": value for i in range(n)}


def names(n):
    return [f"a{i}" for i in range(n)]


def aggregate(*stages):
    return {"aggregate": "c", "pipeline": list(stages), "cursor": {}}


def update(query, change, **more):
    return {"update": "c", "updates": [{"q": query, "u": change, **more}]}


STATEMENTS = {
    "$set": lambda n: update({"_id": 1}, {"$set": fields(n, 1)}),
    "$unset": lambda n: update({"_id": 1}, {"$unset": fields(n, 1)}),
    "$rename": lambda n: update({"_id": 1}, {"$rename": {f"a{i}": f"b{i}" for i in range(n)}}),
    "$addToSet": lambda n: update({"_id": 1}, {"$addToSet": {"l": {"$each": names(n)}}}),
    "an upsert by its filter": lambda n: update({**fields(n, 1), "_id": "u"}, {"$set": {"z": 1}}, upsert=True),
    "arrayFilters": lambda n: update(
        {}, {"$set": {f"l.$[e{i}]": 1 for i in range(n)}}, arrayFilters=[{f"e{i}": -1 - i} for i in range(n)]
    ),
    "filter": lambda n: {"find": "c", "filter": fields(n, 1)},
    "$or": lambda n: {"find": "c", "filter": {"$or": [{f"a{i}": 5} for i in range(n)]}},
    "$in": lambda n: {"find": "c", "filter": {"_id": {"$in": names(n)}}},
    "$all": lambda n: {"find": "c", "filter": {"l": {"$all": names(n)}}},
    "$jsonSchema": lambda n: {"find": "c", "filter": {"$jsonSchema": {"required": names(n)}}},
    "projection": lambda n: {"find": "c", "filter": {}, "projection": fields(n, 1)},
    "let": lambda n: {"find": "c", "filter": {}, "let": fields(n, 1)},
    "$addFields": lambda n: aggregate({"$addFields": fields(n, "$a0")}),
    "$project": lambda n: aggregate({"$project": fields(n, 0)}),
    "$unset stage": lambda n: aggregate({"$unset": names(n)}),
    "$group": lambda n: aggregate({"$group": {"_id": None, **fields(n, {"$sum": 1})}}),
    "$setWindowFields": lambda n: aggregate({"$setWindowFields": {"output": fields(n, {"$sum": 1})}}),
    "$facet": lambda n: aggregate({"$facet": fields(n // 4, [{"$limit": 1}])}),
    "$let": lambda n: aggregate({"$project": {"x": {"$let": {"vars": fields(n, 1), "in": "$$a7"}}}}),
    "$mergeObjects": lambda n: aggregate({"$project": {"x": {"$mergeObjects": [{f"b{i}": "$_id"} for i in range(n)]}}}),
    "$regexFindAll": lambda n: aggregate(
        {"$project": {"x": {"$size": {"$regexFindAll": {"input": "é" * n, "regex": {"$literal": ""}}}}}}
    ),
    "createIndexes": lambda n: {"createIndexes": "c", "indexes": [{"key": {f"a{i}": 1}, "name": f"i{i}"} for i in range(n)]},
}


def circle(n):
    angles = (2 * math.pi * (i % n) / n for i in range(n + 1))
    return [[50 * math.cos(angle), 50 * math.sin(angle)] for angle in angles]


def polygon(n):
    return {"$geometry": {"type": "Polygon", "coordinates": [circle(n)]}}


# What takes its time in parts of a statement that are not its own: lists, geometries, search strings, what is written to the log.
FULL = {
    **{name: STATEMENTS[name] for name in ("$set", "filter", "$or", "$in", "$all", "projection", "$addFields", "$group", "let")},
    "$in of numbers": lambda n: {"find": "c", "filter": {"l": {"$in": list(range(n))}}},
    "$in of nulls": lambda n: {"find": "c", "filter": {"l": {"$in": [None] * n}}},
    "$and of nothing": lambda n: {"find": "c", "filter": {"$and": [{}] * n}},
    "$bitsAllSet": lambda n: {"find": "c", "filter": {"l": {"$bitsAllSet": list(range(n))}}},
    "$push": lambda n: update({"_id": 1}, {"$push": {"l": {"$each": list(range(n)), "$sort": -1}}}),
    "$geoWithin": lambda n: {"find": "c", "filter": {"g": {"$geoWithin": polygon(n // 3)}}},
    "$polygon": lambda n: {"find": "c", "filter": {"g": {"$geoWithin": {"$polygon": circle(n // 3)}}}},
    "$text": lambda n: {"find": "t", "filter": {"$text": {"$search": " ".join(f'"w{i}"' for i in range(n))}}},
    "explain": lambda n: {"explain": {"find": "c", "filter": fields(n, 1)}},
    "findAndModify": lambda n: {"findAndModify": "c", "query": {"_id": 1}, "update": {"$set": fields(n, 1)}},
    "distinct": lambda n: {"distinct": "c", "key": "a", "query": fields(n, 1)},
    "deletes": lambda n: {"delete": "c", "deletes": [{"q": {"_id": 7}, "limit": 1}] * min(n, 100_000)},
    "$switch": lambda n: aggregate(
        {"$project": {"x": {"$switch": {"branches": [{"case": "$a", "then": 1}] * (n // 3), "default": 1}}}}
    ),
}


def overrun(arbor, command):
    """Seconds of the processor that a statement takes beyond its time limit, the least of some tries, and the reply."""
    sent, best = message({**command, "$db": "wide", "maxTimeMS": LIMIT_MS}), (math.inf, None)
    for _ in range(TRIES):
        begin = processor_seconds(arbor)
        with connect(arbor.port, 120) as sock:
            sock.sendall(sent)
            reply = receive(sock)
        best = min(best, (processor_seconds(arbor) - begin - LIMIT_MS / 1000, reply), key=lambda one: one[0])
        if best[0] < OVERRUN_S_MAX / 4:
            break
    return best


def attack_with_limit(found, arbor, engine, name):
    ask(arbor.port, {"drop": "c", "$db": "wide"})
    ask(arbor.port, {"insert": "c", "documents": [{"_id": 1, "a": 1, "l": list(range(50)), "g": [1.0, 1.0]}], "$db": "wide"})
    ask(arbor.port, {"createIndexes": "t", "indexes": [{"key": {"x": "text"}, "name": "t"}], "$db": "wide"})
    ask(arbor.port, {"insert": "t", "documents": [{"x": "w1 w2"}], "$db": "wide"})
    late, reply = overrun(arbor, FULL[name](MANY_FIELDS))
    note(f"{engine}: {name}: {late * 1000:.0f} ms behind its limit of {LIMIT_MS} ms: {str(reply)[:80]}")
    found.expect(reply and late < OVERRUN_S_MAX, f"{engine}: {name}: ends {late:.2f} s behind its limit: {str(reply)[:200]}")


def took(port, command):
    """Seconds until the reply, and the reply."""
    begin = time.monotonic()
    reply = ask(port, {**command, "$db": "wide"}, timeout=120)
    return time.monotonic() - begin, reply


def attack(found, arbor, engine, name):
    statement = STATEMENTS[name]
    wide = [{"_id": 1, **fields(FIELDS, 1), "l": list(range(50))}, {"_id": 2}]
    for command in ({"drop": "c"}, {"insert": "c", "documents": [bson.SON(wide[0]), wide[1]]}):
        ask(arbor.port, {**command, "$db": "wide"})
    few, reply = took(arbor.port, statement(FIELDS // 4))
    many, again = took(arbor.port, statement(FIELDS))
    if not found.expect(reply and again, f"{engine}: {name}: no reply: {arbor.log_tail()[-300:]}"):
        return
    grows = many > SHORT_S and many / max(few, 0.02) > RATIO_MAX
    found.expect(not grows, f"{engine}: {name}: {few:.2f} s for {FIELDS // 4}, {many:.2f} s for {FIELDS}")
    limited, reply = took(arbor.port, {**statement(LIMITED_FIELDS), "maxTimeMS": 100})
    late = limited > LATE_S_MAX and (reply or {}).get("code") != 67
    found.expect(reply and not late, f"{engine}: {name}: {limited:.1f} s for {LIMITED_FIELDS} fields with maxTimeMS 100: {str(reply)[:200]}")


def main():
    found, asked = Attack(__doc__), 0
    todo = []
    with directory() as path:
        for engine in found.engines:
            with server(path / engine, engine) as arbor:
                (path / engine).mkdir()
                arbor.start()
                todo = list(STATEMENTS)
                found.random.shuffle(todo)
                for name in todo:
                    attack(found, arbor, engine, name)
                    asked += 1
                    if not found.expect(arbor.process.poll() is None, f"{engine}: {name}: the server died"):
                        break
                for name in FULL if arbor.process.poll() is None else ():
                    attack_with_limit(found, arbor, engine, name)
                    asked += 1
                if arbor.process.poll() is None:
                    found.expect(arbor.stop() == 0, f"{engine}: the server does not end cleanly")
    found.end(f"{asked} kinds of wide statements")


if __name__ == "__main__":
    main()
