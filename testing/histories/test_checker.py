"""The checker finds every anomaly in hand-made bad histories, and none in good ones."""

import random

from checker import History, Transaction


def append(of, value):
    return ("append", of, value)


def read(of, *values):
    return ("read", of, list(values))


def kinds(*transactions, real_time=False):
    for number, transaction in enumerate(transactions):
        transaction.name = f"T{number}"
    return sorted({anomaly.kind for anomaly in History(list(transactions), real_time).check()})


def test_good_histories():
    assert kinds() == []
    assert kinds(Transaction([append("x", 1)]), Transaction([read("x", 1), append("x", 2)]), Transaction([read("x", 1, 2)])) == []
    # an own append behind what the snapshot showed
    assert kinds(Transaction([append("x", 1)]), Transaction([read("x", 1), append("x", 2), read("x", 1, 2)])) == []
    # an operation of unknown outcome may be seen or not
    assert kinds(Transaction([append("x", 1)], "unknown"), Transaction([read("x", 1)])) == []
    assert kinds(Transaction([append("x", 1)], "unknown"), Transaction([read("x")])) == []
    # it read its own append and was never committed; another one came in its place
    first, second = Transaction([append("x", 1)]), Transaction([append("x", 3)])
    lost = Transaction([append("x", 2), read("x", 1, 2)], "unknown")
    assert kinds(first, lost, second, Transaction([read("x", 1, 3)])) == []
    assert kinds(first, lost, Transaction([read("x", 1)])) == []
    assert kinds(first, lost, Transaction([read("x", 1, 2)])) == []
    # what it read of others binds it
    assert "incompatible" in kinds(first, second, Transaction([read("x", 1, 3)]), Transaction([append("x", 2), read("x", 3, 2)], "unknown"))


def test_write_skew_is_allowed():
    skew = [
        Transaction([read("x"), append("y", 1)]),
        Transaction([read("y"), append("x", 2)]),
        Transaction([read("x", 2), read("y", 1)]),
    ]
    assert kinds(*skew) == []


def test_reads_of_what_never_was():
    assert kinds(Transaction([append("x", 1)], "aborted"), Transaction([read("x", 1)])) == ["G1a"]
    between = [Transaction([append("x", 1), append("x", 2)]), Transaction([read("x", 1)]), Transaction([read("x", 1, 2)])]
    assert "G1b" in kinds(*between)
    assert kinds(Transaction([read("x", 7)])) == ["garbage"]


def test_lists_that_disagree():
    appends = [Transaction([append("x", 1)]), Transaction([append("x", 2)])]
    assert "incompatible" in kinds(*appends, Transaction([read("x", 1, 2)]), Transaction([read("x", 2)]))
    assert "duplicate" in kinds(*appends, Transaction([read("x", 1, 2, 1)]))


def test_own_writes_are_seen():
    assert kinds(Transaction([append("x", 1), read("x")])) == ["internal"]
    assert "internal" in kinds(Transaction([append("x", 1)]), Transaction([read("x"), read("x", 1)])), "two reads of one snapshot"


def test_a_cycle_of_writes():
    crossed = [
        Transaction([append("x", 1), append("y", 1)]),
        Transaction([append("x", 2), append("y", 2)]),
        Transaction([read("x", 1, 2), read("y", 2, 1)]),
    ]
    assert "G0" in kinds(*crossed)


def test_a_cycle_of_reads():
    circular = [Transaction([append("x", 1), read("y", 1)]), Transaction([append("y", 1), read("x", 1)])]
    assert "G1c" in kinds(*circular)


def test_read_skew():
    skew = [
        Transaction([append("x", 1), append("y", 1)]),
        Transaction([append("x", 2), append("y", 2)]),
        Transaction([read("x", 1), read("y", 1, 2)]),
        Transaction([read("x", 1, 2), read("y", 1, 2)]),
    ]
    assert kinds(*skew) == ["G-single"]


def test_a_lost_update():
    """Both read the same and both append."""
    lost = [
        Transaction([append("x", 1)]),
        Transaction([read("x", 1), append("x", 2)]),
        Transaction([read("x", 1), append("x", 3)]),
        Transaction([read("x", 1, 2, 3)]),
    ]
    assert kinds(*lost) == ["G-single"]


def test_commits_are_seen_by_who_begins_later():
    first = Transaction([append("x", 1)], began=0, ended=1)
    stale = Transaction([read("x")], began=2, ended=3)
    fresh = Transaction([read("x", 1)], began=2, ended=3)
    assert kinds(first, stale, real_time=True) == ["lost append"]
    assert kinds(first, stale, fresh, real_time=True) == ["time"]
    assert kinds(first, fresh, real_time=True) == []


def simulate(seed, broken):
    """Snapshot isolation over lists in one thread; `broken` leaves out the check of write conflicts."""
    rng, lists, versions, history, open_ones, clock, value = random.Random(seed), {}, [{}], [], [], 0, 0
    for _ in range(300):
        clock += 1
        if len(open_ones) < 4 and rng.random() < 0.5:
            open_ones.append((Transaction([], began=clock, name=f"T{len(history) + len(open_ones)}"), len(versions) - 1, {}))
            continue
        if not open_ones:
            continue
        transaction, snapshot, own = rng.choice(open_ones)
        of = rng.choice("xyz")
        action = rng.random()
        if action < 0.4:
            transaction.ops.append(("read", of, versions[snapshot].get(of, []) + own.get(of, [])))
        elif action < 0.8:
            value += 1
            own.setdefault(of, []).append(value)
            transaction.ops.append(("append", of, value))
        else:
            open_ones = [entry for entry in open_ones if entry[0] is not transaction]
            conflict = any(versions[snapshot].get(name, []) != versions[-1].get(name, []) for name in own)
            transaction.ended = clock
            if conflict and not broken:
                transaction.outcome = "aborted"
            else:
                # what a store without the check would do: each list is written as the snapshot showed it, or behind the last
                behind = versions[-1] if not broken or rng.random() < 0.5 else versions[snapshot]
                versions.append(versions[-1] | {name: behind.get(name, []) + values for name, values in own.items()})
            history.append(transaction)
    return [t for t in history if t.ops]


def test_simulated_snapshot_isolation_is_clean_and_without_conflicts_it_is_not():
    for seed in range(50):
        assert History(simulate(seed, broken=False)).check() == [], seed
    found = sum(bool(History(simulate(seed, broken=True)).check()) for seed in range(50))
    assert found >= 48, found
