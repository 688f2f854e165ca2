"""A small disk is written full, and then power fails or the process is killed.

Each writer inserts 1, 2, 3 ... over several collections without waiting for the disk. After room was made and the server is back,
what is stored of each writer must be 1..m without a gap and without a document that was never sent; after kill -9 every
acknowledged document is there. Counts, `validate` and `arbor check` agree. While the disk is full, reads and a drop work, and
after the drop writes do.
"""

import os
import random
import threading
import time

import pymongo
from pymongo.errors import PyMongoError

from support import Attack, check, directory, ended, note

import loop_disk
from arbor_process import Arbor

COLLECTIONS = 5
WRITERS = 3
MEGABYTES = [170, 220, 280]
BALLAST_MB = 50
# what a drop releases must be enough to write again
DROPPED_MB = 20
FILL_S_MAX = 40
FREED_S_MAX = 30


class Writer(threading.Thread):
    """Inserts in order, one document at a time; after a refusal it tries the same document again."""

    def __init__(self, number, uri, bytes_each):
        super().__init__(daemon=True)
        self.number, self.uri, self.bytes_each = number, uri, bytes_each
        self.tried = self.acknowledged = 0
        self.refused = threading.Event()
        self.stopping = False

    def run(self):
        client = pymongo.MongoClient(self.uri, retryWrites=False, serverSelectionTimeoutMS=1000)
        n = 1
        while not self.stopping:
            self.tried = n
            document = {"_id": f"{self.number}:{n}", "w": self.number, "n": n, "p": random.randbytes(self.bytes_each)}
            try:
                client.full[f"c{n % COLLECTIONS}"].insert_one(document)
                self.acknowledged, n = n, n + 1
            except pymongo.errors.DuplicateKeyError:
                n += 1  # an earlier refusal said that it will be visible later
            except pymongo.errors.OperationFailure:
                self.refused.set()
                time.sleep(0.01)
            except PyMongoError:
                break
        client.close()


def fill(found, arbor, rng):
    """Returns the writers, which continue, once one of them was refused."""
    size = rng.choice([1000, 4000, 12_000])
    writers = [Writer(k, arbor.uri, size) for k in range(WRITERS)]
    for writer in writers:
        writer.start()
    deadline = time.monotonic() + FILL_S_MAX
    while not any(w.refused.is_set() for w in writers) and time.monotonic() < deadline and arbor.process.poll() is None:
        time.sleep(0.01)
    found.expect(arbor.process.poll() is None, f"the server ended on a full disk: {arbor.log_tail()[-500:]}")
    time.sleep(rng.uniform(0, 2))
    return writers


def use_while_full(found, arbor, engine):
    """Reads continue; a drop is accepted and gives room for writes."""
    with pymongo.MongoClient(arbor.uri, retryWrites=False, serverSelectionTimeoutMS=5000) as client:
        try:
            found.expect(client.full.ballast.count_documents({}) == DROPPED_MB, f"{engine}: documents are missing on a full disk")
            client.full.ballast.drop()
        except PyMongoError as error:
            return found.finding(f"{engine}: a read or a drop fails on a full disk: {error}")
        deadline = time.monotonic() + FREED_S_MAX
        while True:
            try:
                return client.full.small.insert_one({"after": "the drop"})
            except PyMongoError as error:
                if time.monotonic() > deadline:
                    return found.finding(f"{engine}: no write {FREED_S_MAX} s after {DROPPED_MB} MB were dropped: {error}")
                time.sleep(0.1)


def stored(database):
    have = {}
    for k in range(COLLECTIONS):
        for document in database[f"c{k}"].find({}, {"w": 1, "n": 1}):
            have.setdefault(document["w"], set()).add(document["n"])
    return have


def verify(found, arbor, engine, writers, killed):
    with pymongo.MongoClient(arbor.uri, serverSelectionTimeoutMS=20_000) as client:
        have = stored(client.full)
        for writer in writers:
            got = have.get(writer.number, set())
            last = max(got, default=0)
            missing = sorted(set(range(1, last + 1)) - got)
            found.expect(not missing, f"{engine}: writer {writer.number} has {last} documents, without {missing[:10]}")
            found.expect(last <= writer.tried, f"{engine}: document {last} of writer {writer.number} was never sent")
            found.expect(not killed or last >= writer.acknowledged, f"{engine}: {last} of {writer.acknowledged} acknowledged documents")
        for k in range(COLLECTIONS):
            coll = client.full[f"c{k}"]
            counted, estimated = coll.count_documents({}), coll.estimated_document_count()
            found.expect(counted == estimated, f"{engine}: {counted} documents, {estimated} by the counter")
            found.expect(client.full.validate_collection(f"c{k}", full=True)["valid"], f"{engine}: c{k} is not valid")
        client.full.small.insert_many([{"n": n} for n in range(500)])
        client.admin.command("fsync")
        found.expect(stored(client.full) == have, f"{engine}: the documents change after the recovery")


def attack(found, engine, disk, killed):
    rng = found.random
    ballast = disk.path / "ballast"
    ballast.write_bytes(b"\1" * (BALLAST_MB << 20))
    os.sync()
    flags = ["--storageEngine", engine, "--cacheSize", "32M", "--syncdelay", "2", "--journalCommitInterval", str(rng.choice([2, 100, 300]))]
    with ended(Arbor(disk.path / "data", flags)) as arbor:
        arbor.start()
        with pymongo.MongoClient(arbor.uri) as client:
            for k in range(COLLECTIONS):
                client.full.create_collection(f"c{k}")
            client.full.ballast.insert_many([{"p": os.urandom(1 << 20)} for _ in range(DROPPED_MB)])
        writers = fill(found, arbor, rng)
        if killed:
            arbor.kill()
        else:
            disk.fail_under(arbor.process)
        for writer in writers:
            writer.stopping = True
            writer.join(30)
        ballast.unlink(missing_ok=True)
        status, output = check(arbor)
        found.expect(status == 0, f"{engine}: arbor check before the start: {output[-500:]}")
        arbor.start()
        verify(found, arbor, engine, writers, killed)
        found.expect(arbor.stop() == 0, f"{engine}: the server does not end cleanly")
        status, output = check(arbor)
        found.expect(status == 0, f"{engine}: arbor check: {output[-500:]}")
    return sum(w.acknowledged for w in writers)


def attack_drop(found, engine, disk):
    with ended(Arbor(disk.path / "data", ["--storageEngine", engine, "--cacheSize", "32M"])) as arbor:
        arbor.start()
        with pymongo.MongoClient(arbor.uri) as client:
            for _ in range(DROPPED_MB):
                client.full.ballast.insert_one({"p": os.urandom(1 << 20)})
        writers = fill(found, arbor, found.random)
        for writer in writers:
            writer.stopping = True
        for writer in writers:
            writer.join(30)
        use_while_full(found, arbor, engine)
        found.expect(arbor.stop() == 0, f"{engine}: the server does not end cleanly on a full disk")


def main():
    found = Attack(__doc__)
    if not loop_disk.is_allowed():
        note("full disks and power failures were not tried: loop devices cannot be mounted here")
        found.end("nothing was tried")
    for number, engine in found.rounds():
        disk = loop_disk.LoopDisk(found.random.choice(MEGABYTES))
        try:
            way = number // len(found.engines) % 3
            if way == 2:
                attack_drop(found, engine, disk)
            else:
                attack(found, engine, disk, killed=way == 1)
        finally:
            disk.remove()
    found.end(f"{number + 1} full disks")


if __name__ == "__main__":
    main()
