"""Change streams under kill -9: every acknowledged write once and in order, over kills and resumes.

4 clients insert, update and delete documents of their own on collections of all engines that are named; each write carries the
client's next number. A watcher follows the database from its last token on, whatever happens, and keeps a copy. After each kill
and in the end: per client the events' numbers rise without a gap among the acknowledged ones, no event comes twice, and the copy
is equal to the collections.
"""

import random
import threading
import time

import pymongo
from pymongo.errors import PyMongoError
from pymongo.write_concern import WriteConcern

from campaign import Problems, arguments, set_server

CLIENTS = 4


class Writer(threading.Thread):
    """`sure`: numbers of acknowledged writes; `unsure`: the one without an answer."""

    def __init__(self, number, uri, name, first, seed):
        super().__init__(daemon=True)
        self.number, self.uri, self.name, self.next, self.rng = number, uri, name, first, random.Random(seed)
        self.sure, self.unsure = [], None
        self.stopping = False

    def run(self):
        client = pymongo.MongoClient(self.uri, retryWrites=False, serverSelectionTimeoutMS=500, directConnection=True)
        coll = client.watched.get_collection(self.name, write_concern=WriteConcern(w="majority"))
        try:
            with client.start_session() as session:
                while not self.stopping:
                    self.unsure = self.next
                    self.next += 1
                    self.write(coll, session, self.unsure)
                    self.sure.append(self.unsure)
                    self.unsure = None
        except PyMongoError:
            pass
        finally:
            client.close()

    def write(self, coll, session, n):
        _id = f"{self.number}-{self.rng.randrange(50)}"
        choice = self.rng.random()
        if choice < 0.5:
            coll.update_one({"_id": _id}, {"$set": {"n": n, "client": self.number}, "$push": {"all": {"$each": [n], "$slice": -5}}}, upsert=True)
        elif choice < 0.7:
            coll.replace_one({"_id": _id}, {"n": n, "client": self.number}, upsert=True)
        elif choice < 0.8:
            # a deletion carries its number in the document's id
            coll.insert_one({"_id": f"{self.number}-{n}-gone", "n": n, "client": self.number})
            coll.delete_one({"_id": f"{self.number}-{n}-gone"})
        else:
            with session.start_transaction():
                coll.update_one({"_id": _id}, {"$set": {"n": n, "client": self.number, "t": 0}}, upsert=True, session=session)
                coll.update_one({"_id": f"{_id}-b"}, {"$set": {"b": n}}, upsert=True, session=session)


class Watcher(threading.Thread):
    def __init__(self, uri):
        super().__init__(daemon=True)
        self.uri, self.token, self.stopping, self.failure = uri, None, False, None
        self.copy, self.numbers, self.seen, self.events = {}, {}, set(), 0
        self.begun = threading.Event()

    def run(self):
        while not self.stopping and not self.failure:
            try:
                with pymongo.MongoClient(self.uri, serverSelectionTimeoutMS=2000) as client:
                    with client.watched.watch(resume_after=self.token, max_await_time_ms=200) as stream:
                        self.token = self.token or stream.resume_token
                        self.begun.set()
                        while not self.stopping:
                            event = stream.try_next()
                            if event is not None:
                                self.take(event)
                            self.token = stream.resume_token
            except pymongo.errors.OperationFailure as error:
                if not error.has_error_label("ResumableChangeStreamError"):
                    self.failure = f"the stream ended: {error}"
            except PyMongoError:
                time.sleep(0.05)

    def take(self, event):
        self.events += 1
        token = str(event["_id"])
        if token in self.seen:
            self.failure = f"an event came twice: {event}"
        self.seen.add(token)
        key, kind = (event["ns"]["coll"], event["documentKey"]["_id"]), event["operationType"]
        doc = None
        if kind in ("insert", "replace"):
            if kind == "insert" and key in self.copy:
                self.failure = f"inserted twice: {event}"
            doc = self.copy[key] = event["fullDocument"]
        elif kind == "update":
            doc = self.copy.get(key)
            if doc is None:
                self.failure = f"an update of a document that is not there: {event}"
                return
            apply_update(doc, event["updateDescription"])
        elif self.copy.pop(key, None) is None:
            self.failure = f"deleted twice: {event}"
        if doc is not None and "n" in doc and "b" not in doc:
            numbers = self.numbers.setdefault(doc["client"], [])
            numbers.append(doc["n"])


