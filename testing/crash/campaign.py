"""What the programs here do alike: arguments with a seed that repeats a run, a server on a directory of its own that stays when a
problem was found, and the check of documents of which every client knows what must be there."""

import argparse
import contextlib
import os
import pathlib
import random
import shutil
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from arbor_cluster import Cluster  # noqa: E402
from arbor_process import Arbor, ReplicaSet  # noqa: E402
from loop_disk import LoopDisk  # noqa: E402

# Room for what a loop writes: data, several checkpoints of it and the log.
DISK_MEGABYTES = 2048


class Problems(Exception):
    """What a round found, a text each."""


def arguments(description, kills, seconds, seconds_are="longest time between kills", **more):
    """The arguments of every loop and `more` (name=default), and random numbers of their seed."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--kills", type=int, default=kills)
    parser.add_argument("--seconds", type=float, default=seconds, help=seconds_are)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    for name, default in more.items():
        parser.add_argument(f"--{name}", type=type(default), default=default)
    args = parser.parse_args()
    print(f"seed {args.seed}", flush=True)
    return args, random.Random(args.seed)


class KillFailure:
    """kill -9: the process ends, what it wrote stays."""

    def __init__(self, name):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix=f"arbor-{name}-"))

    def strike(self, arbor):
        arbor.kill()

    def remove(self):
        shutil.rmtree(self.directory)


class PowerFailure:
    """The file system loses what was not synced, and the process ends."""

    def __init__(self, _name):
        self.disk = LoopDisk(DISK_MEGABYTES)
        self.directory = self.disk.path

    def strike(self, arbor):
        self.disk.fail_under(arbor.process)

    def remove(self):
        self.disk.remove()


FAILURES = {"kill": KillFailure, "power": PowerFailure}
KINDS = {"standalone": Arbor, "set": ReplicaSet}


@contextlib.contextmanager
def server(name, engine, *flags, kind=Arbor, syncdelay=2, failure="kill"):
    """A server that checkpoints every `syncdelay` seconds (None: as it does by itself); `arbor.fail()` ends it as `failure` says.
    `Problems` end the program with code 1 and leave the directory."""
    cause = FAILURES[failure](name)
    directory = cause.directory
    given = [("--syncdelay", syncdelay), ("--storageEngine", engine)]
    flags = [*(text for flag, value in given if value for text in (flag, str(value))), *flags]
    arbor = kind(directory / "data", flags)
    arbor.fail = lambda: cause.strike(arbor)
    arbor.start()
    try:
        yield arbor
    except Problems as problems:
        leave(problems, directory)
    finally:
        arbor.stop()
    cause.remove()


@contextlib.contextmanager
def three_shards(name, **options):
    """A cluster of three shards. `Problems` end the program with code 1 and leave the directory."""
    directory = pathlib.Path(tempfile.mkdtemp(prefix=f"arbor-{name}-"))
    with contextlib.ExitStack() as stack:
        try:
            yield Cluster(directory, stack, shards=3, **options)
        except Problems as problems:
            leave(problems, directory)
    shutil.rmtree(directory)


def leave(problems, directory):
    print("\n".join(f"  {problem}" for problem in problems.args))
    print(f"  data kept in {directory}")
    sys.exit(1)


def set_server(name, engine):
    return server(name, engine, kind=ReplicaSet)


def problems_of_documents(database, names, clients):
    """Every client's documents are as acknowledged, and each collection agrees with its indexes and its count."""
    found = []
    for _id, allowed, stored in [w for c in clients for w in c.check(database)][:5]:
        found.append(f"{_id}: allowed {allowed}, stored {stored}"[:2000])
    for name in names:
        report = database.command("validate", name, full=True)
        estimated, counted = database[name].estimated_document_count(), sum(1 for _ in database[name].find({}, {"_id": 1}))
        if not report["valid"] or estimated != counted:
            found.append(f"{name}: count {estimated}, documents {counted}, validate {report}")
    return found


def insert_old(client, documents):
    """Documents that no client writes again."""
    for start in range(0, documents, 1000):
        client.crash.c.insert_many(
            [{"_id": f"old-{i}", "k": i % 1000, "u": f"old-{i}", "t": [i % 7, i], "pad": "x" * 300}
             for i in range(start, min(start + 1000, documents))])


def problems_of_old(collection, documents):
    kept = sum(1 for d in collection.find({"_id": {"$regex": "^old-"}}, {"pad": 1}) if d["pad"] == "x" * 300)
    return [] if kept == documents else [f"{kept} of {documents} old documents"]
