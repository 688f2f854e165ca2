"""A second YCSB client, on PyMongo, to hold the laboratory's against.

It was written from the description of YCSB alone and shares nothing with crates/lab: other language, other driver, other
generators. Only what is compared is common: the operations' proportions, the documents' shape, the skew of keys.

    python testing/lab/ycsb.py --uri mongodb://127.0.0.1:27017 --workload a --records 10000 --load --seconds 10

prints one JSON object: operations by kind, seconds, operations per second, mean latencies in microseconds.
"""

import argparse
import bisect
import itertools
import json
import multiprocessing
import os
import random
import time

from pymongo import InsertOne, MongoClient

DATABASE, COLLECTION = "ycsb", "usertable"
FIELDS, FIELD_BYTES = 10, 100

# read, update, insert, scan, read-modify-write
PROPORTIONS = {
    "a": (0.50, 0.50, 0.00, 0.00, 0.00),
    "b": (0.95, 0.05, 0.00, 0.00, 0.00),
    "c": (1.00, 0.00, 0.00, 0.00, 0.00),
    "d": (0.95, 0.00, 0.05, 0.00, 0.00),
    "e": (0.00, 0.00, 0.05, 0.95, 0.00),
    "f": (0.50, 0.00, 0.00, 0.00, 0.50),
}
NAMES = ("read", "update", "insert", "scan", "read_modify_write")
SCAN_MAX = 100
SKEW = 0.99


