"""The checkers find what they are for: `python3 -m unittest discover -s testing/sets`."""

import math
import unittest

from checkers import Operation, bank, counter, inserts, jobs, register, stream, unique


def write(value, begin, end):
    return Operation("write", None, value, begin, end)


def read(value, begin, end):
    return Operation("read", None, value, begin, end)


def cas(expected, value, begin, end):
    return Operation("cas", expected, value, begin, end)


class Registers(unittest.TestCase):
    def test_histories_with_an_order(self):
        for history in (
            [],
            [write(1, 0, 1), read(1, 2, 3)],
            [write(1, 0, 5), read(None, 1, 2), read(1, 3, 4)],
            [write(1, 0, 1), cas(1, 2, 2, 3), read(2, 4, 5)],
            # an unknown write that took effect late, and one that never did
            [write(1, 0, 1), write(2, 2, math.inf), read(1, 3, 4), read(2, 5, 6)],
            [write(1, 0, 1), write(2, 2, math.inf), read(1, 3, 4)],
            # an unknown swap that another one builds on
            [write(1, 0, 1), cas(1, 2, 2, math.inf), cas(2, 3, 4, 5), read(3, 6, 7)],
        ):
            self.assertEqual(register(history), [], history)

    def test_histories_without(self):
        for history in (
            [write(1, 0, 1), read(None, 2, 3)],
            [write(1, 0, 1), write(2, 2, 3), read(1, 4, 5)],
            # read, and then not any more
            [write(1, 0, 1), write(2, 2, math.inf), read(2, 3, 4), read(1, 5, 6)],
            # two swaps of one value
            [write(1, 0, 1), cas(1, 2, 2, 3), cas(1, 3, 2, 3), read(3, 4, 5)],
            # an acknowledged swap of a value that was never written
            [write(1, 0, 1), cas(7, 2, 2, 3)],
        ):
            self.assertEqual(len(register(history)), 1, history)


class Others(unittest.TestCase):
    def test_inserts(self):
        self.assertEqual(inserts([1, 2], [1, 2, 3], [1, 2, 3]), [])
        self.assertEqual(len(inserts([1, 2], [1, 2, 3], [1])), 1)
        self.assertEqual(len(inserts([1], [1], [1, 4])), 1)
        self.assertEqual(len(inserts([1], [1], [1, 1])), 1)

    def test_counters(self):
        self.assertEqual(counter("c", 5, 1, 6), [])
        for found in (4, 7):
            self.assertEqual(len(counter("c", 5, 1, found)), 1)

    def test_sums(self):
        self.assertEqual(bank(80, [80, 80]), [])
        self.assertEqual(len(bank(80, [80, 81])), 1)

    def test_streams(self):
        self.assertEqual(stream([(0, 0), (0, 2), (1, 0)], [(0, 0), (1, 0), (0, 1), (0, 2)]), [])
        self.assertEqual(len(stream([(0, 0), (0, 1)], [(0, 1)])), 1)
        self.assertEqual(len(stream([(0, 0), (0, 1)], [(0, 1), (0, 0)])), 1)
        self.assertTrue(stream([(0, 0)], [(0, 0), (0, 0)]))


class Races(unittest.TestCase):
    def test_unique(self):
        self.assertEqual(unique([(1, "a"), (2, "b")], [(1, "a"), (2, "b"), (3, "of unknown outcome")]), [])
        for winners, found in (
            ([(1, "a"), (1, "b")], [(1, "a")]),
            ([(1, "a")], [(1, "a"), (1, "b")]),
            ([(1, "a")], []),
            ([(1, "a")], [(1, "b")]),
        ):
            self.assertTrue(unique(winners, found), (winners, found))

    def test_jobs(self):
        self.assertEqual(jobs([(1, "a")], {1: "a", 2: None, 3: "of unknown outcome"}), [])
        for taken, found in (([(1, "a"), (1, "b")], {1: "b"}), ([(1, "a")], {1: None}), ([(1, "a")], {})):
            self.assertTrue(jobs(taken, found), (taken, found))


if __name__ == "__main__":
    unittest.main()
