#!/usr/bin/env python3
"""PyMongo's own tests, of the version in testing/requirements.txt, from its source distribution on PyPI.

    ARBOR=path/to/arbor testing/.venv/bin/python testing/drivers/suites/pymongo_suite.py [TEST_FILE ...]
"""

import os
import re
import subprocess
import sys
import tarfile
import xml.etree.ElementTree

from suite import HERE, TOOLS, against_one_member, judged, note

# those that need a server that can be had here; the rest tests the driver alone
FILES = """test_bulk test_causal_consistency test_change_stream test_client test_client_bulk_write test_collation test_collection
    test_collection_management test_command_logging test_command_monitoring test_comment test_create_entities test_crud_unified
    test_csot test_cursor test_custom_types test_database test_decimal128 test_examples test_grid_file test_gridfs test_gridfs_bucket
    test_gridfs_spec test_index_management test_load_balancer test_monitoring test_pooling test_read_concern test_read_preferences
    test_read_write_concern_spec test_retryable_reads test_retryable_reads_unified test_retryable_writes
    test_retryable_writes_unified test_run_command test_session test_sessions_unified test_threads test_transactions
    test_transactions_unified test_unified_format test_versioned_api_integration test_write_concern""".split()

KNOWN = {
    r"::test_(where|socket_timeout|to_list_csot_applied|max_pool_size|max_pool_size_none)$": "$where: no server-side JavaScript",
    r"TestClientProse.*DNS|_dns_|_DNS_|srv|test_service_name_from_kwargs": "names that only MongoDB's DNS server knows",
    r"test_(metadata|container_metadata|handshake_)": "the driver sees that it runs in a container",
    r"secondary_read_?[Pp]reference": "no secondary in a set of one member",
    r"test_interrupt_signal$": "a shell ignores SIGINT for what it runs in the background",
    r"Topology_lifecycle|Successful_heartbeat": "events of several members",
    r"ErrorPropagationAfterEncounteringMultipleErrors": "the test connects to localhost:27017",
    r"test_batch_splitting_retry_fails$": "a fail point that counts documents, not statements",
    r"fails_after_two_consecutive_socket_timeouts|succeeds_after_one_socket_timeout": "limits of milliseconds on a busy machine",
    r"test_6_collects_write_errors_across_batches": "200,000 operations within a minute, in a build without optimization",
}


def distribution():
    """The directory with the tests; they are fetched when they are not there."""
    requirements = (HERE.parent.parent / "requirements.txt").read_text()
    version = re.search(r"^pymongo==(\S+)", requirements, re.MULTILINE).group(1)
    there = TOOLS / f"pymongo-{version}"
    if not there.exists():
        TOOLS.mkdir(exist_ok=True)
        fetched = subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", "pymongo", "--dest", str(TOOLS),
                                  f"pymongo=={version}"], capture_output=True, text=True)
        archive = TOOLS / f"pymongo-{version}.tar.gz"
        if not archive.exists():
            note(f"no source distribution of PyMongo {version} ({fetched.stderr.strip()[-200:]})")
        with tarfile.open(archive) as files:
            files.extractall(TOOLS, filter="data")
    environment = TOOLS / "pymongo-venv"
    if not (environment / "installed").exists():
        subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
        subprocess.run([str(environment / "bin" / "pip"), "install", "--quiet", "--disable-pip-version-check", f"pymongo[test]=={version}",
                        "pytest-timeout"], check=True)
        (environment / "installed").touch()
    return there, environment / "bin" / "python"


def run(member):
    there, python = distribution()
    files = [f"test/{name}.py" for name in (sys.argv[1:] or FILES)]
    report = TOOLS / "pymongo.xml"
    command = [str(python), "-m", "pytest", "-q", "-m", "default", "-o", "addopts=--strict-markers", "-p", "no:cacheprovider",
               "--timeout=120", "--tb=no", f"--junitxml={report}", *files]
    environment = {**os.environ, "DB_IP": "127.0.0.1", "DB_PORT": str(member.port)}
    subprocess.run(command, cwd=there, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    passed, skipped, failed = 0, 0, []
    for case in xml.etree.ElementTree.parse(report).getroot().iter("testcase"):
        kinds = {outcome.tag for outcome in case}
        if kinds & {"failure", "error"}:
            failed.append(f"{case.get('classname')}::{case.get('name')}")
        elif "skipped" in kinds:
            skipped += 1
        else:
            passed += 1
    return judged(passed, skipped, failed, KNOWN)


against_one_member(run)
