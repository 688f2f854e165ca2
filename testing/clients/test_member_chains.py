"""Members that get their records from another secondary: `replSetSyncFrom`."""

import signal
import time

import pymongo

from test_member_changes import config_of, refusal
from test_members import digest, direct, documents, in_sync, initiated, primary_of, status, until

EVERYWHERE = pymongo.WriteConcern(3, wtimeout=30_000)


def source_of(member):
    with direct(member) as there:
        return status(there)["syncSourceHost"]


def address(member):
    return f"127.0.0.1:{member.port}"


def chained(members, client):
    """Returns the primary, a source and a member that syncs from that."""
    first = members.at(client.primary)
    source, last = [member for member in members.members if member is not first]
    until(lambda: source_of(last) == address(first), what="the primary as source")
    with direct(last) as there:
        reply = there.admin.command("replSetSyncFrom", address(source))
        assert reply["syncFromRequested"] == address(source) and reply["prevSyncTarget"] == address(first), reply
    until(lambda: source_of(last) == address(source), what="the other source")
    return first, source, last


def test_records_come_from_the_member_that_was_named(tmp_path):
    with initiated(tmp_path) as (members, client):
        first, source, last = chained(members, client)
        collection = client.db.get_collection("c", write_concern=EVERYWHERE)
        for number in range(100):
            collection.insert_one({"_id": number, "text": "x" * 1000})
        # it has helped all the time: else the primary would have taken over
        assert source_of(last) == address(source)
        in_sync(client, 3)
        assert len({str(digest(member)) for member in members.members}) == 1
        shown = {member["name"]: member.get("syncSourceHost") for member in status(client)["members"]}
        assert shown[address(first)] == ""
        until(lambda: {m["name"]: m["syncSourceHost"] for m in status(client)["members"]}[address(last)] == address(source))
        # a step-down to one of them, and further writes
        client.admin.command("replSetStepDown", 20)
        until(lambda: primary_of(members), what="a successor")
        collection.insert_one({"_id": 100})
        in_sync(client, 3)


def test_a_source_that_ends_is_used_no_longer(tmp_path):
    with initiated(tmp_path) as (members, client):
        first, source, last = chained(members, client)
        client.db.get_collection("c", write_concern=EVERYWHERE).insert_one({"_id": 0})
        source.kill()
        client.db.get_collection("c", write_concern=pymongo.WriteConcern(2, wtimeout=30_000)).insert_one({"_id": 1})
        until(lambda: source_of(last) == address(first), what="the primary as source again")
        source.start()
        in_sync(client, 3)


def test_writes_do_not_wait_for_a_source_that_hangs(tmp_path):
    with initiated(tmp_path) as (members, client):
        first, source, last = chained(members, client)
        two = client.db.get_collection("c", write_concern=pymongo.WriteConcern(2, wtimeout=30_000))
        two.insert_one({"_id": 0})
        source.process.send_signal(signal.SIGSTOP)
        try:
            begun = time.monotonic()
            for number in range(1, 20):
                two.insert_one({"_id": number})
            # both have to leave: the source the set, and the other one its source
            assert time.monotonic() - begun < 15
            until(lambda: source_of(last) == address(first), what="the primary as source again")
            until(lambda: documents(last) == list(range(-1, 20)), what="all documents")
        finally:
            source.process.send_signal(signal.SIGCONT)
        in_sync(client, 3)
        assert len({str(digest(member)) for member in members.members}) == 1


def test_sources_that_are_refused(tmp_path):
    with initiated(tmp_path, _2={"votes": 0, "priority": 0}, sync=2) as (members, client):
        first = members.at(client.primary)
        follower = next(member for member in members.members[:2] if member is not first)
        silent = members.members[2]
        assert refusal(client, "replSetSyncFrom", address(follower))[0] == 95
        with direct(follower) as there:
            assert refusal(there, "replSetSyncFrom", "127.0.0.1:1")[0] == 74
            assert refusal(there, "replSetSyncFrom", address(follower))[0] == 72
            assert refusal(there, "replSetSyncFrom", address(silent))[0] == 72
            assert refusal(there, "replSetSyncFrom", 5)[0] == 14
        # without a vote it may chain, if the set permits it
        with direct(silent) as there:
            there.admin.command("replSetSyncFrom", address(follower))
            until(lambda: source_of(silent) == address(follower), what="the other source")
            there.admin.command("replSetSyncFrom", address(first))
            until(lambda: source_of(silent) == address(first), what="the primary as source")
        config = config_of(client)
        config["settings"]["chainingAllowed"] = False
        client.admin.command("replSetReconfig", config)
        with direct(silent) as there:
            until(lambda: not there.admin.command("replSetGetConfig")["config"]["settings"]["chainingAllowed"])
            assert there.admin.command("replSetSyncFrom", address(follower))["ok"] == 1
            assert source_of(silent) == address(first)
