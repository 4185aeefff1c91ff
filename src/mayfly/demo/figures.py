"""The demo's figures and how numbers are written."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from math import ceil

BLOCKS = " ▁▂▃▄▅▆▇█"
GAP = "×"


@dataclass(frozen=True, slots=True)
class Figures:
    """The running query as of one commit; rates are averages over the last few commits."""

    version: int
    batch: int
    closing: bool
    """Whether this commit closed the last instant, at the end of all input."""
    clock: int | None
    rows: int
    late: int
    results: int
    rows_per_second: float
    results_per_second: float
    alive: int
    new: int
    """Results generated since the commit seen before."""
    expired: int
    """Results that expired since then."""
    state_rows: int
    state_bytes: int
    segments: int


def number(value: float) -> str:
    """A count with thousands apart."""
    return f"{round(value):,}"


def seconds(value: float) -> str:
    return f"{value:.1f} s" if value < 100 else f"{value:,.0f} s"


def elapsed(value: float) -> str:
    """Minutes and seconds since the beginning."""
    return f"{int(value) // 60}:{int(value) % 60:02d}"


def event_time(clock: int | None) -> str:
    """The time of day of an instant, UTC."""
    if clock is None:
        return "not set"
    return datetime.fromtimestamp(clock / 1e6, UTC).strftime("%H:%M:%S.%f")[:-5]


def curve(values: tuple[int | None, ...], width: int, height: int = 1) -> list[str]:
    """The last ``width`` values as ``height`` lines of blocks, the highest value at the top.

    None, for no value at all, is a cross on the lowest line.
    """
    shown = values[-width:] if width > 0 else ()
    full = len(BLOCKS) - 1
    top = max((value for value in values if value is not None), default=0)
    scale = full * height / top if top else 0.0

    def block(value: int | None, floor: int) -> str:
        if value is None:
            return " " if floor else GAP
        return BLOCKS[min(full, max(0, ceil(value * scale) - floor))]

    floors = range(full * (height - 1), -1, -full)
    return ["".join(block(value, floor) for value in shown) for floor in floors]
