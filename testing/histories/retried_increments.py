"""Increments through a proxy that cuts connections: the driver retries each, and each is applied exactly once.

Every client increments a counter of its own and of all, inserts a document with its number, and takes one with findAndModify;
all are retryable writes. In the end the counters and the documents are compared with what was acknowledged.
"""

import argparse
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time

import pymongo
from pymongo.errors import PyMongoError

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from arbor_process import ReplicaSet, free_port  # noqa: E402

PROXY = pathlib.Path(__file__).resolve().parent.parent / "proxy.py"


class Client(threading.Thread):
    """`own` is what was acknowledged; `unsure` counts the operations that failed even when they were tried again."""

    def __init__(self, number, uri, operations, seed):
        super().__init__(daemon=True)
        self.number, self.uri, self.operations, self.rng = number, uri, operations, random.Random(seed)
        self.own = {"counter": 0, "insert": 0, "taken": 0}
        self.unsure = {"counter": 0, "insert": 0, "taken": 0}
        self.wrong = []

    def run(self):
        with pymongo.MongoClient(self.uri, directConnection=True, serverSelectionTimeoutMS=20000) as client:
            for at in range(self.operations):
                kind = self.rng.choices(("counter", "insert", "taken"), (8, 1, 1))[0]
                while True:
                    try:
                        getattr(self, kind)(client.retry, at)
                        self.own[kind] += 1
                        break
                    except pymongo.errors.DuplicateKeyError as error:
                        self.wrong.append(f"inserted twice: {error}")
                        break
                    except PyMongoError as error:
                        # cut twice: the outcome is unknown; the operation counts as unsure, and its number is not used again
                        if isinstance(error, pymongo.errors.OperationFailure):
                            self.wrong.append(str(error))
                        self.unsure[kind] += 1
                        break

    def counter(self, db, at):
        done = db.counters.update_one({"_id": self.number}, {"$inc": {"n": 1}})
        if done.matched_count != 1 or done.modified_count != 1:
            self.wrong.append(f"an increment answered {done.raw_result}")

    def insert(self, db, at):
        db.inserted.insert_one({"_id": f"{self.number}-{at}", "client": self.number})

    def taken(self, db, at):
        before = db.counters.find_one_and_update({"_id": f"taken-{self.number}"}, {"$inc": {"n": 1}})
        if not self.own["taken"] <= before["n"] <= self.own["taken"] + self.unsure["taken"]:
            self.wrong.append(f"findAndModify answered {before} after {self.own['taken']} (+{self.unsure['taken']})")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--operations", type=int, default=100_000)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--cuts-per-1000", type=float, default=11.0)
    parser.add_argument("--kills", type=int, default=0, help="kill -9 so often meanwhile")
    parser.add_argument("--engine", default="ftree")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    args = parser.parse_args()
    directory = pathlib.Path(tempfile.mkdtemp(prefix="arbor-retry-"))
    rng, port = random.Random(args.seed), free_port()
    with ReplicaSet(directory / "data", ["--storageEngine", args.engine]) as arbor:
        names = range(args.clients)
        with pymongo.MongoClient(arbor.uri) as client:
            client.retry.counters.insert_many([{"_id": _id, "n": 0} for n in names for _id in (n, f"taken-{n}")])
        command = [sys.executable, str(PROXY), str(port), str(arbor.port), str(args.cuts_per_1000), str(args.seed)]
        proxy = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        proxy.stdout.readline()
        begin = time.monotonic()
        each = args.operations // args.clients
        clients = [Client(n, f"mongodb://127.0.0.1:{port}/", each, rng.random()) for n in names]
        for client in clients:
            client.start()
        for _ in range(args.kills):
            time.sleep(rng.uniform(0.5, 3))
            arbor.kill()
            arbor.start()
        for client in clients:
            client.join()
        seconds = time.monotonic() - begin
        proxy.terminate()
        cuts = int(proxy.stdout.read().split()[-1])
        wrong = [w for client in clients for w in client.wrong] + ([] if cuts else ["nothing was cut"])
        with pymongo.MongoClient(arbor.uri) as direct:
            for client in clients:
                stored = {
                    "counter": direct.retry.counters.find_one({"_id": client.number})["n"],
                    "taken": direct.retry.counters.find_one({"_id": f"taken-{client.number}"})["n"],
                    "insert": direct.retry.inserted.count_documents({"client": client.number}),
                }
                for kind, count in stored.items():
                    if not client.own[kind] <= count <= client.own[kind] + client.unsure[kind]:
                        wrong.append(f"client {client.number}: {kind} {count}, acknowledged {client.own[kind]} (+{client.unsure[kind]})")
    shutil.rmtree(directory)
    acknowledged = sum(sum(client.own.values()) for client in clients)
    unsure = sum(sum(client.unsure.values()) for client in clients)
    print(f"seed {args.seed} on {args.engine}: {acknowledged} acknowledged, {unsure} cut more than once, {cuts} cuts, "
          f"{args.kills} kills, {acknowledged / seconds:.0f}/s, {len(wrong)} wrong")
    for text in wrong[:10]:
        print(f"  {text}")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
