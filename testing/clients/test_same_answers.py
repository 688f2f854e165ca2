"""Random histories, and the scripts of the query language, on one server and on three shards behind two routers."""

import contextlib
import os
import pathlib
import sys

import pymongo
import pytest

from arbor_cluster import Cluster

TESTING = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(TESTING / "histories"), str(TESTING / "spec")]

import run  # noqa: E402
import same_answers  # noqa: E402
import same_series  # noqa: E402
import session  # noqa: E402

FLAGS = ("--setParameter", "enableTestCommands=1")
# what is about one server, or shows where documents are
NOT_ROUTED = {
    "arbor/clustering", "collection/partitioned", "command/autoCompact", "command/concerns", "command/explain", "command/planCache", "command/server", "command/stats",
    "stage/planCacheStats",
}
# also with each collection over all shards: statistics of each shard, indexes that cannot be unique, documents in no order
NOT_SHARDED = NOT_ROUTED | {
    "arbor/systemCollections", "collection/collation", "command/cloneCollectionAsCapped", "command/convertToCapped", "command/createIndexes", "command/validate",
    "index/collation", "index/hashed", "index/partial", "index/sparse", "index/unique", "query/collationOrders", "query/natural",
    "stage/collStats", "stage/indexStats", "stage/listClusterCatalog", "stage/lookup", "stage/out", "stage/replaceRoot", "stage/unwind",
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with contextlib.ExitStack() as stack:
        cluster = Cluster(tmp_path_factory.mktemp("same"), stack, shards=3, flags=FLAGS)
        with cluster.routers[0].client() as client:
            client.admin.command("balancerStop")
        yield cluster


@pytest.mark.parametrize("seed", [int(os.environ["ARBOR_SEED"])] if "ARBOR_SEED" in os.environ else range(1, 8))
def test_a_random_history(cluster, server, seed):
    same_answers.history(cluster, server, seed, 120)


@pytest.mark.parametrize("seed", [int(os.environ["ARBOR_SEED"])] if "ARBOR_SEED" in os.environ else range(1, 7))
def test_a_random_history_of_a_time_series(cluster, server, seed):
    same_series.history(cluster, server, seed, 120)


class Sharded(session.Session):
    """A session whose collections are divided over all shards."""

    def __init__(self, client, database):
        super().__init__(client, database)
        self.sharded = set()

    def replace_all(self, collection, documents):
        if collection not in self.sharded:
            self.sharded.add(collection)
            self.client.admin.command("shardCollection", f"{self.database.name}.{collection}", key={"_id": "hashed"})
        super().replace_all(collection, documents)


@pytest.mark.parametrize("kind", [session.Session, Sharded])
def test_the_scripts_of_the_query_language(cluster, kind):
    without = NOT_SHARDED if kind is Sharded else NOT_ROUTED
    failures = []
    with pymongo.MongoClient(cluster.routers[0].uri, retryWrites=False) as client:
        for path in run.scripts([]):
            if run.name_of(path) not in without:
                _, failed = run.run_script(client, path, kind, with_plans=False)
                failures += failed
    assert not failures, "\n".join(failures)
