"""Versions held for readers that cannot say when they are done."""

from __future__ import annotations

from mayfly.archive.archive import Archive
from mayfly.archive.model.state import ArchiveVersion
from mayfly.archive.read.questions import Moment
from mayfly.storage import Pin


def lease(archive: Archive, as_of: Moment | None) -> tuple[ArchiveVersion, int, Pin]:
    """Pin the version that shows ``as_of`` for an hour; that version, the instant and the pin.

    A user who may not write to the archive gets no hold on it: a vacuum may then take files away
    from under a long read, which fails.
    """
    pin, moment = archive.read.pin_at(as_of)
    return ArchiveVersion.of(pin.manifest), moment, pin
