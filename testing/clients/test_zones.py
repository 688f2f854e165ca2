"""Zones while others change them, or the collections and shards that they are about."""

import contextlib
import threading
import time

import pytest
from pymongo.errors import OperationFailure

from arbor_cluster import Cluster
from test_config_transactions import FAILURES
from test_fail_points import fail_point
from test_router import code_of


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with contextlib.ExitStack() as stack:
        yield Cluster(tmp_path_factory.mktemp("zones"), stack, config_flags=["--setParameter", "enableTestCommands=1"])


@pytest.fixture(scope="module")
def admin(cluster):
    with cluster.routers[0].client() as client:
        client.admin.command("balancerStop")
        for shard in ("s0", "s1"):
            client.admin.command("addShardToZone", shard, zone="both")
        yield client.admin


@pytest.fixture(scope="module")
def config(cluster):
    with cluster.config.client() as client:
        yield client


def sharded(admin, name):
    collection = admin.client.zones[name]
    admin.command("shardCollection", collection.full_name, key={"a": 1})
    collection.create_index([("a", 1), ("b", 1)])
    collection.insert_many([{"a": n, "b": n} for n in range(20)])
    return collection


def ranges(admin, collection):
    return [(tag["min"], tag["max"], tag["tag"]) for tag in admin.client.config.tags.find({"ns": collection.full_name}).sort("min", 1)]


