"""Backups of a sharded cluster at one time, while chunks move and transactions write to several shards: the restored cluster is the old one
as it was at that time."""

import contextlib
import random
import re
import shutil
import threading
import time

import bson
from pymongo.errors import OperationFailure, PyMongoError

from arbor_cluster import Cluster, Member, Router
from test_backup import refused, succeeds

ACCOUNTS, EACH = 60, 100
NAMESPACE = "bank.accounts"
WAIT, LOCKED = 120, 117


class Load:
    """Transfers between accounts of all shards, and moves of chunks, until the end."""

    def __init__(self, cluster, seed):
        self.cluster, self.seed = cluster, seed
        self.stopped, self.problems = threading.Event(), []
        self.transferred, self.moved = [0, 0], 0
        self.threads = [threading.Thread(target=self.keep_on, args=(self.transfer, n)) for n in range(2)]
        self.threads.append(threading.Thread(target=self.keep_on, args=(self.move, 2)))

    def keep_on(self, work, number):
        chance = random.Random(self.seed + number)
        with self.cluster.routers[number % 2].client() as client:
            while not self.stopped.is_set():
                try:
                    work(client, chance, number)
                except PyMongoError as error:
                    # a conflict, or a move while another one runs
                    transient = error.has_error_label("TransientTransactionError") or getattr(error, "code", 0) in (112, 117, 246)
                    if not transient:
                        self.problems.append(repr(error))
                        return

    def transfer(self, client, chance, number):
        source, target = chance.sample(range(ACCOUNTS), 2)
        own = {"_id": f"{self.seed}-{number}-{self.transferred[number]}", "from": source, "to": target}
        with client.start_session() as session, session.start_transaction():
            client.bank.accounts.update_one({"_id": source}, {"$inc": {"n": -1, "writes": 1}}, session=session)
            client.bank.accounts.update_one({"_id": target}, {"$inc": {"n": 1, "writes": 1}}, session=session)
            client.bank.log.insert_one(own, session=session)
        self.transferred[number] += 1

    def move(self, client, chance, _):
        bound = chance.randrange(0, ACCOUNTS, 10)
        to = chance.choice(self.cluster.shards).name
        client.admin.command("moveChunk", NAMESPACE, find={"_id": bound}, to=to)
        self.moved += 1

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.stopped.set()
        for thread in self.threads:
            thread.join()
        assert not self.problems, self.problems


def prepare(client):
    client.admin.command("enableSharding", "bank", primaryShard="s0")
    client.admin.command("shardCollection", NAMESPACE, key={"_id": 1})
    for bound in range(10, ACCOUNTS, 10):
        client.admin.command("split", NAMESPACE, middle={"_id": bound})
    for bound in range(0, ACCOUNTS, 10):
        client.admin.command("moveChunk", NAMESPACE, find={"_id": bound}, to=f"s{bound // 10 % 3}")
    client.bank.accounts.insert_many([{"_id": n, "n": EACH, "writes": 0} for n in range(ACCOUNTS)])
    client.bank.create_collection("log")


def documents(client):
    return {doc["_id"]: doc for doc in client.bank.accounts.find()}, {doc["_id"]: doc for doc in client.bank.log.find()}


def of_log(log):
    """The accounts after the transfers of the log."""
    accounts = {n: {"_id": n, "n": EACH, "writes": 0} for n in range(ACCOUNTS)}
    for doc in log.values():
        for name, by in (("from", -1), ("to", 1)):
            accounts[doc[name]]["n"] += by
            accounts[doc[name]]["writes"] += 1
    return accounts


def point(output):
    """The name of a point, and its time."""
    [(name, seconds, counter)] = re.findall(r"^(\S+) cluster \w+: \d shards, time \S+ \((\d+),(\d+)\)$", output, re.MULTILINE)
    return name, bson.Timestamp(int(seconds), int(counter))


class Restored(Cluster):
    """A cluster on directories that were restored, on other ports."""

    def __init__(self, target, directory, stack, *options):
        directory.mkdir()
        self.directory, self.stack = directory, stack
        self.config = Member(directory, "cfg", "--configsvr")
        self.shards = [Member(directory, f"s{n}", "--shardsvr") for n in range(3)]
        placed = [f"--shard={shard.name}={shard.hosts}" for shard in self.shards]
        self.output = succeeds("restore", "--from", target, "--dbpath", directory / "restored", *placed, *options)
        for member in [self.config, *self.shards]:
            own = "config" if member is self.config else f"shard-{member.name}"
            shutil.move(directory / "restored" / own, member.dbpath)
            stack.enter_context(member)
            member.initiate()
        self.routers = [stack.enter_context(Router(directory, self.config)) for _ in range(2)]


def settled(client):
    """Waits until the routers have completed the transactions that were under way. Returns the log."""
    end = time.monotonic() + WAIT
    while True:
        accounts, log = documents(client)
        if accounts == of_log(log):
            return log
        assert time.monotonic() < end, (accounts, log)
        time.sleep(0.2)


def check(restored, client, before, after):
    """`before` and `after`: transfers of each thread that were done when the backup began, and when it had ended."""
    log = settled(client)
    for number in range(2):
        done = sum(name.startswith(f"1-{number}-") for name in log)
        assert before[number] <= done <= after[number] + 1, (number, before, done, after)
        assert all(f"1-{number}-{turn}" in log for turn in range(done)), "what was done first is there"
    # it works: each chunk moves, once the lock of the move that was under way is old enough, and transactions write to all shards
    for bound in range(0, ACCOUNTS, 10):
        end = time.monotonic() + WAIT
        while True:
            try:
                client.admin.command("moveChunk", NAMESPACE, find={"_id": bound}, to=f"s{bound // 10 % 3}")
                break
            except OperationFailure as error:
                assert error.code == LOCKED and time.monotonic() < end, error
                time.sleep(0.2)
    with Load(restored, 9) as load:
        end = time.monotonic() + WAIT
        while not load.problems and (min(load.transferred) < 5 or load.moved < 2):
            assert time.monotonic() < end
            time.sleep(0.05)
    assert len(settled(client)) >= len(log) + 10
    # every shard has the documents of its own ranges and no others, once what has moved away is deleted
    end = time.monotonic() + WAIT
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
                before, moved = list(load.transferred), load.moved
                options = ["--incremental"] if number else []
                name, _ = point(succeeds("create", "--uri", cluster.routers[1].uri, "--to", target, *options))
                names.append(name)
                done.append((before, list(load.transferred)))
                end = time.monotonic() + WAIT
                while not load.problems and (sum(load.transferred) < sum(done[-1][1]) + 20 or load.moved < moved + 2):
                    assert time.monotonic() < end
                    time.sleep(0.05)
            # a time between two backups that all routers have seen
            before = list(load.transferred)
            times = []
            for router in cluster.routers:
                with router.client() as asked:
                    times.append(asked.bank.command("ping")["$clusterTime"]["clusterTime"])
            between = max(times)
            done.append((before, list(load.transferred)))
            time.sleep(1.1)
        succeeds("create", "--incremental", "--uri", cluster.routers[0].uri, "--to", target)
        # what is wrong is said
        assert "backups of a sharded cluster" in refused("create", "--uri", cluster.shards[0].uri, "--to", target)
        assert "create --incremental" in refused("archive", "--uri", cluster.routers[0].uri, "--to", target)
        succeeds("create", "--uri", cluster.shards[0].uri, "--to", tmp_path / "one")
        assert "backups of one set" in refused("create", "--uri", cluster.routers[0].uri, "--to", tmp_path / "one")
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
            restored = Restored(target, tmp_path / f"new-{number}", stack, *arguments)
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
