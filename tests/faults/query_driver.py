"""The driver program of a query of the language, killed and restarted by tests.

    python -m tests.faults.query_driver <input> <world> <query>

It ends with 0 when all input is processed and closed, and with 3 and a message after an error.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from mayfly.spark.api.queries import CqlQuery
from mayfly.spark.api.session import Session
from mayfly.spark.cluster.local_spark import local_spark
from tests.faults.processes import exit_code
from tests.integration.recorded import declare
from tests.integration.test_spark_queries import MORE, QUERIES, SCHEMA

SETTINGS: dict[str, Any] = {"buckets": 2, "sync": False, "history": "forever"}


def query_over(session: Session, input: Path, name: str) -> CqlQuery:
    declare(session, input, {"a": SCHEMA, "b": SCHEMA}, sequence=["seq"])
    return session.query({**QUERIES, **MORE}[name])


def drive(input: Path, world: Path, name: str) -> None:
    run = query_over(Session(local_spark(2)), input, name).start(
        world / "checkpoint", parquet=world / "out", available_now=True, **SETTINGS
    )
    run.await_done()
    run.vacuum()


if __name__ == "__main__":
    sys.exit(exit_code(drive, Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]))
