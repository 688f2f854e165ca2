#!/usr/bin/env python3
"""A replica set of real processes under faults and load: `nemesis.py --seconds 120 [--seed N] [--faults NAME,...] [--report FILE]`.

Clients work all the time (workloads.py). One fault after the other strikes, lasts for a while and is taken back; then the set has to be whole again. In the
end what every client was promised is compared with what is there, and the data of the members with each other. `--control forget` shows that
losses are found: it puts all members back to a copy of their directories, as disks would that never wrote what they had acknowledged.
"""

import argparse
import json
import os
import pathlib
import random
import shutil
import signal
import sys
import tempfile
import time

from pymongo.errors import PyMongoError

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import members  # noqa: E402
import report  # noqa: E402
import workloads  # noqa: E402

# Duration of faults of each kind; a kill lasts as long as a restart takes.
LASTS_S = (1.5, 4.0)
ETCD_LASTS_S = (4.0, 8.0)
# A fault that is asked for by its name alone.
ETCD_PAUSED_LONG_S = (300.0, 300.0)
DISK_MEGABYTES = 3000
STUTTERS = 8
CLOCK_STEPS_S = (-3600, -60, -2, 2, 60, 3600)
# From the end of a fault until it counts as survived.
QUIET_S = 1.5


class Faults:
    """Each fault strikes, waits and takes itself back."""

    def __init__(self, of_set, rng):
        self.set, self.random = of_set, rng

    def names(self):
        plain = ["kill_primary", "kill_secondary", "pause_primary", "pause_secondary", "step_down", "step_down_storm", "etcd_paused", "etcd_killed", "rolling_restart",
                 "replace_secondary", "reconfigure"]
        if len(self.set.members) == 1:
            return ["kill_primary", "pause_primary"]
        disks = ["disk_full_primary", "disk_full_secondary", "disk_hangs_primary", "disk_hangs_secondary", "disk_stutters"]
        return (plain + (["isolate_primary", "isolate_secondary", "one_way", "ring"] if self.set.network else [])
                + (disks if self.set.disks else []) + (["clock_steps"] if self.set.members[0].clock else []))

    def wait(self, lasts=LASTS_S):
        time.sleep(self.random.uniform(*lasts))

    def secondary(self):
        return self.random.choice(self.set.secondaries())

    def kill(self, member):
        member.kill()
        self.wait()
        member.start()

    def pause(self, member):
        member.pause()
        self.wait()
        member.resume()

    def kill_primary(self):
        self.kill(self.set.wait_for_primary())

    def kill_secondary(self):
        self.kill(self.secondary())

    def pause_primary(self):
        self.pause(self.set.wait_for_primary())

    def pause_secondary(self):
        self.pause(self.secondary())

    def step_down(self):
        member = self.set.wait_for_primary()
        try:
            member.command("replSetStepDown", 2, secondaryCatchUpPeriodSecs=1, timeout_ms=10_000)
        except PyMongoError as error:
            print(f"  stepDown: {error}")
        self.wait()

    def step_down_storm(self):
        for _ in range(3):
            self.step_down()

    def etcd_paused(self, lasts=ETCD_LASTS_S):
        """No etcd at all: reads and writes continue, since no member can change the set."""
        for member in self.set.members:
            member.signal_etcd(signal.SIGSTOP)
        self.wait(lasts)
        for member in self.set.members:
            member.signal_etcd(signal.SIGCONT)

    def etcd_paused_long(self):
        self.etcd_paused(ETCD_PAUSED_LONG_S)

    def disk_full(self, member):
        """A member may end for it; what was acknowledged stays."""
        member.disk.fill()
        self.wait(ETCD_LASTS_S)
        member.disk.empty_a_part()
        if member.process.poll() is not None:
            print(f"  {member.address} has ended with {member.process.returncode}")
            member.start()

    def disk_full_primary(self):
        self.disk_full(self.set.wait_for_primary())

    def disk_full_secondary(self):
        self.disk_full(self.secondary())

    def disk_hangs_primary(self):
        self.set.wait_for_primary().disk.hang(self.random.uniform(*LASTS_S))

    def disk_hangs_secondary(self):
        self.secondary().disk.hang(self.random.uniform(*LASTS_S))

    def disk_stutters(self):
        member = self.random.choice(self.set.members)
        for _ in range(STUTTERS):
            member.disk.hang(self.random.uniform(0.1, 0.4))
            time.sleep(0.1)

    def clock_steps(self):
        member = self.random.choice(self.set.members)
        member.clock.step_to(self.random.choice(CLOCK_STEPS_S))
        self.wait()
        member.clock.step_to(0)

    def etcd_killed(self):
        self.random.choice(self.set.members).signal_etcd(signal.SIGKILL)
        self.wait()

    def rolling_restart(self):
        for member in self.set.members:
            member.stop()
            member.start()
            self.set.wait_until_whole()

    def replace_secondary(self):
        """A machine is lost with its disk; another one takes its place under its name."""
        member = self.secondary()
        member.kill()
        member.empty()
        self.wait()
        member.start()

    def reconfigure(self):
        """The priorities change, and with them the primary."""
        primary = self.set.wait_for_primary()
        config = primary.command("replSetGetConfig")["config"]
        favoured = self.random.randrange(len(config["members"]))
        config["version"] += 1
        for member in config["members"]:
            member["priority"] = 2 if member["_id"] == favoured else 1
        try:
            primary.command("replSetReconfig", config, timeout_ms=30_000)
        except PyMongoError as error:
            print(f"  reconfigure: {error}")
        self.wait()

    def cut(self, pairs):
        for one, other in pairs:
            self.set.network.cut(one, other)
        self.wait()
        self.set.network.heal()

    def isolate(self, member):
        at = self.set.members.index(member)
        others = [other for other in range(len(self.set.members)) if other != at]
        self.cut([(at, other) for other in others] + [(other, at) for other in others])

    def isolate_primary(self):
        self.isolate(self.set.wait_for_primary())

    def isolate_secondary(self):
        self.isolate(self.secondary())

    def one_way(self):
        at = self.set.members.index(self.set.wait_for_primary())
        other = self.random.choice([other for other in range(len(self.set.members)) if other != at])
        self.cut([self.random.choice([(at, other), (other, at)])])

    def ring(self):
        """Each member reaches the next one alone."""
        count = len(self.set.members)
        self.cut([(at, other) for at in range(count) for other in range(count) if other not in (at, (at + 1) % count)])


