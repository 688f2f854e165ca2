"""The archive of a sharded cluster: all logs all the time, points at an interval, whatever is killed and however many shards there are."""

import contextlib
import os
import re
import signal
import subprocess
import time

import bson
import pymongo

from arbor_cluster import Cluster, Member, Router, Several
from cluster_backups import Load, Restored, check_log, prepare, settled
from test_backup import refused, succeeds
from test_backup_s3 import Store

LIMIT_S = 120


class Mixed(Cluster):
    """A cluster whose first shard has three members, with two routers."""

    def __init__(self, directory, stack):
        self.directory = directory
        self.config = stack.enter_context(Member(directory, "cfg", "--configsvr"))
        self.config.initiate()
        self.several = stack.enter_context(Several(directory, "s0", "--shardsvr", 3))
        self.shards = [self.several]
        with self.primary() as client:
            client.admin.command("replSetInitiate", self.several.members.config())
        for name in ("s1", "s2"):
            self.shards.append(stack.enter_context(Member(directory, name, "--shardsvr")))
            self.shards[-1].initiate()
        self.routers = [stack.enter_context(Router(directory, self.config)) for _ in range(2)]
        with self.routers[0].client() as client:
            for shard in self.shards:
                assert client.admin.command("addShard", shard.hosts)["shardAdded"] == shard.name

    def primary(self):
        return pymongo.MongoClient("127.0.0.1", self.several.members.members[0].port, directConnection=True)


def time_of(cluster):
    """A time that is not before that of any commit that was acknowledged."""
    times = []
    for router in cluster.routers:
        with router.client() as asked:
            times.append(asked.bank.command("ping")["$clusterTime"]["clusterTime"])
    return max(times)


class Archive:
    def __init__(self, cluster, target, log=None, environment=None):
        self.log, self.environment = log or target.parent / "archive.log", environment
        self.command = [os.environ["ARBOR"], "backup", "archive", "--uri", cluster.routers[1].uri, "--to", str(target), "--interval", "1"]
        self.start()

    def start(self):
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(self.command, stdout=log, stderr=log, env=self.environment)

    def said(self):
        return self.log.read_text()

    def end(self, how):
        self.process.send_signal(how)
        return self.process.wait(timeout=60)


def until(condition, what):
    end = time.monotonic() + LIMIT_S
    while not (value := condition()):
        assert time.monotonic() < end, what()
        time.sleep(0.1)
    return value


def is_primary(member):
    with pymongo.MongoClient("127.0.0.1", member.port, directConnection=True) as client:
        return client.admin.command("hello")["isWritablePrimary"]


def newest(target, run=succeeds):
    return newest_of(run("list", "--from", target))


def newest_of(output):
    """The number of shards of the newest point, and its time."""
    found = re.findall(r"^\S+ cluster \w+: (\d+) shards, time \S+ \((\d+),(\d+)\)$", output, re.MULTILINE)
    if not found:
        return 0, bson.Timestamp(0, 0)
    shards, seconds, counter = map(int, found[-1])
    return shards, bson.Timestamp(seconds, counter)


