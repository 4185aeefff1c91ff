"""Clocks: which instants are closed.

A stream's clock is its largest ts so far minus its slack, or its latest heartbeat, whichever is
larger; a query's clock is the smallest of its streams'. Clock c closes the instants before c.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from mayfly.errors import LimitExceeded, NotClosed
from mayfly.lifetime import MIN_TIME, NEVER, format_micros, instant, instant_text
from mayfly.runtime.max_gap import Reach, Spans


@dataclass(frozen=True, slots=True)
class Clocks:
    """The clock of every stream (None: nothing known yet) and the largest ts of each."""

    streams: Mapping[str, int | None]
    largest: Mapping[str, int | None] = field(default_factory=dict)
    ended: bool = False
    jumps: Mapping[str, Spans] = field(default_factory=dict)
    """Per stream with MAX GAP in a replay: times too far ahead, until a batch confirms them."""

    @staticmethod
    def unset(names: tuple[str, ...]) -> Clocks:
        return Clocks(dict.fromkeys(names), dict.fromkeys(names))

    @property
    def query(self) -> int:
        """The query's clock; MIN_TIME while some stream has none, so that nothing is closed."""
        clocks = [clock for clock in self.streams.values() if clock is not None]
        return min(clocks) if len(clocks) == len(self.streams) else MIN_TIME

    def of(self, streams: Iterable[str]) -> Clocks:
        """Of these streams only; one that is not read has no clock."""
        names = list(streams)
        kept = {name: self.streams.get(name) for name in names}
        jumps = {n: self.jumps[n] for n in names if n in self.jumps}
        largest = {n: self.largest.get(n) for n in names}
        return replace(self, streams=kept, largest=largest, jumps=jumps)

    @property
    def gap(self) -> int:
        """How far the leading stream's clock is ahead of the last one's."""
        clocks = [clock for clock in self.streams.values() if clock is not None]
        return max(clocks) - min(clocks) if clocks else 0

    def advanced(
        self,
        largest: Mapping[str, int | None],
        slack: Mapping[str, int],
        heartbeats: Mapping[str, int] | None = None,
    ) -> Clocks:
        """After a batch with these largest timestamps and these promises."""
        streams, seen = dict(self.streams), dict(self.largest)
        for name, ts in largest.items():
            if ts is not None:
                seen[name] = _later(seen.get(name), ts)
                streams[name] = _later(streams[name], max(ts - slack[name], MIN_TIME))
        for name, promised in (heartbeats or {}).items():
            streams[name] = _later(streams[name], promised)
        return replace(self, streams=streams, largest=seen, ended=False)

    def reaching(
        self, came: Mapping[str, Spans], steps: Mapping[str, int]
    ) -> tuple[Clocks, dict[str, int | None]]:
        """With the jumps after a batch of a replay, and the largest times that count."""
        reached = {
            name: Reach(self.largest.get(name), self.jumps.get(name, ())).after(came[name], step)
            for name, step in steps.items()
        }
        jumps = {name: reach.jump for name, reach in reached.items() if reach.jump}
        others = {name: jump for name, jump in self.jumps.items() if name not in steps}
        return replace(self, jumps={**others, **jumps}), {
            name: reach.largest for name, reach in reached.items()
        }

    def closed(self, together: Iterable[Iterable[str]] = ()) -> Clocks:
        """After the end of all input: the last instant is closed too.

        ``together`` are the streams of each query: those that no query connects end each at its
        own last instant. By default one query reads all.
        """
        streams = dict(self.streams)
        for part in _connected(together or [streams]):
            part &= streams.keys()
            ends = [ts + 1 for name in part if (ts := self.largest.get(name)) is not None]
            ends += [clock for name in part if (clock := streams[name]) is not None]
            if ends:
                streams |= dict.fromkeys(part, min(max(ends), NEVER))
        return replace(self, streams=streams, ended=True)

    def check_gap(self, limit: int | None) -> None:
        if limit is None or self.gap <= limit:
            return
        clocks = {name: clock for name, clock in self.streams.items() if clock is not None}
        ahead, behind = max(clocks, key=clocks.__getitem__), min(clocks, key=clocks.__getitem__)
        raise LimitExceeded(
            f"stream {ahead} is {format_micros(self.gap)} ahead of stream {behind}, "
            f"more than max_gap = {format_micros(limit)}: its rows would have to wait",
            f"feed {behind}, declare IDLE heartbeats for it, or raise max_gap",
        )

    def to_json(self) -> dict[str, object]:
        return {
            "streams": dict(self.streams),
            "largest": dict(self.largest),
            "ended": self.ended,
            **({"jumps": dict(self.jumps)} if self.jumps else {}),
        }

    @staticmethod
    def from_json(stored: Mapping[str, object]) -> Clocks:
        return Clocks(
            streams=stored["streams"],  # type: ignore[arg-type]
            largest=stored["largest"],  # type: ignore[arg-type]
            ended=bool(stored["ended"]),
            jumps={
                name: tuple((low, high) for low, high in listed)
                for name, listed in stored.get("jumps", {}).items()  # type: ignore[attr-defined]
            },
        )


def _connected(together: Iterable[Iterable[str]]) -> list[set[str]]:
    """Sets of streams such that a query that reads one of a set reads no other set."""
    parts: list[set[str]] = []
    for streams in together:
        part = set(streams)
        part = part.union(*(group for group in parts if group & part))
        parts = [part, *(group for group in parts if not group & part)]
    return parts


def _later(clock: int | None, reached: int) -> int:
    return reached if clock is None else max(clock, reached)


def closed_instant(as_of: int | str | None, clock: int, *, source: str = "wait for") -> int:
    """The instant that is asked for, by default the last closed one; it must be closed."""
    if clock == MIN_TIME:
        raise NotClosed(
            "no instant is closed yet: some stream has sent nothing", f"{source} more input"
        )
    moment = clock - 1 if as_of is None else instant(as_of)
    if moment >= clock:
        raise NotClosed(
            f"the instant {instant_text(moment)} is not closed yet: "
            f"the query's clock is {instant_text(clock)}",
            f"ask for an earlier instant, or {source} more input",
        )
    return moment
