"""Starts and ends the server under test."""

import fcntl
import os
import pathlib
import random
import signal
import socket
import subprocess
import tempfile
import time


# Below those that the system gives to connections, one of which could be made between the choice of a port and the server's start.
PORTS = range(10_000, 30_000)
# A process that has a port locks the byte of that number, until it ends.
LOCKS = open(pathlib.Path(tempfile.gettempdir()) / f"arbor-test-ports-{os.geteuid()}", "ab")
TAKEN = set()
# Distances from the port of a member to that and those of the etcd that it runs.
WITH_ETCD = (0, 1000, 2000)


def take_port(port):
    """Returns False if this process or another one of the tests has the port, or a server listens at it."""
    if port in TAKEN:
        return False
    try:
        fcntl.lockf(LOCKS, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", port))
    except OSError:
        return False
    TAKEN.add(port)
    return True


def free_ports(count, distances=(0,)):
    """Returns the first of `count` ports in a row. Those at the distances from each of them are free as well."""
    last = PORTS.stop - count - max(distances)
    while True:
        first = random.randrange(PORTS.start, last)
        if all(take_port(port + distance) for port in range(first, first + count) for distance in distances):
            return first


def free_port():
    """Returns a port that no server of any test has."""
    return free_ports(1)


class Arbor:
    """A server process. The binary comes from the environment variable ARBOR; `env` is added to the environment, and `prefix`
    is a command that runs the server (`prlimit`, a shell that enters a control group). `program` is another binary."""

    def __init__(self, dbpath, flags=(), port=None, env=None, prefix=()):
        self.dbpath = pathlib.Path(dbpath)
        self.env = env or {}
        self.prefix = list(prefix)
        self.flags = list(flags)
        self.port = port or free_port()
        self.process, self.program = None, None

    @property
    def uri(self):
        return f"mongodb://127.0.0.1:{self.port}/"

    @property
    def log_path(self):
        return self.dbpath.parent / f"{self.dbpath.name}.log"

    def start(self, wait_s=60):
        """Returns the seconds until the server accepted connections."""
        self.dbpath.mkdir(parents=True, exist_ok=True)
        begin = time.monotonic()
        command = [self.program or os.environ["ARBOR"], "serve", "--dbpath", str(self.dbpath), "--port", str(self.port), *self.flags]
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(
                self.prefix + command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env={**os.environ, **self.env})
        while time.monotonic() - begin < wait_s:
            if self.process.poll() is not None:
                raise RuntimeError(f"server ended with {self.process.returncode}:\n{self.log_tail()}")
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return time.monotonic() - begin
            time.sleep(0.005)
        raise RuntimeError(f"server did not listen within {wait_s} s:\n{self.log_tail()}")

    def log_tail(self):
        return self.log_path.read_text(errors="replace")[-4000:]

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self):
        """Shuts the server down and returns its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(timeout=60)
            except subprocess.TimeoutExpired:
                self.kill()
                raise
        return self.process.returncode

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.stop()


class ReplicaSet(Arbor):
    """A set of one member, which is initiated at its first start."""

    NAME = "rs0"

    def __init__(self, dbpath, flags=(), port=None, **more):
        super().__init__(dbpath, ["--replSet", self.NAME, *flags], port, **more)

    @property
    def uri(self):
        return f"mongodb://127.0.0.1:{self.port}/?replicaSet={self.NAME}"

    @property
    def direct_uri(self):
        return f"mongodb://127.0.0.1:{self.port}/?directConnection=true"

    def start(self, wait_s=60):
        """Returns the seconds until the member was primary."""
        import pymongo
        from pymongo.errors import OperationFailure

        begin = time.monotonic()
        super().start(wait_s)
        with pymongo.MongoClient("127.0.0.1", self.port, directConnection=True) as client:
            try:
                client.admin.command("replSetInitiate", {"_id": self.NAME, "members": [{"_id": 0, "host": f"127.0.0.1:{self.port}"}]})
            except OperationFailure as error:
                if error.code != 23:  # AlreadyInitialized
                    raise
            while not client.admin.command("hello").get("isWritablePrimary"):
                if time.monotonic() - begin > wait_s:
                    raise RuntimeError(f"the member is not primary:\n{self.log_tail()}")
                time.sleep(0.01)
        return time.monotonic() - begin


class Members:
    """Processes of one replica set, without access control. Their coordinator is a file that they share."""

    NAME = "rs0"

    def __init__(self, directory, count=3, flags=(), name=NAME):
        self.directory, self.NAME = pathlib.Path(directory), name
        self.flags = list(flags)
        self.members = []
        for _ in range(count):
            self.add_process()

    def add_process(self):
        """Adds a member that is not started and not initiated."""
        env = {"ARBOR_COORDINATOR_FILE": str(self.directory / "coordinator")}
        dbpath = self.directory / f"member{len(self.members)}"
        self.members.append(Arbor(dbpath, ["--replSet", self.NAME, *self.flags], env=env))
        return self.members[-1]

    @property
    def hosts(self):
        return [f"127.0.0.1:{member.port}" for member in self.members]

    @property
    def uri(self):
        return f"mongodb://{','.join(self.hosts)}/?replicaSet={self.NAME}"

    def config(self, **of_members):
        """`of_members`: further fields of members, by `_1` and so on."""
        members = [{"_id": i, "host": host, **of_members.get(f"_{i}", {})} for i, host in enumerate(self.hosts)]
        return {"_id": self.NAME, "members": members}

    def at(self, host):
        """Returns the process at `host:port`, or at a pair of both."""
        port = host[1] if isinstance(host, tuple) else int(host.rsplit(":", 1)[1])
        return next(member for member in self.members if member.port == port)

    def __enter__(self):
        self.directory.mkdir(parents=True, exist_ok=True)
        for member in self.members:
            member.start()
        return self

    def __exit__(self, *_):
        failed = None
        for member in self.members:
            if member.process is not None:
                try:
                    member.stop()
                except subprocess.TimeoutExpired as error:
                    failed = error
        if failed:
            raise failed
