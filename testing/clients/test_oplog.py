"""`local.oplog.rs`: queries, tailing, and a copy that is kept equal by a tailer in the manner of Meteor."""

import threading
import time

import bson
import pymongo
import pytest
from pymongo.errors import OperationFailure

from arbor_process import ReplicaSet


@pytest.fixture
def own(set_client, request):
    """An empty database of a replica set, named after the test."""
    name = request.node.name.replace("[", "_").replace("]", "")[:60]
    set_client.drop_database(name)
    yield set_client[name]
    set_client.drop_database(name)


@pytest.fixture
def oplog(set_client):
    return set_client.local["oplog.rs"]


def last(oplog):
    return oplog.find_one(sort=[("$natural", -1)])


def since(oplog, ts, **more):
    return list(oplog.find({"ts": {"$gt": ts}, "ns": {"$not": {"$regex": "^config\\."}}, **more}))


def test_entries_are_mongodbs(own, oplog):
    begin = last(oplog)["ts"]
    own.c.insert_one({"_id": 1, "a": 1, "long": "x" * 300})
    own.c.update_one({"_id": 1}, {"$set": {"a": 2}, "$unset": {"gone": 1}})
    own.c.replace_one({"_id": 1}, {"b": 1})
    own.c.delete_one({"_id": 1})
    own.c.drop()
    entries = since(oplog, begin)
    name = own.name
    assert [(e["op"], e["ns"]) for e in entries] == [
        ("c", f"{name}.$cmd"),
        ("i", f"{name}.c"),
        ("u", f"{name}.c"),
        ("u", f"{name}.c"),
        ("d", f"{name}.c"),
        ("c", f"{name}.$cmd"),
    ]
    create, insert, update, replace, delete, drop = entries
    assert create["o"]["create"] == "c" and create["o"]["idIndex"]["name"] == "_id_"
    assert insert["o"] == {"_id": 1, "a": 1, "long": "x" * 300} and insert["o2"] == {"_id": 1}
    assert update["o"] == {"$v": 2, "diff": {"u": {"a": 2}}} and update["o2"] == {"_id": 1}
    assert replace["o"] == {"_id": 1, "b": 1} and replace["o2"] == {"_id": 1}
    assert delete["o"] == {"_id": 1}
    assert drop["o"] == {"drop": "c"}
    for entry in entries:
        assert entry["v"] == 2 and entry["t"] == 1 and entry["wall"].year >= 2024
    assert len({e["ui"] for e in entries}) == 1
    assert sorted(e["ts"] for e in entries) == [e["ts"] for e in entries]


def test_a_transaction_is_one_entry(own, oplog, set_client):
    own.create_collection("c")
    begin = last(oplog)["ts"]
    with set_client.start_session() as session:
        with session.start_transaction():
            own.c.insert_many([{"_id": n} for n in range(3)], session=session)
            own.c.delete_one({"_id": 0}, session=session)
    (entry,) = since(oplog, begin)
    assert entry["op"] == "c" and entry["ns"] == "admin.$cmd"
    assert [(e["op"], e["ns"]) for e in entry["o"]["applyOps"]] == [("i", f"{own.name}.c")] * 3 + [("d", f"{own.name}.c")]
    assert entry["lsid"]["id"] and entry["txnNumber"] >= 1


def test_times_advance_on_an_idle_set_of_one(tmp_path):
    with ReplicaSet(tmp_path / "data", ["--setParameter", "periodicNoopIntervalSecs=1"]) as member:
        with pymongo.MongoClient(member.direct_uri) as client:
            written = client.admin.command("hello")["lastWrite"]["opTime"]["ts"]
            until = time.monotonic() + 20
            while client.admin.command("hello")["lastWrite"]["opTime"]["ts"] <= written:
                assert time.monotonic() < until
                time.sleep(0.2)
            (newest,) = client.local["oplog.rs"].find().sort("$natural", -1).limit(1)
            assert newest["op"] == "n" and newest["o"] == {"msg": "periodic noop"}


