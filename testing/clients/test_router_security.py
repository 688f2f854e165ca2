"""A cluster with access control: users log in on the router, which asks the shards as a member of the cluster; what a user begins
through the router is the user's own, and ends on the shards when it ends on the router."""

import contextlib
import subprocess
import sys
import threading
import time

import pymongo
import pytest
from bson.int64 import Int64
from pymongo.errors import OperationFailure, PyMongoError

import certificates
from test_access_control import OF_EVERY_USER, OPEN
from test_kill_op import ENDLESS
from arbor_cluster import Member, Router
from test_router import code_of

UNAUTHORIZED, FAILED, INTERRUPTED, TIME_EXPIRED = 13, 18, 11601, 50
WAIT_S = 60


def until(condition, what="it"):
    deadline = time.monotonic() + WAIT_S
    while not (value := condition()):
        assert time.monotonic() < deadline, f"{what} did not come true within {WAIT_S} s"
        time.sleep(0.05)
    return value


class Guarded:
    """A config server, two shards and two routers with a shared key."""

    def __init__(self, directory, stack):
        key = directory / "key"
        key.write_text("a key of the whole cluster".replace(" ", "/"))
        key.chmod(0o600)
        flags = ["--keyFile", str(key)]
        self.config = Member(directory, "cfg", "--configsvr", [*flags, "--setParameter", "balancerRoundIntervalMs=250"])
        self.shards = [Member(directory, f"s{n}", "--shardsvr", flags) for n in range(2)]
        for member in [self.config, *self.shards]:
            stack.enter_context(member)
            member.initiate()
        flags += ["--setParameter", "userCacheInvalidationIntervalSecs=1"]
        self.routers = [stack.enter_context(Router(directory, self.config, flags)) for _ in range(2)]
        with self.routers[0].client() as local:
            assert code_of(lambda: local.admin.command("listShards")) == UNAUTHORIZED
            local.admin.command("createUser", "admin", pwd="secret", roles=["root"])
            assert code_of(lambda: local.admin.command("createUser", "b", pwd="secret", roles=["root"])) == UNAUTHORIZED
        with self.user("admin", "admin") as admin:
            for shard in self.shards:
                assert admin.admin.command("addShard", shard.hosts)["shardAdded"] == shard.name
            admin.admin.command("enableSharding", "app", primaryShard="s0")
            admin.admin.command("shardCollection", "app.many", key={"_id": "hashed"})
            admin.app.many.insert_many([{"_id": n} for n in range(100)])
            admin.app.one.insert_many([{"_id": n} for n in range(100)])
            for name in ("ann", "ben"):
                admin.app.command("createUser", name, pwd="secret", roles=["readWrite"])

    def user(self, name, source="app", router=0, **options):
        return self.routers[router].client(username=name, password="secret", authSource=source, **options)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    with contextlib.ExitStack() as stack:
        yield Guarded(tmp_path_factory.mktemp("guarded"), stack)


@pytest.fixture(scope="module")
def admin(guarded):
    with guarded.user("admin", "admin") as client:
        yield client


@pytest.fixture(scope="module")
def ann(guarded):
    with guarded.user("ann") as client:
        yield client


@pytest.fixture(scope="module")
def ben(guarded):
    with guarded.user("ben") as client:
        yield client


def test_users_log_in_on_every_router(guarded, admin):
    for router in range(2):
        for mechanism in ("SCRAM-SHA-1", "SCRAM-SHA-256"):
            with guarded.user("ann", router=router, authMechanism=mechanism) as client:
                assert client.app.many.count_documents({}) == 100
                status = client.admin.command("connectionStatus")["authInfo"]
                assert status["authenticatedUsers"] == [{"user": "ann", "db": "app"}]
        with guarded.routers[router].client(username="ann", password="wrong", authSource="app") as client:
            assert code_of(lambda: client.app.many.find_one()) == FAILED
    # the users are those of the cluster, not of the shards
    with guarded.shards[0].client(username="admin", password="secret") as direct:
        assert code_of(lambda: direct.app.one.find_one()) == FAILED
    assert {user["user"] for user in admin.app.command("usersInfo", 1)["users"]} >= {"ann", "ben"}


