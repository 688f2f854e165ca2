"""Chunks move between three shards, one after another, while clients read and write through two routers.

Each range has documents that are never changed: after every move their checksum, read through the other router by the shard key and by
a secondary index, is what it was. Each client has documents of its own and knows what every one must be. With `--kills` the donor,
the recipient, the config server or a router is killed with -9 in the middle of a move and started again: the range has
moved, or it has not. At the end every shard has the documents of its own ranges and no others.
"""

import hashlib
import itertools
import random
import threading
import time

import bson
import pymongo
from pymongo.errors import PyMongoError

from campaign import Problems, arguments, three_shards

CHUNKS, OLD, CLIENTS, OWN = 12, 300, 4, 40
# Old documents have keys that are multiples of it; the keys between them belong to the clients.
STEP = CLIENTS + 1
WIDTH = OLD * STEP
NAMESPACE = "moves.c"
SETTLED_S = 120


def key(place, client):
    """The key of a client's document number `place` (client 0: an old document)."""
    return place * STEP + client


def checksum(documents):
    digest = hashlib.sha256()
    for doc in documents:
        digest.update(bson.encode(doc))
    return digest.hexdigest()


class Client(threading.Thread):
    """Changes documents of its own, and knows what each may be: one value, or two after an operation whose outcome is not known."""

    def __init__(self, number, uris, seed):
        super().__init__(daemon=True)
        self.number, self.uris, self.rng = number, uris, random.Random(seed)
        self.allowed = {key(place, number): {None} for place in self.rng.sample(range(CHUNKS * OLD), OWN)}
        self.operations, self.failures, self.problems, self.slowest, self.stopping = 0, [], [], 0.0, False

    def run(self):
        uri = self.uris[self.number % len(self.uris)]
        with pymongo.MongoClient(uri, serverSelectionTimeoutMS=60_000) as client:
            collection = client.moves.c
            while not self.stopping and not self.problems:
                own = self.rng.choice(list(self.allowed))
                begun = time.monotonic()
                try:
                    self.step(collection, own)
                    self.slowest = max(self.slowest, time.monotonic() - begun)
                except PyMongoError as error:
                    self.failures.append(repr(error)[:300])
                    time.sleep(0.05)
                self.operations += 1

    def step(self, collection, own):
        allowed = self.allowed[own]
        if len(allowed) > 1 or self.rng.random() < 0.4:
            found = [doc["n"] for doc in collection.find({"k": own})]
            if len(found) > 1 or (found[0] if found else None) not in allowed:
                self.problems.append(f"key {own}: found {found}, allowed {allowed}")
            self.allowed[own] = {found[0] if found else None}
            return
        [n] = allowed
        if n is None:
            self.allowed[own] = {None, 0}
            collection.insert_one({"_id": own, "k": own, "n": 0, "v": f"own-{own}"})
            self.allowed[own] = {0}
        elif self.rng.random() < 0.2:
            self.allowed[own] = {n, None}
            count = collection.delete_one({"k": own}).deleted_count
            self.allowed[own] = {None}
            self.expect_one(own, count)
        elif self.rng.random() < 0.5:
            self.allowed[own] = {n, n + 1}
            count = collection.update_one({"k": own}, {"$inc": {"n": 1}}).modified_count
            self.allowed[own] = {n + 1}
            self.expect_one(own, count)
        else:
            self.allowed[own] = {n, n + 1}
            found = collection.find_one_and_update({"k": own}, {"$inc": {"n": 1}})
            self.allowed[own] = {n + 1}
            self.expect_one(own, int(found is not None and found["n"] == n))

    def expect_one(self, own, count):
        if count != 1:
            self.problems.append(f"key {own}: an operation found {count} documents")


def chunks_of(client):
    uuid = client.config.collections.find_one({"_id": NAMESPACE})["uuid"]
    return list(client.config.chunks.find({"uuid": uuid}).sort("min", 1))


def old_documents(collection, chunk):
    """Returns the old documents of a chunk, as the shard key finds them, and as an index does."""
    bounds = {"k": {"$gte": chunk["min"]["k"], "$lt": chunk["max"]["k"]}, "old": True}
    by_key = list(collection.find(bounds).sort("k", 1))
    by_index = list(collection.find({**bounds, "v": {"$gte": ""}}).hint("v_1"))
    return checksum(by_key), checksum(sorted(by_index, key=lambda doc: doc["k"]))


def prepare(cluster, client):
    client.admin.command("shardCollection", NAMESPACE, key={"k": 1})
    collection = client.moves.c
    collection.create_index("v")
    for number in range(1, CHUNKS):
        client.admin.command("split", NAMESPACE, middle={"k": number * WIDTH})
    pad = random.Random(1)
    collection.insert_many([
        {"_id": key(place, 0), "k": key(place, 0), "old": True, "v": f"old-{place}", "pad": pad.randbytes(100)}
        for place in range(CHUNKS * OLD)])
    for number, chunk in enumerate(chunks_of(client)):
        to = cluster.shards[number % len(cluster.shards)].name
        move(client, chunk, to)
    return {chunk["_id"]: old_documents(collection, chunk)[0] for chunk in chunks_of(client)}


def move(client, chunk, to):
    client.admin.command("moveChunk", NAMESPACE, bounds=[chunk["min"], chunk["max"]], to=to)


def try_move(client, chunk, to, outcome):
    """Appends the error of a move; None: it has succeeded."""
    try:
        move(client, chunk, to)
        outcome.append(None)
    except PyMongoError as error:
        outcome.append(error)


