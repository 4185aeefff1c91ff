"""The aggregates: what each makes of the events of a group, or of the rows alive at an instant.

Totals (COUNT; SUM and AVG of whole numbers) are exact integers that arrivals add to and departures
subtract from. All others are computed from the rows alive at each version, sorted by value, so
that the result depends on nothing but the rows: floating-point sums are compensated and taken in
that order. NULL arguments are passed over, as in SQL; NaN is larger than any number.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal, localcontext
from typing import TYPE_CHECKING

import numba
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mayfly.errors import BadInput, InvalidSetting
from mayfly.kernels.codes import adjacent_equal
from mayfly.kernels.rows import numbers
from mayfly.kernels.sorting import Int64s
from mayfly.plan.logical import AggregateCall
from mayfly.plan.types import arrow_type

if TYPE_CHECKING:
    from mayfly.kernels.grouping import Events

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Versions:
    """Instants at which groups changed: group number, instant, rows alive, code of the group.

    ``which`` and ``rows`` list the rows alive at each version, if any aggregate needs them.
    """

    group: Int64s
    time: Int64s
    count: Int64s
    code: Int64s
    which: Int64s | None = None
    rows: pa.Table | None = None

    def meeting(self, which: Int64s, rows: pa.Table) -> Versions:
        return replace(self, which=which, rows=rows)

    def __len__(self) -> int:
        return len(self.group)


@dataclass(frozen=True)
class Totals:
    """The value per version, and the running totals to remember with the group."""

    value: pa.Array
    kept: Mapping[str, Int64s]


@dataclass(frozen=True)
class Aggregator:
    """One aggregate call."""

    call: AggregateCall
    needs_rows: bool
    kept: tuple[str, ...]

    def totals(
        self,
        events: Events,
        place: Int64s,
        known: pa.Table,
        argument: str,
        total: str,
        versions: Versions,
    ) -> Totals:
        if self.needs_rows:
            return Totals(_from_rows(self.call, versions, argument), {})
        return _running(self.call, events, place, known, argument, total, versions)


def aggregator(call: AggregateCall) -> Aggregator:
    whole = call.argument is not None and call.argument.type.is_integral
    if call.function == "count" and not call.distinct:
        return Aggregator(call, False, ("",) if call.argument is not None else ())
    if call.function in ("sum", "avg") and whole:
        return Aggregator(call, False, ("", "sum"))
    if call.function == "frequent":
        raise InvalidSetting(
            "FREQUENT is not maintained by this runner", "use TOP(x, k), which is exact"
        )
    return Aggregator(call, True, ())


# ── running totals ────────────────────────────────────────────────────────────────────────


def _running(
    call: AggregateCall,
    events: Events,
    place: Int64s,
    known: pa.Table,
    argument: str,
    total: str,
    versions: Versions,
) -> Totals:
    if call.argument is None:
        return Totals(pa.array(versions.count), {})
    last = events.last_of_instant
    values = events.rows.column(argument).combine_chunks()
    valid = pc.is_valid(values).to_numpy(zero_copy_only=False)
    present = events.running(events.sign * valid, place, numbers(known, total))[last]
    if call.function == "count":
        return Totals(pa.array(present), {"": present})
    amounts = pc.fill_null(values, 0).cast(pa.int64()).to_numpy(zero_copy_only=False)
    sums = events.running(amounts * events.sign, place, numbers(known, f"{total}sum"))[last]
    rough = events.running_rough(amounts, place, numbers(known, f"{total}sum"))[last]
    if (np.abs(rough) > 9.2e18).any():
        raise BadInput(
            f"{call.function.upper()} does not fit a BIGINT",
            "cast its argument to DOUBLE or DECIMAL",
        )
    empty = present == 0
    kept = {"": present, "sum": sums}
    if call.function == "sum":
        return Totals(pa.array(sums, mask=empty), kept)
    means = sums / np.maximum(present, 1)
    return Totals(pa.array(means, mask=empty), kept)


# ── from the rows alive ───────────────────────────────────────────────────────────────────


def _from_rows(call: AggregateCall, versions: Versions, argument: str) -> pa.Array:
    """The values of one aggregate for all versions."""
    kind = arrow_type(call.data_type)
    if versions.which is None or versions.rows is None or not versions.rows.num_rows:
        return _of_nothing(call, len(versions), kind)
    values = versions.rows.column(argument).combine_chunks()
    present = pc.is_valid(values)
    values = values.filter(present)
    which = versions.which[present.to_numpy(zero_copy_only=False)]
    values, which, starts = _sorted_by_version(values, which, len(versions))
    counts = np.diff(np.append(starts, len(which)))
    function = _FUNCTIONS[call.function]
    return function(call, values, starts, counts, kind)


def _of_nothing(call: AggregateCall, size: int, kind: pa.DataType) -> pa.Array:
    if call.function == "count":
        return pa.array(np.zeros(size, np.int64))
    if call.function == "top":
        return pa.array([[]] * size, kind)
    return pa.nulls(size, kind)


def _sorted_by_version(
    values: pa.Array, which: Int64s, size: int
) -> tuple[pa.Array, Int64s, Int64s]:
    """Sorted by version, then value (NaN last); and where each version begins."""
    table = pa.table({"which": which, "value": values})
    keys = [("which", "ascending"), ("value", "ascending")]
    order = pc.sort_indices(table, sort_keys=keys)
    which = which[order.to_numpy()]
    starts: Int64s = np.searchsorted(which, np.arange(size))
    return values.take(order), which, starts


Function = Callable[[AggregateCall, pa.Array, Int64s, Int64s, pa.DataType], pa.Array]


def _picked(values: pa.Array, at: Int64s, counts: Int64s) -> pa.Array:
    """The value at a position for every version that has rows, NULL for the others."""
    return values.take(pa.array(at, mask=counts == 0))


def _smallest(
    call: AggregateCall, values: pa.Array, starts: Int64s, counts: Int64s, kind: pa.DataType
) -> pa.Array:
    return _picked(values, starts, counts)


def _largest(
    call: AggregateCall, values: pa.Array, starts: Int64s, counts: Int64s, kind: pa.DataType
) -> pa.Array:
    return _picked(values, starts + counts - 1, counts)


def _quantile(
    call: AggregateCall, values: pa.Array, starts: Int64s, counts: Int64s, kind: pa.DataType
) -> pa.Array:
    """The discrete quantile: the smallest value with at least a share q of the rows up to it."""
    share = float(str(call.parameters[0]))
    at = np.maximum(np.ceil(share * counts - 1e-9).astype(np.int64) - 1, 0)
    return _picked(values, starts + at, counts)


def _median(
    call: AggregateCall, values: pa.Array, starts: Int64s, counts: Int64s, kind: pa.DataType
) -> pa.Array:
    """The continuous one: the mean of the two in the middle."""
    low = _picked(values, starts + (counts - 1) // 2, counts).cast(pa.float64())
    high = _picked(values, starts + counts // 2, counts).cast(pa.float64())
    return pc.add(low, pc.multiply(pc.subtract(high, low), 0.5))


def _distinct_count(
    call: AggregateCall, values: pa.Array, starts: Int64s, counts: Int64s, kind: pa.DataType
) -> pa.Array:
    if not len(values):
        return pa.array(np.zeros(len(counts), np.int64))
    fresh = np.append(True, ~adjacent_equal(values)).astype(np.int64)
    fresh[starts[counts > 0]] = 1
    before = np.append(0, np.cumsum(fresh))
    return pa.array(before[starts + counts] - before[starts])


def _top(
    call: AggregateCall, values: pa.Array, starts: Int64s, counts: Int64s, kind: pa.DataType
) -> pa.Array:
    """The k most frequent values: count descending, then value."""
    most, listed = int(str(call.parameters[0])), values.to_pylist()
    tops = []
    for start, count in zip(starts.tolist(), counts.tolist(), strict=True):
        # Values are sorted and a Counter keeps their order, so equal counts go by value.
        ranked = sorted(Counter(listed[start : start + count]).items(), key=lambda it: -it[1])
        tops.append([{"value": value, "count": times} for value, times in ranked[:most]])
    return pa.array(tops, kind)


def _sum(
    call: AggregateCall, values: pa.Array, starts: Int64s, counts: Int64s, kind: pa.DataType
) -> pa.Array:
    if pa.types.is_decimal(values.type):
        return _decimals(call, values, starts, counts, kind)
    sums = _compensated(_floats(values), starts, counts)
    if call.function == "avg":
        sums = sums / np.maximum(counts, 1)
    return pa.array(sums, mask=counts == 0)


def _decimals(
    call: AggregateCall, values: pa.Array, starts: Int64s, counts: Int64s, kind: pa.DataType
) -> pa.Array:
    listed, results = values.to_pylist(), []
    with localcontext() as context:
        context.prec = 80
        for start, count in zip(starts.tolist(), counts.tolist(), strict=True):
            total = sum(listed[start : start + count], Decimal(0))
            if call.function == "avg" and count:
                total /= count
            results.append(_fitting(call, total, kind) if count else None)
    return pa.array(results, kind)


def _fitting(call: AggregateCall, value: Decimal, kind: pa.DataType) -> Decimal:
    rounded = value.quantize(Decimal(1).scaleb(-kind.scale), rounding="ROUND_HALF_UP")
    if abs(rounded) >= Decimal(10) ** (kind.precision - kind.scale):
        raise BadInput(f"{call.function.upper()} does not fit {kind}", "cast its argument")
    return rounded


def _variance(
    call: AggregateCall, values: pa.Array, starts: Int64s, counts: Int64s, kind: pa.DataType
) -> pa.Array:
    squares = _squared_deviations(_floats(values), starts, counts)
    spread = squares / np.maximum(counts - 1, 1)
    if call.function == "stddev_samp":
        spread = np.sqrt(spread)
    return pa.array(spread, mask=counts < 2)


def _floats(values: pa.Array) -> Floats:
    return np.ascontiguousarray(values.cast(pa.float64()).to_numpy(zero_copy_only=False))


@numba.njit(cache=True, nogil=True)
def _compensated(values: Floats, starts: Int64s, counts: Int64s) -> Floats:
    """Sums of stretches, with the rounding errors added back (Neumaier)."""
    sums = np.zeros(len(starts))
    for i in range(len(starts)):
        total, lost = 0.0, 0.0
        for j in range(starts[i], starts[i] + counts[i]):
            value = values[j]
            grown = total + value
            if abs(total) >= abs(value):
                lost += (total - grown) + value
            else:
                lost += (value - grown) + total
            total = grown
        sums[i] = total + lost if np.isfinite(total) else total
    return sums


@numba.njit(cache=True, nogil=True)
def _squared_deviations(values: Floats, starts: Int64s, counts: Int64s) -> Floats:
    """Sums of squared deviations from the mean, in two passes."""
    sums = np.zeros(len(starts))
    for i in range(len(starts)):
        if counts[i] == 0:
            continue
        total = 0.0
        for j in range(starts[i], starts[i] + counts[i]):
            total += values[j]
        mean = total / counts[i]
        squares, rest = 0.0, 0.0
        for j in range(starts[i], starts[i] + counts[i]):
            squares += (values[j] - mean) ** 2
            rest += values[j] - mean
        sums[i] = squares - rest * rest / counts[i]
    return sums


_FUNCTIONS: dict[str, Function] = {
    "min": _smallest,
    "max": _largest,
    "quantile": _quantile,
    "median": _median,
    "count": _distinct_count,
    "top": _top,
    "sum": _sum,
    "avg": _sum,
    "var_samp": _variance,
    "stddev_samp": _variance,
}
