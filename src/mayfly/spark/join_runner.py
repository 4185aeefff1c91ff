"""The driver's side of a window join that was built in Python: what its batches compute."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import DataFrame

from mayfly.faults import reach
from mayfly.kernels.interval import Interval
from mayfly.pipeline.clocks import Clocks
from mayfly.pipeline.folders import IDENTITY
from mayfly.plan.expressions import quoted
from mayfly.spark.exchange import Wiring
from mayfly.spark.log import LogRange, log_batches, log_frame, log_segments, visible_schema
from mayfly.spark.receipts import Receipt, accept, account_for
from mayfly.spark.runner import BatchFacts, Runner
from mayfly.spark.sinks import Delivery, Sink
from mayfly.spark.tasks import DEAD_LETTERS, LOG, StageTask
from mayfly.storage import TS, Manifest, Segment


@dataclass
class JoinRunner(Runner[Wiring]):
    """Executes the batches of one join."""

    sinks: Sequence[Sink] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        self.schema = visible_schema(self.wiring.stages[-1].join.schema)
        self.wiring = replace(self.wiring, buckets=self.settings.buckets)

    def close_input(self) -> None:
        """End of input: close the last instant, as one more commit."""
        base = self.repository.current()
        clocks = Clocks.from_json(base.properties["clocks"])
        if clocks.ended:
            self._deliver(base)
            return
        facts = BatchFacts(clocks.closed(), dict.fromkeys(self._names, 0), {})
        self._deliver(self._committed(None, base, base.properties["batch"], facts))

    def _facts(self, rows: DataFrame, before: Clocks) -> BatchFacts:
        """One pass over the batch: the largest ts, the rows and the missing times per stream."""
        wanted = []
        for number in range(len(self._names)):
            own = self.wiring.rows_of(number)
            wanted += [
                f"max({TS}) FILTER (WHERE {own})",
                f"count_if({own})",
                f"count_if({own} AND {TS} IS NULL)",
            ]
        found = rows.selectExpr(*wanted).collect()[0]
        largest = {name: found[3 * i] for i, name in enumerate(self._names)}
        counts = {name: found[3 * i + 1] for i, name in enumerate(self._names)}
        timeless = {name: found[3 * i + 2] for i, name in enumerate(self._names)}
        return BatchFacts(self._advanced(before, largest, timeless), counts, timeless)

    def _clocks_together(self, clocks: Clocks) -> list[Clocks]:
        """The clocks of streams whose rows wait for each other."""
        return [clocks]

    def _step(self, rows: DataFrame, base: Manifest, batch: int, facts: BatchFacts) -> Manifest:
        came = any(facts.rows.values())
        return self._committed(rows if came else None, base, batch, facts)

    def _committed(
        self, rows: DataFrame | None, base: Manifest, batch: int, facts: BatchFacts
    ) -> Manifest:
        """The next version: one action over the rows, if any came, and one commit."""
        before = Clocks.from_json(base.properties["clocks"])
        interval = Interval(before.query, facts.clocks.query)
        due = self._due_buckets(base, interval, came=rows is not None)
        receipts: list[Receipt] = []
        if due:
            exchanged = self.wiring.exchanged_already(rows)
            stages = range(len(self.wiring.stages))
            tasks = [self._task(base, index, interval, exchanged) for index in stages]
            frame = self.wiring.receipts(self._session or self.spark, rows, tasks, due)
            handed_in = [Receipt.decode(row[0]) for row in frame.collect()]
            receipts = accept(handed_in, [(index, bucket) for index in stages for bucket in due])
            account_for(receipts, facts.rows)
        reach("batch.receipts")
        committed = self.repository.commit(
            base, self._edits(base, batch, facts, interval, receipts)
        )
        reach("batch.committed")
        return committed

    def _due_buckets(self, base: Manifest, interval: Interval, *, came: bool) -> list[int]:
        """All buckets if rows came; otherwise those in which waiting rows fall due."""
        everyone = list(range(self.settings.buckets))
        if came:
            return everyone
        waking = [place for place, at in base.properties["due"].items() if at < interval.clock]
        if len(self.wiring.stages) > 1:
            return everyone if waking else []
        return sorted(int(place.partition("/")[2]) for place in waking)

    def _task(self, base: Manifest, index: int, interval: Interval, exchanged: bool) -> StageTask:
        last = index == len(self.wiring.stages) - 1
        state = list(base.in_group(f"state/{index}"))
        return StageTask(
            root=str(self.repository.directory.root),
            sync=self.settings.sync,
            index=index,
            last=last,
            stage=self.wiring.stages[index],
            slots=tuple(dict(side) for side in self.wiring.inputs[index]),  # type: ignore[arg-type]
            interval=interval,
            segments=(*state, *(base.in_group(LOG) if last else ())),
            log_span=max(1, self.settings.history),
            max_state_bytes=self.settings.max_state_bytes,
            dead_letters=frozenset(s.name for s in self._streams if s.dead_letter),
            exchanged=exchanged,
        )

    def _expired(self, base: Manifest, interval: Interval, horizon: int) -> Iterator[Segment]:
        """Segments that no batch after this one needs."""
        for segment in base.segments.values():
            if segment.group.startswith("state/") and "/kept/" in segment.group:
                expired = segment.dead_at(interval.clock)
            elif segment.group.startswith(f"{LOG}/"):
                expired = segment.dead_at(horizon)
            else:
                expired = segment.group.startswith(f"{DEAD_LETTERS}/")
            if expired:
                yield segment

    def _own_properties(
        self, base: Manifest, facts: BatchFacts, interval: Interval, receipts: Sequence[Receipt]
    ) -> dict[str, Any]:
        """What this kind of query remembers besides."""
        return {}

    def _deliver(self, committed: Manifest) -> None:
        self._deliver_dead_letters(committed)
        reach("dead-letters.delivered")
        delivery = self.delivery(committed)
        for sink in self.sinks:
            if delivery.rows or getattr(sink, "wants_every_batch", False):
                sink.deliver(delivery)
        reach("batch.delivered")

    def delivery(self, committed: Manifest) -> Delivery:
        began, clock = committed.properties["interval"]
        wanted = LogRange(began, clock)
        directory = self.repository.directory
        segments = log_segments(committed, wanted)
        return Delivery(
            batch_id=committed.version,
            rows=committed.properties["last"]["changes"],
            schema=self.schema,
            batches=lambda: log_batches(directory, committed, wanted, self.schema),
            frame=lambda: log_frame(
                self.spark, directory, segments, wanted, self.schema, self.result_ddl()
            ),
            clock=clock,
            source=str(committed.properties.get(IDENTITY, "")),
        )

    def result_ddl(self) -> str:
        output = self.wiring.stages[-1].join.output
        columns = [f"{quoted(one.name)} {self.wiring.column_types[one.column]}" for one in output]
        return ", ".join([*columns, "ts TIMESTAMP", "exp TIMESTAMP"])

    def _delivery_id(self, committed: Manifest) -> int:
        """What sinks know a committed batch by."""
        return committed.version
