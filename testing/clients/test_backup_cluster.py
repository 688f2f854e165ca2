"""Backups of a sharded cluster at one time, while chunks move and transactions write to several shards: the restored cluster is the old one
as it was at that time."""

import contextlib
import re
import shutil
import time

import bson

from arbor_cluster import Cluster
from cluster_backups import ACCOUNTS, NAMESPACE, SETTLED_S, Load, Restored, check_log, insist, prepare, settled
from test_backup import refused, succeeds


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
