"""Backups of a sharded cluster at one time, while chunks move and transactions write to several shards: the restored cluster is the old one
as it was at that time."""

import contextlib
import os
import re
import resource
import secrets
import shutil
import signal
import subprocess
import time
import urllib.parse

import bson

import certificates
from arbor_cluster import Cluster, Member, Router, Several
from cluster_backups import ACCOUNTS, NAMESPACE, SETTLED_S, Load, Restored, check_log, insist, prepare, settled
from test_backup import refused, succeeds
from test_member_security import begin, key_file, of_user, until


def point(output):
    """The name of a point, and its time."""
    [(name, seconds, counter)] = re.findall(r"^(\S+) cluster \w+: \d shards, time \S+ \((\d+),(\d+)\)$", output, re.MULTILINE)
    return name, bson.Timestamp(int(seconds), int(counter))


def check(restored, client, before, tried):
    log = settled(client)
    check_log(log, 1, before, tried)
    # it works: each chunk moves, and transactions write to all shards
    for bound in range(0, ACCOUNTS, 10):
        insist(lambda to=bound: client.admin.command("moveChunk", NAMESPACE, find={"_id": to}, to=f"s{to // 10 % 3}"))
    with Load(restored, 9) as load:
        load.wait_for(10, 2)
    assert len(settled(client)) >= len(log) + 10
    # every shard has the documents of its own ranges and no others, once what has moved away is deleted
    end = time.monotonic() + SETTLED_S
    while True:
        kept = []
        for shard in restored.shards:
            with shard.client() as own:
                kept += [doc["_id"] for doc in own.bank.accounts.find()]
        if sorted(kept) == list(range(ACCOUNTS)):
            break
        assert time.monotonic() < end, sorted(kept)
        time.sleep(0.2)
    assert client.admin.command("checkMetadataConsistency")["cursor"]["firstBatch"] == []


def test_a_cluster_is_restored_to_one_time_while_chunks_move(tmp_path):
    target, names, done = tmp_path / "backups", [], []
    with contextlib.ExitStack() as stack:
        cluster = Cluster(tmp_path, stack, shards=3)
        client = stack.enter_context(cluster.routers[0].client())
        prepare(client)
        with Load(cluster, 1) as load:
            for number in range(3):
                before, options = load.acknowledged(), ["--incremental"] if number else []
                name, _ = point(succeeds("create", "--uri", cluster.routers[1].uri, "--to", target, *options))
                names.append(name)
                done.append((before, list(load.tried)))
                load.wait_for(20, 2)
            # a time between two backups that all routers have seen
            before, times = load.acknowledged(), []
            for router in cluster.routers:
                with router.client() as asked:
                    times.append(asked.bank.command("ping")["$clusterTime"]["clusterTime"])
            between = max(times)
            done.append((before, list(load.tried)))
            load.wait_for(5, 0)
        succeeds("create", "--incremental", "--uri", cluster.routers[0].uri, "--to", target)
        # what is wrong is said
        assert "backups of a sharded cluster" in refused("create", "--uri", cluster.shards[0].uri, "--to", target)
        succeeds("create", "--uri", cluster.shards[0].uri, "--to", tmp_path / "one")
        assert "backups of one set" in refused("create", "--uri", cluster.routers[0].uri, "--to", tmp_path / "one")
        assert "backups of one set" in refused("archive", "--uri", cluster.routers[0].uri, "--to", tmp_path / "one")
        assert "is for sharded clusters" in refused("archive", "--interval", 5, "--uri", cluster.shards[0].uri, "--to", tmp_path / "one")
    listed = succeeds("list", "--from", target)
    assert all(name in listed for name in names) and all(f"shard-s{n}:" in listed for n in range(3))
    assert f"{names[0]} ok" in succeeds("verify", "--from", target)
    for arguments, reason in [
        (["--position", "7"], "a position is of one set"),
        (["--time", "2100-01-01T00:00:00Z"], "the whole cluster up to"),
        (["--time", "2020-01-01T00:00:00Z"], "cannot restore"),
        (["--backup", "none"], "no backup none"),
        (["--only", "bank"], "backups of one set"),
        (["--shard", "s9=s9/h:1"], "no shard s9"),
        (["--shard", "s9"], "NAME=SET/HOST:PORT"),
    ]:
        assert reason in refused("restore", "--from", target, "--dbpath", tmp_path / "no", *arguments), arguments
        assert not (tmp_path / "no").exists()
    # the second point by its name, and a time that is no point
    between = f"{between.time},{between.inc}"
    for number, arguments in [(1, ["--backup", names[1]]), (3, ["--time", between])]:
        with contextlib.ExitStack() as stack:
            restored = Restored(succeeds, target, tmp_path / f"new-{number}", stack, *arguments)
            with restored.routers[0].client() as client:
                check(restored, client, *done[number])


