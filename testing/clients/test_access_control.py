"""Access control from end to end: logins by both mechanisms, what the built-in roles may do, and that no user does more."""

import base64
import hashlib
import hmac
import os
import struct
import subprocess
import zlib

import pymongo
import pytest
from bson.binary import Binary
from bson.int64 import Int64
from mongosh import run_mongosh
from pymongo.errors import OperationFailure
from sessions import Wire

from arbor_process import Arbor, free_port

UNAUTHORIZED = 13
FAILED = 18

# Before a login: what a client needs to begin one, and what says nothing about the data.
OPEN = {
    "authenticate", "buildInfo", "buildinfo", "connectionStatus", "features", "getnonce", "hello", "isMaster", "ismaster", "logout", "ping",
    "saslContinue", "saslStart", "whatsmyuri",
}  # fmt: skip

# What every user may do: these concern what belongs to the user, or show what the user may see.
OF_EVERY_USER = {
    "abortLoad", "abortTransaction", "beginTransaction", "commitLoad", "commitTransaction", "endSessions", "getFreeMonitoringStatus", "getLastError", "getMore",
    "getlasterror", "killCursors", "killSessions", "listCommands", "listDatabases", "refreshSessions", "rollbackTransaction",
    "showLiveTransactions", "startSession",
}  # fmt: skip

# Arguments without which a command asks for nothing that could be refused.
ARGUMENTS = {
    "aggregate": ("c", {"pipeline": [], "cursor": {}}),
    "applyOps": ([{"op": "i", "ns": "test.c", "o": {"_id": 1}}], {}),
    "beginLoad": (1, {"ns": "c"}),
    "bulkWrite": (1, {"ops": [{"insert": 0, "document": {}}], "nsInfo": [{"ns": "test.c"}]}),
    "createRole": ("r", {"privileges": [], "roles": []}),
    "createUser": ("v", {"pwd": "x", "roles": []}),
    "dataSize": ("test.c", {}),
    "explain": ({"find": "c"}, {}),
    "grantPrivilegesToRole": ("r", {"privileges": [{"resource": {"db": "test", "collection": "c"}, "actions": ["find"]}]}),
    "grantRolesToRole": ("r", {"roles": ["read"]}),
    "grantRolesToUser": ("none", {"roles": [{"role": "root", "db": "admin"}]}),
    "killOp": (1, {"op": 12345}),
    "renameCollection": ("test.c", {"to": "test.d"}),
    "revokePrivilegesFromRole": ("r", {"privileges": [{"resource": {"db": "test", "collection": "c"}, "actions": ["find"]}]}),
    "revokeRolesFromRole": ("r", {"roles": ["read"]}),
    "revokeRolesFromUser": ("none", {"roles": [{"role": "root", "db": "admin"}]}),
    "updateRole": ("r", {"privileges": []}),
    "updateUser": ("admin", {"pwd": "stolen"}),
}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    """A server with access control and one user, `admin` with the role root."""
    with Arbor(tmp_path_factory.mktemp("guarded"), ["--auth"]) as arbor:
        with pymongo.MongoClient(arbor.uri) as local:
            local.admin.command("createUser", "admin", pwd="secret", roles=["root"])
        yield arbor


@pytest.fixture(scope="module")
def admin(guarded):
    with connect(guarded, "admin", "secret") as client:
        yield client


def connect(server, user, password, db="admin", **options):
    return pymongo.MongoClient(
        "127.0.0.1", server.port, username=user, password=password, authSource=db, serverSelectionTimeoutMS=10_000, **options
    )


@pytest.fixture
def user(guarded, admin, request):
    """Makes users of the database test; their clients are closed."""
    clients = []

    def make(name, roles, db="test", **more):
        admin[db].command("createUser", name, pwd="pw", roles=roles, **more)
        client = connect(guarded, name, "pw", db)
        clients.append((client, db, name))
        return client

    yield make
    for client, db, name in clients:
        client.close()
        if admin[db].command("usersInfo", name)["users"]:
            admin[db].command("dropUser", name)