def longest_gap(times, begin, end):
    """The longest time without an acknowledged insert."""
    inside = [begin, *(at for at in times if begin < at < end), end]
    return max(later - earlier for earlier, later in zip(inside, inside[1:]))


def forget(of_set, clients, copies):
    """The control: every disk goes back to a copy, as if nothing had been written since. What was acknowledged since then must be missed."""
    print("control: all members forget what they acknowledged since the copy", flush=True)
    for member in of_set.members:
        member.kill()
    for member in of_set.members:
        shutil.rmtree(member.dbpath)
        shutil.copytree(copies / member.dbpath.name, member.dbpath)
    for member in of_set.members:
        member.start()
    of_set.wait_until_whole()


def copy(of_set, copies):
    for member in of_set.members:
        member.pause()
    for member in of_set.members:
        shutil.copytree(member.dbpath, copies / member.dbpath.name)
    for member in of_set.members:
        member.resume()


def same_data(of_set, wait_s=60):
    """All members have the same data, once they have applied it."""
    until, hashes = time.monotonic() + wait_s, {}
    while time.monotonic() < until:
        hashes = {}
        for member in of_set.members:
            with member.client(10_000) as client:
                hashes[member.address] = client.get_database("nemesis").command("dbHash")["md5"]
        if len(set(hashes.values())) == 1:
            return []
        time.sleep(0.5)
    return [f"the members have different data: {hashes}"]


