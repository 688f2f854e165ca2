"""Notices to systemd, and the unit that asks for them."""

import os
import pathlib
import shutil
import signal
import socket
import subprocess
import time

import pytest

from arbor_process import Arbor

UNIT = pathlib.Path(__file__).resolve().parents[2] / "ops" / "systemd" / "arbor.service"


def received(listener, notice):
    listener.settimeout(60)
    until = time.monotonic() + 60
    while time.monotonic() < until:
        if listener.recv(4096) == notice:
            return
    raise AssertionError(f"{notice} was not sent")


@pytest.mark.parametrize("name", ["path", "abstract"])
def test_the_server_says_that_it_is_ready_lives_and_stops(tmp_path, name):
    address = str(tmp_path / "notify") if name == "path" else f"\0arbor-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(address)
        variables = {"NOTIFY_SOCKET": address.replace("\0", "@"), "WATCHDOG_USEC": "500000"}
        with Arbor(tmp_path / "data", env={**os.environ, **variables}) as server:
            received(listener, b"READY=1")
            received(listener, b"WATCHDOG=1")
            server.process.send_signal(signal.SIGTERM)
            received(listener, b"STOPPING=1")
            server.process.wait(60)


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_the_unit_has_no_unknown_settings(tmp_path):
    unit = tmp_path / "arbor.service"
    unit.write_text(UNIT.read_text().replace("/usr/bin/arbor", shutil.which("true")))
    verified = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, timeout=60)
    complaints = [line for line in verified.stderr.splitlines() if "arbor.service" in line and "Unknown" in line]
    assert not complaints
