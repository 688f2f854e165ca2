#!/usr/bin/env python3
"""Percona Backup for MongoDB against one member of a set: a logical backup, and a restore of it and of a point in time behind it.

    ARBOR=path/to/arbor testing/.venv/bin/python testing/drivers/suites/percona_backup.py

Its Go module, of the last release that has a tag the module proxy serves, is fetched and built.
"""

import json
import os
import re
import shutil
import subprocess
import tempfile
import time

import pymongo

from suite import TOOLS, against_one_member, go, note

MODULE = "github.com/percona/percona-backup-mongodb@v1.8.1"
PROGRAMS = ("pbm", "pbm-agent")
# it repeats commands for a minute when its agent is busy with the one before
BUSY_S = 60


def built():
    there = TOOLS / "percona-backup"
    if not all((there / name).exists() for name in PROGRAMS):
        there.mkdir(parents=True, exist_ok=True)
        done = subprocess.run([go(), "mod", "download", "-json", MODULE], cwd=there, capture_output=True, text=True)
        if done.returncode != 0:
            note(f"no {MODULE}: {done.stdout[-200:]}")
        with tempfile.TemporaryDirectory() as directory:
            shutil.copytree(json.loads(done.stdout)["Dir"], directory, dirs_exist_ok=True)
            subprocess.run(["chmod", "-R", "u+w", directory], check=True)
            shutil.rmtree(f"{directory}/vendor", ignore_errors=True)
            build = [go(), "build", "-mod=mod", "-buildvcs=false", "-o", f"{there}/", *(f"./cmd/{name}" for name in PROGRAMS)]
            if subprocess.run(build, cwd=directory).returncode != 0:
                note(f"{MODULE} does not build")
    return there


class Tool:
    def __init__(self, programs, member):
        self.program, self.member = programs / "pbm", member

    def run(self, *arguments):
        environment = {**os.environ, "PBM_MONGODB_URI": self.member.uri}
        end = time.monotonic() + BUSY_S
        while True:
            done = subprocess.run([self.program, *arguments], env=environment, capture_output=True, text=True, timeout=180)
            output = done.stdout + done.stderr
            if done.returncode == 0 and "Error" not in output:
                return output
            if time.monotonic() > end or not re.search("another operation|resync|in progress|no confirmation", output):
                raise RuntimeError(f"pbm {' '.join(arguments)}: {output}\n{self.logs()}")
            time.sleep(1)

    def logs(self):
        environment = {**os.environ, "PBM_MONGODB_URI": self.member.uri}
        return subprocess.run([self.program, "logs", "-t", "30"], env=environment, capture_output=True, text=True, timeout=60).stdout

    def until(self, pattern, *, of="list"):
        end = time.monotonic() + 120
        while not (found := re.search(pattern, self.run(of))):
            if time.monotonic() > end:
                raise RuntimeError(f"no {pattern}: {self.run(of)}\n{self.logs()}")
            time.sleep(1)
        return found


def state(db):
    names = sorted(db.list_collection_names())
    return {name: (list(db[name].find().sort("_id")), sorted(db[name].index_information())) for name in names}


def change(db, turn):
    db.c.update_one({"_id": turn}, {"$set": {"turn": turn}, "$unset": {"text": 1}})
    db.c.delete_one({"_id": 1000 + turn})
    db.d.insert_one({"_id": turn, "list": [1, {"turn": turn}]})
    db.d.update_one({"_id": turn}, {"$push": {"list": 7}})


def run(member):
    programs = built()
    tool = Tool(programs, member)
    with pymongo.MongoClient(member.uri) as client, tempfile.TemporaryDirectory() as directory:
        db = client.db
        db.c.insert_many([{"_id": n, "text": "x" * 100} for n in range(5000)])
        db.c.create_index("text")
        # mongorestore, which is part of it, keeps UUIDs where admin.system.version is
        client.admin.command("setFeatureCompatibilityVersion", "8.0", confirm=True)
        log = open(f"{directory}/agent.log", "wb")
        agent = subprocess.Popen([programs / "pbm-agent", "--mongodb-uri", f"mongodb://127.0.0.1:{member.port}"], stdout=log, stderr=log)
        try:
            storage = f"storage:\n  type: filesystem\n  filesystem:\n    path: {directory}/target\n"
            os.mkdir(f"{directory}/target")
            with open(f"{directory}/config", "w") as file:
                file.write(storage)
            tool.run("config", "--file", f"{directory}/config")
            tool.until(r"pbm-agent v\S+ OK", of="status")
            tool.run("backup", "--wait")
            name = tool.until(r"(\S+) <logical> \[complete").group(1)
            backed_up = state(db)
            tool.run("config", "--set", "pitr.enabled=true", "--set", "pitr.oplogSpanMin=0.1")
            tool.until(r"PITR <on>")
            time.sleep(15)
            for turn in range(3):
                change(db, turn)
            at_point, point = state(db), time.time()
            time.sleep(2)
            change(db, 5)
            end = tool.until(r"- (\S+)Z\s*$")
            while time.mktime(time.strptime(end.group(1), "%Y-%m-%dT%H:%M:%S")) - time.timezone < point + 2:
                time.sleep(1)
                end = tool.until(r"- (\S+)Z\s*$")
            tool.run("config", "--set", "pitr.enabled=false")
            time.sleep(5)
            db.c.delete_many({"_id": {"$gt": 100}})
            failed = []
            db.d.drop()
            tool.run("restore", name, "--wait")
            if state(db) != backed_up:
                failed.append("restore of a backup")
            when = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(point + 1))
            time.sleep(5)
            tool.run("restore", f"--time={when}", "--wait")
            if state(db) != at_point:
                failed.append("restore of a point in time")
        finally:
            agent.terminate()
            agent.wait()
    print(f"backup, restore, restore to a point: {failed or 'as they were'}")
    return failed


against_one_member(run)