def test_a_cluster_is_archived_whatever_is_killed_and_added(tmp_path):
    target, moments = tmp_path / "backups", []
    with contextlib.ExitStack() as stack:
        cluster = Mixed(tmp_path, stack)
        client = stack.enter_context(cluster.routers[0].client())
        prepare(client)
        archive = Archive(cluster, target)
        stack.callback(lambda: archive.process.kill())

        def archived(moment, shards=3):
            def is_there():
                assert archive.process.poll() is None, archive.said()
                found, reached = newest(target)
                return found == shards and reached >= moment

            until(is_there, lambda: archive.said() + succeeds("list", "--from", target))

        until(target.exists, archive.said)
        archived(bson.Timestamp(1, 0))

        def note(load):
            load.wait_for(10, 1)
            before = load.acknowledged()
            moments.append((time_of(cluster), before, list(load.tried)))
            load.wait_for(3, 0)

        with Load(cluster, 1, killed=True) as load:
            note(load)
            archive.end(signal.SIGKILL)
            note(load)
            archive.start()
            archived(moments[-1][0])
            # a fail-over, and the death of a primary that is alone
            members = cluster.several.members
            victim = next(member for member in members.members if is_primary(member))
            victim.kill()
            note(load)
            victim.start()
            cluster.shards[1].kill()
            cluster.shards[1].start()
            note(load)
            archived(moments[-1][0])
            # a full backup of all sets is made while the archive continues
            _, full = newest_of(succeeds("create", "--uri", cluster.routers[0].uri, "--to", target))
            assert full > moments[-1][0]
            assert all(len(list((target / name).glob("2*"))) == 2 for name in ("config", "shard-s0", "shard-s1", "shard-s2"))
            note(load)
            archived(moments[-1][0])
        # a shard comes, and goes
        fourth = stack.enter_context(Member(tmp_path, "s3", "--shardsvr"))
        fourth.initiate()
        client.admin.command("addShard", fourth.hosts)
        archived(time_of(cluster), shards=4)
        assert "shard-s3 was added to the cluster" in archive.said()
        between = newest(target)[1]
        until(lambda: client.admin.command("removeShard", "s3")["state"] == "completed", archive.said)
        gone = time_of(cluster)
        archived(gone)
        assert "shard-s3 was removed from the cluster" in archive.said()
        client.bank.log.insert_one({"_id": "last", "from": 0, "to": 0})
        client.bank.accounts.update_one({"_id": 0}, {"$inc": {"writes": 2}})
        last = time_of(cluster)
        archived(last)
        assert archive.end(signal.SIGTERM) == 0, archive.said()
        assert "the archive ends at position" in archive.said() and "panicked" not in archive.said()
        archive.start()
        archived(time_of(cluster))
        assert archive.end(signal.SIGINT) == 0, archive.said()
    succeeds("verify", "--from", target)
    text = f"{between.time},{between.inc + 1}"
    assert "added or removed" in refused("restore", "--from", target, "--dbpath", tmp_path / "no", "--time", text)
    for number in (1, 2, 4):
        moment, before, tried = moments[number]
        with contextlib.ExitStack() as stack:
            restored = Restored(succeeds, target, tmp_path / f"new-{number}", stack, "--time", f"{moment.time},{moment.inc}")
            with restored.routers[0].client() as client:
                check_log(settled(client), 1, before, tried)
    with contextlib.ExitStack() as stack:
        restored = Restored(succeeds, target, tmp_path / "newest", stack)
        with restored.routers[0].client() as client:
            assert "last" in settled(client)


def test_a_cluster_is_archived_in_an_object_store(tmp_path):
    target = "s3://bucket/of the/cluster"
    with contextlib.ExitStack() as stack:
        store = stack.enter_context(Store(tmp_path))
        with contextlib.ExitStack() as source:
            cluster = Cluster(tmp_path / "source", source, shards=3)
            client = source.enter_context(cluster.routers[0].client())
            prepare(client)
            begun = time.monotonic()
            archive = Archive(cluster, target, tmp_path / "archive.log", store.environment())
            source.callback(lambda: archive.process.kill())

            def archived(moment):
                def is_there():
                    assert archive.process.poll() is None, archive.said()
                    status, output = store.run("list", "--from", target)
                    return status == 0 and newest_of(output)[1] >= moment

                until(is_there, archive.said)

            with Load(cluster, 1) as load:
                archived(bson.Timestamp(1, 0))
                load.wait_for(10, 1)
                # a kill at any moment leaves what the next one continues
                archive.end(signal.SIGKILL)
                before = load.acknowledged()
                moment, tried = time_of(cluster), list(load.tried)
                load.wait_for(5, 1)
                archive.start()
                archived(moment)
            archived(time_of(cluster))
            assert archive.end(signal.SIGTERM) == 0 and "panicked" not in archive.said(), archive.said()
        # one of each set in two seconds, and a few where an archive begins and ends
        objects = [key for key in store.keys("of the/cluster/") if key.endswith(".log")]
        assert len(objects) <= len(cluster.shards + [cluster.config]) * ((time.monotonic() - begun) / 2 + 8), len(objects)
        names = {key.split("/")[2] for key in store.keys("of the/cluster/")}
        assert names >= {"config", "points", "shard-s0", "shard-s1", "shard-s2"}, names
        store.succeeds("verify", "--from", target)
        restored = Restored(store.succeeds, target, tmp_path / "then", stack, "--time", f"{moment.time},{moment.inc}")
        with restored.routers[0].client() as client:
            check_log(settled(client), 1, before, tried)
