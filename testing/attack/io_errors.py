"""The n-th write, read, sync, truncation, rename or removal of a kind of file fails, once or from then on, under writers that wait
for the disk and readers. What was acknowledged is there after a restart, nothing appears that was never sent, reads never show
wrong data and continue, and the server neither dies nor hangs."""

import pathlib
import subprocess
import threading
import time

import pymongo
from pymongo.errors import OperationFailure, PyMongoError
from pymongo.write_concern import WriteConcern

from support import Attack, directory, ended, note

from arbor_process import Arbor

EIO, ENOSPC = 5, 28
BASE = 2000
LOAD_S = 1.5
# (call, part of the path, errors, engine that has such files; None: any)
CASES = [
    ("sync", "/log/", [EIO], None), ("pwrite", "/log/", [EIO, ENOSPC], None), ("pread", "/log/", [EIO], None),
    ("truncate", "/log/", [EIO], None), ("rename", "/log/", [EIO], None), ("unlink", "/log/", [EIO], None),
    ("sync", "ftree.data", [EIO], "ftree"), ("pwrite", "ftree.data", [EIO, ENOSPC], "ftree"), ("pread", "ftree.data", [EIO], "ftree"),
    ("truncate", "ftree.data", [EIO], "ftree"),
    ("sync", "data.mdb", [EIO], "lmdb"), ("pwrite", "data.mdb", [EIO, ENOSPC], "lmdb"), ("sync", "checkpoint", [EIO], "lmdb"),
    ("rename", "checkpoint", [EIO], "lmdb"),
]


def shim(path):
    """Compiles the library that makes calls fail; returns None where there is no compiler."""
    source, library = pathlib.Path(__file__).parent / "support/failing_calls.c", path / "failing_calls.so"
    try:
        subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", str(library), str(source), "-ldl"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        return note(f"failing calls were not tried: {error}")
    return library


class Load:
    """Three writers with `j: true` over two engines, and a reader of documents that never change."""

    def __init__(self, uri):
        self.uri, self.acknowledged, self.sent, self.wrong, self.refused = uri, set(), set(), [], []
        self.stop = threading.Event()
        self.threads = [threading.Thread(target=self.write, args=(k,), daemon=True) for k in range(3)]
        self.threads.append(threading.Thread(target=self.read, daemon=True))
        for thread in self.threads:
            thread.start()

    def client(self):
        return pymongo.MongoClient(self.uri, retryWrites=False, serverSelectionTimeoutMS=1000, socketTimeoutMS=30_000)

    def write(self, k):
        with self.client() as client:
            n = 0
            while not self.stop.is_set():
                n += 1
                name, _id = ("own", "other")[n % 2], f"{k}:{n}"
                self.sent.add((name, _id))
                try:
                    coll = client.failing.get_collection(name, write_concern=WriteConcern(w=1, j=True))
                    coll.insert_one({"_id": _id, "k": n, "p": b"x" * (60_000 if n % 20 == 0 else 500)})
                    self.acknowledged.add((name, _id))
                except PyMongoError:
                    time.sleep(0.02)

    def read(self):
        with self.client() as client:
            n = 0
            while not self.stop.is_set():
                n += 37
                try:
                    found = client.failing.own.find_one({"_id": n % BASE})
                    if found is None or found["k"] != n % BASE:
                        self.wrong.append(f"document {n % BASE} reads as {str(found)[:100]}")
                except OperationFailure as error:
                    self.refused.append(str(error))
                except PyMongoError:
                    time.sleep(0.05)

    def end(self):
        self.stop.set()
        for thread in self.threads:
            thread.join(60)
        return not any(thread.is_alive() for thread in self.threads)


def verify(found, case, arbor, load):
    with pymongo.MongoClient(arbor.uri, serverSelectionTimeoutMS=20_000) as client:
        for name in ("own", "other"):
            coll = client.failing[name]
            have = {(name, d["_id"]) for d in coll.find({"_id": {"$type": "string"}}, {"_id": 1})}
            lost = sorted(i for i in load.acknowledged if i[0] == name and i not in have)
            found.expect(not lost, f"{case}: {len(lost)} acknowledged documents are lost: {lost[:5]}")
            found.expect(have <= load.sent, f"{case}: documents that were never sent: {sorted(have - load.sent)[:5]}")
            found.expect(client.failing.validate_collection(name, full=True)["valid"], f"{case}: {name} is not valid")
        found.expect(client.failing.own.count_documents({"_id": {"$type": "number"}}) == BASE, f"{case}: old documents are missing")
        client.failing.own.insert_one({"_id": "after", "k": 0})


def attack(found, path, library, case, engine):
    call, part, error, count, at = case
    armed, done = path / "armed", path / "done"
    env = {"LD_PRELOAD": str(library), "FAIL_CALL": call, "FAIL_PATH": part, "FAIL_AT": str(at), "FAIL_COUNT": str(count),
           "FAIL_ERRNO": str(error), "FAIL_ARMED": str(armed), "FAIL_DONE": str(done)}
    if found.random.random() < 0.5:
        env["FAIL_SHORT"] = "1"
    # small records of the log are written through memory where that is possible
    if part == "/log/" and found.random.random() < 0.7:
        env["FAIL_UNMAPPED"] = "1"
    flags = ["--storageEngine", engine, "--cacheSize", "32M", "--syncdelay", "1"]
    with ended(Arbor(path / "data", flags, env=env)) as arbor:
        arbor.start()
        with pymongo.MongoClient(arbor.uri, retryWrites=False) as client:
            client.failing.own.create_index("k")
            client.failing.create_collection("other", storageEngine={"lmdb" if engine == "ftree" else "ftree": {}})
            client.failing.own.insert_many([{"_id": i, "k": i, "p": b"y" * 1000} for i in range(BASE)])
            client.admin.command("fsync")
            load = Load(arbor.uri)
            armed.touch()
            time.sleep(LOAD_S)
            try:
                client.admin.command("fsync")
            except PyMongoError:
                pass
            found.expect(load.end(), f"{case}: a client hangs")
        found.expect(not load.wrong, f"{case}: {load.wrong[:2]}")
        found.expect(call == "pread" or not load.refused, f"{case}: reads are refused: {load.refused[:1]}")
        status = arbor.process.poll()
        found.expect(status is None, f"{case}: the server ended with {status}: {arbor.log_tail()[-500:]}")
        if found.random.random() < 0.5 and status is None:
            try:
                arbor.stop()
            except subprocess.TimeoutExpired:
                found.finding(f"{case}: the shutdown hangs")
        else:
            arbor.kill()
    with ended(Arbor(path / "data", flags)) as again:
        try:
            again.start()
            verify(found, case, again, load)
            again.stop()
        except (RuntimeError, PyMongoError) as problem:
            found.finding(f"{case}: after the restart: {problem}")
    return done.exists()


def main():
    found = Attack(__doc__)
    cases = [case for case in CASES if case[3] in (None, *found.engines)]
    found.random.shuffle(cases)
    fired = 0
    with directory() as path:
        library = shim(path)
        if not library:
            found.end("nothing was tried")
        for number, engine in found.rounds():
            call, part, errors, of = cases[number % len(cases)]
            case = (call, part, found.random.choice(errors), found.random.choice([1, 1, 3, -1]), found.random.choice([1, 1, 2, 5, 20]))
            with directory() as inner:
                fired += attack(found, inner, library, case, of or engine)
    found.end(f"{number + 1} runs, the failing call happened in {fired}")


if __name__ == "__main__":
    main()
