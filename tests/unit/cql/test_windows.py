"""Every form of a window becomes the value it means."""

from __future__ import annotations

import pytest

from mayfly.cql import CqlError, bind_query
from mayfly.lifetime import instant
from mayfly.plan.logical_operators import StreamScan
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
from tests.golden.cql.cases import catalog

CATALOG = catalog()
SECOND = 1_000_000
MINUTE = 60 * SECOND


def window_of(text: str) -> Window:
    plan = bind_query(f"SELECT src FROM link1 {text}", CATALOG)
    (scan,) = (node for node in plan.walk() if isinstance(node, StreamScan))
    return scan.window


@pytest.mark.parametrize(
    ("text", "window"),
    [
        ("", Unbounded()),
        ("[UNBOUNDED]", Unbounded()),
        ("[RANGE UNBOUNDED]", Unbounded()),
        ("[unbounded internal]", Unbounded(internal=True)),
        ("[NOW]", Now()),
        ("[RANGE 10 MIN]", Range(duration=10 * MINUTE)),
        ("[range 10min]", Range(duration=10 * MINUTE)),
        ("[RANGE 5s]", Range(duration=5 * SECOND)),
        ("[RANGE 5 d]", Range(duration=5 * 24 * 60 * MINUTE)),
        ("[RANGE 1 h 30 min]", Range(duration=90 * MINUTE)),
        ("[RANGE 1.5 HOURS]", Range(duration=90 * MINUTE)),
        ("[RANGE 7 MICROSECONDS]", Range(duration=7)),
        ("[RANGE 250 ms]", Range(duration=250_000)),
        ("[RANGE 1 /* one */ MIN -- minute\n]", Range(duration=MINUTE)),
        ("[RANGE 1 MIN INTERNAL]", Range(duration=MINUTE, internal=True)),
        (
            "[RANGE 1 MIN SLIDE 10 SEC]",
            Range(duration=MINUTE, slide=Slide(period=10 * SECOND)),
        ),
        (
            "[RANGE 1 MIN SLIDE 10 SEC INTERNAL]",
            Range(duration=MINUTE, slide=Slide(period=10 * SECOND), internal=True),
        ),
        (
            "[RANGE 1 MIN INTERNAL SLIDE 10 SEC]",
            Range(duration=MINUTE, slide=Slide(period=10 * SECOND), internal=True),
        ),
        (
            "[RANGE 1 MIN SLIDE 1 MIN ORIGIN '1970-01-01 00:05:20']",
            Range(duration=MINUTE, slide=Slide(period=MINUTE, origin=20 * SECOND)),
        ),
        ("[RANGE 1 MIN SLIDE 5 ROWS]", Range(duration=MINUTE, slide=Slide(rows=5))),
        ("[ROWS 10]", RowsWindow(count=10)),
        ("[ROWS 10 SLIDE 5 ROWS]", RowsWindow(count=10, slide=Slide(rows=5))),
        ("[ROWS 10 SLIDE 1 MIN]", RowsWindow(count=10, slide=Slide(period=MINUTE))),
        ("[PARTITION BY SRC ROWS 3]", PartitionRows(partition_by=("src",), count=3)),
        (
            "[PARTITION BY src, `dst` ROWS 3 RANGE 1 MIN]",
            PartitionRows(partition_by=("src", "dst"), count=3, duration=MINUTE),
        ),
        ("[LANDMARK '2026-01-01']", Landmark(start=instant("2026-01-01"))),
        (
            "[LANDMARK TIMESTAMP '2026-01-01 12:00' UNTIL '2026-01-02']",
            Landmark(start=instant("2026-01-01T12:00"), until=instant("2026-01-02")),
        ),
    ],
)
def test_the_text_means(text: str, window: Window) -> None:
    assert window_of(text) == window


@pytest.mark.parametrize(
    "window",
    [
        Unbounded(),
        Now(internal=True),
        Range(duration=90 * MINUTE, slide=Slide(period=7 * SECOND, origin=3 * SECOND)),
        RowsWindow(count=3, slide=Slide(rows=2)),
        PartitionRows(partition_by=("src", "dst"), count=3, duration=5, internal=True),
        Landmark(start=5 * SECOND, until=instant("2026-01-02"), slide=Slide(period=SECOND)),
    ],
)
def test_a_window_can_be_written_and_read_again(window: Window) -> None:
    assert window_of(window.cql()) == window


@pytest.mark.parametrize(
    ("text", "lifetime", "counts_rows", "external"),
    [
        ("[UNBOUNDED]", None, False, False),
        ("[LANDMARK '2026-01-01']", None, False, False),
        ("[RANGE 5 s]", 5 * SECOND, False, True),
        ("[RANGE 5 s INTERNAL]", 5 * SECOND, False, False),
        ("[RANGE 5 s SLIDE 2 ROWS]", 5 * SECOND, True, True),
        ("[NOW]", 1, False, True),
        ("[ROWS 5]", None, True, True),
        ("[PARTITION BY src ROWS 5 RANGE 5 s]", None, True, True),
    ],
)
def test_what_a_window_says_about_lifetimes(
    text: str, lifetime: int | None, counts_rows: bool, external: bool
) -> None:
    window = window_of(text)
    assert window.lifetime == lifetime
    assert window.counts_rows is counts_rows
    assert window.is_external is external


@pytest.mark.parametrize("text", ["[RANGE 6 sec 6 sec]", "[RANGE 5 s 1 min]"])
def test_units_go_from_large_to_small(text: str) -> None:
    with pytest.raises(CqlError, match="does not belong to a window"):
        window_of(text)
