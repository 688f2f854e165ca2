"""Changes of a set of several members that are refused, or that are done by force: the set continues in any case."""

import contextlib
import shutil
import time

import pymongo
import pytest
from pymongo.errors import AutoReconnect, OperationFailure, WTimeoutError

from arbor_process import Members
from test_members import SECONDARY, direct, in_sync, initiated, primary_of, status, until

LIMIT_S = 60


def config_of(client):
    config = client.admin.command("replSetGetConfig")["config"]
    config["version"] += 1
    return config


def refusal(client, command, *values, **options):
    with pytest.raises(OperationFailure) as refused:
        client.admin.command(command, *values, **options)
    return refused.value.code, str(refused.value)


def test_changes_that_are_refused(tmp_path):
    with initiated(tmp_path) as (members, client):
        full = config_of(client)

        def changed(**fields):
            return refusal(client, "replSetReconfig", {**config_of(client), **fields})

        own = members.members.index(members.at(client.primary))
        alone = [full["members"][own]]
        code, text = changed(members=alone)
        assert code == 103 and "at most 1 voting member" in text
        others = [member for member in full["members"] if member["_id"] != own]
        code, text = changed(members=others)
        assert code == 74 and "No host described in new configuration" in text
        assert changed(_id="other")[0] == 103
        assert changed(version=1)[0] == 103
        twice = full["members"] + [{"_id": 3, "host": full["members"][0]["host"]}]
        code, text = changed(members=twice)
        assert code == 93 and "same" in text, text
        # A server with data of its own.
        foreign = members.add_process()
        foreign.start()
        with direct(foreign) as stranger:
            one = {"_id": "rs0", "members": [{"_id": 0, "host": members.hosts[3]}]}
            stranger.admin.command("replSetInitiate", one)
            until(lambda: stranger.admin.command("hello")["isWritablePrimary"], LIMIT_S)
            stranger.db.c.insert_one({"_id": "foreign"})
        code, text = changed(members=full["members"] + [{"_id": 3, "host": members.hosts[3]}])
        assert code == 103 and "cannot be added" in text
        # A server of another set.
        for garbage in ({"message": b"garbage"}, {"message": b"\xff" * 10_000}, {"message": 5}, {"join": {}}, {"join": 1}, {}):
            for member in members.members[:3]:
                with direct(member) as own_client, contextlib.suppress(OperationFailure):
                    own_client.admin.command({"_arborMember": 1, "set": "rs0", **garbage})
        assert refusal(client, {"_arborMember": 1, "set": "other", "probe": True})[0] == 108
        assert refusal(client, "replSetHeartbeat", "other")[0] == 108
        in_sync(client, 3)
        client.db.get_collection("c", write_concern=pymongo.WriteConcern(3, wtimeout=LIMIT_S * 1000)).insert_one({"_id": 1})
        assert config_of(client)["members"] == full["members"] and client.db.c.count_documents({}) == 2


def test_two_members_with_one_identity(tmp_path):
    with Members(tmp_path, count=2) as members:
        first, second = members.members
        first.stop()
        second.stop()
        shutil.rmtree(second.dbpath)
        shutil.copytree(first.dbpath, second.dbpath)
        first.start()
        second.start()
        with direct(first) as client:
            code, text = refusal(client, "replSetInitiate", members.config())
            assert code == 103 and "the directory of one was copied" in text
            assert "setName" not in client.admin.command("hello")


def test_a_majority_that_is_lost_is_removed_by_force(tmp_path):
    """The primary continues alone and has everything; without force nothing changes."""
    with initiated(tmp_path) as (members, client):
        first = members.at(client.primary)
        own = members.members.index(first)
        config = config_of(client)
        for member in members.members:
            if member is not first:
                member.kill()
        with direct(first) as alone:
            slow = alone.db.get_collection("c", write_concern=pymongo.WriteConcern("majority", wtimeout=500))
            with pytest.raises((WTimeoutError, AutoReconnect)):
                slow.insert_one({"_id": 1})
            config["members"] = [config["members"][own]]
            assert refusal(alone, "replSetReconfig", config)[0] == 103
            alone.admin.command("replSetReconfig", config, force=True)
            in_sync(alone, 1)
            until(lambda: alone.admin.command("hello")["isWritablePrimary"], LIMIT_S)
            alone.db.c.insert_one({"_id": 2})
            assert {-1, 2} <= {doc["_id"] for doc in alone.db.c.find()}
            assert status(alone)["members"][0]["stateStr"] == "PRIMARY"


def test_force_does_not_lose_what_was_acknowledged(tmp_path):
    with initiated(tmp_path) as (members, client):
        first = members.at(client.primary)
        behind = next(member for member in members.members if member is not first)
        third = next(member for member in members.members if member not in (first, behind))
        behind.kill()
        in_sync(client, 2)
        client.db.c.insert_one({"_id": 1})
        config = config_of(client)
        third.kill()
        first.kill()
        behind.start()
        with direct(behind) as alone:
            config["members"] = [config["members"][members.members.index(behind)]]

            def refused():
                with contextlib.suppress(AutoReconnect):
                    code, text = refusal(alone, "replSetReconfig", config, force=True)
                    return code == 103 and "is not in sync" in text and f"127.0.0.1:{first.port}" in text

            until(refused, LIMIT_S, "the refusal")
        first.start()
        third.start()
        until(lambda: primary_of(members), LIMIT_S, "a primary")
        assert client.db.c.find_one({"_id": 1}) is not None


