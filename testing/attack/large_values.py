"""One value as large as a document may be goes through every operator, stage and index with a time limit: each statement ends soon
after its limit. What counts is the server's processor time, so that other processes of the machine have no part in it. As many as
--seconds allow are chosen at random; EVERY=1 in the environment runs all (some 4,500, an hour), EVERY=words those of one value, EVERY="words: sent" those that begin so."""

import math
import os
import random
import time

import bson

from support import Attack, ask, connect, directory, message, note, processor_seconds, receive, server

LIMIT_MS = 50
TRIES = 4
EVERY = os.environ.get("EVERY", "")
# Without a reply for this long the statement hears nothing.
HANGS_S = 60
# Of one value, where not all are run.
STATEMENTS_AT_ONCE = 20
# How much more than its limit a statement takes at best, reading its document or message included, before it is noted (the goal), and
# before it is a finding; a debug build takes some 15 times as long.
IS_FAST = any(f"/{kind}/" in os.environ["ARBOR"] for kind in ("release", "quick"))
GOAL_S = 0.1 if IS_FAST else 1.5
OVERRUN_S_MAX = 0.3 if IS_FAST else 5.0
# Of one document, with what statements add to it.
BYTES_MAX = 15_900_000


def filled(make, unit):
    return [make(n) for n in range(BYTES_MAX // unit)]


def points(count):
    angles = (2 * math.pi * (i % count) / count for i in range(count + 1))
    return [[50 * math.cos(angle), 50 * math.sin(angle)] for angle in angles]


def below_2_30(count):
    some = random.Random(14)
    return (some.randrange(1 << 30) for _ in range(count))


# The large values by their names, made when they are needed. Units: bytes of an element with its name in the array.
VALUES = {
    "words": lambda: " ".join(f"w{n % 7919}" for n in range(BYTES_MAX // 6)),
    "same": lambda: "x" * BYTES_MAX,
    "accents": lambda: "é" * (BYTES_MAX // 2),
    "spaces": lambda: " " * BYTES_MAX,
    "digits": lambda: "7" * BYTES_MAX,
    # in which an expression may find itself in any of its states
    "letters": lambda: "".join(random.Random(14).choices("ab", k=BYTES_MAX // 16)) * 16,
    # which the stemmer of English marks one by one
    "stems": lambda: "y" * BYTES_MAX,
    "bytes": lambda: bytes(BYTES_MAX),
    "numbers": lambda: filled(lambda n: n, 14),
    "shuffled": lambda: list(below_2_30(BYTES_MAX // 14)),
    "reals": lambda: filled(lambda n: n * 0.5, 18),
    "decimals": lambda: filled(lambda n: bson.Decimal128(str(n)), 26),
    "mixed": lambda: filled(lambda n: [n, str(n), n / 2, None, True][n % 5], 15),
    "strings": lambda: [f"s{n}" for n in below_2_30(BYTES_MAX // 26)],
    "trues": lambda: filled(lambda _: True, 11),
    "documents": lambda: filled(lambda n: {"k": f"k{n}", "v": n}, 42),
    "pairs": lambda: filled(lambda n: [f"k{n}", n], 42),
    "object": lambda: {f"f{n}": n for n in range(BYTES_MAX // 14)},
    "ring": lambda: points(BYTES_MAX // 42),
    "few long strings": lambda: ["ab " * 500_000] * 10,
    "few long lists": lambda: [list(range(130_000))] * 8,
}


STRINGS = ("words", "same", "accents", "spaces", "digits", "letters", "stems")
LISTS = ("numbers", "shuffled", "reals", "decimals", "mixed", "strings", "trues", "documents", "pairs", "ring", "few long strings", "few long lists")
ALL = (*STRINGS, "bytes", *LISTS, "object")
V = "$v"
TOP = {"n": 5, "input": V}


def of_each(body):
    return {"$map": {"input": V, "in": body}}


# For each set of values: expressions by what they are called.
EXPRESSIONS = {
    ALL: {
        **{
            op: {op: V}
            for op in "$bsonSize $type $toHashedIndexKey $toString $toBool $isNumber $isArray $first $last $size $objectToArray $mergeObjects $not"
            " $sum $avg $min $max $stdDevPop $toDouble $toDate $toLower $strLenBytes $binarySize $allElementsTrue $anyElementTrue".split()
        },
        "$eq": {"$eq": [V, V]},
        "$cmp": {"$cmp": [V, V]},
        "$in": {"$in": [V, [V, V]]},
        "$ifNull": {"$ifNull": [V, 1]},
        "an array": [V, 1],
        "a document": {"a": V, "b": 1},
        "$setField": {"$setField": {"field": "zz", "input": "$$ROOT", "value": 1}},
        "$unsetField": {"$unsetField": {"field": "zz", "input": "$$ROOT"}},
        "$getField": {"$getField": {"field": "zz", "input": V}},
        "$let": {"$let": {"vars": {"a": V}, "in": {"$eq": ["$$a", 7]}}},
        "$setUnion of arrays": {"$setUnion": [[V], [V], [V]]},
        "$switch": {"$switch": {"branches": [{"case": {"$eq": [V, 1]}, "then": V}], "default": 1}},
    },
    STRINGS: {
        **{op: {op: V} for op in "$toUpper $strLenCP $toInt $toLong $toDecimal $toObjectId $toUUID $dateFromString".split() if op != "$dateFromString"},
        "$dateFromString": {"$dateFromString": {"dateString": V}},
        "$dateFromString with format": {"$dateFromString": {"dateString": V, "format": "%Y %m"}},
        "$dateToString": {"$dateToString": {"date": {"$toDate": 1}, "format": V}},
        "$dateTrunc": {"$dateTrunc": {"date": {"$toDate": 1}, "unit": "day", "timezone": V}},
        "$concat": {"$concat": [V, V, V]},
        "$split": {"$split": [V, " "]},
        "$split by one": {"$split": [V, "x"]},
        "$split by long": {"$split": [V, "x" * 1000]},
        "$indexOfBytes": {"$indexOfBytes": [V, "nothing"]},
        "$indexOfBytes of itself": {"$indexOfBytes": [{"$concat": [V, "y"]}, {"$concat": [V, "z"]}]},
        "$indexOfCP": {"$indexOfCP": [V, "nothing"]},
        "$indexOfCP of one": {"$indexOfCP": [V, "q", 100, 10_000_000]},
        "$substrCP": {"$substrCP": [V, 3_000_000, 4_000_000]},
        "$substrBytes": {"$substrBytes": [V, 0, -1]},
        "$strcasecmp": {"$strcasecmp": [V, V]},
        "$trim": {"$trim": {"input": V}},
        "$ltrim": {"$ltrim": {"input": V}},
        "$rtrim": {"$rtrim": {"input": V}},
        "$trim by chars": {"$trim": {"input": V, "chars": "xéw7 0123456"}},
        "$trim by many": {"$trim": {"input": V, "chars": V}},
        "$replaceAll": {"$replaceAll": {"input": V, "find": "nothing", "replacement": "z"}},
        "$replaceAll of one": {"$replaceAll": {"input": V, "find": "x", "replacement": "z"}},
        "$replaceOne": {"$replaceOne": {"input": V, "find": "nothing", "replacement": "z"}},
        "$regexMatch": {"$regexMatch": {"input": V, "regex": "nothing"}},
        "$regexMatch of letters": {"$regexMatch": {"input": V, "regex": "(?i)[a-z]+[0-9]*Q"}},
        "$regexMatch with a group ahead": {"$regexMatch": {"input": V, "regex": "(?=x)x*y"}},
        "$regexMatch of many states": {"$regexMatch": {"input": V, "regex": "a[ab]{500}c"}},
        "$regexMatch backwards": {"$regexMatch": {"input": V, "regex": "(\\w)\\1\\1q"}},
        "$regexFind": {"$regexFind": {"input": V, "regex": "q$"}},
        "$regexFindAll": {"$size": {"$regexFindAll": {"input": V, "regex": "[w ]"}}},
        "$regexFind of many states": {"$regexFind": {"input": V, "regex": "(a[ab]{50}|b[ab]{300}){3}c?"}},
        "$regexFindAll of groups": {"$size": {"$regexFindAll": {"input": V, "regex": "(\\w)(\\d)?"}}},
        "$convert to binary": {"$convert": {"input": V, "to": "binData", "format": "base64"}},
        "$convert to bytes": {"$convert": {"input": V, "to": "binData", "format": "utf8"}},
        "$convert hex": {"$convert": {"input": V, "to": "binData", "format": "hex"}},
    },
    ("bytes",): {
        **{
            f"$convert {form}": {"$convert": {"input": V, "to": "string", "format": form}}
            for form in ("base64", "base64url", "hex", "utf8", "uuid")
        }
    },
    LISTS: {
        "$concatArrays": {"$concatArrays": [V, V, V]},
        "$reverseArray": {"$reverseArray": V},
        "$slice": {"$slice": [V, -500_000]},
        "$arrayElemAt": {"$arrayElemAt": [V, -1]},
        "$filter": {"$filter": {"input": V, "cond": {"$gt": ["$$this", 5]}}},
        "$map": of_each({"$add": [1, 1]}),
        "$reduce": {"$reduce": {"input": V, "initialValue": 0, "in": {"$add": ["$$value", 1]}}},
        "$reduce of lists": {"$reduce": {"input": V, "initialValue": [], "in": {"$concatArrays": ["$$value", ["$$this"]]}}},
        "$zip": {"$zip": {"inputs": [V, V]}},
        "$in of elements": {"$in": ["nothing", V]},
        "$indexOfArray": {"$indexOfArray": [V, "nothing"]},
        "$sortArray": {"$sortArray": {"input": V, "sortBy": 1}},
        "$sortArray by field": {"$sortArray": {"input": V, "sortBy": {"v": -1, "k": 1}}},
        "$setUnion": {"$setUnion": [V, V]},
        "$setIntersection": {"$setIntersection": [V, V]},
        "$setDifference": {"$setDifference": [V, [1]]},
        "$setEquals": {"$setEquals": [V, V]},
        "$setIsSubset": {"$setIsSubset": [V, V]},
        "$arrayToObject": {"$arrayToObject": V},
        "$firstN": {"$firstN": {"n": 900_000, "input": V}},
        "$lastN": {"$lastN": {"n": 900_000, "input": V}},
        "$minN": {"$minN": {"n": 900_000, "input": V}},
        "$maxN": {"$maxN": {"n": 900_000, "input": V}},
        "$median": {"$median": {"input": V, "method": "approximate"}},
        "$percentile": {"$percentile": {"input": V, "p": [0.5, 0.9], "method": "approximate"}},
        "$stdDevSamp": {"$stdDevSamp": V},
        "field of elements": "$v.k",
        "field of each": {"$size": {"$ifNull": ["$v.v.w", []]}},
        "$add of elements": {"$sum": of_each("$$this")},
        "$concat of elements": {"$reduce": {"input": V, "initialValue": "", "in": {"$concat": ["$$value", "a"]}}},
        "$and of elements": {"$allElementsTrue": [of_each({"$ne": ["$$this", "nothing"]})]},
        "$mergeObjects of elements": {"$mergeObjects": V},
        "$convert to string": {"$convert": {"input": V, "to": "string"}},
        "$dateFromParts": {"$dateFromParts": {"year": {"$size": V}}},
    },
    ("object",): {
        "$objectToArray": {"$objectToArray": V},
        "$setField of many": {"$setField": {"field": "f7", "input": V, "value": 1}},
        "$unsetField of many": {"$unsetField": {"field": "f7", "input": V}},
        "$mergeObjects of two": {"$mergeObjects": [V, V]},
        "a missing field": "$v.zzz",
        "$getField of many": {"$getField": {"field": "zzz", "input": V}},
    },
}

STAGES = {
    ALL: {
        "$group by it": [{"$group": {"_id": V}}],
        "$group $addToSet": [{"$group": {"_id": None, "x": {"$addToSet": V}}}],
        "$group $push": [{"$group": {"_id": None, "x": {"$push": V}}}],
        "$group $top": [{"$group": {"_id": None, "x": {"$topN": {"n": 3, "sortBy": {"v": 1}, "output": V}}}}],
        "$group $max": [{"$group": {"_id": None, "x": {"$max": V}, "y": {"$min": V}, "z": {"$first": V}}}],
        "$group $maxN": [{"$group": {"_id": None, "x": {"$maxN": TOP}}}],
        "$group $sum": [{"$group": {"_id": None, "x": {"$sum": V}, "y": {"$avg": V}, "z": {"$stdDevPop": V}}}],
        "$group $mergeObjects": [{"$group": {"_id": None, "x": {"$mergeObjects": "$$ROOT"}}}],
        "$group $concatArrays": [{"$group": {"_id": None, "x": {"$concatArrays": V}}}],
        "$group $setUnion": [{"$group": {"_id": None, "x": {"$setUnion": V}}}],
        "$group $median": [{"$group": {"_id": None, "x": {"$median": {"input": V, "method": "approximate"}}}}],
        "$sort": [{"$sort": {"v": 1}}],
        "$sort by field": [{"$sort": {"v.k": 1, "v.v": -1}}],
        "$sortByCount": [{"$sortByCount": V}],
        "$bucket": [{"$bucket": {"groupBy": V, "boundaries": [0, 1], "default": "x"}}],
        "$bucketAuto": [{"$bucketAuto": {"groupBy": V, "buckets": 2}}],
        "$unwind": [{"$unwind": V}],
        "$unwind with index": [{"$unwind": {"path": V, "includeArrayIndex": "i", "preserveNullAndEmptyArrays": True}}, {"$count": "n"}],
        "$unwind and $group": [{"$unwind": V}, {"$group": {"_id": V}}],
        "$unwind and $sort": [{"$unwind": V}, {"$sort": {"v": 1}}],
        "$redact": [{"$redact": {"$cond": [{"$eq": ["$a", 7]}, "$$PRUNE", "$$DESCEND"]}}],
        "$redact kept": [{"$redact": "$$KEEP"}],
        "$replaceRoot": [{"$replaceRoot": {"newRoot": {"a": V}}}],
        "$replaceWith": [{"$replaceWith": {"$mergeObjects": ["$$ROOT", {"b": 1}]}}],
        "$addFields": [{"$addFields": {"v.zzz": 1}}],
        "$addFields outside": [{"$addFields": {"zzz": 1}}],
        "$project inside": [{"$project": {"v.k": 1}}],
        "$project not inside": [{"$project": {"v.k": 0}}],
        "$project deeper": [{"$project": {"v.k.a.b": 1, "v.v": 1}}],
        "$project computed inside": [{"$project": {"v.k": {"$add": [1, 1]}}}],
        "$unset": [{"$unset": "v.k"}],
        "$set twice": [{"$set": {"a": V}}, {"$set": {"a.b": V}}],
        "$facet": [{"$facet": {"a": [{"$match": {"v": 5}}], "b": [{"$count": "n"}]}}],
        "$lookup": [{"$lookup": {"from": "few", "localField": "v", "foreignField": "v", "as": "x"}}],
        "$lookup of pipeline": [{"$lookup": {"from": "few", "let": {"a": V}, "pipeline": [{"$match": {"$expr": {"$eq": ["$v", "$$a"]}}}], "as": "x"}}],
        "$graphLookup": [
            {"$graphLookup": {"from": "few", "startWith": V, "connectFromField": "v", "connectToField": "v", "as": "x"}}
        ],
        "$setWindowFields": [{"$setWindowFields": {"partitionBy": V, "sortBy": {"v": 1}, "output": {"x": {"$push": V}}}}],
        "$setWindowFields $rank": [{"$setWindowFields": {"sortBy": {"v": 1}, "output": {"x": {"$rank": {}}, "y": {"$shift": {"output": V, "by": 1}}}}}],
        "$fill": [{"$fill": {"sortBy": {"v": 1}, "output": {"v": {"method": "locf"}}}}],
        "$densify": [{"$densify": {"field": "v", "range": {"step": 1, "bounds": [0, 10]}}}],
        "$unionWith": [{"$unionWith": {"coll": "few", "pipeline": []}}, {"$group": {"_id": V}}],
        "$sample": [{"$sample": {"size": 2}}],
        "$out": [{"$out": "written"}],
        "$merge": [{"$merge": {"into": "written", "whenMatched": "replace"}}],
        "$merge of pipeline": [{"$merge": {"into": "copy", "whenMatched": [{"$set": {"q": "$$new.v"}}]}}],
    }
}

FILTERS = {
    ALL: {
        "equal": {"v": "nothing"},
        "greater": {"v": {"$gt": 1 << 40}},
        "range of strings": {"v": {"$gte": "zzzz", "$lt": "zzzzz"}},
        "$ne": {"v": {"$ne": 5}},
        "$in": {"v": {"$in": [f"n{i}" for i in range(1000)]}},
        "$nin": {"v": {"$nin": list(range(-1000, 0))}},
        "$all": {"v": {"$all": ["nothing", 5]}},
        "$elemMatch": {"v": {"$elemMatch": {"$gt": 1 << 40, "$lt": 1 << 41}}},
        "$elemMatch of documents": {"v": {"$elemMatch": {"k": "nothing", "v": 3}}},
        "$size": {"v": {"$size": 3}},
        "$type": {"v": {"$type": ["date", "regex"]}},
        "$mod": {"v": {"$mod": [1 << 30, 77]}},
        "$bitsAllSet": {"v": {"$bitsAllSet": [62]}},
        "$regex": {"v": {"$regex": "nothing"}},
        "$regex of letters": {"v": {"$regex": "[a-z]+[0-9]+Q", "$options": "i"}},
        "$regex with a group ahead": {"v": {"$regex": "(?<=x)Y"}},
        "inside": {"v.k": "nothing"},
        "deeper": {"v.k.a.b": {"$exists": True}},
        "at a place": {"v.700000": {"$gt": 1 << 40}},
        "$not": {"v": {"$not": {"$gte": 0}}},
        "$expr": {"$expr": {"$in": ["nothing", {"$ifNull": ["$v.k", []]}]}},
        "$where-like $expr": {"$expr": {"$gt": [{"$bsonSize": "$$ROOT"}, 1 << 40]}},
        "$or": {"$or": [{"v": {"$gt": 1 << 40}}, {"v": "nothing"}, {"v.k": 7}, {"v": None}]},
        "schema of type": {"$jsonSchema": {"properties": {"v": {"bsonType": ["string", "array", "object"], "maxLength": 5}}}},
        "schema of items": {"$jsonSchema": {"properties": {"v": {"items": {"bsonType": ["int", "string", "double"], "minimum": -7}, "uniqueItems": True}}}},
        "schema of unique": {"$jsonSchema": {"properties": {"v": {"uniqueItems": True}}}},
        "schema of pattern": {"$jsonSchema": {"properties": {"v": {"pattern": "nothing"}}}},
        "schema of length": {"$jsonSchema": {"properties": {"v": {"minLength": 1, "maxLength": 20_000_000}}}},
        "schema of names": {"$jsonSchema": {"properties": {"v": {"additionalProperties": False, "patternProperties": {"^f": {"bsonType": "int"}}}}}},
        "schema of enum": {"$jsonSchema": {"properties": {"v": {"enum": ["a", 5]}}}},
        "$geoWithin": {"v": {"$geoWithin": {"$centerSphere": [[0, 0], 0.1]}}},
        "$geoIntersects": {"v": {"$geoIntersects": {"$geometry": {"type": "Point", "coordinates": [0, 0]}}}},
        "$geoWithin box": {"v": {"$geoWithin": {"$box": [[0, 0], [1, 1]]}}},
    }
}

COLLATION = {"locale": "de", "strength": 1, "numericOrdering": True}

UPDATES = {
    ALL: {
        "$set": {"$set": {"a": 1}},
        "$set inside": {"$set": {"v.5": 1}},
        "$set of each": {"$set": {"v.$[]": 1}},
        "$set of each document": {"$set": {"v.$[].k": 1}},
        "$inc of each": {"$inc": {"v.$[]": 1}},
        "$mul of each": {"$mul": {"v.$[].v": 2}},
        "$unset": {"$unset": {"v": 1}},
        "$rename": {"$rename": {"v": "w"}},
        "$push": {"$push": {"v": 1}},
        "$push sorted": {"$push": {"v": {"$each": [1], "$sort": 1}}},
        "$push sorted by field": {"$push": {"v": {"$each": [], "$sort": {"v": -1}}}},
        "$push sliced": {"$push": {"v": {"$each": [1], "$slice": -900_000}}},
        "$push in front": {"$push": {"v": {"$each": [1, 2], "$position": 0}}},
        "$addToSet": {"$addToSet": {"v": "nothing"}},
        "$addToSet many": {"$addToSet": {"v": {"$each": [f"n{i}" for i in range(1000)]}}},
        "$pull": {"$pull": {"v": 7}},
        "$pull of range": {"$pull": {"v": {"$gte": 10, "$lt": 700_000}}},
        "$pull of documents": {"$pull": {"v": {"k": "k7"}}},
        "$pullAll": {"$pullAll": {"v": list(range(1000))}},
        "$pop": {"$pop": {"v": 1}},
        "$max": {"$max": {"v": 7}},
        "$bit": {"$bit": {"v": {"and": 7}}},
        "$currentDate": {"$currentDate": {"a": True}},
        "pipeline": [{"$set": {"v": {"$ifNull": [{"$map": {"input": V, "in": 1}}, 7]}}}],
        "pipeline of another field": [{"$set": {"a": 7}}],
        "replacement": {"a": 1},
    }
}

# Of a collection with the index, into which the document goes.
INDEXES = {
    STRINGS: {"text": {"v": "text"}, "hashed": {"v": "hashed"}, "single": {"v": 1}},
    LISTS: {
        "single": {"v": 1},
        "inside": {"v.k": 1},
        "compound": {"a": 1, "v": 1},
        "wildcard": {"$**": 1},
        "text": {"$**": "text"},
        "2d": {"v": "2d"},
        "2dsphere": {"v": "2dsphere"},
    },
    ("object", "bytes"): {"wildcard": {"$**": 1}, "hashed": {"v": "hashed"}, "text": {"$**": "text"}, "single": {"v": 1}},
}


class Group:
    """The statements of one value on one server."""

    def __init__(self, found, arbor, name):
        self.found, self.arbor, self.name = found, arbor, name
        self.document = {"_id": 1, "v": VALUES[name]()}
        self.ask({"drop": "large"})
        self.refill()

    def ask(self, command):
        return ask(self.arbor.port, {**command, "$db": "wide"}, timeout=120)

    def refill(self):
        self.ask({"delete": "large", "deletes": [{"q": {}, "limit": 0}]})
        self.ask({"insert": "large", "documents": [self.document]})

    def run(self, kind, command, repair=None, prepare=None):
        if prepare:
            prepare()
        sent = message({**command, "$db": "wide", "maxTimeMS": LIMIT_MS})
        late, reply = math.inf, None
        for _ in range(TRIES):
            begin = processor_seconds(self.arbor)
            try:
                with connect(self.arbor.port, HANGS_S) as sock:
                    sock.sendall(sent)
                    reply = receive(sock)
            except OSError as error:
                self.found.finding(f"{self.name}: {kind}: {error!r}")
                self.arbor.kill()
                self.arbor.start()
                return self.refill()
            late = min(late, processor_seconds(self.arbor) - begin - LIMIT_MS / 1000)
            if repair and (reply or {}).get("code") != 50:
                repair()
            if late < GOAL_S:
                break
        text = f"{self.name}: {kind}: {late * 1000:.0f} ms behind its limit of {LIMIT_MS} ms: {str(reply)[:80]}"
        if GOAL_S < late <= OVERRUN_S_MAX:
            note(text)
        self.found.expect(reply is not None and late < OVERRUN_S_MAX, text)

    def statements(self):
        """Arguments of `run`."""
        for kind, expression in self.of(EXPRESSIONS):
            yield self.pipeline(kind, [{"$project": {"_id": 0, "x": {"$type": [expression]}}}])
        for kind, stages in self.of(STAGES):
            yield self.pipeline(kind, stages)
        for kind, condition in self.of(FILTERS):
            yield f"filter {kind}", {"find": "large", "filter": condition, "projection": {"_id": 1}}
        yield from self.reads()
        for kind, change in self.of(UPDATES):
            yield f"update {kind}", {"update": "large", "updates": [{"q": {"_id": 1}, "u": change}]}, self.refill
        filtered = {"q": {"_id": 1}, "u": {"$set": {"v.$[e]": 1}}, "arrayFilters": [{"e": {"$gt": 1 << 40}}]}
        yield "arrayFilters", {"update": "large", "updates": [filtered]}, self.refill
        changed = {"findAndModify": "large", "query": {"_id": 1}, "update": {"$set": {"a": 1}}, "fields": {"a": 1}}
        yield "findAndModify", changed, self.refill
        yield "delete", {"delete": "large", "deletes": [{"q": {"v": "nothing"}, "limit": 1}]}
        yield "insert", {"insert": "inserted", "documents": [self.document]}, lambda: self.ask({"drop": "inserted"})
        for kind, key in self.of(INDEXES):
            yield from self.index(kind, key)
        yield from self.sent()

    def of(self, table):
        return [case for names, cases in table.items() if self.name in names for case in cases.items()]

    def pipeline(self, kind, stages, collection="large"):
        return kind, {"aggregate": collection, "pipeline": stages, "cursor": {}}

    def reads(self):
        find = {"find": "large", "projection": {"_id": 1}}
        yield "filter with a collation", {**find, "filter": {"v": "nothing"}, "collation": COLLATION}
        yield "sort with a collation", {**find, "sort": {"v": 1}, "collation": COLLATION}
        yield "sort", {**find, "sort": {"v": 1}}
        yield "distinct", {"distinct": "large", "key": "v"}
        yield "distinct inside", {"distinct": "large", "key": "v.k"}
        yield "distinct with a collation", {"distinct": "large", "key": "v", "collation": COLLATION}
        yield "projection $slice", {"find": "large", "projection": {"v": {"$slice": 5}}}
        yield "projection $elemMatch", {"find": "large", "projection": {"v": {"$elemMatch": {"k": "nothing"}}}}
        yield "positional projection", {"find": "large", "filter": {"v": "nothing"}, "projection": {"v.$": 1}}

    def index(self, kind, key):
        index = {"key": key, "name": "i"}

        def prepare():
            self.ask({"drop": "indexed"})
            self.ask({"createIndexes": "indexed", "indexes": [index]})

        insert = {"insert": "indexed", "documents": [self.document]}
        yield f"insert into the index {kind}", insert, prepare, prepare
        build = {"createIndexes": "large", "indexes": [index]}
        yield f"build of the index {kind}", build, lambda: self.ask({"dropIndexes": "large", "index": "i"})

    def sent(self):
        """The value in the statement instead of in a document."""
        value = self.document["v"]
        for kind, condition in {
            "equal": {"v": value},
            "greater": {"v": {"$gt": value}},
            "$in": {"v": {"$in": [value]}},
            "$not": {"v": {"$not": {"$eq": value}}},
            "$expr": {"$expr": {"$eq": ["$a", {"$literal": value}]}},
        }.items():
            yield f"sent {kind}", {"find": "few", "filter": condition}
        yield "sent with a collation", {"find": "few", "filter": {"v": value}, "collation": COLLATION}
        yield self.pipeline("sent to $project", [{"$project": {"x": {"$type": {"$literal": value}}}}], "few")
        yield self.pipeline("sent to $documents", [{"$documents": [{"v": value}]}, {"$count": "n"}], 1)
        yield "sent in let", {"find": "few", "filter": {}, "let": {"x": {"$literal": value}}}
        yield "sent as a comment", {"find": "few", "filter": {}, "comment": value}
        yield "sent to $set", self.update({"$set": {"w": value}})
        yield "sent to explain", {"explain": {"find": "few", "filter": {"v": value}}}
        yield "sent to distinct", {"distinct": "few", "key": "v", "query": {"v": value}}
        if isinstance(value, list):
            for op in ("$in", "$nin", "$all"):
                yield f"sent as {op}", {"find": "few", "filter": {"v": {op: value}}}
            yield self.pipeline("sent as expressions", [{"$project": {"x": {"$size": [value]}}}], "few")
            yield "sent to $push", self.update({"$push": {"l": {"$each": value}}})
            yield "sent to $pullAll", self.update({"$pullAll": {"l": value}})
            yield "sent to $addToSet", self.update({"$addToSet": {"l": {"$each": value}}})
        if isinstance(value, str):
            yield "sent as $regex", {"find": "few", "filter": {"v": {"$regex": value}}}
            for kind, text in {"$text": value, "phrase": f'"{value}"', "exclusion": "a -" + value}.items():
                yield f"sent as a {kind}", {"find": "searched", "filter": {"$text": {"$search": text}}}
        if isinstance(value, str) and value.isalnum():
            yield "sent as a field", {"find": "few", "filter": {value: 1}}
            yield self.pipeline("sent as a path", [{"$project": {"x": "$" + value}}], "few")

    def update(self, change):
        return {"update": "few", "updates": [{"q": {"_id": 1}, "u": change}]}


def attack(found, arbor, name):
    """Returns the number of statements."""
    group = Group(found, arbor, name)
    statements = [one for one in group.statements() if f"{name}: {one[0]}".startswith(EVERY if ":" in EVERY else "")]
    if not EVERY:
        found.random.shuffle(statements)
        statements = statements[:STATEMENTS_AT_ONCE]
    for statement in statements:
        group.run(*statement)
        if not found.expect(arbor.process.poll() is None, f"{name}: {statement[0]}: the server died"):
            arbor.start()
    return len(statements)


def prepared(arbor):
    few = [{"_id": n, "v": n, "l": [n, str(n)]} for n in range(10)]
    for command in (
        {"insert": "few", "documents": few},
        {"createIndexes": "searched", "indexes": [{"key": {"x": "text"}, "name": "t"}]},
        {"insert": "searched", "documents": [{"x": "w1 w2 x a"}]},
    ):
        ask(arbor.port, {**command, "$db": "wide"})


def main():
    found, ran = Attack(__doc__), 0
    with directory() as path:
        for engine in found.engines:
            (path / engine).mkdir()
            with server(path / engine, engine) as arbor:
                arbor.start()
                prepared(arbor)
                share = found.args.seconds / len(found.engines)
                end = time.monotonic() + share
                chosen = EVERY.split(":")[0]
                names = [chosen] if chosen in VALUES else found.random.sample(list(VALUES), len(VALUES))
                for number, name in enumerate(names):
                    if EVERY or number == 0 or time.monotonic() < end:
                        ran += attack(found, arbor, name)
                found.expect(arbor.stop() == 0, f"{engine}: the server does not end cleanly")
    found.end(f"{ran} statements with large values")


if __name__ == "__main__":
    main()
