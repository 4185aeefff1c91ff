"""The driver program that tests kill and restart.

    python -m tests.faults.links_driver <input> <world> [<master>]

It ends with 0 when all input is processed and closed, and with 3 and a message after an error.
"""

from __future__ import annotations

import sys
from pathlib import Path

from mayfly.spark.api.session import Session
from mayfly.spark.cluster.local_spark import local_spark
from tests.faults.processes import exit_code
from tests.faults.recorded_links import start_links


def drive(input: Path, world: Path, master: str = "local[2]") -> None:
    run = start_links(Session(local_spark(master=master)), input, world)
    run.await_done()
    run.vacuum()


if __name__ == "__main__":
    sys.exit(exit_code(drive, Path(sys.argv[1]), Path(sys.argv[2]), *sys.argv[3:]))
