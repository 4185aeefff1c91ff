"""Windows smaller than an archive's own, as reads ask for them.

Rows are then taken to live shorter, to be younger by some of their times, to have come with the
last updates, or to be among the last by their positions. results-index-2005, 3.4.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from mayfly.archive.model.column_names import by_column
from mayfly.archive.model.declaration import window_updates
from mayfly.archive.model.settings import ArchiveSettings
from mayfly.archive.read.selection import Size, Window
from mayfly.display import counted
from mayfly.errors import InvalidSetting
from mayfly.lifetime import duration, format_micros


def times_within(
    settings: ArchiveSettings, window: Mapping[str, Size]
) -> tuple[tuple[str, int], ...]:
    """For which time columns rows must be younger than what, µs."""
    window = by_column(window, settings.all_columns)
    for name in window:
        if settings.all_columns.get(name) not in ("timestamp", "bigint"):
            raise InvalidSetting(
                f"{name!r} is not a time column of the archive",
                "store the generation time of that input in a TIMESTAMP or BIGINT column",
            )
    sizes = {name: duration(size) for name, size in window.items()}
    if empty := [name for name, size in sizes.items() if not size]:
        raise InvalidSetting(
            f"an empty window was asked for {', '.join(empty)}", "use a size longer than 0"
        )
    return tuple(sizes.items())


def shorter_by(longest: int, window: Size) -> int:
    """By how much rows that live up to ``longest`` are taken to live shorter, µs."""
    size = duration(window)
    if not 0 < size <= longest:
        raise InvalidSetting(
            f"a window of {format_micros(size)} was asked of rows that live up to "
            f"{format_micros(longest)}",
            "ask for a smaller window, longer than 0",
        )
    return longest - size


def first_of_window(settings: ArchiveSettings, as_of: int, window: str | int | timedelta) -> int:
    """The first instant of the last updates that a smaller window of a wave keeps at ``as_of``."""
    updates = window_updates(window, settings.calendar)
    if updates > settings.window:
        raise InvalidSetting(
            f"a window of {updates} updates was asked of an archive of the last {settings.window}",
            "ask for a smaller window",
        )
    done = settings.calendar.update_of(as_of + 1) - 1
    return settings.calendar.time_of(done - updates) + 1


def fewer_rows(sizes: Mapping[str, int], window: Window) -> tuple[tuple[str, int], ...]:
    """For which columns of positions how many rows are asked for, at most as many as are kept."""
    asked: Mapping[str, Size] = (
        window if isinstance(window, Mapping) else dict.fromkeys(sizes, window)
    )
    return tuple(
        (name, _number_of_rows(name, size, sizes)) for name, size in by_column(asked, sizes).items()
    )


def _number_of_rows(name: str, size: Size, sizes: Mapping[str, int]) -> int:
    if name not in sizes:
        raise InvalidSetting(
            f"there is no window with positions {name!r}", f"the windows are {', '.join(sizes)}"
        )
    rows = _whole_number(size)
    if not 0 < rows <= sizes[name]:
        raise InvalidSetting(
            f"a window of {counted(rows, 'row')} was asked of the last {sizes[name]} by {name}",
            f"ask for 1 to {sizes[name]} rows; others are not kept",
        )
    return rows


def _whole_number(size: Any) -> int:
    """From 100, "100" or "100 rows"."""
    if isinstance(size, int) and not isinstance(size, bool):
        return size
    text = size.strip().lower().removesuffix("rows").strip() if isinstance(size, str) else ""
    if not text.isdecimal():
        raise InvalidSetting(
            f"{size!r} is not a number of rows", "windows of this archive count rows: ask for 100"
        )
    return int(text)
