#!/usr/bin/env python3
"""Rules of the house that no compiler knows: `python3 scripts/tidy`, part of `make lint`.

    python3 scripts/tidy           prints what breaks a rule, and fails
    python3 scripts/tidy --lower   writes the present counts of banned words into words.tsv, where they are lower
"""

import pathlib
import sys

import events
import layers
import links
import proofs
import words

ROOT = pathlib.Path(__file__).resolve().parents[2]


def main():
    if sys.argv[1:] == ["--lower"]:
        words.lower(ROOT)
        return 0
    problems = [problem for rule in (links, layers, events, proofs, words) for problem in rule.check(ROOT)]
    print("\n".join(problems) if problems else "tidy: nothing to mend")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
