#!/usr/bin/env python3
"""The cost of a backup: its speed and that of a restore next to `cp -r`, operations that clients lose meanwhile, bytes that the server writes for it, and the size of an
increment after 1 % of changes.

    ARBOR=target/release/arbor testing/.venv/bin/python testing/lab/backup_cost.py --mb 1000 --rounds 3

Megabytes per second are those of the documents (10^6 bytes of BSON), everything is durable at the end, and files are in the page cache where the machine has room. A round
is a time without a backup, one with backups one after the other until the last of them has ended, and as much again without; it begins and ends with a checkpoint, which is counted.
Clients become slower or faster as the data grows: `--seconds` has to be about the time of a backup. Clients insert and
update as fast as they can, and then at half of that rate. `--rounds 0` leaves the rounds out, for restores of more data. `--work N` also counts what the server writes for N
operations at half of the rate, in turns without a backup and with one all the time, so that both have the same work and the same checkpoints.
"""

import argparse
import multiprocessing
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from statistics import median

import bson
import pymongo
import yaml

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from arbor_process import ReplicaSet  # noqa: E402

MB, BATCH, FILLERS = 1_000_000, 1000, 2
WORDS = [f"{word}{n}" for word in ("plain", "river", "engine", "cold", "paper") for n in range(40)]


def document(number, rng):
    """Returns a document of about 1,000 bytes, a third of which does not compress."""
    return {"_id": number, "kind": number % 100, "key": rng.randbytes(320), "text": " ".join(rng.choices(WORDS, k=90))}


def fill(port, first, last):
    rng = random.Random(first)
    with pymongo.MongoClient("127.0.0.1", port, directConnection=True) as client:
        for begin in range(first, last, BATCH):
            client.cost.rows.insert_many([document(n, rng) for n in range(begin, min(begin + BATCH, last))], ordered=False)


def client_loop(port, documents, rate, done, slowest):
    """Inserts and updates in turn. `rate`: operations per second, None for as many as it can."""
    rng = random.Random()
    with pymongo.MongoClient("127.0.0.1", port, directConnection=True) as client:
        rows, due = client.cost.rows, time.monotonic()
        while True:
            if rate:
                due = max(due + 1 / rate, time.monotonic() - 1)
                time.sleep(max(0, due - time.monotonic()))
            begun = time.monotonic()
            if done.value % 2:
                rows.update_one({"_id": rng.randrange(documents)}, {"$set": {"key": rng.randbytes(320)}})
            else:
                client.cost.arrivals.insert_one(document(rng.getrandbits(62), rng))
            done.value += 1
            slowest.value = max(slowest.value, time.monotonic() - begun)


class Load:
    """Clients in processes of their own, while it is entered."""

    def __init__(self, port, clients, documents, rate=None):
        each = rate and rate / clients
        self.counts = [(multiprocessing.Value("q", 0, lock=False), multiprocessing.Value("d", 0, lock=False)) for _ in range(clients)]
        self.clients = [
            multiprocessing.Process(target=client_loop, args=(port, documents, each, *count), daemon=True) for count in self.counts]

    def __enter__(self):
        for client in self.clients:
            client.start()
        time.sleep(2)
        return self

    def __exit__(self, *_):
        for client in self.clients:
            client.kill()
            client.join()

    def done(self):
        return sum(done.value for done, _ in self.counts)

    def slowest_ms(self):
        """Returns the longest operation since the last call."""
        slowest = max(slowest.value for _, slowest in self.counts) * 1000
        for _, own in self.counts:
            own.value = 0
        return slowest