def apply_update(doc, description):
    for path, value in description["updatedFields"].items():
        *steps, last = path.split(".")
        at = doc
        for step in steps:
            at = at[int(step)] if isinstance(at, list) else at[step]
        if isinstance(at, list):
            at[int(last):int(last) + 1] = [value]
        else:
            at[last] = value
    for path in description["removedFields"]:
        doc.pop(path, None)
    for cut in description.get("truncatedArrays", []):
        del doc[cut["field"]][cut["newSize"]:]


def problems_of(client, watcher, writers, sure):
    """The watcher has time to catch up."""
    until = time.monotonic() + 30
    while True:
        stored = {(name, d["_id"]): d for name in client.watched.list_collection_names() for d in client.watched[name].find()}
        if watcher.copy == stored or watcher.failure or time.monotonic() > until:
            break
        time.sleep(0.1)
    found = [watcher.failure] if watcher.failure else []
    if watcher.copy != stored:
        differing = [key for key in stored.keys() | watcher.copy.keys() if stored.get(key) != watcher.copy.get(key)]
        found.append(f"{len(differing)} documents differ from the copy: {[(stored.get(k), watcher.copy.get(k)) for k in differing[:3]]}")
    for writer in writers:
        seen = watcher.numbers.get(writer.number, [])
        if any(b <= a for a, b in zip(seen, seen[1:])):
            found.append(f"client {writer.number}: numbers out of order")
        missing = sure[writer.number] - set(seen)
        if missing:
            found.append(f"client {writer.number}: no event of {sorted(missing)[:5]}")
    return found


def run(arbor, args, rng, engines):
    with pymongo.MongoClient(arbor.uri) as client:
        for engine in engines:
            client.watched.create_collection(f"on_{engine}", storageEngine={engine: {}})
    watcher = Watcher(arbor.uri)
    watcher.start()
    assert watcher.begun.wait(30), watcher.failure or "the stream did not begin"
    sure, first = {n: set() for n in range(CLIENTS)}, [0] * CLIENTS
    for kill in range(args.kills):
        writers = [Writer(n, arbor.uri, f"on_{engines[n % len(engines)]}", first[n], rng.random()) for n in range(CLIENTS)]
        for writer in writers:
            writer.start()
        time.sleep(rng.uniform(0.3, args.seconds))
        arbor.kill()
        for writer in writers:
            writer.join(30)
            sure[writer.number].update(writer.sure)
            first[writer.number] = writer.next
        seconds = arbor.start()
        with pymongo.MongoClient(arbor.uri) as client:
            found = problems_of(client, watcher, writers, sure)
        if not any(writer.sure for writer in writers):
            found.append("nothing was written")
        print(f"kill {kill + 1}: {sum(len(w.sure) for w in writers)} acknowledged writes, {watcher.events} events so far, "
              f"primary again after {seconds:.2f} s, {'PROBLEMS' if found else 'ok'}", flush=True)
        if found:
            raise Problems(*found)
    watcher.stopping = True
    watcher.join(10)
    print(f"{args.kills} kills, {sum(map(len, sure.values()))} acknowledged writes, {watcher.events} events, none lost or doubled")


def main():
    args, rng = arguments(__doc__, kills=20, seconds=3.0, engines="ftree,lmdb")
    engines = args.engines.split(",")
    with set_server("stream", engines[0]) as arbor:
        run(arbor, args, rng, engines)


if __name__ == "__main__":
    main()