def log_in(wire, user, password, db):
    """Logs a connection in that sends commands as they are."""
    bare = f"n={user},r=abc"
    start = {"saslStart": 1, "mechanism": "SCRAM-SHA-256", "payload": f"n,,{bare}".encode(), "options": {"skipEmptyExchange": True}}
    reply = wire.send({**start, "$db": db})
    first = reply["payload"].decode()
    fields = dict(part.split("=", 1) for part in first.split(","))
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), base64.b64decode(fields["s"]), int(fields["i"]))
    key = hmac.digest(salted, b"Client Key", "sha256")
    unsigned = f"c=biws,r={fields['r']}"
    signature = hmac.digest(hashlib.sha256(key).digest(), f"{bare},{first},{unsigned}".encode(), "sha256")
    proof = base64.b64encode(bytes(a ^ b for a, b in zip(key, signature))).decode()
    last = {"saslContinue": 1, "conversationId": reply["conversationId"], "payload": f"{unsigned},p={proof}".encode()}
    reply = wire.send({**last, "$db": db})
    assert reply["ok"] == 1 and reply["done"], reply


def code_of(run):
    with pytest.raises(OperationFailure) as caught:
        run()
    return caught.value.code


def refused(run):
    assert code_of(run) == UNAUTHORIZED


# ---- logins


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-1", "SCRAM-SHA-256", None])
def test_pymongo_logs_in(guarded, mechanism):
    more = {"authMechanism": mechanism} if mechanism else {}
    with connect(guarded, "admin", "secret", **more) as client:
        status = client.admin.command("connectionStatus", showPrivileges=True)["authInfo"]
        assert status["authenticatedUsers"] == [{"user": "admin", "db": "admin"}]
        assert status["authenticatedUserRoles"] == [{"role": "root", "db": "admin"}]
        assert {"cluster": True} in [privilege["resource"] for privilege in status["authenticatedUserPrivileges"]]
    for user, password in [("admin", "wrong"), ("nosuch", "secret")]:
        with connect(guarded, user, password, **more) as client:
            with pytest.raises(OperationFailure) as caught:
                client.admin.command("ping")
            assert (caught.value.code, caught.value.details["errmsg"]) == (FAILED, "Authentication failed.")


def test_logins_are_counted(guarded, admin):
    admin.admin.command("ping")

    def counted():
        mechanisms = admin.admin.command("serverStatus")["security"]["authentication"]["mechanisms"]
        assert set(mechanisms) == {"MONGODB-X509", "SCRAM-SHA-1", "SCRAM-SHA-256"}
        kinds = mechanisms["SCRAM-SHA-256"]
        return [kinds[kind][what] for kind in ("authenticate", "speculativeAuthenticate", "clusterAuthenticate") for what in ("received", "successful")]

    before = counted()
    payload = Binary(b"n,,n=admin,r=abcdefgh")
    with pymongo.MongoClient(guarded.uri, maxPoolSize=1) as plain:
        plain.admin.command("saslStart", mechanism="SCRAM-SHA-256", payload=payload)
    assert [now - then for now, then in zip(counted(), before)] == [1, 0, 0, 0, 0, 0]
    before = counted()
    with connect(guarded, "admin", "wrong", maxPoolSize=1) as client, pytest.raises(OperationFailure):
        client.admin.command("ping")
    failed = [now - then for now, then in zip(counted(), before)]
    assert failed[0] >= 1 and failed[1] == 0 and failed[2] >= 1 and failed[3:] == [0, 0, 0]
    before = counted()
    with connect(guarded, "admin", "secret", maxPoolSize=1) as client:
        client.admin.command("ping")
    received, successful, speculated, proven, *cluster = [now - then for now, then in zip(counted(), before)]
    assert received == successful == speculated == proven >= 1 and cluster == [0, 0]


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-1", "SCRAM-SHA-256"])
def test_mongosh_logs_in(guarded, mechanism):
    uri = f"mongodb://admin:secret@127.0.0.1:{guarded.port}/test?authSource=admin&authMechanism={mechanism}"
    (status,) = run_mongosh(uri, "out(db.runCommand({connectionStatus: 1}).authInfo.authenticatedUsers)")
    assert status == [{"user": "admin", "db": "admin"}]


