"""Sets of several servers, each in a network namespace of its own where that is permitted (root), else as plain processes: then there are
no partitions. What ends or stops a member does so to its etcd as well, as the loss of a machine would."""

import contextlib
import itertools
import mmap
import os
import pathlib
import shutil
import signal
import struct
import subprocess
import sys
import time

import pymongo
from pymongo.errors import PyMongoError

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import loop_disk  # noqa: E402
from arbor_process import Arbor, WITH_ETCD, free_ports  # noqa: E402

NAME = "rs0"
NETWORKS = itertools.count(os.getpid() % 200)


def run(*command, check=True):
    return subprocess.run(command, check=check, capture_output=True, text=True)


class Network:
    """A bridge, and a namespace for each member. The clients are outside and reach all members, whatever is cut among them."""

    def __init__(self, members):
        number = next(NETWORKS)
        self.bridge, self.subnet = f"arb{number}", f"10.213.{number}"
        self.names = [f"{self.bridge}m{index}" for index in range(members)]
        run("ip", "link", "add", self.bridge, "type", "bridge")
        run("ip", "addr", "add", f"{self.subnet}.1/24", "dev", self.bridge)
        run("ip", "link", "set", self.bridge, "up")
        for index, name in enumerate(self.names):
            run("ip", "netns", "add", name)
            run("ip", "link", "add", f"{name}o", "type", "veth", "peer", "name", "eth0", "netns", name)
            run("ip", "link", "set", f"{name}o", "master", self.bridge, "up")
            for command in (("addr", "add", f"{self.address(index)}/24", "dev", "eth0"), ("link", "set", "eth0", "up"), ("link", "set", "lo", "up")):
                run("ip", "-n", name, *command)

    def address(self, index):
        return f"{self.subnet}.{10 + index}"

    def cut(self, one, other):
        """Packets of `one` to `other` are lost."""
        run("ip", "-n", self.names[one], "route", "add", "blackhole", f"{self.address(other)}/32", check=False)

    def heal(self):
        for one, other in itertools.permutations(range(len(self.names)), 2):
            run("ip", "-n", self.names[one], "route", "del", "blackhole", f"{self.address(other)}/32", check=False)

    def remove(self):
        for name in self.names:
            run("ip", "netns", "del", name, check=False)
        run("ip", "link", "del", self.bridge, check=False)


def network(members):
    """Returns namespaces for the members; None: they are not permitted here."""
    if os.geteuid() != 0:
        return None
    try:
        return Network(members)
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"NOTE: no partitions, network namespaces are not permitted here: {getattr(error, 'stderr', None) or error}")
        return None


class Disk(loop_disk.LoopDisk):
    """The disk of one member, which can be full and can hang."""

    def fill(self):
        size = 0
        with open(self.path / "ballast", "wb") as ballast:
            for piece in (64 << 20, 1 << 20, 4096):
                with contextlib.suppress(OSError):
                    while True:
                        os.posix_fallocate(ballast.fileno(), size, piece)
                        size += piece

    def empty_a_part(self):
        (self.path / "ballast").unlink(missing_ok=True)

    def hang(self, seconds):
        """No write and no sync ends meanwhile."""
        run("fsfreeze", "--freeze", str(self.path))
        try:
            time.sleep(seconds)
        finally:
            run("fsfreeze", "--unfreeze", str(self.path))


class Clock:
    """The time of day of one member."""

    def __init__(self, library, file):
        file.write_bytes(bytes(8))
        self.env = {"LD_PRELOAD": str(library), "CLOCK_OFFSET": str(file)}
        with open(file, "r+b") as opened:
            self.offset = mmap.mmap(opened.fileno(), 8)

    def step_to(self, seconds):
        """Sets the distance from the right time."""
        self.offset[:] = struct.pack("=q", seconds)


def clock_library(directory):
    """Compiles the library that lets clocks step; None: there is no compiler."""
    source, library = pathlib.Path(__file__).parent / "support/stepping_clock.c", directory / "stepping_clock.so"
    try:
        run("cc", "-O1", "-shared", "-fPIC", "-o", str(library), str(source), "-ldl")
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"NOTE: clocks do not step: {error}")
        return None
    return library


