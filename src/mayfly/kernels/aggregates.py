"""The aggregates: what each makes of the events of a group, or of the rows alive at an instant.

Totals (COUNT; SUM and AVG of whole numbers) are exact integers that arrivals add to and departures
subtract from. All others are computed from the rows alive at each version, sorted by value, so
that the result depends on nothing but the rows: floating-point sums are compensated and taken in
that order. NULL arguments are passed over, as in SQL; NaN is larger than any number.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal, localcontext

import numba
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mayfly.errors import BadInput, InvalidSetting
from mayfly.kernels.caching import CACHED
from mayfly.kernels.codes import adjacent_equal, unsigned_zeros
from mayfly.kernels.group_events import Events, Floats, Wide
from mayfly.kernels.rows import Bools, numbers, whole
from mayfly.kernels.sorting import Int64s
from mayfly.lifetime import MIN_TIME, instant_text
from mayfly.plan.logical import AggregateCall
from mayfly.plan.types import arrow_type

_READ = numba.types.Array(numba.int64, 1, "C", readonly=True)
_WRITE = numba.types.Array(numba.int64, 1, "C")
_MARKS = numba.types.Array(numba.boolean, 1, "C")


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
    extremes: Mapping[str, Extreme] = field(default_factory=dict)

    def meeting(self, which: Int64s, rows: pa.Table) -> Versions:
        return replace(self, which=which, rows=rows)

    def __len__(self) -> int:
        return len(self.group)


@dataclass(frozen=True)
class Extreme:
    """The largest argument of each version; with all bits turned, the smallest."""

    kind: pa.DataType
    turn: np.int64
    best: Int64s
    known: Bools

    def look_at(self, values: pa.Array, versions: Int64s, positions: Int64s) -> None:
        """Take into account that versions meet the values at some positions."""
        if values.null_count:
            valid = pc.is_valid(values).to_numpy(zero_copy_only=False)[positions]
            versions, positions = versions[valid], positions[valid]
        ranks = _ranks(values)
        _raise(self.best, self.known, versions, positions, ranks, self.turn)

    def values(self) -> pa.Array:
        return _of_ranks(self.best ^ self.turn, ~self.known, self.kind)


@dataclass(frozen=True)
class Totals:
    """The value per version, and the running totals to remember with the group."""

    value: pa.Array
    kept: Mapping[str, Int64s]


@dataclass(frozen=True)
class Known:
    """What the stored rows of groups say of one aggregate."""

    groups: pa.Table
    value: str
    prefix: str

    def total(self, name: str) -> Int64s:
        return numbers(self.groups, f"{self.prefix}{name}")

    @property
    def means(self) -> Floats:
        """The last results of AVG: with the lower half of a sum they tell the whole sum."""
        means = whole(self.groups.column(self.value)).to_numpy(zero_copy_only=False)
        filled: Floats = np.nan_to_num(means.astype(np.float64))
        return filled


@dataclass(frozen=True)
class Aggregator:
    """One aggregate call."""

    call: AggregateCall
    needs_rows: bool
    kept: tuple[str, ...]
    is_extreme: bool = False

    def extreme(self, versions: int) -> Extreme:
        turn = np.int64(-1 if self.call.function == "min" else 0)
        best, known = np.full(versions, MIN_TIME), np.zeros(versions, dtype=bool)
        return Extreme(arrow_type(self.call.data_type), turn, best, known)

    def totals(
        self,
        events: Events,
        place: Int64s,
        known: Known,
        argument: str,
        versions: Versions,
    ) -> Totals:
        if self.is_extreme:
            return Totals(versions.extremes[argument].values(), {})
        if self.needs_rows:
            try:
                return Totals(_from_rows(self.call, versions, argument), {})
            except _TooLarge as error:
                kind = arrow_type(self.call.data_type)
                raise _overflow(self.call, events, versions, error.version, str(kind)) from None
        return _running(self.call, events, place, known, argument, versions)


def aggregator(call: AggregateCall) -> Aggregator:
    whole = call.argument is not None and call.argument.type.is_integral
    if call.function == "count" and not call.distinct:
        return Aggregator(call, False, ("",) if call.argument is not None else ())
    if call.function in ("sum", "avg") and whole:
        return Aggregator(call, False, ("", "sum"))
    if call.function in ("min", "max") and _has_ranks(arrow_type(call.data_type)):
        return Aggregator(call, False, (), is_extreme=True)
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
    known: Known,
    argument: str,
    versions: Versions,
) -> Totals:
    if call.argument is None:
        return Totals(pa.array(versions.count), {})
    values = events.values(argument)
    valid = np.ones(len(values), np.int64)
    if values.null_count:
        valid = pc.is_valid(values).to_numpy(zero_copy_only=False).astype(np.int64)
        values = pc.fill_null(values, 0) if call.function != "count" else values
    present = events.running(valid, place, Wide.of(known.total(""))).low
    if call.function == "count":
        return Totals(pa.array(present), {"": present})
    amounts = np.ascontiguousarray(values.cast(pa.int64()).to_numpy(zero_copy_only=False))
    before = Wide.of(known.total("sum"))
    if call.function == "avg":
        before = Wide.near(before.low, known.means * known.total(""))
    sums = events.running(amounts, place, before)
    empty = present == 0
    kept = {"": present, "sum": sums.low}
    if call.function == "avg":
        return Totals(pa.array(sums.floats / np.maximum(present, 1), mask=empty), kept)
    if not sums.fits.all():
        raise _overflow(call, events, versions, int(np.flatnonzero(~sums.fits)[0]), "a BIGINT")
    return Totals(pa.array(sums.low, mask=empty), kept)


class _TooLarge(Exception):
    """The value of a version does not fit its type."""

    def __init__(self, version: int) -> None:
        super().__init__(version)
        self.version = version


def _overflow(
    call: AggregateCall, events: Events, versions: Versions, version: int, kind: str
) -> BadInput:
    keys = events.keys(events.first_of_group[versions.group[[version]]]).to_pylist()
    values = ", ".join(repr(value) for row in keys for value in row.values())
    group = f" of the group ({values})" if values else ""
    moment = instant_text(int(versions.time[version]))
    return BadInput(
        f"{call.function.upper()}{group} does not fit {kind} at {moment}",
        "cast the aggregate's argument to DOUBLE or a wider DECIMAL",
    )


# ── extremes ──────────────────────────────────────────────────────────────────────────────


def _has_ranks(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_date32(kind)
        or pa.types.is_timestamp(kind)
    )


def _ranks(values: pa.Array) -> Int64s:
    """Whole numbers in the order of the values; floating-point ones by their bits, NaN last."""
    if pa.types.is_floating(values.type):
        floats = values.to_numpy(zero_copy_only=False).astype(np.float64) + 0.0
        floats[np.isnan(floats)] = np.nan
        return _turned(floats.view(np.int64))
    if pa.types.is_date32(values.type):
        values = values.cast(pa.int32())
    if values.null_count:
        values = values.fill_null(pa.scalar(0).cast(values.type))
    return np.ascontiguousarray(values.cast(pa.int64()).to_numpy(zero_copy_only=False))


def _of_ranks(ranks: Int64s, missing: Bools, kind: pa.DataType) -> pa.Array:
    if pa.types.is_floating(kind):
        return pa.array(_turned(ranks).view(np.float64), mask=missing).cast(kind)
    found = pa.array(ranks, mask=missing)
    return found.cast(pa.int32()).cast(kind) if pa.types.is_date32(kind) else found.cast(kind)


def _turned(bits: Int64s) -> Int64s:
    """Negative floating-point numbers have the larger bits; its own inverse."""
    turned: Int64s = bits ^ ((bits >> 63) & np.int64(2**63 - 1))
    return turned


@numba.njit(numba.void(_WRITE, _MARKS, _READ, _READ, _READ, numba.int64), cache=CACHED, nogil=True)
def _raise(
    best: Int64s, known: Bools, versions: Int64s, positions: Int64s, ranks: Int64s, turn: np.int64
) -> None:
    for i in range(len(versions)):
        version, rank = versions[i], ranks[positions[i]] ^ turn
        if rank > best[version]:
            best[version] = rank
        known[version] = True


# ── from the rows alive ───────────────────────────────────────────────────────────────────


def _from_rows(call: AggregateCall, versions: Versions, argument: str) -> pa.Array:
    """The values of one aggregate for all versions."""
    kind = arrow_type(call.data_type)
    if versions.which is None or versions.rows is None or not versions.rows.num_rows:
        return _of_nothing(call, len(versions), kind)
    values = unsigned_zeros(whole(versions.rows.column(argument)))
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
    low = _picked(values, starts + (counts - 1) // 2, counts).cast(pa.float64(), safe=False)
    high = _picked(values, starts + counts // 2, counts).cast(pa.float64(), safe=False)
    halves = pc.add(pc.multiply(low, 0.5), pc.multiply(high, 0.5))
    return pc.if_else(pc.equal(low, high), low, halves)


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
        spans = zip(starts.tolist(), counts.tolist(), strict=True)
        for version, (start, count) in enumerate(spans):
            total = sum(listed[start : start + count], Decimal(0))
            if call.function == "avg" and count:
                total /= count
            rounded = total.quantize(Decimal(1).scaleb(-kind.scale), rounding="ROUND_HALF_UP")
            if abs(rounded) >= Decimal(10) ** (kind.precision - kind.scale):
                raise _TooLarge(version)
            results.append(rounded if count else None)
    return pa.array(results, kind)


def _variance(
    call: AggregateCall, values: pa.Array, starts: Int64s, counts: Int64s, kind: pa.DataType
) -> pa.Array:
    squares = _squared_deviations(_floats(values), starts, counts)
    spread = squares / np.maximum(counts - 1, 1)
    if call.function == "stddev_samp":
        spread = np.sqrt(spread)
    return pa.array(spread, mask=counts < 2)


def _floats(values: pa.Array) -> Floats:
    # Whole numbers beyond 2^53 become the nearest double, as in SQL.
    kept = values.cast(pa.float64(), safe=False)
    return np.ascontiguousarray(kept.to_numpy(zero_copy_only=False))


@numba.njit(cache=CACHED, nogil=True)
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


@numba.njit(cache=CACHED, nogil=True)
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
