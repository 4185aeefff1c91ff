"""What is kept of the rows of groups whose values age: decayed sums, exponential histograms.

Idea: SUM(x · 2^(−age / h)) shrinks by one factor for all rows, so one number that holds at one
instant tells all (spec/periodic 9). A histogram (windows/exponential_histogram.py) has the units
of the last while in buckets, the young ones small, and says between what their number lies.
Invariant: rows are taken in one by one, sorted by group, time and value, so what comes out follows
from the rows alone. Cost: O(1) a row; an answer is one power of two, or a look at all buckets.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mayfly.arrays import compute as pc
from mayfly.arrays.compilation import READ, WRITE, compiled
from mayfly.arrays.order import Int64s
from mayfly.errors import BadInput
from mayfly.lifetime import NEVER, format_micros
from mayfly.plan.aging_calls import AVERAGE, COUNT, LIVES, error_of, half_life_of, is_decayed
from mayfly.plan.logical_operators import AggregateCall
from mayfly.windows.exponential_histogram import ExponentialHistogram

Floats = npt.NDArray[np.float64]
LONG_AGO = -(2**62)
"""When a group had its last value that never had one."""
_FLOATS = "Array(float64, 1, 'C')"


@dataclass(frozen=True)
class AgingAnswers:
    """Who is asked when: each of some groups at each of some refreshes, group by group."""

    groups: int
    times: Int64s

    @cached_property
    def group(self) -> Int64s:
        return np.repeat(np.arange(self.groups), len(self.times))

    @cached_property
    def time(self) -> Int64s:
        return np.tile(self.times, self.groups)

    def last_rows(self, rows: AgingRows) -> Int64s:
        """Which row of its group is the last one by then, -1 for none."""
        width = len(self.times) + 1
        stored = rows.group * width + np.searchsorted(self.times, rows.time)
        asked = self.group * width + np.tile(np.arange(width - 1), self.groups)
        places = np.searchsorted(stored, asked, side="right") - 1
        mine = (rows.group[places] == self.group) if len(stored) else np.zeros(len(asked), bool)
        return np.where((places >= 0) & mine, places, -1)


@dataclass(frozen=True)
class AgingRows:
    """New rows, sorted by group and time: the number of the group, and a value if one is asked."""

    group: Int64s
    time: Int64s
    values: pa.Array | None = None

    @cached_property
    def amounts(self) -> pa.Array:
        if self.values is None:
            return pa.array(np.ones(len(self.group), np.int64))
        return self.values


class Aging(ABC):
    """How one call is kept and answered."""

    life: int
    """For how long a row counts."""
    structure: str
    why: str

    @property
    @abstractmethod
    def fields(self) -> Mapping[str, pa.DataType]:
        """What is kept of a group."""

    @abstractmethod
    def play(
        self, kept: Mapping[str, pa.Array], rows: AgingRows, asked: AgingAnswers
    ) -> tuple[pa.Array, Mapping[str, pa.Array]]:
        """The answers, and what is kept then. ``kept`` has NULLs for groups that are new."""

    @abstractmethod
    def nothing(self) -> float | None:
        """The answer over no row."""


def aging_of(call: AggregateCall, duration: int | None, number: int) -> Aging:
    """What keeps a call; rows count for ``duration``, or fade if there is none."""
    if is_decayed(call):
        return Decay(call, number)
    assert duration is not None
    return Histogram(call, duration, number)


@dataclass(frozen=True)
class Decay(Aging):
    """DECAYED_SUM, DECAYED_COUNT and DECAYED_AVG."""

    call: AggregateCall
    number: int

    @property
    def half_life(self) -> int:
        return half_life_of(self.call)

    @property
    def life(self) -> int:  # type: ignore[override]
        return LIVES * self.half_life

    @property
    def structure(self) -> str:  # type: ignore[override]
        return "one decayed sum a group"

    @property
    def why(self) -> str:  # type: ignore[override]
        return (
            f"all rows of a group fade by one factor, to a half in "
            f"{format_micros(self.half_life)}; sums are rounded with every row"
        )

    @property
    def _parts(self) -> tuple[str, ...]:
        parts = ("weight",) if self.call.function == COUNT else ("sum", "weight")
        return tuple(f"_{part}{self.number}" for part in parts)

    @property
    def fields(self) -> Mapping[str, pa.DataType]:
        numbers = dict.fromkeys(self._parts, pa.float64())
        return {f"_since{self.number}": pa.int64(), **numbers}

    def play(
        self, kept: Mapping[str, pa.Array], rows: AgingRows, asked: AgingAnswers
    ) -> tuple[pa.Array, Mapping[str, pa.Array]]:
        since = _numbers(kept[f"_since{self.number}"], LONG_AGO)
        last, after = asked.last_rows(rows), dict[str, pa.Array]()
        answers: list[Floats] = []
        then = since
        for name in self._parts:
            brought = np.ones(len(rows.group))
            if name.startswith("_sum"):
                brought = _floats(rows.amounts)
            sums, then = _floats(kept[name]), since.copy()
            before = sums.copy()
            course = _faded(rows.group, rows.time, brought, self.half_life, self.life, then, sums)
            stamp = np.append(rows.time, 0)[last]
            stamp = np.where(last < 0, since[asked.group], stamp)
            value = np.where(last < 0, before[asked.group], np.append(course, 0.0)[last])
            answers.append(self._aged(value, asked.time - stamp))
            after[name] = pa.array(sums)
        after[f"_since{self.number}"] = pa.array(then)
        weight = answers[-1]
        if self.call.function == COUNT:
            return pa.array(weight), after
        value = answers[0]
        if self.call.function == AVERAGE:
            with np.errstate(divide="ignore", invalid="ignore"):
                value = value / weight
        return pa.array(value, mask=weight == 0.0), after

    def _aged(self, values: Floats, age: Int64s) -> Floats:
        """Values after some time."""
        factor = np.exp2(-np.minimum(age, self.life) / self.half_life)
        aged: Floats = np.where(age >= self.life, 0.0, values * factor)
        return aged

    def nothing(self) -> float | None:
        return 0.0 if self.call.function == COUNT else None


@compiled(f"{_FLOATS}({READ}, {READ}, {_FLOATS}, int64, int64, {WRITE}, {_FLOATS})")
def _faded(
    group: Int64s,
    time: Int64s,
    amounts: Floats,
    half_life: int,
    life: int,
    since: Int64s,
    sums: Floats,
) -> Floats:
    """The sum of its group after each row; ``since`` and ``sums`` go on to the last ones."""
    course = np.empty(len(group), np.float64)
    for place in range(len(group)):
        number = group[place]
        age = time[place] - since[number]
        if age >= life:
            sums[number] = amounts[place]
        else:
            sums[number] = sums[number] * 2.0 ** (-age / half_life) + amounts[place]
        since[number] = time[place]
        course[place] = sums[number]
    return course


@dataclass(frozen=True)
class Histogram(Aging):
    """APPROX_COUNT and APPROX_SUM, and between what the exact ones lie."""

    call: AggregateCall
    life: int
    number: int

    @property
    def structure(self) -> str:  # type: ignore[override]
        return f"an exponential histogram: within {100 * error_of(self.call):g} %"

    @property
    def why(self) -> str:  # type: ignore[override]
        return "its buckets are fewer than the panes of the window"

    @property
    def fields(self) -> Mapping[str, pa.DataType]:
        return {f"_latest{self.number}": pa.int64(), f"_buckets{self.number}": pa.list_(pa.int64())}

    def play(
        self, kept: Mapping[str, pa.Array], rows: AgingRows, asked: AgingAnswers
    ) -> tuple[pa.Array, Mapping[str, pa.Array]]:
        amounts = self._amounts(rows)
        latest = kept[f"_latest{self.number}"].to_pylist()
        stored = kept[f"_buckets{self.number}"].to_pylist()
        bounds = np.searchsorted(rows.group, np.arange(asked.groups + 1))
        answers, buckets = list[int | None](), list[list[int]]()
        for number in range(asked.groups):
            low, end = int(bounds[number]), int(bounds[number + 1])
            histogram = ExponentialHistogram.restored(
                self.life, error_of(self.call), stored[number] or []
            )
            newest = latest[number]
            place = 0
            while place < len(asked.times):
                refresh = int(asked.times[place])
                until = low + int(np.searchsorted(rows.time[low:end], refresh, side="right"))
                if until > low:
                    histogram.add(rows.time[low:until], amounts[low:until])
                    newest, low = int(rows.time[until - 1]), until
                some = newest is not None and newest > refresh - self.life
                answer = self._answer(histogram, refresh, some)
                changes = [histogram.holds_until, *rows.time[low : min(low + 1, end)].tolist()]
                changes.append(NEVER if newest is None else newest + self.life)
                following = int(np.searchsorted(asked.times, min(changes)))
                following = max(following, place + 1)
                answers += [answer] * (following - place)
                place = following
            if end > low:
                histogram.add(rows.time[low:end], amounts[low:end])
                newest = int(rows.time[end - 1])
            latest[number] = newest
            buckets.append(histogram.stored_form)
        after = {
            f"_latest{self.number}": pa.array(latest, pa.int64()),
            f"_buckets{self.number}": pa.array(buckets, pa.list_(pa.int64())),
        }
        return pa.array(answers, pa.int64()), after

    def _amounts(self, rows: AgingRows) -> Int64s:
        if self.call.function == "count":
            return np.ones(len(rows.group), np.int64)
        amounts = _numbers(rows.amounts.cast(pa.int64()))
        if len(amounts) and amounts.min() < 0:
            raise BadInput(
                f"APPROX_SUM of {amounts.min():,}: a histogram holds no numbers below 0",
                "use SUM, or leave them out: APPROX_SUM(x, e) FILTER (WHERE x >= 0)",
            )
        return amounts

    def _answer(self, histogram: ExponentialHistogram, refresh: int, some: bool) -> int | None:
        if not some:
            return None if self.call.function == "sum" else 0
        answer = histogram.answer(refresh)
        return {"": round(answer.value), "low": answer.low, "high": answer.high}[self.call.bound]

    def nothing(self) -> float | None:
        return 0 if self.call.function == "count" else None


def _numbers(values: pa.Array, missing: int = 0) -> Int64s:
    filled = pc.fill_null(values, missing) if values.null_count else values
    return np.array(filled.to_numpy(zero_copy_only=False), np.int64)


def _floats(values: pa.Array) -> Floats:
    doubles = values.cast(pa.float64())
    filled = pc.fill_null(doubles, 0.0) if doubles.null_count else doubles
    return np.array(filled.to_numpy(zero_copy_only=False), np.float64)
