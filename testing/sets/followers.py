#!/usr/bin/env python3
"""Runs scripts of `testing/spec` on the primary of a set whose members have one engine each, and compares the members after each script:
documents (`dbHash`), catalogue, counters, indexes with the arrays that they expect, `validate`, and the sessions of the set.

    ARBOR=path/to/arbor followers.py                        every script, on the engines that the binary has
    ARBOR=path/to/arbor followers.py update stage/out       some scripts

Another server answers some cases of a script otherwise than a standalone; that is no finding here.
"""

import argparse
import itertools
import pathlib
import sys
import tempfile
import time
import uuid

import bson
import pymongo
from pymongo.errors import OperationFailure

HERE = pathlib.Path(__file__).resolve().parent
sys.path += [str(HERE.parent), str(HERE.parent / "spec")]

import run  # noqa: E402
import script  # noqa: E402
import session  # noqa: E402
from arbor_process import Arbor, Members  # noqa: E402

# the primary's first
ENGINES = ("ftree", "lmdb", "rocksdb", "wiredTiger")
SECONDARY = pymongo.ReadPreference.SECONDARY_PREFERRED
PATIENCE_S = 120


def engines_here():
    """Returns the engines of the binary whose libraries are installed."""
    found = []
    with tempfile.TemporaryDirectory() as directory, Arbor(pathlib.Path(directory) / "data") as arbor:
        with pymongo.MongoClient(arbor.uri) as client:
            for engine in ENGINES:
                try:
                    client.d.create_collection(engine, storageEngine={engine: {}})
                    found.append(engine)
                except OperationFailure as error:
                    print(f"NOTE: without {engine}: {error.details['errmsg']}")
    return found


def direct(member):
    return pymongo.MongoClient("127.0.0.1", member.port, directConnection=True, serverSelectionTimeoutMS=20_000, retryWrites=False)


class Followed:
    """Processes of a set, with one engine each. The first leads; the others follow, and never take over."""

    def __init__(self, processes, engines):
        self.engines = engines
        self.clients = [direct(process) for process in processes]

    def initiate(self, config):
        for member in config["members"][1:]:
            member["priority"] = 0
        self.primary.admin.command("replSetInitiate", config)
        self.wait(lambda: self.primary.admin.command("hello")["isWritablePrimary"], "the first member leads")
        self.wait(lambda: len(self.primary.admin.command("replSetGetStatus")["arbor"]["inSync"]) == len(self.engines), "all are in sync")

    def close(self):
        for client in self.clients:
            client.close()

    @property
    def primary(self):
        return self.clients[0]

    @staticmethod
    def wait(condition, text):
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            if time.monotonic() > deadline:
                raise RuntimeError(f"not within {PATIENCE_S} s: {text}")
            time.sleep(0.02)

    def catch_up(self):
        """Returns once all members show what the primary has written until now."""
        everywhere = pymongo.WriteConcern(len(self.engines), wtimeout=PATIENCE_S * 1000)
        self.primary.get_database("followers", write_concern=everywhere).marks.replace_one({"_id": 0}, {"at": time.time()}, upsert=True)
        mark = self.primary.followers.marks.find_one()
        for client in self.clients:
            marks = client.followers.get_collection("marks", read_preference=SECONDARY)
            self.wait(lambda marks=marks: marks.find_one() == mark, "a member shows the last write")

    def differences(self, database):
        """Returns what members show otherwise than the primary."""
        self.catch_up()
        shown = [describe(client, database) for client in self.clients]
        found = []
        for engine, one in zip(self.engines[1:], shown[1:], strict=True):
            for name in sorted(set(shown[0]) | set(one)):
                if shown[0].get(name) != one.get(name):
                    found.append(f"{database}, {name}: the primary has\n    {shown[0].get(name)}\n  and the member on {engine}\n    {one.get(name)}")
        return found


