"""What continues over failovers by itself: index builds, change streams, tails of capped collections, writes when a secondary ends."""

import contextlib
import threading
import time

import pymongo
import pytest
from pymongo.errors import AutoReconnect, NotPrimaryError, OperationFailure, PyMongoError

from test_members import direct, in_sync, initiated, primary_of, until

LIMIT_S = 60
MAJORITY = pymongo.WriteConcern("majority")


@pytest.mark.parametrize("how", ["kill", "step down"])
def test_an_index_build_goes_on_at_the_next_primary(tmp_path, how):
    with initiated(tmp_path) as (members, client):
        collection = client.db.get_collection("c", write_concern=MAJORITY)
        collection.delete_many({})
        count, text = 20_000, "x" * 200
        for first in range(0, count, 2000):
            collection.insert_many([{"_id": n, "a": n % 7, "b": n % 11, "text": text} for n in range(first, first + 2000)])
        outcome = []

        def build():
            keys = [("a", 1), ("b", 1)]
            try:
                with pymongo.MongoClient(members.uri, retryWrites=False) as other:
                    other.db.c.create_indexes([pymongo.IndexModel([key]) for key in keys])
                outcome.append("built")
            except PyMongoError as error:
                outcome.append(error)

        builder = threading.Thread(target=build)
        builder.start()
        first = members.at(client.primary)

        def is_building():
            operations = client.admin.aggregate([{"$currentOp": {"allUsers": True}}, {"$match": {"command.createIndexes": "c"}}])
            return list(operations) or outcome

        until(is_building, LIMIT_S, "the build")
        time.sleep(0.15)
        assert not outcome, "the build is too short for this test"
        if how == "kill":
            first.kill()
        else:
            client.admin.command("replSetStepDown", 20)
        second = until(lambda: (now := primary_of(members)) is not first and now, LIMIT_S, "another primary")
        builder.join()
        assert isinstance(outcome[0], (AutoReconnect, OperationFailure)), outcome
        # A hint of an index that is being built is refused.
        for key, modulus in (("a", 7), ("b", 11)):
            found = until(lambda key=key: collection.count_documents({key: 3}, hint=f"{key}_1"), LIMIT_S, "the index")
            assert found == len(range(3, count, modulus))
        assert {"_id_", "a_1", "b_1"} == set(collection.index_information()) and primary_of(members) is second
        assert client.db.command("validate", "c")["valid"]
        if how == "kill":
            first.start()
        in_sync(client, 3)


