"""docs/RELIABILITY.md, from the result of a run."""

import collections
import math
import os
import pathlib
import statistics

TEXT = """# Reliability

Written by `make nemesis-report`, not by hand: a set with as many members as the table says, as real processes on one machine ({where}), one fault after the other, and
clients that work all the time: inserts, batches of 20, registers with compare-and-set, transfers, lists, counters, unique values, a queue of jobs, causal reads and a change stream. What they do and what is checked is in [testing/sets](../testing/sets/workloads.py).

    {command}

{date}, seed {seed}, profile {profile}, {cpus} processors shared with everything else{load}.

| measure | value |
|---|---|
| members | {members} |
| acknowledged writes | {acknowledged_writes} |
| acknowledged writes lost, doubled or out of order | {lost} |
| operations, of which {failed} failed or have an unknown outcome | {attempts} |
| faults survived | {count} |
{failovers}{long}{stalls}
Time without an acknowledged insert, as two clients saw it, by fault (a kill lasts 1.5 to 4 s until the process is started again, a pause as long):

| fault | times | median | longest |
|---|---|---|---|
{rows}

{problems}

`--control forget` puts all members back to an earlier copy of their directories, as disks would that had not written what they acknowledged; the same checks
then have to report losses, or the program fails.
"""


def rows(faults):
    gaps = collections.defaultdict(list)
    for fault in faults:
        gaps[fault["fault"]].append(fault["gap_s"])
    for name, times in sorted(gaps.items()):
        yield f"| {name.replace('_', ' ')} | {len(times)} | {statistics.median(times):.2f} s | {max(times):.2f} s |"


# Faults that take the primary away from its clients.
OF_PRIMARIES = ("kill_primary", "pause_primary", "isolate_primary", "disk_full_primary", "disk_hangs_primary", "step_down", "step_down_storm", "rolling_restart")
# Changes of the primary by one of them, at least, where these are several.
CHANGES = {"step_down_storm": 3}


def failovers(result):
    """The time without service of each fault that ended a primary; the longest one of a storm or a rolling restart."""
    gaps = sorted(fault["gap_s"] for fault in result["faults"] if fault["fault"] in OF_PRIMARIES)
    if result["members"] == 1 or not gaps:
        return ""
    at = [gaps[min(len(gaps) - 1, math.ceil(len(gaps) * share) - 1)] for share in (0.5, 0.99)]
    changes = sum(CHANGES.get(fault["fault"], 1) for fault in result["faults"] if fault["fault"] in OF_PRIMARIES)
    return f"| faults that ended a primary, and failovers by them at least | {len(gaps)}, {changes} |\n| time without an acknowledged insert over these, p50 and p99 | {at[0]:.2f} s, {at[1]:.2f} s |\n"


def etcd_away(result):
    """Plain writes that failed while no etcd replied for minutes."""
    times = [fault for fault in result["faults"] if fault["fault"] == "etcd_paused_long"]
    return "".join(f"| etcd stopped for five minutes: plain writes that failed | {fault['failed']} |\n" for fault in times)


def lost_secondaries(stalls):
    """Rows of a run without other load (stalls.py)."""
    for kind, times in (stalls or {}).items():
        yield f"| longest insert of a client when a secondary is {kind}, with no other load, {len(times)} times: p50 and longest | {statistics.median(times):.0f} ms, {max(times):.0f} ms |\n"


def write(path, result, stalls=None):
    only = "".join(f" {name}={result[key]}" for name, key in (("FAULTS", "only"), ("FIRST", "first")) if result.get(key))
    problems = "".join(f"- {text}\n" for text in result["problems"])
    where = "each in a network namespace" if result["namespaces"] else "without network namespaces, so without partitions"
    where += ", on a disk of its own" if result.get("disks") else ""
    text = TEXT.format(
        **{key: result[key] for key in ("members", "date", "seed", "acknowledged_writes", "attempts")},
        where=where,
        command=f"make nemesis-report SECONDS={result['seconds']:.0f} SEED={result['seed']}{only}",
        failovers=failovers(result),
        long=etcd_away(result),
        stalls="".join(lost_secondaries(stalls)),
        cpus=os.cpu_count(),
        load=f" (load {result['load'][0]:.0f} to {result['load'][-1]:.0f})" if result.get("load") else "",
        profile=pathlib.Path(os.environ["ARBOR"]).parent.name,
        lost=len(result["problems"]),
        failed=result["attempts"] - result["operations"],
        count=len(result["faults"]),
        rows="\n".join(rows(result["faults"])),
        problems=f"Problems found:\n\n{problems}" if problems else "No problem was found.",
    )
    path.write_text(text.replace("\n\n\n", "\n\n"))
