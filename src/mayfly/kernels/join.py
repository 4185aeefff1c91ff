"""The window join: one step over one batch of one bucket.

Idea: a step closes the instants from ``began`` to ``clock``. Rows of those instants meet the kept
rows of the other side and each other; rows that outlive the clock are kept; rows of later instants
wait. Invariant: after a step the kept rows of a side are those of closed instants with
``exp > clock`` (whole dead runs are gone, single dead rows may linger in a living run), so the
output depends only on the rows and their lifetimes, never on how they were cut into batches.
A result lives in ``[max(ts), min(exp))`` over its members (thesis 5.2; max(ts) < min(exp) is the
only test). State by update pattern (thesis 3.5.1): a FIFO queue of runs for a window over a stream
(WKS), a calendar queue for the results of another join (WK); see ``upkeep``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mayfly.errors import LimitExceeded
from mayfly.kernels.expression import holds
from mayfly.kernels.interval import Interval
from mayfly.kernels.matching import matching_pairs
from mayfly.kernels.rows import CODE, Bools, Run, chosen, clustered, numbers
from mayfly.kernels.sorting import Int64s
from mayfly.kernels.upkeep import calendar, falling_due, fifo, waiting
from mayfly.lifetime import NEVER
from mayfly.plan.expressions import Column, Expression, conjuncts
from mayfly.state.calendar import CalendarQueue
from mayfly.storage.segment import EXP, TS

Side = Literal[0, 1]
PAIRS_AT_ONCE = 65_536


@dataclass(frozen=True, slots=True)
class JoinInput:
    """One side of a join; its columns are named ``stream.column``.

    ``window`` is the length of a ``[RANGE d]`` window over a stream; None for the results of
    another join, which bring their own ``_exp`` and live at most ``longest``.
    """

    name: str
    schema: pa.Schema
    keys: tuple[str, ...]
    window: int | None
    longest: int
    partitions: int = 4
    """Calendar ranges: with more, runs grow in number; with fewer, rewriting does."""

    @property
    def stored(self) -> pa.Schema:
        lifetime = [pa.field(name, pa.int64(), nullable=False) for name in (CODE, TS, EXP)]
        return pa.schema([*lifetime, *self.schema])


@dataclass(frozen=True, slots=True)
class OutputColumn:
    """A column of the result: which side it comes from, and its name there and here."""

    side: Side
    column: str
    name: str


@dataclass(frozen=True, slots=True)
class WindowJoin:
    """An equi-join of two inputs with an optional residual predicate.

    ``exact`` says that equal codes mean equal keys; otherwise the key columns are compared as
    well, each pair in its type of ``key_types``. A residual's column ``relation.name`` is looked
    up under that qualified name.
    """

    name: str
    inputs: tuple[JoinInput, JoinInput]
    output: tuple[OutputColumn, ...]
    exact: bool
    residual: Expression | None = None
    key_types: tuple[pa.DataType, ...] = ()

    @property
    def schema(self) -> pa.Schema:
        fields = [
            self.inputs[one.side].schema.field(one.column).with_name(one.name)
            for one in self.output
        ]
        return pa.schema([*fields, (TS, pa.int64()), (EXP, pa.int64())])


@dataclass(frozen=True, slots=True)
class SideState:
    """What one side remembers: runs of closed instants, and rows that wait for their instant."""

    runs: tuple[Run, ...] = ()
    waiting: tuple[Run, ...] = ()

    def __iter__(self) -> Iterator[Run]:
        yield from self.runs
        yield from self.waiting


@dataclass(frozen=True, slots=True)
class JoinState:
    sides: tuple[SideState, SideState] = (SideState(), SideState())

    @property
    def rows(self) -> int:
        return sum(run.rows for side in self.sides for run in side)

    @property
    def bytes(self) -> int:
        return sum(run.bytes for side in self.sides for run in side)


@dataclass(frozen=True, slots=True)
class SideReport:
    rows_in: int
    late: pa.Table
    null_keys: int


@dataclass(frozen=True, slots=True)
class Step:
    """What a step comes to: the next state, the changes as bounded batches, and a report."""

    state: JoinState
    changes: Iterator[pa.RecordBatch]
    reports: tuple[SideReport, SideReport]


@dataclass(frozen=True, slots=True)
class _Admitted:
    active: pa.Table
    waiting: tuple[Run, ...]
    report: SideReport


def step(
    join: WindowJoin,
    state: JoinState,
    delta: tuple[pa.Table, pa.Table],
    interval: Interval,
    *,
    max_state_bytes: int | None = None,
) -> Step:
    """Close ``interval`` over the rows of one batch: (state, delta, clock) → (state', changes)."""
    left, right = (
        _admit(one, side, rows, interval)
        for one, side, rows in zip(join.inputs, state.sides, delta, strict=True)
    )
    after = JoinState(
        (
            _advance(join.inputs[0], state.sides[0], left, interval.clock),
            _advance(join.inputs[1], state.sides[1], right, interval.clock),
        )
    )
    if max_state_bytes is not None and after.bytes > max_state_bytes:
        raise _too_large(join, after, max_state_bytes)
    changes = _changes(join, state, (left.active, right.active))
    return Step(after, changes, (left.report, right.report))


def _admit(source: JoinInput, side: SideState, rows: pa.Table, interval: Interval) -> _Admitted:
    """Split a batch into late rows, rows of the instants being closed, and rows that wait."""
    ts = numbers(rows, TS)
    late, keyless = ts < interval.began, _nulls(rows, CODE)
    due = (ts < interval.clock) & ~late & ~keyless
    early = (ts >= interval.clock) & ~keyless
    woken = falling_due(side.waiting, interval.began, interval.clock)
    return _Admitted(
        clustered(pa.concat_tables([*woken, _stored(source, rows, due)])),
        waiting(side.waiting, _stored(source, rows, early), interval.clock),
        SideReport(rows.num_rows, chosen(rows, late), int((keyless & ~late).sum())),
    )


def _nulls(rows: pa.Table, column: str) -> Bools:
    if rows[column].null_count == 0:
        return np.zeros(rows.num_rows, dtype=bool)
    nulls: Bools = pc.is_null(rows[column]).to_numpy()
    return nulls


def _stored(source: JoinInput, rows: pa.Table, mask: Bools) -> pa.Table:
    """The rows where the mask holds, as they are stored: with code, lifetime and payload."""
    schema = source.stored
    rows = chosen(rows, mask)
    if source.window is not None:
        ts = numbers(rows, TS)
        exp = np.where(ts > NEVER - source.window, NEVER, ts + np.int64(source.window))
        rows = rows.append_column(EXP, pa.array(exp))
    columns = [rows[field.name] for field in schema]
    return pa.table(
        [
            column if column.type == field.type else column.cast(field.type)
            for column, field in zip(columns, schema, strict=True)
        ],
        schema=schema,
    )


def _advance(source: JoinInput, side: SideState, admitted: _Admitted, clock: int) -> SideState:
    """Drop what is dead and keep the new rows that outlive the clock."""
    alive = chosen(admitted.active, numbers(admitted.active, EXP) > clock)
    if source.window is not None:
        runs = fifo(side.runs, alive, clock, source.window)
    else:
        queue = CalendarQueue(source.longest, source.partitions)
        runs = calendar(side.runs, alive, clock, queue)
    return SideState(runs, admitted.waiting)


def _changes(
    join: WindowJoin, state: JoinState, active: tuple[pa.Table, pa.Table]
) -> Iterator[pa.RecordBatch]:
    """New × kept, kept × new, new × new, in bounded batches."""
    fresh = tuple(Run.of(rows) if rows.num_rows else None for rows in active)
    combinations = [
        *((fresh[0], run) for run in state.sides[1].runs),
        *((run, fresh[1]) for run in state.sides[0].runs),
        (fresh[0], fresh[1]),
    ]
    for left, right in combinations:
        if left is None or right is None or not _may_meet(left, right):
            continue
        tables = left.load(), right.load()
        for positions in matching_pairs(left.keys(), right.keys(), PAIRS_AT_ONCE):
            batch = _results(join, tables, positions)
            if batch.num_rows:
                yield batch


def _may_meet(left: Run, right: Run) -> bool:
    return bool(left.ts.low < right.exp.high and right.ts.low < left.exp.high)


def _results(
    join: WindowJoin,
    tables: tuple[pa.Table, pa.Table],
    positions: tuple[Int64s, Int64s],
) -> pa.RecordBatch:
    if not join.exact:
        positions = _with_equal_keys(join, tables, positions)
    if join.residual is not None:
        positions = _satisfying(join, tables, positions, join.residual)
    indices = tuple(pa.array(one) for one in positions)
    arrays = [_take(tables[one.side], one.column, indices[one.side]) for one in join.output]
    ts = np.maximum(*(numbers(tables[s], TS)[positions[s]] for s in (0, 1)))
    exp = np.minimum(*(numbers(tables[s], EXP)[positions[s]] for s in (0, 1)))
    return pa.RecordBatch.from_arrays([*arrays, pa.array(ts), pa.array(exp)], schema=join.schema)


def _with_equal_keys(
    join: WindowJoin, tables: tuple[pa.Table, pa.Table], positions: tuple[Int64s, Int64s]
) -> tuple[Int64s, Int64s]:
    """Different keys may share a hash: keep the pairs whose key columns are really equal."""
    keep = np.ones(len(positions[0]), dtype=bool)
    for *names, kind in zip(*(one.keys for one in join.inputs), join.key_types, strict=True):
        left, right = (
            _take(table, name, pa.array(rows)).cast(kind, safe=False)
            for table, name, rows in zip(tables, names, positions, strict=True)
        )
        keep &= same_key(left, right).to_numpy(zero_copy_only=False)
    return positions if keep.all() else (positions[0][keep], positions[1][keep])


def _satisfying(
    join: WindowJoin,
    tables: tuple[pa.Table, pa.Table],
    positions: tuple[Int64s, Int64s],
    residual: Expression,
) -> tuple[Int64s, Int64s]:
    """Keep the pairs for which the residual is TRUE, term by term: a term guards those after it."""
    for term in conjuncts(residual):
        resolve = partial(_member_column, join, tables, positions)
        keep = holds(term, resolve, len(positions[0])).to_numpy(zero_copy_only=False)
        positions = positions[0][keep], positions[1][keep]
    return positions


def _member_column(
    join: WindowJoin,
    tables: tuple[pa.Table, pa.Table],
    positions: tuple[Int64s, Int64s],
    reference: Column,
) -> pa.Array:
    name = f"{reference.relation}.{reference.name}"
    side = 0 if name in join.inputs[0].schema.names else 1
    return _take(tables[side], name, pa.array(positions[side]))


def same_key(left: pa.Array, right: pa.Array) -> pa.Array:
    """Equality of join keys as in Spark: NaN equals NaN, and -0.0 equals 0.0."""
    same = pc.equal(left, right)
    if pa.types.is_floating(left.type):
        same = pc.or_(same, pc.and_(pc.is_nan(left), pc.is_nan(right)))
    return pc.fill_null(same, False)


def _take(table: pa.Table, name: str, indices: pa.Array) -> pa.Array:
    taken = table.column(name).take(indices)
    return taken.chunk(0) if taken.num_chunks == 1 else pa.concat_arrays(taken.chunks)


def _too_large(join: WindowJoin, state: JoinState, limit: int) -> LimitExceeded:
    parts = ", ".join(
        f"{one.name}: {sum(r.rows for r in side.runs):,} rows kept and "
        f"{sum(r.rows for r in side.waiting):,} waiting"
        for one, side in zip(join.inputs, state.sides, strict=True)
    )
    return LimitExceeded(
        f"the state of {join.name} in one bucket would take {state.bytes:,} bytes, "
        f"more than the limit of {limit:,} ({parts})",
        "use a shorter window, more buckets, or a larger max_state_bytes; "
        "if rows wait, one stream is far ahead of the other",
    )
