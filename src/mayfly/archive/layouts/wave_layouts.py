"""Wave layouts: the last W days spread over n constituents, as six state machines.

Idea: a layout is its settings; ``transition`` maps the state after one day to the operations of
the next day and the state they lead to. Work that must be done before the new day can be
queried is the *transition*; work that prepares later days is *pre-transition* work.
Invariant: after day d ≥ W the constituents are disjoint and hold exactly days d−W+1..d
(WATA: those and at most ``most_stored_days`` in all). The state alone decides what comes next,
so a stored state resumes where it stood.
Cost: proportional to the days of the indexes touched. wave-indices-1997, 3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from mayfly.archive.layouts import reindex, throw_away
from mayfly.archive.layouts.clusters import (
    even_clusters,
    most_stored_days,
    throw_away_clusters,
)
from mayfly.archive.layouts.operations import (
    AddIndex,
    AddLateRows,
    AddToIndex,
    BuildIndex,
    Days,
    Operation,
    WaveState,
    execute,
    format_days,
)
from mayfly.errors import BadInput, InvalidSetting

_Work = Callable[[WaveState, int, int], tuple[Operation, ...]]


class WaveScheme(StrEnum):
    """The six ways to keep the last W days."""

    DEL = "DEL"
    REINDEX = "REINDEX"
    REINDEX_PLUS = "REINDEX+"
    REINDEX_PLUS_PLUS = "REINDEX++"
    WATA = "WATA"
    RATA = "RATA"

    @classmethod
    def _missing_(cls, value: object) -> WaveScheme:
        for scheme in cls:
            if scheme.value == str(value).upper():
                return scheme
        raise InvalidSetting(f"there is no wave scheme {value!r}", f"use one of {', '.join(cls)}")

    @property
    def hard(self) -> bool:
        """Whether exactly the last W days are stored; otherwise some expired ones linger."""
        return self is not WaveScheme.WATA

    @property
    def throws_away(self) -> bool:
        return self in (WaveScheme.WATA, WaveScheme.RATA)

    @property
    def fewest_constituents(self) -> int:
        return 2 if self.throws_away else 1


@dataclass(frozen=True, slots=True)
class Transition:
    """The work of one day, between the state before and the state it leads to."""

    before: WaveState
    transition: tuple[Operation, ...]
    """Must be done before the new day can be queried."""
    pre_transition: tuple[Operation, ...]
    """Prepares later days; the new day can be queried meanwhile."""
    arrived: WaveState
    """Between the two: the new day can be queried, later days are not prepared yet."""
    after: WaveState

    @property
    def day(self) -> int:
        return self.after.day

    @property
    def operations(self) -> tuple[Operation, ...]:
        return self.transition + self.pre_transition


@dataclass(frozen=True, slots=True)
class WaveLayout:
    """A scheme for the last ``window`` days over ``constituents`` indexes.

    ``spread`` lets RATA and REINDEX++ prepare their temporaries day by day instead of all at once.
    """

    scheme: WaveScheme
    window: int
    constituents: int
    spread: bool = False

    def __post_init__(self) -> None:
        fewest = self.scheme.fewest_constituents
        if self.window < fewest:
            raise InvalidSetting(
                f"{self.scheme} cannot keep a window of {self.window} days",
                f"use a window of at least {fewest} updates",
            )
        if not fewest <= self.constituents <= self.window:
            raise InvalidSetting(
                f"{self.scheme} with a window of {self.window} days cannot have "
                f"{self.constituents} constituents",
                f"use {fewest} to {self.window}",
            )
        self._check_spread()

    def _check_spread(self) -> None:
        if not self.spread:
            return
        if self.scheme not in _PREPARE_SPREAD:
            raise InvalidSetting(
                f"{self.scheme} has no temporaries that could be spread over the days before",
                f"leave spread out, or use {' or '.join(_PREPARE_SPREAD)}",
            )
        fewest = self.scheme.fewest_constituents
        if self.constituents == fewest and self.window > fewest + 1:
            raise InvalidSetting(
                f"{self.scheme} with {fewest} constituents cannot spread its temporaries: the one "
                "they are made from is still growing until the day before they are needed",
                f"use {fewest + 1} or more constituents, or leave spread out",
            )

    @property
    def initial_clusters(self) -> tuple[range, ...]:
        split = throw_away_clusters if self.scheme.throws_away else even_clusters
        return split(self.window, self.constituents)

    @property
    def most_stored_days(self) -> int:
        """The most days the constituents ever hold together."""
        if self.scheme.hard:
            return self.window
        return most_stored_days(self.window, self.constituents)

    @property
    def period(self) -> int:
        """After how many days the pattern of cluster lengths repeats."""
        return self.window - 1 if self.scheme.throws_away else self.window

    @property
    def round(self) -> int:
        """After how many days the same constituents hold days of the same ages again."""
        return self.period * (self.constituents if self.scheme.throws_away else 1)

    def skip_rounds(self, state: WaveState, until: int) -> WaveState:
        """The state after as many whole rounds as fit before ``until``, found without a step.

        Only where at least 2 W days pass does nothing of before remain; otherwise, and during
        start-up, the state stays as it is.
        """
        days = (until - state.day) // self.round * self.round
        if state.day < self.window or days < 2 * self.window:
            return state
        later = self.scheme is WaveScheme.RATA  # its temporaries are named for their day
        return WaveState(
            state.day + days,
            {name: _shifted(held, days) for name, held in state.constituents.items()},
            {
                throw_away.later_name(name, days) if later else name: _shifted(held, days)
                for name, held in state.temporaries.items()
            },
        )

    def transition(self, state: WaveState, day: int, late: Days = frozenset()) -> Transition:
        """The work of ``day``; ``late`` are earlier days for which rows came with it."""
        if day != state.day + 1:
            raise BadInput(
                f"day {day} cannot follow day {state.day}",
                f"run day {state.day + 1} first, without rows if there are none",
            )
        arrive = _start_up(self) if day <= self.window else _ARRIVE[self.scheme]
        arrival = arrive(state, day, self.window)
        arrived = execute(state, arrival, day)
        late_now, late_then = late_additions(arrived, late)
        preparation = late_then + self._prepare(arrived, day)
        rest = late_now + preparation
        after = execute(arrived, rest, day) if rest else arrived
        return Transition(state, arrival + late_now, preparation, arrived, after)

    def preparation(self, arrived: WaveState) -> tuple[Operation, ...]:
        """The pre-transition work of the day that has just arrived."""
        return self._prepare(arrived, arrived.day)

    def _prepare(self, arrived: WaveState, day: int) -> tuple[Operation, ...]:
        if self.spread:
            return _PREPARE_SPREAD[self.scheme](arrived, day, self.window)
        if day < self.window or self.scheme not in _PREPARE:
            return ()
        return _PREPARE[self.scheme](arrived, day, self.window)

    def run(self, state: WaveState, until: int) -> Iterator[Transition]:
        """The transitions of the days after ``state`` up to ``until``, included."""
        for day in range(state.day + 1, until + 1):
            step = self.transition(state, day)
            yield step
            state = step.after

    def state_after(self, day: int) -> WaveState:
        """The state that ``day`` updates from the start lead to."""
        state = WaveState()
        for step in self.run(state, day):
            state = step.after
        return state


def late_additions(
    state: WaveState, days: Days
) -> tuple[tuple[Operation, ...], tuple[Operation, ...]]:
    """Adds rows that came late to every constituent, and every temporary, that holds their day."""
    if not days:
        return (), ()
    homeless = days - state.stored_days | {day for day in days if day >= state.day}
    if homeless:
        raise BadInput(
            f"on day {state.day} there is no earlier constituent for late rows of "
            f"{format_days(homeless)}",
            "these days have expired or lie before the archive's first; leave the rows out",
        )
    constituents, temporaries = (
        tuple(AddLateRows(days & held, name) for name, held in indexes.items() if days & held)
        for indexes in (state.constituents, state.temporaries)
    )
    return constituents, temporaries


def _shifted(held: Days, days: int) -> Days:
    return frozenset(day + days for day in held)


def _start_up(layout: WaveLayout) -> _Work:
    """Days 1..W fill the initial clusters in order."""

    def fill(state: WaveState, day: int, window: int) -> tuple[Operation, ...]:
        clusters = layout.initial_clusters
        number = next(index for index, cluster in enumerate(clusters) if day in cluster)
        name, today = f"I{number + 1}", frozenset({day})
        if day == min(clusters[number]):
            return (BuildIndex(today, name), AddIndex(name))
        if layout.scheme is WaveScheme.REINDEX:
            return (BuildIndex(state.constituents[name] | today, name),)
        return (AddToIndex(today, name),)

    return fill


_ARRIVE: dict[WaveScheme, _Work] = {
    WaveScheme.DEL: reindex.delete_and_add,
    WaveScheme.REINDEX: reindex.rebuild,
    WaveScheme.REINDEX_PLUS: reindex.rebuild_on_temp,
    WaveScheme.REINDEX_PLUS_PLUS: reindex.add_to_top_rung,
    WaveScheme.WATA: throw_away.wait_and_throw_away,
    WaveScheme.RATA: throw_away.swap_and_throw_away,
}
_PREPARE: dict[WaveScheme, _Work] = {
    WaveScheme.REINDEX_PLUS_PLUS: reindex.climb,
    WaveScheme.RATA: throw_away.prepare_at_once,
}
_PREPARE_SPREAD: dict[WaveScheme, _Work] = {
    WaveScheme.REINDEX_PLUS_PLUS: reindex.climb_spread,
    WaveScheme.RATA: throw_away.prepare_spread,
}
"""Also during start-up."""