def test_queries(own, oplog):
    begin = last(oplog)["ts"]
    own.c.insert_many([{"_id": n} for n in range(50)])
    entries = since(oplog, begin, op="i")
    assert [e["o"]["_id"] for e in entries] == list(range(50))
    middle = entries[20]["ts"]
    assert [e["o"]["_id"] for e in oplog.find({"ts": {"$gte": middle}, "op": "i"})] == list(range(20, 50))
    assert [e["o"]["_id"] for e in oplog.find({"ts": {"$gt": begin, "$lt": middle}, "op": "i"})] == list(range(20))
    assert oplog.find_one({"ts": middle})["o"]["_id"] == 20
    backwards = oplog.find({"ts": {"$gt": begin}, "op": "i"}).sort("$natural", -1)
    assert [e["o"]["_id"] for e in backwards] == list(range(49, -1, -1))
    upto = oplog.find({"ts": {"$gt": begin, "$lte": middle}, "op": "i"}).sort("$natural", -1).limit(2)
    assert [e["o"]["_id"] for e in upto] == [20, 19]
    assert oplog.count_documents({"ts": {"$gt": begin}, "op": "i"}) == 50
    assert oplog.distinct("op", {"ts": {"$gt": begin, "$lte": middle}}) == ["c", "i"]
    grouped = oplog.aggregate([{"$match": {"ts": {"$gt": begin}}}, {"$group": {"_id": "$op", "n": {"$sum": 1}}}])
    assert {row["_id"]: row["n"] for row in grouped}["i"] == 50
    assert set(oplog.find_one({"ts": middle}, {"op": 1})) == {"op"}
    assert oplog.find_one(sort=[("$natural", 1)])["ts"] < begin


def test_everything_backwards_is_everything(own, oplog):
    own.c.insert_many([{"_id": n, "t": "x" * 2000} for n in range(3000)])
    ends = last(oplog)["ts"]
    forwards = [e["ts"] for e in oplog.find({"ts": {"$lte": ends}}, {"ts": 1})]
    backwards = [e["ts"] for e in oplog.find({"ts": {"$lte": ends}}, {"ts": 1}).sort("$natural", -1)]
    assert forwards == backwards[::-1] and len(forwards) > 3000


def test_it_is_listed_and_takes_no_writes(oplog, set_client):
    (listed,) = set_client.local.list_collections(filter={"name": "oplog.rs"})
    assert listed["options"]["capped"] is True and listed["options"]["size"] > 0
    assert "oplog.rs" in set_client.local.list_collection_names()
    stats = set_client.local.command("collStats", "oplog.rs")
    assert stats["capped"] is True and stats["maxSize"] > 0 and stats["count"] > 0 and stats["size"] > 0
    (stats,) = oplog.aggregate([{"$collStats": {"storageStats": {}}}])
    assert stats["storageStats"]["maxSize"] > 0
    with pytest.raises(OperationFailure) as caught:
        oplog.insert_one({"_id": 1})
    assert caught.value.code == 73


@pytest.mark.parametrize("kind", [pymongo.CursorType.TAILABLE, pymongo.CursorType.TAILABLE_AWAIT])
def test_tailing(own, oplog, kind):
    begin = last(oplog)["ts"]
    tail = oplog.find({"ts": {"$gt": begin}, "ns": f"{own.name}.c"}, cursor_type=kind)
    assert next(tail, None) is None and tail.alive
    own.c.insert_one({"_id": 1})
    own.other.insert_one({"_id": 1})
    own.c.insert_one({"_id": 2})
    found = []
    until = time.monotonic() + 10
    while len(found) < 2 and time.monotonic() < until:
        found += [e["o"]["_id"] for e in tail]
    assert found == [1, 2] and tail.alive
    tail.close()


def test_a_tail_that_awaits_is_woken(own, oplog):
    begin = last(oplog)["ts"]
    tail = oplog.find({"ts": {"$gt": begin}, "op": "i"}, cursor_type=pymongo.CursorType.TAILABLE_AWAIT)
    tail = tail.max_await_time_ms(10_000)
    assert next(tail, None) is None
    writer = threading.Timer(0.5, lambda: own.c.insert_one({"_id": "woken"}))
    writer.start()
    began = time.monotonic()
    assert next(tail)["o"]["_id"] == "woken"
    assert time.monotonic() - began < 5
    writer.join()
    tail.close()


def test_tails_go_forward_only(oplog):
    with pytest.raises(OperationFailure) as caught:
        oplog.find({}, cursor_type=pymongo.CursorType.TAILABLE).sort("$natural", -1).next()
    assert caught.value.code == 2


