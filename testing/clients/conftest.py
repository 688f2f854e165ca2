"""A real Arbor server for each test session, on a free port of 127.0.0.1, ended by its process id."""

import os
import re
import sys

import pymongo
import pymongo.common
import pytest

TESTING = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, TESTING)

from arbor_process import Arbor, ReplicaSet  # noqa: E402


# Files that take longest, so they begin first: at the end of the run the others leave nothing to do next to them.
LONGEST = ("test_router_deaths.py", "test_backup_loops.py", "test_cluster_definitions.py", "test_same_answers.py", "test_member_security.py", "test_resharding.py")

# Seconds, instead of 30: a client that is closed after its server waits for it, to end its sessions.
pymongo.common.SERVER_SELECTION_TIMEOUT = 10


def pytest_addoption(parser):
    parser.addoption("--followers", action="store_true", help="on the primary of a set with a member on each engine (testing/sets/client_suites.py)")


def pytest_configure(config):
    if config.getoption("followers"):
        sys.path.insert(0, os.path.join(TESTING, "sets"))
        import client_suites

        config.pluginmanager.register(client_suites.Suites(), "client_suites")


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: LONGEST.index(item.path.name) if item.path.name in LONGEST else len(LONGEST))


FAILED = pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item):
    report = yield
    item.stash[FAILED] = report.failed
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_teardown(item):
    """Ends all servers behind a test that failed, also those of its module: its second attempt begins with new ones."""
    if item.stash[FAILED]:
        item.session._setupstate.teardown_exact(None)


def pytest_terminal_summary(terminalreporter):
    """Shows where and why a test failed that was repeated: the lines with places, statements and errors."""
    for report in terminalreporter.stats.get("rerun", []):
        terminalreporter.section(f"first attempt of {report.nodeid}")
        terminalreporter.line("\n".join(line for line in report.longreprtext.splitlines() if re.match(r"E  |>  |\S+:\d+: ", line)))


@pytest.fixture(scope="session")
def followed(request, tmp_path_factory):
    """The first member of the set of `--followers`, or None."""
    suites = request.config.pluginmanager.get_plugin("client_suites")
    return suites and suites.start(tmp_path_factory.mktemp("set"))


@pytest.fixture(scope="session")
def server(tmp_path_factory, followed):
    if followed:
        yield followed
        return
    with Arbor(tmp_path_factory.mktemp("data"), ["--setParameter", "enableTestCommands=1"]) as arbor:
        yield arbor


@pytest.fixture(scope="session")
def client(server):
    with pymongo.MongoClient(server.uri, serverSelectionTimeoutMS=10_000) as client:
        yield client


@pytest.fixture
def db(client, request):
    """An empty database named after the test."""
    name = request.node.name.replace("[", "_").replace("]", "").replace(".", "_").replace(" ", "_").replace("$", "")[:60]
    client.drop_database(name)
    yield client[name]
    client.drop_database(name)


@pytest.fixture(scope="session")
def replica_set(tmp_path_factory, followed):
    """The only member of an initiated replica set: `.uri`, `.direct_uri`."""
    if followed:
        yield followed
        return
    flags = ["--setParameter", "enableTestCommands=1"]
    with ReplicaSet(tmp_path_factory.mktemp("member"), flags) as member:
        yield member


@pytest.fixture(scope="session")
def set_client(replica_set):
    """A client that knows the set by its name."""
    with pymongo.MongoClient(replica_set.uri, serverSelectionTimeoutMS=10_000) as client:
        yield client
