"""Statements of many fields: four times as many take no more than about four times as long, and a time limit ends each of them
soon, while it is parsed as well as while it runs."""

import time

import bson

from support import Attack, ask, directory, server

FIELDS = 6000
LIMITED_FIELDS = 60_000
# Quadratic work takes 16 times as long. A debug build on a busy machine answers late.
RATIO_MAX = 10
LATE_S_MAX = 5.0
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
                if arbor.process.poll() is None:
                    found.expect(arbor.stop() == 0, f"{engine}: the server does not end cleanly")
    found.end(f"{asked} kinds of wide statements")


if __name__ == "__main__":
    main()