def test_mongosh_manages_users(guarded, admin):
    uri = f"mongodb://admin:secret@127.0.0.1:{guarded.port}/shell?authSource=admin"
    script = """
        db.createUser({user: 'm', pwd: 'pw', roles: ['readWrite']});
        out(db.getUser('m').roles);
        db.createRole({role: 'r', privileges: [{resource: {db: 'shell', collection: 'c'}, actions: ['find']}], roles: []});
        db.grantRolesToUser('m', ['r']);
        out(db.getUser('m', {showPrivileges: true}).inheritedRoles.length);
        db.changeUserPassword('m', 'other');
        out(db.getRoles().roles.length);
        out(db.dropRole('r').ok);
        out(db.dropUser('m').ok);
    """
    assert run_mongosh(uri, script) == [[{"role": "readWrite", "db": "shell"}], 2, 1, 1, 1]


def test_passwords_are_prepared_and_names_escaped(guarded, user):
    with user("a=b,c", ["read"], customData={"n": 1}) as client:
        assert client.test.command("connectionStatus")["authInfo"]["authenticatedUsers"] == [{"user": "a=b,c", "db": "test"}]


def test_unknown_users_learn_as_little_as_known_ones(guarded):
    with pymongo.MongoClient(guarded.uri) as client:
        known = client.admin.command("hello", saslSupportedMechs="admin.admin")
        unknown = client.admin.command("hello", saslSupportedMechs="admin.nosuch")
        assert known["saslSupportedMechs"] == unknown["saslSupportedMechs"]

        def salt(name):
            payload = Binary(f"n,,n={name},r=abcdefgh".encode())
            reply = client.admin.command("saslStart", mechanism="SCRAM-SHA-256", payload=payload)
            return dict(part.split("=", 1) for part in bytes(reply["payload"]).decode().split(","))

        assert salt("nosuch")["s"] == salt("nosuch")["s"] != salt("other")["s"]
        assert len(base64.b64decode(salt("nosuch")["s"])) == len(base64.b64decode(salt("admin")["s"]))
        assert salt("nosuch")["i"] == salt("admin")["i"]


def test_speculative_logins_and_odd_messages(guarded):
    with pymongo.MongoClient(guarded.uri, maxPoolSize=1) as client:
        first = {"saslStart": 1, "mechanism": "SCRAM-SHA-256", "payload": Binary(b"n,,n=admin,r=abc"), "db": "admin"}
        answer = client.admin.command("hello", speculativeAuthenticate=first)["speculativeAuthenticate"]
        assert answer["done"] is False and bytes(answer["payload"]).startswith(b"r=abc")
        conversation = answer["conversationId"]
        for bad in (b"", b"c=biws", b"c=biws,r=abc,p=AAAA", b"\xff" * 100):
            code = code_of(lambda bad=bad: client.admin.command("saslContinue", conversationId=conversation, payload=Binary(bad)))
            assert code in (FAILED, 17)
        assert "speculativeAuthenticate" not in client.admin.command("hello", speculativeAuthenticate={"nope": 1})
        assert client.admin.command("ping")["ok"] == 1


def test_one_user_per_connection(guarded, user):
    user("second", ["read"]).close()
    with connect(guarded, "admin", "secret", maxPoolSize=1) as client:
        client.admin.command("ping")
        payload = Binary(b"n,,n=second,r=abc")
        client.test.command("saslStart", mechanism="SCRAM-SHA-256", payload=payload)
        assert client.admin.command("connectionStatus")["authInfo"]["authenticatedUsers"] == [{"user": "admin", "db": "admin"}]
        client.admin.command("logout")
        refused(lambda: client.test.command("find", "c"))


