"""`arbor migrate`: everything of a source under load arrives at the target, whatever is killed meanwhile."""

import os
import random
import signal
import subprocess
import threading
import time

import pymongo
import pytest
from bson import Decimal128, Int64, MinKey, ObjectId
from pymongo.errors import PyMongoError

from arbor_process import Arbor, ReplicaSet


def migrate(source, target, *arguments, timeout=120):
    command = [os.environ["ARBOR"], "migrate", source, target, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout)


def succeeds(source, target, *arguments):
    done = migrate(source, target, *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def refused(source, target, *arguments):
    done = migrate(source, target, *arguments)
    assert done.returncode not in (0, 101), done.stdout + done.stderr
    return done.stdout + done.stderr


class Running:
    """A migration that follows the source."""

    def __init__(self, source, target, log, *arguments):
        self.log = log
        command = [os.environ["ARBOR"], "migrate", source, target, *map(str, arguments)]
        with open(log, "ab") as out:
            self.process = subprocess.Popen(command, stdout=out, stderr=out)

    def text(self):
        return self.log.read_text()

    def wait_for(self, text, wait_s=60):
        end = time.monotonic() + wait_s
        while text not in self.text():
            assert self.process.poll() is None and time.monotonic() < end, self.text()
            time.sleep(0.05)

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


IDS = [MinKey(), 1, 2.5, Int64(3), Decimal128("4.5"), "text", "\u00e9", {"a": 1}, b"bytes", ObjectId(), True, None]


def fill(client):
    db = client.db
    db.create_collection("plain", validator={"n": {"$gte": 0}}, validationLevel="moderate")
    db.plain.insert_many([{"_id": n, "n": n % 7, "u": n, "text": "x" * 200} for n in range(5000)])
    db.plain.create_index([("n", 1), ("_id", -1)], partialFilterExpression={"n": {"$gt": 2}})
    db.plain.create_index("u", unique=True)
    db.mixed.insert_many([{"_id": key, "n": number} for number, key in enumerate(IDS)])
    db.create_collection("capped", capped=True, size=100_000)
    db.capped.insert_many([{"_id": 1000 - n, "x": "y" * 100} for n in range(300)])
    db.create_collection("collated", collation={"locale": "de", "strength": 2})
    db.collated.insert_many([{"_id": text} for text in ("b", "a", "C", "\u00e4")])
    db.create_collection("measured", timeseries={"timeField": "t", "metaField": "m"})
    import datetime
    begin = datetime.datetime(2026, 1, 1)
    db.measured.insert_many([{"t": begin + datetime.timedelta(seconds=n), "m": n % 3, "v": n} for n in range(500)])
    db.create_collection("seen", viewOn="plain", pipeline=[{"$match": {"n": 1}}])
    client.other.c.insert_one({"_id": 1, "nested": {"z": 1, "a": [1, {"b": None}]}})


def contents(client):
    """Documents with the order of their fields, and what the catalogue says."""
    found = {}
    for name in sorted(client.db.list_collection_names()):
        if name.startswith("system."):
            continue
        documents = list(client.db[name].find(sort=None if name == "measured" else [("_id", 1)]))
        if name == "measured":
            documents = sorted(({**doc, "_id": 0} for doc in documents), key=lambda doc: doc["t"])
        options = client.db[name].options()
        indexes = {} if name == "seen" else client.db[name].index_information()
        found[name] = ([list(doc.items()) for doc in documents], options, {key: {**spec, "ns": 0} for key, spec in indexes.items()})
    return found


def test_plain_copy_of_a_server_without_change_streams(tmp_path):
    with Arbor(tmp_path / "old", ["--auth"]) as old, Arbor(tmp_path / "new") as new:
        with pymongo.MongoClient(old.uri) as client:
            client.admin.command("createUser", "root", pwd="root", roles=["root"])
        with pymongo.MongoClient(old.uri, username="root", password="root") as client:
            fill(client)
            client.db.command("createRole", "own", privileges=[], roles=["read"])
            client.db.command("createUser", "ann", pwd="secret", roles=["own"])
            expected = contents(client)
        source = f"mongodb://root:root@127.0.0.1:{old.port}/"
        output = succeeds(source, new.uri)
        assert "has no change streams" in output and "3 users and roles" in output and "migration is complete" in output, output
        assert "is complete" in succeeds(source, new.uri), "it is not begun again"
        with pymongo.MongoClient(new.uri) as client:
            assert contents(client) == expected
            assert list(client.db.capped.find())[0]["_id"] == 1000, "in the order of their insertion"
            assert client.other.c.find_one() == {"_id": 1, "nested": {"z": 1, "a": [1, {"b": None}]}}
        with pymongo.MongoClient(new.uri, username="ann", password="secret", authSource="db") as client:
            client.admin.command("ping")
        assert "state of a migration from" in refused(new.uri.replace("127.0.0.1", "localhost"), new.uri)


class Load:
    """Writes of all kinds, until the end; those that a kill interrupts are repeated."""

    def __init__(self, uri, seed):
        self.uri, self.random = uri, random.Random(seed)
        self.stopped = threading.Event()
        self.thread = threading.Thread(target=self.run)
        self.writes = 0

    def run(self):
        with pymongo.MongoClient(self.uri, serverSelectionTimeoutMS=30_000) as client:
            while not self.stopped.is_set():
                try:
                    self.write(client)
                    self.writes += 1
                except PyMongoError:
                    time.sleep(0.05)

    def write(self, client):
        db, key = client.db, self.random.randrange(6000)
        match self.random.randrange(12):
            case 0 | 1 | 2:
                db.plain.update_one({"_id": key}, {"$inc": {"n": 1}, "$set": {f"f{key % 3}": self.writes}})
            case 3 | 4:
                db.plain.replace_one({"_id": key}, {"n": 3, "u": key}, upsert=True)
            case 5:
                db.plain.delete_one({"_id": key})
            case 6:
                db.mixed.update_one({"_id": self.random.choice(IDS)}, {"$set": {"n": self.writes}}, upsert=True)
            case 7:
                db.capped.insert_one({"_id": ObjectId(), "x": "y" * 100})
            case 8:
                # Two documents exchange a unique key.
                with client.start_session() as session, session.start_transaction():
                    other = self.random.randrange(6000)
                    db.plain.update_one({"_id": key}, {"$set": {"u": -1}}, session=session)
                    db.plain.update_one({"_id": other}, {"$set": {"u": key + 10_000_000 + self.writes}}, session=session)
                    db.plain.update_one({"_id": key}, {"$set": {"u": other + 20_000_000 + self.writes}}, session=session)
            case 9:
                name = f"more{self.random.randrange(3)}"
                if self.random.randrange(4) == 0:
                    db[name].drop()
                else:
                    db[name].insert_one({"_id": self.writes})
            case 10 if self.random.randrange(4) == 0:
                # A name is that of another collection from then on, and what had it is gone.
                one, other = self.random.sample(("more0", "more1", "more2", "renamed"), 2)
                db[one].insert_one({"_id": ObjectId()})
                db[one].rename(other, dropTarget=True)
            case 11 if self.random.randrange(10) == 0:
                db.plain.create_index(f"f{key % 3}")
            case 11 if self.random.randrange(20) == 0:
                # Another collection has the name for a while.
                if "elsewhere" in db.list_collection_names():
                    db.elsewhere.rename("plain", dropTarget=True)
                else:
                    db.plain.rename("elsewhere")

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stopped.set()
        self.thread.join()


def test_a_source_under_load_with_kills_of_all_three(tmp_path):
    seed = int(os.environ.get("SEED", "0")) or random.randrange(1 << 30)
    print("seed", seed)
    chance, log = random.Random(seed), tmp_path / "migrate.log"
    with ReplicaSet(tmp_path / "old") as old, Arbor(tmp_path / "new") as new:
        with pymongo.MongoClient(old.uri) as client:
            fill(client)
        with Load(old.uri, seed) as load:
            # Slow enough to be killed in the copy.
            running = Running(old.uri, new.uri, log, "--limit", 1)
            for _ in range(8):
                time.sleep(chance.random() * 1.5)
                match chance.randrange(3):
                    case 0:
                        running.kill()
                        running = Running(old.uri, new.uri, log, "--limit", 1)
                    case 1:
                        old.kill()
                        old.start()
                    case 2:
                        new.kill()
                        new.start()
            running.wait_for("following; when nothing writes")
            time.sleep(1)
        assert load.writes > 100
        running.kill()
        output = succeeds(old.uri, new.uri, "--cut-over")
        assert "0 ranges differ" in output and "migration is complete" in output, output
        with pymongo.MongoClient(old.uri) as client:
            expected = contents(client)
        with pymongo.MongoClient(new.uri) as client:
            found = contents(client)
            assert found.keys() == expected.keys(), (seed, found.keys(), expected.keys())
            for name, own in expected.items():
                assert found[name] == own, (seed, name)
            for name in client.db.list_collection_names():
                assert name in ("seen", "measured") or client.db.validate_collection(name, full=True)["valid"]


def test_what_is_refused(tmp_path):
    with ReplicaSet(tmp_path / "old") as old, Arbor(tmp_path / "new") as new:
        with pymongo.MongoClient(old.uri) as client, pymongo.MongoClient(new.uri) as there:
            client.db.c.insert_one({"_id": 1})
            client.db.d.insert_one({"_id": 1})
            there.db.c.insert_one({"_id": 2})
            assert "has a collection db.c already" in refused(old.uri, new.uri)
            assert "source and target are the same" in refused(old.uri, old.direct_uri)
            assert "Connection refused" in refused("mongodb://127.0.0.1:1/", new.uri, "--limit", 5)
            assert "connection string" in refused("mongodb://", new.uri)
            # A document that is only at the target, or another one, is found.
            there.drop_database("arbor_migrate")
            there.db.c.drop()
            running = Running(old.uri, new.uri, tmp_path / "log", "--only", "db.c")
            running.wait_for("following; when nothing writes")
            running.kill()
            there.db.c.insert_one({"_id": 7})
            output = refused(old.uri, new.uri, "--only", "db.c", "--cut-over")
            assert "DIFFERENT db.c: 1 and 2 documents, the first difference is at _id" in output, output
            there.db.c.delete_one({"_id": 7})
            succeeds(old.uri, new.uri, "--only", "db.c", "--cut-over")
            assert there.db.list_collection_names() == ["c"]


def test_partitions_are_dropped_at_the_target_too(tmp_path):
    def rows(begin, end):
        return [{"_id": n, "text": "x" * 100} for n in range(begin, end)]

    with ReplicaSet(tmp_path / "old") as old, Arbor(tmp_path / "new") as new:
        with pymongo.MongoClient(old.uri) as client, pymongo.MongoClient(new.uri) as there:
            db = client.db
            for name in ("log", "other"):
                db.create_collection(name, partitioned=True)
                for part in range(4):
                    db[name].insert_many(rows(part * 100, part * 100 + 100))
                    db.command("addPartition", name, info={"part": part})
                db.command("dropPartition", name, id=1)
            # those whose first partition had an info from the begin, and the only one
            for name, parts in (("first", 2), ("only", 1)):
                db.create_collection(name, partitioned=True)
                for part in range(parts):
                    db[name].insert_many(rows(part * 100, part * 100 + 100))
                    db.command("addPartition", name, info={"part": part})
                db.command("dropPartition", name, id=0)
            db.create_collection("collated", partitioned=True, collation={"locale": "de"})
            db.collated.insert_many(rows(0, 50))
            db.command("addPartition", "collated")
            db.plain.insert_many(rows(0, 50))
            running = Running(old.uri, new.uri, tmp_path / "log")
            running.wait_for("following; when nothing writes")

            def layout(side, name):
                rows = side.db.command("getPartitionInfo", name)["partitions"]
                return [(row["max"], row.get("info")) for row in rows]

            def reaches(check, wait_s=60):
                end = time.monotonic() + wait_s
                while not check():
                    assert running.process.poll() is None and time.monotonic() < end, running.text()
                    time.sleep(0.05)

            for name in ("log", "first", "only"):
                assert layout(there, name) == layout(client, name), name
                assert layout(there, name)[0][1] is not None or name == "log"
            # partitions of the same ranges are dropped as such
            deleted = lambda: there.admin.command("serverStatus")["metrics"]["document"]["deleted"]
            before = deleted()
            db.command("dropPartition", "log", id=2)
            reaches(lambda: there.db.log.count_documents({}) == 200)
            db.log.insert_many(rows(400, 500))
            db.command("addPartition", "log", info={"part": 4})
            db.command("dropPartition", "log", max={"_id": 99})
            db.log.insert_many(rows(500, 510))
            reaches(lambda: there.db.log.count_documents({}) == 210)
            assert deleted() == before and layout(there, "log") == layout(client, "log")
            # where they differ, the documents of the range are deleted
            there.db.command("dropPartition", "other", max={"_id": 99})
            there.db.command("convertToPartitioned", "plain")
            there.db.other.insert_many(rows(0, 100))
            db.command("dropPartition", "other", id=2)
            db.command("dropPartition", "other", id=4)
            reaches(lambda: there.db.other.count_documents({}) == 200)
            db.command("dropPartition", "collated", id=0)
            db.command("convertToPartitioned", "plain")
            db.command("addPartition", "plain", newMax={"_id": 100})
            db.plain.insert_many(rows(200, 210))
            db.command("dropPartition", "plain", max={"_id": 100})
            db.other.drop()
            reaches(lambda: there.db.plain.count_documents({}) == 10 and "other" not in there.db.list_collection_names())
            running.kill()
            output = succeeds(old.uri, new.uri, "--cut-over")
            assert "0 ranges differ" in output and "migration is complete" in output, output
            for name in ("log", "collated", "plain"):
                assert list(there.db[name].find()) == list(db[name].find()), name
                assert there.db.validate_collection(name, full=True)["valid"]


def test_partitions_are_added_and_dropped_while_the_migration_is_killed(tmp_path):
    rng = random.Random(24)

    def layout(side):
        rows = side.db.command("getPartitionInfo", "log")["partitions"]
        return [(row["max"], row.get("info")) for row in rows]

    def change(client, state):
        """Writes documents behind the last one, and adds or drops partitions."""
        log = client.db.log
        for _ in range(rng.randrange(1, 4)):
            log.insert_many([{"_id": n, "text": "x" * rng.randrange(200)} for n in range(state["next"], state["next"] + 40)])
            state["next"] += 40
            client.db.command("addPartition", "log", info={"part": state["next"]})
        partitions = client.db.command("getPartitionInfo", "log")["partitions"]
        if len(partitions) > 4:
            # the oldest ones, or one in the middle
            if rng.random() < 0.5:
                client.db.command("dropPartition", "log", max=partitions[rng.randrange(2)]["max"])
            else:
                client.db.command("dropPartition", "log", id=rng.choice(partitions[:-1])["_id"])
        log.update_many({"_id": {"$mod": [7, rng.randrange(7)]}}, {"$set": {"round": rng.random()}})

    with ReplicaSet(tmp_path / "old") as old, Arbor(tmp_path / "new") as new:
        with pymongo.MongoClient(old.uri) as client, pymongo.MongoClient(new.uri) as there:
            client.db.create_collection("log", partitioned=True)
            state = {"next": 0}
            for _ in range(5):
                change(client, state)
            for turn in range(12):
                running = Running(old.uri, new.uri, tmp_path / f"log{turn}")
                # the first ones are killed while they copy, the others while they follow
                if turn > 3:
                    running.wait_for("following; when nothing writes")
                end = time.monotonic() + rng.uniform(0, 0.7)
                while time.monotonic() < end:
                    change(client, state)
                    assert running.process.poll() is None, running.text()
                running.kill()
                if turn % 4 == 3:
                    new.kill()
                    new.start()
                change(client, state)
            output = succeeds(old.uri, new.uri, "--cut-over")
            assert "migration is complete" in output, output
            assert list(there.db.log.find()) == list(client.db.log.find())
            assert layout(there) == layout(client)
            assert there.db.validate_collection("log", full=True)["valid"]
