"""The driver program that tests kill and restart.

    python -m tests.faults.links_driver <input> <world> [<master>]

It ends with 0 when all input is processed and closed, and with 3 and a message after an error.
"""

from __future__ import annotations

import sys
from pathlib import Path

from mayfly.session import Session
from mayfly.spark.local import local_spark
from tests.faults.recorded_links import start_links

FAILED = 3


def main(input: Path, world: Path, master: str = "local[2]") -> int:
    session = Session(local_spark(master=master))
    try:
        run = start_links(session, input, world)
        run.await_done()
        run.vacuum()
    except Exception as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return FAILED
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2]), *sys.argv[3:]))