@pytest.mark.parametrize("compressed", [False, True])
def test_messages_before_a_login_are_short(guarded, admin, compressed):
    large = {"ping": 1, "comment": "x" * 20_000, "$db": "admin"}
    request = Wire.request(large)
    if compressed:
        packed = zlib.compress(request[16:])
        body = struct.pack("<iiB", 2013, len(request) - 16, 2) + packed
        request = struct.pack("<iiii", 16 + len(body), 7, 0, 2012) + body
    wire = Wire(("127.0.0.1", guarded.port))
    with pytest.raises(ConnectionError):
        wire.exchange(request)
    wire = Wire(("127.0.0.1", guarded.port))
    log_in(wire, "admin", "secret", "admin")
    assert wire.send(large)["ok"] == 1


# ---- who may not


def test_every_command_without_login_and_without_rights(guarded, admin, user):
    # a command of tests is unknown where they are not enabled
    names = sorted(set(admin.admin.command("listCommands")["commands"]) - {"testVersion2"})
    assert len(names) > 100
    stranger = user("stranger", [])
    with pymongo.MongoClient(guarded.uri) as anonymous:
        for name in names:
            target, more = ARGUMENTS.get(name, ("c", {}))
            command = {name: target, **more}
            for client, permitted in [(anonymous, OPEN), (stranger, OPEN | OF_EVERY_USER)]:
                if name in permitted:
                    continue
                for db in ("admin", "test"):
                    with pytest.raises(OperationFailure) as caught:
                        client[db].command(command)
                    assert caught.value.code == UNAUTHORIZED, (name, db, caught.value)
    # nothing has happened
    assert [user["user"] for user in admin.admin.command("usersInfo", 1)["users"]] == ["admin"]
    assert admin.test.list_collection_names() == []
    assert admin.admin.command("ping")["ok"] == 1


def test_open_commands_answer_without_login(guarded):
    with pymongo.MongoClient(guarded.uri) as anonymous:
        for name in OPEN - {"authenticate", "saslContinue", "saslStart", "logout"}:
            assert anonymous.admin.command(name)["ok"] == 1
        with pytest.raises(OperationFailure) as caught:
            anonymous.test.command("find", "c")
        assert caught.value.details["errmsg"] == "Command find requires authentication"


def permitted(run):
    """True if a command is not refused; other errors are of the command itself."""
    try:
        run()
    except OperationFailure as error:
        return error.code != UNAUTHORIZED
    return True


ACTS = {
    "find": lambda c: c.test.command("find", "c"),
    "find elsewhere": lambda c: c.other.command("find", "c"),
    "find users": lambda c: c.admin.command("find", "system.users"),
    "find oplog": lambda c: c.local.command("find", "oplog.rs"),
    "insert": lambda c: c.test.command("insert", "c", documents=[{"x": 1}]),
    "insert elsewhere": lambda c: c.other.command("insert", "c", documents=[{"x": 1}]),
    "insert user": lambda c: c.admin.command("insert", "system.users", documents=[]),
    "drop": lambda c: c.test.command("drop", "nosuch"),
    "dropDatabase": lambda c: c.nosuch.command("dropDatabase"),
    "createIndexes": lambda c: c.test.command("createIndexes", "c", indexes=[{"key": {"x": 1}, "name": "x_1"}]),
    "collMod": lambda c: c.test.command("collMod", "c"),
    "validate": lambda c: c.test.command("validate", "c"),
    "listCollections": lambda c: c.test.command("listCollections"),
    "dbStats": lambda c: c.test.command("dbStats"),
    "createUser": lambda c: c.test.command("createUser", "", pwd="x", roles=[]),
    "createUser elsewhere": lambda c: c.other.command("createUser", "", pwd="x", roles=[]),
    "usersInfo": lambda c: c.test.command("usersInfo", 1),
    "serverStatus": lambda c: c.admin.command("serverStatus"),
    "currentOp": lambda c: c.admin.command("currentOp"),
    "getLog": lambda c: c.admin.command("getLog", "global"),
    "fsync": lambda c: c.admin.command("fsync"),
    "backup": lambda c: c.admin.command("arborBackup", 1, snapshot=1, end=True),
    "setParameter": lambda c: c.admin.command("setParameter", 1, nosuch=1),
    "replSetGetStatus": lambda c: c.admin.command("replSetGetStatus"),
    "replSetReconfig": lambda c: c.admin.command("replSetReconfig", {}),
    "applyOps": lambda c: c.admin.command("applyOps", []),
}

