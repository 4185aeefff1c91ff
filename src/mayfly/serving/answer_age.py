"""How old an answer may be, and waiting for one that is young enough (spec/periodic 9).

Age is counted in event time: the clock that the pipeline has got to, or has begun to close, minus
the answer's ``as_of``. So the answers of a pipeline that replays a batch after a crash are old,
until it has caught up. Of rows that no batch has looked at yet a checkpoint knows nothing: for
these the lag is bounded, the wall clock minus ``as_of``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TypeVar

from mayfly.checkpoint.clock_record import clocks_ahead
from mayfly.checkpoint.recent_batches import Progress
from mayfly.errors import NotClosed, StaleAnswer
from mayfly.lifetime import Duration, duration, format_micros, instant_text
from mayfly.runtime.clock import Clocks
from mayfly.storage import Repository

_ROUNDED = ((3_600_000_000, 60_000_000), (60_000_000, 1_000_000), (1_000_000, 1_000))
"""From how many µs on a duration is written in which unit."""
PAUSE = 0.05
"""Seconds between two looks at a checkpoint."""
T = TypeVar("T")


@dataclass(frozen=True)
class AnswerAge:
    """Of an answer beside its pipeline, µs."""

    as_of: int
    clock: int
    """The last instant that is closed, or about to be, for the streams behind the answer."""
    committed: int | None
    """The wall clock when the last batch ended; None before the first."""

    @property
    def staleness(self) -> int:
        return max(0, self.clock - 1 - self.as_of)

    @staticmethod
    def of(repository: Repository, streams: Iterable[str] | None, as_of: int) -> AnswerAge:
        """The age of an answer over some streams (None: all of them), as things are now."""
        newest = repository.current()
        stored = Clocks.from_json(newest.properties["clocks"])
        names = list(stored.streams if streams is None else streams)
        ahead = clocks_ahead(repository.directory, newest)
        reached = [
            clock
            for clocks in (stored, ahead)
            if clocks is not None
            for name in names
            if (clock := clocks.streams.get(name)) is not None
        ]
        batches = Progress.of(newest, stored.streams).batches
        ended = batches[-1].ended if batches else None
        return AnswerAge(as_of, max(reached, default=as_of + 1), ended)


@dataclass(frozen=True)
class AgeLimit:
    """What a reader allows, µs; None: any age, any lag, no waiting."""

    staleness: int | None = None
    lag: int | None = None
    wait: int = 0

    @staticmethod
    def of(
        staleness: Duration | None = None, lag: Duration | None = None, wait: Duration | None = None
    ) -> AgeLimit:
        limits = [None if bound is None else duration(bound) for bound in (staleness, lag, wait)]
        return AgeLimit(limits[0], limits[1], limits[2] or 0)

    def tightened(self, staleness: int | None) -> AgeLimit:
        """With a bound that the query itself brings."""
        bounds = [bound for bound in (self.staleness, staleness) if bound is not None]
        return replace(self, staleness=min(bounds, default=None))

    @property
    def unlimited(self) -> bool:
        return self.staleness is None and self.lag is None

    def check(self, age: AnswerAge) -> None:
        """Refuse what is too old."""
        now = time.time_ns() // 1000
        if self.staleness is not None and age.staleness > self.staleness:
            behind = f"{_about(age.staleness)} behind the pipeline, which has got to "
            behind += instant_text(age.clock - 1)
            limit = f"BOUNDED STALENESS {format_micros(self.staleness)}"
        elif self.lag is not None and now - age.as_of > self.lag:
            behind, limit = (
                f"{_about(now - age.as_of)} ago",
                f"lag {format_micros(self.lag)}",
            )
        else:
            return
        committed = "no batch has ended yet"
        if age.committed is not None:
            committed = f"the last batch ended {_about(max(0, now - age.committed))} ago"
        raise StaleAnswer(
            f"the answer would be of {instant_text(age.as_of)}, {behind}; more than {limit} "
            f"({committed})",
            "wait for the pipeline (wait, --wait), look at mayfly status whether it runs, or allow "
            "more",
        )

    def await_answer(self, ask: Callable[[bool], T], as_of: int | None = None) -> T:
        """Ask until there is an answer that is young enough, as long as waiting is allowed.

        ``ask`` takes whether to look at the newest version, and raises if its answer is too old.
        That of an instant ``as_of`` that is closed only grows older.
        """
        deadline = time.monotonic() + self.wait / 1e6
        newest = False
        while True:
            try:
                return ask(newest)
            except StaleAnswer:
                if as_of is not None or time.monotonic() >= deadline:
                    raise
            except NotClosed:
                if time.monotonic() >= deadline:
                    raise
            time.sleep(PAUSE)
            newest = True


def _about(micros: int) -> str:
    """A duration to about four digits.

    >>> _about(2_500_000), _about(95_289_092), _about(7_381_000_000)
    ('2 s 500 ms', '1 min 35 s', '2 h 3 min')
    """
    for longest, unit in _ROUNDED:
        if micros >= longest:
            return format_micros(micros // unit * unit)
    return format_micros(micros)
