"""What an archive is to become: wanted changes, checked, made into settings and a calendar.

What is not given stays, as far as the rest allows. The numbers of updates never go back, so that
what was inserted and declared void before a change stays in order with what comes after it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, TypedDict

from mayfly.archive.advice.cell_advice import AUTO
from mayfly.archive.layouts import UpdateTechnique, WaveLayout, WaveScheme
from mayfly.archive.layouts.doubly_partitioned import PartitionedLayout
from mayfly.archive.model.admission import LateRows
from mayfly.archive.model.calendar import CalendarDays, FixedIntervals, UpdateCalendar
from mayfly.archive.model.contract import Contract
from mayfly.archive.model.declaration import default_constituents, window_updates
from mayfly.archive.model.lifetime_declaration import LifetimeRequest, layout_named
from mayfly.archive.model.lifetimes import Lifetimes
from mayfly.archive.model.settings import ArchiveSettings
from mayfly.archive.model.state import ArchiveVersion
from mayfly.errors import InvalidSetting
from mayfly.keywords import whole
from mayfly.lifetime import Duration, duration, format_micros, gap_of

Advised = Callable[[], PartitionedLayout]
"""The layout that does the least work under the load of the last updates."""
OF_WINDOWS = ("scheme", "constituents", "technique", "window")
OF_LAYOUTS = ("layout", "groups", "lanes", "rebuild", "span", "fan_in", "contract")
OF_LIFETIMES = ("max_lifetime", "exp", "lifetime")


class WindowChanges(TypedDict, total=False):
    """What can be said, and later changed, of how an archive of a window is laid out."""

    scheme: str | None
    constituents: int | None
    technique: str | None


class LifetimeChanges(TypedDict, total=False):
    """What can be said, and later changed, where every row has its own lifetime."""

    layout: str | None
    groups: int | None
    lanes: int | None
    rebuild: bool | None
    span: int | None
    fan_in: int | None
    exp: str | None
    lifetime: str | timedelta | Mapping[str, Mapping[str, Duration]] | None
    contract: str | None


class ChangeOptions(WindowChanges, LifetimeChanges, total=False):
    """What can be changed, by name; ``Changes`` says what stays as it is."""

    max_lifetime: Duration | None
    window: int | str | timedelta | None
    refresh: Duration | None
    max_gap: Duration | None


@dataclass(frozen=True)
class Changes:
    """What ``migrate`` was given."""

    layout: str | None = None
    groups: int | None = None
    lanes: int | None = None
    rebuild: bool | None = None
    span: int | None = None
    fan_in: int | None = None
    max_lifetime: Duration | None = None
    exp: str | None = None
    lifetime: str | timedelta | Mapping[str, Mapping[str, Duration]] | None = None
    contract: str | None = None
    scheme: str | None = None
    constituents: int | None = None
    technique: str | None = None
    window: int | str | timedelta | None = None
    refresh: Duration | None = None
    max_gap: Duration | None = None

    def present(self, *names: str) -> list[str]:
        """Those of the names that have a value."""
        return [name for name in names if getattr(self, name) is not None]

    def refuse(self, names: list[str], reason: str, hint: str) -> None:
        if names:
            raise InvalidSetting(f"{', '.join(names)}: {reason}", hint)

    def applied(self, version: ArchiveVersion, advised: Advised) -> tuple[ArchiveSettings, int]:
        """The settings to be, and the number of the last update under them."""
        calendar, update = _renumbered(version, self.refresh)
        before = version.settings
        gap = before.max_gap if self.max_gap is None else gap_of(self.max_gap)
        return replace(before.family.changed(self, calendar, advised), max_gap=gap), update

    @property
    def of_stored_rows(self) -> bool:
        """Whether they concern rows that are stored, and not only those to come."""
        return self != Changes(max_gap=self.max_gap) or self.max_gap is None

    def of_lifetimes(
        self,
        before: ArchiveSettings,
        lifetimes: Lifetimes,
        calendar: UpdateCalendar,
        advised: Advised,
    ) -> ArchiveSettings:
        """What an archive of rows with these lifetimes becomes."""
        self.refuse(
            self.present(*OF_WINDOWS, "exp", "lifetime"),
            "not for an archive whose rows have their own lifetimes: each keeps the one it has",
            "leave it out; what can be changed is the layout, its sizes, max_lifetime, refresh, "
            "max_gap and the contract. Rows that are to live otherwise go into another archive",
        )
        longest = lifetimes.longest if self.max_lifetime is None else duration(self.max_lifetime)
        chosen = self._layout(before.cells, calendar.roll_over(longest), advised)
        sizes: dict[str, Any] = {
            name: getattr(self, name) for name in self.present("span", "fan_in")
        }
        return replace(
            before,
            calendar=calendar,
            layout=replace(chosen, **sizes),
            lifetimes=replace(lifetimes, longest=longest),
            contract=before.contract if self.contract is None else Contract.parse(self.contract),
        )

    def _layout(self, now: PartitionedLayout, updates: int, advised: Advised) -> PartitionedLayout:
        sizes = {name: getattr(self, name) for name in self.present("groups", "lanes", "rebuild")}
        if self.layout is None:
            if self.rebuild:
                sizes["span"] = 1
            return replace(now, rollover=updates, **sizes)
        if self.layout.lower() != AUTO:
            named = layout_named(self.layout, updates, **sizes)
            return replace(named, fan_in=now.fan_in, clustered=now.clustered)
        self.refuse(
            list(sizes),
            'layout="auto" decides about groups, lanes and rebuild',
            "leave them out, or name a layout",
        )
        return replace(advised(), rollover=updates, clustered=now.clustered)

    def of_window(self, before: ArchiveSettings, calendar: UpdateCalendar) -> ArchiveSettings:
        """What an archive of a window becomes."""
        if self.present(*OF_LIFETIMES):
            return self._with_lifetimes(before, calendar)
        self.refuse(
            self.present(*OF_LAYOUTS),
            "not for an archive of a window",
            "give max_lifetime, and exp or lifetime, to make it one of rows with their own "
            "lifetimes; or change its scheme, constituents, technique, window, refresh and max_gap",
        )
        now = before.wave
        window = now.window
        if self.window is not None:
            window = window_updates(self.window, calendar)
        elif calendar != before.calendar:
            window = _as_long(now.window, before.calendar, calendar)
        scheme = now.scheme if self.scheme is None else WaveScheme(self.scheme)
        constituents = self.constituents
        if constituents is None:
            allowed = scheme.fewest_constituents <= now.constituents <= window
            constituents = now.constituents if allowed else default_constituents(scheme, window)
        technique = before.technique if self.technique is None else UpdateTechnique(self.technique)
        whole("constituents", constituents)
        layout = WaveLayout(scheme, window, constituents, now.spread and scheme is now.scheme)
        return replace(before, calendar=calendar, layout=layout, technique=technique)

    def _with_lifetimes(self, before: ArchiveSettings, calendar: UpdateCalendar) -> ArchiveSettings:
        self.refuse(
            self.present(*OF_WINDOWS),
            "not where rows are to have their own lifetimes",
            "leave it out",
        )
        if self.max_lifetime is None:
            raise InvalidSetting(
                "rows are to have their own lifetimes, but the longest one is missing",
                "give max_lifetime too",
            )
        times: dict[str, Any] = {"refresh": "1 day"}
        if isinstance(calendar, CalendarDays):
            times |= {"zone": calendar.zone, "origin": calendar.first_day}
        else:
            times |= {"refresh": format_micros(calendar.interval), "origin": calendar.origin}
        named = self.present(*OF_LAYOUTS, *OF_LIFETIMES)
        late = LateRows.REFUSE if before.late is LateRows.REFUSE else LateRows.THIS_UPDATE
        request = LifetimeRequest(
            before.all_columns,
            key=before.key,
            time=before.time,
            late=late,
            parts=before.parts,
            keep_versions=before.keep_versions,
            **times,
            **{name: getattr(self, name) for name in named},
        )
        declared = request.declaration().settings
        return replace(declared, columns=before.columns, added=before.added)


def _renumbered(version: ArchiveVersion, refresh: Duration | None) -> tuple[UpdateCalendar, int]:
    """The calendar under the wanted refresh interval, and the number of the last update in it: as
    many as there would be since the origin, and not fewer than there were."""
    calendar, update = version.settings.calendar, version.state.update
    if refresh is None:
        return calendar, update
    if not isinstance(calendar, FixedIntervals):
        raise InvalidSetting("updates at midnights of a time zone stay daily", "leave refresh out")
    interval, now = duration(refresh), version.time
    number = max(update, -((calendar.origin - now) // max(1, interval)))
    return FixedIntervals(interval, now - number * interval), number


def _as_long(window: int, before: UpdateCalendar, after: UpdateCalendar) -> int:
    """As many updates as last as long as the window did."""
    assert isinstance(before, FixedIntervals)
    assert isinstance(after, FixedIntervals)
    lasts = window * before.interval
    updates, rest = divmod(lasts, after.interval)
    if rest or not updates:
        raise InvalidSetting(
            f"the window of {format_micros(lasts)} is not a multiple of the refresh ({after})",
            "give window too, as a multiple of it or a number of updates",
        )
    return updates