def test_nothing_is_open(guarded, admin):
    commands = set(admin.admin.command("listCommands")["commands"])
    with guarded.routers[0].client() as stranger:
        for name in commands - OPEN - {"getMore", "killCursors"}:
            assert code_of(lambda: stranger.admin.command(name, "x")) == UNAUTHORIZED, name
    admin.admin.command("createUser", "guest", pwd="secret", roles=[])
    with guarded.user("guest", "admin") as guest:
        for name in ["find", "insert", "update", "delete", "aggregate", "count", "distinct", "drop", "create", "listShards", "addShard",
                     "shardCollection", "enableSharding", "split", "moveChunk", "moveRange", "mergeChunks", "movePrimary", "removeShard",
                     "addShardToZone", "updateZoneKeyRange", "balancerStart", "balancerStatus", "balancerCollectionStatus",
                     "configureCollectionBalancing", "flushRouterConfig", "getShardMap",
                     "getShardVersion", "killAllSessions", "killAllSessionsByPattern", "createUser", "usersInfo", "serverStatus"]:
            assert name not in OF_EVERY_USER
            extra = {"aggregate": {"pipeline": [], "cursor": {}}}.get(name, {})
            assert code_of(lambda: guest.admin.command(name, "app.many", **extra)) == UNAUTHORIZED, name
        pipeline = [{"$currentOp": {"allUsers": True}}]
        assert code_of(lambda: guest.admin.command("aggregate", 1, pipeline=pipeline, cursor={})) == UNAUTHORIZED
        named = {"$impersonatedUser": {"user": "admin", "db": "admin"}}
        assert code_of(lambda: guest.admin.command({"killSessions": [], "$audit": named})) == UNAUTHORIZED


def test_the_balancer_is_a_member_of_the_cluster(admin, ann):
    admin.admin.command("shardCollection", "app.zone", key={"k": 1})
    admin.app.zone.insert_many([{"k": n} for n in range(50)])
    admin.admin.command("addShardToZone", "s1", zone="far")
    admin.admin.command("updateZoneKeyRange", "app.zone", min={"k": 20}, max={"k": 30}, zone="far")
    until(lambda: admin.admin.command("balancerCollectionStatus", "app.zone")["balancerCompliant"])
    assert admin.admin.command("balancerStatus")["numBalancerRounds"] > 0
    assert [chunk["shard"] for chunk in admin.config.chunks.find({"min.k": 20})] == ["s1"]
    assert ann.app.zone.count_documents({}) == 50
    admin.admin.command("configureCollectionBalancing", "app.zone", enableBalancing=False)
    assert code_of(lambda: ann.admin.command("configureCollectionBalancing", "app.zone", enableBalancing=True)) == UNAUTHORIZED


def test_changes_of_rights_have_effect(guarded, admin):
    admin.app.command("createUser", "cat", pwd="secret", roles=["read"])
    with guarded.user("cat") as near, guarded.user("cat", router=1) as far:
        for client in (near, far):
            assert client.app.one.find_one({"_id": 1}) and client.app.many.find_one({"_id": 1})
            assert code_of(lambda: client.app.many.insert_one({"by": "cat"})) == UNAUTHORIZED
            assert code_of(lambda: client.admin.command("shardCollection", "app.x", key={"_id": 1})) == UNAUTHORIZED
        admin.app.command("grantRolesToUser", "cat", roles=["readWrite"])
        near.app.cat.insert_one({"_id": 1})

        def may_write():
            with contextlib.suppress(OperationFailure):
                return far.app.cat.insert_one({"_id": 2})

        until(may_write, "the other router reads the user again")
        admin.app.command("dropUser", "cat")
        assert code_of(lambda: near.app.cat.find_one()) == UNAUTHORIZED
        until(lambda: not may_read(far), "the other router learns that the user is gone")


def may_read(client):
    try:
        return [client.app.cat.find_one()]
    except OperationFailure:
        return None


