"""Finds by _id of more data than the cache holds: what they return, and that their blocks are read before they begin."""

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


def in_parallel(server, work):
    failures = []

    def run(number):
        try:
            with pymongo.MongoClient(server.uri) as client:
                work(client, random.Random(number))
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures


def prefetched(server):
    with pymongo.MongoClient(server.uri) as client:
        return client.admin.command("serverStatus")["ftree"]["blocks read before their get"]


def has_io_uring(server):
    """True if the server has made a ring: its descriptor is one of the process."""
    descriptors = f"/proc/{server.process.pid}/fd"
    return any(os.readlink(f"{descriptors}/{name}") == "anon_inode:[io_uring]" for name in os.listdir(descriptors))


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

    before = prefetched(cold)
    in_parallel(cold, work)
    if has_io_uring(cold):
        assert prefetched(cold) > before


def test_a_slow_find_says_what_it_read(cold):
    def work(client, choice):
        for _ in range(400):
            client.db.rows.find_one({"_id": choice.randrange(ROWS)}, max_time_ms=20_000)

    with pymongo.MongoClient(cold.uri) as client:
        client.db.command("profile", 0, slowms=0)
        before = prefetched(cold)
        in_parallel(cold, work)
        client.db.command("profile", 0, slowms=100)
    lines = (json.loads(line) for line in cold.log_path.read_text().splitlines() if line.startswith("{"))
    finds = [line["attr"] for line in lines if line["msg"] == "Slow query" and line["attr"].get("command", {}).get("find") == "rows"]
    reading = [find["storage"]["data"] for find in finds if "storage" in find and "data" in find["storage"]]
    assert len(finds) == CLIENTS * 400
    assert all(data["bytesRead"] > 0 for data in reading)
    late = [find for find in finds if find["durationMillis"] < find.get("storage", {}).get("data", {}).get("timeReadingMicros", 0) // 1000]
    assert not late, "the time of a read is part of the find's"
    if has_io_uring(cold):
        assert len(reading) > (prefetched(cold) - before) * 0.9 > 1000
