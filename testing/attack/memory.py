#!/usr/bin/env python3
"""Does the server keep to --memoryLimit? Each load runs while the anonymous resident memory is sampled; more than 1.15 times
the limit, a server that ended, or a concurrent client that was not served is a finding: one line each, exit status 1.

    ARBOR=.../arbor memory.py [--engines ftree,lmdb] [--limits 256,512] [--seconds 120] [--loads scans,sorts]

Each engine and limit has an equal share of --seconds. A load that begins within it runs to its end; the loads behind it are
noted as left out. With a share of less than half a minute the loads and the limit are small, and all of SHORT run, however long they
take (some 15 s).
"""

import argparse
import os
import pathlib
import socket
import struct
import sys
import tempfile
import threading
import time

import bson
import pymongo

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from arbor_process import ReplicaSet  # noqa: E402

TOLERANCE = 1.15
MIB = 1 << 20
SHORT_SHARE_S = 30
SHORT_LIMIT_MIB = 128
SHORT_ROWS = 12_000
EXCEEDED_MEMORY_LIMIT = 146
TEMPORARILY_UNAVAILABLE = 365
# What a client may be refused with: the codes for memory, that of $graphLookup too, that of a full cache, and its own time limit.
REFUSALS = (EXCEEDED_MEMORY_LIMIT, 292, 40099, TEMPORARILY_UNAVAILABLE, 50)


def anonymous_mib(pid):
    """None: the process has ended."""
    try:
        for line in open(f"/proc/{pid}/status"):
            if line.startswith("RssAnon:"):
                return int(line.split()[1]) / 1024
    except OSError:
        pass
    return None


class Sampler(threading.Thread):
    def __init__(self, pid):
        super().__init__(daemon=True)
        self.pid, self.peak, self.ended = pid, 0, threading.Event()

    def run(self):
        while not self.ended.wait(0.005):
            self.peak = max(self.peak, anonymous_mib(self.pid) or 0)


class Probe(threading.Thread):
    """A client that wants little, all the time."""

    def __init__(self, server):
        super().__init__(daemon=True)
        self.client = pymongo.MongoClient(server.direct_uri, serverSelectionTimeoutMS=20_000, socketTimeoutMS=60_000)
        self.errors, self.slowest, self.ended = [], 0, threading.Event()

    def run(self):
        while not self.ended.wait(0.05):
            begun = time.monotonic()
            try:
                self.client.admin.command("ping")
                self.client.probe.one.find_one({"_id": 1})
            except pymongo.errors.PyMongoError as error:
                self.errors.append(repr(error)[:120])
            self.slowest = max(self.slowest, time.monotonic() - begun)


def message(document, sequence=b""):
    body = struct.pack("<I", 0) + b"\0" + bson.encode(document) + sequence
    return struct.pack("<iiii", 16 + len(body), 1, 0, 2013) + body


def receive(connection, timeout=120):
    connection.settimeout(timeout)

    def exactly(count):
        parts = bytearray()
        while len(parts) < count:
            part = connection.recv(min(MIB, count - len(parts)))
            if not part:
                raise ConnectionError("closed")
            parts += part
        return bytes(parts)

    (length,) = struct.unpack("<i", exactly(16)[:4])
    return bson.decode(exactly(length - 16)[5:])