def fnv1a(number):
    """FNV-1a of the eight bytes of a number, as a positive 63-bit integer."""
    state = 0xCBF29CE484222325
    for _ in range(8):
        state = ((state ^ (number & 0xFF)) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
        number >>= 8
    return state if state < 1 << 63 else (1 << 64) - state


def key_of(number):
    return f"user{fnv1a(number)}"


class Zipf:
    """Exact Zipf by a table of cumulative weights: slow to build, plain to check."""

    def __init__(self, items):
        self.cumulative = list(itertools.accumulate(rank**-SKEW for rank in range(1, items + 1)))

    def rank(self, numbers):
        return bisect.bisect_left(self.cumulative, numbers.random() * self.cumulative[-1])


class Keys:
    """Which key an operation is about. The hot keys are spread by a shuffle that every process repeats."""

    def __init__(self, workload, records):
        self.latest, self.records, self.zipf = workload == "d", records, Zipf(records)
        self.places = list(range(records))
        random.Random(4711).shuffle(self.places)

    def existing(self, numbers, inserted):
        rank = self.zipf.rank(numbers)
        if not self.latest:
            return key_of(self.places[rank])
        # Newest first; what this process has inserted itself is newest.
        if rank < len(inserted):
            return inserted[-1 - rank]
        return key_of(self.records - 1 - (rank - len(inserted)))


def value(numbers):
    """Printable bytes without repeats, of the kind that only entropy coders make smaller."""
    return bytes(numbers.choices(range(32, 96), k=FIELD_BYTES))


def document(number, numbers):
    return {"_id": key_of(number)} | {f"field{field}": value(numbers) for field in range(FIELDS)}


def load(collection, records, batch=500):
    numbers = random.Random(records)
    for first in range(0, records, batch):
        last = min(first + batch, records)
        collection.bulk_write([InsertOne(document(n, numbers)) for n in range(first, last)], ordered=False)


class Worker:
    def __init__(self, arguments, number):
        self.collection = MongoClient(arguments.uri)[DATABASE][COLLECTION]
        self.numbers = random.Random(arguments.seed * 1000 + number)
        self.keys = Keys(arguments.workload, arguments.records)
        self.bounds = list(itertools.accumulate(PROPORTIONS[arguments.workload]))
        # Numbers of its own, far from the other processes' and from an earlier run's.
        self.next = (1 << 40) + (int(time.time()) << 20) + (number << 50)
        self.inserted, self.counts, self.seconds = [], dict.fromkeys(NAMES, 0), dict.fromkeys(NAMES, 0.0)
        self.found = 0

    def run(self, until):
        methods = (self.read, self.update, self.insert, self.scan, self.read_modify_write)
        while (begin := time.perf_counter()) < until:
            which = min(bisect.bisect_right(self.bounds, self.numbers.random()), len(methods) - 1)
            methods[which]()
            self.counts[NAMES[which]] += 1
            self.seconds[NAMES[which]] += time.perf_counter() - begin

    def read(self):
        self.fetch(self.keys.existing(self.numbers, self.inserted))

    def fetch(self, key):
        self.found += self.collection.find_one({"_id": key}) is not None

    def update(self):
        self.change(self.keys.existing(self.numbers, self.inserted))

    def change(self, key):
        field = f"field{self.numbers.randrange(FIELDS)}"
        self.collection.update_one({"_id": key}, {"$set": {field: value(self.numbers)}})

    def insert(self):
        self.next += 1
        record = document(self.next, self.numbers)
        self.collection.insert_one(record)
        self.inserted.append(record["_id"])

    def scan(self):
        start = self.keys.existing(self.numbers, self.inserted)
        length = self.numbers.randint(1, SCAN_MAX)
        for _ in self.collection.find({"_id": {"$gte": start}}).sort("_id", 1).limit(length):
            pass

    def read_modify_write(self):
        key = self.keys.existing(self.numbers, self.inserted)
        self.fetch(key)
        self.change(key)


def work(arguments, number, ready, start, results):
    worker = Worker(arguments, number)
    worker.collection.database.command("ping")
    ready.release()
    start.wait()
    worker.run(time.perf_counter() + arguments.seconds)
    results.put((worker.counts, worker.seconds, worker.found, time.process_time()))


def run(arguments):
    ready, start, results = multiprocessing.Semaphore(0), multiprocessing.Event(), multiprocessing.Queue()
    processes = [
        multiprocessing.Process(target=work, args=(arguments, number, ready, start, results))
        for number in range(arguments.clients)
    ]
    for process in processes:
        process.start()
    for _ in processes:
        ready.acquire()
    watch = ServerTime(arguments.uri)
    start.set()
    parts = [results.get() for _ in processes]
    server_seconds = watch.passed()
    for process in processes:
        process.join()
    return summary(arguments, parts, server_seconds)


def summary(arguments, parts, server_seconds):
    counts = {name: sum(part[0][name] for part in parts) for name in NAMES}
    spent = {name: sum(part[1][name] for part in parts) for name in NAMES}
    operations = sum(counts.values())
    return {
        "workload": arguments.workload,
        "clients": arguments.clients,
        "operations": counts,
        "per_second": operations / arguments.seconds,
        "mean_us": {name: spent[name] / counts[name] * 1e6 for name in NAMES if counts[name]},
        "found": sum(part[2] for part in parts),
        "client_cpu_us_per_unit": sum(part[3] for part in parts) * 1e6 / max(operations, 1),
        "server_cpu_us_per_unit": server_seconds and server_seconds * 1e6 / max(operations, 1),
    }


class ServerTime:
    """CPU seconds of a server on this machine."""

    def __init__(self, uri):
        self.pid = MongoClient(uri).admin.command("serverStatus")["pid"]
        self.begin = self.seconds()

    def seconds(self):
        try:
            with open(f"/proc/{int(self.pid)}/stat", encoding="ascii") as stat:
                fields = stat.read().rpartition(")")[2].split()
        except OSError:
            return None
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def passed(self):
        now = self.seconds()
        return None if now is None or self.begin is None else now - self.begin


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--uri", required=True)
    parser.add_argument("--workload", choices=sorted(PROPORTIONS), default="a")
    parser.add_argument("--records", type=int, default=10_000)
    parser.add_argument("--clients", type=int, default=2, help="processes, one connection each")
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--load", action="store_true", help="drop the collection and load it first")
    arguments = parser.parse_args()
    if arguments.load:
        collection = MongoClient(arguments.uri)[DATABASE][COLLECTION]
        collection.drop()
        load(collection, arguments.records)
    print(json.dumps(run(arguments)))


if __name__ == "__main__":
    main()
