#!/usr/bin/env python3
"""Runs the scripts of this directory against a server: `run.py --uri mongodb://...`, or against Arbor processes of its own.

    ARBOR=path/to/arbor run.py                        every script on ftree and on lmdb
    run.py --uri mongodb://127.0.0.1:27017            against any server; scripts in `arbor` and `absent` are left out unless it is Arbor
    run.py expression/abs stage                       some scripts
"""

import argparse
import pathlib
import sys
import tempfile
import time

import pymongo

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import registry  # noqa: E402
import script  # noqa: E402
import session  # noqa: E402
from arbor_process import Arbor  # noqa: E402

# what only Arbor answers so
OWN = ("arbor", "absent")


def scripts(names):
    paths = sorted(HERE.glob("*/*.spec"))
    return [path for path in paths if not names or any(name_of(path).startswith(name) for name in names)]


def name_of(path):
    return str(path.relative_to(HERE).with_suffix(""))


def run_script(client, path, kind=session.Session, with_plans=True):
    """Answers (number of cases, failures as text). A router shows other plans."""
    database = "spec_" + name_of(path).replace("/", "_")
    client.drop_database(database)
    one, count, failures = kind(client, database), 0, []
    for block in script.load(path):
        if block.kind == "plan" and not with_plans:
            continue
        try:
            for case, result in session.run_block(one, block):
                count += 1
                given = session.verdict(block, case, result)
                if given is not None:
                    failures.append(failure_text(path, block, case, given))
        except Exception as error:
            failures.append(f"{name_of(path)}.spec:{block.line}: {block.kind} {block.header}\n    {type(error).__name__}: {error}")
    client.drop_database(database)
    return count, failures


def failure_text(path, block, case, given):
    lines = [f"{name_of(path)}.spec:{case.line}: {block.kind} {block.header}", f"    {case.source}"]
    if block.header:
        arguments = [session.notation.show(argument) for argument in case.arguments if isinstance(argument, tuple)]
        lines.append(f"    with  {' ; '.join(arguments)}")
    return "\n".join([*lines, f"    gives {given}"])


def run_all(client, names, label):
    begin, total, failures = time.monotonic(), 0, []
    own = "arbor" in client.admin.command("buildInfo")
    paths = [path for path in scripts(names) if own or path.parent.name not in OWN]
    for path in paths:
        count, failed = run_script(client, path)
        total += count
        failures += failed
    if own and not names:
        count, failed = registry.probe_absent(session.Session(client, "spec_absent"))
        total += count
        failures += failed
    for failure in failures:
        print(failure)
    print(f"{label}: {len(paths)} scripts, {total} cases, {len(failures)} failed, {time.monotonic() - begin:.1f} s", flush=True)
    return len(failures)


def connect(uri):
    return pymongo.MongoClient(uri, serverSelectionTimeoutMS=10_000, retryWrites=False)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--uri", help="a server that runs already")
    parser.add_argument("--engines", default="ftree,lmdb", help="for processes of our own")
    parser.add_argument("scripts", nargs="*", help="beginnings of names, as `expression/abs`")
    options = parser.parse_args()
    if options.uri:
        with connect(options.uri) as client:
            sys.exit(run_all(client, options.scripts, options.uri) > 0)
    failed = 0 if options.scripts else registry.report(registry.check())
    for engine in options.engines.split(","):
        flags = ["--storageEngine", engine, "--setParameter", "enableTestCommands=1"]
        with tempfile.TemporaryDirectory() as directory, Arbor(pathlib.Path(directory) / "data", flags) as arbor:
            with connect(arbor.uri) as client:
                failed += run_all(client, options.scripts, engine)
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
