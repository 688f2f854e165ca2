"""Starts and ends the processes of a sharded cluster."""

import os
import socket
import subprocess
import time

import pymongo

from arbor_process import Arbor, Members, free_port


class Member(Arbor):
    """The only member of a set, initiated at its start."""

    def __init__(self, directory, name, role, flags=()):
        super().__init__(directory / name, ["--replSet", name, role, *flags])
        self.name = name

    @property
    def hosts(self):
        return f"{self.name}/127.0.0.1:{self.port}"

    def client(self, **options):
        return pymongo.MongoClient(
            "127.0.0.1", self.port, directConnection=True, serverSelectionTimeoutMS=10_000, **options)

    def initiate(self, **options):
        with self.client(**options) as client:
            member = {"_id": 0, "host": f"127.0.0.1:{self.port}"}
            client.admin.command("replSetInitiate", {"_id": self.name, "members": [member]})


class Several:
    """A set of several members in the role of one. Who starts it initiates it."""

    def __init__(self, directory, name, role, count, flags=()):
        self.name, self.members = name, Members(directory / name, count, [role, *flags], name)

    @property
    def hosts(self):
        return f"{self.name}/{','.join(self.members.hosts)}"

    def __enter__(self):
        self.members.__enter__()
        return self

    def __exit__(self, *more):
        self.members.__exit__(*more)


class Router:
    def __init__(self, directory, config, flags=()):
        self.port = free_port()
        self.log_path = directory / f"router-{self.port}.log"
        self.command = [os.environ["ARBOR"], "route", "--configdb", config.hosts, "--port", str(self.port), *flags]
        self.start()

    def start(self):
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(self.command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline and self.process.poll() is None:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.01)
        raise RuntimeError(self.log_path.read_text(errors="replace")[-4000:])

    def kill(self):
        self.process.kill()
        self.process.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(timeout=30)

    @property
    def uri(self):
        return f"mongodb://127.0.0.1:{self.port}/"

    def client(self, **options):
        return pymongo.MongoClient(self.uri, **{"serverSelectionTimeoutMS": 10_000, **options})


class Cluster:
    """A config server, or the given ones, shards and two routers, which end with `stack`. `flags` are those of the shards."""

    def __init__(self, directory, stack, shards=2, flags=(), config_flags=(), config=None):
        self.directory = directory
        self.config = config or Member(directory, "cfg", "--configsvr", config_flags)
        self.shards = [Member(directory, f"s{n}", "--shardsvr", flags) for n in range(shards)]
        for member in [*([] if config else [self.config]), *self.shards]:
            stack.enter_context(member)
            member.initiate()
        self.routers = [stack.enter_context(Router(directory, self.config)) for _ in range(2)]
        with self.routers[0].client() as client:
            for shard in self.shards:
                assert client.admin.command("addShard", shard.hosts)["shardAdded"] == shard.name
