"""Flags and keys of mongod, TokuMX and Percona Server: what they do, and what the log says about those without effect."""

import json
import os
import re
import subprocess

import pymongo
import pytest
from pymongo.errors import OperationFailure

from arbor_process import Arbor


def log_of(server):
    return [json.loads(line) for line in server.log_path.read_text().splitlines() if line.startswith("{")]


def not_applied(server):
    warnings = [line["attr"] for line in log_of(server) if line["s"] == "W" and "setting" in line.get("attr", {})]
    return {attributes["setting"]: attributes["reason"] for attributes in warnings}


def test_notablescan(tmp_path):
    with Arbor(tmp_path / "data", ["--notablescan"]) as server, pymongo.MongoClient(server.uri) as client:
        collection = client.t.c
        collection.insert_one({"_id": 1, "a": 1})
        for refused in (
            lambda: collection.find_one({"a": 1}),
            lambda: collection.count_documents({"a": 1}),
            lambda: collection.update_one({"a": 1}, {"$set": {"b": 1}}),
            lambda: collection.delete_many({"a": 1}),
        ):
            with pytest.raises(OperationFailure) as caught:
                refused()
            assert caught.value.code == 291
        assert collection.find_one({"_id": 1})["a"] == 1 and len(list(collection.find())) == 1
        collection.create_index("a")
        assert collection.count_documents({"a": 1}) == 1
        client.admin.command({"setParameter": 1, "notablescan": False})
        assert collection.find_one({"b": 1}) is None


def test_the_log_is_redacted(tmp_path):
    flags = ["--redactClientLogData", "--slowms", "0"]
    with Arbor(tmp_path / "data", flags) as server, pymongo.MongoClient(server.uri) as client:
        list(client.t.c.find({"name": "a secret", "list": ["a secret", {"deep": "a secret"}]}))
        with pytest.raises(OperationFailure):
            client.t.command({"find": "c", "filter": {"a": {"$bad": "a secret"}}})
        commands = [line["attr"]["command"] for line in log_of(server) if line["msg"] == "Slow query"]
        (shown,) = [command["filter"] for command in commands if "name" in command.get("filter", {})]
        assert shown == {"name": "###", "list": ["###", {"deep": "###"}]}
        assert "secret" not in server.log_path.read_text()
        client.admin.command({"setParameter": 1, "redactClientLogData": False})
        list(client.t.c.find({"name": "no secret"}))
        assert "no secret" in server.log_path.read_text()


def test_flags_without_effect_are_in_the_log(tmp_path):
    flags = ["--storageEngine", "mmapv1", "--enableMajorityReadConcern", "false", "--fastsync", "--rsMaintenance"]
    flags += ["--inMemorySizeGB", "1", "--PerconaFTEngineCacheSize", "64M", "--PerconaFTEngineLockTimeout", "4000"]
    with Arbor(tmp_path / "data", flags) as server, pymongo.MongoClient(server.uri) as client:
        assert client.admin.command("serverStatus")["storageEngine"]["name"] == "lmdb"
        reasons = not_applied(server)
    assert "lmdb" in reasons["storage.engine"]
    for setting in ("replication.enableMajorityReadConcern", "fastsync", "rsMaintenance", "inMemorySizeGB", "PerconaFTEngineLockTimeout"):
        assert setting in reasons, reasons


def test_majority_read_concern_that_is_on_needs_no_warning(tmp_path):
    with Arbor(tmp_path / "data", ["--enableMajorityReadConcern", "true"]) as server:
        assert "replication.enableMajorityReadConcern" not in not_applied(server)


def test_help_and_version():
    def run(*arguments):
        return subprocess.run([os.environ["ARBOR"], "serve", *arguments], capture_output=True, text=True, check=True).stdout

    version = r"arbor-serve \d+\.\d+\.\d+, commit ([0-9a-f]{40}(-modified)?|unknown), \w+, jemalloc, engines ftree lmdb.*\n"
    assert re.fullmatch(version, run("--version")), run("--version")
    text = run("--help")
    for group in ("Storage:", "Network:", "Replication and sharding:", "WiredTiger:", "Server parameters:"):
        assert f"\n{group}" in text
    for flag in ("--dbpath", "--notablescan", "--PerconaFTCollectionCompression", "--fastsync", "--auth"):
        assert f" {flag} " in text or f" {flag}\n" in text, flag


def test_the_server_presents_itself_as_8_0(tmp_path):
    with Arbor(tmp_path / "data") as server, pymongo.MongoClient(server.uri) as client:
        build = client.admin.command("buildInfo")
        assert build["version"].startswith("8.0.") and build["versionArray"][:2] == [8, 0]
        assert client.admin.command("serverStatus")["version"] == build["version"]
        assert client.admin.command("hello")["maxWireVersion"] == 25
        version = {"getParameter": 1, "featureCompatibilityVersion": 1}
        assert client.admin.command(version)["featureCompatibilityVersion"] == {"version": "8.0"}
        client.admin.command({"setFeatureCompatibilityVersion": "7.0", "confirm": True})
    # a directory that says 7.0 is upgraded by the same command
    with Arbor(tmp_path / "data") as server, pymongo.MongoClient(server.uri) as client:
        assert client.admin.command(version)["featureCompatibilityVersion"] == {"version": "7.0"}
        assert client.admin["system.version"].find_one() == {"_id": "featureCompatibilityVersion", "version": "7.0"}
        with pytest.raises(OperationFailure) as caught:
            client.admin.command({"setFeatureCompatibilityVersion": "8.0"})
        assert caught.value.code == 7369100
        client.admin.command({"setFeatureCompatibilityVersion": "8.0", "confirm": True})
        assert client.admin.command(version)["featureCompatibilityVersion"] == {"version": "8.0"}


def test_updates_with_a_sort(db):
    db.c.insert_many([{"_id": n, "a": n % 3} for n in range(9)])
    assert db.c.update_one({"a": 1}, {"$set": {"b": 1}}, sort={"_id": -1}).modified_count == 1
    assert db.c.replace_one({"a": 2}, {"c": 1}, sort={"_id": -1}).modified_count == 1
    assert db.c.find_one({"b": 1})["_id"] == 7 and db.c.find_one({"c": 1}) == {"_id": 8, "c": 1}
    command = {"bulkWrite": 1, "ops": [{"update": 0, "filter": {"a": 0}, "updateMods": {"$set": {"d": 1}}, "sort": {"_id": -1}}]}
    db.client.admin.command({**command, "nsInfo": [{"ns": f"{db.name}.c"}]})
    assert db.c.find_one({"d": 1})["_id"] == 6
    with pytest.raises(OperationFailure) as caught:
        db.command({"update": "c", "updates": [{"q": {}, "u": {"$set": {"x": 1}}, "multi": True, "sort": {"_id": 1}}]})
    assert caught.value.code == 9
