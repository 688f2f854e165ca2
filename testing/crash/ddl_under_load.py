"""Catalogue changes under load: indexes, collections and databases come and go while clients write, read and scan.

Part one runs for a while and then compares: counters are exact, a unique key has one document, counts agree with scans and
with index scans, every collection is valid, memory stayed bounded. Part two kills the server (-9) in the middle of it,
again and again; after each start the catalogue must be whole, what was acknowledged must be there, `arbor check` must be
clean. Errors that clients may see under such changes are listed in ALLOWED; any other fails the run, as does a panic or a
line of severity E or F in the server's log. Ends with a non-zero code at the first contradiction.
"""

import collections
import json
import os
import pathlib
import random
import subprocess
import threading
import time
import traceback

import pymongo
from pymongo.errors import BulkWriteError, ConnectionFailure, OperationFailure
from pymongo.write_concern import WriteConcern

from campaign import Problems, arguments, server

NAMESPACE_NOT_FOUND, INDEX_NOT_FOUND, CURSOR_NOT_FOUND, NAMESPACE_EXISTS = 26, 27, 43, 48
QUERY_PLAN_KILLED, INDEX_OPTIONS, INDEX_SPECS, DUPLICATE_KEY, INTERRUPTED, CURSOR_KILLED = 175, 85, 86, 11000, 11601, 237
# what a client may see whose collection or index changes under it
ALLOWED = {NAMESPACE_NOT_FOUND, INDEX_NOT_FOUND, CURSOR_NOT_FOUND, NAMESPACE_EXISTS, CURSOR_KILLED}
COUNTERS, UPSERT_KEYS, MEMORY_MAX_MB = 16, 500, 1500


class Shared:
    """What the clients have done, for the comparison at the end."""

    def __init__(self, uri):
        self.uri = uri
        self.lock = threading.Lock()
        self.stopping = threading.Event()
        self.problems = []
        self.errors = collections.Counter()
        self.done = collections.Counter()
        self.counters = collections.Counter()
        self.in_doubt = collections.Counter()

    def add(self, counter, key, amount=1):
        with self.lock:
            counter[key] += amount


class Worker(threading.Thread):
    """Calls `step` until it is to stop or the server is gone."""

    def __init__(self, shared, step, seed):
        super().__init__(daemon=True, name=step.__name__)
        self.shared, self.step, self.rng = shared, step, random.Random(seed)

    def run(self):
        client = pymongo.MongoClient(self.shared.uri, retryWrites=False, retryReads=False,
                                     serverSelectionTimeoutMS=2000, directConnection=True)
        try:
            while not self.shared.stopping.is_set():
                try:
                    self.step(client, self.rng, self.shared)
                    self.shared.add(self.shared.done, self.name)
                except OperationFailure as error:
                    self.shared.add(self.shared.errors, (self.name, error.code))
                    if error.code not in ALLOWED:
                        self.shared.problems.append(f"{self.name}: {error.code} {error}"[:500])
        except ConnectionFailure as error:
            if not self.shared.stopping.is_set():
                self.shared.problems.append(f"{self.name}: lost the connection: {error}"[:500])
        except Exception:
            self.shared.problems.append(f"{self.name}: {traceback.format_exc()}")
        finally:
            client.close()


# ---- collections that stay: exact results ---------------------------------------------------------------------------

def count_up(client, rng, shared):
    """Counters by findAndModify, update, and several in one command; an index on the counted field."""
    counters = client.steady.get_collection("counters", write_concern=WriteConcern(w=1, j=rng.random() < 0.2))
    key, choice = rng.randrange(COUNTERS), rng.random()
    shared.add(shared.in_doubt, key)
    if choice < 0.4:
        counters.find_one_and_update({"_id": key}, {"$inc": {"n": 1}})
    elif choice < 0.7:
        assert counters.update_one({"_id": key}, {"$inc": {"n": 1}}).modified_count == 1
    elif choice < 0.9:
        assert counters.update_one({"tag": f"t{key}"}, {"$inc": {"n": 1}}).modified_count == 1
    else:
        assert counters.update_one({"_id": key, "list.at": 1}, {"$inc": {"list.$.hits": 1, "n": 1}}).modified_count == 1
        shared.add(shared.counters, ("hits", key))
    with shared.lock:
        shared.counters[key] += 1
        shared.in_doubt[key] -= 1


