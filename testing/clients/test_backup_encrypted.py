"""Encrypted backups: nothing of the data is readable in the target, and only the key restores it. Retention by time."""

import time

import pymongo
import pytest

from arbor_process import Arbor, ReplicaSet
from test_backup import refused, succeeds
from test_backup_log import Model, archive, ended, hashes, restored, rows, wait_for_archive

SECRET = "a very secret text that compression cannot hide " * 40


@pytest.fixture
def key(tmp_path):
    path = tmp_path / "key"
    path.write_text("0123456789abcdef" * 4 + "\n")
    return path


def files(target):
    return [path for path in target.rglob("*") if path.is_file()]


def test_an_encrypted_target_shows_nothing_and_restores_any_time(tmp_path, key):
    target, encrypted = tmp_path / "backups", ["--key-file", key]
    with ReplicaSet(tmp_path / "data") as member, pymongo.MongoClient(member.uri) as client:
        client.db.create_collection("c")
        client.db.create_collection("d")
        client.db.secrets.insert_many([{"_id": f"id-of-secret-{n}", "text": SECRET} for n in range(200)])
        model = Model(client, 3)
        model.write()
        name = succeeds("create", "--uri", member.uri, "--to", target, *encrypted).split()[0]
        for _ in range(60):
            model.write()
        succeeds("create", "--incremental", "--uri", member.uri, "--to", target, *encrypted)
        # trees past the log, and the continuous archive, interrupted twice
        client.db.secrets.create_index("text")
        for _ in range(2):
            running = archive(member.uri, target, *encrypted)
            for _ in range(40):
                model.write()
            wait_for_archive(target, model.states[-1][0], options=encrypted)
            ended(running)
        expected = hashes(client)
        found = files(target)
        assert len(found) > 8 and any(path.suffix == ".log" for path in found)
        for path in found:
            content = path.read_bytes()
            for plain in (b"id-of-secret", b"very secret", b"db.secrets", b"ARBORROW", b"\x28\xb5\x2f\xfd", b'"checksum"'):
                assert plain not in content, (path, plain)

        assert "is encrypted: --key-file names" in refused("list", "--from", target)
        for option in ([], ["--incremental"]):
            assert "is encrypted" in refused("create", "--uri", member.uri, "--to", target, *option)
        other = tmp_path / "other"
        other.write_text("00" * 32)
        for arguments in (
            ["create", "--uri", member.uri, "--to", target],
            ["create", "--incremental", "--uri", member.uri, "--to", target],
            ["archive", "--uri", member.uri, "--to", target],
            ["restore", "--from", target, "--dbpath", tmp_path / "no"],
            ["verify", "--from", target],
            ["list", "--from", target],
            ["prune", "--from", target, "--keep", 1],
        ):
            assert "another key than that of --key-file" in refused(*arguments, "--key-file", other), arguments
        other.write_text("a password")
        assert "64 hexadecimal digits" in refused("list", "--from", target, "--key-file", other)
        assert not (tmp_path / "no").exists() and files(target) == found

    assert "log ok" in succeeds("verify", "--from", target, "--restore", "--scratch", tmp_path, *encrypted)
    moment, contents = model.states[30]
    at = f"{moment.time},{moment.inc}"
    with restored(target, tmp_path / "then", "--time", at, *encrypted) as server, pymongo.MongoClient(server.uri) as client:
        found = rows(client)
        assert {name: found[name] for name in contents} == contents
    with restored(target, tmp_path / "now", *encrypted) as server, pymongo.MongoClient(server.uri) as client:
        assert hashes(client) == expected and client.db.secrets.find_one({"_id": "id-of-secret-7"})["text"] == SECRET

    # damage is found, and a file does not take the place of another one
    for path in [max((target / name).glob("tree-*.rows"), key=lambda path: path.stat().st_size), *(target / "log").glob("*.log")]:
        whole = path.read_bytes()
        changed = bytearray(whole)
        changed[len(whole) // 2] ^= 1
        for damaged in (bytes(changed), whole[:-1]):
            path.write_bytes(damaged)
            # what a killed process leaves at the end of the log is passed over
            if path.suffix != ".log" or len(damaged) == len(whole):
                assert str(path) in refused("verify", "--from", target, *encrypted), path
        path.write_bytes(whole)
    trees = sorted((target / name).glob("tree-*.rows"))
    first, second = trees[0].read_bytes(), trees[1].read_bytes()
    trees[0].write_bytes(second)
    assert str(trees[0]) in refused("verify", "--from", target, *encrypted)
    trees[0].write_bytes(first)


def test_a_target_that_is_not_encrypted_takes_no_key(tmp_path, key):
    target = tmp_path / "backups"
    with Arbor(tmp_path / "data") as server, pymongo.MongoClient(server.uri) as client:
        client.db.c.insert_one({"_id": 1})
        succeeds("create", "--uri", server.uri, "--to", target)
        for arguments in (["create", "--uri", server.uri, "--to", target], ["restore", "--from", target, "--dbpath", tmp_path / "no"]):
            assert "is not encrypted" in refused(*arguments, "--key-file", key)


def test_prune_by_days_keeps_all_seconds_of_these_days(tmp_path):
    target = tmp_path / "backups"
    with ReplicaSet(tmp_path / "data") as member, pymongo.MongoClient(member.uri) as client:
        model = Model(client, 5)
        client.db.create_collection("c")
        client.db.create_collection("d")
        model.write()
        names = []
        for _ in range(3):
            names.append(succeeds("create", "--uri", member.uri, "--to", target).split()[0])
            for _ in range(20):
                model.write()
            succeeds("create", "--incremental", "--uri", member.uri, "--to", target)
            time.sleep(1.1)
    assert "required" in refused("prune", "--from", target)
    # all of them are of today
    assert "removed" not in succeeds("prune", "--from", target, "--keep-days", 1, "--keep", 1)
    listed = succeeds("list", "--from", target)
    assert all(name in listed for name in names)
    moment, contents = model.states[5]
    with restored(target, tmp_path / "then", "--time", f"{moment.time},{moment.inc}") as server, pymongo.MongoClient(server.uri) as client:
        found = rows(client)
        assert {name: found[name] for name in contents} == contents
    assert names[0] in succeeds("prune", "--from", target, "--keep", 2)
    moment, contents = model.states[25]
    with restored(target, tmp_path / "later", "--time", f"{moment.time},{moment.inc}") as server, pymongo.MongoClient(server.uri) as client:
        found = rows(client)
        assert {name: found[name] for name in contents} == contents
