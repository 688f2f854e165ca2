"""Runs every attack of this directory, each for its share of the time, and says which found something.

    testing/attack/run.py --seconds 600 --engines ftree,lmdb [NAME...]

An attack is a program `NAME.py` that takes `--seconds N` and `--engines A,B`, starts servers of its own (environment variable
ARBOR), prints a line for each finding and ends with status 1 if there was one. A line that begins with NOTE says what this
machine does not allow. An attack that takes ten times its share, and five minutes at least, has failed.
"""

import argparse
import os
import pathlib
import signal
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
OVERTIME = 10
SHORTEST_S = 300


def names():
    return sorted(path.stem for path in HERE.glob("*.py") if path != pathlib.Path(__file__).resolve())


def attack(name, seconds, engines, seed):
    """Returns (succeeded, seconds taken)."""
    command = [sys.executable, str(HERE / f"{name}.py"), "--seconds", f"{seconds:.0f}", "--engines", engines]
    command += ["--seed", str(seed)] if seed is not None else []
    begin = time.monotonic()
    limit = max(SHORTEST_S, OVERTIME * seconds)
    process = subprocess.Popen(command, start_new_session=True)
    try:
        status = process.wait(limit)
    except subprocess.TimeoutExpired:
        print(f"{name}: took longer than {limit:.0f} s")
        status = -1
    finally:
        end_group(process.pid)
        process.wait()
    return status == 0, time.monotonic() - begin


def end_group(group):
    """Ends what an attack left behind: servers are in its process group."""
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        pass


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=600, help="for all of them")
    parser.add_argument("--engines", default="ftree,lmdb")
    parser.add_argument("--seed", type=int, help="of each attack; without one it draws its own, and prints it")
    parser.add_argument("attacks", nargs="*", metavar="NAME", help=", ".join(names()))
    args = parser.parse_args()
    chosen = args.attacks or names()
    failed = []
    for name in chosen:
        print(f"== {name}", flush=True)
        succeeded, took = attack(name, args.seconds / len(chosen), args.engines, args.seed)
        print(f"== {name}: {'ok' if succeeded else 'FAILED'} in {took:.0f} s", flush=True)
        if not succeeded:
            failed.append(name)
    print(f"{len(chosen) - len(failed)} passed, {len(failed)} failed" + (f": {', '.join(failed)}" if failed else ""))
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
