"""Runs scripts in the MongoDB shell."""

import json
import pathlib
import subprocess

MONGOSH = pathlib.Path(__file__).parent / "node_modules" / ".bin" / "mongosh"


def run_mongosh(uri, script):
    """Each `out(x)` of the script adds to the list that is answered."""
    prelude = "const results = []; const out = x => results.push(x);"
    full = f"{prelude}\n{script}\nprint('RESULT ' + EJSON.stringify(results));"
    done = subprocess.run(
        [str(MONGOSH), "--quiet", "--norc", uri, "--eval", full], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr + done.stdout
    line = next(line for line in done.stdout.splitlines() if line.startswith("RESULT "))
    return json.loads(line[len("RESULT "):])