def test_names_are_shown_to_those_who_may_do_something_there(guarded, admin):
    admin.app.command("createRole", "of_one", roles=[], privileges=[{"resource": {"db": "app", "collection": "one"}, "actions": ["find"]}])
    admin.app.command("createUser", "dan", pwd="secret", roles=["of_one"])
    admin.other.c.insert_one({})
    with guarded.user("dan") as dan:
        assert dan.list_database_names() == ["app"]
        own = dan.app.command("listCollections", nameOnly=True, authorizedCollections=True)["cursor"]["firstBatch"]
        assert [entry["name"] for entry in own] == ["one"]
        assert code_of(lambda: dan.app.command("listCollections")) == UNAUTHORIZED
    assert {"app", "other"} <= set(admin.list_database_names())
    assert {"one", "many"} <= set(admin.app.list_collection_names())


@pytest.mark.parametrize("name", ["one", "many"])
def test_cursors_and_sessions_are_of_their_users(ann, ben, name):
    first = Int64(ann.app.command("find", name, batchSize=2)["cursor"]["id"])
    assert code_of(lambda: ben.app.command({"getMore": first, "collection": name})) == UNAUTHORIZED
    assert code_of(lambda: ben.app.command("killCursors", name, cursors=[first])) == UNAUTHORIZED
    with ann.start_session() as session:
        cursor = ann.app.command("find", name, batchSize=2, session=session)["cursor"]
        # the same id of a session is another session of another user
        lsid = {"id": session.session_id["id"]}
        more = {"getMore": Int64(cursor["id"]), "collection": name, "lsid": lsid}
        assert code_of(lambda: ben.app.command(more)) == UNAUTHORIZED
        # ending it ends nothing of the first user
        ben.admin.command("killSessions", [lsid])
        got = ann.app.command("getMore", Int64(cursor["id"]), collection=name, session=session)
        assert len(got["cursor"]["nextBatch"]) == 98
    ended = ann.app.command("killCursors", name, cursors=[first, Int64(1)])
    assert (ended["cursorsKilled"], ended["cursorsNotFound"]) == ([first], [1])


SLOW = [{"$project": {"x": ENDLESS}}]


class Running:
    """A statement that would run for hours, on the shards."""

    def __init__(self, client, name, comment, **options):
        self.client, self.code = client, None
        self.command = {"aggregate": name, "pipeline": SLOW, "cursor": {}, "comment": comment, **options}
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        try:
            self.client.app.command(self.command)
        except OperationFailure as error:
            self.code = error.code
        except PyMongoError:
            self.code = -1

    def ended(self):
        self.thread.join(WAIT_S)
        assert not self.thread.is_alive()
        return self.code


def shown(client, comment, **options):
    found = client.admin.aggregate([{"$currentOp": {"allUsers": True, **options}}, {"$match": {"command.comment": comment}}])
    return [op for op in found if "$currentOp" not in str(op["command"])]


def test_what_a_user_kills_on_the_router_ends_on_the_shards(guarded, admin, ann, ben):
    # by the id on the shard; own operations are the user's, and only the user's
    running = Running(ann, "many", "by shard")
    until(lambda: len(shown(admin, "by shard")) == 2)
    op = shown(admin, "by shard")[0]
    assert op["opid"].startswith(op["shard"] + ":") and op["shard"] in ("s0", "s1")
    assert op["effectiveUsers"] == [{"user": "ann", "db": "app"}] and op["runBy"][0]["user"] == "__system"
    assert code_of(lambda: ben.admin.command("killOp", op=op["opid"])) == UNAUTHORIZED
    of_ben = ben.admin.command("aggregate", 1, pipeline=[{"$currentOp": {}}], cursor={})["cursor"]["firstBatch"]
    assert all(op["effectiveUsers"] == [{"user": "ben", "db": "app"}] for op in of_ben)
    own = ann.admin.command("currentOp", **{"$ownOps": True})["inprog"]
    assert op["opid"] in [own["opid"] for own in own]
    assert ann.admin.command("killOp", op=op["opid"])["ok"] == 1
    assert running.ended() == INTERRUPTED
    assert code_of(lambda: admin.admin.command("killOp", op="nowhere")) == 28625
    assert code_of(lambda: admin.admin.command("killOp", op="s9:1")) == 70
    # the other shard ends its part, whose reply no router awaits
    until(lambda: not shown(admin, "by shard"))


def end_by_kill_op(admin, _, comment):
    (local,) = shown(admin, comment, localOps=True)
    admin.admin.command("killOp", op=local["opid"])


