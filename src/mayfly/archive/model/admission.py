"""Which rows of an update's batch may be stored.

Idea: every row gets one verdict before anything is written. Rows with impossible times or
without a key are refused and shown; rows that are already dead are counted and left out; late
rows go where the layout's rule says.
Invariant: verdicts partition the batch, so the counts of a summary add up to its rows.
Cost: a handful of vector passes; only the few example rows become Python values.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mayfly.archive.model.calendar import BoolArray, Int64Array, UpdateCalendar
from mayfly.display import counted
from mayfly.errors import BadInput
from mayfly.lifetime import format_micros

EXAMPLES_SHOWN = 3


class Verdict(IntEnum):
    """What becomes of one row."""

    ADMITTED = 0
    LATE = 1
    DEAD_ON_ARRIVAL = 2
    NULL_TIME = 3
    NULL_EXPIRATION = 4
    NO_KEY = 5
    DEAD_BEFORE_BIRTH = 6
    LIVES_TOO_LONG = 7
    FROM_THE_FUTURE = 8
    LATE_REFUSED = 9
    BEYOND_GAP = 10

    @property
    def refused(self) -> bool:
        return self >= Verdict.NULL_TIME

    @property
    def stored(self) -> bool:
        return self <= Verdict.LATE


_REASONS = {
    Verdict.NULL_TIME: ("the generation time is NULL", "fill it in, or filter these rows out"),
    Verdict.NULL_EXPIRATION: (
        "the expiration time is NULL",
        "give every row an expiration, and every class of rows a lifetime; the longest allowed is "
        "ts plus the longest lifetime",
    ),
    Verdict.NO_KEY: (
        "the search key is NULL, or an array without values or with a NULL among them",
        "filter these rows out, or replace the missing key by a value of its own",
    ),
    Verdict.DEAD_BEFORE_BIRTH: (
        "the row expires at or before its generation time",
        "check the expiration column: a row lives from ts until just before exp",
    ),
    Verdict.LIVES_TOO_LONG: (
        "the row lives longer than the archive's longest lifetime",
        "shorten its lifetime, or migrate the archive to a longer one: migrate(max_lifetime=…)",
    ),
    Verdict.FROM_THE_FUTURE: (
        "the row was generated after the time of this update",
        "keep it for the update of its own time, or check the clock of its source",
    ),
    Verdict.LATE_REFUSED: (
        "the row belongs to an earlier update that is already done",
        'drop it, or create the archive with late="own day" (late="this update" where rows have '
        "their own lifetimes)",
    ),
    Verdict.BEYOND_GAP: (
        "the row is later than the wall clock plus max_gap, too far ahead to be true",
        'repair or filter these rows out, or say that they are right: max_gap="none", on the '
        "command line --max-gap none, or name their update",
    ),
}


class LateRows(StrEnum):
    """What to do with a row of an earlier update that is still alive."""

    REFUSE = "refuse"
    OWN_DAY = "own day"
    THIS_UPDATE = "this update"


@dataclass(frozen=True, slots=True)
class Admission:
    """The verdict on every row of a batch, and the cell (i, j) of each."""

    verdicts: npt.NDArray[np.uint8]
    inserted_by: Int64Array
    removed_by: Int64Array

    @property
    def stored(self) -> BoolArray:
        """Which rows are to be stored."""
        mask: BoolArray = self.verdicts <= Verdict.LATE
        return mask

    @property
    def late_days(self) -> frozenset[int]:
        """The updates whose constituents receive late rows."""
        late = self.verdicts == Verdict.LATE
        return frozenset(np.unique(self.inserted_by[late]).tolist())


@dataclass(frozen=True, slots=True)
class RefusedRow:
    """One example of a refused row: where it stood in its batch, and its values."""

    position: int
    values: Mapping[str, object]

    def __str__(self) -> str:
        shown = ", ".join(f"{name}={value!r}" for name, value in self.values.items())
        return f"row {self.position}: {shown}"


@dataclass(frozen=True, slots=True)
class AdmissionSummary:
    """How many rows got each verdict, with a few examples of the refused ones."""

    counts: Mapping[Verdict, int] = field(default_factory=dict)
    examples: Mapping[Verdict, tuple[RefusedRow, ...]] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        return sum(self.counts.values())

    @property
    def stored(self) -> int:
        return sum(count for verdict, count in self.counts.items() if verdict.stored)

    @property
    def late(self) -> int:
        return self.counts.get(Verdict.LATE, 0)

    @property
    def dead_on_arrival(self) -> int:
        return self.counts.get(Verdict.DEAD_ON_ARRIVAL, 0)

    @property
    def beyond(self) -> int:
        return self.counts.get(Verdict.BEYOND_GAP, 0)

    @property
    def refused(self) -> int:
        return sum(count for verdict, count in self.counts.items() if verdict.refused)

    def __add__(self, other: AdmissionSummary) -> AdmissionSummary:
        verdicts = sorted(set(self.counts) | set(other.counts))
        shown = sorted(set(self.examples) | set(other.examples))
        return AdmissionSummary(
            {v: self.counts.get(v, 0) + other.counts.get(v, 0) for v in verdicts},
            {
                v: (self.examples.get(v, ()) + other.examples.get(v, ()))[:EXAMPLES_SHOWN]
                for v in shown
            },
        )

    def require_none_refused(self, update: int, longest: int | None = None) -> None:
        """Raise if any row was refused, with counts, examples and what to do.

        ``longest`` is the archive's longest lifetime, µs, where rows have their own.
        """
        if not self.refused:
            return
        lines, hints = [], []
        for verdict in (v for v in self.counts if v.refused and self.counts[v]):
            reason, hint = _REASONS[verdict]
            if verdict is Verdict.LIVES_TOO_LONG and longest is not None:
                reason = f"{reason}, {format_micros(longest)}"
            lines.append(f"  {counted(self.counts[verdict], 'row')}: {reason}")
            lines.extend(f"    {example}" for example in self.examples.get(verdict, ()))
            hints.append(hint)
        raise BadInput(
            f"update {update}: {self.refused} of {self.rows} rows were refused, "
            "nothing was written\n" + "\n".join(lines),
            "; ".join(hints),
        )


def total(summaries: Iterable[AdmissionSummary]) -> AdmissionSummary:
    """The summary of a batch that was classified in parts."""
    return reduce(AdmissionSummary.__add__, summaries, AdmissionSummary())


@dataclass(frozen=True, slots=True)
class AdmissionRule:
    """An archive's rule: its calendar, its longest lifetime S, and what happens to late rows."""

    calendar: UpdateCalendar
    longest: int
    late: LateRows = LateRows.REFUSE

    def __post_init__(self) -> None:
        self.calendar.roll_over(self.longest)

    def classify(
        self,
        update: int,
        ts: Int64Array,
        exp: Int64Array,
        *,
        null_ts: BoolArray,
        null_exp: BoolArray,
        no_key: BoolArray,
        dead: BoolArray | None = None,
    ) -> Admission:
        """Verdicts on columns of microseconds; where several reasons apply, the first counts.

        ``dead`` are rows that are dead for another reason than their expiration.
        """
        now, before = self.calendar.time_of(update), self.calendar.time_of(update - 1)
        refusals_and_deaths = {
            Verdict.NULL_TIME: null_ts,
            Verdict.NULL_EXPIRATION: null_exp,
            Verdict.NO_KEY: no_key,
            Verdict.DEAD_BEFORE_BIRTH: exp <= ts,
            Verdict.LIVES_TOO_LONG: self.calendar.outlives(ts, exp, self.longest),
            Verdict.FROM_THE_FUTURE: ts > now,
            Verdict.DEAD_ON_ARRIVAL: exp <= now if dead is None else (exp <= now) | dead,
        }
        inserted_by = np.full(len(ts), update, dtype=np.int64)
        homeless = np.full(len(ts), self.late is LateRows.REFUSE)
        if self.late is LateRows.OWN_DAY:
            inserted_by = self.calendar.updates_of(ts)
            homeless = inserted_by < 1  # days before the archive's first have no constituent
        late = ts <= before
        verdicts = np.select(
            [*refusals_and_deaths.values(), late & homeless, late],
            [*refusals_and_deaths, Verdict.LATE_REFUSED, Verdict.LATE],
            default=Verdict.ADMITTED,
        )
        return Admission(verdicts.astype(np.uint8), inserted_by, self.calendar.updates_of(exp))

    def admit(
        self,
        update: int,
        rows: pa.Table | pa.RecordBatch,
        *,
        ts: str,
        exp: str,
        key: Sequence[str],
        dead: BoolArray | None = None,
    ) -> Admission:
        """Verdicts on the rows of an Arrow table."""
        ts_values, null_ts = _times(rows, ts)
        exp_values, null_exp = _times(rows, exp)
        no_key = np.zeros(rows.num_rows, dtype=np.bool_)
        for name in key:
            no_key |= _without_key(_column(rows, name))
        return self.classify(
            update,
            ts_values,
            exp_values,
            null_ts=null_ts,
            null_exp=null_exp,
            no_key=no_key,
            dead=dead,
        )


