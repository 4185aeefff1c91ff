"""A place for files of every kind of store."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from tempfile import TemporaryDirectory

from mayfly.testing.memory_store import memory_store

Place = Callable[[], contextlib.AbstractContextManager[str]]


@contextlib.contextmanager
def folder() -> Iterator[str]:
    with TemporaryDirectory() as place:
        yield f"{place}/store"


PLACES: dict[str, Place] = {"posix": folder, "memory": memory_store}
