"""What clients do while members fail. Each workload notes what it was promised; `problems` compares that with what is there in the end."""

import math
import pathlib
import random
import sys
import threading
import time

import pymongo
from pymongo.errors import ConnectionFailure, DuplicateKeyError, OperationFailure, PyMongoError
from pymongo.read_concern import ReadConcern
from pymongo.read_preferences import ReadPreference
from pymongo.write_concern import WriteConcern

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "histories"))

import checkers  # noqa: E402
from checkers import Operation  # noqa: E402
from checker import History, Transaction  # noqa: E402

# An operation that takes longer has an unknown outcome for its client.
CLIENT_MS = {"serverSelectionTimeoutMS": 5000, "connectTimeoutMS": 1000, "socketTimeoutMS": 4000, "heartbeatFrequencyMS": 500}
ACCOUNTS, BALANCE, REGISTERS = 8, 10, 3
LISTS, APPENDS_EACH = 4, 50
BATCH = 20
PAUSE = 0.005


def is_refused(error):
    """The server has said that nothing was done: an error of the operation itself, without the label by which a driver tries again."""
    return isinstance(error, OperationFailure) and not error.has_error_label("RetryableWriteError") and error.code not in (50, 64, 91, 189, 11600, 11602)


class Workload(threading.Thread):
    """Repeats `once` until it is stopped. `attempts`, `done` and `failed` count its operations."""

    def __init__(self, uri, number, seed):
        super().__init__(daemon=True)
        self.uri, self.number, self.random = uri, number, random.Random(f"{seed}-{type(self).__name__}-{number}")
        self.stopped = threading.Event()
        self.attempts = self.done = self.failed = 0
        self.broken = None

    def run(self):
        try:
            with pymongo.MongoClient(self.uri, **CLIENT_MS) as client:
                self.client, self.database = client, client.nemesis
                while not self.stopped.is_set():
                    self.attempts += 1
                    try:
                        self.once()
                        self.done += 1
                    except PyMongoError as error:
                        self.failed += 1
                        self.last_error = error
                    self.stopped.wait(PAUSE)
                self.finish()
        except Exception as error:  # a client that dies would find nothing
            self.broken = repr(error)

    def finish(self):
        pass

    @staticmethod
    def prepare(database):
        pass


class Inserts(Workload):
    """Documents with numbers that ascend for each client. Its acknowledgements are the measure of availability."""

    def __init__(self, *args):
        super().__init__(*args)
        self.acknowledged, self.tried, self.at = [], [], []

    def once(self):
        number = len(self.tried)
        self.tried.append((self.number, number))
        try:
            self.database.inserts.insert_one({"_id": f"{self.number}/{number}", "client": self.number, "number": number})
        except DuplicateKeyError:
            pass  # its first attempt was executed, and the reply was lost
        self.acknowledged.append((self.number, number))
        self.at.append(time.monotonic())


class Batches(Workload):
    """Documents in batches of one command, which a fault may cut in two: what was acknowledged is a whole batch."""

    def __init__(self, *args):
        super().__init__(*args)
        self.acknowledged, self.tried = [], []

    def once(self):
        batch = [(self.number, len(self.tried) + at) for at in range(BATCH)]
        self.tried += batch
        self.database.batches.insert_many([{"_id": f"{client}/{number}", "client": client, "number": number} for client, number in batch])
        self.acknowledged += batch


class Registers(Workload):
    """Reads, writes and swaps of a few registers, for the check of linearizability."""

    histories, lock = {}, threading.Lock()

    def __init__(self, *args):
        super().__init__(*args)
        self.written, self.known = 0, {}

    @staticmethod
    def prepare(database):
        database.registers.insert_many([{"_id": key, "value": None} for key in range(REGISTERS)])

    def once(self):
        key, kind = self.random.randrange(REGISTERS), self.random.choice(("read", "read", "write", "cas"))
        self.written += 1
        value, expected = f"{self.number}-{self.written}", self.known.get(key)
        begin = time.monotonic()
        try:
            if kind == "read":
                concern = ReadConcern(self.random.choice(("local", "majority", "linearizable")))
                value = self.database.get_collection("registers", read_concern=concern).find_one({"_id": key})["value"]
            elif kind == "write":
                self.database.registers.update_one({"_id": key}, {"$set": {"value": value}})
            else:
                before = self.database.registers.find_one_and_update({"_id": key, "value": expected}, {"$set": {"value": value}})
                if before is None:
                    self.known.pop(key, None)
                    return
            end = time.monotonic()
        except PyMongoError as error:
            if kind == "read" or is_refused(error):
                raise
            self.note(key, Operation(kind, expected, value, begin, math.inf))
            raise
        self.known[key] = value
        self.note(key, Operation(kind, expected, value, begin, end))

    def note(self, key, operation):
        with self.lock:
            self.histories.setdefault(key, []).append(operation)


