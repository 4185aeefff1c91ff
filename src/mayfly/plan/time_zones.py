"""Instants and wall-clock times of the zone in use, as Java turns one into the other.

Where clocks are put forward, a time that does not exist is taken by the offset before; where they
are put back, the earlier of the two instants is meant.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mayfly.arrays import compute as pc
from mayfly.errors import InvalidSetting
from mayfly.lifetime import in_zone, zone
from mayfly.plan.zone_instants import PLAIN

Numbers = npt.NDArray[Any]
DAY = 86_400_000_000


def wall_clock(instants: Numbers) -> Numbers:
    """What clocks in the zone show, as µs."""
    if zone() in PLAIN:
        return instants
    return instants + _offsets(instants)


def instants_of(shown: Numbers) -> Numbers:
    """The instants at which clocks in the zone show these times."""
    if zone() in PLAIN:
        return shown
    shown = shown.astype(np.int64)
    before, after = _offsets(shown - DAY), _offsets(shown + DAY)
    late = (_offsets(shown - before) != before) & (_offsets(shown - after) == after)
    return np.asarray(shown - np.where(late, after, before))


def moved(instants: Numbers, change: Callable[[Numbers], Numbers]) -> Numbers:
    """Instants at which clocks show what ``change`` makes of what they show; of two of them, the
    one of the same offset as before."""
    seen = wall_clock(instants)
    shown = change(seen)
    same = shown - (seen - instants)
    return np.asarray(np.where(wall_clock(same) == shown, same, instants_of(shown)))


def check_zone_in_use(name: str) -> None:
    """Refuse a zone whose times are not known here."""
    with in_zone(name or "''"):  # Arrow takes no name for no zone
        wall_clock(np.zeros(1, np.int64))


def _offsets(instants: Numbers) -> Numbers:
    times = pa.array(instants.astype(np.int64), pa.timestamp("us", tz="UTC"))
    try:
        local = pc.local_timestamp(times.cast(pa.timestamp("us", tz=zone())))
    except pa.ArrowInvalid as error:
        raise InvalidSetting(
            f"the time zone {zone()!r} is not known here", "use a name such as Europe/Berlin"
        ) from error
    return np.asarray(local.cast(pa.int64()).to_numpy() - instants)