# From the manual's page on built-in roles.
MAY = {
    "read@test": "find, listCollections, dbStats",
    "readWrite@test": "find, insert, drop, createIndexes, listCollections, dbStats",
    "dbAdmin@test": "drop, createIndexes, collMod, validate, listCollections, dbStats",
    "userAdmin@test": "createUser, usersInfo",
    "dbOwner@test": "find, insert, drop, createIndexes, collMod, validate, listCollections, dbStats, createUser, usersInfo",
    "readAnyDatabase@admin": "find, find elsewhere, listCollections, dbStats",
    "readWriteAnyDatabase@admin": "find, find elsewhere, insert, insert elsewhere, drop, createIndexes, listCollections, dbStats",
    "userAdminAnyDatabase@admin": "find users, createUser, createUser elsewhere, usersInfo",
    "dbAdminAnyDatabase@admin": "drop, dropDatabase, createIndexes, collMod, validate, listCollections, dbStats, applyOps",
    "clusterMonitor@admin": "find oplog, dbStats, serverStatus, currentOp, getLog, replSetGetStatus",
    "clusterManager@admin": "replSetGetStatus, replSetReconfig",
    "hostManager@admin": "fsync, setParameter",
    "clusterAdmin@admin": "find oplog, dropDatabase, dbStats, serverStatus, currentOp, getLog, fsync, setParameter, replSetGetStatus, replSetReconfig",
    "backup@admin": "find, find elsewhere, find users, find oplog, listCollections, serverStatus, backup",
    "restore@admin": "find users, insert, insert elsewhere, insert user, drop, createIndexes, collMod, listCollections, createUser, createUser elsewhere, usersInfo",
    "root@admin": ", ".join(ACTS),
    "__system@admin": ", ".join(ACTS),
}


@pytest.mark.parametrize("role", MAY)
def test_built_in_roles(guarded, admin, user, role):
    name, db = role.split("@")
    admin.test.c.insert_one({})
    client = user(name.strip("_"), [{"role": name, "db": db}])
    found = {act for act, run in ACTS.items() if permitted(lambda run=run: run(client))}
    assert found == set(MAY[role].split(", "))
    admin.drop_database("test")
    admin.drop_database("other")


def test_every_namespace_of_a_pipeline_counts(admin, user):
    admin.test.mine.insert_one({"_id": 1})
    admin.secret.theirs.insert_one({"_id": 1, "password": "x"})
    admin.test.create_collection("window", viewOn="mine", pipeline=[])
    client = user("reader", [{"role": "readWrite", "db": "test"}])
    theirs = {"db": "secret", "coll": "theirs"}
    for stage in [
        {"$lookup": {"from": theirs, "as": "x", "pipeline": []}},
        {"$unionWith": theirs},
        {"$out": theirs},
        {"$merge": {"into": theirs}},
        {"$facet": {"a": [{"$unionWith": {**theirs, "pipeline": []}}]}},
    ]:
        refused(lambda stage=stage: list(client.test.mine.aggregate([stage])))
        refused(lambda stage=stage: client.test.command("explain", {"aggregate": "mine", "pipeline": [stage], "cursor": {}}))
    assert len(list(client.test.window.aggregate([{"$unionWith": "mine"}]))) == 2
    refused(lambda: client.admin.command("renameCollection", "test.mine", to="secret.mine"))
    refused(lambda: client.admin.command("bulkWrite", 1, ops=[{"insert": 0, "document": {}}], nsInfo=[{"ns": "secret.theirs"}]))
    assert admin.secret.theirs.count_documents({}) == 1
    # a view shows its collection to those who may read the view alone
    admin.test.command("createRole", "viewer", privileges=[{"resource": {"db": "test", "collection": "window"}, "actions": ["find"]}], roles=[])
    viewer = user("viewer", ["viewer"])
    assert [doc["_id"] for doc in viewer.test.window.find()] == [1]
    refused(lambda: list(viewer.test.mine.find()))
    refused(lambda: viewer.test.command("create", "w2", viewOn="mine"))
    admin.test.command("dropRole", "viewer")
    admin.drop_database("test")
    admin.drop_database("secret")


