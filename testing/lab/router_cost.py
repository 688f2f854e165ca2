#!/usr/bin/env python3
"""What a router adds to a read: three kinds of reads on three shards through a router, and on one server directly, with the same client.

    ARBOR=target/release/arbor testing/.venv/bin/python testing/lab/router_cost.py --clients 1,16,64 --seconds 5 --repeats 3

CPU is that of the whole machine for one operation: client, router and shards together. An echo is the bare exchange of a message with the same client and runtime.
"""

import argparse
import contextlib
import os
import pathlib
import subprocess
import sys
import tempfile

import yaml

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from arbor_cluster import Cluster  # noqa: E402
from arbor_process import Arbor  # noqa: E402

SHARDS, DOCUMENTS, ECHO_BYTES = 3, 60_000, 300
METRICS = "figures"  # of run.yaml
READS = {
    "targeted": {"find": "rows", "filter": {"_id": "{any}"}, "limit": 1},
    "scatter": {"find": "rows", "filter": {"other": "{any}"}},
    "merge": {"find": "rows", "filter": {"other": {"$gte": "{any}"}}, "sort": {"other": 1}, "limit": 10},
}


def experiment(path, name):
    """Writes an experiment with one kind of read."""
    path.write_text(yaml.safe_dump({
        "name": f"router-{name}", "about": f"{name} reads", "purpose": "the cost of a router", "workload": "statements", "database": "routercost",
        "bindings": {"any": {"row": "rows"}, "note": {"text": [100, 100]}},
        "collections": {"rows": {"documents": DOCUMENTS, "document": {"_id": "{row}", "other": "{row}", "note": "{note}"}, "indexes": [["other"]]}},
        "statements": [{"name": name, "weight": 1, "command": READS[name]}],
        "small": {"clients": [1], "warm": 1, "seconds": 1, "disk_mb": 100, "load_s": 5},
        "full": {"clients": [1], "warm": 1, "seconds": 1, "disk_mb": 100, "load_s": 5},
    }, sort_keys=False))
    return path


def lab(out, *arguments):
    """Runs the laboratory and returns the steps of its run."""
    subprocess.run([os.environ["ARBOR"], "lab", *arguments, "--out", str(out)], check=True, stdout=subprocess.DEVNULL)
    return yaml.safe_load((out / "run.yaml").read_text())


def shard(cluster):
    with cluster.routers[0].client() as client:
        admin = client.admin
        admin.command("balancerStop")
        admin.command("enableSharding", "routercost")
        admin.command("shardCollection", "routercost.rows", key={"_id": 1})
        own = client.config.databases.find_one({"_id": "routercost"})["primary"]
        others = [shard.name for shard in cluster.shards if shard.name != own]
        for at, to in enumerate(others, 1):
            border = DOCUMENTS * at // SHARDS
            admin.command("split", "routercost.rows", middle={"_id": border})
            admin.command("moveChunk", "routercost.rows", find={"_id": border}, to=to, _waitForDelete=True)
        return client.config.chunks.count_documents({})


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--clients", default="1,16,64")
    options.add_argument("--seconds", default="5")
    options.add_argument("--repeats", default="3")
    options = options.parse_args()
    steps = ["--clients", options.clients, "--seconds", options.seconds, "--repeats", options.repeats]
    with tempfile.TemporaryDirectory() as directory, contextlib.ExitStack() as stack:
        directory = pathlib.Path(directory)
        cluster = Cluster(directory, stack, SHARDS)
        server = stack.enter_context(Arbor(directory / "server"))
        targets = ["--target", f"direct={server.uri},routed={cluster.routers[0].uri}"]
        first = experiment(directory / "load.yaml", "targeted")
        lab(directory / "load", "run", str(first), *targets, "--clients", "1", "--seconds", "1")
        shard(cluster)
        rows = {"echo": lab(directory / "echo", "echo", "--bytes", str(ECHO_BYTES), *steps)}
        for name in READS:
            rows[name] = lab(directory / name, "run", str(experiment(directory / f"{name}.yaml", name)), *targets, *steps)
        print(yaml.safe_dump({name: summary(run) for name, run in rows.items()}, sort_keys=False, width=200))


def summary(run):
    """Returns operations per second and CPU in us by system and clients: the median of the repeats."""
    found = {}
    for system in run["systems"]:
        for step in system["steps"]:
            if step["phase"] == "load":
                continue
            if step["errors"]:
                raise RuntimeError(f"{system['name']}: {step['errors']}")
            of = found.setdefault(system["name"], {}).setdefault(step["clients"], [])
            of.append(tuple(step[METRICS][name] for name in ("per_second", "cpu_us_per_unit")))
    return {system: {clients: median(steps) for clients, steps in by_clients.items()} for system, by_clients in found.items()}


def median(steps):
    rate, cpu = sorted(steps, key=lambda step: step[0])[len(steps) // 2]
    return f"{rate:,.0f}/s, {cpu:.1f} us of CPU"


if __name__ == "__main__":
    main()
