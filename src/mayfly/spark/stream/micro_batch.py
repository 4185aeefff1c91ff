"""Batches: how they are run, what is fixed about one before it is computed, and where that is
written down ahead."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass, field
from typing import Any

from mayfly.errors import ProtocolError
from mayfly.runtime.clock import Clocks
from mayfly.runtime.max_gap import Limits
from mayfly.runtime.replay_speed import Pace
from mayfly.storage import Repository

CLOCKS = "clock"
NEW_CLOCK = (
    "restore it from a copy, or remove it if nothing of its batch was committed: the batch is then "
    "closed at another instant, as if it came anew"
)
"""What to do about a record of a clock that cannot be read."""
STREAM_SETTINGS = {
    # Jobs are short and their partitions fixed: planning them stage by stage changes nothing and
    # takes a tenth of a batch.
    "spark.sql.adaptive.enabled": "false",
    # A stage of a chain that runs again names other files in its receipts. Spark would take that
    # for other rows and give the job up; receipts are chosen by the driver.
    "spark.sql.shuffle.orderIndependentChecksum.enableFullRetryOnMismatch": "false",
}
"""For the session that Spark makes for each stream; the user's own is left as it is."""

SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"
"""As many as there are buckets: panes are few, whatever their rows were."""


class Interrupted(Exception):
    """A batch that Spark's own stop has cut short.

    Spark knows such an end by these words in what Python raises; it looks for them with a pattern
    that overflows the stack on the many lines of a whole trace.
    """

    def __init__(self) -> None:
        super().__init__(
            "py4j.protocol.Py4JJavaError: An error occurred while calling foreachBatch: "
            "java.lang.InterruptedException"
        )


@dataclass(frozen=True)
class RunSettings:
    """How a query runs; none of it changes an answer."""

    buckets: int
    max_state_bytes: int
    history: int
    max_gap: int | None = None
    sync: bool = False
    wall_clock: Callable[[], int] = lambda: time.time_ns() // 1000
    pace: Pace | None = None
    replay: bool = False
    """Whether the input is read to its end, so that the wall clock says nothing of its times."""


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


def clock_record(batch: int) -> str:
    """The file in which the clock of a batch is written down ahead."""
    return f"{CLOCKS}/{batch:020d}.json"


def passed_over(missing: int, batch_id: int, repository: Repository) -> ProtocolError:
    return ProtocolError(
        f"batch {missing} is missing from {repository.directory.address}, "
        f"but Spark goes on with batch {batch_id}",
        "the checkpoint is older than its folder spark/ (a copy, or a power cut with sync=False): "
        "restore both from one copy, or start anew with a new checkpoint",
    )
