"""Members of a set that prove to each other who they are: a shared key, certificates, and a change of the key under load."""

import contextlib
import threading
import time

import pymongo
import pytest
from pymongo.errors import AutoReconnect, OperationFailure, PyMongoError

import certificates
from arbor_process import Members
from test_member_sync import SMALL_LOG, add, fill_collections, fill_log, joined_log

LIMIT_S = 60
USER = {"username": "admin", "password": "secret"}


def until(condition, what, limit_s=LIMIT_S):
    deadline = time.monotonic() + limit_s
    while True:
        with contextlib.suppress(PyMongoError):
            value = condition()
            if value:
                return value
        assert time.monotonic() < deadline, f"{what} did not come true within {limit_s} s"
        time.sleep(0.05)


def key_file(path, *keys):
    path.write_text("".join(f"- {key}\n" for key in keys) if len(keys) > 1 else keys[0])
    path.chmod(0o600)
    return path


def direct(member, **options):
    options = {"serverSelectionTimeoutMS": 20_000, **options}
    return pymongo.MongoClient("127.0.0.1", member.port, directConnection=True, **options)


def in_sync(client, count):
    until(lambda: len(client.admin.command("replSetGetStatus")["arbor"]["inSync"]) == count, f"{count} members in sync")


def begin(members, **options):
    """Initiates the set by the exception for the first user, and makes that user."""
    first = members.members[0]
    with direct(first, **options) as client:
        client.admin.command("replSetInitiate", members.config())
        until(lambda: client.admin.command("hello")["isWritablePrimary"], "a primary")
        client.admin.command("createUser", "admin", pwd="secret", roles=["root"])
        with pytest.raises(OperationFailure) as refused:
            client.admin.command("createUser", "second", pwd="secret", roles=["root"])
        assert refused.value.code == 13


def of_user(members, **options):
    return pymongo.MongoClient(members.uri, serverSelectionTimeoutMS=30_000, **USER, **options)


def test_a_set_with_a_key(tmp_path):
    key = key_file(tmp_path / "key", "c2VjcmV0IG9mIHRoZSBzZXQ=")
    with Members(tmp_path / "set", flags=["--keyFile", str(key)]) as members:
        begin(members)
        with of_user(members) as client:
            in_sync(client, 3)
            everywhere = client.db.get_collection("c", write_concern=pymongo.WriteConcern(3, wtimeout=LIMIT_S * 1000))
            everywhere.insert_many([{"_id": number} for number in range(100)])
            until(lambda: all(m["health"] == 1 for m in client.admin.command("replSetGetStatus")["members"]), "the health of all")
            # What members say to each other is for them alone.
            for member in members.members:
                with direct(member) as stranger, direct(member, **USER) as administrator:
                    for command in ({"_arborMember": 1, "set": "rs0", "probe": True}, {"_arborTree": 1, "begin": True},
                                    {"replSetHeartbeat": "rs0"}):
                        for who in (stranger, administrator):
                            with pytest.raises(OperationFailure) as refused:
                                who.admin.command(command)
                            assert refused.value.code == 13, command
            # An index is fetched past the log.
            client.db.c.create_index("k")
            first = members.at(client.primary)
            first.kill()
            until(lambda: client.db.c.insert_one({}).acknowledged, "a write after the failover")
            assert members.at(client.primary) is not first
            first.start()
            in_sync(client, 3)
            # A user who is made after the failover is known on all members, and one who is removed on none.
            client.admin.command("createUser", "late", pwd="late", roles=["readAnyDatabase"], writeConcern={"w": 3})
            for member in members.members:
                with direct(member, username="late", password="late") as late:
                    behind = late.db.get_collection("c", read_preference=pymongo.ReadPreference.SECONDARY_PREFERRED)
                    assert until(lambda behind=behind: behind.count_documents({}) == 101, "all documents")


def test_a_member_with_another_key_is_refused(tmp_path):
    key = key_file(tmp_path / "key", "c2VjcmV0")
    with Members(tmp_path / "set", count=2, flags=["--keyFile", str(key)]) as members:
        stranger = members.members[1]
        stranger.stop()
        stranger.flags[-1] = str(key_file(tmp_path / "other", "b3RoZXJz"))
        stranger.start()
        with direct(members.members[0]) as client:
            with pytest.raises(OperationFailure) as refused:
                client.admin.command("replSetInitiate", members.config())
            assert refused.value.code == 74 and "Authentication" in str(refused.value), refused.value
            assert "setName" not in client.admin.command("hello")


