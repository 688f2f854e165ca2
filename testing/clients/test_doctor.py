"""`arbor doctor` as an operator runs it: findings with advice, exit codes, JSON."""

import json
import os
import subprocess

from arbor_process import Arbor


def doctor(*flags):
    ended = subprocess.run([os.environ["ARBOR"], "doctor", "--json", *flags], capture_output=True, text=True, timeout=120)
    findings = json.loads(ended.stdout)["findings"]
    assert all(finding["advice"] for finding in findings if finding["level"] in ("warning", "problem"))
    return ended.returncode, {finding["check"]: finding for finding in findings}


def test_exit_codes_are_those_of_the_worst_finding(tmp_path):
    code, findings = doctor("--dbpath", str(tmp_path))
    levels = {finding["level"] for finding in findings.values()}
    assert findings["data directory"]["level"] == "ok"
    assert code == (3 if "problem" in levels else 1 if "warning" in levels else 0)
    code, findings = doctor("--dbpath", str(tmp_path / "nothing"))
    assert code == 3 and findings["data directory"]["level"] == "problem"


def test_a_running_server_is_left_alone(tmp_path):
    with Arbor(tmp_path / "data") as server:
        _, findings = doctor("--dbpath", str(tmp_path / "data"))
        assert str(server.process.pid) in findings["running"]["seen"]
        assert "engine ftree" in findings["data directory"]["seen"]
    assert not list((tmp_path / "data").glob("arbor.doctor*"))


def test_flags_and_files_are_those_of_the_server(tmp_path):
    key = tmp_path / "key"
    key.write_text("secret")
    key.chmod(0o644)
    config = tmp_path / "arbor.conf"
    config.write_text(f"storage:\n  dbPath: {tmp_path}\nsecurity:\n  keyFile: {key}\n")
    code, findings = doctor("--config", str(config), "--tlsCAFile", str(tmp_path / "ca.pem"))
    assert code == 3 and findings["certificate"]["level"] == "problem"
    assert findings["secrets"]["level"] == "warning" and "chmod 600" in findings["secrets"]["advice"]
    refused = subprocess.run([os.environ["ARBOR"], "doctor", "--dbpaht", "x"], capture_output=True, text=True, timeout=60)
    assert refused.returncode == 2
