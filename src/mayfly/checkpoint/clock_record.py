"""The clock of a batch, written down before its step: what it will have closed once committed."""

from __future__ import annotations

from mayfly.runtime.clock import Clocks
from mayfly.storage import Manifest
from mayfly.storage.directory import Directory
from mayfly.storage.sealed_files import read_json

CLOCKS = "clock"
NEW_CLOCK = (
    "restore it from a copy, or remove it if nothing of its batch was committed: the batch is then "
    "closed at another instant, as if it came anew"
)
"""What to do about a record of a clock that cannot be read."""


def clock_record(batch: int) -> str:
    """The file in which the clock of a batch is written down ahead."""
    return f"{CLOCKS}/{batch:020d}.json"


def clocks_ahead(directory: Directory, manifest: Manifest) -> Clocks | None:
    """The clocks of a batch that was begun and is not committed, if there is one."""
    name = clock_record(manifest.properties["batch"] + 1)
    if not directory.exists(name):
        return None
    return Clocks.from_json(read_json(directory, name, NEW_CLOCK)["clocks"])
