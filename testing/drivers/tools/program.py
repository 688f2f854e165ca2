"""Programs that `scripts/setup tools` builds; a flow whose program is not there says so and ends with NOT_RUN."""

import os
import pathlib
import shutil
import subprocess
import sys

TOOLS = pathlib.Path(__file__).resolve().parent.parent / ".tools"
sys.path.insert(0, str(TOOLS.parent / "python"))

# exit code by which run.py counts a flow apart from those that passed
NOT_RUN = 77


def program(name):
    """The path of the program, from `.tools` or the search path; ends the flow with a note when there is none."""
    own = TOOLS / name
    found = str(own) if own.exists() else shutil.which(name)
    if not found:
        print(f"  NOTE  {name} is neither in {TOOLS.name} nor on the path: not run (scripts/setup tools)")
        sys.exit(NOT_RUN)
    return found


def output_of(command, wait_s=120, **options):
    """What the program printed on both of its outputs; a failure raises."""
    done = subprocess.run([str(part) for part in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, timeout=wait_s, **options)
    assert done.returncode == 0, f"{pathlib.Path(command[0]).name} ended with {done.returncode}:\n{done.stdout}"
    return done.stdout


def run_as_flow(command):
    """Runs a program that is a whole flow, with its output and its exit code."""
    sys.exit(subprocess.run([str(part) for part in command], stdin=subprocess.DEVNULL, env=os.environ).returncode)