def test_a_delayed_member_shows_what_is_old_enough(tmp_path):
    delay = 5
    with Members(tmp_path) as members:
        first, second, delayed = members.members
        config = members.config()
        config["members"][2] |= {"priority": 0, "hidden": True, "secondaryDelaySecs": delay}
        with direct(first) as one:
            one.admin.command("replSetInitiate", config)
        with direct(delayed) as there, pymongo.MongoClient(members.uri, serverSelectionTimeoutMS=20_000) as client:
            client.db.c.insert_one({"_id": 0})
            in_sync(client, 2)
            hidden = until(lambda: (hello := there.admin.command("hello")).get("hidden") and hello)
            assert hidden["passive"] and hidden["secondaryDelaySecs"] == delay
            assert f"127.0.0.1:{delayed.port}" not in hidden["hosts"]
            shown = there.db.get_collection("c", read_preference=SECONDARY)
            until(lambda: shown.count_documents({}) == 1, LIMIT_S, "the first document on the delayed member")

            # it has the record on its disk, which counts, and shows it later
            every = client.db.get_collection("c", write_concern=pymongo.WriteConcern(3, wtimeout=LIMIT_S * 1000))
            written = time.time()
            every.insert_one({"_id": 1})
            # a restart shows nothing early
            delayed.stop()
            delayed.start()
            until(lambda: shown.count_documents({}) > 0, LIMIT_S, "the state of before")
            if time.time() < written + delay - 1:
                assert shown.find_one({"_id": 1}) is None
            until(lambda: shown.count_documents({}) == 2, LIMIT_S, "the second document on the delayed member")
            assert time.time() >= written + delay - 1
            own = next(member for member in status(client)["members"] if member["_id"] == 2)
            assert own["stateStr"] == "SECONDARY" and own["health"] == 1
            assert f"127.0.0.1:{delayed.port}" not in status(client)["arbor"]["inSync"]

            # without the delay it shows all at once, and may be in sync
            client.db.c.insert_one({"_id": 2})
            config = config_of(client)
            config["members"][2] |= {"secondaryDelaySecs": 0, "hidden": False}
            client.admin.command("replSetReconfig", config)
            until(lambda: shown.count_documents({}) == 3, LIMIT_S, "everything without a delay")
            in_sync(client, 3)


def test_an_arbiter_and_a_member_without_a_vote_count_nowhere(tmp_path):
    with Members(tmp_path, count=4) as members:
        first, second, arbiter, silent = members.members
        config = members.config()
        config["members"][2] |= {"arbiterOnly": True, "priority": 0}
        config["members"][3] |= {"votes": 0, "priority": 0, "hidden": True}
        with direct(first) as one:
            one.admin.command("replSetInitiate", config)
        with pymongo.MongoClient(members.uri, serverSelectionTimeoutMS=20_000) as client:
            client.db.c.insert_one({"_id": 1})
            in_sync(client, 2)
            said = client.admin.command("hello")
            assert said["arbiters"] == [f"127.0.0.1:{arbiter.port}"] and sorted(said["hosts"]) == sorted(members.hosts[:2])
            shown = until(lambda: [one for one in status(client)["members"] if one["stateStr"] == "ARBITER"])
            assert [one["name"] for one in shown] == [f"127.0.0.1:{arbiter.port}"] and shown[0]["state"] == 7
            # the member without a vote follows, and counts for `w: 3`; the arbiter has no data and does not
            client.db.get_collection("c", write_concern=pymongo.WriteConcern(3, wtimeout=LIMIT_S * 1000)).insert_one({"_id": 2})
            with pytest.raises(OperationFailure) as refused:
                client.db.get_collection("c", write_concern=pymongo.WriteConcern(4, wtimeout=500)).insert_one({"_id": 3})
            assert refused.value.code == 100, refused.value
            with direct(silent) as there:
                assert there.admin.command("hello")["hidden"]
                until(lambda: there.db.get_collection("c", read_preference=SECONDARY).count_documents({}) == 3)
            hosts = {one for one in status(client)["arbor"]["inSync"]}
            assert hosts == set(members.hosts[:2])


def test_a_frozen_member_does_not_take_over(tmp_path):
    with initiated(tmp_path) as (members, client):
        first = members.at(client.primary)
        others = [member for member in members.members if member is not first]
        for member in others:
            with direct(member) as there:
                there.admin.command("replSetFreeze", 60)
        assert refusal(client, "replSetFreeze", 60)[0] == 95
        first.kill()
        time.sleep(5)
        assert primary_of(members) is None
        with direct(others[0]) as there:
            assert there.admin.command("replSetFreeze", 0)["info"] == "unfreezing"
        until(lambda: primary_of(members) is others[0], LIMIT_S, "the member that is no longer frozen")


def test_local_is_written_by_no_client_of_several_members(tmp_path):
    """It belongs to a member alone, and would reach all of them through the log."""
    with initiated(tmp_path) as (members, client):
        local = client.local
        refused = (
            lambda: local.c.insert_one({"_id": 1}),
            lambda: local.c.update_one({"_id": 1}, {"$set": {"a": 1}}, upsert=True),
            lambda: local.c.delete_many({}),
            lambda: local.c.find_one_and_update({"_id": 1}, {"$set": {"a": 1}}, upsert=True),
            lambda: local.create_collection("c"),
            lambda: local.c.create_index("a"),
            lambda: client.drop_database("local"),
            lambda: client.admin.command("bulkWrite", 1, ops=[{"insert": 0, "document": {"_id": 1}}], nsInfo=[{"ns": "local.c"}])
            ["cursor"]["firstBatch"][0],
        )
        for number, write in enumerate(refused):
            try:
                reply = write()
                code = reply["code"]
            except OperationFailure as error:
                code = error.code
            assert code == 20, number
        for member in members.members:
            with direct(member) as own:
                assert own.local.get_collection("c", read_preference=SECONDARY).count_documents({}) == 0
