"""Incremental backups, the archived log, and restores to points of the past: each equals a model of what was committed by then."""

import os
import random
import re
import subprocess
import time

import pymongo
import pytest
from bson import Timestamp

from arbor_process import Arbor, ReplicaSet
from test_backup import Writers, refused, succeeds
from test_members import initiated, primary_of


def archive(uri, target, *options):
    log = open(f"{target}.archive.log", "ab")
    command = [os.environ["ARBOR"], "backup", "archive", "--uri", uri, "--to", str(target), *map(str, options)]
    return subprocess.Popen(command, stdout=log, stderr=log)


def ended(process):
    process.kill()
    process.wait()


def log_end(target, options=()):
    """The last position and cluster time that can be restored; zeros before there is one."""
    found = re.findall(r"to \S+ \((\d+),(\d+)\) \(position (\d+)\)", succeeds("list", "--from", target, *options))
    seconds, counter, position = map(int, found[-1]) if found else (0, 0, 0)
    return position, Timestamp(seconds, counter)


def wait_for_archive(target, moment, deadline_s=60, options=()):
    end = time.monotonic() + deadline_s
    while log_end(target, options)[1] < moment:
        assert time.monotonic() < end, succeeds("list", "--from", target, *options)
        time.sleep(0.1)


def hashes(client):
    return client.db.command("dbHash")["collections"]


def rows(client):
    return {name: {doc["_id"]: doc for doc in client.db[name].find()} for name in client.db.list_collection_names()}


def restored(target, directory, *arguments, set_of_one=False):
    succeeds("restore", "--from", target, "--dbpath", directory, *arguments)
    return (ReplicaSet if set_of_one else Arbor)(directory)


class Model:
    """Writes one after the other, and what was there after each: cluster time and contents."""

    def __init__(self, client, seed):
        self.client, self.random = client, random.Random(seed)
        self.contents = {"c": {}, "d": {}}
        self.states = []

    def write(self):
        name = self.random.choice(["c", "c", "d"])
        own, collection = self.contents[name], self.client.db[name]
        key = self.random.randrange(60)
        with self.client.start_session() as session:
            match self.random.randrange(4):
                case 0:
                    collection.delete_one({"_id": key}, session=session)
                    own.pop(key, None)
                case 1:
                    with session.start_transaction():
                        for other in ("c", "d"):
                            doc = {"_id": key, "n": len(self.states), "of": "transaction"}
                            self.client.db[other].replace_one({"_id": key}, doc, upsert=True, session=session)
                            self.contents[other][key] = doc
                case _:
                    doc = {"_id": key, "n": len(self.states), "text": "x" * self.random.randrange(2000)}
                    collection.replace_one({"_id": key}, doc, upsert=True, session=session)
                    own[key] = doc
            self.states.append((session.operation_time, {name: dict(own) for name, own in self.contents.items()}))

    def at(self, moment):
        """The contents of all commits up to the time."""
        before = [contents for when, contents in self.states if when <= moment]
        return before[-1] if before else {"c": {}, "d": {}}


def test_twenty_restores_to_random_seconds_and_positions_equal_a_model(tmp_path):
    seed = int(os.environ.get("SEED", "0")) or random.randrange(1 << 30)
    print("seed", seed)
    chance, target = random.Random(seed), tmp_path / "backups"
    with ReplicaSet(tmp_path / "data") as member, pymongo.MongoClient(member.uri) as client:
        model = Model(client, seed)
        client.db.create_collection("c")
        client.db.create_collection("d", storageEngine={"lmdb": {}})
        model.write()
        succeeds("create", "--uri", member.uri, "--to", target)
        running = archive(member.uri, target)
        begun = time.time()
        while time.time() - begun < 14:
            for _ in range(chance.randrange(1, 30)):
                model.write()
            # Seconds with few writes, kills of the archive and of the server, another full backup.
            match chance.randrange(12):
                case 0:
                    ended(running)
                    running = archive(member.uri, target)
                case 1:
                    member.kill()
                    member.start()
                case 2:
                    client.db.c.create_index([("n", chance.choice([1, -1]))])
                case 3 if time.time() - begun > 5:
                    succeeds("create", "--uri", member.uri, "--to", target)
            time.sleep(chance.random() * 0.5)
        model.write()
        last = model.states[-1][0]
        wait_for_archive(target, last)
        ended(running)
    first = model.states[0][0]
    points = [Timestamp(chance.randrange(first.time + 1, last.time + 1), 0) for _ in range(10)]
    points += [chance.choice(model.states)[0] for _ in range(9)] + [last]
    for number, point in enumerate(points):
        text = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(point.time)) if point.inc == 0 else f"{point.time},{point.inc}"
        with restored(target, tmp_path / f"restored{number}", "--time", text) as server, pymongo.MongoClient(server.uri) as client:
            assert {"c": {}, "d": {}} | rows(client) == model.at(point), (seed, point)
            assert "lmdb" in client.db.d.options()["storageEngine"]
            for name in ("c", "d"):
                report = client.db.validate_collection(name, full=True)
                assert report["valid"], report
    # What is not there is named with what is.
    for text in (f"{first.time - 3600},1", f"{last.time + 3600},1"):
        output = refused("restore", "--from", target, "--time", text, "--dbpath", tmp_path / "no")
        assert "it has " in output and "(position" in output and not (tmp_path / "no").exists(), output
    assert "log ok" in succeeds("verify", "--from", target, "--restore", "--scratch", tmp_path)