# ---- effect at once


def test_changes_have_effect_at_once(admin, user):
    admin.test.c.insert_one({"_id": 1})
    admin.test.command("createRole", "r", privileges=[], roles=[])
    client = user("changing", ["r"])
    refused(lambda: list(client.test.c.find()))
    find = [{"resource": {"db": "test", "collection": "c"}, "actions": ["find"]}]
    admin.test.command("grantPrivilegesToRole", "r", privileges=find)
    assert len(list(client.test.c.find())) == 1
    refused(lambda: client.test.c.insert_one({}))
    admin.test.command("grantRolesToUser", "changing", roles=["readWrite"])
    client.test.c.insert_one({})
    admin.test.command("revokeRolesFromUser", "changing", roles=["readWrite"])
    refused(lambda: client.test.c.insert_one({}))
    admin.test.command("dropRole", "r")
    refused(lambda: list(client.test.c.find()))
    admin.admin.command("update", "system.users", updates=[{"q": {"user": "changing"}, "u": {"$set": {"roles": [{"role": "read", "db": "test"}]}}}])
    assert len(list(client.test.c.find())) == 2
    admin.test.command("dropUser", "changing")
    refused(lambda: list(client.test.c.find()))
    admin.drop_database("test")


def test_users_change_only_what_they_may(admin, user):
    client = user("plain", ["readWrite"])
    assert client.test.command("usersInfo", "plain")["users"][0]["user"] == "plain"
    refused(lambda: client.test.command("usersInfo", "plain", showCredentials=True))
    refused(lambda: client.test.command("usersInfo", 1))
    refused(lambda: client.test.command("updateUser", "plain", pwd="new"))
    refused(lambda: client.test.command("updateUser", "plain", roles=[{"role": "root", "db": "admin"}]))
    refused(lambda: client.test.command("grantRolesToUser", "plain", roles=[{"role": "dbOwner", "db": "test"}]))
    refused(lambda: client.admin.command("insert", "system.users", documents=[{"_id": "test.x", "user": "x", "db": "test"}]))
    owner = user("owner", ["userAdmin"])
    refused(lambda: owner.test.command("grantRolesToUser", "owner", roles=[{"role": "root", "db": "admin"}]))
    owner.test.command("grantRolesToUser", "owner", roles=["readWrite"])
    owner.test.c.insert_one({})
    admin.drop_database("test")


# ---- what belongs to a user


