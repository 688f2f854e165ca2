"""What a million measurements of sensors take as a time series and as a plain collection.

ARBOR=path/to/arbor python testing/clients/time_series_space.py [measurements]
"""

import datetime
import os
import random
import sys
import tempfile
import time

import pymongo

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from arbor_process import Arbor  # noqa: E402

SENSORS = 100
BATCH = 5000


def measurements(count):
    chosen = random.Random(1)
    begin = datetime.datetime(2026, 1, 1)
    for i in range(count):
        sensor = i % SENSORS
        yield {
            "t": begin + datetime.timedelta(seconds=i // SENSORS * 10),
            "m": {"sensor": f"sensor-{sensor:04}", "site": f"site-{sensor % 7}"},
            "temperature": round(20 + sensor / 10 + chosen.gauss(0, 0.5), 1),
            "humidity": round(50 + chosen.gauss(0, 2), 1),
        }


def load(collection, count):
    begun, batch = time.monotonic(), []
    for doc in measurements(count):
        batch.append(doc)
        if len(batch) == BATCH:
            collection.insert_many(batch, ordered=False)
            batch = []
    if batch:
        collection.insert_many(batch, ordered=False)
    return time.monotonic() - begun


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    with tempfile.TemporaryDirectory() as directory, Arbor(directory) as arbor, pymongo.MongoClient(arbor.uri) as client:
        db = client.space
        db.create_collection("series", timeseries={"timeField": "t", "metaField": "m"})
        db.plain.create_index([("m", 1), ("t", 1)])
        for name in ("plain", "series"):
            seconds = load(db[name], count)
            # old versions of rows go, so that both are as small as they get
            db.command("compact", name if name == "plain" else f"system.buckets.{name}", force=True)
            client.admin.command("fsync")
            stats = db.command("collStats", name)
            mib = lambda field: stats[field] / 2**20
            begun = time.monotonic()
            window = {"m.sensor": "sensor-0042", "t": {"$gte": datetime.datetime(2026, 1, 1, 12)}}
            group = [{"$match": window}, {"$group": {"_id": None, "n": {"$sum": 1}, "mean": {"$avg": "$temperature"}}}]
            found = db[name].aggregate(group).next()["n"]
            millis = (time.monotonic() - begun) * 1000
            print(
                f"{name:7} {count} measurements: data {mib('size'):.1f} MiB, on disk {mib('storageSize'):.1f} MiB, "
                f"indexes {mib('totalIndexSize'):.1f} MiB; inserted in {seconds:.1f} s; "
                f"one sensor's {found} in {millis:.0f} ms"
            )


if __name__ == "__main__":
    main()
