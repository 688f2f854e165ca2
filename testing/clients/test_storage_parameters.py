"""Parameters of log, checkpoints and engines that are set while the server runs."""

import pymongo
import pymongo.errors
import pytest

from arbor_process import Arbor


@pytest.fixture
def admin(tmp_path):
    with Arbor(tmp_path / "data", ["--syncdelay", "7", "--ftreeCacheSizeGB", "0.25"]) as arbor:
        with pymongo.MongoClient(arbor.uri) as client:
            yield client.admin


def get(admin, name):
    return admin.command("getParameter", 1, **{name: 1})[name]


def test_values_are_those_that_are_in_force(admin):
    assert get(admin, "syncdelay") == get(admin, "checkpointPeriod") == 7
    assert get(admin, "journalCommitInterval") == 100
    before = get(admin, "ftreeCacheSize")
    assert 200 << 20 < before <= 256 << 20
    for name, value, shown in [
        ("syncdelay", 2.5, 2.5),
        ("checkpointPeriod", 20, 20),
        ("journalCommitInterval", 30, 30),
        ("logFlushPeriod", "40", 40),
        ("ftreeCacheSize", "64M", 64 << 20),
        ("tokuftEngineCacheSize", 128 << 20, 128 << 20),
        ("ftree.cacheBytes", 100_000_000, 100_000_000),
    ]:
        was = get(admin, name)
        assert admin.command("setParameter", 1, **{name: value})["was"] == was
        assert get(admin, name) == shown, name
    everything = admin.command("getParameter", "*")
    assert everything["syncdelay"] == 20 and everything["logFlushPeriod"] == 40
    assert everything["tokuftEngineCacheSize"] == 100_000_000
    assert "rocksdbRuntimeConfigCacheSizeGB" not in everything, "of an engine that is not open"
    assert get(admin, "ftree.checkpointIntervalMs") == 20_000
    detail = admin.command("getParameter", {"showDetails": True}, syncdelay=1)["syncdelay"]
    assert detail == {"value": 20.0, "settableAtRuntime": True, "settableAtStartup": True}


@pytest.mark.parametrize(
    "name, value, code, text",
    [
        ("syncdelay", -1, 2, "Invalid value for parameter syncdelay: -1 is not greater than or equal to 0"),
        ("syncdelay", 9_000_001, 2, "is not less than or equal to 9000000"),
        ("journalCommitInterval", 501, 2, "501 is not less than or equal to 500"),
        ("journalCommitInterval", "often", 2, "not a number"),
        ("ftreeCacheSize", "lots", 2, "'lots' is not a size"),
        ("ftreeCacheSize", 1, 2, "not a number of bytes from"),
        ("ftreeCacheSize", [], 2, "not a number"),
        ("ftree.colour", "red", 2, "cannot change it while it runs"),
        ("paper.cacheBytes", 1, 72, "unrecognized parameter [paper.cacheBytes]"),
        ("noSuchParameter", 1, 72, "unrecognized parameter [noSuchParameter]"),
    ],
)
def test_bad_ones_are_refused_and_change_nothing(admin, name, value, code, text):
    before = admin.command("getParameter", "*")
    with pytest.raises(pymongo.errors.OperationFailure) as refused:
        admin.command("setParameter", 1, **{name: value})
    assert (refused.value.code, text in str(refused.value)) == (code, True), refused.value
    before.pop("ok")
    assert admin.command("getParameter", "*").items() >= before.items()


def test_given_at_the_start(tmp_path):
    flags = []
    for pair in ["syncdelay=3", "ftreeCacheSize=64M", "wiredTigerEngineRuntimeConfig=cache_size=2G"]:
        flags += ["--setParameter", pair]
    with Arbor(tmp_path / "data", flags) as arbor, pymongo.MongoClient(arbor.uri) as client:
        assert get(client.admin, "syncdelay") == 3
        assert get(client.admin, "ftreeCacheSize") == 64 << 20
        warnings = "\n".join(client.admin.command("getLog", "startupWarnings")["log"])
        assert "wiredTigerEngineRuntimeConfig" in warnings and "syncdelay" not in warnings, warnings
    with pytest.raises(RuntimeError, match="Invalid value for parameter journalCommitInterval"):
        Arbor(tmp_path / "data", ["--setParameter", "journalCommitInterval=0"]).start()


def test_a_server_on_lmdb_has_no_cache_to_set(tmp_path):
    with Arbor(tmp_path / "data", ["--storageEngine", "lmdb"]) as arbor, pymongo.MongoClient(arbor.uri) as client:
        assert "ftreeCacheSize" not in client.admin.command("getParameter", "*")
        with pytest.raises(pymongo.errors.OperationFailure, match="ftree is not available: it is not open"):
            client.admin.command("setParameter", 1, ftreeCacheSize="64M")
        client.admin.command("setParameter", 1, syncdelay=5)
