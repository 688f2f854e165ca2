"""Backups of a cluster of three shards under transfers and moves of chunks, while shards, config server, routers and backups are killed.

A backup that ends well is restored into a cluster of its own; there the accounts must be those of the log of transfers, which has all that were acknowledged before
the backup began and none that were begun after its end. Most backups are increments, so a restore reads the log of several. One in four is a time between two points.
Prints a line per backup.
"""

import contextlib
import os
import re
import shutil
import subprocess
import time

from campaign import Problems, arguments, three_shards

from cluster_backups import Load, Restored, check_log, prepare, settled  # noqa: E402

# Increments between two full backups.
INCREMENTS = 8
SEED = 1


def backup(*arguments):
    return subprocess.Popen(
        [os.environ["ARBOR"], "backup", *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def succeeds(*arguments):
    process = backup(*arguments)
    output, errors = process.communicate(timeout=300)
    if process.returncode:
        raise Problems(f"{arguments[0]} failed: {errors}")
    return output


def kill_something(kind, cluster, running, rng, seconds):
    """Kills a member (1), a router (2) or the backup (3) while the backup runs; 0 and 4 kill nothing."""
    time.sleep(rng.uniform(0, seconds))
    match kind:
        case 1:
            victim = rng.choice([cluster.config, *cluster.shards])
            victim.kill()
            victim.start()
        case 2:
            victim = rng.choice(cluster.routers)
            victim.kill()
            victim.start()
        case 3:
            running.kill()


def check(target, directory, before, tried, *options):
    with contextlib.ExitStack() as stack:
        restored = Restored(succeeds, target, directory, stack, *options)
        try:
            with restored.routers[0].client() as client:
                log = settled(client)
                check_log(log, SEED, before, tried)
        except AssertionError as error:
            raise Problems(f"{options}: {error}") from error
    shutil.rmtree(directory)
    return len(log)


def run(cluster, args, rng):
    target = cluster.directory / "backups"
    with cluster.routers[0].client() as client:
        prepare(client)
    try:
        backups(cluster, args, rng, target)
    except Problems as problems:
        with cluster.routers[0].client() as client:
            try:
                settled(client)
            except AssertionError as error:
                raise Problems(*problems.args, f"so are those of the cluster that was backed up: {error}") from problems
        raise


def backups(cluster, args, rng, target):
    done, killed, between, began = 0, 0, 0, time.monotonic()
    with Load(cluster, SEED, killed=True) as load:
        while done < args.backups:
            options = [] if done % INCREMENTS == 0 else ["--incremental"]
            before = load.acknowledged()
            running = backup("create", "--uri", rng.choice(cluster.routers).uri, "--to", target, *options)
            kind = rng.randrange(5)
            kill_something(kind, cluster, running, rng, args.seconds)
            output, errors = running.communicate(timeout=300)
            tried = list(load.tried)
            if running.returncode == 101:
                raise Problems(errors)
            if running.returncode:
                if kind not in (1, 2, 3):
                    raise Problems(f"a backup failed: {errors}")
                killed += 1
                continue
            [(name, seconds, counter)] = re.findall(r"^(\S+) cluster .*\((\d+),(\d+)\)$", output, re.MULTILINE)
            point = ["--backup", name]
            if done % 4 == 3:
                # a second before: what was acknowledged by then is not known, but the accounts are those of the log
                point, before = ["--time", f"{int(seconds) - 1},{counter}"], [set(), set()]
                between += 1
            try:
                transfers = check(target, cluster.directory / "restored", before, tried, *point)
            except Problems as problems:
                if point[0] == "--time" and "cannot restore" in str(problems):
                    transfers = "none"
                else:
                    raise
            done += 1
            print(f"backup {done}: {' '.join(point)}, {transfers} transfers, {sum(map(len, load.done))} so far, {load.moved} moves, ok", flush=True)
            if done % INCREMENTS == 0:
                succeeds("prune", "--from", target, "--keep", INCREMENTS)
        transferred, moved = sum(map(len, load.done)), load.moved
    # what is left of those that were killed is a problem for `verify`
    succeeds("prune", "--from", target, "--keep", INCREMENTS)
    succeeds("verify", "--from", target)
    print(f"{done} backups restored, {between} of them to a time between two, {killed} killed; {transferred} transfers, {moved} moves in "
          f"{time.monotonic() - began:.0f} s, nothing differs")


def main():
    args, rng = arguments(__doc__, kills=0, seconds=0.3, seconds_are="longest time until a kill", backups=20)
    with three_shards("cluster-backups") as shards:
        run(shards, args, rng)


if __name__ == "__main__":
    main()