def test_points_are_pruned_with_what_only_they_need(tmp_path):
    target = tmp_path / "backups"
    with contextlib.ExitStack() as stack:
        cluster = Cluster(tmp_path, stack, shards=1)
        client = stack.enter_context(cluster.routers[0].client())
        points = []
        for number in range(4):
            client.db.c.insert_one({"_id": number})
            options = ["--incremental"] if number % 2 else []
            points.append(point(succeeds("create", "--uri", cluster.routers[0].uri, "--to", target, *options)))
    fulls = sorted(path.name for path in (target / "shard-s0").iterdir() if path.name[0] == "2")
    assert len(fulls) == 2
    # the second point needs the first full backup
    assert points[0][0] in succeeds("prune", "--from", target, "--keep", 3)
    assert sorted(path.name for path in (target / "shard-s0").iterdir() if path.name[0] == "2") == fulls
    assert points[1][0] in succeeds("prune", "--from", target, "--keep", 2)
    assert [path.name for path in (target / "shard-s0").iterdir() if path.name[0] == "2"] == fulls[1:]
    assert "removed" not in succeeds("prune", "--from", target, "--keep-days", 1)
    succeeds("verify", "--from", target, "--restore", "--scratch", tmp_path)
    assert "no backup of the whole" not in succeeds("list", "--from", target)
    # a missing file of one shard is found, and named
    shutil.rmtree(target / "shard-s0" / fulls[1])
    output = refused("verify", "--from", target)
    assert "shard-s0" in output and "PROBLEM" in output, output


BACKUP_USER = {"username": "backup", "password": "of the backups"}


class Guarded:
    """A cluster with access control and TLS: a config server, a shard of three members and one of two."""

    def __init__(self, directory, stack):
        authority = certificates.Authority(directory, "authority")
        self.key = key_file(directory / "key", "c2VjcmV0IG9mIHRoZSBzZXQ=")
        own = certificates.flags(authority, authority.sign("server", "IP:127.0.0.1"), "requireTLS", "--tlsAllowConnectionsWithoutCertificates")
        self.flags = ["--keyFile", str(self.key), *own]
        self.tls = {"tls": True, "tlsCAFile": str(authority.ca)}
        self.config = stack.enter_context(Member(directory, "cfg", "--configsvr", self.flags))
        self.config.initiate(**self.tls)
        self.shards = [stack.enter_context(Several(directory, f"s{n}", "--shardsvr", 3 - n, self.flags)) for n in range(2)]
        self.router = stack.enter_context(Router(directory, self.config, self.flags))
        with self.router.client(**self.tls) as local:
            local.admin.command("createUser", "admin", pwd="secret", roles=["root"])
        with self.client() as admin:
            self.add_user(admin)
            for shard in self.shards:
                begin(shard.members, **self.tls)
                with of_user(shard.members, **self.tls) as own:
                    until(lambda: len(own.admin.command("replSetGetStatus")["arbor"]["inSync"]) == len(shard.members.members), "members in sync")
                assert admin.admin.command("addShard", shard.hosts)["shardAdded"] == shard.name
            admin.admin.command("enableSharding", "app", primaryShard="s0")
            admin.admin.command("shardCollection", "app.c", key={"_id": 1})
            admin.admin.command("split", "app.c", middle={"_id": 50})
            admin.admin.command("moveChunk", "app.c", find={"_id": 50}, to="s1")

    @staticmethod
    def add_user(admin):
        admin.admin.command("createUser", BACKUP_USER["username"], pwd=BACKUP_USER["password"], roles=["backup", "clusterMonitor"],
                            writeConcern={"w": "majority"})

    def client(self):
        return self.router.client(username="admin", password="secret", **self.tls)

    def uri(self, password=BACKUP_USER["password"]):
        user = f"{BACKUP_USER['username']}:{urllib.parse.quote(password)}"
        return f"mongodb://{user}@127.0.0.1:{self.router.port}/?authSource=admin&tls=true&tlsCAFile={self.tls['tlsCAFile']}"


