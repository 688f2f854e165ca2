"""mongodump, mongorestore, mongoexport, mongoimport, mongostat and mongotop: what was dumped is restored, with everything around it."""

import hashlib
import pathlib
import re
import subprocess
import sys
import tempfile
import threading
import time

from program import output_of, program

import bson
import pymongo
from flow import DATABASE, FULL, URI, empty_database, finish, same, step

DUMP, RESTORE, EXPORT, IMPORT, STAT, TOP = (
    program(name) for name in ("mongodump", "mongorestore", "mongoexport", "mongoimport", "mongostat", "mongotop"))
empty_database()
client = pymongo.MongoClient(URI)
db, copy = client[DATABASE], client[f"{DATABASE}_copy"]
client.drop_database(copy.name)
directory = pathlib.Path(tempfile.mkdtemp(prefix="arbor-tools-"))
COUNT = 20_000 if FULL else 1_000
IS_SET = "setName" in client.admin.command("hello")


def uri(*options):
    return f"--uri={URI}", *options


def contents(database):
    """Documents, options and indexes of every collection, without what differs between a collection and its copy."""
    hashes = client[database.name].command("dbHash")["collections"]
    found = {}
    for info in database.list_collections():
        name = info["name"]
        if name.startswith("system."):
            continue
        shown = {key: value for key, value in info["options"].items()}
        rows = hashlib.sha256(b"".join(sorted(bson.encode(row) for row in database[name].find()))).hexdigest(), hashes.get(name)
        # the order of an index's options is that of a map of mongorestore's
        indexes = [] if info["type"] == "view" else sorted(str(sorted(index.items())) for index in database[name].list_indexes())
        found[name] = info["type"], shown, rows, indexes
    return found


def fill():
    db.people.insert_many([{"_id": n, "age": n % 50, "name": f"n{n}", "at": bson.datetime.datetime(2026, 1, 1), "d": bson.Decimal128("1.50"),
                            "tags": ["a", {"x": n}], "none": None} for n in range(COUNT)])
    db.people.create_index([("age", 1), ("name", -1)], unique=True, partialFilterExpression={"age": {"$gt": 3}})
    db.people.create_index([("name", "text")])
    db.people.create_index("at", expireAfterSeconds=10**8)
    db.kinds.insert_one({"_id": bson.ObjectId(), "a": [bson.Timestamp(5, 7), bson.Binary(b"x", 4 + 124), bson.Regex("a.c", "im"), bson.MinKey(), bson.MaxKey(),
                         bson.Int64(7), 7, 7.0, float("nan"), -0.0, bson.Code("f()"), bson.Decimal128("NaN"), True, None, {"": {"$x": 1, "a.b": 2}}, "\0é"]})
    db.kinds.create_index([("a", 1)], sparse=True)
    db.kinds.create_index([("$**", 1)], name="wild", wildcardProjection={"b": 1})
    db.kinds.create_index([("c", "hashed")], collation={"locale": "simple"})
    db.kinds.create_index([("place", "2dsphere")], hidden=True)
    db.create_collection("empty", changeStreamPreAndPostImages={"enabled": True})
    db.create_collection("checked", validator={"a": {"$gt": 0}}, validationLevel="moderate", collation={"locale": "de", "strength": 2})
    db.checked.insert_one({"_id": "x", "a": 1})
    db.create_collection("small", capped=True, size=65_536, max=50)
    db.small.insert_many([{"_id": n} for n in range(60)])
    db.create_collection("adults", viewOn="people", pipeline=[{"$match": {"age": {"$gte": 18}}}])
    db.create_collection("series", timeseries={"timeField": "t", "metaField": "m"})
    db.series.insert_many([{"t": bson.datetime.datetime(2026, 1, 1, 0, n % 60), "m": n % 3, "v": n} for n in range(500)])


fill()

with step("mongodump and mongorestore: documents, indexes, options, views, capped, time series") as seen:
    output_of([DUMP, *uri(), f"--db={DATABASE}", f"--out={directory}/plain"])
    before = contents(db)
    output_of([RESTORE, *uri(), f"--nsFrom={DATABASE}.*", f"--nsTo={copy.name}.*", f"{directory}/plain"])
    after = contents(copy)
    same(sorted(after), sorted(before))
    for name in before:
        same(after[name], before[name], name)
    seen.append(f"{len(before)} collections")

