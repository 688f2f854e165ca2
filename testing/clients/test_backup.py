"""`arbor backup`: a state of a running server at one commit position, found whole again; what is damaged or in the wrong place is named."""

import json
import os
import resource
import shutil
import signal
import subprocess
import threading

import pymongo
import pytest
from bson import Timestamp
from pymongo.errors import OperationFailure

from arbor_process import Arbor, ReplicaSet
from test_members import initiated, primary_of

SNAPSHOT_TOO_OLD = 239


def backup(*arguments, **more):
    command = [os.environ["ARBOR"], "backup", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, **more)


def succeeds(*arguments, **more):
    done = backup(*arguments, **more)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def refused(*arguments, **more):
    done = backup(*arguments, **more)
    assert done.returncode not in (0, 101), done.stdout + done.stderr
    return done.stdout + done.stderr


def manifest(target, name):
    return json.loads((target / name / "manifest.json").read_text())


def fill(client):
    """Collections on two engines, with all that a catalogue holds."""
    db = client.db
    db.create_collection("tree")
    db.create_collection("pages", storageEngine={"lmdb": {}})
    for name in ("tree", "pages"):
        db[name].insert_many([{"_id": n, "n": n % 7, "tags": ["a", n], "text": "x" * 100} for n in range(2000)])
        db[name].create_index([("n", 1), ("_id", -1)])
        db[name].create_index("tags")
    db.create_collection("capped", capped=True, size=20_000)
    db.capped.insert_many([{"_id": n, "x": "y" * 100} for n in range(400)])
    db.create_collection("seen", viewOn="tree", pipeline=[{"$match": {"n": 1}}])
    db.create_collection("measured", timeseries={"timeField": "t", "metaField": "m"})
    client.other.empty.create_index("x", unique=True)


def state(database, time=None):
    """The documents of the collections, now or at a time."""
    concern = {"readConcern": {"level": "snapshot", "atClusterTime": time}} if time else {}
    shown = {}
    for name in ("tree", "pages", "capped"):
        order = {"$natural": 1} if name == "capped" else {"_id": 1}
        found = database.command("find", name, sort=order, batchSize=1_000_000, **concern)
        assert found["cursor"]["id"] == 0, "one batch has them all"
        shown[name] = found["cursor"]["firstBatch"]
    return shown


def check_restored(client):
    db = client.db
    assert set(db.list_collection_names()) >= {"tree", "pages", "capped", "seen", "measured"}
    for name in ("tree", "pages", "capped"):
        report = db.validate_collection(name, full=True)
        assert report["valid"] and not report["errors"], report
    assert "lmdb" in db.pages.options()["storageEngine"]
    assert set(db.tree.index_information()) == set(db.pages.index_information()) == {"_id_", "n_1__id_-1", "tags_1"}
    assert db.tree.count_documents({"n": 3}, hint="n_1__id_-1") == sum(doc["n"] == 3 for doc in db.tree.find())
    assert db.seen.count_documents({}) == db.tree.count_documents({"n": 1})
    assert db.capped.options()["capped"] and client.other.empty.index_information()["x_1"]["unique"]


class Writers:
    """Transactions over both engines, and plain writes, until the end."""

    def __init__(self, uri):
        self.uri = uri
        self.stopped = threading.Event()
        self.errors = []
        self.threads = [threading.Thread(target=self.run, args=(number,)) for number in range(2)]

    def run(self, number):
        try:
            with pymongo.MongoClient(self.uri) as client:
                for turn in range(10_000_000):
                    if self.stopped.is_set():
                        return
                    self.write(client, number, turn)
        except Exception as error:  # noqa: BLE001
            self.errors.append(error)

    @staticmethod
    def write(client, number, turn):
        db, own = client.db, f"{number}-{turn}"
        with client.start_session() as session:
            def both(session):
                db.tree.insert_one({"_id": own, "n": turn % 7}, session=session)
                db.pages.insert_one({"_id": own, "n": turn % 7}, session=session)
            session.with_transaction(both)
        db.tree.update_one({"_id": turn % 2000}, {"$inc": {"n": 1}})
        db.pages.delete_one({"_id": f"{number}-{turn - 20}"})
        db.tree.delete_one({"_id": f"{number}-{turn - 20}"})
        db.capped.insert_one({"_id": own, "x": "y" * 100})

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.stopped.set()
        for thread in self.threads:
            thread.join()
        assert not self.errors, self.errors


def backed_up(member, client, target):
    """A backup under writes, with the state that the server itself shows at its position. That may be too old by then, on a busy machine."""
    for _ in range(20):
        name = succeeds("create", "--uri", member.direct_uri, "--to", target).split()[0]
        time = manifest(target, name)["time"]
        try:
            return name, state(client.db, Timestamp(time >> 32, time & 0xFFFFFFFF))
        except OperationFailure as error:
            assert error.code == SNAPSHOT_TOO_OLD, error
    pytest.fail("no backup was done within the window of past states")