class Bank(Workload):
    """Transfers between accounts in transactions, and sums of all accounts in one snapshot."""

    def __init__(self, *args):
        super().__init__(*args)
        self.sums = []

    @staticmethod
    def prepare(database):
        database.accounts.insert_many([{"_id": key, "balance": BALANCE} for key in range(ACCOUNTS)])

    def once(self):
        one, other = self.random.sample(range(ACCOUNTS), 2)
        with self.client.start_session() as session:
            if self.random.random() < 0.3:
                with session.start_transaction(read_concern=ReadConcern("snapshot")):
                    self.sums.append(sum(doc["balance"] for doc in self.database.accounts.find(session=session)))
            else:
                with session.start_transaction(max_commit_time_ms=3000):
                    accounts = self.database.accounts
                    accounts.update_one({"_id": one}, {"$inc": {"balance": -1}}, session=session)
                    accounts.update_one({"_id": other}, {"$inc": {"balance": 1}}, session=session)


class Increments(Workload):
    """Increments that the driver tries again by itself; each client has a counter of its own."""

    def __init__(self, *args):
        super().__init__(*args)
        self.acknowledged = self.unknown = 0

    def once(self):
        try:
            self.database.counters.update_one({"_id": self.number}, {"$inc": {"count": 1}}, upsert=True)
            self.acknowledged += 1
        except PyMongoError as error:
            self.unknown += 0 if is_refused(error) else 1
            raise


class Unique(Workload):
    """Clients insert the same values into a unique index at the same time: one of them gets each."""

    def __init__(self, *args):
        super().__init__(*args)
        self.winners = []

    @staticmethod
    def prepare(database):
        database.unique.create_index("value", unique=True)

    def once(self):
        value, document = self.attempts, f"{self.number}/{self.attempts}"
        try:
            self.database.unique.insert_one({"_id": document, "value": value})
        except DuplicateKeyError as error:
            # by its own first attempt, whose reply was lost, or by another client
            if "_id_" not in str(error):
                return
        self.winners.append((value, document))


class Jobs(Workload):
    """A queue: jobs are put there by one client and taken by others, each by one of them."""

    def __init__(self, *args):
        super().__init__(*args)
        self.taken = []

    def once(self):
        jobs = self.database.jobs
        if self.number == 0:
            jobs.insert_one({"_id": self.attempts, "worker": None})
            return
        worker = f"{self.number}/{self.attempts}"
        job = jobs.find_one_and_update({"worker": None}, {"$set": {"worker": worker}}, sort={"_id": 1})
        if job is not None:
            self.taken.append((job["_id"], worker))

    @staticmethod
    def prepare(database):
        database.jobs.create_index("worker")


class Appends(Workload):
    """Transactions that append to lists and read them, for the check of snapshot isolation (testing/histories/checker.py)."""

    def __init__(self, *args):
        super().__init__(*args)
        self.history = []

    def once(self):
        done = Transaction([], "unknown", time.monotonic(), name=f"{self.number}.{self.attempts}")
        self.history.append(done)
        with self.client.start_session() as session:
            session.start_transaction(read_concern=ReadConcern("snapshot"), write_concern=WriteConcern("majority"), max_commit_time_ms=3000)
            try:
                for at in range(self.random.randint(1, 4)):
                    self.operation(session, done, at)
            except PyMongoError:
                done.outcome = "aborted"
                raise
            try:
                session.commit_transaction()
                done.outcome = "committed"
            except PyMongoError as error:
                if error.has_error_label("TransientTransactionError"):
                    done.outcome = "aborted"
                raise
            finally:
                done.ended = time.monotonic()

    def operation(self, session, done, at):
        # other lists after a while, so that none grows without limit
        of = f"{self.attempts // APPENDS_EACH}-{self.random.randrange(LISTS)}"
        if self.random.random() < 0.5:
            value = (self.number + 1) * 10_000_000 + self.attempts * 10 + at
            done.ops.append(("append", of, value))
            self.database.lists.update_one({"_id": of}, {"$push": {"values": value}}, upsert=True, session=session)
        else:
            found = self.database.lists.find_one({"_id": of}, session=session)
            done.ops.append(("read", of, found["values"] if found else []))

    @staticmethod
    def problems(clients, database):
        found = {doc["_id"]: doc["values"] for doc in database.lists.find()}
        last = Transaction([("read", of, values) for of, values in found.items()], "committed", time.monotonic(), name="end")
        anomalies = History([done for one in clients for done in one.history] + [last]).check()
        return [f"lists: {anomaly.kind}: {anomaly.text[:300]}" for anomaly in anomalies[:5]]


class Causal(Workload):
    """A client reads on any member what it has just written."""

    def __init__(self, *args):
        super().__init__(*args)
        self.stale = []

    def once(self):
        collection = self.database.causal
        with self.client.start_session(causal_consistency=True) as session:
            value = self.attempts
            collection.update_one({"_id": self.number}, {"$set": {"value": value}}, upsert=True, session=session)
            anywhere = collection.with_options(read_preference=ReadPreference.NEAREST, read_concern=ReadConcern("majority"))
            found = anywhere.find_one({"_id": self.number}, session=session)
            if found is None or found["value"] < value:
                self.stale.append((value, found))


