"""What the attacks share: arguments, findings, servers in a directory of their own, raw messages."""

import argparse
import contextlib
import os
import pathlib
import random
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import time

TESTING = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TESTING))

import bson  # noqa: E402

from arbor_process import Arbor  # noqa: E402


class Attack:
    """One run of an attack: its arguments, its random numbers and what it found."""

    def __init__(self, description):
        parser = argparse.ArgumentParser(description=description)
        parser.add_argument("--seconds", type=float, default=60)
        parser.add_argument("--engines", default="ftree,lmdb")
        parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
        self.args = parser.parse_args()
        self.engines = self.args.engines.split(",")
        self.random = random.Random(self.args.seed)
        self.deadline = time.monotonic() + self.args.seconds
        self.findings = 0
        print(f"seed {self.args.seed}", flush=True)

    def rounds(self):
        """Numbers rounds until the time is up. There is at least one for each engine."""
        number = 0
        while number < len(self.engines) or time.monotonic() < self.deadline:
            yield number, self.engines[number % len(self.engines)]
            number += 1

    def finding(self, text):
        self.findings += 1
        print(f"FINDING {text}"[:2000], flush=True)

    def expect(self, condition, text):
        if not condition:
            self.finding(text)
        return condition

    def end(self, summary):
        print(f"{summary}; {self.findings} findings", flush=True)
        sys.exit(1 if self.findings else 0)


def note(text):
    print(f"NOTE {text}", flush=True)


@contextlib.contextmanager
def directory():
    """A temporary directory that is removed at the end."""
    path = pathlib.Path(tempfile.mkdtemp(prefix="arbor-attack-"))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


@contextlib.contextmanager
def ended(arbor):
    """Makes sure that the server's process is gone at the end."""
    try:
        yield arbor
    finally:
        if arbor.process and arbor.process.poll() is None:
            arbor.kill()


def server(path, engine, *flags, kind=Arbor, **more):
    return ended(kind(path / "data", ["--storageEngine", engine, "--cacheSize", "64M", *flags], **more))


def check(arbor):
    """Runs `arbor check` on the server's directory; returns (exit status, output)."""
    ran = subprocess.run([os.environ["ARBOR"], "check", "--dbpath", str(arbor.dbpath)], capture_output=True, text=True)
    return ran.returncode, ran.stdout + ran.stderr


def resident_mb(arbor):
    with open(f"/proc/{arbor.process.pid}/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS")) >> 10


def processor_seconds(arbor):
    """Of the server's threads: other processes of the machine have no part in it."""
    with open(f"/proc/{arbor.process.pid}/stat") as stat:
        user, system = stat.read().rsplit(")", 1)[1].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def frame(payload, opcode=2013, length=None, request=1):
    """A message of the wire protocol; `length` misstates its size."""
    return struct.pack("<iiii", 16 + len(payload) if length is None else length, request, 0, opcode) + payload


def message(document, flags=0, more=b""):
    body = document if isinstance(document, bytes) else bson.encode(document)
    return frame(struct.pack("<I", flags) + b"\0" + body + more)


def connect(port, timeout=10):
    return socket.create_connection(("127.0.0.1", port), timeout=timeout)


def receive(sock):
    """Returns the document of the next reply, or None when the server closed the connection."""
    header = receive_exactly(sock, 16)
    if header is None:
        return None
    length, _, _, opcode = struct.unpack("<iiii", header)
    payload = receive_exactly(sock, length - 16)
    if payload is None:
        return None
    return bson.decode(payload[5:]) if opcode == 2013 else {"opcode": opcode}


def receive_exactly(sock, count):
    parts = bytearray()
    while len(parts) < count:
        part = sock.recv(min(1 << 20, count - len(parts)))
        if not part:
            return None
        parts += part
    return bytes(parts)


def ask(port, command, timeout=30):
    """Sends one command on a connection of its own; returns the reply, or None when the connection was closed."""
    with connect(port, timeout) as sock:
        try:
            sock.sendall(message(command))
            return receive(sock)
        except OSError:
            return None