def test_streams_show_each_acknowledged_write_once_over_failovers(tmp_path):
    with initiated(tmp_path) as (members, client):
        client.db.create_collection("tail", capped=True, size=16 << 20)
        collection, tail = (client.db.get_collection(name, write_concern=MAJORITY) for name in ("c", "tail"))
        acknowledged, stop, wrong = [], threading.Event(), []

        def write():
            number = 0
            while not stop.is_set():
                try:
                    collection.insert_one({"_id": number})
                    tail.insert_one({"_id": number})
                    acknowledged.append(number)
                except AutoReconnect:
                    pass  # not acknowledged: a driver retries once, and a busy machine may change its primary twice
                except PyMongoError as error:
                    wrong.append(error)
                number += 1

        streamed, tailed, ready = [], [], threading.Event()

        def stream():
            token = None
            while not (stop.is_set() and streamed and streamed[-1] >= acknowledged[-1]):
                try:
                    with pymongo.MongoClient(members.uri) as other, other.db.c.watch(resume_after=token) as changes:
                        token = changes.resume_token
                        ready.set()
                        while not (stop.is_set() and streamed and streamed[-1] >= acknowledged[-1]):
                            change = changes.try_next()
                            token = changes.resume_token
                            if change:
                                streamed.append(change["documentKey"]["_id"])
                except AutoReconnect:
                    time.sleep(0.05)  # a driver resumes once by itself
                except PyMongoError as error:
                    return wrong.append(error)

        def follow():
            with pymongo.MongoClient(members.uri) as other:
                while not (stop.is_set() and tailed and tailed[-1] >= acknowledged[-1]):
                    after = {"_id": {"$gt": tailed[-1]}} if tailed else {}
                    try:
                        cursor = other.db.tail.find(after, cursor_type=pymongo.CursorType.TAILABLE_AWAIT).max_await_time_ms(100)
                        while cursor.alive:
                            for document in cursor:
                                tailed.append(document["_id"])
                            if stop.is_set():
                                break
                    except PyMongoError:
                        time.sleep(0.05)  # a tail ends with its server; the client opens it again

        threads = [threading.Thread(target=work) for work in (stream, follow)]
        threads[0].start()
        assert ready.wait(LIMIT_S)
        writer = threading.Thread(target=write)
        for thread in (threads[1], writer):
            thread.start()
        for round_ in range(4):
            seen = len(acknowledged)
            until(lambda seen=seen: len(acknowledged) > seen + 20, LIMIT_S, "writes")
            first = members.at(client.primary)
            if round_ == 3:
                client.admin.command("replSetStepDown", 20)
            else:
                first.kill()
            until(lambda first=first: (now := primary_of(members)) is not first and now, LIMIT_S, "another primary")
            seen = len(acknowledged)
            until(lambda seen=seen: len(acknowledged) > seen + 20, LIMIT_S, "further writes")
            if round_ != 3:
                first.start()
            in_sync(client, 3)
        stop.set()
        writer.join()
        for thread in threads:
            thread.join(LIMIT_S)
            assert not thread.is_alive(), (len(streamed), len(tailed), len(acknowledged))
        assert not wrong, wrong[:3]
        assert streamed == sorted(set(streamed)) and set(acknowledged) <= set(streamed)
        assert tailed == sorted(set(tailed)) and set(acknowledged) <= set(tailed)


def test_a_refused_write_is_not_ahead_of_hello(tmp_path):
    """A driver that retries at once must not choose the same member again, nor take the error for an old one."""
    with initiated(tmp_path) as (members, client):
        for round_ in range(3):
            first = until(lambda: primary_of(members), LIMIT_S, "a primary")
            with direct(first, retryWrites=False) as writer:
                known = writer.admin.command("hello")["topologyVersion"]["counter"]
                stepper = threading.Thread(target=step_down, args=(first,))
                stepper.start()
                refused, until_s = None, time.monotonic() + LIMIT_S
                while refused is None and time.monotonic() < until_s:
                    try:
                        writer.db.c.insert_one({"round": round_})
                    except NotPrimaryError as error:
                        refused = error.details
                hello = writer.admin.command("hello")
                stepper.join()
            assert refused, "the member did not step down"
            assert not hello["isWritablePrimary"], (refused, hello)
            assert known < refused["topologyVersion"]["counter"] <= hello["topologyVersion"]["counter"], (known, refused, hello)
        in_sync(client, 3)


def step_down(member):
    with direct(member) as client, contextlib.suppress(AutoReconnect):
        client.admin.command("replSetStepDown", 20)


def test_a_killed_secondary_holds_up_writes_for_a_moment(tmp_path):
    """It leaves the members in sync when its connections close, and not after the second that a silent one gets."""
    with initiated(tmp_path) as (members, client):
        stop, times = threading.Event(), []

        def write():
            number = 0
            while not stop.is_set():
                begun = time.monotonic()
                client.db.c.insert_one({"_id": number})
                times.append((begun, time.monotonic()))
                number += 1

        writer = threading.Thread(target=write)
        writer.start()
        try:
            until(lambda: len(times) > 50, what="writes")
            follower = next(member for member in members.members if member is not members.at(client.primary))
            killed = time.monotonic()
            follower.kill()
            until(lambda: times[-1][0] > killed + 1, what="writes after the kill")
        finally:
            stop.set()
            writer.join()
        longest = max(end - begun for begun, end in times if end > killed)
        assert longest < 0.6, longest
