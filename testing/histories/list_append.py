"""Transactions that append to lists and read them, and the check that their history obeys snapshot isolation (checker.py).

Every client runs transactions of a few operations over a few documents, so that they conflict. One that fails is aborted; one whose
commit got no answer is unknown. `--kills N` kills the server with -9 that often meanwhile; a reader reads all lists in the end.
"""

import argparse
import os
import pathlib
import random
import shutil
import sys
import tempfile
import threading
import time

import pymongo
from pymongo.errors import OperationFailure, PyMongoError
from pymongo.read_concern import ReadConcern
from pymongo.write_concern import WriteConcern

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from arbor_process import ReplicaSet  # noqa: E402
from checker import History, Transaction  # noqa: E402

SNAPSHOT = dict(read_concern=ReadConcern("snapshot"), write_concern=WriteConcern("majority"))


class Client(threading.Thread):
    def __init__(self, number, uri, args, seed):
        super().__init__(daemon=True)
        self.number, self.uri, self.args, self.rng = number, uri, args, random.Random(seed)
        self.history, self.errors = [], {}
        self.stopping = False

    def run(self):
        with pymongo.MongoClient(self.uri, serverSelectionTimeoutMS=20000) as client:
            with client.start_session() as session:
                while not self.stopping:
                    self.transaction(client.history.lists, session)

    def transaction(self, lists, session):
        done = Transaction([], "unknown", time.monotonic(), name=f"{self.number}.{len(self.history)}")
        self.history.append(done)
        try:
            session.start_transaction(**SNAPSHOT)
            for at in range(self.rng.randint(1, self.args.operations)):
                self.operation(lists, session, done, at)
        except PyMongoError as error:
            self.count(error)
            done.outcome = "aborted"
            self.abort(session)
            return
        if self.rng.random() < 0.05:
            done.outcome = "aborted"
            self.abort(session)
            return
        try:
            session.commit_transaction()
            done.outcome = "committed"
        except PyMongoError as error:
            self.count(error)
            if error.has_error_label("TransientTransactionError"):
                done.outcome = "aborted"
        done.ended = time.monotonic()

    def operation(self, lists, session, done, at):
        of = self.rng.randrange(self.args.lists)
        if self.rng.random() < 0.5:
            # the append counts from here on: it may have happened even when no answer comes
            value = self.number * 1_000_000 + len(self.history) * 10 + at
            done.ops.append(("append", of, value))
            lists.update_one({"_id": of}, {"$push": {"values": value}}, upsert=True, session=session)
        else:
            found = lists.find_one({"_id": of}, session=session)
            done.ops.append(("read", of, found["values"] if found else []))

    def count(self, error):
        kind = str(getattr(error, "code", None) or type(error).__name__)
        self.errors[kind] = self.errors.get(kind, 0) + 1

    def abort(self, session):
        try:
            session.abort_transaction()
        except PyMongoError:
            pass


def run(arbor, args):
    """The history of all clients, and what went wrong on the way."""
    rng = random.Random(args.seed)
    clients = [Client(n, arbor.uri, args, rng.random()) for n in range(1, args.clients + 1)]
    for client in clients:
        client.start()
    for _ in range(args.kills):
        time.sleep(args.seconds / (args.kills + 1))
        arbor.kill()
        arbor.start()
    time.sleep(args.seconds / (args.kills + 1))
    for client in clients:
        client.stopping = True
    for client in clients:
        client.join(60)
    errors = {}
    for client in clients:
        for kind, count in client.errors.items():
            errors[kind] = errors.get(kind, 0) + count
    last = Transaction([], "committed", time.monotonic(), name="end")
    with pymongo.MongoClient(arbor.uri) as client:
        found = {d["_id"]: d["values"] for d in client.history.lists.find()}
    last.ops = [("read", of, found.get(of, [])) for of in range(args.lists)]
    return [t for client in clients for t in client.history] + [last], errors


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--lists", type=int, default=6)
    parser.add_argument("--operations", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--kills", type=int, default=0)
    parser.add_argument("--histories", type=int, default=1)
    parser.add_argument("--engine", default="ftree")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    args = parser.parse_args()
    failed = False
    for _ in range(args.histories):
        directory = pathlib.Path(tempfile.mkdtemp(prefix="arbor-history-"))
        with ReplicaSet(directory / "data", ["--storageEngine", args.engine]) as arbor:
            transactions, errors = run(arbor, args)
        outcomes = {name: sum(t.outcome == name for t in transactions) for name in ("committed", "aborted", "unknown")}
        anomalies = History(transactions).check()
        print(f"seed {args.seed} on {args.engine}: {outcomes}, errors {errors}, {len(anomalies)} anomalies", flush=True)
        for anomaly in anomalies[:10]:
            print(f"  {anomaly.kind}: {anomaly.text[:300]}")
        failed = failed or bool(anomalies) or outcomes["committed"] < 10
        args.seed += 1
        shutil.rmtree(directory)
    sys.exit(failed)


if __name__ == "__main__":
    main()