def upsert(client, rng, shared):
    """All clients upsert the same few keys at the same time; some are deleted again."""
    keys = client.steady.upserts
    key = rng.randrange(UPSERT_KEYS)
    choice = rng.random()
    if choice < 0.6:
        result = keys.update_one({"key": key}, {"$inc": {"n": 1}, "$setOnInsert": {"tags": [key, key + 1, "x"]}}, upsert=True)
        assert (result.upserted_id is not None) != (result.modified_count == 1)
    elif choice < 0.8:
        keys.find_one_and_update({"key": key}, {"$inc": {"n": 1}}, upsert=True)
    elif choice < 0.9:
        keys.delete_one({"key": key})
    else:  # a unique key is given up and taken by another document in one stroke
        other = rng.randrange(UPSERT_KEYS)
        try:
            keys.update_one({"key": key}, {"$set": {"key": other}})
        except OperationFailure as error:
            if error.code != DUPLICATE_KEY:
                raise


def bulk_insert(client, rng, shared):
    """Unordered, with duplicates on _id and on a sparse unique field."""
    bulk = client.steady.bulk
    docs = [{"_id": rng.randrange(30000), "u": rng.randrange(60000), "group": rng.randrange(10), "flag": 0,
             "many": [rng.randrange(40) for _ in range(rng.randrange(4))]} for _ in range(rng.choice([1, 5, 50, 300]))]
    for doc in docs:
        if rng.random() < 0.3:
            del doc["u"]
    try:
        inserted = len(bulk.insert_many(docs, ordered=False).inserted_ids)
        failed = 0
    except BulkWriteError as error:
        inserted, failed = error.details["nInserted"], len(error.details["writeErrors"])
        codes = {e["code"] for e in error.details["writeErrors"]}
        assert codes == {DUPLICATE_KEY}, codes
    assert inserted + failed == len(docs), f"{inserted} inserted, {failed} failed of {len(docs)}"
    shared.add(shared.counters, "bulk", inserted)


def update_indexed(client, rng, shared):
    """update_many and delete_many through an index on the field that changes."""
    bulk = client.steady.bulk
    group, choice = rng.randrange(10), rng.random()
    if choice < 0.5:
        result = bulk.update_many({"group": group}, {"$set": {"group": rng.randrange(10)}, "$inc": {"flag": 1}})
        assert result.matched_count == result.modified_count
    elif choice < 0.7:
        bulk.update_many({"many": {"$gte": 20, "$lt": 25}}, {"$push": {"many": rng.randrange(40)}})
    elif choice < 0.8:
        bulk.update_many({"flag": {"$gt": rng.randrange(5, 50)}}, {"$inc": {"flag": 1}, "$set": {"many": []}})
    else:
        result = bulk.delete_many({"group": group, "_id": {"$gte": rng.randrange(30000)}})
        shared.add(shared.counters, "bulk", -result.deleted_count)


def read_steady(client, rng, shared):
    """No read returns a document twice, and a search by an indexed field answers only what it asked for."""
    bulk = client.steady.bulk
    group = rng.randrange(10)
    ids = [d["_id"] for d in bulk.find({"group": group}, {"_id": 1, "group": 1}, batch_size=rng.choice([2, 101, 1000]))]
    assert len(ids) == len(set(ids)), "a document came twice"
    wrong = [d for d in bulk.find({"many": 7}).limit(200) if 7 not in d["many"]]
    assert not wrong, wrong[:2]
    assert len(list(client.steady.counters.find({"n": {"$gte": 0}}))) == COUNTERS, "a counter was missed"


