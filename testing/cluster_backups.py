"""A load on a sharded cluster whose state at one time follows from a part of it, and clusters on directories that were restored.

Each transfer between two accounts is a transaction over up to three shards that notes itself in a log: the accounts are those of the log, or a part of some transaction
is missing.
"""

import random
import shutil
import threading
import time

from pymongo.errors import OperationFailure, PyMongoError

from arbor_cluster import Cluster, Member, Router

ACCOUNTS, EACH = 60, 100
NAMESPACE = "bank.accounts"
SETTLED_S = 120
LOCKED = 117
# A conflict, or a move while another one runs.
EXPECTED = (112, LOCKED, 246)


class Load:
    """Transfers between accounts of all shards, and moves of chunks, until the end. `killed`: processes of the cluster are, so any error is expected."""

    def __init__(self, cluster, seed, killed=False):
        self.cluster, self.seed, self.killed = cluster, seed, killed
        self.stopped, self.problems = threading.Event(), []
        # Transfers of each thread that were tried, and those that were acknowledged.
        self.tried, self.done, self.moved = [0, 0], [set(), set()], 0
        self.threads = [threading.Thread(target=self.keep_on, args=(self.transfer, n)) for n in range(2)]
        self.threads.append(threading.Thread(target=self.keep_on, args=(self.move, 2)))

    def keep_on(self, work, number):
        chance = random.Random(f"{self.seed}-{number}")
        with self.cluster.routers[number % 2].client() as client:
            while not self.stopped.is_set():
                try:
                    work(client, chance, number)
                except PyMongoError as error:
                    transient = error.has_error_label("TransientTransactionError") or getattr(error, "code", 0) in EXPECTED
                    if not transient and not self.killed:
                        self.problems.append(repr(error))
                        return
                    if self.killed:
                        time.sleep(0.05)

    def transfer(self, client, chance, number):
        source, target = chance.sample(range(ACCOUNTS), 2)
        turn = self.tried[number]
        self.tried[number] += 1
        own = {"_id": f"{self.seed}-{number}-{turn}", "from": source, "to": target}
        with client.start_session() as session, session.start_transaction():
            client.bank.accounts.update_one({"_id": source}, {"$inc": {"n": -1, "writes": 1}}, session=session)
            client.bank.accounts.update_one({"_id": target}, {"$inc": {"n": 1, "writes": 1}}, session=session)
            client.bank.log.insert_one(own, session=session)
        self.done[number].add(turn)

    def move(self, client, chance, _):
        bound = chance.randrange(0, ACCOUNTS, 10)
        client.admin.command("moveChunk", NAMESPACE, find={"_id": bound}, to=chance.choice(self.cluster.shards).name)
        self.moved += 1

    def acknowledged(self):
        return [set(done) for done in self.done]

    def wait_for(self, transfers, moves):
        """Waits until that many more are done."""
        transferred, moved, end = sum(map(len, self.done)), self.moved, time.monotonic() + SETTLED_S
        while not self.problems and (sum(map(len, self.done)) < transferred + transfers or self.moved < moved + moves):
            assert time.monotonic() < end, "the load makes no progress"
            time.sleep(0.05)

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.stopped.set()
        for thread in self.threads:
            thread.join()
        assert not self.problems, self.problems


def prepare(client):
    client.admin.command("enableSharding", "bank", primaryShard="s0")
    client.admin.command("shardCollection", NAMESPACE, key={"_id": 1})
    for bound in range(10, ACCOUNTS, 10):
        client.admin.command("split", NAMESPACE, middle={"_id": bound})
    for bound in range(0, ACCOUNTS, 10):
        client.admin.command("moveChunk", NAMESPACE, find={"_id": bound}, to=f"s{bound // 10 % 3}")
    client.bank.accounts.insert_many([{"_id": n, "n": EACH, "writes": 0} for n in range(ACCOUNTS)])
    client.bank.create_collection("log")


def accounts_of(log):
    accounts = {n: {"_id": n, "n": EACH, "writes": 0} for n in range(ACCOUNTS)}
    for doc in log.values():
        for name, by in (("from", -1), ("to", 1)):
            accounts[doc[name]]["n"] += by
            accounts[doc[name]]["writes"] += 1
    return accounts


def settled(client):
    """Waits until the routers have completed the transactions that were under way, and the accounts are those of the log. Returns it."""
    end, found = time.monotonic() + SETTLED_S, None
    while True:
        try:
            accounts = {doc["_id"]: doc for doc in client.bank.accounts.find()}
            log = {doc["_id"]: doc for doc in client.bank.log.find()}
            expected = accounts_of(log)
            if accounts == expected:
                return log
            found = [(accounts.get(name), expected[name]) for name in expected if accounts.get(name) != expected[name]][:5]
        except PyMongoError as error:
            found = error
        assert time.monotonic() < end, f"the accounts are not those of the log: {found}"
        time.sleep(0.1)


def check_log(log, seed, before, tried):
    """`before`: what was acknowledged when the backup began; `tried`: what was begun until it had ended."""
    for number in range(2):
        found = {int(name.rsplit("-", 1)[1]) for name in log if name.startswith(f"{seed}-{number}-")}
        assert before[number] <= found, f"missing: {sorted(before[number] - found)[:5]}"
        assert max(found, default=-1) < tried[number], f"transfer {max(found)} of thread {number} was begun after the backup"


def insist(work):
    """Repeats what finds the lock of a move that was under way: another router takes it when it is 15 seconds old."""
    end = time.monotonic() + SETTLED_S
    while True:
        try:
            return work()
        except OperationFailure as error:
            assert error.code == LOCKED and time.monotonic() < end, error
            time.sleep(0.2)


class Restored(Cluster):
    """A cluster on directories that were restored, on other ports. `restore` is called with the arguments of the command."""

    def __init__(self, restore, target, directory, stack, *options):
        directory.mkdir()
        self.directory = directory
        self.config = Member(directory, "cfg", "--configsvr")
        self.shards = [Member(directory, f"s{n}", "--shardsvr") for n in range(3)]
        placed = [f"--shard={shard.name}={shard.hosts}" for shard in self.shards]
        restore("restore", "--from", target, "--dbpath", directory / "restored", *placed, *options)
        for member in [self.config, *self.shards]:
            own = "config" if member is self.config else f"shard-{member.name}"
            shutil.move(directory / "restored" / own, member.dbpath)
            stack.enter_context(member)
            member.initiate()
        self.routers = [stack.enter_context(Router(directory, self.config)) for _ in range(2)]