def test_a_backup_under_writes_is_the_state_at_its_position(tmp_path):
    target = tmp_path / "backups"
    with ReplicaSet(tmp_path / "data") as member, pymongo.MongoClient(member.uri) as client:
        fill(client)
        with Writers(member.uri):
            name, expected = backed_up(member, client, target)
            second, _ = backed_up(member, client, target)
        assert client.db.tree.count_documents({}) > 2000
    listed = succeeds("list", "--from", target).splitlines()
    assert [line.split()[0] for line in listed][-1] == second and "rs0" in listed[-1], listed
    own = manifest(target, name)
    assert {"ns": "db.seen"} in own["collections"]
    assert {listed["ns"]: listed.get("engine") for listed in own["collections"]}["db.pages"] == "lmdb"
    assert f"{name} ok" in succeeds("verify", "--from", target, "--backup", name, "--restore", "--scratch", tmp_path)
    succeeds("restore", "--from", target, "--backup", name, "--dbpath", tmp_path / "restored")
    # Alone, and as a set of its own.
    with Arbor(tmp_path / "restored") as restored, pymongo.MongoClient(restored.uri) as client:
        assert state(client.db) == expected
        check_restored(client)
        hashes = client.db.command("dbHash")["collections"]
    with ReplicaSet(tmp_path / "restored") as restored, pymongo.MongoClient(restored.uri) as client:
        assert client.db.command("dbHash")["collections"] == hashes
        client.db.tree.insert_one({"_id": "after"})
        assert client.local["oplog.rs"].find_one({"o._id": "after"})
    # And again after a kill.
    restored.start()
    restored.kill()
    with restored, pymongo.MongoClient(restored.uri) as client:
        assert client.db.tree.find_one({"_id": "after"})
    assert len(succeeds("prune", "--from", target, "--keep", 1).splitlines()) == len(listed) - 1
    assert [line.split()[0] for line in succeeds("list", "--from", target).splitlines()] == [second]
    assert "ok" in succeeds("verify", "--from", target)


@pytest.mark.parametrize("home", ["ftree", "lmdb"])
def test_a_server_alone(tmp_path, home):
    target = tmp_path / "backups"
    flags = ["--storageEngine", home]
    with Arbor(tmp_path / "data", flags) as server, pymongo.MongoClient(server.uri) as client:
        fill(client)
        expected = state(client.db)
        name = succeeds("create", "--uri", server.uri, "--to", target, "--limit", 100).split()[0]
        client.db.tree.drop()
    assert manifest(target, name)["home"] == home
    (tmp_path / "restored").mkdir()
    succeeds("restore", "--from", target, "--dbpath", tmp_path / "restored")
    with Arbor(tmp_path / "restored", flags) as restored, pymongo.MongoClient(restored.uri) as client:
        assert state(client.db) == expected
        check_restored(client)
        # A restored directory is a deployment of its own.
        assert "another deployment" in refused("create", "--uri", restored.uri, "--to", target)
        succeeds("create", "--uri", restored.uri, "--to", tmp_path / "others")


def test_a_secondary_is_taken_and_any_member_is_of_the_deployment(tmp_path):
    target = tmp_path / "backups"
    with initiated(tmp_path / "set") as (members, client):
        primary = primary_of(members)
        client.get_database("db", write_concern=pymongo.WriteConcern(3)).c.insert_many([{"_id": n} for n in range(100)])
        name = succeeds("create", "--uri", members.uri, "--to", target).split()[0]
        assert not manifest(target, name)["host"].endswith(f":{primary.port}")
        name = succeeds("create", "--uri", primary.uri, "--to", target).split()[0]
        assert manifest(target, name)["host"].endswith(f":{primary.port}")
        hashes = client.db.command("dbHash")["collections"]
    succeeds("restore", "--from", target, "--dbpath", tmp_path / "restored")
    with ReplicaSet(tmp_path / "restored") as restored, pymongo.MongoClient(restored.uri) as client:
        assert client.db.command("dbHash")["collections"] == hashes


def test_access_control(tmp_path):
    target = tmp_path / "backups"
    with Arbor(tmp_path / "data", ["--auth"]) as server:
        with pymongo.MongoClient(server.uri) as client:
            client.admin.command("createUser", "root", pwd="root", roles=["root"])
        with pymongo.MongoClient(server.uri, username="root", password="root") as client:
            for role in ("backup", "readAnyDatabase"):
                client.admin.command("createUser", role, pwd="p%20/", roles=[role])
            client.db.c.insert_one({"_id": 1})

        def uri(user):
            return f"mongodb://{user}:p%2520%2F@127.0.0.1:{server.port}/"

        succeeds("create", "--uri", uri("backup"), "--to", target)
        assert "not authorized" in refused("create", "--uri", uri("readAnyDatabase"), "--to", target)
        text = refused("create", "--uri", uri("guest"), "--to", target)
        assert "Authentication failed" in text and "p%20" not in text and "p%2520" not in text
        assert "requires authentication" in refused("create", "--uri", server.uri, "--to", target)
    succeeds("restore", "--from", target, "--dbpath", tmp_path / "restored")
    with Arbor(tmp_path / "restored", ["--auth"]) as server:
        with pymongo.MongoClient(server.uri, username="root", password="root") as client:
            assert client.db.c.find_one() == {"_id": 1}