class Loads:
    def __init__(self, server, rows, part=1.0):
        """`part`: of the size of large values and of the number of clients."""
        self.server, self.rows, self.part = server, rows, part
        # replies that no client may get
        self.wrong = []

    def some(self, count):
        return max(2, round(count * self.part))

    def text(self, size):
        return b"z" * int(size * self.part)

    def client(self):
        return pymongo.MongoClient(self.server.direct_uri, socketTimeoutMS=200_000, serverSelectionTimeoutMS=20_000)

    def connection(self):
        return socket.create_connection(("127.0.0.1", self.server.port), timeout=120)

    def at_once(self, count, work):
        """What each of `count` clients got: a result or an error."""
        outcomes = []

        def one(number):
            try:
                with self.client() as client:
                    outcomes.append(work(client.load.rows, number))
            except Exception as error:  # noqa: BLE001
                outcomes.append(repr(error)[:110])
                if getattr(error, "code", None) not in REFUSALS:
                    self.wrong.append(repr(error)[:200])

        threads = [threading.Thread(target=one, args=(number,)) for number in range(count)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        return sorted(outcomes, key=str)

    def fill(self):
        with self.client() as client:
            client.load.create_collection("open")
            client.load.create_collection("written")
            for first in range(0, self.rows, 1000):
                client.load.rows.insert_many(
                    [{"_id": n, "g": n % 50_000, "p": os.urandom(500).hex()} for n in range(first, first + 1000)]
                )

    def scans(self):
        return self.at_once(4, lambda rows, _: sum(1 for _ in rows.find()))

    def scans_of_small_batches(self):
        return self.at_once(8, lambda rows, _: sum(1 for _ in rows.find().batch_size(1000)))

    def sorts(self):
        sort = lambda rows, _: sum(1 for _ in rows.find().sort("p", 1).allow_disk_use(True))  # noqa: E731
        return self.at_once(3, sort)

    def sort_in_memory(self):
        sort = lambda rows, _: sum(1 for _ in rows.find().sort("p", 1).allow_disk_use(False))  # noqa: E731
        return self.at_once(2, sort)

    def groups(self):
        pipeline = [{"$group": {"_id": "$g", "n": {"$sum": 1}, "m": {"$max": "$p"}}}]
        return self.at_once(3, lambda rows, _: sum(1 for _ in rows.aggregate(pipeline, allowDiskUse=True)))

    def open_sorts(self):
        cursors = []

        def one(rows, _):
            cursor = rows.find({"_id": {"$lt": 80_000}}).sort("p", 1).allow_disk_use(True).batch_size(2)
            next(cursor)
            cursors.append(cursor)
            return "open"

        return self.at_once(self.some(10), one)

    def index_build(self):
        with self.client() as client:
            name = client.load.rows.create_index("p")
            client.load.rows.drop_index(name)
            return name

    def updates(self):
        with self.client() as client:
            return client.load.rows.update_many({}, {"$inc": {"n": 1}}).modified_count

    def large_inserts(self):
        documents = b"".join(bson.encode({"p": os.urandom(len(self.text(11_000_000)))}) for _ in range(4))
        sequence = b"\x01" + struct.pack("<i", 4 + 10 + len(documents)) + b"documents\0" + documents

        def one(_rows, _number):
            with self.connection() as connection:
                connection.sendall(message({"insert": "large", "$db": "load"}, sequence))
                reply = receive(connection)
                refusals = [reply, *reply.get("writeErrors", [])]
                codes = [refusal["code"] for refusal in refusals if "code" in refusal]
                if any(code != EXCEEDED_MEMORY_LIMIT for code in codes) or not (codes or reply.get("n") == 4):
                    self.wrong.append(str(reply)[:200])
                return codes or reply["n"]

        return self.at_once(self.some(6), one)

    def large_documents(self):
        with self.client() as client:
            for number in range(self.some(15)):
                client.load.big.replace_one({"_id": number}, {"p": self.text(15_500_000)}, upsert=True)
        read = lambda rows, _: sum(len(d["p"]) for d in rows.database.big.find().batch_size(1)) // MIB  # noqa: E731
        return self.at_once(4, read)

    def large_updates(self):
        size = len(self.text(15_500_000))
        with self.client() as client:
            for number in range(6):
                client.load.updated.replace_one({"_id": number}, {"p": os.urandom(size)}, upsert=True)

        def one(rows, number):
            update = {"$inc": {"n": 1}}
            modified = sum(rows.database.updated.update_one({"_id": number}, update).modified_count for _ in range(2))
            read = rows.database.updated.find_one_and_update({"_id": (number + 1) % 6}, update)
            whole = sum(len(document["p"]) == size for document in rows.database.updated.find())
            return (modified, len(read["p"]) // MIB, whole)

        return self.at_once(self.some(6), one)

    def sort_of_large_documents(self):
        with self.client() as client:
            return sum(1 for _ in client.load.big.find({}, {"_id": 1}).sort("p", 1).allow_disk_use(True))

    def transaction(self):
        with self.client() as client, client.start_session() as session:
            try:
                with session.start_transaction():
                    for number in range(200):
                        row = {"_id": number, "p": os.urandom(MIB)}
                        client.load.written.replace_one({"_id": number}, row, upsert=True, session=session)
            except pymongo.errors.PyMongoError as error:
                return repr(error)[:110]
            return client.load.written.count_documents({})

    def open_transactions(self):
        sessions = []

        def one(rows, number):
            session = rows.database.client.start_session()
            session.start_transaction()
            for n in range(20):
                rows.database.open.insert_one({"_id": f"{number} {n}", "p": os.urandom(MIB)}, session=session)
            sessions.append(session)
            session.abort_transaction()
            return "done"

        return self.at_once(12, one)

    def unread_replies(self):
        connections = []
        for _ in range(self.some(300)):
            connection = self.connection()
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.sendall(message({"find": "rows", "$db": "load", "batchSize": 20_000}))
            connections.append(connection)
        time.sleep(3 * self.part)
        [connection.close() for connection in connections]
        return len(connections)

    def half_messages(self):
        connections = [self.connection() for _ in range(40)]
        data = b"\0" * 250_000
        for connection in connections:
            connection.setblocking(False)
            connection.send(struct.pack("<iiii", 47_900_000, 1, 0, 2013))
        end = time.monotonic() + 3 * self.part
        while time.monotonic() < end:
            for connection in connections:
                try:
                    connection.send(data)
                except OSError:
                    pass
        [connection.close() for connection in connections]
        return len(connections)

    def compressed(self):
        import zlib

        plain = message({"ping": 1, "$db": "admin", "p": self.text(15_000_000)})[16:]
        packed = zlib.compress(plain, 1)
        head = struct.pack("<iiB", 2013, len(plain), 2)
        frame = struct.pack("<iiii", 16 + len(head) + len(packed), 1, 0, 2012) + head + packed

        def one(_rows, _number):
            with self.connection() as connection:
                connection.sendall(frame)
                return receive_any(connection)

        return self.at_once(self.some(20), one)

    def pushed_ranges(self):
        pipeline = [{"$group": {"_id": None, "x": {"$push": {"$range": [0, 50_000]}}}}]
        return self.at_once(2, lambda rows, _: sum(1 for _ in rows.aggregate([{"$limit": 2000}, *pipeline])))

    def added_ranges(self):
        value = {"$range": [0, {"$add": [50_000, "$_id"]}]}
        pipeline = [{"$limit": 2000}, {"$group": {"_id": None, "x": {"$addToSet": value}}}]
        return self.at_once(2, lambda rows, _: sum(1 for _ in rows.aggregate(pipeline)))

    def facets(self):
        one = [{"$group": {"_id": None, "x": {"$push": {"$range": [0, 400]}}}}, {"$project": {"n": {"$size": "$x"}}}]
        pipeline = [{"$limit": 20_000}, {"$project": {"g": 1}}, {"$facet": {f"f{n}": one for n in range(20)}}]
        return self.at_once(2, lambda rows, _: sum(1 for _ in rows.aggregate(pipeline)))

    def many_values(self):
        return self.at_once(1, lambda rows, _: sum(1 for _ in rows.find({"_id": {"$in": list(range(1_000_000))}}).limit(1)))

    def many_unindexed_values(self):
        return self.at_once(1, lambda rows, _: sum(1 for _ in rows.find({"g": {"$in": list(range(1_000_000))}}).limit(5)))

    def graph(self):
        lookup = {
            "from": "rows",
            "startWith": {"$range": [0, 1_000_000]},
            "connectFromField": "to",
            "connectToField": "_id",
            "as": "found",
        }
        pipeline = [{"$limit": 3}, {"$graphLookup": lookup}, {"$count": "n"}]
        return self.at_once(1, lambda rows, _: list(rows.aggregate(pipeline)))

    def union(self):
        both = [{"$range": [0, 3_000_000]}, {"$range": [3_000_000, 6_000_000]}]
        pipeline = [{"$limit": 1}, {"$project": {"n": {"$size": {"$setUnion": both}}}}]
        return self.at_once(2, lambda rows, _: list(rows.aggregate(pipeline)))

    def windows(self):
        window = {"$push": "$_id", "window": {"documents": [-10_000, 0]}}
        pipeline = [
            {"$limit": 20_000},
            {"$setWindowFields": {"sortBy": {"_id": 1}, "output": {"x": window}}},
            {"$count": "n"},
        ]
        return self.at_once(1, lambda rows, _: list(rows.aggregate(pipeline, maxTimeMS=20_000)))

    def joins(self):
        lookup = {"from": "rows", "localField": "_id", "foreignField": "g", "as": "x"}
        pipeline = [{"$limit": 20}, {"$lookup": lookup}, {"$count": "n"}]
        return self.at_once(2, lambda rows, _: list(rows.aggregate(pipeline, maxTimeMS=30_000)))

    def connections(self):
        connections = [self.connection() for _ in range(self.some(400))]
        [c.sendall(message({"find": "rows", "$db": "load", "limit": 1})) for c in connections]
        answered = sum(1 for c in connections if receive(c).get("ok") == 1)
        [c.close() for c in connections]
        return answered


def receive_any(connection):
    connection.settimeout(120)
    return "answered" if connection.recv(16) else "closed"


LOADS = [
    name
    for name, value in vars(Loads).items()
    if callable(value) and not name.startswith("_") and name not in ("client", "connection", "at_once", "fill", "some", "text")
]

# Those that take no more than a few seconds of a debug build.
SHORT = (
    "scans large_inserts unread_replies sorts large_documents half_messages groups compressed connections"
    " open_sorts scans_of_small_batches updates index_build large_updates"
).split()


def run_load(loads, name, limit):
    """What is wrong, or None."""
    server = loads.server
    sampler, probe = Sampler(server.process.pid), Probe(server)
    sampler.start()
    probe.start()
    begun = time.monotonic()
    try:
        outcome = getattr(loads, name)()
    except Exception as error:  # noqa: BLE001
        outcome = repr(error)[:200]
    sampler.ended.set()
    probe.ended.set()
    sampler.join()
    probe.join(60)
    ended = server.process.poll()
    print(
        f"{name:26s} {time.monotonic() - begun:6.1f} s  peak {sampler.peak:6.0f} MB ({sampler.peak / limit:4.2f})"
        f"  slowest probe {probe.slowest * 1000:5.0f} ms : {str(outcome)[:150]}",
        flush=True,
    )
    if ended is not None:
        return f"the server ended with {ended}"
    if sampler.peak > limit * TOLERANCE:
        return f"{sampler.peak:.0f} MB resident with a limit of {limit} MB"
    if loads.wrong:
        return f"a client got {loads.wrong.pop()}"
    if probe.errors:
        return f"a concurrent client got {probe.errors[0]}"
    return None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--engines", default="ftree,lmdb")
    parser.add_argument("--limits")
    parser.add_argument("--cache", default="", help="--cacheSize of the server")
    parser.add_argument("--rows", type=int)
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--seed", type=int, help="without effect: its loads are the same each time")
    parser.add_argument("--loads")
    arguments = parser.parse_args()
    engines, limits = arguments.engines.split(","), (arguments.limits or "0").split(",")
    share = arguments.seconds / (len(engines) * len(limits))
    short = share < SHORT_SHARE_S
    rows, part, usual_limit = (SHORT_ROWS, 0.4, SHORT_LIMIT_MIB) if short else (150_000, 1.0, 256)
    names = arguments.loads.split(",") if arguments.loads else SHORT if short else LOADS
    findings = []
    for engine in engines:
        for limit in [int(limit) or usual_limit for limit in limits]:
            begun = time.monotonic()
            with tempfile.TemporaryDirectory() as directory:
                flags = ["--storageEngine", engine, "--memoryLimit", f"{limit}M"]
                flags += ["--cacheSize", arguments.cache] if arguments.cache else []
                server = ReplicaSet(pathlib.Path(directory) / "data", flags)
                server.start()
                loads = Loads(server, arguments.rows or rows, part)
                print(f"-- {engine}, limit {limit} MB", flush=True)
                for count, name in enumerate(["fill", *names]):
                    if time.monotonic() > begun + share and count > 0 and not short:
                        print(f"NOTE {name} left out: out of time")
                        continue
                    wrong = run_load(loads, name, limit)
                    if wrong:
                        findings.append(f"FINDING {engine} {limit} MB, {name}: {wrong}")
                        print(findings[-1], flush=True)
                    if server.process.poll() is not None:
                        server.start()
                server.stop()
    sys.exit(1 if findings else 0)


if __name__ == "__main__":
    main()
