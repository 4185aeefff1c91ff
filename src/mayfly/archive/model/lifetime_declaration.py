"""Archives of rows with their own lifetimes, in the words of their users, made into settings."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from datetime import timedelta
from math import isqrt

from mayfly.archive.layouts.doubly_partitioned import (
    BASELINES,
    PartitionedLayout,
    PartitionRule,
    baseline,
    square,
)
from mayfly.archive.model.admission import LateRows
from mayfly.archive.model.contract import Contract
from mayfly.archive.model.declaration import Declaration, Origin, calendar_from, named_columns
from mayfly.archive.model.lifetimes import declared_lifetimes
from mayfly.archive.model.settings import MOST_CONSTITUENTS, ArchiveSettings, key_names
from mayfly.errors import InvalidSetting
from mayfly.keywords import flag, text, whole
from mayfly.lifetime import Duration, gap_of

SUB_INDICES = 16
YOUNG = 2
"""Most runs a probe meets are of the first two levels, which hold about a fifth of the rows."""
ROW_GROUP_BYTES, COMPRESSION = 131_072, "lz4"
"""A probe decodes one row group of every run it meets, and there are many runs: small groups and
quick decoding matter more here than under waves."""
_PAPERS = re.compile(r"(lazy|count)?-?(no)?-?rebuild\s*(?:(\d+)\s*x\s*(\d+))?", re.IGNORECASE)
_SIZED = re.compile(r"([a-z][a-z-]*?)\s*(?:(\d+)(?:\s*x\s*(\d+))?)?", re.IGNORECASE)


@dataclass(frozen=True)
class LifetimeRequest:
    """An archive whose rows live up to ``max_lifetime`` (S), as it is asked for.

    Each lives as long as its ``exp`` column or its ``lifetime`` says, refreshed every ``refresh``
    (Δ). With ``counts`` they live as long as they are in windows of a number of rows, by their
    positions in columns. ``max_gap`` is as in ``WindowRequest``.

    >>> request = LifetimeRequest(
    ...     "k STRING, ts TIMESTAMP, exp TIMESTAMP", key="k", max_lifetime="90 days",
    ...     layout="Rebuild 3x3",
    ... )
    >>> settings = request.declaration().settings
    >>> str(settings.layout), settings.window
    ('round-robin Rebuild 3x3', 90)
    """

    columns: str | Mapping[str, str]
    _: KW_ONLY
    key: str | Sequence[str]
    max_lifetime: Duration
    exp: str | None = None
    lifetime: str | timedelta | Mapping[str, Mapping[str, Duration]] | None = None
    counts: Mapping[str, int] | None = None
    time: str = "ts"
    refresh: Duration = "1 day"
    origin: Origin | None = None
    zone: str | None = None
    layout: str | None = None
    groups: int | None = None
    lanes: int | None = None
    rebuild: bool | None = None
    span: int | None = None
    fan_in: int = 4
    clustered: bool = True
    late: str = "this update"
    contract: str = "HARD"
    parts: int = 1
    keep_versions: int = 2
    row_group_bytes: int = ROW_GROUP_BYTES
    compression: str = COMPRESSION
    young: int = YOUNG
    max_gap: Duration | None = None

    def declaration(self) -> Declaration:
        """What is asked for, checked and made into settings."""
        named = named_columns(self.columns)
        calendar = calendar_from(self.refresh, self.origin, self.zone)
        lifetimes = declared_lifetimes(
            self.max_lifetime, self.exp, self.lifetime, named, self.counts
        )
        settings = ArchiveSettings(
            columns=named,
            key=key_names(self.key),
            time=self.time,
            calendar=calendar,
            layout=self._layout(calendar.roll_over(lifetimes.longest)),
            late=_late(text("late", self.late)),
            parts=whole("parts", self.parts),
            keep_versions=whole("keep_versions", self.keep_versions),
            row_group_bytes=whole("row_group_bytes", self.row_group_bytes),
            compression=self.compression,
            lifetimes=lifetimes,
            contract=Contract.parse(text("contract", self.contract)),
            young=whole("young", self.young),
            max_gap=gap_of(self.max_gap),
        )
        return Declaration(settings, self.origin is None)

    def _layout(self, updates: int) -> PartitionedLayout:
        sizes = (self.groups, self.lanes, self.rebuild)
        if (self.layout, *sizes) == (None, None, None, None):
            chosen = default_layout(updates)
        else:
            if self.rebuild is not None:
                flag("rebuild", self.rebuild)
            chosen = layout_named(text("layout", self.layout or "round-robin"), updates, *sizes)
        if self.span is not None:
            chosen = replace(chosen, span=whole("span", self.span))
        fan_in, clustered = whole("fan_in", self.fan_in), flag("clustered", self.clustered)
        return replace(chosen, fan_in=fan_in, clustered=clustered)


def default_layout(updates: int) -> PartitionedLayout:
    """Quick to update and to probe: about √p ranges of removing updates, merged, never rebuilt."""
    span = max(1, isqrt(updates), updates // MOST_CONSTITUENTS + 1)
    return PartitionedLayout(
        PartitionRule.ROUND_ROBIN, updates, 1, -(-updates // span), rebuild=False, span=span
    )


def layout_named(
    name: str,
    updates: int,
    groups: int | None = None,
    lanes: int | None = None,
    rebuild: bool | None = None,
) -> PartitionedLayout:
    """A layout by its rule or by the papers' name: round-robin, lazy 4x4, NoRebuild3x3, R-ins16."""
    text = name.strip()
    if papers := _PAPERS.fullmatch(text):
        rule, sizes = PartitionRule(papers[1] or PartitionRule.ROUND_ROBIN), papers.group(3, 4)
        _require_no_other(name, "rebuild", not papers[2], rebuild)
        rebuild = not papers[2]
    elif (sized := _SIZED.fullmatch(text)) is None:
        raise InvalidSetting(f"cannot read the layout {name!r}", "write it like round-robin 4x4")
    elif sized[1].lower() in (baseline_name.lower() for baseline_name in BASELINES):
        return _baseline(sized, updates, groups, lanes, rebuild)
    else:
        rule, sizes = PartitionRule(sized[1]), sized.group(2, 3)
    default = square(SUB_INDICES)
    if rule.throws_away:
        default = (max(2, min(default[0], updates)), default[1])
    counted = (
        _number(name, "groups", sizes[0], groups, default[0]),
        _number(name, "lanes", sizes[1], lanes, default[1]),
    )
    return PartitionedLayout(rule, updates, *counted, rebuild=bool(rebuild))


