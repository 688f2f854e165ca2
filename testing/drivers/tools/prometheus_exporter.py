"""Debian's prometheus-mongodb-exporter, from which Percona's descends (mgo of 2016): the series of all of its collectors."""

import re
import subprocess
import time
import urllib.request

from program import program

import pymongo
from flow import DATABASE, URI, empty_database, finish, same, step

EXPORTER = program("prometheus-mongodb-exporter")
PORT = 39_217
COLLECTORS = ("collection", "connpoolstats", "database", "oplog", "profile", "replset", "top")
# what a member of a set has, whatever its engine
NAMES = """mongodb_asserts_total mongodb_collection_total_objects mongodb_connections mongodb_db_objects_total mongodb_extra_info_page_faults_total
    mongodb_global_lock_client mongodb_memory mongodb_metrics_cursor_open mongodb_metrics_document_total mongodb_metrics_operation_total
    mongodb_metrics_query_executor_total mongodb_network_bytes_total mongodb_op_counters_total mongodb_replset_member_state
    mongodb_replset_oplog_size_bytes mongodb_top_count_total mongodb_up""".split()

empty_database()
client = pymongo.MongoClient(URI)
db = client[DATABASE]
db.c.insert_many([{"_id": n, "a": n} for n in range(100)])
db.c.create_index("a")


def scraped():
    """The series of one scrape: their values by name and labels."""
    flags = [f"-mongodb.collect.{collector}" for collector in COLLECTORS]
    exporter = subprocess.Popen([EXPORTER, "-mongodb.uri", URI, "-web.listen-address", f"127.0.0.1:{PORT}", *flags],
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        until = time.monotonic() + 30
        while True:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{PORT}/metrics", timeout=20) as answer:
                    text = answer.read().decode()
                break
            except OSError:
                assert time.monotonic() < until and exporter.poll() is None, exporter.communicate()[0]
                time.sleep(0.1)
    finally:
        exporter.terminate()
        exporter.wait(timeout=20)
    lines = [line.rsplit(" ", 1) for line in text.splitlines() if line.startswith("mongodb_")]
    return {series: float(value) for series, value in lines}


with step("all collectors") as seen:
    series = scraped()
    names = {re.split(r"[{ ]", name)[0] for name in series}
    same(sorted(set(NAMES) - names), [], "series that are missing")
    seen.append(f"{len(series)} series")

with step("values follow the load") as seen:
    def value(found, name, *labels):
        (one,) = [value for series, value in found.items() if series.startswith(name) and all(label in series for label in labels)]
        return one

    same(value(series, "mongodb_up"), 1.0)
    same(value(series, "mongodb_collection_total_objects", f'"{DATABASE}.c"'), 100.0)
    db.c.insert_many([{"a": n} for n in range(50)])
    list(db.c.find({"a": {"$lt": 5}}))
    later = scraped()
    inserted = [value(found, "mongodb_op_counters_total", 'type="insert"') for found in (series, later)]
    assert inserted[1] - inserted[0] >= 50, inserted
    same(value(later, "mongodb_collection_total_objects", f'"{DATABASE}.c"'), 150.0)
    seen.append(f"{inserted[1] - inserted[0]:.0f} inserts")

finish()
