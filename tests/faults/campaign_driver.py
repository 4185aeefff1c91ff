"""The driver program of a pipeline file, or of moving its checkpoint, killed by a campaign.

    python -m tests.faults.campaign_driver <pipeline file> run
    python -m tests.faults.campaign_driver <pipeline file> migrate <buckets>

It ends with 0 when all input is processed or the checkpoint is moved, and with 3 and a message
after an error.
"""

from __future__ import annotations

import sys
from pathlib import Path

from mayfly.spark.api.pipelines import load_pipeline
from mayfly.spark.api.queries import Queries
from mayfly.spark.cluster.local_spark import local_spark
from tests.faults.processes import exit_code


def drive(file: Path, task: str, *buckets: str) -> None:
    checkpoint = file.with_suffix(".state")
    pipeline = load_pipeline(local_spark(2), file)
    if task == "migrate":
        session = pipeline.session
        named = {one.name: session.query_of(one) for one in pipeline.queries}
        Queries(session, named).migrate(checkpoint, buckets=int(buckets[0]))
    else:
        runs = pipeline.start(checkpoint, available_now=True, sync=False, history="forever")
        next(iter(runs.values())).await_done()


if __name__ == "__main__":
    sys.exit(exit_code(drive, Path(sys.argv[1]), *sys.argv[2:]))
