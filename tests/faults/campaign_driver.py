"""The driver program of a pipeline file, or of moving its checkpoint, killed by a campaign.

    python -m tests.faults.campaign_driver <pipeline file> run
    python -m tests.faults.campaign_driver <pipeline file> migrate <buckets>

It ends with 0 when all input is processed or the checkpoint is moved, and with 3 and a message
after an error.
"""

from __future__ import annotations

import sys
from pathlib import Path

from mayfly.queries import Queries
from mayfly.spark.local import local_spark
from mayfly.spark.pipelines import load_pipeline

FAILED = 3


def main(file: Path, task: str, *buckets: str) -> int:
    checkpoint = file.with_suffix(".state")
    try:
        pipeline = load_pipeline(local_spark(2), file)
        if task == "migrate":
            session = pipeline.session
            named = {one.name: session.query_of(one) for one in pipeline.queries}
            Queries(session, named).migrate(checkpoint, buckets=int(buckets[0]))
        else:
            runs = pipeline.start(checkpoint, available_now=True, sync=False, history="forever")
            next(iter(runs.values())).await_done()
    except Exception as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return FAILED
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), *sys.argv[2:]))
