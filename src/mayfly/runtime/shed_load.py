"""Load shedding: which rows and refreshes are left out on request.

Idea: *random* shedding takes rows by a hash of their values, before anything is done with them (see
``Dataflow``). *Partner* shedding is semantic, for joins (thesis 2.4.3): of the rows that come
to a join in one step, those go that have the fewest partners, kept or coming at the same time, for
they give the fewest results. *Stretching* answers fewer refreshes than declared: of those that one
large batch closes, the last.
Invariant: what is left out depends on the stored state and the rows of the batch, never on the
order in which they came, so a batch that is run again leaves out the same.
Cost: O(new rows · log + runs · their codes); the rows have been exchanged already.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from mayfly.arrays.order import Int64s, stable_order
from mayfly.errors import InvalidSetting
from mayfly.kernels.codes import group_codes
from mayfly.kernels.delta import Delta, mixed_ids, payload_names
from mayfly.kernels.interval import Interval
from mayfly.kernels.kept_rows import KeptRows
from mayfly.kernels.lifetime_rows import CODE, chosen, numbers, whole
from mayfly.kernels.operator import Operator
from mayfly.physical.stages import StagedProgram, StagedTask
from mayfly.storage.segment import EXP, TS

RANDOM, PARTNERS = "random", "partners"
_SPREAD = 1 << 32


@dataclass(frozen=True)
class Shedding:
    """What may be left out, as requested."""

    share: float = 0.0
    by: str = RANDOM
    stretch_above: int | None = None
    """From so many rows in a batch on, only the last of the refreshes it closes is answered."""

    def __post_init__(self) -> None:
        if not 0 <= self.share < 1:
            raise InvalidSetting(
                f"a share of {self.share} to leave out", "use 0 or more, less than 1"
            )
        if self.by not in (RANDOM, PARTNERS):
            raise InvalidSetting(
                f"rows cannot be left out by {self.by!r}", f"use {RANDOM!r} or {PARTNERS!r}"
            )
        if self.by == PARTNERS and not self.share:
            raise InvalidSetting(
                f"rows are to be left out by {PARTNERS!r}, but no share of them",
                "say how many, such as a share of 0.2",
            )
        if self.stretch_above is not None and self.stretch_above < 0:
            raise InvalidSetting(f"{self.stretch_above} rows in a batch", "use 0 or more")

    @property
    def of_rows(self) -> float:
        """The share that is taken before anything else."""
        return self.share if self.by == RANDOM else 0.0

    @property
    def at_joins(self) -> float:
        return self.share if self.by == PARTNERS else 0.0

    def stretches(self, rows: int) -> bool:
        return self.stretch_above is not None and rows > self.stretch_above

    def check(self, program: StagedProgram) -> None:
        """Refuse what would leave nothing out."""
        if self.at_joins and not any(shed_sides(program, task) for task in program.tasks):
            raise InvalidSetting(
                "no query joins time windows over streams, so rows have no partners to count",
                f"leave rows out by {RANDOM!r}",
            )
        slides = (
            answer.sent is not None and answer.sent.slide is not None for answer in program.answers
        )
        if self.stretch_above is not None and not any(slides):
            raise InvalidSetting(
                "no query sends its answer at refreshes, so there is nothing to stretch",
                "use Istream, Dstream or Rstream over windows with SLIDE, or leave rows out",
            )


NOTHING = Shedding()


def shed_sides(program: StagedProgram, task: StagedTask) -> dict[int, str]:
    """The sides of a join that may lose rows, and the streams these come from.

    Windows that cut rows are left alone: a row that was left out would be cut later. So is the
    join inside a negation, where a lost pair would be a wrong result.
    """
    operator = task.operator
    if not operator.combines or operator.owned:
        return {}
    streams = {}
    for side, local in enumerate(task.local):
        if local is None or not program.tasks[local].operator.foresees:
            continue
        for feed in program.feeds:
            if feed.task == local:
                streams[side] = feed.source.stream
    return streams


def without_least_promising(
    operator: Operator,
    state: Any,
    inputs: Sequence[Delta],
    sides: dict[int, str],
    share: float,
    interval: Interval,
) -> tuple[list[Delta], dict[str, int]]:
    """The inputs of a join's step without a share of their new rows, and what was left out."""
    coded = [operator.coded(delta.born, side) for side, delta in enumerate(inputs)]
    listed = [side for side in sides if coded[side].num_rows]
    if not listed:
        return list(inputs), {}
    promise = np.concatenate([_promise(side, coded, state.kept) for side in listed])
    salt = np.concatenate([_hashes(coded[side]) for side in listed])
    leaving = np.zeros(len(promise), bool)
    count = _rounded(share * len(promise), interval, salt)
    leaving[stable_order(promise, salt)[:count]] = True
    after, lost, offset = list(inputs), dict[str, int](), 0
    for side in listed:
        rows = coded[side]
        gone = leaving[offset : offset + rows.num_rows]
        offset += rows.num_rows
        left = chosen(rows, ~gone).select(inputs[side].born.schema.names)
        after[side] = Delta(left.combine_chunks(), inputs[side].cut)
        lost[sides[side]] = lost.get(sides[side], 0) + int(gone.sum())
    return after, lost


def _promise(side: int, coded: Sequence[pa.Table], kept: Sequence[KeptRows]) -> Int64s:
    """How many combinations the code of each new row of a side has on the other sides."""
    codes = numbers(coded[side], CODE)
    promises = np.ones(len(codes), np.int64)
    for other, rows in enumerate(coded):
        if other != side:
            partners = _occurrences(codes, numbers(rows, CODE))
            for run in kept[other].runs:
                partners += _occurrences(codes, numbers(run.load(), CODE))
            promises *= np.minimum(partners, 1 << 60 // (len(coded) - 1))
    return promises


def _occurrences(codes: Int64s, among: Int64s) -> Int64s:
    """How often each code is among others, which are sorted."""
    low, high = (np.searchsorted(among, codes, side=side) for side in ("left", "right"))
    return (high - low).astype(np.int64)


def _hashes(rows: pa.Table) -> Int64s:
    """A number that depends on nothing but the values of a row and its lifetime."""
    values = group_codes([whole(rows.column(n)) for n in payload_names(rows)], rows.num_rows)
    return mixed_ids(mixed_ids(values, numbers(rows, TS)), numbers(rows, EXP))


def _rounded(amount: float, interval: Interval, salt: Int64s) -> int:
    """Up or down, so that over many steps the share is right."""
    chance = mixed_ids(np.array([interval.clock]), np.array([np.bitwise_xor.reduce(salt)]))
    return int(amount + int(chance.view(np.uint64)[0] % _SPREAD) / _SPREAD)
