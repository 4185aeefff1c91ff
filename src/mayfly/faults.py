"""Named points in the code at which a crash matters.

``reach("commit.before-link")`` does nothing unless the environment variable ``MAYFLY_KILL_AT``
names that point when the process starts: then the process kills itself there with SIGKILL, as a
power cut would, without clean-up. ``name:3`` means the third time this process reaches ``name``.
``MAYFLY_PAUSE_AT=name@folder`` makes processes wait there until ``folder/go`` exists; each tells
its id by a file in the folder, so that a test can act while they stand still. Several such
settings are separated by commas.
``on_reach`` runs a function at a point instead, so that a test can place a race exactly.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from mayfly.errors import InvalidSetting

KILL_AT, PAUSE_AT = "MAYFLY_KILL_AT", "MAYFLY_PAUSE_AT"

_actions: dict[str, Callable[[], object]] = {}


def reach(point: str) -> None:
    """Mark ``point`` as reached; costs one look at an empty dict unless something is set there."""
    if _actions and (action := _actions.get(point)):
        action()


@contextlib.contextmanager
def on_reach(point: str, action: Callable[[], object]) -> Iterator[None]:
    """Within the block, run ``action`` whenever this process reaches ``point``."""
    before = _actions.get(point)
    _actions[point] = action
    try:
        yield
    finally:
        if before is None:
            del _actions[point]
        else:
            _actions[point] = before


def kill_at(setting: str) -> None:
    """From now on, kill this process at a point: ``name`` or ``name:<which time>``."""
    point, _, count = setting.partition(":")
    if not point or not (count.isdecimal() and int(count) > 0 if ":" in setting else True):
        raise InvalidSetting(
            f"{KILL_AT}={setting!r} names no point", "write name or name:3 (the third time)"
        )
    left = int(count or 1)

    def die() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    _actions[point] = die


def pause_at(setting: str) -> None:
    """From now on, wait at a point: ``name@folder``."""
    point, _, folder = setting.partition("@")
    if not point or not folder:
        raise InvalidSetting(
            f"{PAUSE_AT}={setting!r} names no point and folder", "write name@/path/of/a/folder"
        )

    def wait() -> None:
        (Path(folder) / str(os.getpid())).touch()
        while not (Path(folder) / "go").exists():
            time.sleep(0.01)

    _actions[point] = wait


if point := os.environ.get(KILL_AT):
    kill_at(point)
for point in filter(None, os.environ.get(PAUSE_AT, "").split(",")):
    pause_at(point)
