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
