"""Fail points that the tests of drivers set."""

import contextlib
import time

import pymongo
import pytest
from pymongo.errors import AutoReconnect, OperationFailure


@contextlib.contextmanager
def fail_point(client, name, mode, data):
    client.admin.command({"configureFailPoint": name, "mode": mode, "data": data})
    try:
        yield
    finally:
        client.admin.command({"configureFailPoint": name, "mode": "off"})


@pytest.fixture
def member(replica_set):
    """A client that retries nothing."""
    uri = f"{replica_set.uri}&retryReads=false&retryWrites=false"
    with pymongo.MongoClient(uri, serverSelectionTimeoutMS=10_000) as client:
        client.drop_database("fail_points")
        yield client
        client.drop_database("fail_points")


def test_a_state_error_of_a_fail_point_has_no_topology_version(member):
    with fail_point(member, "failCommand", {"times": 1}, {"failCommands": ["ping"], "errorCode": 10107}):
        with pytest.raises(pymongo.errors.NotPrimaryError) as caught:
            member.admin.command("ping")
    assert "topologyVersion" not in caught.value.details


def test_blocked_time_counts_against_the_limit(member):
    data = {"failCommands": ["find"], "blockConnection": True, "blockTimeMS": 400}
    with fail_point(member, "failCommand", "alwaysOn", data):
        begin = time.monotonic()
        with pytest.raises(OperationFailure) as caught:
            member.fail_points.c.find_one({}, max_time_ms=100)
        assert caught.value.code == 50 and 0.1 <= time.monotonic() - begin < 0.4
        assert member.fail_points.c.find_one({}, max_time_ms=60_000) is None
        assert time.monotonic() - begin > 0.5


def test_get_more_after_its_cursor_was_found(member):
    member.fail_points.c.insert_many([{"_id": n} for n in range(5)])
    cursor = member.fail_points.c.find(batch_size=2)
    cursor.next(), cursor.next()
    with fail_point(member, "failGetMoreAfterCursorCheckout", {"times": 1}, {"errorCode": 6}):
        with pytest.raises((OperationFailure, AutoReconnect)) as caught:
            cursor.next()
    assert caught.value.code == 6
    with member.fail_points.c.watch(max_await_time_ms=100) as stream:
        member.fail_points.c.insert_one({"_id": 6})
        with fail_point(member, "failGetMoreAfterCursorCheckout", {"times": 1}, {"errorCode": 6}):
            # the stream is resumed
            until = time.monotonic() + 10
            event = None
            while event is None and time.monotonic() < until:
                event = stream.try_next()
        assert event["documentKey"] == {"_id": 6}


def test_writes_that_can_be_retried(member, replica_set):
    with pymongo.MongoClient(replica_set.uri, retryWrites=True) as retrying:
        collection = retrying.fail_points.c
        with fail_point(member, "onPrimaryTransactionalWrite", {"times": 1}, {"closeConnection": True}):
            assert collection.insert_one({"_id": 1}).inserted_id == 1
        # what is only answered again is no write
        with fail_point(member, "onPrimaryTransactionalWrite", "alwaysOn", {}):
            assert collection.insert_one({"_id": 4}).inserted_id == 4
            assert collection.find_one_and_delete({"_id": 4}) == {"_id": 4}
        with fail_point(member, "onPrimaryTransactionalWrite", {"times": 1}, {"failBeforeCommitExceptionCode": 91}):
            assert collection.update_one({"_id": 1}, {"$inc": {"a": 1}}).modified_count == 1
        assert collection.find_one() == {"_id": 1, "a": 1}
        # the connection is closed unless the fail point says otherwise, so the driver tries again
        with fail_point(member, "onPrimaryTransactionalWrite", {"times": 1}, {"failBeforeCommitExceptionCode": 1}):
            assert collection.update_one({"_id": 1}, {"$inc": {"a": 1}}).modified_count == 1
        assert collection.find_one() == {"_id": 1, "a": 2}
        data = {"failBeforeCommitExceptionCode": 1, "closeConnection": False}
        with fail_point(member, "onPrimaryTransactionalWrite", {"times": 1}, data):
            with pytest.raises(OperationFailure) as caught:
                collection.insert_one({"_id": 2})
            assert caught.value.code == 1
            # a write without a number is none of its business
            member.fail_points.c.insert_one({"_id": 3})
    assert member.fail_points.c.count_documents({}) == 2


def test_a_command_outside_of_the_stable_api(replica_set):
    strict = pymongo.server_api.ServerApi("1", strict=True)
    with pymongo.MongoClient(replica_set.uri, server_api=strict) as client:
        with pytest.raises(OperationFailure) as caught:
            client.admin.command("testVersion2")
        assert caught.value.code == 323
    with pymongo.MongoClient(replica_set.uri) as client:
        assert client.admin.command("testVersion2")["ok"] == 1
