"""What is fixed about a batch before it is computed, and written down ahead.

Idea: the clock that a batch closes, the limits its rows are measured by and what came are decided
once, and recorded in a file before the first task runs. Invariant: a batch that is run again, by
whatever driver, reads the record and decides the same. Cost: one action that collects counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace
from typing import Any

from pyspark.sql import DataFrame

from mayfly.checkpoint.clock_record import NEW_CLOCK, clock_record
from mayfly.faults import reach
from mayfly.lifetime import MIN_TIME
from mayfly.runtime.clock import Clocks
from mayfly.runtime.max_gap import Limits, joined, last_promise, limits
from mayfly.spark.stream.arrivals import Arrived
from mayfly.spark.stream.dataflow import Dataflow
from mayfly.spark.stream.dead_letters import check_times, check_unit
from mayfly.spark.stream.micro_batch import RunSettings
from mayfly.storage import Manifest, Repository
from mayfly.storage.sealed_files import read_json, seal_json


@dataclass(frozen=True)
class BatchFacts:
    """What is fixed about a batch before it is computed."""

    clocks: Clocks
    rows: Mapping[str, int]
    timeless: Mapping[str, int]
    late: Mapping[str, int] = field(default_factory=dict)
    first: Mapping[str, int] = field(default_factory=dict)
    """The generation time of each stream's first row ever, where refreshes begin."""
    shed: Mapping[str, int] = field(default_factory=dict)
    """Rows left out on purpose."""
    beyond: Mapping[str, int] = field(default_factory=dict)
    """Rows later than MAX GAP allows."""
    limits: Mapping[str, Limits] = field(default_factory=dict)
    """What the rows were measured by: decided once, as a replay must decide the same."""
    fed: Mapping[str, int] | None = None
    """Rows sent to windows, if they were counted just now: others may have other windows."""

    def first_of(self, streams: Sequence[str]) -> int | None:
        """The generation time of the first row of any of these streams."""
        return min((self.first[name] for name in streams if name in self.first), default=None)

    def to_json(self) -> dict[str, Any]:
        return {
            "clocks": self.clocks.to_json(),
            "rows": dict(self.rows),
            "timeless": dict(self.timeless),
            "late": dict(self.late),
            "first": dict(self.first),
            "shed": dict(self.shed),
            "beyond": dict(self.beyond),
            "limits": {name: astuple(limit) for name, limit in self.limits.items()},
        }

    @staticmethod
    def from_json(stored: Mapping[str, Any]) -> BatchFacts:
        clocks = Clocks.from_json(stored["clocks"])
        return BatchFacts(
            clocks,
            stored["rows"],
            stored["timeless"],
            stored["late"],
            stored["first"],
            stored["shed"],
            stored.get("beyond", {}),
            {name: Limits(*limit) for name, limit in stored.get("limits", {}).items()},
        )


@dataclass(frozen=True)
class BatchRecords:
    """The records of the batches of one checkpoint."""

    dataflow: Dataflow
    repository: Repository
    settings: RunSettings

    def find(self, batch_id: int) -> BatchFacts | None:
        """What was fixed about a batch when it was run before."""
        name, directory = clock_record(batch_id), self.repository.directory
        if not directory.exists(name):
            return None
        return BatchFacts.from_json(read_json(directory, name, NEW_CLOCK))

    def limits(self, base: Manifest, batch_id: int) -> Mapping[str, Limits]:
        """What the rows of a batch are measured by; if it was run before, as decided then."""
        record = self.find(batch_id)
        if record is not None and record.limits:
            return record.limits
        late = self._late_before(Clocks.from_json(base.properties["clocks"]))
        now = self.settings.wall_clock()
        return {
            stream.name: limits(
                late[stream.name],
                stream.max_gap,
                live=stream.live and not self.settings.replay,
                now=now,
            )
            for stream in self.dataflow.streams
        }

    def record(
        self, parcels: DataFrame, base: Manifest, batch_id: int, limits: Mapping[str, Limits]
    ) -> BatchFacts:
        """Write down what is fixed about the batch, unless it was; what that is."""
        fed = None
        if self.find(batch_id) is None:
            facts = self._facts(parcels, base, limits)
            name = clock_record(batch_id)
            self.repository.directory.put_if_absent(name, seal_json(facts.to_json()))
            fed = facts.fed
        reach("batch.clock-recorded")
        record = self.find(batch_id)
        assert record is not None
        return replace(record, fed=fed)

    def heartbeats(self) -> dict[str, int]:
        """How far the wall clock brings streams that declare IDLE, now."""
        now, streams = self.settings.wall_clock(), self.dataflow.streams
        return {
            stream.name: now - stream.idle.minus for stream in streams if stream.idle is not None
        }

    def _late_before(self, clocks: Clocks) -> dict[str, int]:
        """Per stream: the instants before this are closed for some query that reads it."""
        closed = [
            (group.streams, clocks.of(group.streams).query) for group in self.dataflow.stages.groups
        ]
        return {
            stream.name: max(
                (end for names, end in closed if stream.name in names), default=MIN_TIME
            )
            for stream in self.dataflow.streams
        }

    def _facts(
        self, parcels: DataFrame, base: Manifest, limits: Mapping[str, Limits]
    ) -> BatchFacts:
        streams = self.dataflow.streams
        arrivals = self.dataflow.arrived(parcels)
        came = {stream.name: came for stream, came in zip(streams, arrivals, strict=True)}
        before = Clocks.from_json(base.properties["clocks"])
        for stream in streams:
            if not stream.unit_given and before.largest.get(stream.name) is None:
                check_unit(stream, came[stream.name], self.settings.wall_clock())
        timeless = {name: arrival.timeless for name, arrival in came.items()}
        check_times(streams, timeless)
        return BatchFacts(
            clocks=self._advanced(before, came, limits),
            rows={name: arrival.rows for name, arrival in came.items()},
            timeless=timeless,
            late={name: arrival.late for name, arrival in came.items()},
            first=_earliest(base.properties["first"], came),
            shed={name: arrival.shed for name, arrival in came.items()},
            beyond={name: arrival.beyond for name, arrival in came.items()},
            limits=limits,
            fed={name: arrival.fed for name, arrival in came.items()},
        )

    def _advanced(
        self, before: Clocks, came: Mapping[str, Arrived], limits: Mapping[str, Limits]
    ) -> Clocks:
        """The clocks after a batch: by its rows as far as limits let them, by promises and idle
        streams."""
        steps = {name: limit.step for name, limit in limits.items() if limit.step is not None}
        both = {n: joined([*came[n].spans, *came[n].promises], step) for n, step in steps.items()}
        before, reached = before.reaching(both, steps)
        largest = {name: arrival.largest for name, arrival in came.items()} | reached
        promised = {name: arrival.promised for name, arrival in came.items()}
        promised |= {n: last_promise(came[n].promises, instant) for n, instant in reached.items()}
        promises = {name: instant for name, instant in promised.items() if instant is not None}
        slack = {stream.name: stream.slack for stream in self.dataflow.streams}
        return before.advanced(largest, slack, self.heartbeats() | promises)


def _earliest(first: Mapping[str, int], came: Mapping[str, Arrived]) -> dict[str, int]:
    """The generation time of each stream's first row, after a batch more."""
    earliest = dict(first)
    for name, arrival in came.items():
        if arrival.smallest is not None:
            earliest[name] = min(earliest.get(name, arrival.smallest), arrival.smallest)
    return earliest