def summarize(
    admission: Admission, rows: pa.Table | pa.RecordBatch, columns: Sequence[str]
) -> AdmissionSummary:
    """Counts of every verdict, and the first refused rows with the named columns."""
    tally = np.bincount(admission.verdicts, minlength=len(Verdict))
    counts = {verdict: int(tally[verdict]) for verdict in Verdict if tally[verdict]}
    examples = {}
    for verdict in (v for v in counts if v.refused):
        positions = np.flatnonzero(admission.verdicts == verdict)[:EXAMPLES_SHOWN]
        values = rows.select(list(columns)).take(pa.array(positions)).to_pylist()
        examples[verdict] = tuple(
            RefusedRow(int(position), row) for position, row in zip(positions, values, strict=True)
        )
    return AdmissionSummary(counts, examples)


def _column(rows: pa.Table | pa.RecordBatch, name: str) -> Any:
    if name not in rows.schema.names:
        raise BadInput(
            f"the batch has no column {name!r}", f"its columns are {', '.join(rows.schema.names)}"
        )
    column = rows.column(name)
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _times(rows: pa.Table | pa.RecordBatch, name: str) -> tuple[Int64Array, BoolArray]:
    """A time column as microseconds, with 0 where it is NULL, and where that is."""
    column = _column(rows, name)
    if pa.types.is_timestamp(column.type):
        try:
            column = column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64())
        except pa.ArrowInvalid as problem:
            raise BadInput(
                f"column {name!r} does not fit microseconds: {problem}",
                "cast it to a timestamp of microseconds first",
            ) from problem
    elif column.type != pa.int64():
        raise BadInput(
            f"column {name!r} is {column.type}, not a time",
            "use a timestamp, or a 64-bit integer of microseconds since 1970",
        )
    return column.fill_null(0).to_numpy(), _mask(column.is_null())


def _without_key(column: Any) -> BoolArray:
    missing = _mask(column.is_null())
    if pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
        lengths = pc.fill_null(pc.list_value_length(column), 0)
        missing |= _mask(pc.equal(lengths, 0))
        parents = pc.list_parent_indices(column).to_numpy()
        missing[parents[_mask(pc.list_flatten(column).is_null())]] = True
    return missing


def _mask(column: Any) -> BoolArray:
    mask: BoolArray = column.to_numpy(zero_copy_only=False).astype(np.bool_)
    return mask