class Member(Arbor):
    def __init__(self, dbpath, flags, port, host, prefix, log, disk=None, clock=None):
        super().__init__(dbpath, flags, port, prefix=prefix, env=clock.env if clock else {})
        self.host, self.paused, self.log, self.disk, self.clock = host, False, log, disk, clock

    @property
    def log_path(self):
        return self.log

    @property
    def address(self):
        return f"{self.host}:{self.port}"

    def start(self, wait_s=120):
        # The server listens in its namespace, where no port can be probed from here.
        self.dbpath.mkdir(parents=True, exist_ok=True)
        command = [os.environ["ARBOR"], "serve", "--dbpath", str(self.dbpath), "--port", str(self.port), *self.flags]
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(self.prefix + command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env={**os.environ, **self.env})
        until = time.monotonic() + wait_s
        while self.hello() is None:
            if self.process.poll() is not None:
                raise RuntimeError(f"{self.address} ended with {self.process.returncode}:\n{self.log_tail()}")
            if time.monotonic() > until:
                raise RuntimeError(f"{self.address} did not reply within {wait_s} s:\n{self.log_tail()}")
            time.sleep(0.05)

    def client(self, timeout_ms=2000):
        return pymongo.MongoClient(self.host, self.port, directConnection=True, serverSelectionTimeoutMS=timeout_ms,
                                   connectTimeoutMS=timeout_ms, socketTimeoutMS=timeout_ms)

    def command(self, *args, timeout_ms=2000, **more):
        with self.client(timeout_ms) as client:
            return client.admin.command(*args, **more)

    def hello(self):
        try:
            return self.command("hello", timeout_ms=500)
        except PyMongoError:
            return None

    def is_up(self):
        return self.process is not None and self.process.poll() is None and not self.paused

    def etcd(self):
        """Process ids of its etcd."""
        found = run("pgrep", "-P", str(self.process.pid), "-x", "etcd", check=False).stdout
        return [int(pid) for pid in found.split()]

    def signal_etcd(self, number):
        for pid in self.etcd():
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass

    def pause(self):
        self.paused = True
        self.signal_etcd(signal.SIGSTOP)
        self.process.send_signal(signal.SIGSTOP)

    def resume(self):
        self.process.send_signal(signal.SIGCONT)
        self.signal_etcd(signal.SIGCONT)
        self.paused = False

    def empty(self):
        shutil.rmtree(self.dbpath)


class Set:
    """A set of several members, initiated."""

    def __init__(self, directory, members=3, flags=(), namespaces=True, disk_megabytes=None):
        """`disk_megabytes`: each member has a disk of that size, where loop devices are permitted, and a clock of its own."""
        self.directory = pathlib.Path(directory)
        self.disks = [Disk(disk_megabytes) for _ in range(members)] if disk_megabytes and loop_disk.is_allowed() else []
        library = clock_library(self.directory) if disk_megabytes else None
        self.network = network(members) if namespaces else None
        flags = ["--replSet", NAME, *flags]
        if self.network:
            flags += ["--bind_ip", "0.0.0.0", "--allowInsecure"]
            places = [(self.network.address(index), 27017, ["ip", "netns", "exec", name]) for index, name in enumerate(self.network.names)]
        else:
            places = [("127.0.0.1", port, []) for port in [free_ports(1, WITH_ETCD) for _ in range(members)]]
        self.members = []
        for index, (host, port, prefix) in enumerate(places):
            name = f"m{index}"
            disk = self.disks[index] if self.disks else None
            clock = Clock(library, self.directory / f"{name}.clock") if library else None
            dbpath = (disk.path if disk else self.directory) / name
            self.members.append(Member(dbpath, flags, port, host, prefix, self.directory / f"{name}.log", disk, clock))

    @property
    def uri(self):
        return f"mongodb://{','.join(member.address for member in self.members)}/?replicaSet={NAME}"

    def start(self):
        for member in self.members:
            member.start()
        config = {"_id": NAME, "members": [{"_id": index, "host": member.address} for index, member in enumerate(self.members)]}
        self.members[0].command("replSetInitiate", config, timeout_ms=120_000)
        self.wait_until_whole()

    def primary(self):
        """Returns the member that takes writes; None: there is none."""
        for member in self.members:
            if member.is_up() and (member.hello() or {}).get("isWritablePrimary"):
                return member
        return None

    def secondaries(self):
        primary = self.primary()
        return [member for member in self.members if member.is_up() and member is not primary]

    def wait_for_primary(self, wait_s=60):
        until = time.monotonic() + wait_s
        while time.monotonic() < until:
            primary = self.primary()
            if primary:
                return primary
            time.sleep(0.05)
        raise RuntimeError(f"no primary within {wait_s} s")

    def wait_until_whole(self, wait_s=180):
        """Waits until every member is primary or secondary, and has an etcd that votes: without that, the next fault would be one too many."""
        until, last = time.monotonic() + wait_s, None
        while time.monotonic() < until:
            try:
                primary = self.wait_for_primary()
                status = primary.command("replSetGetStatus")
                last = [(one["name"], one["stateStr"], one.get("optimeDate")) for one in status["members"]]
                voters = status["arbor"]["coordinator"].get("voters", [])
                has_etcd = len(self.members) == 1 or len(voters) == len(self.members) and all(member.etcd() for member in self.members)
                if has_etcd and len(last) == len(self.members) and sorted(state for _, state, _ in last) == ["PRIMARY"] + ["SECONDARY"] * (len(last) - 1):
                    return
            except PyMongoError as error:
                last = error
            time.sleep(0.2)
        raise RuntimeError(f"the set is not whole after {wait_s} s: {last}")

    def stop(self):
        for member in self.members:
            if member.process is None or member.process.poll() is not None:
                continue
            if member.paused:
                member.resume()
            member.process.terminate()
        for member in self.members:
            if member.process is not None:
                try:
                    member.process.wait(timeout=60)
                except subprocess.TimeoutExpired:
                    member.kill()
        if self.network:
            self.network.remove()

    def remove_disks(self):
        for disk in self.disks:
            disk.remove()
