"""The flight recorder: samples of all statistics that a kill -9 leaves whole, and the page that draws them."""

import os
import re
import signal
import subprocess
import time

import pymongo
import pytest

from arbor_process import Arbor

QUICK = ["diagnosticDataCollectionPeriodMillis=100", "diagnosticDataCollectionSamplesPerInterimUpdate=2"]


def flags(*more):
    return [flag for setting in [*QUICK, *more] for flag in ("--setParameter", setting)]


def report(directory, out):
    command = [os.environ["ARBOR"], "report", "diagnostics", str(directory), "--out", str(out)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def wait_for(condition, what):
    until = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < until, what
        time.sleep(0.05)


def samples(directory, tmp_path):
    """The number of samples that the page was drawn from; 0 without any."""
    page = tmp_path / "count.html"
    if report(directory, page).returncode != 0:
        return 0
    return int(re.search(r"(\d+), drawn in at most", page.read_text())[1])


def test_samples_survive_a_kill_and_are_drawn(tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    with Arbor(data, ["--slowms", "0", *flags("diagnosticDataCollectionSamplesPerChunk=5")]) as server:
        with pymongo.MongoClient(server.uri) as client:
            client.t.c.insert_many([{"_id": n, "a": n} for n in range(2000)])
            until = time.monotonic() + 2
            while time.monotonic() < until:
                list(client.t.c.find({"a": {"$in": [7, 8]}, "b": {"$ne": "secret"}}))
            sample = client.admin.command("getDiagnosticData")["data"]
            shapes = {(shape["ns"], shape["shape"]): shape for shape in sample["slowShapes"].values()}
            shape = shapes[("t.c", "find filter {a: {$in: [?]}, b: {$ne: ?}}")]
            assert shape["plan"] == "COLLSCAN" and shape["docsExamined"] == 2000 * shape["count"]
        wait_for(lambda: samples(data, tmp_path) >= 10, "samples are on the disk while the server runs")
        os.kill(server.process.pid, signal.SIGKILL)
        server.process.wait(60)
        left = samples(data, tmp_path)
        assert left >= 10
    files = sorted((data / "diagnostic.data").glob("metrics.2*"))
    # a torn tail costs what is behind the last whole chunk
    with files[-1].open("ab") as file:
        file.write(b"\x99\x00\x00\x00torn")
    assert samples(data, tmp_path) == left
    with Arbor(data, flags()) as server:
        wait_for(lambda: samples(data, tmp_path) > left, "the next process continues")
    page = tmp_path / "page.html"
    drawn = report(data / "diagnostic.data", page)
    assert drawn.returncode == 0 and "the server was started again" in drawn.stdout
    assert "t.c: find filter {a: {$in: [?]}, b: {$ne: ?}} (COLLSCAN)" in drawn.stdout
    text = page.read_text()
    assert '<h3>Operations<' in text and '<h3>Latency<' in text
    assert "secret" not in text and "default-src 'none'" in text


def test_parameters_are_mongodbs(tmp_path):
    with Arbor(tmp_path / "data", flags()) as server:
        with pymongo.MongoClient(server.uri) as client:
            admin = client.admin
            names = admin.command("getParameter", "*")
            assert names["diagnosticDataCollectionEnabled"] is True
            assert names["diagnosticDataCollectionDirectorySizeMB"] == 200
            with pytest.raises(pymongo.errors.OperationFailure) as refused:
                admin.command("setParameter", 1, diagnosticDataCollectionPeriodMillis=99)
            assert refused.value.code == 2 and "99 is not greater than or equal to 100" in str(refused.value)
            directory = tmp_path / "data" / "diagnostic.data"
            wait_for(lambda: samples(directory, tmp_path) > 2, "samples are taken")
            admin.command("setParameter", 1, diagnosticDataCollectionEnabled=False)
            # what was in memory is written, and no further sample
            wait_for(lambda: not (directory / "metrics.interim").exists(), "the recording ends")
            taken = samples(directory, tmp_path)
            assert taken > 0
            time.sleep(0.5)
            assert samples(directory, tmp_path) == taken
            admin.command("setParameter", 1, diagnosticDataCollectionEnabled=True)
            wait_for(lambda: samples(directory, tmp_path) > taken, "it begins again")


def test_a_bad_value_refuses_the_start(tmp_path):
    command = [os.environ["ARBOR"], "serve", "--dbpath", str(tmp_path), "--port", "0", "--nounixsocket"]
    command += ["--setParameter", "diagnosticDataCollectionDirectorySizeMB=9"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert ended.returncode != 0 and "9 is not greater than or equal to 10" in ended.stderr
    nothing = report(tmp_path, tmp_path / "page.html")
    assert nothing.returncode != 0 and "no samples" in nothing.stderr