def test_the_key_is_replaced_under_load(tmp_path):
    old, new = "b2xkIGtleQ==", "bmV3IGtleQ=="
    with Members(tmp_path / "set") as members:
        keys = []
        for number, member in enumerate(members.members):
            member.stop()
            keys.append(key_file(tmp_path / f"key{number}", old))
            member.flags += ["--keyFile", str(keys[-1])]
            member.start()
        begin(members)
        # With a time limit the driver retries until then; without one it retries once, and two members may change in a row.
        with of_user(members, timeoutMS=60_000) as client:
            in_sync(client, 3)
            written, failed, stop = [], [], threading.Event()

            def write():
                number = 0
                while not stop.is_set():
                    try:
                        client.db.c.insert_one({"_id": number})
                        written.append(number)
                    except PyMongoError as error:
                        failed.append(error)
                    number += 1

            writer = threading.Thread(target=write)
            writer.start()
            for texts in ((old, new), (new, old), (new,)):
                for member, path in zip(members.members, keys, strict=True):
                    member.stop()
                    key_file(path, *texts)
                    member.start()
                    in_sync(client, 3)
            stop.set()
            writer.join()
            assert not failed, failed[:3]
            assert sorted(doc["_id"] for doc in client.db.c.find({}, {"_id": 1})) == written and len(written) > 50


@pytest.mark.parametrize("mode", ["keyFile", "x509"])
def test_a_set_with_tls(tmp_path, mode):
    authority = certificates.Authority(tmp_path, "authority")
    key = key_file(tmp_path / "key", "c2VjcmV0")
    own = authority.sign("member", "IP:127.0.0.1", subject="/O=Set/OU=Members/CN=member")
    proof = ["--keyFile", str(key)] if mode == "keyFile" else ["--clusterAuthMode", "x509"]
    flags = certificates.flags(authority, own, "requireTLS", "--tlsAllowConnectionsWithoutCertificates", *proof)
    tls = {"tls": True, "tlsCAFile": str(authority.ca)}
    with Members(tmp_path / "set", flags=flags) as members:
        begin(members, **tls)
        with of_user(members, **tls) as client:
            in_sync(client, 3)
            client.db.c.insert_one({"_id": 1})
            first = members.at(client.primary)
            first.kill()
            until(lambda: client.db.c.insert_one({}).acknowledged, "a write after the failover")
            first.start()
            in_sync(client, 3)
        with direct(members.members[0], serverSelectionTimeoutMS=2_000) as plain, pytest.raises(PyMongoError):
            plain.db.c.find_one()


def test_other_certificates_for_members_and_other_addresses_for_clients(tmp_path):
    """Members show certificates of an authority of their own (tlsClusterFile, tlsClusterCAFile); a client that calls them by another
    name (SNI) sees their addresses there (horizons)."""
    servers, cluster = (certificates.Authority(tmp_path, name) for name in ("servers", "cluster"))
    shown = servers.sign("server", "IP:127.0.0.1,DNS:localhost", subject="/O=Set/OU=Members/CN=server")
    between = cluster.sign("member", "IP:127.0.0.1", subject="/O=Set/OU=Members/CN=member", password="hidden")
    flags = [
        *certificates.flags(servers, shown, "requireTLS", "--tlsAllowConnectionsWithoutCertificates", "--clusterAuthMode", "x509"),
        *("--tlsClusterFile", str(between), "--tlsClusterPassword", "hidden", "--tlsClusterCAFile", str(cluster.ca)),
    ]
    tls = {"tls": True, "tlsCAFile": str(servers.ca)}
    with Members(tmp_path / "set", flags=flags) as members:
        begin(members, **tls)
        ports = [member.port for member in members.members]
        with of_user(members, **tls) as client:
            in_sync(client, 3)
            config = client.admin.command("replSetGetConfig")["config"]
            config["version"] += 1
            for member, port in zip(config["members"], ports, strict=True):
                member["horizons"] = {"outside": f"localhost:{port}"}
            client.admin.command("replSetReconfig", config)
            assert client.admin.command("replSetGetConfig")["config"]["members"] == config["members"]
        for name in ("localhost", "127.0.0.1"):
            uri = f"mongodb://{','.join(f'{name}:{port}' for port in ports)}/?replicaSet={config['_id']}"
            with pymongo.MongoClient(uri, serverSelectionTimeoutMS=30_000, **USER, **tls) as client:
                client.db.c.insert_one({"_id": name})
                hello = client.admin.command("hello")
                assert sorted(hello["hosts"]) == sorted(f"{name}:{port}" for port in ports)
                assert hello["me"].startswith(name) and hello["primary"].startswith(name)
                until(lambda client=client, name=name: client.nodes == {(name, port) for port in ports}, "all members known")
        # a certificate of the servers' authority is none of a member or of a client
        with pytest.raises(PyMongoError):
            direct(members.members[0], tlsCertificateKeyFile=str(shown), serverSelectionTimeoutMS=2_000, **tls).admin.command("ping")


