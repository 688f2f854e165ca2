"""Values that nest deeply, long dotted paths and many variables: each is answered, and the server continues."""

import bson
import pytest
from pymongo.errors import OperationFailure, WriteError

OVERFLOW = 15
# What MongoDB lets a collection hold, and what it lets a document have at all.
STORED_LEVELS = 180
LEVELS = 200
# Messages of 3 KB with such paths ended the server.
LONG = ".".join(["a"] * 1950)


def building(levels):
    """An expression whose value nests this many levels."""
    return {"$reduce": {"input": {"$range": [0, levels]}, "initialValue": 1, "in": {"a": "$$value"}}}


def overflows(run):
    with pytest.raises(OperationFailure) as raised:
        run()
    codes = {raised.value.code} | {error["code"] for error in (raised.value.details or {}).get("writeErrors", [])}
    assert OVERFLOW in codes, raised.value.details


@pytest.fixture
def one(db):
    db.c.insert_one({"_id": 1})
    return db.c


@pytest.mark.parametrize(
    "update",
    [{name: {LONG: value}} for name, value in [
        ("$set", 1), ("$unset", 1), ("$inc", 1), ("$mul", 1), ("$min", 1), ("$max", 1), ("$push", 1), ("$addToSet", 1),
        ("$pull", 1), ("$pullAll", [1]), ("$pop", 1), ("$bit", {"or": 1}), ("$currentDate", True), ("$setOnInsert", 1),
        ("$rename", "b"),
    ]] + [{"$rename": {"b": LONG}}],
    ids=lambda update: next(iter(update)),
)
def test_paths_of_updates(one, update):
    overflows(lambda: one.update_one({"_id": 1}, update))
    overflows(lambda: one.update_one({"_id": 2}, update, upsert=True))


def test_paths_everywhere_else(db, one):
    for run in [
        lambda: one.update_one({LONG: 1}, {"$set": {"z": 1}}, upsert=True),
        lambda: one.find_one({LONG: 1}),
        lambda: one.find_one({}, {LONG: 1}),
        lambda: one.find_one({}, sort=[(LONG, 1)]),
        lambda: one.distinct(LONG),
        lambda: one.create_index(LONG),
        lambda: one.create_index("q", partialFilterExpression={LONG: 1}),
        lambda: list(one.aggregate([{"$unwind": f"${LONG}"}])),
        lambda: list(one.aggregate([{"$addFields": {LONG: 1}}])),
        lambda: list(one.aggregate([{"$lookup": {"from": "c", "localField": LONG, "foreignField": "_id", "as": "x"}}])),
    ]:
        overflows(run)


def test_what_is_read_can_be_written_back(db, one):
    for levels in [STORED_LEVELS - 1, STORED_LEVELS, LEVELS - 1, 100_000]:
        run = lambda: one.update_one({"_id": 1}, [{"$set": {"x": building(levels)}}])
        if levels >= STORED_LEVELS:
            overflows(run)
        else:
            run()
        db.back.replace_one({"_id": 1}, one.find_one(), upsert=True)
    deep = bson.decode(bson.encode({"_id": 2}))
    for _ in range(STORED_LEVELS - 1):
        deep = {"_id": 2, "a": deep}
    db.back.insert_one(deep)
    with pytest.raises(WriteError, match="180 levels of nesting"):
        db.back.insert_one({"_id": 3, "a": deep})
    assert db.command("validate", "back", full=True)["valid"]


@pytest.mark.parametrize("stage", [{"$out": "o"}, {"$merge": "o"}])
def test_computed_values_are_not_stored(db, one, stage):
    for levels in [STORED_LEVELS, 100_000]:
        overflows(lambda: list(one.aggregate([{"$project": {"x": building(levels)}}, stage])))
    assert db.o.count_documents({}) == 0


@pytest.mark.parametrize(
    "stages",
    [
        [{"$redact": "$$DESCEND"}],
        [{"$project": {"h": {"$toHashedIndexKey": "$x"}}}],
        [{"$project": {"x.a.a": 0}}],
        [{"$sort": {"x": 1}}],
        [{"$group": {"_id": "$x", "all": {"$addToSet": "$x"}}}],
        [{"$facet": {"a": [{"$match": {}}]}}] * 110,
    ],
    ids=lambda stages: next(iter(stages[0])),
)
def test_computed_values_in_stages(one, stages):
    overflows(lambda: list(one.aggregate([{"$project": {"x": building(100_000)}}, *stages])))
    if len(stages) > 1:
        overflows(lambda: list(one.aggregate(stages)))


def test_variables(db, one):
    variables = {f"v{n}": n for n in range(60_000)}
    uses = {"$eq": ["$$v59999", 59_999]}
    let = {"$let": {"vars": variables, "in": {"$add": ["$$v0", "$$v7500", "$$v59999"]}}}
    assert list(one.aggregate([{"$project": {"x": let}}])) == [{"_id": 1, "x": 67_499}]
    assert one.find_one({"$expr": uses}, let=variables) == {"_id": 1}
    lookup = {"from": "c", "let": variables, "pipeline": [{"$match": {"$expr": uses}}], "as": "x"}
    assert list(one.aggregate([{"$lookup": lookup}])) == [{"_id": 1, "x": [{"_id": 1}]}]
    merge = {"into": "d", "let": variables, "whenMatched": [{"$set": {"x": "$$v7"}}]}
    for _ in range(2):
        list(one.aggregate([{"$merge": merge}]))
    assert db.d.find_one() == {"_id": 1, "x": 7}
    db.command("update", "c", updates=[{"q": {}, "u": [{"$set": {"y": "$$v8"}}], "c": variables}])
    changed = db.command("findAndModify", "c", query={}, update=[{"$set": {"z": "$$v9"}}], new=True, let=variables)
    assert changed["value"] == {"_id": 1, "y": 8, "z": 9}


def test_stages_around_each_other(one):
    pipeline = [{"$group": {"_id": "$_id"}}] * 999
    assert list(one.aggregate(pipeline)) == [{"_id": 1}]
    for _ in range(2):
        pipeline = [{"$lookup": {"from": "c", "pipeline": pipeline, "as": "x"}}, *pipeline[:990]]
    with pytest.raises(OperationFailure) as raised:
        list(one.aggregate(pipeline))
    assert raised.value.code == 7749501