def swap(client, rng, shared):
    """A collection is replaced by another one, as a whole."""
    name = f"next{rng.getrandbits(40)}"
    client.swap[name].insert_many([{"_id": n, "n": n, "k": 1} for n in range(20)])
    if rng.random() < 0.5:
        client.swap[name].create_index("k")
    client.admin.command("renameCollection", f"swap.{name}", to="swap.now", dropTarget=True)
    time.sleep(rng.random() * 0.02)


def read_swapped(client, rng, shared):
    """The collection that is replaced all the time is always there, and always whole."""
    now = client.swap.now
    assert now.find_one({"_id": 3}) == {"_id": 3, "n": 3, "k": 1}, "not there by _id"
    assert len(list(now.find({"n": {"$gte": 0}}, batch_size=7))) == 20, "not there in a scan"
    assert len(list(now.find({"k": 1}))) == 20, "not there by an index"
    assert now.estimated_document_count() == 20 and now.count_documents({}) == 20, "not counted"
    assert now.distinct("k") == [1], "not there in distinct"


LARGE = 8000


def large_document(rng, number):
    return {"_id": number, "k": rng.randrange(1000), "u": number * 7, "t": [rng.randrange(90) for _ in range(2)], "pad": "x" * 300}


def rebuild_large(client, rng, shared):
    """Indexes of a collection that is too large to be indexed inside one transaction."""
    large = client.large.c
    keys, options = rng.choice([([("k", 1)], {}), ([("u", -1)], {"unique": True}), ([("t", 1), ("_id", 1)], {})])
    try:
        large.create_index(keys, **options)
    except OperationFailure as error:
        if error.code != DUPLICATE_KEY:
            raise
    if rng.random() < 0.8:
        large.drop_index("_".join(f"{name}_{way}" for name, way in keys))
    time.sleep(rng.random() * 0.1)


def write_large(client, rng, shared):
    large = client.large.c
    choice, number = rng.random(), rng.randrange(LARGE)
    try:
        if choice < 0.4:
            large.replace_one({"_id": number}, large_document(rng, number), upsert=True)
        elif choice < 0.7:
            large.update_many({"k": rng.randrange(1000)}, {"$set": {"t": [1, 2, rng.randrange(90)]}, "$inc": {"k": 1}})
        elif choice < 0.8:  # now and then there is a duplicate, on which a unique index cannot be built
            large.update_one({"_id": number}, {"$set": {"u": rng.choice([0, 7]) if rng.random() < 0.1 else number * 7}})
        elif choice < 0.9:
            large.delete_one({"_id": number})
        else:
            large.update_many({"u": {"$in": [0, 7]}, "_id": {"$gt": 1}}, {"$unset": {"u": 1}})
    except OperationFailure as error:
        if error.code != DUPLICATE_KEY:
            raise


# ---- collections that come and go -----------------------------------------------------------------------------------

NAMES = ["a", "b", "c"]
INDEXES = [([("k", 1)], {}), ([("t", 1), ("k", -1)], {}), ([("u", 1)], {"unique": True}),
           ([("u", 1), ("t", 1)], {"unique": True, "name": "ut"}), ([("s", 1)], {"sparse": True, "unique": True})]


def any_collection(client, rng):
    return client[rng.choice(["moving", "moving", "other"])][rng.choice(NAMES)]


def write_moving(client, rng, shared):
    coll = any_collection(client, rng)
    docs = [{"k": rng.randrange(1000), "u": rng.getrandbits(60), "t": [rng.randrange(50) for _ in range(rng.randrange(3))],
             "pad": "x" * rng.randrange(600)} for _ in range(rng.choice([1, 10, 400]))]
    choice = rng.random()
    try:
        if choice < 0.6:
            coll.insert_many(docs, ordered=False)
        elif choice < 0.8:
            coll.update_many({"k": rng.randrange(1000)}, {"$inc": {"k": 1}, "$push": {"t": rng.randrange(9)}})
        elif choice < 0.9:
            coll.update_one({"k": rng.randrange(1000)}, {"$set": {"s": rng.randrange(200)}})
        else:
            coll.delete_many({"k": rng.randrange(1000)})
    except BulkWriteError as error:
        codes = {e["code"] for e in error.details["writeErrors"]}
        assert codes == {DUPLICATE_KEY}, codes
    except OperationFailure as error:
        if error.code != DUPLICATE_KEY:
            raise


