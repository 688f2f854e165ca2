"""Operations above the threshold are log lines in MongoDB's layout, which log analysers read."""

import json


def test_a_slow_operation_is_a_line_of_json(client, db):
    db.c.insert_many([{"_id": n, "a": n} for n in range(10)])
    before = db.command("profile", 0, slowms=0)
    try:
        list(db.c.find({"a": {"$gt": 3}}))
    finally:
        db.command("profile", 0, slowms=before["slowms"])
    lines = [json.loads(line) for line in client.admin.command("getLog", "global")["log"]]
    slow = [line for line in lines if line["msg"] == "Slow query" and line["attr"]["ns"] == db.c.full_name]
    attr = next(line["attr"] for line in slow if "find" in line["attr"]["command"])
    assert attr["nreturned"] == 6 and attr["durationMillis"] >= 0 and attr["queryHash"]
    assert attr["command"]["filter"] == {"a": {"$gt": 3}} and attr["protocol"] == "op_msg"


def test_a_slow_statement_has_the_hash_of_its_shape(client, db):
    """The same hash that explain shows, of every statement that finds documents."""
    db.c.insert_many([{"_id": n, "a": n, "b": n % 3} for n in range(10)])
    db.c.create_index("a")
    group = [{"$match": {"a": {"$gt": 3}}}, {"$sort": {"b": 1}}, {"$group": {"_id": "$b", "n": {"$sum": "$_id"}}}]
    statements = [
        {"aggregate": "c", "pipeline": group, "cursor": {}},
        {"aggregate": "c", "pipeline": [{"$match": {"a": 3}}, {"$project": {"a": 1, "_id": 0}}], "cursor": {}},
        {"aggregate": "c", "pipeline": [{"$match": {"a": {"$lt": 3}}}, {"$count": "n"}], "cursor": {}},
        {"count": "c", "query": {"a": 3, "b": 1}},
        {"distinct": "c", "key": "b", "query": {"a": {"$gt": 3}}},
        {"findAndModify": "c", "query": {"a": 3, "b": 0}, "sort": {"b": 1}, "update": {"$set": {"x": 1}}},
        {"update": "c", "updates": [{"q": {"a": 3, "b": {"$gt": 7}}, "u": {"$set": {"x": 1}}}]},
        {"delete": "c", "deletes": [{"q": {"b": {"$gt": 7}}, "limit": 1}]},
    ]
    explained = [db.command("explain", statement, verbosity="queryPlanner") for statement in statements]
    plans = [plan if "queryPlanner" in plan else plan["stages"][0]["$cursor"] for plan in explained]
    hashes = [plan["queryPlanner"]["planCacheShapeHash"] for plan in plans]
    before = db.command("profile", 0, slowms=0)
    try:
        for statement in statements:
            db.command(statement)
    finally:
        db.command("profile", 0, slowms=before["slowms"])
    lines = [json.loads(line) for line in client.admin.command("getLog", "global")["log"]]
    slow = [line["attr"] for line in lines if line["msg"] == "Slow query" and line["attr"]["ns"] == db.c.full_name]
    assert [attr.get("planCacheShapeHash") for attr in slow if "planSummary" in attr] == hashes
