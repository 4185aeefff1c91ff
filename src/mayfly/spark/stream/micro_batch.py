"""How batches are run: their settings, those of Spark, and how one may end early."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from mayfly.errors import ProtocolError
from mayfly.runtime.replay_speed import Pace
from mayfly.storage import Repository

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


def passed_over(missing: int, batch_id: int, repository: Repository) -> ProtocolError:
    return ProtocolError(
        f"batch {missing} is missing from {repository.directory.address}, "
        f"but Spark goes on with batch {batch_id}",
        "the checkpoint is older than its folder spark/ (a copy, or a power cut with sync=False): "
        "restore both from one copy, or start anew with a new checkpoint",
    )