def scan_moving(client, rng, shared):
    """Long scans across drops; cursors left open; cursors killed by somebody else."""
    coll = any_collection(client, rng)
    find = [lambda: coll.find({}, batch_size=20), lambda: coll.find({"k": {"$gte": 0}}, batch_size=7),
            lambda: coll.find({"t": {"$in": [1, 2, 3]}}).sort("k", 1).batch_size(5),
            lambda: coll.aggregate([{"$match": {"k": {"$gt": 10}}}, {"$group": {"_id": "$k", "n": {"$sum": 1}}}], batchSize=3)]
    cursor = rng.choice(find)()
    seen = 0
    for _ in cursor:
        seen += 1
        if seen % 50 == 0 and rng.random() < 0.1:
            time.sleep(0.02)
        if seen == 200 and rng.random() < 0.3 and cursor.cursor_id:
            answer = client[coll.database.name].command("killCursors", coll.name, cursors=[cursor.cursor_id])
            assert len(answer["cursorsKilled"]) + len(answer["cursorsNotFound"]) == 1, answer
        if seen > 3000:
            if rng.random() < 0.5:
                cursor.close()
            return


def change_indexes(client, rng, shared):
    coll = any_collection(client, rng)
    keys, options = rng.choice(INDEXES)
    try:
        choice = rng.random()
        if choice < 0.6:
            coll.create_index(keys, **options)
        elif choice < 0.9:
            coll.drop_index(options.get("name", "_".join(f"{name}_{way}" for name, way in keys)))
        elif choice < 0.95:
            coll.drop_indexes()
        else:
            names = [i["name"] for i in coll.list_indexes()]
            assert not names or names[0] == "_id_", names
    except OperationFailure as error:
        if error.code not in {DUPLICATE_KEY, INDEX_OPTIONS, INDEX_SPECS}:
            raise
    time.sleep(rng.random() * 0.05)


def change_collections(client, rng, shared):
    coll = any_collection(client, rng)
    choice = rng.random()
    if choice < 0.35:
        coll.drop()
    elif choice < 0.8:
        target = any_collection(client, rng)
        if target.full_name != coll.full_name:
            client.admin.command("renameCollection", coll.full_name, to=target.full_name, dropTarget=rng.random() < 0.7)
    elif choice < 0.9:
        client.drop_database(rng.choice(["moving", "other"]))
    else:
        coll.database.create_collection(coll.name, check_exists=False)
    time.sleep(rng.random() * 0.1)


def look_around(client, rng, shared):
    db = client[rng.choice(["moving", "other", "steady", "large"])]
    for name in db.list_collection_names():
        try:
            report = db.command("validate", name, full=True)
        except OperationFailure as error:
            if error.code not in {NAMESPACE_NOT_FOUND, QUERY_PLAN_KILLED}:
                raise
            continue
        assert report["valid"], f"{db.name}.{name}: {report}"
    client.list_database_names()
    db.command("dbStats")
    time.sleep(0.3)


STEPS = [count_up, count_up, upsert, upsert, bulk_insert, update_indexed, read_steady, write_moving, write_moving,
         swap, read_swapped, rebuild_large, write_large, scan_moving, change_indexes, change_indexes, change_collections,
         change_collections, look_around]


# ---- comparisons ----------------------------------------------------------------------------------------------------

