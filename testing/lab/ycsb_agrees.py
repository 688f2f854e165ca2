"""Compares two YCSB clients that share no code, `arbor lab` and ycsb.py, on the same servers.

* The operations' proportions agree within 1 percentage point (three standard deviations, where operations are few), as each client counts them and as the
  server counts requests (opcounters).
* The documents have one shape: names of fields, types, lengths, form of the key.
* The ranking of engines agrees within 20 %: a table per workload has each engine's rate relative to the first engine's, by
  both clients. Rates are operations per second of the server's CPU, because on one machine a Python client takes
  most of the processors itself: a ratio of throughputs says more about Python than about the engines. Throughputs are
  printed as well.

All servers run from the beginning, and rounds go through workloads, engines and clients in turn, so that a drift of the
machine affects all of them. The best round counts: other load on the machine makes a round more expensive, never cheaper.

    ARBOR=.../release/arbor python testing/lab/ycsb_agrees.py [--engines ftree,lmdb] [--seconds 3]
"""

import argparse
import collections
import contextlib
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


def laboratory(uri, workload, arguments, load, directory):
    """Runs `arbor lab` and reads its results' files."""
    experiment = directory / f"{workload}.yaml"
    settings = f"{{workload: {workload}, records: {arguments.records}, batch: 500}}"
    size = f"{{settings: {settings}, clients: [{arguments.clients}], warm: 0, seconds: {arguments.seconds}}}"
    experiment.write_text(
        f"name: ycsb-{workload}\nabout: held against another client\nworkload: ycsb\nmode: fixed\n"
        f"purpose: a check\nexpected: agreement\nsmall: {size}\nfull: {size}\n"
    )
    out = directory / f"{workload}-{time.monotonic_ns()}"
    command = [os.environ["ARBOR"], "lab", "run", experiment, "--target", f"server={uri}", "--out", out]
    done = subprocess.run(command + ["--drop"] * load, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{done.stdout}\n{done.stderr}")
    return results(out)


UNITS = ("read", "update", "insert", "scan", "read_modify_write")


def results(directory):
    """Returns operations by kind and the metrics of the measured step."""
    counts, metrics = dict.fromkeys(UNITS, 0.0), {}
    with open(directory / "series.csv", newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["phase"] == "run"]
    # Rates of intervals that are equally long.
    for row in rows:
        kind = row["series"].removeprefix("ops.")
        if kind in counts and row["series"] != kind:
            counts[kind] += float(row["value"])
    for name in ("per_second", "server_cpu_us_per_unit", "client_cpu_us_per_unit"):
        found = re.findall(rf"^\s+{name}: (\S+)$", (directory / "run.yaml").read_text(), re.MULTILINE)
        metrics[name] = float(found[-1]) if found else None
    # Reads and updates of read-modify-writes count as such too.
    for part in ("read", "update"):
        counts[part] = max(counts[part] - counts["read_modify_write"], 0.0)
    return metrics | {"mix": shares(counts), "count": sum(counts.values())}


def shape(uri):
    """Returns every form of document that occurs."""
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


CLIENTS = ("lab", "pymongo")


class Contest:
    """The servers, and each client's metrics of all rounds by (workload, engine, client)."""

    def __init__(self, servers, arguments, directory, verdict):
        self.servers, self.arguments, self.directory, self.verdict = servers, arguments, directory, verdict
        self.seen = collections.defaultdict(list)

    def run(self):
        for engine, server in self.servers.items():
            self.load(engine, server.uri)
        for number in range(self.arguments.rounds):
            for workload, (engine, server) in itertools.product(self.arguments.workloads, self.servers.items()):
                for client in CLIENTS if number % 2 == 0 else reversed(CLIENTS):
                    metrics = observed(server.uri, lambda: self.measure(client, server.uri, workload, self.arguments.seconds))
                    self.seen[workload, engine, client].append(metrics)
                    print(f"     round {number + 1} {workload} {engine} {client}: {metrics['per_second']:.0f}/s, "
                          f"{metrics['server_cpu_us_per_unit']:.1f} us of the server each", flush=True)

    def load(self, engine, uri):
        """Loads by both clients, one after the other; the runs use the second's data."""
        shapes = []
        for client in CLIENTS:
            self.measure(client, uri, self.arguments.workloads[0], 1, load=True)
            shapes.append(shape(uri))
        self.verdict.check(shapes[0] == shapes[1], f"{engine}: documents have one shape")

    def measure(self, client, uri, workload, seconds, load=False):
        arguments = argparse.Namespace(**vars(self.arguments) | {"seconds": seconds})
        if client == "lab":
            return laboratory(uri, workload, arguments, load, self.directory)
        return python(uri, workload, arguments, load)

    def mixes(self):
        for workload, engine in itertools.product(self.arguments.workloads, self.servers):
            rounds = zip(*(self.seen[workload, engine, client] for client in CLIENTS))
            for lab, other in rounds:
                self.verdict.mixes(f"{engine} {workload}", lab, other)

    def rate(self, workload, engine, client):
        """Operations per second of the server's CPU, and throughput, of the best round."""
        rounds = self.seen[workload, engine, client]
        return (max(1e6 / max(metrics["server_cpu_us_per_unit"] or 0.0, 1e-3) for metrics in rounds),
                max(metrics["per_second"] for metrics in rounds))

    def table(self, workload):
        """Rates relative to the first engine's by both clients, and whether they agree."""
        first = next(iter(self.servers))
        print(f"\nworkload {workload}: per second of the server's CPU, relative to {first} (and throughput)")
        print(f"{'engine':12}{'lab':>8}{'pymongo':>9}{'differ':>9}   {'lab ops/s':>12}{'pymongo ops/s':>16}")
        for engine in self.servers:
            own = [self.rate(workload, engine, client) for client in CLIENTS]
            base = [self.rate(workload, first, client) for client in CLIENTS]
            lab, other = (one[0] / to[0] for one, to in zip(own, base))
            rates = "".join(f"{rate:{width}.0f} ({rate / to[1]:.2f})" for (_, rate), to, width in zip(own, base, (5, 9)))
            print(f"{engine:12}{lab:8.2f}{other:9.2f}{lab / other - 1:+9.1%}   {rates}")
        for one, second in itertools.combinations(self.servers, 2):
            lab, other = (self.rate(workload, one, client)[0] / self.rate(workload, second, client)[0] for client in CLIENTS)
            text = f"{workload}: {one} is {lab:.2f} times {second} by the lab, {other:.2f} times by PyMongo"
            self.verdict.check(abs(lab / other - 1) <= RANK_SLACK, text)


def engines_of(binary):
    """Those of the usual ones that the binary has; it names its engines when it is asked for one that it has not."""
    asked = subprocess.run([binary, "lab", "kv", "--engines", "?"], capture_output=True, text=True).stderr
    known = asked.partition("known are")[2].replace(",", " ").split()
    return [engine for engine in ("ftree", "lmdb", "rocksdb") if engine in known]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--engines", help="separated by commas; ftree, lmdb and rocksdb as far as the binary has them")
    parser.add_argument("--workloads", default="abcf", help="letters; d and e insert")
    parser.add_argument("--records", type=int, default=20_000)
    parser.add_argument("--clients", type=int, default=2)
    parser.add_argument("--seconds", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    engines = arguments.engines.split(",") if arguments.engines else engines_of(os.environ["ARBOR"])
    verdict = Verdict()
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        directory = pathlib.Path(name)
        started = ((engine, Arbor(directory / engine, ["--storageEngine", engine])) for engine in engines)
        servers = {engine: stack.enter_context(server) for engine, server in started}
        contest = Contest(servers, arguments, directory, verdict)
        contest.run()
        contest.mixes()
        for workload in arguments.workloads:
            contest.table(workload)
    print(f"\n{len(verdict.failures)} disagreements" if verdict.failures else "\nboth clients agree")
    sys.exit(1 if verdict.failures else 0)


if __name__ == "__main__":
    main()
