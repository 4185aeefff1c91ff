"""Early pruning: rows that no answer can be about any more go before they expire.

Idea: a row is *dominated* by one of its group that lives at least as long and is at least as good;
whenever the first is alive, so is the second (thesis 2.2.2). NULL is worse than any value; the last
NULL to go stays where no value outlives it, as the group exists as long as it does. Who asks which
values there are needs of equal ones the last to go (see value_spans.py).
Invariant: from now on, what stays has the same extremes at every instant, and is empty when all
rows would be. Cost: a sort by (group, expiration), which FIFO queues have; O(rows) per aggregate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from mayfly.arrays import compute as pc
from mayfly.arrays.compilation import compiled
from mayfly.arrays.order import Int64s, stable_order
from mayfly.kernels.codes import check_codes, group_codes, unsigned_zeros
from mayfly.kernels.delta import with_numbers
from mayfly.kernels.lifetime_rows import CODE, Bools, chosen, numbers, whole
from mayfly.plan.logical_operators import AggregateCall
from mayfly.plan.plan_text import aggregate_text
from mayfly.plan.strategy import Structure
from mayfly.storage.segment import EXP
from mayfly.windows.domain import keys_in_order

EXTREMES = ("min", "max")
WITHOUT_CUTS = (Structure.APPEND, Structure.FIFO, Structure.CALENDAR)
"""What rows are kept in that leave by expiration only."""


def obstacle(calls: Sequence[AggregateCall], structure: Structure, appends: bool) -> str:
    """Why rows may not go early, nothing if they may; ``appends`` if every version is a result."""
    others = [call for call in calls if call.function not in EXTREMES]
    if others:
        return f"{aggregate_text((), others[:1], None)} needs every row"
    if appends:
        return "what was an answer stays one (INTERNAL)"
    if structure is Structure.BUFFER:
        return "DIRECT keeps what it may find by scanning"
    return "" if structure in WITHOUT_CUTS else "negative tuples may delete what outlives a row"


@dataclass(frozen=True)
class Pruning:
    """Drops dominated rows from tables that are about to be kept, and remembers which.

    ``clock`` is the first open instant. What is dropped leaves its group at the instant before,
    where rows that dominate it are: counts of the rows of the group stay right.
    """

    calls: Sequence[AggregateCall]
    clock: int
    extremes: Sequence[str] = EXTREMES
    """The functions that need the best rows only; all others need every value."""
    dropped: list[pa.Table] = field(default_factory=list)
    """Those that would have lived on, with the end they have now."""

    def __call__(self, rows: pa.Table) -> pa.Table:
        stays = undominated(rows, self.calls, self.extremes)
        if stays.all():
            return rows
        gone = chosen(rows, ~stays & (numbers(rows, EXP) >= self.clock))
        end = np.full(gone.num_rows, self.clock - 1)
        self.dropped.append(with_numbers(gone, **{EXP: end}))
        return chosen(rows, stays)


def undominated(
    rows: pa.Table, calls: Sequence[AggregateCall], extremes: Sequence[str] = EXTREMES
) -> Bools:
    """Which rows may still be the answer of one of the calls; of equal ones, one may."""
    if not calls or any(call.function not in extremes for call in calls):
        return _needed(rows, calls, extremes)
    code, exp = numbers(rows, CODE), numbers(rows, EXP)
    order = None if _are_sorted(code, exp) else stable_order(code, exp)
    if order is not None:
        code, exp = code[order], exp[order]
    stays = np.zeros(rows.num_rows, bool)
    for number, call in enumerate(calls):
        values = whole(rows.column(f"_argument{number}"))
        if order is not None:
            values = values.take(pa.array(order))
        valid = np.empty(0, bool)
        if values.null_count:
            valid = pc.is_valid(values).to_numpy(zero_copy_only=False)
        keys = keys_in_order(values)
        # With all bits turned the smallest key is the largest.
        _mark(code, exp, keys if call.function == "max" else ~keys, valid, stays)
    if order is not None:
        stays[order] = stays.copy()
    return stays


def _needed(rows: pa.Table, calls: Sequence[AggregateCall], extremes: Sequence[str]) -> Bools:
    """The same where some calls ask which values there are, or nothing but which groups."""
    if not calls:
        return _last_of_each(rows, ())
    stays = np.zeros(rows.num_rows, bool)
    for number, call in enumerate(calls):
        values = rows.column(f"_argument{number}")
        if call.function in extremes:
            own = rows.select([CODE, EXP]).append_column("_argument0", values)
            stays |= undominated(own, [call], extremes)
        else:
            stays |= _last_of_each(rows, [unsigned_zeros(whole(values))])
    return stays


def _last_of_each(rows: pa.Table, values: Sequence[pa.Array]) -> Bools:
    """Of rows of one group with equal values, the last to go."""
    code, exp, same = numbers(rows, CODE), numbers(rows, EXP), group_codes(values, rows.num_rows)
    order = stable_order(code, same, exp)
    code, same = code[order], same[order]
    check_codes(same, [column.take(pa.array(order)) for column in values])
    stays = np.zeros(rows.num_rows, bool)
    stays[order] = np.append((code[1:] != code[:-1]) | (same[1:] != same[:-1]), True)
    return stays


@compiled()
def _are_sorted(code: Int64s, exp: Int64s) -> bool:
    for i in range(1, len(code)):
        if code[i] < code[i - 1] or (code[i] == code[i - 1] and exp[i] < exp[i - 1]):
            return False
    return True


@compiled()
def _mark(code: Int64s, exp: Int64s, keys: Int64s, valid: Bools, stays: Bools) -> None:
    """From the last to expire to the first: of rows that expire together the best one stays, if it
    is better than all that expire later. No ``valid`` means no NULLs."""
    row, best = len(code) - 1, -1
    while row >= 0:
        last = top = row
        row -= 1
        while row >= 0 and code[row] == code[last] and exp[row] == exp[last]:
            if _is_better(row, top, keys, valid):
                top = row
            row -= 1
        if best < 0 or code[best] != code[last] or _is_better(top, best, keys, valid):
            stays[top] = True
            best = top


@compiled()
def _is_better(row: int, other: int, keys: Int64s, valid: Bools) -> bool:
    if len(valid) and not (valid[row] and valid[other]):
        return bool(valid[row] and not valid[other])
    return bool(keys[row] > keys[other])
