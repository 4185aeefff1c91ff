"""Versions held for readers that cannot say when they are done."""

from __future__ import annotations

import errno

from mayfly.archive.archive import Archive
from mayfly.archive.asking import Moment
from mayfly.archive.state import ArchiveVersion
from mayfly.errors import StorageError
from mayfly.storage import Pin

_READ_ONLY = {errno.EACCES, errno.EPERM, errno.EROFS}


def leased(archive: Archive, as_of: Moment | None) -> tuple[ArchiveVersion, int, Pin | None]:
    """The version that shows ``as_of``, the instant, and a pin that runs out after an hour.

    A user who may not write to the archive gets no pin: a vacuum may then take files away from
    under a long read, which fails.
    """
    try:
        pin, moment = archive.pin_at(as_of)
    except StorageError as error:
        cause = error.__cause__
        if not (isinstance(cause, OSError) and cause.errno in _READ_ONLY):
            raise
        version, moment = archive.shown_at(as_of)
        return version, moment, None
    return ArchiveVersion.of(pin.manifest), moment, pin