def test_kills_of_a_server_under_load_and_of_its_backups(tmp_path):
    """Whatever is killed, the archive continues without a gap, and its end is a state that was."""
    target = tmp_path / "backups"
    with ReplicaSet(tmp_path / "data") as member, pymongo.MongoClient(member.uri, retryWrites=True) as client:
        client.db.create_collection("tree")
        client.db.create_collection("pages", storageEngine={"lmdb": {}})
        client.db.create_collection("capped", capped=True, size=20_000)
        client.db.tree.insert_many([{"_id": n, "n": 0, "text": "x" * 100} for n in range(2000)])
        succeeds("create", "--uri", member.uri, "--to", target)
        running = archive(member.uri, target)
        for turn in range(6):
            writers = Writers(member.uri)
            for thread in writers.threads:
                thread.start()
            time.sleep(1)
            if turn % 2:
                member.kill()
                writers.stopped.set()
                member.start()
            else:
                ended(running)
                running = archive(member.uri, target)
            # Writers may have an error of the kill.
            writers.stopped.set()
            for thread in writers.threads:
                thread.join(60)
        now = client.admin.command("ping")["operationTime"]
        wait_for_archive(target, now)
        assert "another process archives" in refused("create", "--incremental", "--uri", member.uri, "--to", target)
        ended(running)
        expected = hashes(client)
    with restored(target, tmp_path / "restored", set_of_one=True) as server, pymongo.MongoClient(server.uri) as client:
        assert hashes(client) == expected
        client.db.tree.insert_one({"_id": "after"})
        for name in ("tree", "pages", "capped"):
            assert client.db.validate_collection(name, full=True)["valid"]


def test_incremental_backups_of_a_server_alone(tmp_path):
    target = tmp_path / "backups"
    with Arbor(tmp_path / "data") as server, pymongo.MongoClient(server.uri) as client:
        client.db.c.insert_many([{"_id": n, "bytes": os.urandom(1000)} for n in range(3000)])
        assert "position" in succeeds("create", "--incremental", "--uri", server.uri, "--to", target)
        full = sum(path.stat().st_size for path in target.rglob("*.rows"))
        client.db.c.update_many({"_id": {"$lt": 30}}, {"$set": {"changed": True}})
        first = hashes(client)
        output = succeeds("create", "--incremental", "--uri", server.uri, "--to", target)
        position = int(re.search(r"positions \d+ to (\d+)", output)[1])
        assert sum(path.stat().st_size for path in target.rglob("*.log")) < full / 20
        # An index and a change of the engine fill trees past the log.
        client.db.c.create_index("changed")
        client.db.command("collMod", "c", storageEngine={"lmdb": {}})
        client.db.gone.insert_one({})
        client.db.gone.drop()
        client.other.kept.insert_one({"_id": 1})
        client.db.measured.drop()
        client.db.create_collection("measured", timeseries={"timeField": "t", "metaField": "m"})
        client.db.create_collection("view", viewOn="c", pipeline=[])
        succeeds("create", "--incremental", "--uri", server.uri, "--to", target)
        assert "nothing was written" in succeeds("create", "--incremental", "--uri", server.uri, "--to", target)
        second = hashes(client)
    with restored(target, tmp_path / "one", "--position", position) as server, pymongo.MongoClient(server.uri) as client:
        assert hashes(client) == first
        assert client.db.list_collection_names() == ["c"]
    with restored(target, tmp_path / "two") as server, pymongo.MongoClient(server.uri) as client:
        assert hashes(client) == second
        assert client.db.c.count_documents({"changed": True}, hint="changed_1") == 30
        assert "lmdb" in client.db.c.options()["storageEngine"]
        assert client.db.validate_collection("c", full=True)["valid"]
    # One collection, and one database.
    with restored(target, tmp_path / "three", "--only", "db.c") as server, pymongo.MongoClient(server.uri) as client:
        assert client.db.list_collection_names() == ["c"] and "other" not in client.list_database_names()
        assert hashes(client)["c"] == second["c"]
    with restored(target, tmp_path / "four", "--only", "other") as server, pymongo.MongoClient(server.uri) as client:
        assert client.other.kept.find_one() == {"_id": 1} and "db" not in client.list_database_names()
    assert "none of db.no" in refused("restore", "--from", target, "--only", "db.no", "--dbpath", tmp_path / "five")
    # The trees that were filled are of the time of the increment: the positions before are named.
    load = sorted(target.glob("log/load-*"))[0]
    output = refused("restore", "--from", target, "--position", int(load.name.split("-")[1]), "--dbpath", tmp_path / "six")
    assert "cannot be restored" in output and "were read at" in output and not (tmp_path / "six").exists(), output


