"""kill -9 under a mixed load of 8 clients, again and again: every acknowledged j:true write is there afterwards.

Each client owns the documents whose `_id` carries its number and keeps a list of what was acknowledged. After each kill the
server starts again and every client's list is compared with the collection: an acknowledged write must be there, a write
whose answer was lost may be there or not, anything else is an error. `validate` with full:true then proves that indexes and
documents agree. Prints a line per round and ends with a non-zero code at the first contradiction.

`--engine NAME` runs everything on one engine. `--engine A,B,...` gives each of these engines a collection, whose index on `k`
lives on the next one, in one server with A as its default. `--kind set` makes the server a replica set of one member.
`--failure power` cuts the power of a file system on a loop device instead (root): what was not synced is lost. At the end the
server stops and `arbor check` verifies the directory.
"""

import os
import random
import subprocess
import threading
import time

import pymongo
from pymongo.errors import PyMongoError
from pymongo.write_concern import WriteConcern

from campaign import KINDS, Problems, arguments, problems_of_documents, server

CLIENTS = 8
# Part of the operations that write a large document, and such documents of each client.
LARGE_PART = 0.004
LARGE_DOCUMENTS = 2


class Client(threading.Thread):
    """Writes until the server dies. `sure[_id]` is the document as last acknowledged (None = deleted);
    `unsure` holds the one write in flight: (documents that may have changed, their possible new states)."""

    def __init__(self, number, uri, name, sure, seed):
        super().__init__(daemon=True)
        self.number, self.uri, self.name, self.sure = number, uri, name, sure
        self.rng = random.Random(seed)
        self.unsure = {}
        self.operations = 0
        self.stopping = False

    def run(self):
        client = pymongo.MongoClient(self.uri, retryWrites=False, serverSelectionTimeoutMS=500, directConnection=True)
        self.coll = client.crash.get_collection(self.name, write_concern=WriteConcern(w=1, j=True))
        try:
            while not self.stopping:
                self.step()
                self.operations += 1
        except PyMongoError:
            pass
        finally:
            client.close()

    def attempt(self, after, write):
        """`after`: _id -> state that the write leaves."""
        self.unsure = after
        write()
        self.sure.update(after)
        self.unsure = {}

    def fresh(self, _id):
        return {"_id": _id, "k": self.rng.randrange(1000), "u": f"{_id}", "t": [self.rng.randrange(50) for _ in range(3)],
                "pad": "x" * self.rng.randrange(400)}

    def large_step(self):
        """Writes or deletes a document of 1 to 14 MB: the transaction may be a chain of records, and the value has an extent of its own."""
        _id = f"{self.number}-large-{self.rng.randrange(LARGE_DOCUMENTS)}"
        before, choice = self.sure.get(_id), self.rng.random()
        if before and choice < 0.2:
            self.attempt({_id: None}, lambda: self.coll.delete_one({"_id": _id}))
        elif before and choice < 0.4:
            k = self.rng.randrange(1000)
            self.attempt({_id: {**before, "k": k}}, lambda: self.coll.update_one({"_id": _id}, {"$set": {"k": k}}))
        else:
            size = self.rng.randrange(1, 15) << 20
            piece = self.rng.choice([size, 5000])  # one compresses, the other does not
            doc = {**self.fresh(_id), "pad": self.rng.randbytes(piece) * (size // piece)}
            self.attempt({_id: doc}, lambda: self.coll.replace_one({"_id": _id}, doc, upsert=True))

    def step(self):
        if self.rng.random() < LARGE_PART:
            return self.large_step()
        live = [i for i, d in self.sure.items() if d is not None and "large" not in i]
        choice = self.rng.random()
        if choice < 0.4 or len(live) < 20:
            docs = [self.fresh(f"{self.number}-{len(self.sure) + i}") for i in range(self.rng.choice([1, 1, 1, 10, 100]))]
            self.attempt({d["_id"]: d for d in docs}, lambda: self.coll.insert_many(docs))
        elif choice < 0.7:
            _id = self.rng.choice(live)
            k = self.rng.randrange(1000)
            self.attempt({_id: {**self.sure[_id], "k": k}}, lambda: self.coll.update_one({"_id": _id}, {"$set": {"k": k}}))
        elif choice < 0.8:
            _id = self.rng.choice(live)
            t = [self.rng.randrange(50) for _ in range(self.rng.randrange(4))]
            self.attempt({_id: {**self.sure[_id], "t": t}}, lambda: self.coll.update_one({"_id": _id}, {"$set": {"t": t}}))
        elif choice < 0.9:
            _id = self.rng.choice(live)
            self.attempt({_id: None}, lambda: self.coll.delete_one({"_id": _id}))
        else:
            _id = self.rng.choice(live)
            if self.coll.find_one({"_id": _id}) != self.sure[_id]:
                raise AssertionError(f"read of {_id} does not show the acknowledged state")

    def check(self, database):
        coll = database[self.name]
        stored = {d["_id"]: d for d in coll.find({"_id": {"$regex": f"^{self.number}-"}})}
        wrong = []
        for _id in self.sure.keys() | stored.keys() | self.unsure.keys():
            allowed = [self.sure.get(_id)]
            if _id in self.unsure:
                allowed.append(self.unsure[_id])
            if stored.get(_id) not in allowed:
                wrong.append((_id, allowed, stored.get(_id)))
            self.sure[_id] = stored.get(_id)
        return wrong


def create(database, engines):
    """The collections that are written, by name; with several engines one on each."""
    if len(engines) < 2:
        placed = [("c", None, None)]
    else:
        placed = [(f"c_{own}", own, after) for own, after in zip(engines, engines[1:] + engines[:1])]
    for name, own, after in placed:
        on = lambda engine: {"storageEngine": {engine: {}}} if engine else {}  # noqa: E731
        database.create_collection(name, **on(own))
        database[name].create_index("k", **on(after))
        database[name].create_index("u", unique=True)
        database[name].create_index([("t", 1), ("k", -1)])
    return [name for name, _, _ in placed]


def run(arbor, args, rng, engines):
    with pymongo.MongoClient(arbor.uri) as client:
        names = create(client.crash, engines)
    states = [{} for _ in range(CLIENTS)]
    total = 0
    for kill in range(args.kills):
        clients = [Client(n, arbor.uri, names[n % len(names)], states[n], rng.random()) for n in range(CLIENTS)]
        for c in clients:
            c.start()
        time.sleep(rng.uniform(0.2, args.seconds))
        arbor.fail()
        for c in clients:
            c.stopping = True
        for c in clients:
            c.join(30)
        seconds = arbor.start()
        operations = sum(c.operations for c in clients)
        total += operations
        with pymongo.MongoClient(arbor.uri) as client:
            found = problems_of_documents(client.crash, names, clients)
        print(f"kill {kill + 1}: {operations} acknowledged operations, served again after {seconds:.2f} s, "
              f"{'PROBLEMS' if found else 'ok'}", flush=True)
        if found:
            raise Problems(*found)
    arbor.stop()
    check = subprocess.run([os.environ["ARBOR"], "check", "--dbpath", str(arbor.dbpath)], capture_output=True, text=True)
    if check.returncode:
        raise Problems(f"arbor check: {check.stdout}{check.stderr}"[-2000:])
    print(f"{args.kills} failures ({args.failure}), {total} acknowledged operations, nothing lost, arbor check clean")


def main():
    args, rng = arguments(__doc__, kills=20, seconds=4.0, engine="", kind="standalone", failure="kill")
    engines = [name for name in args.engine.split(",") if name]
    with server("kill", engines[0] if engines else None, kind=KINDS[args.kind], failure=args.failure) as arbor:
        run(arbor, args, rng, engines)


if __name__ == "__main__":
    main()
