#!/usr/bin/env python3
"""Runs the flows of this directory against one Arbor server, or against the server of --uri, and prints what they did.

Those of set/ run against a replica set of one member, and stores_and_jobs there as well: a job queue uses what a set has.
Those of tools/ are programs that `scripts/setup tools` builds; they run with --full, or when they are named.

    run.py [--full] [--only NAME ...] [--uri URI] [--jobs N]
    run.py --members 3 [--step-down 10]

With --members the flows that want no standalone run against a set of this many, with --step-down those of a set while its primary steps down again and again: the drivers repeat what they may.

ARBOR names the server's binary. A flow is one process; it has a database of its own, named after it.
"""

import argparse
import concurrent.futures
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import pymongo  # noqa: E402
from pymongo.errors import PyMongoError  # noqa: E402

from arbor_process import Arbor, Members, ReplicaSet  # noqa: E402

# tools whose work is more than that of a standalone
ON_A_SET = ("mongo_tools", "mongodb_exporter", "prometheus_exporter")

# flows that expect nothing of a standalone
ON_MEMBERS = ("driver_set", "mongoose_set", "stores_and_jobs on a set", "compass_data_service on a set", "driver_gridfs_and_pool", "mongoose_documents",
              "mongoose_indexes", "mongoengine_site", "mongosh_session")

LIMIT_S = {False: 120, True: 540}

# exit code of a flow whose program is not there (tools/program.py)
NOT_RUN = 77


def flows(only, full):
    """Every flow: the command that runs it and whether it wants a set, by name. flow.mjs and flow.py are what the flows are
    written with."""
    found = {}
    # mongosh first: it takes longest
    for path in [*HERE.glob("shell/*.py"), *sorted(HERE.glob("node/*.mjs")), *sorted(HERE.glob("python/*.py")), *sorted(HERE.glob("set/*.*"))]:
        if path.stem == "flow":
            continue
        found[path.stem] = (["node", str(path)] if path.suffix == ".mjs" else [sys.executable, str(path)], path.parent.name == "set")
    found["stores_and_jobs on a set"] = (found["stores_and_jobs"][0], True)
    found["compass_data_service on a set"] = (found["compass_data_service"][0], True)
    for path in sorted(HERE.glob("tools/*.py")) if full or only else []:
        if path.stem != "program":
            found[path.stem] = ([sys.executable, str(path)], path.stem in ON_A_SET)
    unknown = set(only) - set(found)
    if unknown:
        raise SystemExit(f"no such flow: {', '.join(sorted(unknown))}; there are {', '.join(found)}")
    return {name: command for name, command in found.items() if not only or name in only}


def run(name, command, uri, full):
    begin = time.monotonic()
    environment = {**os.environ, "MONGODB_URI": uri, "DRIVERS_FULL": "1" if full else "0", "NODE_NO_WARNINGS": "1"}
    try:
        done = subprocess.run(command, env=environment, cwd=HERE, timeout=LIMIT_S[full], text=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        output, outcome = done.stdout, {0: "passed", NOT_RUN: "not run"}.get(done.returncode, "failed")
    except subprocess.TimeoutExpired as expired:
        output, outcome = (expired.stdout or b"").decode(errors="replace") + "  FAIL  out of time\n", "failed"
    return name, outcome, time.monotonic() - begin, output


def run_all(uri, set_uri, arguments):
    names, begin = {"passed": [], "failed": [], "not run": []}, time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        todo = [pool.submit(run, name, command, set_uri if wants_set else uri, arguments.full)
                for name, (command, wants_set) in flows(arguments.only, arguments.full).items()]
        for future in concurrent.futures.as_completed(todo):
            name, outcome, seconds, output = future.result()
            print(f"== {name} ({seconds:.1f} s){'' if outcome == 'passed' else ' ' + outcome.upper()}\n{output}", flush=True)
            names[outcome].append(name)
    rest = "; ".join(f"{outcome}: {', '.join(names[outcome]) or 'none'}" for outcome in ("failed", "not run"))
    print(f"{len(names['passed'])} of {len(todo)} flows passed in {time.monotonic() - begin:.0f} s; {rest}")
    return 1 if names["failed"] else 0


class StepDowns:
    """Has the primary of a set step down every few seconds."""

    def __init__(self, uri, every_s):
        self.uri, self.every_s = uri, every_s
        self.stopped, self.count = threading.Event(), 0
        self.thread = threading.Thread(target=self.run)

    def run(self):
        with pymongo.MongoClient(self.uri) as client:
            while not self.stopped.wait(self.every_s):
                try:
                    client.admin.command("replSetStepDown", 5, secondaryCatchUpPeriodSecs=3)
                    self.count += 1
                except PyMongoError as error:
                    print(f"stepDown: {error}", flush=True)

    def __enter__(self):
        if self.every_s:
            self.thread.start()
        return self

    def __exit__(self, *_):
        self.stopped.set()
        if self.every_s:
            self.thread.join()
            print(f"{self.count} times the primary stepped down")


def on_members(arguments):
    if not arguments.only:
        arguments.only = [name for name, (_, wants_set) in flows([], False).items() if wants_set] if arguments.step_down else ON_MEMBERS
    with tempfile.TemporaryDirectory(prefix="arbor-drivers-") as directory, Members(directory, arguments.members) as members:
        with pymongo.MongoClient("127.0.0.1", members.members[0].port, directConnection=True) as client:
            client.admin.command("replSetInitiate", members.config())
            while not client.admin.command("hello")["isWritablePrimary"]:
                time.sleep(0.05)
        with StepDowns(members.uri, arguments.step_down):
            return run_all(members.uri, members.uri, arguments)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true", help="the long form: more documents, larger files, more clients")
    parser.add_argument("--only", nargs="*", default=[], help="these flows")
    parser.add_argument("--uri", help="a server that runs already, also a MongoDB")
    parser.add_argument("--set-uri", help="a set that runs already")
    parser.add_argument("--jobs", type=int, default=2, help="flows side by side")
    parser.add_argument("--members", type=int, default=0, help="a set of this many members for all flows")
    parser.add_argument("--step-down", type=float, default=0, help="seconds between two changes of its primary")
    arguments = parser.parse_args()
    if arguments.members:
        return on_members(arguments)
    if arguments.uri:
        return run_all(arguments.uri, arguments.set_uri or arguments.uri, arguments)
    with tempfile.TemporaryDirectory(prefix="arbor-drivers-") as directory:
        with Arbor(pathlib.Path(directory) / "data") as arbor, ReplicaSet(pathlib.Path(directory) / "set") as member:
            outcome = run_all(arbor.uri, member.uri, arguments)
            for server in (arbor, member):
                if server.process.poll() is not None:
                    print(f"the server ended:\n{server.log_tail()}")
                    return 1
    return outcome


if __name__ == "__main__":
    sys.exit(main())
