"""Backups under the load of 4 clients while the server and the backups are killed, indexes are built and a collection changes its engine.

Each client knows what it has written and between which times each write was committed. A backup that ends well is restored, every collection
of it is validated, and its documents are compared with what the clients know of its time. Its `dbHash` is compared with that of another way to
the same position: an earlier backup and the archived log behind it, which another process writes all the time (and is killed as well). With each
backup a random second of the past is restored from that archive, and compared with what the clients know of it. A backup that was killed, or
whose server was, is named as incomplete and removed. Prints a line per backup.
"""

import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time

import pymongo
from bson import Timestamp
from pymongo.errors import PyMongoError

from campaign import Problems, arguments, server
from arbor_process import Arbor, Members, ReplicaSet

CLIENTS = 4
KEYS = 60
# Longest time between two operations of a client.
PAUSE_S = 0.1
# Backups between two full ones that the archived log continues: what a restore replays stays bounded.
FULL_EVERY = 20
COLLECTIONS = ("tree", "pages", "switched")
ENGINES = ("ftree", "lmdb")
START = Timestamp(0, 0)
END = Timestamp(0xFFFFFFFF, 0)


class Client(threading.Thread):
    """Writes documents of its own, one operation after the other. An operation is `(after, until, changes)`: it was committed between the times."""

    def __init__(self, number, uri, seed):
        super().__init__(daemon=True)
        self.number, self.uri, self.rng = number, uri, random.Random(seed)
        self.history, self.contents, self.time = [], {}, START
        self.stopping, self.failure = False, None

    def run(self):
        client = pymongo.MongoClient(self.uri, serverSelectionTimeoutMS=500, retryWrites=False)
        try:
            while not self.stopping:
                changes = self.choose()
                try:
                    with client.start_session() as session:
                        self.write(client.db, session, changes)
                        self.note(self.time, session.operation_time, changes)
                except PyMongoError:
                    self.settle(client, changes)
                # What the log has is replayed for each backup.
                time.sleep(self.rng.uniform(0, PAUSE_S))
        except Exception as error:  # noqa: BLE001
            self.failure = repr(error)
        finally:
            client.close()

    def choose(self):
        """New values by collection and key; None deletes."""
        names = COLLECTIONS if self.rng.randrange(4) == 0 else [self.rng.choice(COLLECTIONS)]
        key, number = f"{self.number}-{self.rng.randrange(KEYS)}", len(self.history)
        if self.rng.randrange(4) == 0:
            return {(name, key): None for name in names}
        return {(name, key): {"_id": key, "n": number, "pad": "x" * self.rng.randrange(500)} for name in names}

    def write(self, db, session, changes):
        if len(changes) == 1:
            return self.apply(db, session, changes)
        with session.start_transaction():
            self.apply(db, session, changes)

    @staticmethod
    def apply(db, session, changes):
        for (name, key), doc in changes.items():
            if doc is None:
                db[name].delete_one({"_id": key}, session=session)
            else:
                db[name].replace_one({"_id": key}, doc, upsert=True, session=session)

    def note(self, after, until, changes):
        self.history.append((after, until, changes))
        self.contents.update(changes)
        self.time = until

    def settle(self, client, changes):
        """Whether a write was committed whose reply did not come."""
        while not self.stopping:
            try:
                with client.start_session() as session:
                    found = {place: client.db[place[0]].find_one({"_id": place[1]}, session=session) for place in changes}
                    if found == changes and changes != {place: self.contents.get(place) for place in changes}:
                        self.note(self.time, session.operation_time, changes)
                    self.time = max(self.time, session.operation_time)
                return
            except PyMongoError:
                time.sleep(0.05)

    def at(self, moment):
        """Documents that are there at a time, and for those of which it is not known the other state."""
        known, unsure = {}, {}
        for after, until, changes in self.history:
            if until <= moment:
                known.update(changes)
            elif after < moment:
                unsure = changes
                break
        return known, unsure


class Disturber(threading.Thread):
    """Builds indexes and changes an engine, until it is stopped."""

    def __init__(self, uri, seed):
        super().__init__(daemon=True)
        self.uri, self.rng, self.stopping = uri, random.Random(seed), False
        self.switches, self.builds = 0, 0

    def run(self):
        client = pymongo.MongoClient(self.uri, serverSelectionTimeoutMS=500)
        engine = 0
        while not self.stopping:
            try:
                match self.rng.randrange(3):
                    case 0:
                        engine += 1
                        client.db.command("collMod", "switched", storageEngine={ENGINES[engine % 2]: {}})
                        self.switches += 1
                    case 1:
                        client.db[self.rng.choice(COLLECTIONS)].create_index([("n", 1)])
                        self.builds += 1
                    case 2:
                        client.db[self.rng.choice(COLLECTIONS)].drop_indexes()
            except PyMongoError:
                pass
            time.sleep(self.rng.random())
        client.close()


