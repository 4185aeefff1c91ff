"""How many bytes one step of an operator may take: the runner says, kernels ask before they take.

Kernels are pure functions that many runners call, so the limit is part of the context of a step
rather than an argument of every function on the way.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from mayfly.errors import InvalidSetting, LimitExceeded
from mayfly.keywords import whole

_limit: ContextVar[int | None] = ContextVar("max_state_bytes", default=None)


def default_state_bytes(buckets: int = 1) -> int:
    """Half of this machine's memory, shared by the buckets."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return memory // 2 // buckets


def checked_state_bytes(asked: object, buckets: int = 1) -> int:
    """The bytes a step may take: as requested, or by default for so many buckets."""
    if asked is None:
        return default_state_bytes(buckets)
    if whole("max_state_bytes", asked) < 1:
        raise InvalidSetting(f"max_state_bytes = {asked}", "use 1 or more")
    return whole("max_state_bytes", asked)


class Touched:
    """How many stored rows and events operators have looked at in this process."""

    rows = 0


def touch(rows: int) -> None:
    Touched.rows += rows


@contextmanager
def limited(max_state_bytes: int) -> Iterator[None]:
    """Steps in this context take at most so many bytes."""
    former = _limit.set(max_state_bytes)
    try:
        yield
    finally:
        _limit.reset(former)


def require_room(size: int, purpose: str, hint: str) -> None:
    """Refuse to take more bytes than the limit, before they are taken."""
    limit = _limit.get()
    if limit is not None and size > limit:
        raise LimitExceeded(
            f"{purpose} needs about {size:,} bytes, more than max_state_bytes = {limit:,}", hint
        )