@pytest.fixture
def archived(tmp_path):
    """A server with a backup and five increments."""
    target = tmp_path / "backups"
    with Arbor(tmp_path / "data") as server, pymongo.MongoClient(server.uri) as client:
        succeeds("create", "--uri", server.uri, "--to", target)
        for number in range(5):
            client.db.c.insert_many([{"_id": 100 * number + n, "bytes": os.urandom(100)} for n in range(100)])
            succeeds("create", "--incremental", "--uri", server.uri, "--to", target)
        yield server, client, target


def test_damage_and_gaps_of_the_log_are_named(archived, tmp_path):
    server, client, target = archived
    files = sorted(target.glob("log/*.log"))
    assert len(files) == 5

    def problems():
        verified = refused("verify", "--from", target)
        output = refused("restore", "--from", target, "--dbpath", tmp_path / "into")
        assert not (tmp_path / "into").exists()
        return verified, output

    whole = files[2].read_bytes()
    for at in (2, 20, 70, 90, len(whole) // 2, len(whole) - 1):
        damaged = bytearray(whole)
        damaged[at] ^= 0x10
        files[2].write_bytes(damaged)
        assert all(files[2].name in text for text in problems()), at
    files[2].unlink()
    first, last = int(files[2].stem), int(files[3].stem) - 1
    assert all(f"positions {first} to {last} are missing" in text for text in problems()), problems()
    # What is before the gap is there.
    with restored(target, tmp_path / "before", "--position", first - 1) as other, pymongo.MongoClient(other.uri) as found:
        assert found.db.c.count_documents({}) == 200
    assert "a gap" in refused("restore", "--from", target, "--position", last + 1, "--dbpath", tmp_path / "into")
    # Cut short: as a killed process leaves it.
    files[2].write_bytes(whole)
    files[4].write_bytes(files[4].read_bytes()[: files[4].stat().st_size // 2])
    with restored(target, tmp_path / "cut") as other, pymongo.MongoClient(other.uri) as found:
        assert found.db.c.count_documents({}) == 400
    succeeds("create", "--incremental", "--uri", server.uri, "--to", target)
    with restored(target, tmp_path / "again") as other, pymongo.MongoClient(other.uri) as found:
        assert hashes(found) == hashes(client)
    assert "log ok" in succeeds("verify", "--from", target)
    # Old parts of the log go with the backups before them.
    succeeds("create", "--uri", server.uri, "--to", target)
    assert "of the log removed" in succeeds("prune", "--from", target, "--keep", 1)
    with restored(target, tmp_path / "pruned") as other, pymongo.MongoClient(other.uri) as found:
        assert hashes(found) == hashes(client)


def test_another_deployment_and_a_target_without_a_backup(archived, tmp_path):
    _, _, target = archived
    with Arbor(tmp_path / "other") as other:
        assert "another deployment" in refused("create", "--incremental", "--uri", other.uri, "--to", target)
        (tmp_path / "empty").mkdir()
        assert "has no backup" in refused("archive", "--uri", other.uri, "--to", tmp_path / "empty")


def test_the_archive_of_a_set_continues_with_another_primary(tmp_path):
    target = tmp_path / "backups"
    with initiated(tmp_path / "set") as (members, client):
        db = client.get_database("db", write_concern=pymongo.WriteConcern(3))
        db.c.insert_many([{"_id": n} for n in range(100)])
        succeeds("create", "--uri", members.uri, "--to", target)
        running = archive(members.uri, target)
        db.c.create_index("x")
        primary_of(members).kill()
        for n in range(100, 200):
            client.get_database("db", write_concern=pymongo.WriteConcern(2)).c.insert_one({"_id": n})
        wait_for_archive(target, client.admin.command("ping")["operationTime"])
        running.terminate()
        assert running.wait(60) == 0, "a signal ends it, all that was archived stays"
        expected = hashes(client)
    with restored(target, tmp_path / "restored") as server, pymongo.MongoClient(server.uri) as client:
        assert hashes(client) == expected