def backup(*arguments):
    return [os.environ["ARBOR"], "backup", *map(str, arguments)]


def run_backup(*arguments):
    done = subprocess.run(backup(*arguments), capture_output=True, text=True, timeout=300)
    return done.returncode, done.stdout + done.stderr


def succeeds(*arguments):
    code, output = run_backup(*arguments)
    if code:
        raise Problems(f"{arguments[0]} failed: {output}")
    return output


class Archive:
    """The process that archives the log."""

    def __init__(self, uri, target):
        self.command, self.log = backup("archive", "--uri", uri, "--to", target), open(f"{target}.log", "ab")
        self.process = None
        self.start()

    def start(self):
        self.process = subprocess.Popen(self.command, stdout=self.log, stderr=self.log)

    def kill(self):
        self.process.kill()
        self.process.wait()


# Longest wait for a second in the archive.
ARCHIVED_S = 60


def archived(target):
    """The last position that can be restored, and the first and last second."""
    found = re.findall(r"\((\d+),\d+\) \(position (\d+)\)", succeeds("list", "--from", target))
    return (int(found[-1][1]), int(found[0][0]), int(found[-1][0])) if found else (0, 0, 0)


def problems_of_documents(client, clients, moment, base):
    found, problems, expected = {}, [], {}
    for name in COLLECTIONS:
        found.update({(name, doc["_id"]): doc for doc in client.db[name].find() if doc["_id"] not in base})
    for own in clients:
        known, unsure = own.at(moment)
        # The operation on its way is there as a whole or not at all.
        if unsure and all(found.get(place) == doc for place, doc in unsure.items()):
            known = {**known, **unsure}
        expected.update(known)
    for place in {*expected, *found}:
        if found.get(place) != expected.get(place):
            problems.append(f"{place} is {found.get(place)}, not {expected.get(place)}")
    return problems[:5]


def problems_of_indexes(client):
    problems = []
    for name in COLLECTIONS:
        report = client.db.validate_collection(name, full=True)
        if not report["valid"] or report["errors"]:
            problems.append(f"{name} is not valid: {report['errors']}")
    return problems


class Check:
    """Restores backups and compares them."""

    def __init__(self, directory, target, log_target, clients, base, rng):
        self.directory, self.target, self.log_target = directory, target, log_target
        self.clients, self.base, self.rng = clients, base, rng
        self.compared, self.unreadable, self.seconds = 0, 0, 0

    def restored(self, *arguments):
        """Returns a server of the restored state, or why there is none."""
        into = self.directory / "restored"
        shutil.rmtree(into, ignore_errors=True)
        code, output = run_backup("restore", "--dbpath", into, *arguments)
        return (Arbor(into), output) if code == 0 else (None, output)

    def backup(self, name, position, moment):
        restored, output = self.restored("--from", self.target, "--backup", name)
        if not restored:
            raise Problems(f"{name} is not restored: {output}")
        with restored, pymongo.MongoClient(restored.uri) as client:
            problems = problems_of_indexes(client) + problems_of_documents(client, self.clients, moment, self.base)
            hashes = client.db.command("dbHash")["collections"]
        return problems + self.other_way(position, hashes)

    def other_way(self, position, hashes):
        until = time.monotonic() + 60
        while archived(self.log_target)[0] < position:
            if time.monotonic() > until:
                return [f"position {position} is not archived"]
            time.sleep(0.2)
        restored, output = self.restored("--from", self.log_target, "--position", position)
        if not restored:
            # Between a record and the trees that it refers to.
            self.unreadable += 1
            return [] if "filled past the log" in output else [f"position {position} is not restored: {output}"]
        with restored, pymongo.MongoClient(restored.uri) as client:
            found = client.db.command("dbHash")["collections"]
        self.compared += 1
        return [] if found == hashes else [f"dbHash {hashes}, and by the log {found}"]

    def second(self):
        """A second that the archive has, other than those between a record and the trees that it refers to."""
        _, first, last = archived(self.log_target)
        end = time.monotonic() + ARCHIVED_S
        while last <= first and time.monotonic() < end:
            # on a busy machine it may not have a whole second yet
            time.sleep(0.2)
            _, first, last = archived(self.log_target)
        seconds = self.rng.sample(range(first + 1, last + 1), last - first)
        for second in seconds:
            text = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(second))
            restored, output = self.restored("--from", self.log_target, "--time", text)
            if restored:
                with restored, pymongo.MongoClient(restored.uri) as client:
                    problems = problems_of_indexes(client) + problems_of_documents(client, self.clients, Timestamp(second, 0), self.base)
                self.seconds += 1
                return [f"{text}: {problem}" for problem in problems]
            if "filled past the log" not in output:
                return [f"{text} is not restored: {output}"]
            self.unreadable += 1
        return [f"no second from {first + 1} to {last} can be restored"]


