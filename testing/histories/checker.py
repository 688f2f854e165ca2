"""Does a list-append history obey snapshot isolation?

A history is a list of transactions. Each appends unique values to lists and reads whole lists, so the reads give away the
order in which every list was written, and from it who must have seen whom:

    ww  a wrote a list right before b did           wr  b read what a wrote last
    rw  a read a list that b was the next to write

Snapshot isolation forbids these (names as in Adya's thesis and in Elle):

    duplicate    a value is in a list twice              incompatible  two reads of a list disagree about its order
    lost append  a committed value that later reads miss garbage       a value that no client wrote
    G1a          a read of an aborted transaction        G1b           a read of a value that its writer wrote over
    G0           a cycle of ww                           G1c           a cycle of ww and wr
    G-single     a cycle with exactly one rw             internal      a transaction does not see its own writes
    time         somebody began after another one had committed, and does not see it (only with `real_time`)

Cycles with two or more rw side by side (write skew) are allowed.
"""

from collections import defaultdict
from dataclasses import dataclass, field


@dataclass
class Transaction:
    """`ops`: ("append", list, value) or ("read", list, values). `outcome`: committed, aborted or unknown."""

    ops: list
    outcome: str = "committed"
    began: float = 0.0
    ended: float = 0.0
    name: str = ""


@dataclass
class Anomaly:
    kind: str
    text: str