def test_cursors_sessions_and_operations_belong_to_their_user(guarded, admin, user):
    admin.test.c.insert_many([{"_id": n} for n in range(10)])
    one, two = user("one", ["readWrite"]), user("two", ["readWrite"])
    cursor = one.test.command("find", "c", batchSize=2)["cursor"]["id"]
    refused(lambda: two.test.command("getMore", Int64(cursor), collection="c"))
    refused(lambda: two.test.command("killCursors", "c", cursors=[Int64(cursor)]))
    assert one.test.command("killCursors", "c", cursors=[Int64(cursor)])["cursorsKilled"] == [cursor]
    session = one.admin.command("startSession")["id"]
    listed = {"_id.id": session["id"]}
    own = list(admin.config["system.sessions"].aggregate([{"$listSessions": {"allUsers": True}}, {"$match": listed}]))
    uid = own[0]["_id"]["uid"]
    wire = Wire(("127.0.0.1", guarded.port))
    log_in(wire, "two", "pw", "test")
    for given, code in [({"uid": uid}, UNAUTHORIZED), ({}, None)]:
        reply = wire.send({"find": "c", "lsid": {"id": session["id"], **given}, "$db": "test"})
        assert reply.get("code") == code
    refused(lambda: two.admin.command("killSessions", [{"id": session["id"], "uid": uid}]))
    refused(lambda: list(two.config["system.sessions"].aggregate([{"$listSessions": {"allUsers": True}}])))
    refused(lambda: list(two.admin.aggregate([{"$currentOp": {"allUsers": True}}])))
    shown = list(two.admin.aggregate([{"$currentOp": {}}]))
    assert {user["user"] for op in shown for user in op["effectiveUsers"]} == {"two"}
    refused(lambda: two.admin.command("killOp", 1, op=1))
    assert [db["name"] for db in two.admin.command("listDatabases")["databases"]] == ["test"]
    refused(lambda: two.admin.command("listDatabases", authorizedDatabases=False))
    admin.drop_database("test")


def test_collections_are_shown_to_those_who_may_use_them(admin, user):
    admin.test.a.insert_one({})
    admin.test.b.insert_one({})
    admin.test.command("createRole", "a", privileges=[{"resource": {"db": "test", "collection": "a"}, "actions": ["find"]}], roles=[])
    client = user("ofa", ["a"])
    refused(lambda: client.test.command("listCollections"))
    shown = client.test.command("listCollections", nameOnly=True, authorizedCollections=True)["cursor"]["firstBatch"]
    assert [entry["name"] for entry in shown] == ["a"]
    admin.test.command("dropRole", "a")
    admin.drop_database("test")


def test_restrictions_of_addresses(guarded, admin, user):
    elsewhere = [{"clientSource": ["192.0.2.0/24"]}]
    admin.test.command("createUser", "far", pwd="pw", roles=["read"], authenticationRestrictions=elsewhere)
    with connect(guarded, "far", "pw", "test") as client:
        assert code_of(lambda: client.test.command("ping")) == FAILED
    near = user("near", ["read"], authenticationRestrictions=[{"clientSource": "127.0.0.0/8", "serverAddress": ["127.0.0.1"]}])
    near.test.command("find", "c")
    admin.test.command("updateUser", "near", authenticationRestrictions=elsewhere)
    refused(lambda: near.test.command("find", "c"))
    admin.test.command("dropUser", "far")


def test_secrets_are_not_shown(guarded, admin, user):
    admin.admin.command("profile", -1, slowms=0)
    user("quiet", ["read"], customData={"mark": "shown"})
    admin.admin.command("profile", -1, slowms=100)
    log = guarded.log_path.read_text()
    assert '"createUser":"quiet"' in log and '"pwd":"xxx"' in log and '"pwd":"pw"' not in log


# ---- users of another server


def test_users_are_restored_by_tools(admin, user):
    """What mongorestore does: documents into other collections first, then the merge."""
    user("kept", ["read"])
    document = admin.admin["system.users"].find_one({"user": "kept"})
    restored = {**document, "_id": "test.restored", "user": "restored"}
    admin.admin.tempusers.insert_one(restored)
    admin.admin.command("_mergeAuthzCollections", 1, tempUsersCollection="admin.tempusers", db="test", drop=True)
    assert [user["user"] for user in admin.test.command("usersInfo", 1)["users"]] == ["restored"]
    assert admin.admin.command("usersInfo", "admin")["users"] != []
    assert admin.admin.command("getParameter", 1, authSchemaVersion=1)["authSchemaVersion"] == 5
    admin.admin.tempusers.drop()
    admin.test.command("dropAllUsersFromDatabase")


