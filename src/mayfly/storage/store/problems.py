"""What a file system reports, as errors that say what to do."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path

from mayfly.errors import StorageError

_DENIED = (errno.EACCES, errno.EPERM, errno.EROFS)
_HINTS = {
    "free space there or raise the limit; what was committed before is unharmed": (
        errno.ENOSPC,
        errno.EDQUOT,
        errno.EFBIG,
    ),
    "give this user access, or make the file system writable": _DENIED,
    "raise the limit on open files": (errno.EMFILE, errno.ENFILE),
    "name a directory: a checkpoint, or an archive": (errno.ENOTDIR,),
}
_HINT_OF = {code: hint for hint, codes in _HINTS.items() for code in codes}


@contextlib.contextmanager
def explained(doing: str, path: str | Path) -> Iterator[None]:
    """Turn what the operating system reports into an error that says what to do."""
    try:
        yield
    except OSError as error:
        raise storage_error(doing, path, error) from error


def storage_error(doing: str, path: str | Path, error: OSError) -> StorageError:
    # Arrow puts a report of its own where Python has the system's words.
    reason = os.strerror(error.errno) if error.errno else error
    return StorageError(
        f"cannot {doing} {path}: {reason}",
        _HINT_OF.get(error.errno or 0, "check that the file system is in order"),
    )


def is_denied(error: StorageError) -> bool:
    """Whether this user may not write there, or no user may."""
    cause = error.__cause__
    return isinstance(cause, OSError) and cause.errno in _DENIED
