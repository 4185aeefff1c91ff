"""Running a window join query in this process: the same kernel as on Spark, without Spark.

For tests, notebooks and small data. Rows come as Arrow tables, batch by batch; state stays in
memory. Buckets are simulated, so that independence of their number can be tested.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mayfly.errors import BadInput, InvalidSetting
from mayfly.kernels.codes import buckets, key_codes
from mayfly.kernels.interval import Interval
from mayfly.kernels.join import JoinState, Step, step
from mayfly.kernels.rows import CODE
from mayfly.pipeline.bucketing import checked_buckets
from mayfly.pipeline.clocks import Clocks, closed_instant
from mayfly.pipeline.query import JoinQuery, Stage, Stream
from mayfly.plan.types import arrow_type, from_arrow
from mayfly.storage.segment import EXP, TS

Codes = Callable[..., pa.Array]


@dataclass(slots=True)
class InProcessRun:
    """A running query: feed it batches, ask it for changes and snapshots."""

    query: JoinQuery
    bucket_count: int = 1
    max_state_bytes: int | None = None
    max_gap: int | None = None
    codes: Codes = key_codes
    clocks: Clocks = field(init=False)
    late: dict[str, int] = field(init=False)
    _stages: tuple[Stage, ...] = field(init=False)
    _states: list[list[JoinState]] = field(init=False)
    _log: list[pa.Table] = field(init=False)

    def __post_init__(self) -> None:
        checked_buckets(self.bucket_count)
        self._stages = self.query.stages()
        self._states = [[JoinState() for _ in range(self.bucket_count)] for _ in self._stages]
        self._log = []
        names = tuple(stream.name for stream in self.query.streams())
        self.clocks, self.late = Clocks.unset(names), dict.fromkeys(names, 0)

    def feed(
        self,
        batch: Mapping[str, pa.Table],
        heartbeats: Mapping[str, int] | None = None,
    ) -> pa.Table:
        """One micro-batch: rows by stream (missing means none); the changes it closes."""
        for name in (*batch, *(heartbeats or ())):
            if name not in self.late:
                raise InvalidSetting(
                    f"the query reads no stream {name}", f"its streams are {', '.join(self.late)}"
                )
        prepared = {
            stream.name: _prepared(stream, self.query.needed(stream.name), batch[stream.name])
            for stream in self.query.streams()
            if stream.name in batch
        }
        largest = {name: pc.max(rows[TS]).as_py() for name, rows in prepared.items()}
        slack = {stream.name: stream.slack for stream in self.query.streams()}
        after = self.clocks.advanced(largest, slack, heartbeats)
        after.check_gap(self.max_gap)
        return self._close(prepared, after)

    def finish(self) -> pa.Table:
        """End of input: close the last instant."""
        return self._close({}, self.clocks.closed())

    def changes(self) -> pa.Table:
        """Every result so far, with its lifetime ``[ts, exp)``."""
        return pa.concat_tables([_visible(self._stages[-1].join.schema.empty_table()), *self._log])

    def snapshot(self, at: int | str | None = None) -> pa.Table:
        """The answer at a closed instant (by default the last closed one)."""
        moment = closed_instant(at, self.clocks.query, source="feed")
        log = self.changes()
        alive = pc.and_(pc.less_equal(log["ts"], moment), pc.greater(log["exp"], moment))
        return log.filter(alive).drop_columns(["ts", "exp"])

    @property
    def state_rows(self) -> int:
        return sum(state.rows for stage in self._states for state in stage)

    @property
    def states(self) -> list[list[JoinState]]:
        """The state of every stage and bucket, for inspection."""
        return self._states

    def _close(self, batch: Mapping[str, pa.Table], after: Clocks) -> pa.Table:
        """Run all stages; only then does the batch count, so that a failed one leaves no trace."""
        interval = Interval(self.clocks.query, after.query)
        late, states = dict(self.late), []
        changes = pa.table({})
        for stage, before in zip(self._stages, self._states, strict=True):
            outputs, state = [stage.join.schema.empty_table()], []
            for step_done in self._steps(stage, before, batch, changes, interval):
                outputs += (pa.Table.from_batches([piece]) for piece in step_done.changes)
                state.append(step_done.state)
                for source, report in zip(stage.sources, step_done.reports, strict=True):
                    if source.stream is not None:
                        late[source.stream] += report.late.num_rows
            changes = pa.concat_tables(outputs)
            states.append(state)
        self.clocks, self.late, self._states = after, late, states
        self._log.append(_visible(changes))
        return self._log[-1]

    def _steps(
        self,
        stage: Stage,
        states: list[JoinState],
        batch: Mapping[str, pa.Table],
        upstream: pa.Table,
        interval: Interval,
    ) -> Iterator[Step]:
        """One step per bucket."""
        sides = []
        for one, source in zip(stage.join.inputs, stage.sources, strict=True):
            rows = upstream if source.stream is None else batch.get(source.stream)
            if rows is None:
                rows = pa.schema([*one.schema, (TS, pa.int64())]).empty_table()
            code = self.codes([rows[key] for key in one.keys], stage.key_types)
            sides.append(self._bucketed(rows.append_column(CODE, code)))
        for state, *delta in zip(states, *sides, strict=True):
            yield step(
                stage.join,
                state,
                (delta[0], delta[1]),
                interval,
                max_state_bytes=self.max_state_bytes,
            )

    def _bucketed(self, rows: pa.Table) -> list[pa.Table]:
        if self.bucket_count == 1:
            return [rows]
        codes = pc.fill_null(rows[CODE], 0).to_numpy()
        where = buckets(np.ascontiguousarray(codes), self.bucket_count)
        return [rows.filter(pa.array(where == bucket)) for bucket in range(self.bucket_count)]


def _prepared(stream: Stream, needed: Sequence[str], rows: pa.Table) -> pa.Table:
    """The needed columns under qualified names, and ``_ts`` in microseconds."""
    for column in (stream.time, *needed):
        if column not in rows.schema.names:
            raise BadInput(
                f"a batch of stream {stream.name} has no column {column}",
                f"it was declared with the columns {', '.join(stream.schema.names)}",
            )
        found, declared = from_arrow(rows.schema.field(column).type), stream.type_of(column)
        if found != declared:
            raise BadInput(
                f"{stream.name}.{column} was declared as {declared}, but a batch brings {found}",
                "cast the column, or declare the stream with its type",
            )
    times = rows[stream.time]
    if times.null_count:
        raise BadInput(
            f"{times.null_count} rows of stream {stream.name} have no {stream.time}",
            "every row needs a time: filter or repair them before they enter the stream",
        )
    try:
        columns = [rows[name].cast(arrow_type(stream.type_of(name))) for name in needed]
        if pa.types.is_timestamp(times.type):
            times = times.cast(pa.timestamp("us", times.type.tz))
    except pa.ArrowInvalid as error:
        raise BadInput(
            f"a batch of stream {stream.name} does not fit: {error}", "use microseconds for times"
        ) from error
    names = [f"{stream.name}.{name}" for name in needed]
    return pa.table([*columns, times.cast(pa.int64())], names=[*names, TS])


def _visible(rows: pa.Table) -> pa.Table:
    return rows.rename_columns([{TS: "ts", EXP: "exp"}.get(n, n) for n in rows.column_names])
