"""The demo from beginning to end: start, feed, watch, kill, start again, close, check.

This process holds the links and the view, never a Spark session. All it knows about the pipeline
it reads from committed manifests, as a dashboard in another process would.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace

from mayfly.demo.check import judge
from mayfly.demo.demo_settings import Places, Settings
from mayfly.demo.driver_process import DriverProcess
from mayfly.demo.figures import Figures, seconds
from mayfly.demo.observation import Observer
from mayfly.demo.summary import DemoSummary, Kill, disk_use
from mayfly.demo.traffic import TrafficFeeder
from mayfly.demo.view import Event, Scene, Show
from mayfly.display import counted
from mayfly.errors import MayflyError

LOOK_EVERY = 0.05
KILL_AT_SHARE = 0.5
PATIENCE = 300.0
"""Seconds without any sign of life after which the demo ends."""


@dataclass
class Story:
    """One run of the demo, from the first driver process on."""

    settings: Settings
    places: Places
    show: Show
    scene: Scene
    driver: DriverProcess
    observer: Observer
    feeder: TrafficFeeder
    _kill: Kill | None = field(default=None, init=False)
    _killed_at: float = field(default=0.0, init=False)
    _batch_seconds: list[float] = field(default_factory=list, init=False)
    _peak: Figures | None = field(default=None, init=False)
    _last_sign: float = field(default_factory=time.monotonic, init=False)
    _ending: bool = field(default=False, init=False)
    _done: bool = field(default=False, init=False)

    def run(self) -> DemoSummary:
        """Play it; whatever happens, no process and no thread is left running."""
        try:
            while not self._done:
                self._hear()
                self._look()
                self._act()
                time.sleep(LOOK_EVERY)
            self._look()
            return self._closing()
        finally:
            self.feeder.stop()
            self.driver.kill()

    # -- what happens ----------------------------------------------------------------------

    def _hear(self) -> None:
        for report in self.driver.reports():
            self._last_sign = time.monotonic()
            if report["kind"] == "running":
                self._show(doing="running", down=False)
                if self.feeder.origin is None:
                    self.feeder.start()
                    span = seconds(self.settings.seconds)
                    self._tell(f"Spark {report['spark']} runs the query; {span} of traffic begin")
            elif report["kind"] == "batch":
                self._batch_seconds.append(report["seconds"])
                self._show(batch_time=(report["batch"], report["seconds"]))
            elif report["kind"] == "done":
                self._done = True
        if time.monotonic() - self._last_sign > PATIENCE:
            raise MayflyError(
                f"nothing has happened for {PATIENCE:.0f} s",
                f"see {self.places.log(self.driver.start)}; is the machine overloaded?",
            )

    def _look(self) -> None:
        figures = self.observer.look()
        if figures is not None:
            self._last_sign = time.monotonic()
            if self._peak is None or figures.state_bytes > self._peak.state_bytes:
                self._peak = figures
            self._note_continuation(figures)
            self._show(figures=figures)
        self._follow_time()

    def _act(self) -> None:
        if self.feeder.error is not None:
            raise self.feeder.error
        if self.scene.down or self.feeder.origin is None or self._ending:
            return
        if self.settings.kill and self._kill is None:
            self._kill_if_due()
        elif self.feeder.done:
            self._ending = True
            self.driver.end_input()
            self._tell("the links are silent: catching up and closing the last instant")
            self._show(doing="closing the last instant")

    def _kill_if_due(self) -> None:
        """Kill the driver amid the traffic and a batch; if the traffic ends before that, anyway."""
        figures, feeder = self.scene.figures, self.feeder
        if figures is None or feeder.rows_sent < KILL_AT_SHARE * feeder.traffic.row_count:
            return
        running = self.observer.running_batch()
        if running is None and not feeder.done:
            return
        self.driver.kill()
        self._killed_at = time.monotonic()
        self._look()  # it may have committed in its last moment
        self._kill = Kill(self.observer.running_batch(), self.observer.version)
        self._tell(
            f"SIGKILL to the driver {self._kill.where};"
            f" version {self._kill.version} was committed last",
            "bold red",
        )
        self._tell("starting Spark again on the same checkpoint, while the links go on")
        self._show(doing="killed; starting Spark again", down=True)
        self.driver = DriverProcess(self.places, self.driver.start + 1)

    def _note_continuation(self, figures: Figures) -> None:
        kill = self._kill
        if kill is None or kill.continued_after is not None:
            return
        after = time.monotonic() - self._killed_at
        self._kill = replace(kill, continued_after=after)
        again = "" if kill.batch is None else f": batch {kill.batch} ran again"
        self._tell(
            f"continued from version {kill.version}, {seconds(after)} after the kill{again}",
            "bold green",
        )

    # -- what is shown ---------------------------------------------------------------------

    def _follow_time(self) -> None:
        """Note how far the clock is behind, and one more value of the curve each second."""
        scene, origin = self.scene, self.feeder.origin
        if origin is None:
            return
        passed = time.time() - origin / 1e6
        last_count = scene.figures.alive if scene.figures else 0
        alive = scene.alive
        while len(alive) < int(passed):
            alive = (*alive, None if scene.down else last_count)
        self._show(alive=alive)
        if scene.figures and scene.figures.clock is not None:
            behind = min(passed, self.settings.seconds) - (scene.figures.clock - origin) / 1e6
            self._show(behind=max(0.0, behind))

    def _tell(self, text: str, style: str = "") -> None:
        event = Event(time.monotonic() - self.scene.began, text, style)
        self._show(events=(*self.scene.events, event))

    def _show(self, **changes: object) -> None:
        self.scene = replace(self.scene, **changes)  # type: ignore[arg-type]
        self.show(self.scene)

    def _closing(self) -> DemoSummary:
        origin, final, peak = self.feeder.origin, self.scene.figures, self._peak
        assert origin is not None
        assert final is not None
        assert peak is not None
        self._tell(f"checking {counted(final.results, 'result')}")
        self._show(doing="computing everything again, undisturbed")
        verdict = judge(self.feeder.traffic, origin, self.places)
        self._show(doing="finished", over=True)
        return DemoSummary(
            settings=self.settings,
            final=final,
            peak=peak,
            batch_seconds=tuple(self._batch_seconds),
            kill=self._kill,
            disk=disk_use(self.places.written_by_driver),
            verdict=verdict,
        )
