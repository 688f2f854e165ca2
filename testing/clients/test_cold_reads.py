"""Finds by _id of more data than the cache holds: what they return, and what they say of their reads, which are done before they begin where
many of them wait for the disk."""

import json
import os
import random
import threading

import pymongo
import pytest

from arbor_process import Arbor

ROWS = 30_000
CLIENTS = 16


@pytest.fixture(scope="module")
def cold(tmp_path_factory):
    with Arbor(tmp_path_factory.mktemp("cold"), ["--ftreeCacheSizeGB", "0.016"]) as server:
        with pymongo.MongoClient(server.uri) as client:
            for first in range(0, ROWS, 1000):
                rows = [{"_id": n, "n": -n, "p": os.urandom(1500)} for n in range(first, first + 1000)]
                client.db.rows.insert_many(rows)
                client.db.texts.insert_many({"_id": f"user{row['_id']}", "n": row["_id"]} for row in rows)
            client.admin.command("fsync")
        yield server


def forget_pages(server, until):
    """Has the operating system forget what it keeps of the data file, again and again: finds wait for the disk."""
    path = next(path for path in server.dbpath.rglob("ftree.data"))
    with open(path, "rb") as file:
        while not until.wait(0.02):
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def in_parallel(server, work):
    """Runs the work on a client in each thread. The page cache does not help the server."""
    failures, done = [], threading.Event()

    def run(number):
        try:
            with pymongo.MongoClient(server.uri) as client:
                work(client, random.Random(number))
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(CLIENTS)]
    forgetting = threading.Thread(target=forget_pages, args=(server, done))
    for thread in [forgetting, *threads]:
        thread.start()
    for thread in threads:
        thread.join()
    done.set()
    forgetting.join()
    assert not failures, failures


def prefetched(server):
    with pymongo.MongoClient(server.uri) as client:
        return client.admin.command("serverStatus")["ftree"]["blocks read before their get"]


def test_finds_by_id_return_their_documents_while_others_change_them(cold):
    def work(client, choice):
        db = client.db
        for n in range(400):
            number = choice.randrange(-100, ROWS)
            row = db.rows.find_one({"_id": number}, {"n": 1, "v": 1})
            assert (row and row["n"]) == (-number if number >= 0 else None), (number, row)
            assert (db.texts.find_one({"_id": f"user{number}"}) or {"n": None})["n"] == (number if number >= 0 else None)
            if n % 10 == 0 and number >= 0:
                mark = choice.random()
                db.rows.update_one({"_id": number}, {"$set": {f"v.{choice.randrange(1 << 40)}": mark}})
                assert mark in db.rows.find_one({"_id": number})["v"].values(), "a client reads what it wrote"

    in_parallel(cold, work)


def test_a_slow_find_says_what_it_read(cold):
    def work(client, choice):
        for _ in range(400):
            client.db.rows.find_one({"_id": choice.randrange(ROWS)}, max_time_ms=20_000, comment="slow")

    with pymongo.MongoClient(cold.uri) as client:
        client.db.command("profile", 0, slowms=0)
        before = prefetched(cold)
        in_parallel(cold, work)
        client.db.command("profile", 0, slowms=100)
    lines = (json.loads(line) for line in cold.log_path.read_text().splitlines() if line.startswith("{"))
    finds = [line["attr"] for line in lines if line["msg"] == "Slow query" and line["attr"].get("command", {}).get("comment") == "slow"]
    reading = [find["storage"]["data"] for find in finds if "storage" in find and "data" in find["storage"]]
    assert len(finds) == CLIENTS * 400
    assert all(data["bytesRead"] > 0 for data in reading)
    late = [find for find in finds if find["durationMillis"] < find.get("storage", {}).get("data", {}).get("timeReadingMicros", 0) // 1000]
    assert not late, "the time of a read is part of the find's"
    # none on a machine whose disk answers at once: then no find has to wait for it
    assert len(reading) >= (prefetched(cold) - before) * 0.9
