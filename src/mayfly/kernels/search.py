"""Algorithms 2 to 5 tuple by tuple: every new tuple, or group of them, probes in its turn.

Idea: rows get the rank at which they come, in the order of generation or of evaluation, and probe
what has a smaller one (thesis 5.2). ``probing`` is the inner loop and counts what it looks at.
Invariant: every combination is found once, at its member of the highest rank.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from mayfly.arrays.order import Int64s, stable_order
from mayfly.kernels.delta import taken
from mayfly.kernels.evaluation import Evaluation
from mayfly.kernels.lifetime_rows import CODE, numbers
from mayfly.kernels.multiway_probe import KEPT, Check, Effort, Partial, Probes, Side, partners
from mayfly.storage.segment import EXP, TS

Arrival = tuple[pa.Table, Probes]


@dataclass(frozen=True, slots=True)
class Search:
    """Where the probes of one step look: a side per input, and the rows that probe."""

    sides: list[Side]
    arrivals: Sequence[Arrival]
    every: int | None
    order: tuple[int, ...]
    single: bool
    """Whether every partial result probes by itself."""

    @staticmethod
    def among(
        kept: Sequence[Sequence[pa.Table]],
        arrivals: Sequence[Arrival],
        evaluation: Evaluation,
        every: int | None,
        order: tuple[int, ...],
    ) -> Search:
        sides = []
        for tables, (new, arrived) in zip(kept, arrivals, strict=True):
            ranks = [np.full(table.num_rows, KEPT) for table in tables]
            sides.append(Side.of([*tables, new], [*ranks, arrived.ranks], evaluation.buckets))
        return Search(sides, arrivals, every, order, evaluation.eager)

    @property
    def rows(self) -> list[pa.Table]:
        """All rows of every input."""
        return [side.rows for side in self.sides]

    def tables(self, origin: int) -> list[pa.Table]:
        """What the positions in a partial result refer to."""
        tables = self.rows
        tables[origin] = self.arrivals[origin][0]
        return tables

    def results(self, origin: int, check: Check, room: int, effort: Effort) -> Iterator[Partial]:
        """The complete results that rows of one input bring about."""
        probes = self.arrivals[origin][1]
        rest = [member for member in self.order if member != origin]
        if len(probes.codes):
            yield from self._followed(origin, probes, rest, check, room, effort)

    def _followed(
        self,
        origin: int,
        probes: Probes,
        rest: Sequence[int],
        check: Check,
        room: int,
        effort: Effort,
    ) -> Iterator[Partial]:
        """The results that grow out of partial ones by probing the rest of the inputs in turn."""
        if not rest:
            yield probes
            return
        member, *others = rest
        side = self.sides[member]
        for pairs in partners(probes, side, self.every, room, effort):
            joined = probes.joined(side, member, pairs, self.single)
            left = check(joined, self.tables(origin), origin, member)
            if len(left.codes):
                yield from self._followed(origin, left, others, check, room, effort)


def arrivals(new: Sequence[pa.Table], evaluation: Evaluation) -> list[Arrival]:
    """New rows as probes: by generation each, or by value together."""
    if evaluation.eager:
        ts = np.concatenate([numbers(rows, TS) for rows in new])
        ranks = np.empty(len(ts), np.int64)
        ranks[np.argsort(ts, kind="stable")] = np.arange(len(ts))
        ends = np.cumsum([rows.num_rows for rows in new])
        return [
            _in_turn(rows, member, mine)
            for member, (rows, mine) in enumerate(zip(new, np.split(ranks, ends[:-1]), strict=True))
        ]
    every, inputs = evaluation.every, len(new)
    first = min(int(numbers(rows, TS).min(initial=2**63 - 1)) for rows in new)
    return [_by_value(rows, member, inputs, every, first) for member, rows in enumerate(new)]


def _in_turn(rows: pa.Table, member: int, ranks: Int64s) -> Arrival:
    """Every row a unit, in the order of generation."""
    order = stable_order(ranks)
    rows, ranks = taken(rows, order), ranks[order]
    return rows, _probes(rows, member, ranks, numbers(rows, TS), np.arange(len(order) + 1))


def _by_value(rows: pa.Table, member: int, inputs: int, every: int | None, first: int) -> Arrival:
    """Rows of one value, generated between two evaluations, are a unit."""
    ts = numbers(rows, TS)
    if every is None:
        rounds, now = np.zeros(len(ts), np.int64), np.full(len(ts), first)
    else:
        order = stable_order(ts // every, numbers(rows, CODE))
        rows, ts = taken(rows, order), ts[order]
        rounds, now = ts // every - first // every, ts // every * every
    codes = numbers(rows, CODE)
    changes = (np.diff(rounds, prepend=-1) != 0) | (np.diff(codes, prepend=codes[:1]) != 0)
    units = np.append(np.flatnonzero(changes), len(codes))
    return rows, _probes(rows, member, rounds * inputs + member, now, units)


def _probes(rows: pa.Table, member: int, ranks: Int64s, now: Int64s, units: Int64s) -> Probes:
    codes, ts, exp = (numbers(rows, name) for name in (CODE, TS, EXP))
    return Probes({member: np.arange(len(codes))}, codes, ts, exp, ranks, now, units)
