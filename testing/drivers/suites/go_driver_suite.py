#!/usr/bin/env python3
"""The unified tests of MongoDB's Go driver, whose module of version 1 has them with their data, through the Go module proxy.

    ARBOR=path/to/arbor testing/.venv/bin/python testing/drivers/suites/go_driver_suite.py [DIRECTORY ...]
"""

import json
import os
import re
import shutil
import subprocess
import sys

from suite import TOOLS, against_one_member, go, judged, note

MODULE = "go.mongodb.org/mongo-driver@v1.17.6"
DIRECTORIES = """change-streams collection-management command-monitoring crud/unified gridfs index-management load-balancers
    retryable-writes/unified run-command sessions transactions/unified unified-test-format/valid-pass versioned-api
    client-side-operations-timeout""".split()

KNOWN = {
    r"server-discovery-and-monitoring.*(Topology_lifecycle|Successful_heartbeat)": "events of several members",
}


def built():
    """The test program and the directory of the package that it is of."""
    there = TOOLS / "mongo-driver"
    program = TOOLS / "mongo-driver-unified"
    if not program.exists():
        TOOLS.mkdir(exist_ok=True)
        done = subprocess.run([go(), "mod", "download", "-json", MODULE], cwd=TOOLS, capture_output=True, text=True)
        if done.returncode != 0:
            note(f"no {MODULE}: {done.stdout[-200:]}")
        shutil.rmtree(there, ignore_errors=True)
        shutil.copytree(json.loads(done.stdout)["Dir"], there)
        subprocess.run(["chmod", "-R", "u+w", str(there)], check=True)
        # its own vendor directory lacks what only its tests need
        shutil.rmtree(there / "vendor", ignore_errors=True)
        subprocess.run([go(), "test", "-mod=mod", "-buildvcs=false", "-c", "-o", str(program), "./mongo/integration/unified"], cwd=there, check=True)
    return program, there / "mongo" / "integration" / "unified"


def run(member):
    program, directory = built()
    environment = {**os.environ, "MONGODB_URI": member.uri, "TOPOLOGY": "replica_set"}
    passed, skipped, failed = 0, 0, []
    for name in sys.argv[1:] or DIRECTORIES:
        command = [str(program), "-test.v", "-test.timeout=5m", f"-test.run=TestUnifiedSpec/{name}/"]
        output = subprocess.run(command, cwd=directory, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                text=True, errors="replace").stdout
        # a test that has tests of its own does not count
        outcomes = re.findall(r"--- (PASS|FAIL|SKIP): TestUnifiedSpec/(\S+)", output)
        outer = {other for _, test in outcomes for other in (test.rsplit("/", 1)[0],)}
        leaves = [(outcome, test) for outcome, test in outcomes if test not in outer]
        passed += sum(outcome == "PASS" for outcome, _ in leaves)
        skipped += sum(outcome == "SKIP" for outcome, _ in leaves)
        failed += [test for outcome, test in leaves if outcome == "FAIL"]
        if "panic: test timed out" in output or not leaves:
            failed.append(f"{name} (no end)")
    return judged(passed, skipped, failed, KNOWN)


against_one_member(run)
