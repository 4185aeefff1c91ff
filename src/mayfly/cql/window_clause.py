"""Reads a window: ``[RANGE 10 MIN SLIDE 1 MIN]`` and all its other forms."""

from __future__ import annotations

from mayfly.cql.messages import TextSpan
from mayfly.cql.tokens import Cursor
from mayfly.plan.window_kinds import (
    Landmark,
    Now,
    PartitionRows,
    Range,
    RowsWindow,
    Slide,
    Unbounded,
    Window,
)

FORMS = (
    "[UNBOUNDED], [NOW], [RANGE d], [ROWS n], [PARTITION BY a, … ROWS n [RANGE d]] or"
    " [LANDMARK 'instant' [UNTIL 'instant']], each may be followed by SLIDE … and INTERNAL"
)


def read_window(cursor: Cursor) -> tuple[Window, TextSpan]:
    """The window whose ``[`` is at the cursor, and the text it covers."""
    start = cursor.place.start
    cursor.take("[")
    window = _with_options(cursor, _extent(cursor))
    if cursor.word() != "]":
        raise cursor.error(f"{cursor.shown} does not belong to a window", f"a window is {FORMS}")
    end = cursor.place.end
    cursor.take("]")
    return window, TextSpan(start, end)


def _extent(cursor: Cursor) -> Window:
    if cursor.take("UNBOUNDED"):
        return Unbounded()
    if cursor.take("NOW"):
        return Now()
    if cursor.take("RANGE"):
        return _range(cursor)
    if cursor.take("ROWS"):
        count = cursor.count("a number of rows")
        if cursor.word() == "RANGE":
            raise cursor.error(
                "ROWS and RANGE together need PARTITION BY",
                "write [PARTITION BY a ROWS n RANGE d], or only one of the two",
            )
        return RowsWindow(count=count)
    if cursor.take("PARTITION BY"):
        return _partition(cursor)
    if cursor.take("LANDMARK"):
        return _landmark(cursor)
    raise cursor.error(f"{cursor.shown} does not start a window", f"a window is {FORMS}")


def _range(cursor: Cursor) -> Window:
    if cursor.take("UNBOUNDED"):
        return Unbounded()
    duration = cursor.duration("the range")
    if cursor.word() == "ROWS":
        raise cursor.error(
            "RANGE and ROWS together need PARTITION BY",
            "write [PARTITION BY a ROWS n RANGE d], or only one of the two",
        )
    return Range(duration=duration)


def _partition(cursor: Cursor) -> Window:
    columns = cursor.names("a column of the stream")
    cursor.expect("ROWS", "a partitioned window keeps a number of rows: PARTITION BY a ROWS n")
    count = cursor.count("a number of rows")
    duration = cursor.duration("the range") if cursor.take("RANGE") else None
    return PartitionRows(partition_by=columns, count=count, duration=duration)


def _landmark(cursor: Cursor) -> Window:
    start = cursor.instant("the instant the window starts at")
    if not cursor.take("UNTIL"):
        return Landmark(start=start)
    place = cursor.place
    until = cursor.instant("the instant the window ends at")
    if until <= start:
        raise cursor.error("this window ends before it starts", "give a later instant", place)
    return Landmark(start=start, until=until)


def _with_options(cursor: Cursor, window: Window) -> Window:
    slide, internal = _slide(cursor), cursor.take("INTERNAL")
    if internal and slide is None:
        slide = _slide(cursor)
    return window.with_options(slide, internal)


def _slide(cursor: Cursor) -> Slide | None:
    if not cursor.take("SLIDE"):
        return None
    following = cursor.tokens[cursor.position + 1 : cursor.position + 2]
    if following and following[0].text.upper() in ("ROWS", "ROW"):
        rows = cursor.count("a number of rows")
        cursor.position += 1
        return Slide(rows=rows)
    period = cursor.duration("the slide", "write SLIDE 1 MIN, or SLIDE 5 ROWS")
    if not cursor.take("ORIGIN"):
        return Slide(period=period)
    return Slide(period=period, origin=cursor.instant("the origin of the slide") % period)