def prepare(client):
    steady = client.steady
    if steady.counters.estimated_document_count() == 0:
        steady.counters.insert_many([{"_id": n, "n": 0, "tag": f"t{n}", "list": [{"at": 0, "hits": 0}, {"at": 1, "hits": 0}]}
                                     for n in range(COUNTERS)])
    swap(client, random.Random(1), None)
    client.large.c.insert_many([large_document(random.Random(n), n) for n in range(LARGE)])
    steady.counters.create_index("n")
    steady.counters.create_index("tag", unique=True)
    steady.upserts.create_index("key", unique=True)
    steady.upserts.create_index("tags")
    steady.bulk.create_index("u", unique=True, sparse=True)
    steady.bulk.create_index([("group", 1), ("_id", -1)])
    steady.bulk.create_index("many")
    steady.bulk.create_index("flag")


def indexed_ids(coll, index, sparse):
    """How many documents an index answers in a scan over all of it; None when it does not hold all of them."""
    if sparse or "partialFilterExpression" in index:
        return None
    return len({d["_id"] for d in coll.find({}, {"_id": 1}).hint(index["name"])})


def compare_collection(coll, problems):
    scanned = sum(1 for _ in coll.find({}, {"_id": 1}))
    counts = {"scan": scanned, "counter": coll.estimated_document_count(), "count": coll.count_documents({})}
    for index in coll.list_indexes():
        found = indexed_ids(coll, index, index.get("sparse", False))
        if found is not None:
            counts[index["name"]] = found
    if len(set(counts.values())) != 1:
        problems.append(f"{coll.full_name}: {counts}")
    report = coll.database.command("validate", coll.name, full=True)
    if not report["valid"]:
        problems.append(f"{coll.full_name}: {report}")


def compare(client, shared, exact):
    """What is wrong with the data. `exact`: no write is in doubt."""
    problems = []
    for db in ["steady", "swap", "large", "moving", "other"]:
        for name in client[db].list_collection_names():
            compare_collection(client[db][name], problems)
    for doc in client.steady.counters.find():
        least, slack = shared.counters[doc["_id"]], 0 if exact else shared.in_doubt[doc["_id"]]
        if not least <= doc["n"] <= least + slack:
            problems.append(f"counter {doc['_id']}: {doc['n']}, acknowledged {least}, in doubt {slack}")
        hits = shared.counters[("hits", doc["_id"])]
        if exact and (doc["list"][0]["hits"] != 0 or doc["list"][1]["hits"] != hits):
            problems.append(f"counter {doc['_id']}: {doc['list']}, acknowledged hits {hits}")
    if exact and client.steady.bulk.estimated_document_count() != shared.counters["bulk"]:
        problems.append(f"bulk: {client.steady.bulk.estimated_document_count()}, acknowledged {shared.counters['bulk']}")
    keys = [d["key"] for d in client.steady.upserts.find()]
    if len(keys) != len(set(keys)):
        problems.append("a unique key has several documents")
    return problems


def adopt(client, shared):
    """After a crash: what is stored is what later counts build upon."""
    shared.counters.clear()
    shared.in_doubt.clear()
    for doc in client.steady.counters.find():
        shared.counters[doc["_id"]] = doc["n"]
        shared.counters[("hits", doc["_id"])] = doc["list"][1]["hits"]
    shared.counters["bulk"] = client.steady.bulk.estimated_document_count()


def log_problems(arbor):
    """Lines of severity E or F, and panics."""
    found = []
    for line in arbor.log_path.read_text(errors="replace").splitlines():
        try:
            bad = json.loads(line).get("s") in ("E", "F")
        except (ValueError, AttributeError):
            bad = True
        if bad or "panicked" in line:
            found.append(line[:400])
    return found


