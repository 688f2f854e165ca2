"""Procedures of docs/operations.md on a set under load: no operation of a client fails, and no acknowledged one is lost. `ARBOR_BEFORE` is the program
that is upgraded from; without it each member is restarted with the same one."""

import contextlib
import os
import shutil
import threading

import pymongo
from pymongo.errors import PyMongoError

from arbor_process import Members
from test_members import digest, direct, hello, in_sync, primary_of, status, until

LIMIT_S = 90


class Load:
    """Inserts, one after the other, that may be tried again by the driver and must not fail."""

    def __init__(self, uri):
        self.uri, self.done, self.failed, self.stopped = uri, 0, None, threading.Event()
        self.thread = threading.Thread(target=self.run)

    def run(self):
        with pymongo.MongoClient(self.uri, serverSelectionTimeoutMS=LIMIT_S * 1000) as client:
            while not self.stopped.is_set() and not self.failed:
                try:
                    client.db.c.insert_one({"_id": self.done, "text": "x" * 100})
                    self.done += 1
                except PyMongoError as error:
                    self.failed = repr(error)

    def wait(self, count=50):
        end = self.done + count
        until(lambda: self.done >= end or self.failed, LIMIT_S, "more inserts")
        assert not self.failed, self.failed

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stopped.set()
        self.thread.join()


@contextlib.contextmanager
def under_load(directory, program=None):
    with Members(directory) as members:
        for member in members.members:
            if program:
                member.stop()
                member.program = program
                member.start()
        with direct(members.members[0]) as client:
            client.admin.command("replSetInitiate", members.config())
            until(lambda: primary_of(members), LIMIT_S, "a primary")
            all_in_sync(members)
        with Load(members.uri) as load:
            load.wait()
            yield members, load
            load.wait()
        all_in_sync(members)
        until(lambda: len({str(digest(member)) for member in members.members}) == 1, LIMIT_S, "equal members")
        with pymongo.MongoClient(members.uri) as client:
            assert [doc["_id"] for doc in client.db.c.find().sort("_id")] == list(range(load.done))


def all_in_sync(members):
    def is_whole():
        with direct(primary_of(members)) as client:
            return len(status(client)["arbor"]["inSync"]) == len(members.members)

    until(lambda: primary_of(members) and is_whole(), LIMIT_S, "all members in sync")


def restart(members, member):
    assert member.stop() == 0
    member.program = None
    member.start()
    all_in_sync(members)


def test_a_set_is_upgraded_member_by_member(tmp_path):
    with under_load(tmp_path, os.environ.get("ARBOR_BEFORE")) as (members, load):
        last = primary_of(members)
        for member in members.members:
            if member is not last:
                restart(members, member)
                load.wait()
        with direct(last) as client:
            client.admin.command("replSetStepDown", 60)
        until(lambda: primary_of(members) not in (None, last), LIMIT_S, "another primary")
        load.wait()
        restart(members, last)


def test_a_machine_is_replaced_under_its_name_and_under_another(tmp_path):
    with under_load(tmp_path) as (members, load):
        lost = next(member for member in members.members if not hello(member)["isWritablePrimary"])
        lost.kill()
        shutil.rmtree(lost.dbpath)
        load.wait()
        lost.start()
        all_in_sync(members)
        load.wait()
        # another name: the new member comes before the old one goes
        old = next(member for member in members.members if member is not lost and not hello(member)["isWritablePrimary"])
        new = members.add_process()
        new.start()
        with direct(primary_of(members)) as client:
            config = client.admin.command("replSetGetConfig")["config"]
            config["version"] += 1
            config["members"].append({"_id": 3, "host": members.hosts[3]})
            client.admin.command("replSetReconfig", config)
            in_sync(client, 4)
            config = client.admin.command("replSetGetConfig")["config"]
            config["version"] += 1
            config["members"] = [member for member in config["members"] if member["host"] != f"127.0.0.1:{old.port}"]
            client.admin.command("replSetReconfig", config)
        members.members.remove(old)
        load.wait()
        assert old.stop() == 0
