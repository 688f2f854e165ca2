"""Short forms of the loops that kill servers and backups (`make crash-backups`)."""

import os
import pathlib
import subprocess
import sys

import pytest

LOOPS = pathlib.Path(__file__).parent.parent / "crash"


@pytest.mark.parametrize(
    "arguments",
    [("backup_loop.py", "--members", "3", "--documents", "300"), ("cluster_backup_loop.py",)],
    ids=["three members", "three shards"],
)
def test_backups_under_kills_are_restored(arguments, tmp_path):
    loop, *arguments = arguments
    command = [sys.executable, str(LOOPS / loop), "--backups", "4", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "TMPDIR": str(tmp_path)})
    assert done.returncode == 0 and "nothing differs" in done.stdout, done.stdout[-4000:] + done.stderr[-4000:]
