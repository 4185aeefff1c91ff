"""``mayfly demo``: options, the demo's directory, and how it ends."""

from __future__ import annotations

import shutil
import signal
import tempfile
import time
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from mayfly.demo.demo_settings import Places, Settings
from mayfly.demo.driver_process import DriverProcess
from mayfly.demo.view import Event, Scene, Show, shown_on
from mayfly.errors import InvalidSetting, MayflyError

if TYPE_CHECKING:
    from mayfly.demo.story import Story

KEPT = Path("demo-run")


def demo(
    seconds: Annotated[
        float, typer.Option(min=5, max=3600, help="How long connections arrive.")
    ] = Settings.seconds,
    rate: Annotated[
        int,
        typer.Option(
            min=10, max=20_000, help="Connections a second per link; results grow with its square."
        ),
    ] = Settings.rate,
    keep: Annotated[bool, typer.Option("--keep", help=f"Leave all files in ./{KEPT}.")] = False,
    no_kill: Annotated[bool, typer.Option("--no-kill", help="Let the driver live.")] = False,
) -> None:
    """Join two streams on local Spark, kill the driver in the middle, and check every result.

    Takes about a minute. Connections on two links are joined by source over sliding windows;
    the results are compared with an undisturbed computation.
    """
    settings = Settings(seconds, rate, keep, not no_kill)
    console = Console(highlight=False)
    for ending in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, _interrupt)
    places = _places(settings)
    leave = settings.keep
    try:
        identical = _perform(settings, places, console)
        leave = leave or not identical
    except KeyboardInterrupt:
        console.print("  stopped")
        raise typer.Exit(130) from None
    except MayflyError:
        leave = True  # with the driver's log
        raise
    finally:
        if leave:
            console.print(f"  files    {places.root}", soft_wrap=True)
        else:
            _remove(places.root)
    raise typer.Exit(0 if identical else 1)


def _perform(settings: Settings, places: Places, console: Console) -> bool:
    """Run the demo under a view and print its summary; whether the results were right."""
    doing = "starting Spark"
    first = Scene(time.monotonic(), doing, down=True, events=(Event(0.0, doing),))
    with shown_on(console, first) as show:
        driver = DriverProcess(places, 1)
        try:
            story = _story(settings, places, show, first, driver)
        except BaseException:
            driver.kill()
            raise
        summary = story.run()
    summary.print(console)
    return summary.verdict.identical


def _story(
    settings: Settings, places: Places, show: Show, first: Scene, driver: DriverProcess
) -> Story:
    # Imported while Spark starts in its own process: these take a second or more.
    from mayfly.demo.observation import Observer
    from mayfly.demo.story import Story
    from mayfly.demo.traffic import TrafficFeeder, make_traffic

    feeder = TrafficFeeder(make_traffic(settings), places)
    return Story(settings, places, show, first, driver, Observer(places.checkpoint), feeder)


def _places(settings: Settings) -> Places:
    if not settings.keep:
        places = Places(Path(tempfile.mkdtemp(prefix="mayfly-demo-")))
    elif KEPT.exists():
        raise InvalidSetting(
            f"{KEPT.absolute()} exists already", "remove it, or run the demo without --keep"
        )
    else:
        places = Places(KEPT.absolute())
    places.create()
    return places


def _remove(root: Path) -> None:
    """Remove the folder; workers of a killed driver may still write to it for a moment."""
    for _ in range(20):
        shutil.rmtree(root, ignore_errors=True)
        if not root.exists():
            return
        time.sleep(0.1)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt
