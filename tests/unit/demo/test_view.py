from __future__ import annotations

import io
import re
from dataclasses import replace

import pytest
from rich.console import Console

from mayfly.demo.figures import Figures
from mayfly.demo.view import TITLE, Event, PlainLines, Scene, picture, shown_on

FIGURES = Figures(
    version=8,
    batch=7,
    closing=False,
    clock=12 * 3_600_000_000,
    rows=41_230,
    late=12,
    results=101_234,
    rows_per_second=2_004.4,
    results_per_second=5_310,
    alive=21_400,
    new=5_310,
    expired=4_987,
    state_rows=10_123,
    state_bytes=812_000,
    segments=34,
)
SCENE = Scene(
    began=100.0,
    doing="running",
    events=tuple(Event(float(i), f"event {i}") for i in range(30)),
    figures=FIGURES,
    batch_time=(7, 0.72),
    behind=1.94,
    alive=(*range(200), None, None),
)
LARGEST = replace(
    FIGURES,
    rows=999_999_999,
    late=999_999,
    results=99_999_999_999,
    rows_per_second=999_999,
    results_per_second=99_999_999,
    alive=999_999_999,
    new=999_999_999,
    expired=999_999_999,
    state_rows=999_999_999,
)


def drawn(scene: Scene, width: int, height: int) -> list[str]:
    console = Console(file=io.StringIO(), width=width, height=height, force_terminal=False)
    console.print(picture(scene, 161.0, width, height))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()


@pytest.mark.parametrize(("width", "height"), [(80, 24), (80, 20), (110, 40), (200, 60)])
@pytest.mark.parametrize("figures", [None, FIGURES, LARGEST])
def test_the_picture_fits_the_terminal(width: int, height: int, figures: Figures | None) -> None:
    lines = drawn(replace(SCENE, figures=figures), width, height)
    assert len(lines) < height
    assert max(map(len, lines)) <= width
    assert not any("…" in line for line in lines)
    assert lines[-1].endswith("event 29")


def test_a_small_terminal_still_gets_the_newest_event() -> None:
    lines = drawn(SCENE, 40, 8)
    assert max(map(len, lines)) <= 40
    assert lines[-1].endswith("event 29")


def test_every_number_stands_beside_its_unit() -> None:
    text = "\n".join(drawn(SCENE, 80, 24))
    for wanted in (
        "12:00:00.0 UTC",
        "1.9 s behind",
        "2,004 rows/s",
        "41,230 rows",
        "12 late",
        "5,310 /s",
        "101,234 so far",
        "21,400 now",
        "+5,310 new",
        "−4,987 expired",
        "10,123 rows",
        "812 kB",
        "34 segments",
        "0.7 s",
    ):
        assert wanted in text


def test_numbers_are_aligned() -> None:
    lines = [line for line in drawn(SCENE, 80, 24) if re.match(r"  [a-z]+ {2,}\S", line)]
    ends = {re.match(r"  [a-z]+ +\S+", line).end() for line in lines}  # type: ignore[union-attr]
    assert len(lines) == 6
    assert len(ends) == 1


def test_the_elapsed_time_stands_at_the_right_edge() -> None:
    line = drawn(SCENE, 80, 24)[1]
    assert line.endswith("1:01")
    assert len(line) == 80


def test_what_is_not_known_yet_is_left_out() -> None:
    text = "\n".join(drawn(replace(SCENE, batch_time=None, behind=None), 80, 24))
    assert "behind" not in text
    assert "None" not in text


def plain() -> tuple[PlainLines, io.StringIO]:
    file = io.StringIO()
    return PlainLines(Console(file=file, width=20)), file


def test_plain_output_is_one_line_per_event_and_batch_without_control_codes() -> None:
    file = io.StringIO()
    console = Console(file=file, width=20)
    quiet = replace(SCENE, events=SCENE.events[:1], figures=None, batch_time=None)
    with shown_on(console, quiet) as show:
        show(replace(SCENE, events=SCENE.events[:1]))
        show(replace(SCENE, events=SCENE.events[:2]))
        show(replace(SCENE, events=SCENE.events[:2]))
    title, *lines = file.getvalue().splitlines()
    assert title == TITLE
    assert len(lines) == 3
    assert lines[0].endswith("event 0")
    assert "batch 7" in lines[1]
    assert "alive  21,400 (+5,310 -4,987)" in lines[1]
    assert lines[2].endswith("event 1")
    assert file.getvalue().isascii()
    assert "\x1b" not in file.getvalue()


def test_a_batch_is_told_with_its_own_time_once_that_is_known() -> None:
    lines, file = plain()
    bare = replace(SCENE, events=())
    lines.show(replace(bare, batch_time=(6, 9.9)))
    assert file.getvalue() == ""
    lines.show(replace(bare, batch_time=(7, 0.72)))
    assert "batch 7    0.7 s" in file.getvalue()


def test_a_batch_whose_time_never_comes_is_told_before_what_follows() -> None:
    lines, file = plain()
    bare = replace(SCENE, events=(), batch_time=None)
    lines.show(bare)
    lines.show(replace(bare, figures=replace(FIGURES, version=9, batch=8)))
    lines.show(replace(bare, events=(Event(3.0, "SIGKILL"),)))
    told = [line.split()[1:3] for line in file.getvalue().splitlines()]
    assert told == [["batch", "7"], ["batch", "8"], ["SIGKILL"]]


def test_the_closing_commit_has_no_batch_time() -> None:
    lines, file = plain()
    lines.show(replace(SCENE, events=(), figures=replace(FIGURES, closing=True)))
    assert re.search(r"closing +-  clock", file.getvalue())


def test_a_terminal_gets_the_live_picture() -> None:
    file = io.StringIO()
    console = Console(
        file=file, width=80, height=24, force_terminal=True, legacy_windows=False, _environ={}
    )
    with shown_on(console, SCENE) as show:
        show(replace(SCENE, doing="something else"))
    assert "\x1b[" in file.getvalue()
    assert "something else" in file.getvalue()
