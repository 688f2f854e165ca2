"""kill -9 while indexes are built under the load of 8 clients, again and again.

The clients are those of kill_loop.py: each keeps a list of what was acknowledged, and compares it with the collection after
each kill. Meanwhile one thread drops the indexes and asks for them again, several in one command. After a kill an index is
there whole or is built without being asked for again: all that the builder had asked for and not dropped must be there in
the end. `validate` is clean, no document is lost, and no tree is left of what was aborted. Prints a line per round, and what the
clients did before the builds and during them.
"""

import random
import threading
import time

import pymongo
from pymongo.errors import OperationFailure, PyMongoError

from campaign import Problems, arguments, insert_old, problems_of_documents, problems_of_old, server
from kill_loop import CLIENTS, Client
from switch_loop import phase, trees

KINDS = [
    {"key": {"k": 1}, "name": "k"},
    {"key": {"u": 1}, "name": "u", "unique": True},
    {"key": {"t": 1, "k": -1}, "name": "tk"},
    {"key": {"k": -1}, "name": "some", "partialFilterExpression": {"k": {"$gt": 500}}},
    {"key": {"w": 1}, "name": "sparse", "sparse": True},
    {"key": {"k": "hashed"}, "name": "hashed"},
    {"key": {"$**": 1}, "name": "all", "wildcardProjection": {"pad": 0}},
    {"key": {"t": -1}, "name": "clustering", "clustering": True},
]


class Builder(threading.Thread):
    """Drops and asks for indexes until the server dies. `there` is acknowledged, `asked` may be there or is to come."""

    def __init__(self, uri, seed, there):
        super().__init__(daemon=True)
        self.uri, self.rng, self.there = uri, random.Random(seed), set(there)
        self.asked, self.dropping, self.done, self.failure = set(), set(), 0, None

    def run(self):
        client = pymongo.MongoClient(self.uri, serverSelectionTimeoutMS=500, directConnection=True)
        try:
            while True:
                if self.there:
                    self.dropping = set(self.there)
                    client.crash.command("dropIndexes", "c", index="*")
                    self.there, self.dropping = set(), set()
                chosen = self.rng.sample(KINDS, self.rng.randrange(1, 4))
                self.asked = {kind["name"] for kind in chosen}
                client.crash.command("createIndexes", "c", indexes=chosen)
                self.there, self.asked = self.asked, set()
                self.done += 1
        except OperationFailure as error:
            if error.code not in (11600, 11601, 91):
                self.failure = str(error)
        except PyMongoError:
            pass
        finally:
            client.close()


def wait_for_builds(client, awaited, seconds=240):
    """The names of the ready indexes once no build runs and those that are awaited are there, or time is over."""
    until = time.monotonic() + seconds
    while True:
        listed = list(client.crash.command("listIndexes", "c", includeIndexBuildInfo=True)["cursor"]["firstBatch"])
        ready = {index["spec"]["name"] for index in listed if "indexBuildInfo" not in index} - {"_id_"}
        if (len(ready) + 1 == len(listed) and awaited <= ready) or time.monotonic() > until:
            return ready
        time.sleep(0.05)


def problems_of(client, clients, builder, documents, trees_alone):
    """`builder.asked` need not be there at once, or at all if the command had not begun."""
    found = []
    if builder.failure:
        found.append(f"a build failed: {builder.failure}")
    known = builder.there - builder.dropping
    ready = wait_for_builds(client, known)
    possible = builder.there | builder.asked
    if not known <= ready or not ready <= possible:
        found.append(f"indexes {ready}, sure {known}, possible {possible}")
    if builder.asked and ready & builder.asked not in (set(), builder.asked):
        found.append(f"{ready} of {builder.asked}, which were asked for together")
    found += problems_of_documents(client.crash, ["c"], clients) + problems_of_old(client.crash.c, documents)
    if (left := trees(client, trees_alone + len(ready))) != trees_alone + len(ready):
        found.append(f"{left} trees, {trees_alone} without the {len(ready)} indexes")
    builder.there = ready
    return found


def begun_again(log_path):
    return log_path.read_text(errors="replace").count("Index build: begins again after a restart")


def run(arbor, args, rng):
    with pymongo.MongoClient(arbor.uri) as client:
        insert_old(client, args.documents)
        trees_alone = trees(client)
    states, there = [{} for _ in range(CLIENTS)], set()
    done, during, alone, during_builds = 0, 0, [], []
    for kill in range(args.kills):
        clients = [Client(n, arbor.uri, "c", states[n], rng.random()) for n in range(CLIENTS)]
        builder = Builder(arbor.uri, rng.random(), there)
        for thread in clients:
            thread.start()
        if kill % 5 == 0:  # the clients alone, for comparison
            time.sleep(3)
            alone.append(sum(c.operations for c in clients) / 3)
        builder.start()
        before, began = sum(c.operations for c in clients), time.monotonic()
        time.sleep(rng.uniform(0.1, args.seconds))
        doing = phase(arbor.uri, "createIndexes")
        during_builds.append((sum(c.operations for c in clients) - before, time.monotonic() - began))
        time.sleep(rng.uniform(0.0, 0.02))
        arbor.kill()
        for c in clients:
            c.stopping = True
        for thread in [*clients, builder]:
            thread.join(30)
        seconds = arbor.start()
        during += bool(builder.asked)
        with pymongo.MongoClient(arbor.uri) as client:
            found = problems_of(client, clients, builder, args.documents, trees_alone)
        there = builder.there
        done += builder.done
        print(f"kill {kill + 1}: {builder.done} builds, then {doing}; indexes {sorted(there)}, served again after {seconds:.2f} s, "
              f"{sum(c.operations for c in clients)} acknowledged operations, {'ok' if not found else 'PROBLEMS'}", flush=True)
        if found:
            raise Problems(*found)
    again = begun_again(arbor.log_path)
    operations, time_during = sum(o for o, _ in during_builds), sum(s for _, s in during_builds)
    print(f"{args.kills} kills, {during} of them during a build, {again} builds began again, {done} were done before a kill, nothing lost; "
          f"{sum(alone) / max(len(alone), 1):.0f} operations/s alone, {operations / time_during:.0f} during builds")


def main():
    args, rng = arguments(__doc__, kills=30, seconds=5.0, documents=20_000, engine="ftree")
    with server("builds", args.engine, "--setParameter", "maxIndexBuildMemoryUsageMegabytes=1") as arbor:
        run(arbor, args, rng)


if __name__ == "__main__":
    main()
