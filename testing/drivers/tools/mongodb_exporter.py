"""Percona's mongodb_exporter with its default collectors and those of collections: the series that dashboards show."""

import subprocess
import time
import urllib.request

from program import program

import pymongo
from flow import DATABASE, URI, empty_database, finish, step

EXPORTER = program("mongodb_exporter")
empty_database()
client = pymongo.MongoClient(URI)
client[DATABASE].c.insert_many([{"_id": n, "a": n} for n in range(100)])
client[DATABASE].c.create_index("a")
PORT = 39_216


def scraped(*flags):
    """The series of one scrape, by name."""
    command = [EXPORTER, f"--mongodb.uri={URI}", f"--web.listen-address=127.0.0.1:{PORT}", "--log.level=error", *flags]
    exporter = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
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
    return {line.split("{")[0].split(" ")[0] for line in text.splitlines() if line and not line.startswith("#")}


with step("the default collectors") as seen:
    series = scraped()
    for name in ("mongodb_up", "mongodb_ss_opcounters", "mongodb_ss_connections"):
        assert name in series, f"{name} is not among {len(series)} series"
    seen.append(f"{len(series)} series")

with step("all collectors, with a collection named") as seen:
    series = scraped("--collect-all", f"--mongodb.collstats-colls={DATABASE}.c", f"--mongodb.indexstats-colls={DATABASE}.c", "--compatible-mode")
    for part in ("mongodb_dbstats_", "mongodb_collstats_", "mongodb_indexstats_", "mongodb_top_"):
        assert any(name.startswith(part) for name in series), f"no {part}* among {sorted(series)[:50]} ..."
    seen.append(f"{len(series)} series")

finish()