def test_shards_of_several_members_with_access_control_tls_and_encryption(tmp_path):
    target, key = tmp_path / "backups", tmp_path / "backup-key"
    key.write_text(secrets.token_hex(32))
    encrypted = ["--key-file", key]
    with contextlib.ExitStack() as stack:
        cluster = Guarded(tmp_path, stack)
        with cluster.client() as admin:
            admin.app.c.insert_many([{"_id": n} for n in range(100)])
            admin.app.command("createUser", "ann", pwd="ann", roles=["readWrite"])
            # The user is known to the router, and not yet to the shards.
            output = refused("create", "--uri", cluster.uri(), "--to", target, *encrypted)
            assert "shard-s" in output and "user admin.backup" in output, output
            for shard in cluster.shards:
                with of_user(shard.members, **cluster.tls) as own:
                    cluster.add_user(own)
            assert "Authentication failed" in refused("create", "--uri", cluster.uri("wrong"), "--to", target, *encrypted)
            first, _ = point(succeeds("create", "--uri", cluster.uri(), "--to", target, *encrypted))
            # All is read from secondaries, where there are some.
            listed = succeeds("list", "--from", target, *encrypted)
            for shard in cluster.shards:
                [port] = re.findall(rf"^\S+ \S+:(\d+) of {shard.name} ", listed, re.MULTILINE)
                with of_user(shard.members, **cluster.tls) as own:
                    assert own.admin.command("hello")["primary"] != f"127.0.0.1:{port}", listed
            # Also with another primary, and while a member is away.
            with of_user(cluster.shards[0].members, **cluster.tls) as own:
                old = cluster.shards[0].members.at(own.admin.command("hello")["primary"])
                old.kill()
                until(lambda: own.admin.command("hello")["primary"] != f"127.0.0.1:{old.port}", "another primary")
            until(lambda: admin.app.c.insert_many([{"_id": n} for n in (-1, 100)]).acknowledged, "writes to both shards")
            succeeds("create", "--incremental", "--uri", cluster.uri(), "--to", target, *encrypted)
        assert "is encrypted" in refused("list", "--from", target)
        succeeds("verify", "--from", target, "--restore", "--scratch", tmp_path, *encrypted)
        tls, flags = cluster.tls, cluster.flags
    for name, options, documents in (("first", ["--backup", first], range(100)), ("newest", [], range(-1, 101))):
        with contextlib.ExitStack() as stack:
            (tmp_path / name).mkdir()
            members = [Member(tmp_path / name, of, "--configsvr" if of == "cfg" else "--shardsvr", flags) for of in ("cfg", "s0", "s1")]
            placed = [f"--shard={member.name}={member.hosts}" for member in members[1:]]
            succeeds("restore", "--from", target, "--dbpath", tmp_path / name / "restored", *placed, *options, *encrypted)
            for member in members:
                shutil.move(tmp_path / name / "restored" / ("config" if member.name == "cfg" else f"shard-{member.name}"), member.dbpath)
                stack.enter_context(member)
                # The users are those that were backed up.
                member.initiate(username="admin", password="secret", **tls)
            router = stack.enter_context(Router(tmp_path / name, members[0], flags))
            with router.client(username="ann", password="ann", authSource="app", **tls) as ann:
                assert sorted(doc["_id"] for doc in ann.app.c.find()) == list(documents)
                ann.app.c.insert_many([{"_id": n} for n in (-100, 200)])


def small_files():
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))