def test_access_control_and_tls_are_turned_on_one_member_after_the_other(tmp_path):
    authority = certificates.Authority(tmp_path, "authority")
    own = authority.sign("member", "IP:127.0.0.1")
    key = key_file(tmp_path / "key", "c2VjcmV0")
    with Members(tmp_path / "set") as members:
        with direct(members.members[0]) as client:
            client.admin.command("replSetInitiate", members.config())
        with pymongo.MongoClient(members.uri, serverSelectionTimeoutMS=30_000) as client:
            in_sync(client, 3)
            client.admin.command("createUser", "admin", pwd="secret", roles=["root"])
        plain = list(members.members[0].flags)
        optional = "--tlsAllowConnectionsWithoutCertificates"
        # A user may log in before it is asked for.
        steps = [
            ([], [], {}),
            (["--transitionToAuth"], certificates.flags(authority, own, "allowTLS", optional), {}),
            (["--transitionToAuth"], certificates.flags(authority, own, "preferTLS", optional), {}),
            ([], certificates.flags(authority, own, "requireTLS", optional), {"tls": True, "tlsCAFile": str(authority.ca)}),
        ]
        for number, (auth, encryption, options) in enumerate(steps[1:], 1):
            before = steps[number - 1][2]
            for member in members.members:
                member.stop()
                member.flags = [*plain, "--keyFile", str(key), *auth, *encryption]
                member.start()
                # The others take clients as before until the last step, in which either kind is refused by some.
                if options == before:
                    with of_user(members, **options) as client:
                        in_sync(client, 3)
            with of_user(members, **options) as client:
                in_sync(client, 3)
                with contextlib.suppress(AutoReconnect):
                    client.db.c.insert_one({"_id": number})
                until(lambda number=number, client=client: client.db.c.find_one({"_id": number}), "the write")


@pytest.mark.parametrize("proof", ["keyFile", "x509"])
def test_data_is_copied_between_members_that_prove_who_they_are(tmp_path, proof):
    """An initial sync and a resync, with every connection encrypted and every command checked; users are copied as well."""
    authority = certificates.Authority(tmp_path, "authority")
    own = authority.sign("member", "IP:127.0.0.1", subject="/O=Set/OU=Members/CN=member")
    proofs = {"keyFile": ["--keyFile", str(key_file(tmp_path / "key", "c2VjcmV0"))], "x509": ["--clusterAuthMode", "x509"]}
    encryption = certificates.flags(authority, own, "requireTLS", "--tlsAllowConnectionsWithoutCertificates")
    tls = {"tls": True, "tlsCAFile": str(authority.ca)}

    def digest(member):
        with direct(member, **tls, **USER) as client:
            secondary = {"read_preference": pymongo.ReadPreference.SECONDARY_PREFERRED}
            assert client.db.get_collection("c", **secondary).count_documents({"n": 3}, hint="n_1__id_-1") > 0
            return [client.get_database(name, **secondary).command("dbHash")["md5"] for name in ("db", "other", "admin")]

    def is_equal(*members):
        until(lambda: len({str(digest(member)) for member in members}) == 1, "equal data")

    with Members(tmp_path / "set", flags=[*SMALL_LOG, *encryption, *proofs[proof]]) as members:
        begin(members, **tls)
        with of_user(members, **tls) as client:
            fill_collections(client)
            in_sync(client, 3)
            primary = members.at(client.primary)
            away = next(member for member in members.members if member is not primary)
            away.stop()
            client.db.c.delete_many({"n": 2})
            client.admin.command("createUser", "late", pwd="late", roles=["readAnyDatabase"])
            fill_log(client, primary)
            away.start()
            in_sync(client, 3)
            assert "Initial sync is done" in joined_log(away)
            is_equal(*members.members)
            joined = members.add_process()
            joined.start()
            add(client, members, 3)
            in_sync(client, 4)
            assert "Initial sync is done" in joined_log(joined)
            is_equal(*members.members)
            for member in (away, joined):
                with direct(member, **tls, username="late", password="late") as late:
                    behind = late.db.get_collection("c", read_preference=pymongo.ReadPreference.SECONDARY_PREFERRED)
                    assert behind.count_documents({"n": 2}) == 0
                with direct(member, **tls) as stranger, pytest.raises(OperationFailure) as refused:
                    stranger.admin.command({"_arborTree": 1, "begin": True})
                assert refused.value.code == 13
            client.db.c.insert_one({"_id": "afterwards"})
            is_equal(*members.members)
