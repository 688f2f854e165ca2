"""What idle change streams cost: opens many, lets them wait, and reports the server's CPU time meanwhile.

    ARBOR=path/to/arbor python testing/idle_streams.py [--streams 1000] [--await-ms 1000] [--seconds 20] [--writes 0]

Each stream is a connection with one getMore under way, as a driver has it. With `--writes` another collection is written
that many times a second: no stream is interested, and none should be woken. The client is this process, so its CPU time is
not counted.
"""

import argparse
import os
import pathlib
import selectors
import socket
import struct
import tempfile
import threading
import time

import bson
import pymongo

from arbor_process import ReplicaSet

TICKS = os.sysconf("SC_CLK_TCK")


def frame(request, body):
    body = b"\0\0\0\0\0" + bson.encode(body)
    return struct.pack("<iiii", 16 + len(body), request, 0, 2013) + body


def cpu_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


class Stream:
    """One connection."""

    def __init__(self, port, await_ms):
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.buffer = b""
        self.socket.sendall(frame(1, {"aggregate": "watched", "pipeline": [{"$changeStream": {}}], "cursor": {}, "$db": "d"}))
        while (reply := self.reply()) is None:
            self.buffer += self.socket.recv(65536)
        cursor = reply["cursor"]["id"]
        more = {"getMore": bson.Int64(cursor), "collection": "watched", "maxTimeMS": await_ms, "$db": "d"}
        self.more = frame(2, more)
        self.answers = 0

    def reply(self):
        if len(self.buffer) < 4 or len(self.buffer) < (size := struct.unpack("<i", self.buffer[:4])[0]):
            return None
        reply = bson.decode(self.buffer[21:size])
        self.buffer = self.buffer[size:]
        assert reply["ok"] == 1, reply
        return reply

    def readable(self):
        self.buffer += self.socket.recv(65536)
        if (reply := self.reply()) is not None:
            assert reply["cursor"]["nextBatch"] == [], reply
            self.answers += 1
            self.socket.sendall(self.more)


def write(uri, rate, stop):
    with pymongo.MongoClient(uri, w=1) as client:
        begin, done = time.monotonic(), 0
        while not stop.is_set():
            due = int((time.monotonic() - begin) * rate) - done
            if due > 0:
                client.d.written.insert_many([{"n": n} for n in range(due)])
                done += due
            stop.wait(0.01)


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--streams", type=int, default=1000)
    arguments.add_argument("--await-ms", type=int, default=1000)
    arguments.add_argument("--seconds", type=float, default=20)
    arguments.add_argument("--writes", type=int, default=0)
    given = arguments.parse_args()
    with tempfile.TemporaryDirectory() as directory, ReplicaSet(pathlib.Path(directory) / "data") as server:
        streams = [Stream(server.port, given.await_ms) for _ in range(given.streams)]
        selector = selectors.DefaultSelector()
        for at, stream in enumerate(streams):
            selector.register(stream.socket, selectors.EVENT_READ, stream)
        stop = threading.Event()
        writer = threading.Thread(target=write, args=(server.uri, given.writes, stop), daemon=True)
        if given.writes:
            writer.start()
        # spread over the time that each waits
        for stream in streams:
            stream.socket.sendall(stream.more)
            time.sleep(given.await_ms / 1000 / len(streams) / 2)
        pump(selector, given.await_ms / 1000)
        answers, begun, cpu = sum(s.answers for s in streams), time.monotonic(), cpu_seconds(server.process.pid)
        pump(selector, given.seconds)
        took, used = time.monotonic() - begun, cpu_seconds(server.process.pid) - cpu
        answers = sum(s.answers for s in streams) - answers
        threads = len(os.listdir(f"/proc/{server.process.pid}/task"))
        stop.set()
        print(
            f"{given.streams} streams, await {given.await_ms} ms, {given.writes} writes/s elsewhere: "
            f"{100 * used / took:.2f} % of a core, {answers / took:.0f} answers/s, {threads} threads"
        )


def pump(selector, seconds):
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        for key, _ in selector.select(left):
            key.data.readable()


if __name__ == "__main__":
    main()
