"""Two YCSB clients that share no line, `arbor lab` and ycsb.py, on the same servers: do they say the same?

* The operations' proportions agree within 1 percentage point (three standard deviations, where operations are few), as each client counts them and as the
  server counts what it is asked (opcounters).
* The documents have one shape: names of fields, types, lengths, form of the key.
* The ranking of engines agrees within 20 %: the server's CPU per operation on one engine, as a multiple of the same on
  another. CPU, because on one machine a Python client takes most of the processors itself: a ratio of throughputs says
  more about Python than about the engines. Throughputs are shown beside it.

    ARBOR=.../release/arbor python testing/lab/ycsb_agrees.py [--engines ftree,lmdb] [--seconds 10]
"""

import argparse
import csv
import itertools
import json
import math
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))

from arbor_process import Arbor  # noqa: E402
from pymongo import MongoClient  # noqa: E402

HERE = pathlib.Path(__file__).parent
MIX_SLACK, RANK_SLACK = 0.01, 0.20
# Not inserts: those of the load are among them.
COUNTERS = ("query", "update")


def opcounters(uri):
    counters = MongoClient(uri).admin.command("serverStatus")["opcounters"]
    return {name: counters[name] for name in COUNTERS}


def shares(counts):
    total = sum(counts.values()) or 1
    return {name: count / total for name, count in counts.items()}


def observed(uri, run):
    """What `run` gives, with the shares of commands that the server counted meanwhile."""
    before = opcounters(uri)
    result = run()
    after = opcounters(uri)
    return result | {"server_mix": shares({name: after[name] - before[name] for name in COUNTERS})}


def python(uri, workload, arguments, load):
    command = [sys.executable, HERE / "ycsb.py", "--uri", uri, "--workload", workload]
    command += ["--records", str(arguments.records), "--clients", str(arguments.clients)]
    command += ["--seconds", str(arguments.seconds)] + ["--load"] * load
    result = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return result | {"mix": shares(result["operations"]), "count": sum(result["operations"].values())}


def laboratory(uri, workload, arguments, load, folder):
    """Runs `arbor lab` and reads its results' files."""
    experiment = folder / f"{workload}.yaml"
    settings = f"{{workload: {workload}, records: {arguments.records}, batch: 500}}"
    size = f"{{settings: {settings}, clients: [{arguments.clients}], warm: 0, seconds: {arguments.seconds}}}"
    experiment.write_text(
        f"name: ycsb-{workload}\nabout: held against another client\nworkload: ycsb\nmode: fixed\n"
        f"purpose: a check\nexpected: agreement\nsmall: {size}\nfull: {size}\n"
    )
    out = folder / f"{workload}-{time.monotonic_ns()}"
    command = [os.environ["ARBOR"], "lab", "run", experiment, "--target", f"server={uri}", "--out", out]
    done = subprocess.run(command + ["--drop"] * load, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{done.stdout}\n{done.stderr}")
    return results(out)


UNITS = ("read", "update", "insert", "scan", "read_modify_write")


def results(folder):
    """Operations by kind and the figures of the measured step."""
    counts, figures = dict.fromkeys(UNITS, 0.0), {}
    with open(folder / "series.csv", newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["phase"] == "run"]
    # Rates of intervals that are equally long.
    for row in rows:
        kind = row["series"].removeprefix("ops.")
        if kind in counts and row["series"] != kind:
            counts[kind] += float(row["value"])
    for name in ("per_second", "server_cpu_us_per_unit", "client_cpu_us_per_unit"):
        found = re.findall(rf"^\s+{name}: (\S+)$", (folder / "run.yaml").read_text(), re.MULTILINE)
        figures[name] = float(found[-1]) if found else None
    # Reads and updates of read-modify-writes count as such too.
    for part in ("read", "update"):
        counts[part] = max(counts[part] - counts["read_modify_write"], 0.0)
    return figures | {"mix": shares(counts), "count": sum(counts.values())}


def shape(uri):
    """Every form of document that occurs."""
    forms = set()
    for record in MongoClient(uri)["ycsb"]["usertable"].find().limit(200):
        key = record.pop("_id")
        form = tuple(sorted((name, type(value).__name__, len(value)) for name, value in record.items()))
        forms.add((re.sub(r"\d+", "N", key), form))
    return forms


class Verdict:
    def __init__(self):
        self.failures = []

    def check(self, right, text):
        print(f"{'ok  ' if right else 'FAIL'} {text}")
        if not right:
            self.failures.append(text)

    def mixes(self, label, one, other):
        for key in ("mix", "server_mix"):
            worst = max(abs(one[key].get(n, 0.0) - other[key].get(n, 0.0)) for n in one[key].keys() | other[key].keys())
            # A share of few operations is not known better than this.
            fewest = min(one["count"], other["count"])
            slack = max(MIX_SLACK, 3 * math.sqrt(2 * 0.25 / max(fewest, 1)))
            self.check(worst <= slack, f"{label}: {key} differs by at most {worst:.2%} ({fewest:.0f} operations)")


def compare(engine, arguments, verdict):
    """CPU per operation of the server as (lab, python) by workload."""
    costs = {}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        with Arbor(folder / "data", ["--storageEngine", engine]) as server:
            for load, workload in zip([True] + [False] * 10, arguments.workloads):
                for number in range(arguments.rounds):
                    first = load and number == 0
                    lab = observed(server.uri, lambda: laboratory(server.uri, workload, arguments, first, folder))
                    if first:
                        lab_shape = shape(server.uri)
                    # The first time the second client runs on what it has loaded itself.
                    other = observed(server.uri, lambda: python(server.uri, workload, arguments, first))
                    if first:
                        verdict.check(shape(server.uri) == lab_shape, f"{engine}: documents have one shape")
                    verdict.mixes(f"{engine} {workload}", lab, other)
                    pair = tuple(show(f"{engine} {workload}", client, f) for client, f in (("lab", lab), ("pymongo", other)))
                    # The least of the rounds: what else runs on the machine makes a round dearer, never cheaper.
                    costs[workload] = tuple(map(min, pair, costs.get(workload, pair)))
    return costs


def show(label, client, figures):
    server, own = (figures[f"{side}_cpu_us_per_unit"] or 0.0 for side in ("server", "client"))
    print(
        f"     {label} {client}: {figures['per_second']:.0f}/s, server {server:.1f} us, client {own:.1f} us per operation"
    )
    return server


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--engines", default="ftree,lmdb")
    parser.add_argument("--workloads", default="abcf", help="letters; d and e insert")
    parser.add_argument("--records", type=int, default=20_000)
    parser.add_argument("--clients", type=int, default=2)
    parser.add_argument("--seconds", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    verdict = Verdict()
    costs = {engine: compare(engine, arguments, verdict) for engine in arguments.engines.split(",")}
    for one, other in itertools.combinations(costs, 2):
        for workload in arguments.workloads:
            lab, second = (costs[one][workload][i] / costs[other][workload][i] for i in (0, 1))
            text = f"{workload}: {one} costs {lab:.2f} times {other} by the lab, {second:.2f} times by PyMongo"
            verdict.check(abs(lab / second - 1) <= RANK_SLACK, text)
    sys.exit(1 if verdict.failures else 0)


if __name__ == "__main__":
    main()
