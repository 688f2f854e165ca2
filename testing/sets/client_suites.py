"""The client suites of `testing/clients` on primaries of sets whose members have one engine each: `pytest --followers testing/clients`.

After each test, before its collections are dropped, the members are compared in every database that the test wrote to (`followers.py`); a
difference is an error of the test. A test that fails otherwise is shown as an expected failure: many are about a standalone, or count what
a server does.

| servers | here |
|---|---|
| the fixtures `server` and `replica_set` | one set of four for the whole run |
| the servers that modules of OWN_SERVERS start | a set of four each |
| the config server and the shards of a cluster | a set of two each; the engine of the second changes in turn |
"""

import functools
import itertools
import time

import arbor_cluster
import bson
import pytest
from arbor_process import Arbor

import followers

# Modules whose `Arbor` is the primary of a set. Others start servers to restart them, or with access control, TLS and limits that the
# comparison would need as well; nothing of that changes what a follower does.
OWN_SERVERS = {"test_engine_switch.py", "test_ttl.py"}

LEFT_OUT = {
    "test_router_security.py": "access control",
    "test_router_deaths.py": "ends members of sets, which have one member in these tests",
    "test_backup_cluster.py": "restores sets of one",
    "test_backup_cluster_archive.py": "restores sets of one",
}

# What a primary does by itself may lie between two looks.
ATTEMPTS = 5

# Fields of an entry of the oplog that may name a namespace.
NAMES = ("ns", "renameCollection", "to")


class Difference(Exception):
    """Members that show different things, or cannot be compared."""


class Compared:
    """A set, and how far its log was compared."""

    def __init__(self, members):
        self.members = members
        self.seen = bson.Timestamp(0, 0)

    def written(self):
        """Returns the databases that the log names since the last call."""
        names = set()
        fields = {"ts": 1, "ns": 1, **{f"o{part}.{name}": 1 for part in ("", ".applyOps", ".applyOps.o") for name in NAMES}}
        for entry in self.members.primary.local["oplog.rs"].find({"ts": {"$gt": self.seen}}, fields):
            self.seen = entry["ts"]
            parts = [entry, entry["o"], *entry["o"].get("applyOps", [])]
            parts += [part["o"] for part in parts[2:] if "o" in part]
            names.update(part[name].split(".")[0] for part in parts for name in NAMES if isinstance(part.get(name), str))
        return sorted(names - {"", "followers"})

    def compare(self):
        """Returns the number of databases."""
        followers.retried_writes(self.members)
        databases = self.written()
        for database in databases:
            # What is asked of the primary would be in the profile, and the answer not yet.
            before = self.members.primary[database].command("profile", 0)
            found = self.differences(database)
            self.members.primary[database].command("profile", before["was"])
            if found:
                raise Difference("\n".join(found))
        return len(databases)

    def differences(self, database):
        for attempt in range(ATTEMPTS):
            time.sleep(0.2 * attempt)
            found = self.members.differences(database)
            if not found:
                break
        return found


class Suites:
    """A plugin of pytest."""

    def __init__(self):
        self.sets = []
        self.shared = None
        self.compared = 0

    @functools.cached_property
    def engines(self):
        return followers.engines_here()

    @functools.cached_property
    def of_clusters(self):
        return itertools.cycle(self.engines[1:])

    def start(self, directory):
        """Returns the primary of the set that runs until the session ends."""
        if self.shared is None:
            self.shared = OwnServer(self, directory / "followed")
            self.shared.__enter__()
        return self.shared.primary

    def compare(self, compared):
        self.compared += compared.compare()

    def pytest_collection_modifyitems(self, config, items):
        def applies(item):
            name = item.path.name
            of_cluster = hasattr(item.module, "Cluster")
            return ("followed" in item.fixturenames or of_cluster or name in OWN_SERVERS) and name not in LEFT_OUT

        for module in {item.module for item in items if item.path.name in OWN_SERVERS}:
            module.Arbor = lambda dbpath, flags=(): OwnServer(self, dbpath, flags)
        arbor_cluster.Member = lambda *arguments, **options: OfCluster(self, *arguments, **options)
        config.hook.pytest_deselected(items=[item for item in items if not applies(item)])
        items[:] = [item for item in items if applies(item)]
        # Comparisons after it read all of these.
        items.sort(key=lambda item: item.name == "test_a_hundred_thousand_sessions")

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self, item):
        failure = None
        try:
            for compared in self.sets:
                self.compare(compared)
        except Exception as error:
            failure = error
        yield
        if failure:
            raise failure if isinstance(failure, Difference) else Difference("not compared") from failure

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self, item, call):
        outcome = yield
        report = outcome.get_result()
        if call.excinfo and report.outcome == "failed" and not call.excinfo.errisinstance(Difference):
            report.outcome, report.wasxfail = "skipped", str(call.excinfo.value).split("\n")[0][:200]

    def pytest_terminal_summary(self, terminalreporter):
        terminalreporter.line(f"databases compared: {self.compared}")

    def pytest_unconfigure(self):
        if self.shared:
            self.shared.__exit__(None, None, None)


class OwnServer:
    """A set in the place of one server, which is its primary."""

    def __init__(self, suites, dbpath, flags=()):
        self.suites = suites
        self.members = followers.Set(dbpath, suites.engines, flags)

    def __enter__(self):
        self.compared = Compared(self.members.__enter__())
        self.compared.written()
        self.suites.sets.append(self.compared)
        self.primary = self.members.members.members[0]
        self.primary.direct_uri = f"{self.primary.uri}?directConnection=true"
        return self.primary

    def __exit__(self, *failure):
        self.suites.sets.remove(self.compared)
        try:
            if failure[0] is None:
                self.suites.compare(self.compared)
        finally:
            self.members.__exit__(*failure)


class OfCluster(arbor_cluster.Member):
    """A member of a cluster, and one that follows it."""

    def __init__(self, suites, directory, name, role, flags=()):
        super().__init__(directory, name, role, flags)
        self.suites, self.compared = suites, None
        self.env = {"ARBOR_COORDINATOR_FILE": str(directory / f"{name}-coordinator")}
        self.engine = next(suites.of_clusters)
        self.follower = Arbor(directory / f"{name}-follower", [*self.flags, "--storageEngine", self.engine], env=self.env)

    def start(self, wait_s=60):
        if self.follower.process is None:
            self.follower.start(wait_s)
        return super().start(wait_s)

    def initiate(self, **options):
        members = followers.Followed([self, self.follower], [self.suites.engines[0], self.engine])
        hosts = [f"127.0.0.1:{process.port}" for process in (self, self.follower)]
        members.initiate({"_id": self.name, "members": [{"_id": i, "host": host} for i, host in enumerate(hosts)]})
        self.compared = Compared(members)
        self.suites.sets.append(self.compared)

    def __exit__(self, *failure):
        try:
            if self.compared:
                self.suites.sets.remove(self.compared)
                self.compared.members.close()
        finally:
            self.follower.stop()
            super().__exit__(*failure)
