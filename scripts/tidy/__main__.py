#!/usr/bin/env python3
"""Rules of the house that no compiler knows: `python3 scripts/tidy`, part of `make lint`.

    python3 scripts/tidy           prints what breaks a rule, and fails
    python3 scripts/tidy --lower   writes the present counts of banned words into words.tsv, where they are lower
    python3 scripts/tidy --assertions   prints the assertions of each crate
"""

import pathlib
import sys

import assertions
import built_paths
import events
import features
import layers
import links
import proofs
import words

ROOT = pathlib.Path(__file__).resolve().parents[2]


def main():
    if sys.argv[1:] == ["--lower"]:
        words.lower(ROOT)
        return 0
    if sys.argv[1:] == ["--assertions"]:
        for crate, lines, count, density in assertions.counts(ROOT):
            print(f"{crate:18} {lines:7} lines {count:5} assertions {density:6.1f} per 1,000")
        return 0
    problems = [problem for rule in (links, layers, events, proofs, words, assertions, built_paths, features) for problem in rule.check(ROOT)]
    print("\n".join(problems) if problems else "tidy: nothing to mend")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