@dataclass
class History:
    transactions: list
    real_time: bool = True
    anomalies: list = field(default_factory=list)

    def check(self):
        self.writers = self._writers()
        self._check_internal()
        self.order = self._order_of_lists()
        self._check_reads()
        self._check_cycles()
        return self.anomalies

    def _report(self, kind, text):
        self.anomalies.append(Anomaly(kind, text))

    def _writers(self):
        writers = {}
        for number, transaction in enumerate(self.transactions):
            for op, of, value in transaction.ops:
                if op == "append":
                    assert (of, value) not in writers, f"{value} is appended to {of} twice: not a history that can be checked"
                    writers[of, value] = number
        return writers

    def _check_internal(self):
        """Within a transaction a read shows what an earlier read showed, and then the own appends."""
        for transaction in self.transactions:
            seen, own = {}, defaultdict(list)
            for op, of, value in transaction.ops:
                if op == "append":
                    own[of].append(value)
                    continue
                expected = seen[of] + own[of] if of in seen else own[of]
                fits = value == expected if of in seen else value[len(value) - len(own[of]):] == own[of]
                if not fits:
                    self._report("internal", f"{transaction.name}: {of} reads {value} with own appends {own[of]}")
                seen[of], own[of] = list(value), []

    def _order_of_lists(self):
        """The longest read of each list; all others must be beginnings of it. What a transaction of unknown outcome has appended counts where
        others read it: it may not have been committed."""
        longest = {}
        for transaction in self.transactions:
            if transaction.outcome == "aborted":
                continue
            ops = transaction.ops
            if transaction.outcome == "unknown":
                ops = [("read", of, values) for of, values in self._external_reads(transaction).items()]
            for op, of, value in ops:
                if op == "read" and len(value) > len(longest.get(of, [])):
                    longest[of] = value
        for of, values in longest.items():
            if len(set(values)) != len(values):
                self._report("duplicate", f"{of}: {values}")
        return longest

    def _external_reads(self, transaction):
        """Reads without what the transaction appended itself; the first of each list, since the others are internal."""
        own = {(of, value) for op, of, value in transaction.ops if op == "append"}
        read = {}
        for op, of, value in transaction.ops:
            if op == "read" and of not in read:
                read[of] = [v for v in value if (of, v) not in own]
        return read

    def _check_reads(self):
        last_of = defaultdict(dict)
        for number, transaction in enumerate(self.transactions):
            for op, of, value in transaction.ops:
                if op == "append":
                    last_of[number][of] = value
        for transaction in self.transactions:
            if transaction.outcome == "aborted":
                continue
            for of, values in self._external_reads(transaction).items():
                if values != self.order.get(of, [])[: len(values)]:
                    self._report("incompatible", f"{transaction.name}: {of} reads {values}, elsewhere {self.order[of]}")
                for value in values:
                    writer = self.writers.get((of, value))
                    if writer is None:
                        self._report("garbage", f"{transaction.name}: {of} holds {value}")
                    elif self.transactions[writer].outcome == "aborted":
                        self._report("G1a", f"{transaction.name}: {of} holds {value} of an aborted transaction")
                if values and (writer := self.writers.get((of, values[-1]))) is not None and last_of[writer][of] != values[-1]:
                    self._report("G1b", f"{transaction.name}: {of} ends with {values[-1]}, which its writer followed by {last_of[writer][of]}")

    def _edges(self):
        """kind -> {from: {to}}; the transactions that wrote a list, in its order."""
        edges = {"ww": defaultdict(set), "wr": defaultdict(set), "rw": defaultdict(set)}
        chain = {}
        for of, values in self.order.items():
            writers = []
            for value in values:
                writer = self.writers.get((of, value))
                if writer is not None and (not writers or writers[-1] != writer):
                    writers.append(writer)
            chain[of] = writers
            for before, after in zip(writers, writers[1:]):
                edges["ww"][before].add(after)
        for reader, transaction in enumerate(self.transactions):
            if transaction.outcome == "aborted":
                continue
            for of, values in self._external_reads(transaction).items():
                writers = chain.get(of, [])
                last = self.writers.get((of, values[-1])) if values else None
                if last is not None and last != reader:
                    edges["wr"][last].add(reader)
                at = writers.index(last) + 1 if last in writers else 0
                following = next((writer for writer in writers[at:] if writer != last), None)
                if following is not None and following != reader:
                    edges["rw"][reader].add(following)
        if self.real_time:
            self._check_time(edges, chain)
        return edges

    def _check_time(self, edges, chain):
        """Who begins after a commit sees it; a committed append that a later reader misses."""
        committed = {n for n, t in enumerate(self.transactions) if t.outcome == "committed"}
        by_list = defaultdict(list)
        for (of, value), writer in self.writers.items():
            if writer in committed:
                by_list[of].append((self.transactions[writer].ended, value, writer))
        for reader, transaction in enumerate(self.transactions):
            if transaction.outcome == "aborted":
                continue
            for of, values in self._external_reads(transaction).items():
                seen = set(values)
                for ended, value, writer in by_list[of]:
                    if ended < transaction.began and value not in seen and writer != reader:
                        kind = "time" if value in self.order.get(of, []) else "lost append"
                        self._report(kind, f"{transaction.name}: {of} reads {values} and misses {value}, committed before it began")

    def _check_cycles(self):
        edges = self._edges()
        merged = lambda *kinds: {n: set().union(*(edges[k][n] for k in kinds if n in edges[k])) for n in self._nodes(edges)}
        if cycle := find_cycle(merged("ww")):
            self._report("G0", self._names(cycle))
        if cycle := find_cycle(merged("ww", "wr")):
            self._report("G1c", self._names(cycle))
        else:
            self._check_single(edges["rw"], merged("ww", "wr"))

    def _check_single(self, rw, dependencies):
        """One rw edge and a way back without any."""
        for reader, writers in rw.items():
            for writer in writers:
                way = find_way(dependencies, writer, reader)
                if way:
                    self._report("G-single", self._names([reader, *way]))
                    return

    @staticmethod
    def _nodes(edges):
        return {n for kind in edges.values() for n, to in kind.items()} | {n for kind in edges.values() for to in kind.values() for n in to}

    def _names(self, numbers):
        return " -> ".join(self.transactions[n].name or str(n) for n in numbers)


def find_cycle(graph):
    """Some cycle as a list of nodes; None when there is none."""
    state = {}
    for root in graph:
        if root in state:
            continue
        way, stack = [root], [iter(graph.get(root, ()))]
        state[root] = "open"
        while stack:
            following = next(stack[-1], None)
            if following is None:
                stack.pop()
                state[way.pop()] = "done"
            elif state.get(following) == "open":
                return way[way.index(following):] + [following]
            elif following not in state:
                state[following] = "open"
                way.append(following)
                stack.append(iter(graph.get(following, ())))
    return None


def find_way(graph, start, goal):
    """Nodes from start to goal; None when there is no way."""
    came_from, todo = {start: None}, [start]
    while todo:
        node = todo.pop()
        if node == goal:
            way = []
            while node is not None:
                way.append(node)
                node = came_from[node]
            return way[::-1]
        for following in graph.get(node, ()):
            if following not in came_from:
                came_from[following] = node
                todo.append(following)
    return None
