"""The tests of a driver itself, fetched from its registry and run against one member of a set; nothing of them is kept here."""

import os
import pathlib
import re
import shutil
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
TOOLS = HERE.parent / ".tools"
sys.path.insert(0, str(HERE.parent.parent))

from arbor_process import ReplicaSet  # noqa: E402


def note(text):
    """Ends the suite where something it needs is not there."""
    print(f"NOTE  {text}: not run")
    sys.exit(0)


def go():
    path = os.environ["PATH"] + os.pathsep + "/usr/local/go/bin"
    return shutil.which("go", path=path) or note("no Go")


def against_one_member(run):
    """Calls `run(member)` with a server that has test commands; ends the process with 1 when it returns failures."""
    with tempfile.TemporaryDirectory(prefix="arbor-suite-") as directory:
        with ReplicaSet(pathlib.Path(directory) / "data", ["--setParameter", "enableTestCommands=1"]) as member:
            failures = run(member)
            if member.process.poll() is not None:
                print(f"the server ended:\n{member.log_tail()}")
                sys.exit(1)
    sys.exit(1 if failures else 0)


def judged(passed, skipped, failed, known):
    """Prints the outcome and returns the failures that no pattern of `known` explains. `known`: pattern to reason."""
    unexplained, explained = [], {}
    for name in failed:
        reason = next((reason for pattern, reason in known.items() if re.search(pattern, name)), None)
        if reason is None:
            unexplained.append(name)
        else:
            explained.setdefault(reason, []).append(name)
    print(f"{passed} passed, {skipped} skipped, {len(failed)} failed, {len(unexplained)} of them unexplained")
    for reason, names in explained.items():
        print(f"  {len(names):4}  {reason}")
    for name in unexplained:
        print(f"  FAIL  {name}")
    return unexplained