class Copy:
    """Keeps collections equal as Meteor's oplog driver and mongo-connector do: from the entries alone."""

    def __init__(self, client, db):
        self.db = db.name
        self.documents = {}
        oplog = client.local["oplog.rs"]
        begin = last(oplog)["ts"]
        namespaces = {"$in": [bson.regex.Regex(f"^{self.db}\\."), "admin.$cmd"]}
        query = {
            "ns": namespaces,
            "$or": [
                {"op": {"$in": ["i", "u", "d"]}},
                {"op": "c", "o.drop": {"$exists": True}},
                {"op": "c", "o.dropDatabase": {"$exists": True}},
                {"op": "c", "o.applyOps": {"$exists": True}},
            ],
            "ts": {"$gt": begin},
        }
        self.tail = oplog.find(query, cursor_type=pymongo.CursorType.TAILABLE_AWAIT, oplog_replay=True)

    def apply(self, entry):
        op, ns, o = entry["op"], entry["ns"], entry["o"]
        if op == "c":
            for inner in o.get("applyOps", []):
                if inner["ns"].startswith(self.db + "."):
                    self.apply(inner)
            if "drop" in o:
                self.documents.pop(f"{self.db}.{o['drop']}", None)
            if "dropDatabase" in o:
                self.documents.clear()
            return
        own = self.documents.setdefault(ns, {})
        if op == "i":
            assert o["_id"] not in own
            own[o["_id"]] = o
        elif op == "d":
            del own[o["_id"]]
        elif o.get("$v") == 2:
            own[entry["o2"]["_id"]] = changed(own[entry["o2"]["_id"]], o["diff"])
        else:
            own[entry["o2"]["_id"]] = o

    def catch_up(self, marker):
        until = time.monotonic() + 30
        while time.monotonic() < until:
            for entry in self.tail:
                self.apply(entry)
                if entry["op"] == "i" and entry["o"]["_id"] == marker:
                    return
        raise AssertionError("the marker never came")


def changed(doc, diff):
    """Applies a `$v: 2` difference."""
    doc = dict(doc)
    for name in diff.get("d", {}):
        del doc[name]
    doc.update(diff.get("u", {}))
    for name, value in diff.get("i", {}).items():
        doc.pop(name, None)
        doc[name] = value
    for name, inner in diff.items():
        if name.startswith("s"):
            field = name[1:]
            doc[field] = changed_array(doc[field], inner) if inner.get("a") else changed(doc[field], inner)
    return doc


def changed_array(array, diff):
    array = list(array)
    if "l" in diff:
        del array[diff["l"]:]
    for name, value in diff.items():
        if name in ("a", "l"):
            continue
        at = int(name[1:])
        array += [None] * (at + 1 - len(array))
        if name[0] == "u":
            array[at] = value
        else:
            array[at] = changed_array(array[at], value) if value.get("a") else changed(array[at], value)
    return array


def test_a_tailer_keeps_a_copy_equal(own, set_client):
    import random

    rng = random.Random(7)
    copy = Copy(set_client, own)
    long = "x" * 200
    for step in range(1500):
        coll, key = own[f"c{rng.randrange(3)}"], rng.randrange(40)
        match rng.randrange(9):
            case 0 | 1:
                try:
                    coll.insert_one({"_id": key, "n": 0, "long": long, "a": [1, {"b": 1}, 3], "s": {"t": {"u": 1}}})
                except pymongo.errors.DuplicateKeyError:
                    pass
            case 2:
                coll.update_one({"_id": key}, {"$inc": {"n": 1}, "$set": {"s.t.u": step, "new": step}})
            case 3:
                coll.update_one({"_id": key}, {"$push": {"a": {"b": step}}, "$unset": {"new": 1}})
            case 4:
                coll.update_one({"_id": key, "a.1.b": {"$exists": True}}, {"$set": {"a.1.b": step}})
            case 5:
                coll.update_one({"_id": key}, {"$pop": {"a": 1}})
            case 6:
                coll.delete_one({"_id": key})
            case 7:
                coll.replace_one({"_id": key}, {"n": step, "long": long}, upsert=True)
            case 8:
                with set_client.start_session() as session, session.start_transaction():
                    coll.update_many({"n": {"$gt": 2}}, {"$inc": {"n": 1}}, session=session)
                    own.log.insert_one({"step": step}, session=session)
        if step == 700:
            own.c1.drop()
    own.c0.insert_one({"_id": "marker"})
    copy.catch_up("marker")
    for name in own.list_collection_names():
        there = {d["_id"]: d for d in own[name].find()}
        assert copy.documents.get(f"{own.name}.{name}", {}) == there, name