class Set(Followed):
    """Starts and ends the processes, too."""

    def __init__(self, directory, engines, flags=()):
        self.members = Members(directory, len(engines), ["--setParameter", "enableTestCommands=1", *flags])
        for member, engine in zip(self.members.members, engines, strict=True):
            member.flags += ["--storageEngine", engine]
        super().__init__(self.members.members, engines)

    def __enter__(self):
        self.members.__enter__()
        self.initiate(self.members.config())
        return self

    def __exit__(self, *failure):
        self.close()
        self.members.__exit__(*failure)


def arrays_of(db, collection, index):
    """Returns the components of paths in which an index expects arrays. None: plans do not show it."""
    try:
        plan = db.command("explain", {"find": collection, "hint": index["name"]}, verbosity="queryPlanner", read_preference=SECONDARY)
    except OperationFailure:
        return None
    stage = plan["queryPlanner"]["winningPlan"]
    while "inputStage" in stage:
        stage = stage["inputStage"]
    return stage.get("isMultiKey"), stage.get("multiKeyPaths")


def describe(client, database):
    """Returns what a member shows, by name."""
    db = client.get_database(database, read_preference=SECONDARY, codec_options=bson.codec_options.CodecOptions(uuid_representation=4))
    shown = {"dbHash": db.command("dbHash", read_preference=SECONDARY)["collections"]}
    for entry in db.list_collections():
        name = entry["name"]
        shown[f"entry of {name}"] = {**entry, "info": {**entry.get("info", {}), "readOnly": None}}
        if entry["type"] != "collection" or name.startswith("system."):
            continue
        indexes = list(db[name].list_indexes())
        shown[f"indexes of {name}"] = indexes
        shown[f"arrays of {name}"] = [(index["name"], arrays_of(db, name, index)) for index in indexes]
        statistics = db.command("collStats", name, read_preference=SECONDARY)
        shown[f"counters of {name}"] = (statistics["count"], statistics["size"])
        report = db.command("validate", name, full=True, read_preference=SECONDARY)
        shown[f"validate of {name}"] = (report["valid"], report.get("errors"), report["keysPerIndex"])
        if not report["valid"]:
            shown[f"validate of {name}"] = (report["valid"], report.get("errors"), client.address)
    config = client.get_database("config", read_preference=SECONDARY)
    shown["sessions"] = sorted(map(str, config.transactions.find()))
    assert shown["sessions"], "the set has sessions with retried writes"
    return shown


def run_script(members, path):
    """Returns (number of cases, differences)."""
    database = "spec_" + run.name_of(path).replace("/", "_")
    primary, cases = members.primary, 0
    one = session.Session(primary, database)
    for block in script.load(path):
        try:
            cases += sum(1 for _ in session.run_block(one, block))
        except Exception as error:
            print(f"NOTE: {run.name_of(path)}.spec:{block.line}: {type(error).__name__}: {str(error)[:200]}")
    found = members.differences(database)
    primary.drop_database(database)
    return cases, found


# Numbers ascend over all calls: on some connections the driver puts a session of its own in the place of the one here.
NUMBERS = itertools.count(1)


def retried_writes(members):
    """Rows of sessions, which scripts do not write."""
    own = {"id": bson.Binary.from_uuid(uuid.uuid4())}
    for number in itertools.islice(NUMBERS, 5):
        update = {"q": {"_id": number}, "u": {"$inc": {"n": 1}}, "upsert": True}
        for _ in range(2):
            members.primary.followers.command({"update": "retried", "updates": [update], "lsid": own, "txnNumber": bson.Int64(number)})


def run_all(names, engines=None):
    """Returns the number of differences."""
    engines = engines or engines_here()
    begin, total, found = time.monotonic(), 0, []
    with tempfile.TemporaryDirectory() as directory, Set(pathlib.Path(directory) / "set", engines) as members:
        paths = run.scripts(names)
        for path in paths:
            retried_writes(members)
            cases, differences = run_script(members, path)
            total += cases
            found += differences
    for difference in found:
        print(difference)
    print(f"{', '.join(engines)}: {len(paths)} scripts, {total} cases, {len(found)} differences, {time.monotonic() - begin:.0f} s", flush=True)
    return len(found)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scripts", nargs="*", help="beginnings of names, as `expression/abs`")
    sys.exit(run_all(parser.parse_args().scripts) > 0)