# ---- the start


def test_the_exception_for_the_first_user(tmp_path):
    with Arbor(tmp_path / "data", ["--auth"]) as server:
        with pymongo.MongoClient(server.uri) as local:
            refused(lambda: local.test.command("find", "c"))
            refused(lambda: local.admin.command("usersInfo", 1))
            refused(lambda: local.test.command("createUser", "u", pwd="x", roles=[]))
            local.admin.command("createUser", "first", pwd="x", roles=["userAdminAnyDatabase"])
            refused(lambda: local.admin.command("createUser", "second", pwd="x", roles=["root"]))
            refused(lambda: local.admin.command("createRole", "r", privileges=[], roles=[]))
        # it does not come back, and users last
        server.stop()
        server.start()
        with pymongo.MongoClient(server.uri) as local:
            refused(lambda: local.admin.command("createUser", "second", pwd="x", roles=["root"]))
        with connect(server, "first", "x") as client:
            client.admin.command("createUser", "second", pwd="x", roles=["root"])
    with Arbor(tmp_path / "other", ["--auth", "--setParameter", "enableLocalhostAuthBypass=false"]) as server:
        with pymongo.MongoClient(server.uri) as local:
            refused(lambda: local.admin.command("createUser", "first", pwd="x", roles=["root"]))


def test_members_log_in_with_the_key(tmp_path):
    key = tmp_path / "key"
    key.write_text("c2VjcmV0 a2V5\n")
    key.chmod(0o600)
    with Arbor(tmp_path / "data", ["--keyFile", str(key)]) as server:
        for mechanism in ("SCRAM-SHA-1", "SCRAM-SHA-256"):
            with connect(server, "__system", "c2VjcmV0a2V5", "local", authMechanism=mechanism) as member:
                member.test.c.insert_one({})
                member.admin.command("applyOps", [{"op": "c", "ns": "test.$cmd", "o": {"drop": "c"}}])
        with connect(server, "__system", "wrong", "local") as member:
            assert code_of(lambda: member.test.command("ping")) == FAILED


def start(path, *flags):
    """Answers the exit code and the output of a server that refuses to start."""
    (path / "data").mkdir(exist_ok=True)
    command = [os.environ["ARBOR"], "serve", "--dbpath", str(path / "data"), "--port", str(free_port()), *flags]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout + done.stderr


def test_refused_starts(tmp_path):
    code, text = start(tmp_path, "--bind_ip", "0.0.0.0")
    assert code == 2 and "without access control" in text and "--allowInsecure" in text
    key = tmp_path / "key"
    key.write_text("c2VjcmV0a2V5")
    key.chmod(0o644)
    code, text = start(tmp_path, "--keyFile", str(key))
    assert code == 2 and "permissions are too open" in text
    key.chmod(0o600)
    key.write_text("short")
    assert start(tmp_path, "--keyFile", str(key))[0] == 2
    assert start(tmp_path, "--keyFile", str(tmp_path / "none"))[0] == 2


def test_wider_addresses_with_access_control_or_by_name(tmp_path):
    for number, flags in enumerate([["--auth"], ["--allowInsecure"]]):
        with Arbor(tmp_path / str(number), ["--bind_ip", "0.0.0.0", *flags]) as server:
            with pymongo.MongoClient(server.uri) as client:
                client.admin.command("ping")
                if "--auth" not in flags:
                    warnings = client.admin.command("getLog", "startupWarnings")["log"]
                    assert any("other machines reach this server" in line for line in warnings)


def test_the_file_turns_it_on(tmp_path):
    config = tmp_path / "arbor.yaml"
    config.write_text("security:\n  authorization: enabled\n")
    with Arbor(tmp_path / "data", ["--config", str(config)]) as server:
        with pymongo.MongoClient(server.uri) as client:
            refused(lambda: client.test.command("find", "c"))