def _baseline(
    named: re.Match[str], updates: int, groups: int | None, lanes: int | None, rebuild: bool | None
) -> PartitionedLayout:
    """A layout divided by insertion or by expiration alone; its name says all but its size."""
    text, by = named[0], "expiration" if named[1].lower().endswith("exp") else "insertion"
    which, own, other = "groups", groups, lanes
    if by == "expiration":
        which, own, other = "lanes", lanes, groups
    if named[3] is not None or other is not None:
        raise InvalidSetting(
            f"the layout {text} is divided by {by} alone, into {which}",
            f"give one number, like {named[1]}{SUB_INDICES}, or {which}=…",
        )
    layout = baseline(named[1], updates, _number(text, which, named[2], own, SUB_INDICES))
    _require_no_other(text, "rebuild", layout.rebuild, rebuild)
    return layout


def _number(name: str, which: str, written: str | None, setting: int | None, default: int) -> int:
    """A size that stands in the name of a layout or beside it."""
    if written is not None:
        _require_no_other(name, which, int(written), setting)
        return int(written)
    return default if setting is None else whole(which, setting)


def _require_no_other(name: str, which: str, meant: int, setting: int | None) -> None:
    if setting is not None and setting != meant:
        raise InvalidSetting(
            f"the layout {name} and {which}={setting} contradict each other",
            f"leave {which} out, or give the layout without it",
        )


def _late(late: str) -> LateRows:
    choice = late.strip().lower().replace("_", " ").replace("-", " ")
    allowed = [rule.value for rule in (LateRows.THIS_UPDATE, LateRows.REFUSE)]
    if choice not in allowed:
        raise InvalidSetting(
            f"there is no rule {late!r} for late rows with their own lifetimes",
            f"use one of {', '.join(allowed)}",
        )
    return LateRows(choice)
