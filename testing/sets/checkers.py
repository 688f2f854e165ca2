"""Checks of what clients saw. Each returns the problems, as texts."""

import collections
import math

Operation = collections.namedtuple("Operation", "kind expected value begin end")
# kind: "read" (value: what was read), "write", "cas" (expected -> value). end: math.inf when the outcome is not known.


def register(history, first=None):
    """Is one register linearizable? Written values are unique. A swap that was refused and a read that failed are not in the history; of operations
    whose outcome is not known, only those count whose value was seen: without it, no other operation can notice them."""
    seen = {operation.value for operation in history if operation.kind == "read"}
    seen |= {operation.expected for operation in history if operation.kind == "cas" and operation.end != math.inf}
    while True:
        # A swap that was seen has seen what it replaced.
        more = {operation.expected for operation in history if operation.kind == "cas" and operation.value in seen} - seen
        if not more:
            break
        seen |= more
    operations = sorted((one for one in history if one.end != math.inf or one.value in seen), key=lambda one: one.begin)
    return [] if linearizable(operations, first) else ["no order of the operations explains what was read and swapped"]


def linearizable(operations, first):
    """Depth-first, remembering the states that led nowhere. `done` holds what was ordered beyond the first operation that was not."""
    count = len(operations)
    stack, known = [(0, frozenset(), first)], set()
    while stack:
        low, done, value = stack.pop()
        while low in done:
            done, low = done - {low}, low + 1
        if low == count:
            return True
        if (low, done, value) in known:
            continue
        known.add((low, done, value))
        # Those that no other one precedes: what begins later than one of them ends cannot end earlier.
        left, ends = [], math.inf
        for at in range(low, count):
            if operations[at].begin > ends:
                break
            if at not in done:
                left.append(at)
                ends = min(ends, operations[at].end)
        if ends == math.inf:
            return True  # what is left may never have happened
        for at in left:
            operation = operations[at]
            if operation.begin > ends:
                break
            after = step(operation, value)
            if after is not None:
                stack.append((low, done | {at}, after[0]))
    return False


def step(operation, value):
    if operation.kind == "read":
        return (value,) if operation.value == value else None
    if operation.kind == "write" or operation.expected == value:
        return (operation.value,)
    return None


def inserts(acknowledged, tried, found):
    """Every acknowledged document is there, none that no client sent, none twice."""
    counts = collections.Counter(found)
    lost = set(acknowledged) - set(counts)
    strange = set(counts) - set(tried)
    twice = [one for one, count in counts.items() if count > 1]
    problems = [f"{len(lost)} acknowledged inserts are lost, as {sorted(lost)[:3]}"] if lost else []
    problems += [f"{len(strange)} documents that no client sent, as {sorted(strange)[:3]}"] if strange else []
    return problems + ([f"{len(twice)} documents twice, as {sorted(twice)[:3]}"] if twice else [])


def counter(name, acknowledged, unknown, found):
    """Increments are applied exactly once; those of unknown outcome at most once."""
    if acknowledged <= found <= acknowledged + unknown:
        return []
    return [f"counter {name} is {found}: {acknowledged} increments were acknowledged and {unknown} are not known"]


def bank(total, sums):
    wrong = [found for found in sums if found != total]
    return [f"{len(wrong)} of {len(sums)} sums of all accounts are not {total}, as {wrong[0]}"] if wrong else []


def unique(winners, found):
    """Of the inserts of one value into a unique index, one is acknowledged at most, and that one is there. `winners`: value and document of
    each that was; `found`: of each that is there."""
    counts, there = collections.Counter(value for value, _ in winners), dict(found)
    twice = [value for value, count in counts.items() if count > 1]
    problems = [f"{len(twice)} values of a unique index were given to two clients, as {twice[:3]}"] if twice else []
    if len(there) < len(found):
        problems.append("a value of a unique index is there twice")
    lost = [(value, document) for value, document in winners if there.get(value) != document]
    return problems + ([f"{len(lost)} winners of a unique index are not there, as {lost[:3]}"] if lost else [])


def jobs(taken, found):
    """A job is taken by one worker. `taken`: job and worker, as acknowledged; `found`: the worker of each job in the end."""
    counts = collections.Counter(job for job, _ in taken)
    twice = [job for job, count in counts.items() if count > 1]
    problems = [f"{len(twice)} jobs were given to two workers, as {twice[:3]}"] if twice else []
    lost = [(job, worker) for job, worker in taken if found.get(job) != worker]
    return problems + ([f"{len(lost)} jobs are not of the worker that took them, as {lost[:3]}"] if lost else [])


def stream(acknowledged, events):
    """A change stream shows every acknowledged insert once, and those of one client in its order. Keys are (client, number)."""
    counts = collections.Counter(events)
    missing = [one for one in acknowledged if one not in counts]
    twice = [one for one, count in counts.items() if count > 1]
    problems = [f"the stream lacks {len(missing)} acknowledged inserts, as {missing[:3]}"] if missing else []
    problems += [f"the stream shows {len(twice)} inserts twice, as {twice[:3]}"] if twice else []
    last = {}
    for client, number in events:
        if number <= last.get(client, -1):
            return [*problems, f"the stream shows {number} of client {client} after {last[client]}"]
        last[client] = number
    return problems
