"""Idle connections under a small limit of descriptors: new ones may be refused, but connected clients continue to write with
`j: true`, the log and the engines can open files, and nothing is left behind when the connections are gone."""

import os
import time

import pymongo
from pymongo.errors import PyMongoError
from pymongo.write_concern import WriteConcern

from support import Attack, connect, directory, server

LIMIT = 400
IDLE = 600
BATCHES = 60


def idle_connections(port, count):
    socks = []
    for _ in range(count):
        try:
            socks.append(connect(port, timeout=2))
        except OSError:
            break
    return socks


def write(found, database, label):
    """20 MB in small batches, over several segments of the log, and a checkpoint in the middle."""
    journaled = database.get_collection("written", write_concern=WriteConcern(w=1, j=True))
    for batch in range(BATCHES):
        try:
            journaled.insert_many([{"p": os.urandom(35_000)} for _ in range(10)])
            if batch == BATCHES // 2:
                database.client.admin.command("fsync")
        except PyMongoError as error:
            found.finding(f"{label}: batch {batch} is refused: {error}")
            return


def attack(found, path, engine):
    # prlimit lowers the hard limit as well: the server cannot raise it
    with server(path, engine, prefix=["prlimit", f"--nofile={LIMIT}:{LIMIT}"]) as arbor:
        arbor.start()
        client = pymongo.MongoClient(arbor.uri, maxPoolSize=2, retryWrites=False, serverSelectionTimeoutMS=5000)
        client.test.c.insert_one({"_id": 0})
        socks = idle_connections(arbor.port, IDLE)
        time.sleep(0.5)
        write(found, client.test, f"{engine}, {len(socks)} idle connections")
        try:
            client.test.create_collection("other", storageEngine={"lmdb" if engine == "ftree" else "ftree": {}})
            client.test.other.insert_one({"_id": 1})
            found.expect(client.test.c.find_one() == {"_id": 0}, f"{engine}: a document is missing")
        except PyMongoError as error:
            found.finding(f"{engine}: another engine cannot be opened next to idle connections: {error}")
        for sock in socks:
            sock.close()
        write(found, client.test, f"{engine}, idle connections closed")
        try:
            with pymongo.MongoClient(arbor.uri, serverSelectionTimeoutMS=5000) as late:
                late.admin.command("ping")
        except PyMongoError as error:
            found.finding(f"{engine}: a new client is refused after the idle ones are gone: {error}")
        client.close()
        found.expect(arbor.stop() == 0, f"{engine}: the server does not end cleanly")
        arbor.start()
        with pymongo.MongoClient(arbor.uri) as again:
            stored = again.test.written.count_documents({})
        found.expect(stored == 2 * BATCHES * 10 or found.findings, f"{engine}: {stored} documents after the restart")


def main():
    found = Attack(__doc__)
    for engine in found.engines:
        with directory() as path:
            attack(found, path, engine)
    found.end(f"{len(found.engines)} engines with {IDLE} idle connections at a limit of {LIMIT} descriptors")


if __name__ == "__main__":
    main()