class Stream(Workload):
    """Follows the inserts by a change stream, which the driver resumes."""

    def __init__(self, *args):
        super().__init__(*args)
        self.events, self.token, self.begun, self.complete = [], None, threading.Event(), threading.Event()

    def once(self):
        # The token outlives the client's stream: it is opened again where the last event was.
        where = {"resume_after": self.token} if self.token else {}
        with self.database.inserts.watch([{"$match": {"operationType": "insert"}}], max_await_time_ms=200, **where) as stream:
            self.token = self.token or stream.resume_token
            self.begun.set()
            while not self.complete.is_set():
                event = stream.try_next()
                if event is None:
                    if self.stopped.is_set():
                        self.complete.set()
                    continue
                self.token = event["_id"]
                self.events.append((event["fullDocument"]["client"], event["fullDocument"]["number"]))

    def finish(self):
        until = time.monotonic() + 60
        while not self.complete.is_set() and time.monotonic() < until:
            try:
                self.once()
            except PyMongoError:
                time.sleep(0.2)


ALL = {"inserts": (Inserts, 2), "batches": (Batches, 2), "registers": (Registers, 3), "bank": (Bank, 2), "increments": (Increments, 2), "causal": (Causal, 1), "unique": (Unique, 2),
       "jobs": (Jobs, 3), "appends": (Appends, 3), "stream": (Stream, 1)}


class Clients:
    def __init__(self, uri, seed, names):
        self.uri, self.workloads = uri, []
        with pymongo.MongoClient(uri, **CLIENT_MS) as client:
            for name in names:
                kind, count = ALL[name]
                kind.prepare(client.nemesis)
                self.workloads += [kind(uri, number, seed) for number in range(count)]
        Registers.histories = {}

    def of(self, kind):
        return [one for one in self.workloads if isinstance(one, kind)]

    def start(self):
        for stream in self.of(Stream):
            stream.start()
            if not stream.begun.wait(60):
                raise RuntimeError(f"the change stream was not opened: {stream.last_error!r}")
        for workload in self.workloads:
            if not isinstance(workload, Stream):
                workload.start()

    def stop(self):
        for workloads in ([one for one in self.workloads if not isinstance(one, Stream)], self.of(Stream)):
            for workload in workloads:
                workload.stopped.set()
            for workload in workloads:
                workload.join(120)

    def acknowledged_at(self):
        return sorted(at for workload in self.of(Inserts) for at in workload.at)

    def operations(self):
        return sum(one.attempts for one in self.workloads), sum(one.done for one in self.workloads)

    def failed_writes(self):
        """Plain writes that ended in an error; those of other workloads may conflict with each other."""
        return sum(one.failed for kind in (Inserts, Batches, Increments) for one in self.of(kind))

    def acknowledged(self):
        counts = [len(one.acknowledged) for one in self.of(Inserts) + self.of(Batches)] + [one.acknowledged for one in self.of(Increments)]
        counts += [len(one.winners) for one in self.of(Unique)] + [len(one.taken) for one in self.of(Jobs)]
        return sum(counts) + sum(done.outcome == "committed" for one in self.of(Appends) for done in one.history)

    def problems(self):
        """Compares with the set, which is whole and quiet."""
        found = [f"{type(one).__name__} {one.number} broke: {one.broken}" for one in self.workloads if one.broken]
        found += [f"{type(one).__name__} {one.number} did not end" for one in self.workloads if one.is_alive()]
        with pymongo.MongoClient(self.uri, **CLIENT_MS) as client:
            database = client.nemesis
            acknowledged = [key for one in self.of(Inserts) for key in one.acknowledged]
            for kind, collection in ((Inserts, database.inserts), (Batches, database.batches)):
                tried = [key for one in self.of(kind) for key in one.tried]
                there = [(doc["client"], doc["number"]) for doc in collection.find(projection={"_id": 0, "client": 1, "number": 1})]
                found += checkers.inserts([key for one in self.of(kind) for key in one.acknowledged], tried, there)
            for one in self.of(Increments):
                count = (database.counters.find_one({"_id": one.number}) or {"count": 0})["count"]
                found += checkers.counter(one.number, one.acknowledged, one.unknown, count)
            banks = self.of(Bank)
            if banks:
                last = sum(doc["balance"] for doc in database.accounts.find())
                found += checkers.bank(ACCOUNTS * BALANCE, [total for one in banks for total in one.sums] + [last])
            if self.of(Registers):
                for key, history in Registers.histories.items():
                    # what is there in the end is one more read
                    value = database.registers.find_one({"_id": key})["value"]
                    now = time.monotonic()
                    found += [f"register {key}: {text}" for text in checkers.register([*history, Operation("read", None, value, now, now)])]
            winners = [winner for one in self.of(Unique) for winner in one.winners]
            found += checkers.unique(winners, [(doc["value"], doc["_id"]) for doc in database.unique.find()])
            taken = [job for one in self.of(Jobs) for job in one.taken]
            found += checkers.jobs(taken, {doc["_id"]: doc["worker"] for doc in database.jobs.find()})
            found += Appends.problems(self.of(Appends), database)
            for one in self.of(Stream):
                found += checkers.stream(acknowledged, one.events)
            for one in self.of(Causal):
                found += [f"a client did not read its own write: {stale}" for stale in one.stale[:1]]
        return found
