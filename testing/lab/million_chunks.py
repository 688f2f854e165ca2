#!/usr/bin/env python3
"""What a routing table of many chunks costs a router: memory, the first load, a point query, and the first query after one chunk has moved.

    ARBOR=target/release/arbor testing/.venv/bin/python testing/lab/million_chunks.py --chunks 1000000

The chunks are written to `config.chunks` while no router runs: each is within what its shard owns already, so shards have nothing to learn.
"""

import argparse
import contextlib
import os
import pathlib
import statistics
import sys
import tempfile
import time

import bson

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from arbor_cluster import Cluster, Router  # noqa: E402

SHARDS = 3
NAMESPACE = "app.events"


def memory(router):
    """Returns the resident megabytes of a router."""
    for line in pathlib.Path(f"/proc/{router.process.pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError("no VmRSS")


def milliseconds(action):
    begun = time.perf_counter()
    action()
    return (time.perf_counter() - begun) * 1000


def share_out(cluster, chunks):
    """Gives each shard a third of the keys, by moves."""
    with cluster.routers[0].client() as client:
        admin = client.admin
        admin.command("balancerStop")
        admin.command("enableSharding", "app", primaryShard="s0")
        admin.command("shardCollection", NAMESPACE, key={"k": 1})
        borders = [chunks * at // SHARDS for at in range(1, SHARDS)]
        for border in borders:
            admin.command("split", NAMESPACE, middle={"k": border})
        for at, border in enumerate(borders, 1):
            admin.command("moveChunk", NAMESPACE, find={"k": border}, to=f"s{at}")


def write_chunks(cluster, chunks):
    """Divides the three chunks into many, all with versions below those of their shards."""
    with cluster.config.client() as client:
        collection = client.config.chunks
        whole = sorted(collection.find(), key=lambda chunk: str(chunk["min"]["k"]) != "MinKey()" and chunk["min"]["k"] or -1)
        assert len(whole) == SHARDS, whole
        batch = []
        for at, chunk in enumerate(whole):
            low, high = chunks * at // SHARDS, chunks * (at + 1) // SHARDS
            last = chunk["max"]
            collection.update_one({"_id": chunk["_id"]}, {"$set": {"max": {"k": low + 1}}})
            for key in range(low + 1, high):
                end = {"k": key + 1} if key + 1 < high else last
                batch.append({**chunk, "_id": bson.ObjectId(), "min": {"k": key}, "max": end})
                if len(batch) == 20_000:
                    collection.insert_many(batch, ordered=False)
                    batch = []
        if batch:
            collection.insert_many(batch, ordered=False)
        return collection.estimated_document_count()


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--chunks", type=int, default=1_000_000)
    options.add_argument("--moves", type=int, default=10)
    options = options.parse_args()
    with tempfile.TemporaryDirectory() as directory, contextlib.ExitStack() as stack:
        cluster = Cluster(pathlib.Path(directory), stack, SHARDS)
        share_out(cluster, options.chunks)
        for router in cluster.routers:
            router.kill()
        print(f"{write_chunks(cluster, options.chunks)} chunks on {SHARDS} shards", flush=True)
        one, other = (stack.enter_context(Router(pathlib.Path(directory), cluster.config)) for _ in range(2))
        with one.client() as client, other.client() as mover:
            client.admin.command("ping")
            before, events = memory(one), client.app.events
            print(f"first query of a router, with the load of the table: {milliseconds(lambda: events.find_one({'k': 5})):.0f} ms")
            print(f"memory of the router: {before:.0f} MB before, {memory(one):.0f} MB after")
            queries = [milliseconds(lambda: events.find_one({"k": 5})) for _ in range(2000)]
            print(f"queries after it: median {statistics.median(queries):.2f} ms")
            mover.app.events.find_one({"k": 5})
            after, moves = [], []
            for at in range(options.moves):
                key = options.chunks // 2 + at
                moves.append(milliseconds(lambda: mover.admin.command("moveChunk", NAMESPACE, find={"k": key}, to=f"s{at % 2 * 2}")))
                after.append(milliseconds(lambda: events.find_one({"k": key})))
                events.find_one({"k": options.chunks - 1})
            print(f"a move of one empty chunk: median {statistics.median(moves):.0f} ms, longest {max(moves):.0f} ms")
            print(f"first query of another router after it: median {statistics.median(after):.1f} ms, longest {max(after):.1f} ms")
            print(f"memory of the router after {options.moves} moves: {memory(one):.0f} MB")


if __name__ == "__main__":
    main()