def end_by_session(admin, operation, _):
    admin.admin.command("killAllSessionsByPattern", [{"lsid": operation["lsid"]}])


@pytest.mark.parametrize("way", [end_by_kill_op, end_by_session, None])
def test_what_ends_on_the_router_ends_on_the_shards(admin, ann, way):
    comment = f"ended by {getattr(way, '__name__', 'time')}"
    running = Running(ann, "many", comment, **({} if way else {"maxTimeMS": 3_000}))
    found = until(lambda: len(ops := shown(admin, comment)) == 2 and ops, "both shards run it")
    if way:
        way(admin, found[0], comment)
    assert running.ended() == (INTERRUPTED if way else TIME_EXPIRED)
    until(lambda: not everywhere(admin, comment), "all of them end")


def everywhere(admin, comment):
    return shown(admin, comment) + shown(admin, comment, localOps=True)


def test_what_its_client_has_left_ends_on_the_shards(guarded, admin):
    script = f"""if True:
        import pymongo
        client = pymongo.MongoClient({guarded.routers[0].uri!r}, username="ann", password="secret", authSource="app")
        client.app.command({{"aggregate": "many", "pipeline": {SLOW!r}, "cursor": {{}}, "comment": "left"}})
    """
    client = subprocess.Popen([sys.executable, "-c", script])
    try:
        until(lambda: len(shown(admin, "left")) == 2, "both shards run it")
    finally:
        client.kill()
        client.wait()
    until(lambda: not everywhere(admin, "left"), "all of them end")


def test_an_ended_session_leaves_nothing_on_the_shards(guarded, admin, ann):
    def cursors():
        idle = admin.admin.aggregate([{"$currentOp": {"allUsers": True, "idleCursors": True}}, {"$match": {"type": "idleCursor"}}])
        return [op for op in idle if op["ns"].startswith("app.")]

    until(lambda: not cursors())
    with ann.start_session() as session:
        for name in ("one", "many"):
            ann.app.command("find", name, batchSize=2, session=session)
        assert len(cursors()) == 3
        ann.admin.command("killSessions", [session.session_id])
        assert cursors() == []


def test_certificates_instead_of_a_key(tmp_path):
    """TLS everywhere: the members know each other by their certificates, users by certificate or password."""
    authority = certificates.Authority(tmp_path, "ca")
    server = authority.sign("server", alternative="IP:127.0.0.1,DNS:localhost", subject="/O=Cluster/OU=members/CN=server")
    user = authority.sign("user", subject="/O=Users/CN=eve")
    flags = ["--tlsMode", "requireTLS", "--tlsCAFile", str(authority.ca), "--tlsCertificateKeyFile", str(server), "--clusterAuthMode", "x509",
             "--tlsAllowConnectionsWithoutCertificates"]
    tls = {"tls": True, "tlsCAFile": str(authority.ca)}
    with contextlib.ExitStack() as stack:
        config, shard = Member(tmp_path, "cfg", "--configsvr", flags), Member(tmp_path, "s0", "--shardsvr", flags)
        for member in (config, shard):
            stack.enter_context(member)
            member.initiate(**tls)
        router = stack.enter_context(Router(tmp_path, config, flags))
        with router.client(serverSelectionTimeoutMS=500) as plain, pytest.raises(PyMongoError):
            plain.admin.command("ping")
        with router.client(**tls) as local:
            local.admin.command("createUser", "admin", pwd="secret", roles=["root"])
        with router.client(username="admin", password="secret", **tls) as admin:
            assert admin.admin.command("addShard", shard.hosts)["shardAdded"] == "s0"
            admin["$external"].command("createUser", "CN=eve,O=Users", roles=[{"role": "readWrite", "db": "app"}])
        with router.client(authMechanism="MONGODB-X509", tlsCertificateKeyFile=str(user), **tls) as eve:
            eve.app.c.insert_one({"_id": 1})
            assert eve.app.c.find_one() == {"_id": 1}
            assert code_of(lambda: eve.other.c.find_one()) == UNAUTHORIZED


def test_a_router_refuses_to_start_without_proof_of_itself(guarded, tmp_path):
    with pytest.raises(RuntimeError, match="keyFile"):
        Router(tmp_path, guarded.config, ["--auth"])
