"""Running a window join query in this process: the same kernel as on Spark, without Spark.

For tests, notebooks and small data. Rows come as Arrow tables, batch by batch; state stays in
memory. Buckets are simulated, so that independence of their number can be tested.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mayfly.errors import BadInput, InvalidSetting, NotClosed
from mayfly.kernels.join import Interval, JoinState, step
from mayfly.kernels.rows import CODE
from mayfly.lifetime import instant
from mayfly.pipeline.clocks import Clocks
from mayfly.pipeline.codes import buckets, key_codes
from mayfly.pipeline.query import JoinQuery, Stage, Stream
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
        if self.bucket_count < 1:
            raise InvalidSetting(f"{self.bucket_count} buckets", "use 1 or more")
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
        prepared = {
            stream.name: _prepared(stream, batch[stream.name])
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
        closed = self.clocks.query
        moment = closed - 1 if at is None else instant(at)
        if moment >= closed:
            raise NotClosed(
                f"the instant {moment} is not closed yet: the query's clock is {closed}",
                "ask for an earlier instant, or feed more input",
            )
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
        interval = Interval(self.clocks.query, after.query)
        upstream: pa.Table | None = None
        for index, stage in enumerate(self._stages):
            upstream = self._run_stage(index, stage, batch, upstream, interval)
        self.clocks = after
        changes = _visible(upstream)
        self._log.append(changes)
        return changes

    def _run_stage(
        self,
        index: int,
        stage: Stage,
        batch: Mapping[str, pa.Table],
        upstream: pa.Table | None,
        interval: Interval,
    ) -> pa.Table:
        sides = []
        for one, source in zip(stage.join.inputs, stage.sources, strict=True):
            rows = upstream if source.stream is None else batch.get(source.stream)
            columns = [TS, *([EXP] if one.window is None else []), *one.schema.names]
            if rows is None:
                rows = pa.table(
                    {n: pa.array([], pa.int64() if n in (TS, EXP) else one.schema.field(n).type)
                     for n in columns}
                )  # fmt: skip
            rows = rows.select(columns)
            code = self.codes([rows[key] for key in one.keys], stage.key_types)
            sides.append(rows.append_column(CODE, code))
        parts = [self._bucketed(rows) for rows in sides]
        outputs = [stage.join.schema.empty_table()]
        for bucket in range(self.bucket_count):
            done = step(
                stage.join,
                self._states[index][bucket],
                (parts[0][bucket], parts[1][bucket]),
                interval,
                max_state_bytes=self.max_state_bytes,
            )
            outputs += (pa.Table.from_batches([piece]) for piece in done.changes)
            self._states[index][bucket] = done.state
            for source, report in zip(stage.sources, done.reports, strict=True):
                if source.stream is not None:
                    self.late[source.stream] += report.late.num_rows
        return pa.concat_tables(outputs)

    def _bucketed(self, rows: pa.Table) -> list[pa.Table]:
        if self.bucket_count == 1:
            return [rows]
        codes = pc.fill_null(rows[CODE], 0).to_numpy()
        where = buckets(np.ascontiguousarray(codes), self.bucket_count)
        return [rows.filter(pa.array(where == bucket)) for bucket in range(self.bucket_count)]


def _prepared(stream: Stream, rows: pa.Table) -> pa.Table:
    """The batch with qualified names and ``_ts`` in microseconds."""
    times = rows[stream.time]
    if times.null_count:
        raise BadInput(
            f"{times.null_count} rows of stream {stream.name} have no {stream.time}",
            "every row needs a time: filter or repair them before they enter the stream",
        )
    if pa.types.is_timestamp(times.type):
        times = times.cast(pa.timestamp("us", times.type.tz))
    qualified = rows.rename_columns([f"{stream.name}.{name}" for name in rows.column_names])
    return qualified.append_column(TS, times.cast(pa.int64()))


def _visible(rows: pa.Table | None) -> pa.Table:
    assert rows is not None
    return rows.rename_columns([{TS: "ts", EXP: "exp"}.get(n, n) for n in rows.column_names])