def strike(of_set, clients, args, rng, result):
    faults = Faults(of_set, rng)
    names = [name for name in args.faults.split(",") if name] or faults.names()
    unknown = [name for name in names + [name for name in args.first.split(",") if name] if not hasattr(faults, name)]
    if unknown:
        sys.exit(f"no such fault: {unknown[0]}")
    until, order = time.monotonic() + args.seconds, [name for name in args.first.split(",") if name]
    while time.monotonic() < until:
        if not order:
            order = rng.sample(names, len(names))
        name = order.pop()
        begin, failed = time.monotonic(), clients.failed_writes()
        getattr(faults, name)()
        of_set.wait_until_whole()
        time.sleep(QUIET_S)
        gap = longest_gap(clients.acknowledged_at(), begin, time.monotonic())
        failed = clients.failed_writes() - failed
        result["load"] = sorted([*result["load"], os.getloadavg()[0]])
        result["faults"].append({"fault": name, "gap_s": round(gap, 3), "failed": failed})
        print(f"  {name}: {gap:.2f} s without an acknowledgement, {failed} plain writes failed", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    parser.add_argument("--members", type=int, default=3)
    parser.add_argument("--faults", default="", help="names, instead of all")
    parser.add_argument("--first", default="", help="names of faults that strike once, before the others")
    parser.add_argument("--workloads", default=",".join(workloads.ALL))
    parser.add_argument("--control", choices=["forget"])
    parser.add_argument("--plain", action="store_true", help="no network namespaces")
    parser.add_argument("--json", type=pathlib.Path, help="adds the result as a line")
    parser.add_argument("--report", type=pathlib.Path, help="writes the report of this run")
    parser.add_argument("--stalls", type=pathlib.Path, help="the result of stalls.py, for the report")
    args = parser.parse_args()
    rng = random.Random(args.seed)
    print(f"seed {args.seed}", flush=True)
    directory = pathlib.Path(tempfile.mkdtemp(prefix="arbor-nemesis-"))
    megabytes = DISK_MEGABYTES if args.members > 1 and not args.plain and not args.control else None
    of_set = members.Set(directory, args.members, namespaces=not args.plain, disk_megabytes=megabytes)
    result = {"date": time.strftime("%Y-%m-%d"), "seed": args.seed, "seconds": args.seconds, "members": args.members,
              "namespaces": of_set.network is not None, "disks": bool(of_set.disks), "only": args.faults, "first": args.first, "faults": [], "load": [], "problems": []}
    keep = True
    try:
        of_set.start()
        clients = workloads.Clients(of_set.uri, args.seed, args.workloads.split(","))
        clients.start()
        copies = directory / "copies"
        if args.control:
            time.sleep(3)
            copy(of_set, copies)
            time.sleep(args.seconds)
        else:
            strike(of_set, clients, args, rng, result)
        clients.stop()
        if args.control:
            forget(of_set, clients, copies)
        result["problems"] = clients.problems() + same_data(of_set)
        result["attempts"], result["operations"] = clients.operations()
        result["acknowledged_writes"] = clients.acknowledged()
        keep = bool(result["problems"]) and not args.control
    finally:
        of_set.stop()
        if keep:
            print(f"the directories are kept: {directory} {[str(disk.path) for disk in of_set.disks]}")
        else:
            of_set.remove_disks()
            shutil.rmtree(directory)
    for problem in result["problems"]:
        print(f"PROBLEM: {problem}")
    print(f"{result['operations']} operations, {result['acknowledged_writes']} acknowledged writes, {len(result['faults'])} faults, {len(result['problems'])} problems")
    if args.json:
        with open(args.json, "a") as file:
            file.write(json.dumps(result) + "\n")
    if args.report:
        report.write(args.report, result, json.loads(args.stalls.read_text()) if args.stalls else None)
    found = bool(result["problems"])
    if args.control and not found:
        sys.exit("the control lost data, and no checker has noticed")
    sys.exit(0 if found == bool(args.control) else 1)


if __name__ == "__main__":
    main()
