#!/usr/bin/env python3
"""How long writes stall when a secondary is killed or hangs, of three members on this machine with their own etcds: one client inserts, a secondary and its
etcd are killed or stopped, and the longest insert from then on counts. `ARBOR=target/release/arbor testing/.venv/bin/python testing/sets/stalls.py --times 20`"""

import argparse
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import time

import pymongo

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "clients")]

from arbor_process import Arbor, Members  # noqa: E402
from test_members import direct, in_sync  # noqa: E402


class WithEtcd(Members):
    def add_process(self):
        self.members.append(Arbor(self.directory / f"member{len(self.members)}", ["--replSet", self.NAME]))
        return self.members[-1]


def etcds(member):
    found = subprocess.run(["pgrep", "-P", str(member.process.pid), "-x", "etcd"], capture_output=True, text=True, check=False).stdout
    return [int(pid) for pid in found.split()]


def kill(victim):
    for pid in etcds(victim):
        os.kill(pid, signal.SIGKILL)
    victim.kill()


def hang(victim):
    for pid in [*etcds(victim), victim.process.pid]:
        os.kill(pid, signal.SIGSTOP)


def wake(victim):
    for pid in [*etcds(victim), victim.process.pid]:
        os.kill(pid, signal.SIGCONT)


def longest(client, fault, victim, name):
    """Returns the longest insert before the fault, and after it, in milliseconds."""
    stop, times = threading.Event(), []

    def write():
        while not stop.is_set():
            begun = time.monotonic()
            client.db.c.insert_one({"_id": f"{name}-{len(times)}"})
            times.append((begun, time.monotonic()))

    writer = threading.Thread(target=write)
    writer.start()
    time.sleep(1)
    struck = time.monotonic()
    fault(victim)
    time.sleep(3)
    stop.set()
    writer.join()
    before = max(end - begun for begun, end in times if end <= struck)
    return before * 1000, max(end - begun for begun, end in times if end > struck) * 1000


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--times", type=int, default=10)
    options.add_argument("--json", type=pathlib.Path, help="writes the stalls in milliseconds")
    options = options.parse_args()
    stalls = {"killed": [], "hung": []}
    with tempfile.TemporaryDirectory() as directory, WithEtcd(directory) as members:
        with direct(members.members[0]) as first:
            first.admin.command("replSetInitiate", members.config())
        with pymongo.MongoClient(members.uri, serverSelectionTimeoutMS=60_000) as client:
            client.db.c.insert_one({"_id": "first"})
            in_sync(client, 3)
            for number in range(2 * options.times):
                # until the etcd of the one that was lost has joined again
                time.sleep(5)
                primary = members.at(client.primary)
                victim = [member for member in members.members if member is not primary][number // 2 % 2]
                kind, fault, end = (("killed", kill, lambda: victim.start()), ("hung", hang, lambda: wake(victim)))[number % 2]
                before, stall = longest(client, fault, victim, number)
                stalls[kind].append(round(stall, 1))
                print(f"{kind}: longest insert {before:.0f} ms before, {stall:.0f} ms after", flush=True)
                end()
                in_sync(client, 3)
    for kind, times in stalls.items():
        times.sort()
        print(f"{len(times)} {kind}: stall of writes p50 {times[len(times) // 2]:.0f} ms, longest {times[-1]:.0f} ms")
    if options.json:
        options.json.write_text(json.dumps(stalls))


if __name__ == "__main__":
    main()
