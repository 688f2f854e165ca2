"""Frames that lie: lengths, opcodes, flags, sections, compression. The sender gets an error or a closed connection, the server
continues to serve others at once, and its memory stays bounded."""

import socket
import struct
import time
import zlib

import bson

from support import Attack, ask, connect, directory, frame, message, resident_mb, server

PING = bson.encode({"ping": 1, "$db": "admin"})
FIND = bson.encode({"find": "c", "$db": "test", "filter": {"a": {"$in": [1, "x", None]}}, "limit": 1})
GROWTH_MB_MAX = 200
OTHERS_S_MAX = 2.0
# A client that waits for the rest of a message gets no reply; the attack looks no longer than this.
PATIENCE_S = 0.05


def lengths(rng):
    return rng.choice([-(1 << 31), -1, 0, 4, 15, 16, 17, 20, 1000, 48_000_000, 48_000_001, (1 << 31) - 1])


def sections(rng):
    """A payload of OP_MSG whose parts are valid, cut, doubled or of an unknown kind."""
    parts = []
    for _ in range(rng.randrange(4)):
        kind = rng.choice([0, 0, 1, 1, 2, 255])
        body = rng.choice([PING, FIND])
        if kind == 1:
            size = rng.choice([4 + 10 + len(body), 0, 4, 9, 9999, (1 << 31) - 1])
            body = struct.pack("<i", size) + rng.choice([b"documents\0", b"documents", b"\xff\xfe\0"]) + body
        parts.append(bytes([kind]) + body)
    return struct.pack("<I", rng.choice([0, 0, 0, 1, 2, 3, 1 << 5, 1 << 16, 0xFFFFFFFF])) + b"".join(parts)


def compressed(rng):
    """A frame of OP_COMPRESSED that misstates its size, its compressor or what is inside."""
    inner = rng.choice([struct.pack("<I", 0) + b"\0" + PING, b"\0" * 10_000_000, rng.randbytes(100)])
    packed = rng.choice([zlib.compress(inner, 1), inner[:1000], rng.randbytes(50)])
    claimed = rng.choice([len(inner), 0, 1, -1, 47_000_000, (1 << 31) - 1])
    return struct.pack("<iiB", rng.choice([2013, 2004, 2012, 0]), claimed, rng.choice([0, 1, 2, 3, 77])) + packed


def mutated(rng):
    """A valid message with some of its bytes changed."""
    data = bytearray(message(rng.choice([PING, FIND])))
    for _ in range(rng.randrange(1, 6)):
        data[rng.randrange(len(data))] = rng.choice([0, 1, 2, 3, 4, 0x7F, 0x80, 0xFF, rng.randrange(256)])
    return bytes(data)


def hostile(rng):
    make = rng.choice([mutated, mutated, sections, compressed, lengths])
    if make is mutated:
        return mutated(rng)
    if make is sections:
        return frame(sections(rng))
    if make is compressed:
        return frame(compressed(rng), opcode=2012)
    return frame(rng.randbytes(rng.randrange(200)), rng.choice([1, 2001, 2004, 2010, 2013, 9999]), length=lengths(rng))


def send(port, data):
    with connect(port) as sock:
        try:
            sock.sendall(data)
            sock.settimeout(PATIENCE_S)
            sock.recv(1 << 16)
        except (TimeoutError, ConnectionError, socket.timeout):
            pass


def attack(found, arbor, until):
    sent, before = 0, resident_mb(arbor)
    while time.monotonic() < until:
        batch = [hostile(found.random) for _ in range(50)]
        for data in batch:
            send(arbor.port, data)
        sent += len(batch)
        begin = time.monotonic()
        alive = arbor.process.poll() is None and (ask(arbor.port, {"ping": 1, "$db": "admin"}) or {}).get("ok") == 1
        took = time.monotonic() - begin
        if not found.expect(alive, f"no reply to a ping after frames {[data[:80].hex() for data in batch]}: {arbor.log_tail()[-500:]}"):
            return sent
        found.expect(took < OTHERS_S_MAX, f"a ping took {took:.1f} s during hostile frames")
    growth = resident_mb(arbor) - before
    found.expect(growth < GROWTH_MB_MAX, f"memory grew by {growth} MB")
    return sent


def half_messages(found, arbor, count):
    """Many clients send a part of a large message and wait."""
    before, socks = resident_mb(arbor), [connect(arbor.port) for _ in range(count)]
    for sock in socks:
        sock.sendall(frame(b"\0" * 1000, length=47_000_000))
    growth = resident_mb(arbor) - before
    found.expect(growth < GROWTH_MB_MAX, f"{count} half messages of 1 KB take {growth} MB")
    found.expect((ask(arbor.port, {"ping": 1, "$db": "admin"}) or {}).get("ok") == 1, "no reply during half messages")
    for sock in socks:
        sock.close()


def main():
    found = Attack(__doc__)
    with directory() as path, server(path, found.engines[0]) as arbor:
        arbor.start()
        half_messages(found, arbor, 200)
        sent = attack(found, arbor, found.deadline)
        found.expect(arbor.process.poll() is None and arbor.stop() == 0, "the server does not end cleanly")
    found.end(f"{sent} hostile frames")


if __name__ == "__main__":
    main()