def test_of_two_ranges_that_overlap_one_is_refused(cluster, admin):
    collection, codes, barrier = sharded(admin, "overlap"), [], threading.Barrier(4)

    def run(worker):
        with cluster.routers[worker % 2].client() as client:
            for n in range(25):
                # of each four, the first one is not apart from any other
                low = 10 * n + 2 * worker
                barrier.wait()
                with contextlib.suppress(OperationFailure):
                    client.admin.command("updateZoneKeyRange", collection.full_name, min={"a": low}, max={"a": 10 * n + 8}, zone="both")
                    codes.append(n)

    threads = [threading.Thread(target=run, args=(worker,)) for worker in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    found = ranges(admin, collection)
    assert codes == sorted(set(codes)) and len(found) == len(codes) == 25
    assert all(high["a"] <= low["a"] for (_, high, _), (low, _, _) in zip(found, found[1:]))


def test_a_zone_with_ranges_keeps_a_shard(cluster, admin):
    collection = sharded(admin, "kept")
    for n in range(25):
        zone = f"zone{n}"
        admin.command("addShardToZone", "s0", zone=zone)
        changes = [
            lambda client: client.admin.command("updateZoneKeyRange", collection.full_name, min={"a": n}, max={"a": n + 1}, zone=zone),
            lambda client: client.admin.command("removeShardFromZone", "s0", zone=zone),
        ]
        codes, barrier = [0, 0], threading.Barrier(2)

        def run(at):
            with cluster.routers[at].client() as client:
                barrier.wait()
                try:
                    changes[at](client)
                except OperationFailure as error:
                    codes[at] = error.code

        threads = [threading.Thread(target=run, args=(at,)) for at in range(2)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        # ZoneNotFound, or ZoneStillInUse
        assert codes in ([177, 0], [0, 163]), codes
        assert (admin.client.config.shards.count_documents({"tags": zone}) == 1) == bool(codes[1])


def test_a_shard_that_a_zone_needs_is_not_removed(admin):
    collection = sharded(admin, "needed")
    admin.command("addShardToZone", "s1", zone="one")
    admin.command("updateZoneKeyRange", collection.full_name, min={"a": 0}, max={"a": 1}, zone="one")
    assert code_of(lambda: admin.command("removeShard", "s1")) == 163
    assert code_of(lambda: admin.command("removeShardFromZone", "s1", zone="one")) == 163
    # it is not in the zone
    admin.command("removeShardFromZone", "s0", zone="one")
    assert "draining" not in admin.client.config.shards.find_one({"_id": "s1"})
    admin.command("updateZoneKeyRange", collection.full_name, min={"a": 0}, max={"a": 1}, zone=None)
    admin.command("removeShardFromZone", "s1", zone="one")


def test_no_range_is_lost_while_the_key_of_its_collection_is_refined(cluster, config, admin):
    collection, outcomes = sharded(admin, "refined"), {}
    zone = lambda low: {"min": {"a": low}, "max": {"a": low + 5}, "zone": "both"}
    admin.command("updateZoneKeyRange", collection.full_name, **zone(0))

    def run(name, command):
        try:
            outcomes[name] = command()["ok"]
        except OperationFailure as error:
            outcomes[name] = error.code

    refine = lambda: admin.command("refineCollectionShardKey", collection.full_name, key={"a": 1, "b": 1})
    add = lambda: admin.command("updateZoneKeyRange", collection.full_name, **zone(10))
    threads = [threading.Thread(target=run, args=("refine", refine)), threading.Thread(target=run, args=("add", add))]
    point, data = FAILURES["a commit that conflicts"]
    with fail_point(config, point, "alwaysOn", data):
        # it has read the ranges
        threads[0].start()
        while config.admin.command({"configureFailPoint": point, "mode": "alwaysOn", "data": data})["count"] == 0:
            assert not outcomes
        threads[1].start()
        # a range that is added now waits
        threads[1].join(timeout=2)
    [thread.join() for thread in threads]
    assert outcomes == {"refine": 1, "add": 1}
    assert [low["a"] for low, _, _ in ranges(admin, collection)] == [0, 10]


def test_zones_of_a_collection_that_is_resharded_do_not_change(cluster, admin):
    collection, namespace = sharded(admin, "resharded"), "zones.resharded"
    admin.command("addShardToZone", "s1", zone="new")
    zone = {"min": {"b": 0}, "max": {"b": 5}, "zone": "new"}
    errors = []

    def run():
        try:
            admin.command("reshardCollection", namespace, key={"b": 1}, zones=[zone])
        except OperationFailure as error:
            errors.append(error)

    with cluster.routers[1].client() as other, other.start_session() as session:
        session.start_transaction()
        other.zones.resharded.insert_one({"a": 100, "b": 100}, session=session)
        # it waits for the transaction
        thread = threading.Thread(target=run)
        thread.start()
        deadline = time.monotonic() + 60
        while not admin.client.config.reshardingOperations.count_documents({"ns": namespace}):
            assert time.monotonic() < deadline and not errors
        for tag in ("both", None):
            change = lambda tag=tag: other.admin.command("updateZoneKeyRange", namespace, min={"a": 0}, max={"a": 5}, zone=tag)
            assert code_of(change) == 117
        assert code_of(lambda: other.admin.command("removeShardFromZone", "s1", zone="new")) == 163
        assert code_of(lambda: other.admin.command("removeShard", "s1")) == 163
        session.commit_transaction()
    thread.join()
    assert errors == [] and ranges(admin, collection) == [(zone["min"], zone["max"], "new")]
    assert collection.count_documents({}) == 21
    collection.drop()
    assert ranges(admin, collection) == []
    admin.command("removeShardFromZone", "s1", zone="new")


def test_ranges_of_what_is_dropped_are_gone(admin):
    client = admin.client
    admin.command("addShardToZone", "s0", zone="dropped")

    def add(namespace, low=0):
        admin.command("updateZoneKeyRange", namespace, min={"a": low}, max={"a": low + 5}, zone="dropped")

    def left(db):
        return sorted(tag["ns"] for tag in client.config.tags.find({"ns": {"$regex": rf"^{db}[.0]"}}))

    client.drops.plain.insert_one({})
    client.drops.stays.insert_one({})
    client.drops0.c.insert_one({})
    for collection in ("plain", "missing", "stays"):
        [add(f"drops.{collection}", low) for low in (0, 10)]
    add("drops0.c")
    client.drops.command("drop", "plain")
    with contextlib.suppress(OperationFailure):
        client.drops.command("drop", "missing")
    assert left("drops") == ["drops.stays"] * 2 + ["drops0.c"]
    assert client.drops.stays.count_documents({}) == 1
    # of a database: of collections that are sharded, that are not, and that are not there
    admin.command("shardCollection", "drops.sharded", key={"a": 1})
    add("drops.sharded")
    add("drops.missing")
    client.drop_database("drops")
    assert left("drops") == ["drops0.c"]
    add("drops.c")
    client.drop_database("drops")
    assert left("drops") == ["drops0.c"], "of a database that does not exist"
    client.drop_database("drops0")
    assert admin.client.config.locks.count_documents({"_id": {"$regex": "^(drops|config.tags)"}}) == 0
    # no range uses it any more
    admin.command("removeShardFromZone", "s0", zone="dropped")
