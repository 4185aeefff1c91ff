"""What the demo shows: a live picture on a terminal, plain lines anywhere else."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from mayfly.demo.demo_settings import WINDOW
from mayfly.demo.figures import (
    GAP,
    Figures,
    curve,
    elapsed,
    event_time,
    number,
    seconds,
)
from mayfly.display import counted, size

TITLE = f"Mayfly demo: connections on two links, joined by source over {WINDOW} windows"
FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
ROOMY = 22
"""Lines a terminal needs for the tall chart."""


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened, ``moment`` seconds after the beginning."""

    moment: float
    text: str
    style: str = ""


@dataclass(frozen=True, slots=True)
class Scene:
    """Everything the view needs to know at one moment."""

    began: float
    """``time.monotonic()`` at the beginning."""
    doing: str
    down: bool = False
    """Whether no driver is running."""
    over: bool = False
    events: tuple[Event, ...] = ()
    figures: Figures | None = None
    batch_time: tuple[int, float] | None = None
    """The last batch that Spark reported, and the seconds it took."""
    behind: float | None = None
    """Seconds of event time that have arrived but are not closed yet."""
    alive: tuple[int | None, ...] = ()
    """Results alive, second by second; None where no driver was running."""


Show = Callable[[Scene], None]
"""Takes over a new scene."""


@contextmanager
def shown_on(console: Console, first: Scene) -> Iterator[Show]:
    """The view that suits the console, for as long as the block lasts."""
    unicode = console.encoding.startswith("utf")
    if console.is_terminal and not console.is_dumb_terminal and unicode:
        newest = LivePicture(console, first)
        with Live(
            console=console,
            get_renderable=newest.draw,
            refresh_per_second=5,
            redirect_stdout=False,
            redirect_stderr=False,
            vertical_overflow="crop",
        ):
            yield newest.show
    else:
        lines = PlainLines(console)
        console.print(TITLE, markup=False, soft_wrap=True)
        lines.show(first)
        yield lines.show
        lines.close()


@dataclass
class LivePicture:
    """The newest scene, drawn again and again, also while nothing new is known."""

    console: Console
    scene: Scene

    def show(self, scene: Scene) -> None:
        self.scene = scene

    def draw(self) -> RenderableType:
        return picture(self.scene, time.monotonic(), *self.console.size)


@dataclass
class PlainLines:
    """One line per event and per batch, without control codes."""

    console: Console
    _events_shown: int = 0
    _version: int = 0
    _waiting: tuple[float, Figures] | None = None
    """A batch whose time is not known yet: Spark tells it a little after the commit."""

    def show(self, scene: Scene) -> None:
        now, figures = time.monotonic() - scene.began, scene.figures
        if figures is not None and figures.version > self._version:
            self.close()
            self._version, self._waiting = figures.version, (now, figures)
        if self._waiting and self._waiting[1].closing:
            self.close()
        if self._waiting and scene.batch_time and scene.batch_time[0] == self._waiting[1].batch:
            self.close(scene.batch_time[1])
        if scene.events[self._events_shown :]:
            self.close()
        for event in scene.events[self._events_shown :]:
            self._tell(event.moment, event.text)
        self._events_shown = len(scene.events)

    def close(self, took: float | None = None) -> None:
        """Tell what is waiting, with or without its time."""
        if self._waiting is not None:
            elapsed_time, figures = self._waiting
            self._tell(elapsed_time, batch_line(figures, took))
            self._waiting = None

    def _tell(self, elapsed_time: float, text: str) -> None:
        line = f"{elapsed(elapsed_time):>5}  {text}"
        self.console.print(line, markup=False, highlight=False, soft_wrap=True)
        self.console.file.flush()


def batch_line(figures: Figures, took: float | None) -> str:
    """A batch in one line."""
    what = "closing" if figures.closing else f"batch {figures.batch}"
    return (
        f"{what:<9} {'-' if took is None else seconds(took):>6}"
        f"  clock {event_time(figures.clock)}"
        f"  in {number(figures.rows_per_second):>6}/s"
        f"  results {number(figures.results_per_second):>7}/s"
        f"  alive {number(figures.alive):>7} (+{number(figures.new)} -{number(figures.expired)})"
        f"  state {number(figures.state_rows)} rows, {size(figures.state_bytes)},"
        f" {counted(figures.segments, 'segment')}  late {number(figures.late)}"
    )


def picture(scene: Scene, now: float, width: int, height: int) -> RenderableType:
    """The scene in at most ``height`` lines; what does not fit is the oldest events."""
    parts: list[RenderableType] = [*_heading(scene, now, width), ""]
    if scene.figures is not None:
        chart = _chart(scene, width, 4 if height >= ROOMY else 2)
        parts += [*_numbers(scene, scene.figures), "", *chart, ""]
    room = max(1, height - 1 - len(parts))
    return Group(*parts, *(_event(event) for event in scene.events[-room:]))


def _heading(scene: Scene, now: float, width: int) -> list[RenderableType]:
    frame = "✓" if scene.over else FRAMES[int(now * 8) % len(FRAMES)]
    doing = _line().append(f"{frame} {scene.doing}", "bold red" if scene.down else "bold green")
    passed = elapsed(now - scene.began)
    doing.append(passed.rjust(width - doing.cell_len), "dim")
    return [_line().append(TITLE, "bold"), doing]


def _numbers(scene: Scene, figures: Figures) -> list[RenderableType]:
    stored, unit = size(figures.state_bytes).split()
    took = scene.batch_time[1] if scene.batch_time else None
    rate, total = number(figures.rows_per_second), number(figures.rows)
    zone = "" if figures.clock is None else "UTC"
    return [
        _values("clock", (event_time(figures.clock), zone), _measured(scene.behind, "s behind")),
        _values("input", (rate, "rows/s"), (total, "rows"), (number(figures.late), "late")),
        _values(
            "results",
            (number(figures.results_per_second), "/s"),
            (number(figures.results), "so far"),
        ),
        _values(
            "alive",
            (number(figures.alive), "now"),
            (f"+{number(figures.new)}", "new"),
            (f"−{number(figures.expired)}", "expired"),
            style="bold magenta",
        ),
        _values(
            "state",
            (number(figures.state_rows), "rows"),
            (stored, unit),
            (number(figures.segments), "segments"),
        ),
        _values("batch", (number(figures.batch), ""), _measured(took, "s")),
    ]


def _values(label: str, *pairs: tuple[str, str], style: str = "bold") -> Text:
    """Up to three numbers, each right-aligned before its unit."""
    line = _line().append(f"  {label:<8}", "dim")
    for value, unit in pairs:
        line.append(f"{value:>12}", style).append(f" {unit:<8}", "dim")
    return line


def _measured(value: float | None, unit: str) -> tuple[str, str]:
    return ("", "") if value is None else (f"{value:.1f}", unit)


def _chart(scene: Scene, width: int, lines: int) -> list[RenderableType]:
    drawn: list[RenderableType] = []
    for line in curve(scene.alive, width - 4, lines):
        text = _line().append(f"  {line}", "magenta")
        text.highlight_regex(f"{GAP}+", "red")
        drawn.append(text)
    top = max((value for value in scene.alive if value is not None), default=0)
    legend = f"  results alive, one column a second, at most {number(top)}"
    down = f"; {GAP} no driver" if None in scene.alive else ""
    return [*drawn, _line().append(legend + down, "dim")]


def _event(event: Event) -> Text:
    return _line().append(f"  {elapsed(event.moment):>5}  ", "dim").append(event.text, event.style)


def _line() -> Text:
    return Text(no_wrap=True, overflow="ellipsis")
