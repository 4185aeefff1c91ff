"""Versions held for readers that cannot say when they are done."""

from __future__ import annotations

from mayfly.archive.archive import Archive
from mayfly.archive.model.state import ArchiveVersion
from mayfly.archive.read.questions import Moment
from mayfly.storage import Pin


def leased(archive: Archive, as_of: Moment | None) -> tuple[ArchiveVersion, int, Pin]:
    """The version that shows ``as_of``, the instant, and a pin that runs out after an hour.

    A user who may not write to the archive gets no hold on it: a vacuum may then take files away
    from under a long read, which fails.
    """
    pin, moment = archive.read.pin_at(as_of)
    return ArchiveVersion.of(pin.manifest), moment, pin
