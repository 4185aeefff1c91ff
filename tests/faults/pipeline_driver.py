"""The driver program of a pipeline file, killed and restarted by tests.

    python -m tests.faults.pipeline_driver <pipeline file>

It ends with 0 when all input is processed and closed, and with 3 and a message after an error.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from mayfly.spark.api.pipelines import load_pipeline
from mayfly.spark.cluster.local_spark import local_spark
from tests.faults.processes import exit_code

SETTINGS: dict[str, Any] = {"buckets": 2, "sync": False, "history": "forever"}


def drive(file: Path) -> None:
    pipeline = load_pipeline(local_spark(2), file)
    runs = pipeline.start(file.with_suffix(".state"), available_now=True, **SETTINGS)
    next(iter(runs.values())).await_done()


if __name__ == "__main__":
    sys.exit(exit_code(drive, Path(sys.argv[1])))