@pytest.fixture
def one(tmp_path):
    """A running server and a backup of it."""
    target = tmp_path / "backups"
    with Arbor(tmp_path / "data") as server, pymongo.MongoClient(server.uri) as client:
        client.db.c.insert_many([{"_id": n, "bytes": os.urandom(1000)} for n in range(3000)])
        name = succeeds("create", "--uri", server.uri, "--to", target).split()[0]
        yield server, client, target, name


def test_damage_is_named(one, tmp_path):
    server, _, target, name = one
    directory = target / name
    files = sorted(directory.glob("tree-*.rows"))
    largest = max(files, key=lambda path: path.stat().st_size)
    whole = largest.read_bytes()

    def problem():
        into = tmp_path / "into"
        found = refused("verify", "--from", target)
        restored = refused("restore", "--from", target, "--backup", name, "--dbpath", into)
        assert not into.exists(), "nothing is left of what cannot be restored"
        return found, restored

    for at in (3, 9, 40, len(whole) // 2, len(whole) - 1):
        damaged = bytearray(whole)
        damaged[at] ^= 0x10
        largest.write_bytes(damaged)
        for text in problem():
            assert largest.name in text, text
    largest.write_bytes(whole[:-1])
    assert all("the manifest says" in text for text in problem())
    largest.unlink()
    assert all("the file is missing" in text and largest.name in text for text in problem())
    largest.write_bytes(whole)
    assert "ok" in succeeds("verify", "--from", target)

    path = directory / "manifest.json"
    text = path.read_text()
    path.write_text(text.replace('"rows": 3000', '"rows": 3001'))
    assert all("its checksum does not match" in text for text in problem())
    assert "damaged" in succeeds("list", "--from", target)
    path.write_text(text.replace('"format": 1', '"format": 7'))
    assert all("its format is 7" in text and "newer release" in text for text in problem())
    path.write_text("")
    assert all("damaged" in text for text in problem())
    path.unlink()
    assert "incomplete" in refused("verify", "--from", target) and "incomplete" in succeeds("list", "--from", target)
    assert "incomplete" in refused("restore", "--from", target, "--dbpath", tmp_path / "into")
    path.write_text(text)

    # Where it may not go.
    assert "is not empty" in refused("restore", "--from", target, "--dbpath", server.dbpath)
    assert "no backup 2020" in refused("restore", "--from", target, "--backup", "2020", "--dbpath", tmp_path / "into")
    assert "cannot read" in refused("restore", "--from", tmp_path / "nowhere", "--dbpath", tmp_path / "into")
    assert "cannot create" in refused("restore", "--from", target, "--dbpath", tmp_path / "no" / "into")


def test_a_target_that_is_full_or_vanishes_leaves_nothing_and_the_server_works(one, tmp_path):
    server, client, target, name = one

    def small_files():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))

    assert "cannot write" in refused("create", "--uri", server.uri, "--to", target, preexec_fn=small_files)
    assert [path.name for path in target.iterdir()] == [name]
    assert "cannot create" in refused("create", "--uri", server.uri, "--to", tmp_path / "no" / "target")
    assert "Connection refused" in refused("create", "--uri", "127.0.0.1:1", "--to", target)

    for number in range(8):
        client.db[f"c{number}"].insert_many([{"bytes": os.urandom(1000)} for _ in range(1500)])
    vanishing = tmp_path / "vanishing"
    command = [os.environ["ARBOR"], "backup", "create", "--uri", server.uri, "--to", str(vanishing), "--limit", "4"]

    def begun():
        running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        while not list(vanishing.glob("*/tree-*.rows")):
            assert running.poll() is None
        return running

    running = begun()
    # the backup removes what it has begun, at the same time
    shutil.rmtree(vanishing, ignore_errors=True)
    output, _ = running.communicate(timeout=60)
    assert running.returncode not in (0, 101) and str(vanishing) in output, output
    # Killed: what is left is named, and goes.
    shutil.rmtree(vanishing, ignore_errors=True)
    vanishing.mkdir()
    running = begun()
    running.kill()
    running.communicate()
    assert "incomplete" in succeeds("list", "--from", vanishing)
    assert "not finished" in succeeds("prune", "--from", vanishing, "--keep", 1)
    assert not list(vanishing.iterdir())
    assert client.db.c.count_documents({}) == 3000
    assert "ok" in succeeds("verify", "--from", target)
