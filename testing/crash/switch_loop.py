"""kill -9 while a collection changes its engine under the load of 8 clients, again and again.

The clients are those of kill_loop.py: each keeps a list of what was acknowledged, and compares it with the collection after
each kill. Meanwhile one thread moves the collection from engine to engine. After a kill the collection is where it was
before the last switch or where that switch was to take it (an acknowledged switch: only there), it holds every acknowledged
document once, `validate` is clean, and no tree is left of what was aborted. Prints a line per round.
"""

import threading
import time

import pymongo
from pymongo.errors import PyMongoError

from campaign import Problems, arguments, insert_old, problems_of_documents, problems_of_old, server
from kill_loop import CLIENTS, Client


class Switcher(threading.Thread):
    """Moves the collection until the server dies. `at` is where it is for sure, `towards` where it may be."""

    def __init__(self, uri, engines, at):
        super().__init__(daemon=True)
        self.uri, self.engines, self.at, self.towards = uri, engines, at, None
        self.done = []

    def run(self):
        client = pymongo.MongoClient(self.uri, serverSelectionTimeoutMS=500, directConnection=True)
        try:
            while True:
                self.towards = self.engines[(self.engines.index(self.at) + 1) % len(self.engines)]
                answer = client.crash.command("collMod", "c", storageEngine={self.towards: {}})
                self.at, self.towards = self.towards, None
                self.done.append(answer["engineSwitch"])
        except PyMongoError:
            pass
        finally:
            client.close()


def phase(uri, command):
    """What the server is doing for a command, shortly before the kill."""
    try:
        with pymongo.MongoClient(uri, serverSelectionTimeoutMS=500, directConnection=True) as client:
            shown = client.admin.command("currentOp", **{f"command.{command}": "c"})["inprog"]
            return shown[0].get("msg", "beginning or ending").split(": ", 1)[-1] if shown else "none"
    except PyMongoError:
        return "unknown"


def trees(client, usual=None):
    """Trees over all engines that count them. Dropped ones go in the background: they have some seconds to do so."""
    until = time.monotonic() + 10
    while True:
        status = client.admin.command("serverStatus")
        sections = [status[name] for name in ["ftree", "lmdb", "rocksdb", "wiredTiger"] if isinstance(status.get(name), dict)]
        count = sum(section["trees"] for section in sections if "trees" in section)
        if usual in (None, count) or time.monotonic() > until:
            return count
        time.sleep(0.1)


def problems_of(client, clients, switcher, documents, trees_usual):
    found = problems_of_documents(client.crash, ["c"], clients) + problems_of_old(client.crash.c, documents)
    stats = client.crash.command("collStats", "c")
    engines = {stats["storageEngine"]["name"], *(index["storageEngine"] for index in stats["indexDetails"].values())}
    allowed = [{switcher.at}] + ([{switcher.towards}] if switcher.towards else [])
    if engines not in allowed:
        found.append(f"the collection is on {engines}, allowed {allowed}")
    if (left := trees(client, trees_usual)) != trees_usual:
        found.append(f"{left} trees, {trees_usual} before the first switch")
    switcher.at = stats["storageEngine"]["name"]
    return found


def run(arbor, args, rng, engines):
    with pymongo.MongoClient(arbor.uri) as client:
        for engine in engines:  # all are open from now on
            client.other.create_collection(engine, storageEngine={engine: {}})
        client.crash.c.create_index("k")
        client.crash.c.create_index("u", unique=True)
        client.crash.c.create_index([("t", 1), ("k", -1)])
        insert_old(client, args.documents)
        trees_usual = trees(client)
    states, at = [{} for _ in range(CLIENTS)], engines[0]
    operations, switched, during = 0, [], 0
    for kill in range(args.kills):
        clients = [Client(n, arbor.uri, "c", states[n], rng.random()) for n in range(CLIENTS)]
        switcher = Switcher(arbor.uri, engines, at)
        for thread in [*clients, switcher]:
            thread.start()
        time.sleep(rng.uniform(0.1, args.seconds))
        doing = phase(arbor.uri, "collMod")
        time.sleep(rng.uniform(0.0, 0.02))
        arbor.kill()
        for c in clients:
            c.stopping = True
        for thread in [*clients, switcher]:
            thread.join(30)
        seconds = arbor.start()
        during += switcher.towards is not None
        with pymongo.MongoClient(arbor.uri) as client:
            found = problems_of(client, clients, switcher, args.documents, trees_usual)
        at = switcher.at
        switched += switcher.done
        operations += sum(c.operations for c in clients)
        print(f"kill {kill + 1}: {len(switcher.done)} switches, then {doing}; on {at}, served again after {seconds:.2f} s, "
              f"{sum(c.operations for c in clients)} acknowledged operations, {'ok' if not found else 'PROBLEMS'}", flush=True)
        if found:
            raise Problems(*found)
    blocked = sorted(answer["writersBlockedMicros"] / 1000 for answer in switched) or [0]
    print(f"{args.kills} kills, {during} of them during a switch, {len(switched)} switches, {operations} acknowledged operations, "
          f"nothing lost; writers kept out for {blocked[len(blocked) // 2]:.1f} ms in the median, {blocked[-1]:.1f} ms at most")


def main():
    args, rng = arguments(__doc__, kills=50, seconds=4.0, documents=20_000, engines="ftree,lmdb")
    engines = args.engines.split(",")
    with server("switch", engines[0]) as arbor:
        run(arbor, args, rng, engines)


if __name__ == "__main__":
    main()