def backup(*arguments):
    subprocess.run([os.environ["ARBOR"], "backup", *map(str, arguments)], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def size(directory):
    return sum(path.stat().st_size for path in pathlib.Path(directory).rglob("*") if path.is_file())


def timed(action):
    """Returns the seconds until what it wrote is durable."""
    os.sync()
    begun = time.monotonic()
    action()
    os.sync()
    return time.monotonic() - begun


def written(process):
    """Returns the bytes that a process has caused to be written to the disk."""
    for line in pathlib.Path(f"/proc/{process.pid}/io").read_text().splitlines():
        if line.startswith("write_bytes:"):
            return int(line.split()[1])
    raise RuntimeError("no write_bytes")


def idle():
    """Returns the seconds that all processors were idle, or waited for a disk."""
    ticks = pathlib.Path("/proc/stat").read_text().split()[4:6]
    return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")


def say(name, value):
    print(yaml.safe_dump({name: value}, sort_keys=False, width=160), end="", flush=True)


class Cost:
    def __init__(self, options, directory):
        self.options, self.directory = options, directory
        self.server = ReplicaSet(directory / "data", ["--storageEngine", options.engine])
        self.documents = options.mb * MB // len(bson.encode(document(0, random.Random(0))))
        self.target = pathlib.Path(options.target or directory) / "target"

    def fill(self):
        each = -(-self.documents // FILLERS)
        fillers = [
            multiprocessing.Process(target=fill, args=(self.server.port, at * each, min((at + 1) * each, self.documents))) for at in range(FILLERS)]
        for filler in fillers:
            filler.start()
        for filler in fillers:
            filler.join()
            if filler.exitcode:
                raise RuntimeError("a client that fills the collection failed")
        self.checkpoint()

    def checkpoint(self):
        with pymongo.MongoClient(self.server.direct_uri) as client:
            client.admin.command("fsync")

    def create(self, *more):
        limit = [] if self.options.limit is None else ["--limit", self.options.limit]
        backup("create", "--uri", self.server.uri, "--to", self.target, *limit, *more)

    def create_and_remove(self):
        self.create()
        shutil.rmtree(self.target)

    def window(self, load, seconds, action=None):
        """Measures the load for some seconds, or until the action has ended after them."""
        self.checkpoint()
        load.slowest_ms()
        before, bytes_before, idle_before, begun = load.done(), written(self.server.process), idle(), time.monotonic()
        runs = 0
        while action and time.monotonic() - begun < seconds:
            action()
            runs += 1
        time.sleep(max(0, begun + seconds - time.monotonic()))
        took, done = time.monotonic() - begun, load.done() - before
        slowest, idle_part = load.slowest_ms(), (idle() - idle_before) / took / os.cpu_count()
        self.checkpoint()
        return {"seconds": took, "rate": done / took, "bytes": (written(self.server.process) - bytes_before) / done, "slowest_ms": slowest, "idle": idle_part, "runs": runs}

    def rounds(self, rate):
        """Returns what backups cost under a load, and the operations per second of the load without them."""
        rounds = []
        with Load(self.server.port, self.options.clients, self.documents, rate) as load:
            for _ in range(self.options.rounds):
                first = self.window(load, self.options.seconds)
                during = self.window(load, self.options.seconds, self.create_and_remove)
                rounds.append((first, during, self.window(load, during["seconds"])))
        middle = lambda name: median([(first[name] + last[name]) / 2 for first, _, last in rounds])
        ratios = lambda name: [during[name] * 2 / (first[name] + last[name]) for first, during, last in rounds]
        kept, more = ratios("rate"), ratios("bytes")
        return {
            "operations per second without": round(middle("rate")),
            "before, during and behind backups": [" ".join(f"{part['rate']:.0f}" for part in parts) for parts in rounds],
            "loss during backups, %": [round((1 - own) * 100, 1) for own in kept],
            "bytes of the server per operation, ratio": [round(own, 3) for own in more],
            "bytes per operation without": round(middle("bytes")),
            "slowest operation, ms, without and with": [round(middle("slowest_ms")), round(median([own["slowest_ms"] for _, own, _ in rounds]))],
            "idle processors, %, without and with": [round(middle("idle") * 100), round(median([own["idle"] for _, own, _ in rounds]) * 100)],
            "a backup": f"{median([own['seconds'] / own['runs'] for _, own, _ in rounds]):.1f} s",
        }, middle("rate")

    def turn(self, load, with_backups):
        """Returns the bytes that the server writes for an operation of a fixed number of them, and its checkpoints meanwhile."""
        ended = threading.Event()

        def backups():
            while not ended.is_set():
                self.create_and_remove()

        others = threading.Thread(target=backups if with_backups else ended.wait)
        others.start()
        self.checkpoint()
        before, bytes_before, checkpoints = load.done(), written(self.server.process), self.checkpoints()
        while load.done() < before + self.options.work:
            time.sleep(0.005)
        self.checkpoint()
        done = load.done() - before
        own = (written(self.server.process) - bytes_before) / done, self.checkpoints() - checkpoints
        ended.set()
        others.join()
        return own

    def bytes_of_work(self, rate):
        turns = []
        with Load(self.server.port, self.options.clients, self.documents, rate) as load:
            for turn in range(self.options.turns):
                # the data grows: neither kind is always the later one
                first, second = (False, True) if turn % 2 == 0 else (True, False)
                done = {first: self.turn(load, first), second: self.turn(load, second)}
                turns.append((done[False], done[True]))
        shown = lambda own: f"{own[0]:.0f} ({own[1]})"
        # a checkpoint more or less outweighs a backup
        of = lambda at, count: [turn[at][0] for turn in turns if turn[at][1] == count]
        counts = sorted({count for _, (_, count) in turns} & {count for (_, count), _ in turns})
        return {
            "bytes per operation (checkpoints) without": [shown(without) for without, _ in turns],
            "and with": [shown(own) for _, own in turns],
            "ratio of the medians": round(median(own[0] for _, own in turns) / median(without[0] for without, _ in turns), 3),
            "and of turns with as many checkpoints": {count: round(median(of(1, count)) / median(of(0, count)), 3) for count in counts},
        }

    def checkpoints(self):
        with pymongo.MongoClient(self.server.direct_uri) as client:
            return client.admin.command("serverStatus")[self.options.engine].get("checkpoints", 0)

    def run(self):
        data = self.documents * len(bson.encode(document(0, random.Random(0)))) / MB
        speed = lambda seconds: f"{seconds:.1f} s, {data / seconds:.0f} MB/s"
        say("documents", f"{self.documents}, {data:.0f} MB")
        with self.server:
            say("fill", speed(timed(self.fill)))
            creates = []
            for _ in range(self.options.repeats):
                shutil.rmtree(self.target, ignore_errors=True)
                creates.append(timed(self.create))
            say("backup", f"{speed(median(creates))}, {size(self.target) / MB:.0f} MB are written")
            say("increment after 1 %", self.increment())
        source, copied, restored = self.directory / "data", self.directory / "copied", self.directory / "restored"
        copies, restores = [], []
        for _ in range(self.options.repeats):
            copies.append(timed(lambda: subprocess.run(["cp", "-r", source, copied], check=True)))
            shutil.rmtree(copied)
            restores.append(timed(lambda: backup("restore", "--from", self.target, "--dbpath", restored)))
            shutil.rmtree(restored)
        say("cp -r of the data directory", f"{speed(median(copies))}, {size(source) / MB:.0f} MB are written")
        say("restore", speed(median(restores)))
        shutil.rmtree(self.target)
        if self.options.rounds:
            with self.server:
                rate = self.options.rate
                if not rate:
                    cost, rate = self.rounds(None)
                    say("under clients as fast as they can", cost)
                if not self.options.full:
                    say("under half of that", self.rounds(rate / 2)[0])
                if self.options.work:
                    say(f"{self.options.work} operations at half of that rate", self.bytes_of_work(rate / 2))

    def increment(self):
        """Changes 1 % of the documents, and makes an incremental backup of it."""
        full, changed = size(self.target), self.documents // 100
        rng = random.Random(1)
        with pymongo.MongoClient(self.server.direct_uri) as client:
            for number in rng.sample(range(self.documents), changed):
                client.cost.rows.replace_one({"_id": number}, document(number, rng))
        took = timed(lambda: self.create("--incremental"))
        more = size(self.target) - full
        return f"{took:.1f} s, {more / MB:.2f} MB, {more * 100 / full:.2f} % of the backup"


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--mb", type=int, default=1000)
    options.add_argument("--engine", default="ftree")
    options.add_argument("--clients", type=int, default=4)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--rate", type=int, help="operations per second of clients as fast as they can, which are left out")
    options.add_argument("--full", action="store_true", help="leaves out the rounds at half of the rate")
    options.add_argument("--work", type=int, default=0, help="operations of a turn")
    options.add_argument("--turns", type=int, default=4)
    options.add_argument("--target", help="directory of the target, on another disk than the server")
    options.add_argument("--seconds", type=float, default=8, help="of each part of a round, at least")
    options.add_argument("--repeats", type=int, default=3, help="of backups, copies and restores without a load")
    options.add_argument("--limit", type=int, help="of `arbor backup create`, in MB/s; 0: as fast as possible")
    options.add_argument("--directory", help="on the disk to be measured")
    options = options.parse_args()
    with tempfile.TemporaryDirectory(dir=options.directory) as directory:
        Cost(options, pathlib.Path(directory)).run()


if __name__ == "__main__":
    main()
