"""What clients lose while a collection changes its engine, or while indexes are built: operations per second, in windows.

Clients read and update documents by _id without pause. After a time alone, the collection is moved to the other engine and
back (`--change engines`), or three indexes are built in one command (`--change indexes`). Prints the mean before, the lowest window meanwhile, and how long writers were kept out.
On a machine that others use, compare several runs.
"""

import argparse
import multiprocessing
import random
import time

import pymongo

from campaign import server


def work(uri, number, documents, counts, stopping):
    rng = random.Random(number)
    with pymongo.MongoClient(uri) as client:
        coll = client.dip.c
        while not stopping.value:
            _id = rng.randrange(documents)
            if rng.random() < 0.5:
                coll.find_one({"_id": _id})
            else:
                coll.update_one({"_id": _id}, {"$inc": {"n": 1}})
            counts[number] += 1


def rates(counts, seconds, until=None):
    """Operations in each second."""
    found, before = [], sum(counts)
    while len(found) < seconds or (until and until()):
        time.sleep(1)
        now = sum(counts)
        found.append(now - before)
        before = now
    return found


def windows(per_second, width):
    width = min(width, len(per_second))
    return [sum(per_second[i:i + width]) / width for i in range(len(per_second) - width + 1)]


def move(uri, engines, answers):
    with pymongo.MongoClient(uri) as client:
        for engine in engines:
            answers.append(client.dip.command("collMod", "c", storageEngine={engine: {}})["engineSwitch"])


def build(uri, _engines, answers):
    keys = [{"k": 1}, {"pad": 1, "k": 1}, {"n": 1}]
    with pymongo.MongoClient(uri) as client:
        began = time.monotonic()
        client.dip.command("createIndexes", "c", indexes=[{"key": key, "name": f"i{i}"} for i, key in enumerate(keys)])
        answers.append(f"three indexes in {time.monotonic() - began:.1f} s")


def load(uri, args):
    with pymongo.MongoClient(uri) as client:
        for engine in args.engines.split(",") if args.change == "engines" else []:  # all are open from now on, which costs a little by itself
            client.other.create_collection(engine, storageEngine={engine: {}})
        if args.change == "engines":
            client.dip.c.create_index("k")
        for start in range(0, args.documents, 1000):
            ids = range(start, min(start + 1000, args.documents))
            client.dip.c.insert_many([{"_id": i, "k": i % 1000, "n": 0, "pad": "x" * 200} for i in ids])


def measure(uri, args):
    """The rates before, during and after the change, and what the change answered."""
    counts, stopping = multiprocessing.Array("q", args.clients, lock=False), multiprocessing.Value("b", 0)
    clients = [multiprocessing.Process(target=work, args=(uri, n, args.documents, counts, stopping), daemon=True)
               for n in range(args.clients)]
    for process in clients:
        process.start()
    time.sleep(3)
    before = rates(counts, args.before)
    answers = multiprocessing.Manager().list()
    mover = multiprocessing.Process(target=move if args.change == "engines" else build, args=(uri, args.engines.split(","), answers))
    mover.start()
    during = rates(counts, 1, mover.is_alive)
    after = rates(counts, args.before)
    stopping.value = 1
    for process in clients:
        process.join(10)
    return before, during, after, list(answers)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=200_000)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--before", type=int, default=30, help="seconds alone")
    parser.add_argument("--window", type=int, default=10)
    parser.add_argument("--change", choices=["engines", "indexes"], default="engines")
    parser.add_argument("--engines", default="lmdb,ftree")
    args = parser.parse_args()
    with server("dip", None, syncdelay=None) as arbor:
        load(arbor.uri, args)
        before, during, after, answers = measure(arbor.uri, args)

    def shown(rates):
        found = windows(rates, args.window)
        return f"{sum(rates) / len(rates):.0f} operations/s (windows of {args.window} s: {min(found):.0f} to {max(found):.0f})"

    print(f"before: {shown(before)}\nduring {len(during)} s of {args.change}: {shown(during)}\nafter: {shown(after)}")
    for answer in answers:
        print(f"  {answer}")


if __name__ == "__main__":
    main()