def begin(arbor, documents):
    with pymongo.MongoClient(arbor.clients_uri) as client:
        client.db.create_collection("tree")
        client.db.create_collection("pages", storageEngine={"lmdb": {}})
        client.db.create_collection("switched")
        for name in COLLECTIONS:
            client.db[name].insert_many([{"_id": n, "n": n % 7, "pad": os.urandom(600)} for n in range(documents)])


def kill_something(kind, arbor, running, archive, rng, seconds):
    """Kills the server (1), the backup (2) or the archive (3) while the backup runs; 0 kills nothing."""
    if kind == 0:
        return
    time.sleep(rng.uniform(0, seconds))
    if kind == 1:
        arbor.kill()
        arbor.start()
    elif kind == 2:
        running.kill()
    else:
        archive.kill()
        archive.start()


def remove_incomplete(target):
    """Killed backups are named, and go."""
    if not target.exists():
        return 0
    incomplete = succeeds("list", "--from", target).count("incomplete")
    removed = succeeds("prune", "--from", target, "--keep", 3).count("it was not finished")
    if incomplete != removed:
        raise Problems(f"{incomplete} incomplete backups, {removed} removed")
    return removed


def run(arbor, args, rng):
    directory = arbor.dbpath.parent
    target, log_target = directory / "backups", directory / "archive"
    begin(arbor, args.documents)
    succeeds("create", "--uri", arbor.clients_uri, "--to", log_target)
    archive = Archive(arbor.clients_uri, log_target)
    clients = [Client(number, arbor.clients_uri, rng.random()) for number in range(CLIENTS)]
    disturber = Disturber(arbor.clients_uri, rng.random())
    for thread in [*clients, disturber]:
        thread.start()
    check = Check(directory, target, log_target, clients, set(range(args.documents)), rng)
    done, killed, began = 0, 0, time.monotonic()
    try:
        while done < args.backups:
            limit = ["--limit", 1] if rng.randrange(2) else []
            command = backup("create", "--uri", arbor.clients_uri, "--to", target, *limit)
            running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            kind = rng.randrange(5)
            kill_something(kind, arbor, running, archive, rng, args.seconds)
            output, errors = running.communicate(timeout=300)
            if running.returncode == 101 or any(own.failure for own in clients):
                raise Problems(errors, *(own.failure for own in clients if own.failure))
            if running.returncode:
                if kind not in (1, 2):
                    raise Problems(f"a backup failed: {errors}")
                killed += 1
                remove_incomplete(target)
                continue
            name = output.split()[0]
            position, seconds, counter = map(int, re.search(r"position (\d+), time \((\d+), (\d+)\)", output).groups())
            found = check.backup(name, position, Timestamp(seconds, counter)) + check.second()
            done += 1
            operations = sum(len(own.history) for own in clients)
            print(f"backup {done}: position {position}, {operations} operations so far, {'PROBLEMS' if found else 'ok'}", flush=True)
            if found:
                raise Problems(*found)
            remove_incomplete(target)
            if done % FULL_EVERY == 0:
                succeeds("create", "--uri", arbor.clients_uri, "--to", log_target)
    finally:
        for thread in [*clients, disturber]:
            thread.stopping = True
        for thread in [*clients, disturber]:
            thread.join(30)
        archive.kill()
    succeeds("verify", "--from", target)
    print(f"{done} backups restored, {killed} killed, {check.compared} compared with the log, {check.seconds} random seconds, {check.unreadable} points that the log cannot show; "
          f"{sum(len(own.history) for own in clients)} operations, {disturber.switches} changes of the engine, {disturber.builds} "
          f"index builds in {time.monotonic() - began:.0f} s, nothing differs")


class Several:
    """A set of several members as the loop sees it: any of them is killed, and started again. Backups read a secondary."""

    def __init__(self, members, rng):
        self.members, self.rng, self.killed = members, rng, None
        self.dbpath, self.clients_uri = members.directory / "data", members.uri

    def kill(self):
        self.killed = self.rng.choice(self.members.members)
        self.killed.kill()

    def start(self):
        self.killed.start()


def run_on_several(args, rng):
    directory = pathlib.Path(tempfile.mkdtemp(prefix="arbor-backups-"))
    with Members(directory, args.members, ["--syncdelay", "2"]) as members:
        with pymongo.MongoClient("127.0.0.1", members.members[0].port, directConnection=True) as client:
            client.admin.command("replSetInitiate", members.config())
        try:
            run(Several(members, rng), args, rng)
        except Problems as problems:
            print("\n".join(f"  {problem}" for problem in problems.args))
            print(f"  data kept in {directory}")
            sys.exit(1)
    shutil.rmtree(directory)


def main():
    args, rng = arguments(__doc__, kills=0, seconds=1.5, seconds_are="longest time until a kill", backups=20, documents=1500, members=1)
    if args.members > 1:
        return run_on_several(args, rng)
    with server("backups", "ftree", kind=ReplicaSet) as arbor:
        arbor.clients_uri = arbor.direct_uri
        run(arbor, args, rng)


if __name__ == "__main__":
    main()