def memory_mb(arbor):
    """Anonymous memory; pages of mapped files belong to the system."""
    status = pathlib.Path(f"/proc/{arbor.process.pid}/status").read_text()
    return next(int(line.split()[1]) // 1024 for line in status.splitlines() if line.startswith("RssAnon"))


def work(arbor, shared, rng, seconds):
    shared.stopping.clear()
    workers = [Worker(shared, step, rng.random()) for step in STEPS]
    for worker in workers:
        worker.start()
    end, most = time.monotonic() + seconds, 0
    while time.monotonic() < end and not shared.problems:
        time.sleep(min(0.5, max(0, end - time.monotonic())))
        most = max(most, memory_mb(arbor))
    return workers, most


def finish(shared, workers):
    shared.stopping.set()
    for worker in workers:
        worker.join(60)
        if worker.is_alive():
            shared.problems.append(f"{worker.name} hangs")


def fail(arbor, problems):
    """Leaves the data as they are now."""
    arbor.kill()
    raise Problems(*problems[:10])


def run_load(arbor, shared, rng, seconds):
    workers, most = work(arbor, shared, rng, seconds)
    finish(shared, workers)
    with pymongo.MongoClient(arbor.uri) as client:
        problems = shared.problems or compare(client, shared, exact=True)
    problems = problems + log_problems(arbor)
    if most > MEMORY_MAX_MB:
        problems.append(f"{most} MB of memory")
    print(f"load: {sum(shared.done.values())} steps in {seconds:.0f} s, {most} MB, {dict(shared.done)}", flush=True)
    print(f"errors as allowed: { {f'{name} {code}': n for (name, code), n in shared.errors.items()} }", flush=True)
    if problems:
        fail(arbor, problems)


def run_kill(arbor, shared, rng, seconds, number):
    workers, _ = work(arbor, shared, rng, rng.uniform(0.3, seconds))
    problems = list(shared.problems)
    shared.stopping.set()
    arbor.kill()
    finish(shared, workers)
    check = subprocess.run([os.environ["ARBOR"], "check", "--dbpath", str(arbor.dbpath)], capture_output=True, text=True)
    if check.returncode != 0:
        problems.append(f"arbor check: {check.returncode} {check.stdout} {check.stderr}"[:2000])
    took = arbor.start()
    with pymongo.MongoClient(arbor.uri) as client:
        problems += compare(client, shared, exact=False)
        adopt(client, shared)
    problems += shared.problems + log_problems(arbor)
    print(f"kill {number}: {sum(shared.done.values())} steps so far, served again after {took:.2f} s", flush=True)
    if problems:
        fail(arbor, problems)


def check_space(arbor):
    """The pages of dropped data are used for later data: the file does not grow without end."""
    data = next(path for name in ["ftree/ftree.data", "lmdb/data.mdb"] if (path := arbor.dbpath / name).exists())
    sizes = []
    with pymongo.MongoClient(arbor.uri) as client:
        for _ in range(6):
            coll = client.space.c
            coll.create_index("k")
            for _ in range(20):
                coll.insert_many([{"k": random.random(), "pad": os.urandom(700)} for _ in range(1000)])
            client.drop_database("space")
            client.admin.command("fsync")
            time.sleep(1)
            sizes.append(data.stat().st_blocks * 512 >> 20)
    print(f"space: the file after each of six rounds of 20,000 documents: {sizes} MB", flush=True)
    if sizes[-1] > sizes[1] * 1.7 + 20:
        fail(arbor, [f"the file grows: {sizes}"])


def run(arbor, args, rng):
    with pymongo.MongoClient(arbor.uri) as client:
        prepare(client)
    shared = Shared(arbor.uri)
    run_load(arbor, shared, rng, args.seconds)
    for number in range(args.kills):
        run_kill(arbor, shared, rng, args.between, number + 1)
    check_space(arbor)
    if arbor.stop() != 0:
        fail(arbor, [f"the server ended with {arbor.process.returncode}"])
    print(f"{args.kills} kills, {sum(shared.done.values())} steps, no contradiction")


def main():
    seconds_are = "of load without kills; --between: longest time between kills"
    args, rng = arguments(__doc__, kills=10, seconds=40.0, seconds_are=seconds_are, between=3.0)
    with server("ddl", None) as arbor:
        run(arbor, args, rng)


if __name__ == "__main__":
    main()