def kill_one(cluster, chunk, to, rng):
    """Kills one of the processes that take part, after a moment, and starts it again; returns which."""
    members = {shard.name: shard for shard in cluster.shards}
    role = rng.choice(["donor", "recipient", "config", "router"])
    victim = {"donor": members[chunk["shard"]], "recipient": members[to], "config": cluster.config, "router": cluster.routers[0]}[role]
    # a move of so few documents takes about as long
    time.sleep(rng.random() * 0.15)
    victim.kill()
    victim.start()
    return role


def insist(what, attempt):
    """Returns what the attempt returns, once it succeeds."""
    until = time.monotonic() + SETTLED_S
    while True:
        try:
            return attempt()
        except PyMongoError as error:
            if time.monotonic() > until:
                raise Problems(f"{what} does not succeed: {error}") from error
            time.sleep(0.1)


def check_ownership(cluster, client, problems):
    """Every shard has the documents of its own ranges alone, once the others are deleted."""
    until = time.monotonic() + SETTLED_S
    chunks, wrong = chunks_of(client), ["?"]
    while wrong and time.monotonic() < until:
        wrong = []
        for shard in cluster.shards:
            with shard.client() as direct:
                wrong += [f"{shard.name}: {row}" for row in direct.config.rangeDeletions.find({}, {"nss": 1, "side": 1})]
                keys = [doc["k"] for doc in direct.moves.c.find({}, {"k": 1})]
                for k in keys:
                    owner = chunks[min(max(k // WIDTH, 0), CHUNKS - 1)]["shard"]
                    if owner != shard.name:
                        wrong.append(f"{shard.name} has key {k} of {owner}")
        time.sleep(0.2)
    problems += wrong[:5]


def run(cluster, args, rng):
    writer, reader = (pymongo.MongoClient(router.uri, serverSelectionTimeoutMS=60_000) for router in cluster.routers)
    expected = prepare(cluster, writer)
    clients = [Client(number + 1, [router.uri for router in cluster.routers], rng.random()) for number in range(CLIENTS)]
    for client in clients:
        client.start()
    problems, counts, begun = [], {}, time.monotonic()
    kill_at = set(rng.sample(range(args.moves), min(args.kills, args.moves)))
    for number in range(args.moves):
        chunk = rng.choice(insist("reading the chunks", lambda: chunks_of(writer)))
        to = rng.choice([shard.name for shard in cluster.shards if shard.name != chunk["shard"]])
        outcome = []
        mover = threading.Thread(target=try_move, args=(writer, chunk, to, outcome))
        mover.start()
        role = kill_one(cluster, chunk, to, rng) if number in kill_at else "none"
        mover.join(timeout=300)
        if mover.is_alive():
            problems.append(f"move {number} does not end")
            break
        if role == "none" and outcome != [None]:
            if not args.kills:
                raise Problems(f"move {number} failed: {outcome}")
            # it found the lock of a move whose router was killed
            outcome = [insist("a move", lambda: move(writer, chunk, to))]
        after = insist("reading the chunks", lambda: next(own for own in chunks_of(reader) if own["_id"] == chunk["_id"]))
        if after["shard"] not in (chunk["shard"], to) or outcome == [None] and after["shard"] != to:
            problems.append(f"move {number} ({role}): the range is on {after['shard']}, {outcome}")
        for via in (reader, writer) if role != "none" else (reader,):
            found = insist("reading a range", lambda: old_documents(via.moves.c, chunk))
            if set(found) != {expected[chunk["_id"]]}:
                problems.append(f"move {number} ({role}): the checksum of {chunk['min']} has changed: {found}")
        counts[role, after["shard"] == to] = counts.get((role, after["shard"] == to), 0) + 1
        problems += itertools.chain.from_iterable(client.problems for client in clients)
        if problems:
            break
        if number % 100 == 99:
            print(f"{number + 1} moves, {sum(client.operations for client in clients)} operations, {time.monotonic() - begun:.0f} s", flush=True)
    for client in clients:
        client.stopping = True
    for client in clients:
        client.join(timeout=120)
        if client.is_alive():
            problems.append(f"client {client.number} hangs")
        problems += client.problems
        for own, allowed in client.allowed.items():
            found = insist("reading a document", lambda: [doc["n"] for doc in reader.moves.c.find({"k": own})])
            if len(found) > 1 or (found[0] if found else None) not in allowed:
                problems.append(f"at the end, key {own}: found {found}, allowed {allowed}")
    failures = [failure for client in clients for failure in client.failures]
    if failures and not args.kills:
        problems.append(f"{len(failures)} operations failed, as {failures[:3]}")
    check_ownership(cluster, writer, problems)
    sections = sorted(row["details"]["criticalSectionMicros"] / 1000 for row in writer.config.changelog.find({"what": "moveChunk.commit"}))
    print(f"{args.moves} moves in {time.monotonic() - begun:.0f} s, killed and moved: {counts}; critical section p50 {sections[len(sections) // 2]:.1f} ms, "
          f"p99 {sections[len(sections) * 99 // 100]:.1f} ms, max {sections[-1]:.1f} ms; {sum(client.operations for client in clients)} operations, "
          f"{len(failures)} failed, slowest {max(client.slowest for client in clients):.3f} s", flush=True)
    if problems:
        raise Problems(*problems[:10])


def main():
    args, rng = arguments(__doc__, kills=0, seconds=0, moves=1000, engine="ftree")
    with three_shards("moves", flags=["--storageEngine", args.engine]) as shards:
        run(shards, args, rng)


if __name__ == "__main__":
    main()
