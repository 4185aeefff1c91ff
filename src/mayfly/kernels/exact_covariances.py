"""COVAR_POP, COVAR_SAMP and CORR: from exact sums of two columns, their squares and products.

Idea: n·Σxy − Σx·Σy cancels badly in floating point and not at all in whole numbers. Every double is
a whole number of 2 ** −1074, so the five sums are Python's whole numbers, rows come and go event by
event, and the quotient is rounded once. Invariant: an answer depends on the rows alone, not on
their order. Cost: five additions of numbers of some 2,000 bits per event; no row is read again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from mayfly.arrays import compute as pc
from mayfly.arrays.order import Int64s
from mayfly.kernels.group_events import Events
from mayfly.kernels.holistic import AggregateUpkeep, Versions
from mayfly.plan.logical_operators import AggregateCall

PAIRS = "pairs"
SCALE = 1074
"""The smallest double is 2 ** −1074."""
_BYTES = 1024
"""Of a stored sum: 4,196 bits for the largest square, and as many rows as there may be."""


@dataclass
class PairSums:
    """What is known of the pairs of a group."""

    rows: int = 0
    odd: int = 0
    """Pairs with NaN or an infinite number."""
    sums: list[int] = field(default_factory=lambda: [0] * 5)
    """Of x, y, x², y² and xy."""

    def add(self, x: float, y: float, sign: int) -> None:
        self.rows += sign
        if not (math.isfinite(x) and math.isfinite(y)):
            self.odd += sign
            return
        a, b = _scaled(x), _scaled(y)
        for place, amount in enumerate((a, b, a * a, b * b, a * b)):
            self.sums[place] += sign * amount

    def answer(self, function: str) -> float | None:
        """NULL without a pair, or of a sample with one alone; NaN where that is no number."""
        spare = 0 if function == "covar_pop" else 1
        if self.rows <= spare:
            return None
        if self.odd:
            return math.nan
        n, (x, y, xx, yy, xy) = self.rows, self.sums
        product = n * xy - x * y
        if function != "corr":
            return _quotient(product, (n * (n - spare)) << (2 * SCALE))
        spread = (n * xx - x * x) * (n * yy - y * y)
        if not spread:
            return None
        root = math.sqrt(_quotient(product * product, spread))
        return min(root, 1.0) * (1 if product >= 0 else -1)

    def stored(self) -> tuple[Int64s, ...]:
        numbers = np.array([self.rows, self.odd], np.int64)
        data = b"".join(part.to_bytes(_BYTES, "little", signed=True) for part in self.sums)
        return numbers, np.frombuffer(data, np.int64)

    @staticmethod
    def of(numbers: Int64s, words: Int64s) -> PairSums:
        data = words.tobytes()
        sums = [
            int.from_bytes(data[place : place + _BYTES], "little", signed=True)
            for place in range(0, len(data), _BYTES)
        ]
        return PairSums(int(numbers[0]), int(numbers[1]), sums)


def _scaled(value: float) -> int:
    numerator, denominator = value.as_integer_ratio()
    return numerator << (SCALE + 1 - denominator.bit_length())


def _quotient(numerator: int, denominator: int) -> float:
    try:
        return numerator / denominator
    except OverflowError:
        return math.copysign(math.inf, numerator)


def _play(call: AggregateCall, events: Events, versions: Versions, argument: str) -> pa.Array:
    """The answer at every version; the argument is a struct of both values, NULL where one is."""
    before, values = versions.alive_before, events.values(argument)
    held, starts = before.present(argument, values.type)
    name = (PAIRS, call.argument)
    carried = before.part(name) if before.summaries else {}
    groups = [
        PairSums.of(*carried[group]) if group in carried else PairSums()
        for group in range(len(starts) - 1)
    ]
    owner = np.repeat(np.arange(len(groups)), np.diff(starts)).tolist()
    for group, x, y in zip(owner, *_members(held), strict=True):
        groups[group].add(x, y, 1)
    present = pc.is_valid(values).to_numpy(zero_copy_only=False) & (events.sign != 0)
    signs, pairs = np.where(present, events.sign, 0).tolist(), zip(*_members(values), strict=True)
    listed, event, answers = list(pairs), 0, list[float | None]()
    last, group_of = (marks.tolist() for marks in events.marks)
    for end, group in zip(last, group_of, strict=True):
        while event <= end:
            if signs[event]:
                groups[group].add(*listed[event], signs[event])
            event += 1
        answers.append(groups[group].answer(call.function))
    before.leave(name, {group: groups[group].stored() for group in before.large.tolist()})
    return pa.array(answers, pa.float64())


def _members(pairs: pa.Array) -> list[list[float]]:
    return [
        pc.fill_null(member.cast(pa.float64(), safe=False), 0.0).to_pylist()
        for member in pairs.flatten()
    ]


COVARIANCES = ("covar_pop", "covar_samp", "corr")
COVARIANCE_WAYS = dict.fromkeys(
    COVARIANCES,
    AggregateUpkeep(
        "exact sums of both values, their squares and products",
        "they are rounded once, so they depend on the rows alone and not on batches",
        _play,
        PAIRS,
    ),
)
