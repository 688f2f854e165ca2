#!/usr/bin/env python3
"""How long writes stall when a secondary is killed, of three members on this machine with their own etcds: one client inserts, a secondary and its
etcd are killed, and the longest insert from then on counts. `ARBOR=target/release/arbor testing/.venv/bin/python testing/sets/stalls.py --kills 20`"""

import argparse
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


def longest(client, victim, number):
    """Returns the longest insert before the kill, and after it, in milliseconds."""
    stop, times = threading.Event(), []

    def write():
        while not stop.is_set():
            begun = time.monotonic()
            client.db.c.insert_one({"_id": f"{number}-{len(times)}"})
            times.append((begun, time.monotonic()))

    writer = threading.Thread(target=write)
    writer.start()
    time.sleep(1)
    killed = time.monotonic()
    for pid in etcds(victim):
        os.kill(pid, signal.SIGKILL)
    victim.kill()
    time.sleep(2)
    stop.set()
    writer.join()
    before = max(end - begun for begun, end in times if end <= killed)
    return before * 1000, max(end - begun for begun, end in times if end > killed) * 1000


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--kills", type=int, default=10)
    options = options.parse_args()
    stalls = []
    with tempfile.TemporaryDirectory() as directory, WithEtcd(directory) as members:
        with direct(members.members[0]) as first:
            first.admin.command("replSetInitiate", members.config())
        with pymongo.MongoClient(members.uri, serverSelectionTimeoutMS=60_000) as client:
            client.db.c.insert_one({"_id": "first"})
            in_sync(client, 3)
            for number in range(options.kills):
                # until the etcd of the one that was killed has joined again
                time.sleep(5)
                primary = members.at(client.primary)
                victim = [member for member in members.members if member is not primary][number % 2]
                before, stall = longest(client, victim, number)
                stalls.append(stall)
                print(f"kill {number + 1}: longest insert {before:.0f} ms before, {stall:.0f} ms after", flush=True)
                victim.start()
                in_sync(client, 3)
    stalls.sort()
    print(f"{len(stalls)} kills: stall of writes p50 {stalls[len(stalls) // 2]:.0f} ms, longest {stalls[-1]:.0f} ms")


if __name__ == "__main__":
    main()