with step("an archive, compressed, restored over what is there") as seen:
    output_of([DUMP, *uri(), f"--db={DATABASE}", "--gzip", f"--archive={directory}/all.gz"])
    db.people.delete_many({"age": {"$lt": 10}})
    output_of([RESTORE, *uri(), "--drop", "--gzip", f"--archive={directory}/all.gz"])
    same(contents(db), before)

with step("users and roles with the admin database") as seen:
    client.admin.command("dropUser", "drivers_tools") if client.admin.command("usersInfo", "drivers_tools")["users"] else None
    client.admin.command("createUser", "drivers_tools", pwd="secret", roles=[{"role": "read", "db": DATABASE}])
    output_of([DUMP, *uri(), "--db=admin", f"--out={directory}/admin"])
    client.admin.command("dropUser", "drivers_tools")
    output_of([RESTORE, *uri(), "--nsInclude=admin.*", f"{directory}/admin"])
    same([one["user"] for one in client.admin.command("usersInfo", "drivers_tools")["users"]], ["drivers_tools"])
    client.admin.command("dropUser", "drivers_tools")

if IS_SET:
    with step("a dump during writes with --oplog, restored with --oplogReplay") as seen:
        stop, written = threading.Event(), []

        def writes():
            while not stop.is_set():
                written.append(client[DATABASE].live.insert_one({"n": len(written)}).inserted_id)
                time.sleep(0.002)

        writer = threading.Thread(target=writes)
        writer.start()
        try:
            output_of([DUMP, *uri(), "--oplog", f"--out={directory}/oplog"])
        finally:
            stop.set()
            writer.join()
        assert (directory / "oplog" / "oplog.bson").exists()
        db.live.drop()
        output_of([RESTORE, *uri(), "--drop", "--oplogReplay", f"{directory}/oplog"])
        kept = [row["n"] for row in db.live.find(sort=[("n", 1)])]
        same(kept, list(range(len(kept))), "a prefix of what was written")
        seen.append(f"{len(kept)} of {len(written)}")

with step("mongoexport and mongoimport: JSON and CSV") as seen:
    output_of([EXPORT, *uri(), f"--db={DATABASE}", "--collection=people", "--jsonFormat=canonical", f"--out={directory}/people.json"])
    output_of([IMPORT, *uri(), f"--db={copy.name}", "--collection=imported", f"--file={directory}/people.json"])
    same(sorted(bson.encode(row) for row in copy.imported.find()), sorted(bson.encode(row) for row in db.people.find()))
    output_of([EXPORT, *uri(), f"--db={DATABASE}", "--collection=people", "--type=csv", "--fields=_id,name,age", f"--out={directory}/people.csv"])
    output_of([IMPORT, *uri(), f"--db={copy.name}", "--collection=table", "--type=csv", "--headerline", f"--file={directory}/people.csv"])
    same(copy.table.count_documents({}), COUNT)
    same(copy.table.find_one({"_id": 7}), {"_id": 7, "name": "n7", "age": 7})

with step("mongostat and mongotop during a load") as seen:
    stop = threading.Event()

    def load():
        n = 0
        while not stop.is_set():
            db.load.insert_one({"_id": n})
            n += 1

    loader = threading.Thread(target=load)
    loader.start()
    try:
        lines = [line.split() for line in output_of([STAT, *uri(), "--noheaders", "--rowcount=3", "1"]).splitlines() if line.strip()]
        inserts = [int(re.sub(r"\D", "", line[0])) for line in lines]
        assert max(inserts) > 10, lines
        top = output_of([TOP, *uri(), "--rowcount=2", "1"])
        assert f"{DATABASE}.load" in top, top
    finally:
        stop.set()
        loader.join()
    seen.append(f"{max(inserts)} inserts a second")

client.drop_database(copy.name)
subprocess.run(["rm", "-rf", str(directory)], check=False)
finish()