def test_what_is_wrong_with_backups_of_a_cluster_is_said_with_the_set(tmp_path):
    target, into = tmp_path / "backups", tmp_path / "into"
    with contextlib.ExitStack() as stack:
        cluster = Cluster(tmp_path, stack, shards=2)
        uri = cluster.routers[0].uri
        client = stack.enter_context(cluster.routers[0].client())
        client.admin.command("enableSharding", "db", primaryShard="s1")
        client.db.c.insert_many([{"_id": n, "bytes": os.urandom(1000)} for n in range(1500)])
        assert "Connection refused" in refused("create", "--uri", "mongodb://127.0.0.1:1", "--to", target)
        assert "Connection refused" in refused("archive", "--uri", "mongodb://127.0.0.1:1", "--to", target)
        assert "cannot create" in refused("create", "--uri", uri, "--to", tmp_path / "no" / "target")
        # A target that is full has no point, and no backup of the set that did not fit.
        output = refused("create", "--uri", uri, "--to", target, preexec_fn=small_files)
        assert "cannot write" in output and "shard-s1" in output, output
        assert "shard-s1" in refused("archive", "--uri", uri, "--to", target, preexec_fn=small_files)
        assert not list((target / "points").iterdir()) and not list((target / "shard-s1").glob("2*/manifest.json"))
        assert "no backup of the whole cluster" in refused("restore", "--from", target, "--dbpath", into)
        assert "no backup of the whole cluster" in refused("verify", "--from", target)
        # One that vanishes.
        vanishing = tmp_path / "vanishing"
        command = [os.environ["ARBOR"], "backup", "archive", "--uri", uri, "--to", str(vanishing), "--interval", "1"]
        running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        until(lambda: (vanishing / "points").exists() and list((vanishing / "points").iterdir()), "a point")
        vanishing.rename(tmp_path / "vanished")
        client.db.c.insert_one({"_id": "after"})
        output, _ = running.communicate(timeout=60)
        assert running.returncode not in (0, 101, -signal.SIGKILL) and str(vanishing) in output, output

        first, _ = point(succeeds("create", "--uri", uri, "--to", target))
        for number in range(3):
            client.db.c.insert_one({"_id": f"more {number}"})
            last, _ = point(succeeds("create", "--incremental", "--uri", uri, "--to", target))
        # Another cluster.
        (tmp_path / "other").mkdir()
        other = Cluster(tmp_path / "other", stack, shards=1)
        for subcommand in ("create", "archive"):
            assert "of another cluster" in refused(subcommand, "--uri", other.routers[0].uri, "--to", target)
        assert client.db.c.count_documents({}) == 1504
        client.db.c.insert_one({"_id": "the servers work"})
    assert f"{last} ok" in succeeds("verify", "--from", target)

    def problem(*options):
        """What `verify` and `restore` say; nothing is restored."""
        found = refused("verify", "--from", target), refused("restore", "--from", target, "--dbpath", into, *options)
        assert not into.exists()
        return found

    # A directory that is used.
    assert "is not empty" in refused("restore", "--from", target, "--dbpath", cluster.shards[0].dbpath)
    # A gap in the log of one set: it is named, and what is before it is there.
    log = sorted((target / "shard-s1" / "log").glob("*.log"))[1]
    whole = log.read_bytes()
    log.unlink()
    for text in problem():
        assert "shard-s1" in text and "are missing" in text, text
    succeeds("restore", "--from", target, "--dbpath", into, "--backup", first)
    shutil.rmtree(into)
    damaged = bytearray(whole)
    damaged[len(whole) // 2] ^= 1
    log.write_bytes(damaged)
    for text in problem():
        assert "shard-s1" in text and log.name in text, text
    log.write_bytes(whole)
    # Damage of a manifest, of a point, and of a release that is to come.
    [manifest] = (target / "shard-s1").glob("2*/manifest.json")
    for path, reason in ((manifest, "its checksum does not match"), (target / "points" / f"{last}.json", "damaged")):
        text = path.read_text()
        path.write_text(text.replace('"format": 1', '"format": 1 '))
        for said in problem():
            assert str(path) in said and reason in said, said
        path.write_text(text.replace('"format": 1', '"format": 7'))
        for said in problem():
            assert str(path) in said and "its format is 7" in said and "newer release" in said, said
        path.write_text(text)
    # A set that is missing as a whole.
    (target / "shard-s0").rename(tmp_path / "away")
    assert all("shard-s0" in text for text in problem())
    (tmp_path / "away").rename(target / "shard-s0")
    succeeds("restore", "--from", target, "--dbpath", into)
