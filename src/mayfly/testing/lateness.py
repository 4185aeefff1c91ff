"""Which rows are late: the rules for clocks, slack and heartbeats, slow and obvious.

After a batch, a stream's clock is its largest ts so far minus its slack, or its largest
heartbeat, whichever is larger; the query's clock is the smallest of its streams', and there is
none before every stream has one. Clock c closes the instants before c. A row is late if its
instant was closed when its batch began.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from mayfly.errors import InvalidSetting
from mayfly.lifetime import MIN_TIME, Duration, duration
from mayfly.testing.seeded_streams import micros_of


@dataclass(frozen=True)
class Outcome:
    """What one batch brought: rows by stream, and the clocks after it (None: no clock yet)."""

    accepted: dict[str, pa.Table]
    late: dict[str, pa.Table]
    clock: int | None
    stream_clocks: dict[str, int | None]


def judge_lateness(
    batches: Sequence[Mapping[str, pa.Table]],
    slack: Duration | Mapping[str, Duration] = 0,
    heartbeats: Sequence[Mapping[str, int]] | None = None,
    ts: str = "ts",
) -> list[Outcome]:
    """One outcome per batch; ``heartbeats[i]`` are the promises received with batch i."""
    if heartbeats is not None and len(heartbeats) != len(batches):
        raise InvalidSetting(
            f"{len(heartbeats)} heartbeats for {len(batches)} batches",
            "give one mapping per batch, empty where nothing was promised",
        )
    names = list(batches[0]) if batches else []
    clocks: dict[str, int | None] = dict.fromkeys(names)
    outcomes = []
    for i, batch in enumerate(batches):
        began = _query_clock(clocks)
        accepted, late = {}, {}
        for name in names:
            times = micros_of(batch[name], ts).tolist()
            is_late = [began is not None and instant < began for instant in times]
            late[name] = batch[name].filter(pa.array(is_late, pa.bool_()))
            accepted[name] = batch[name].filter(pa.array([not x for x in is_late], pa.bool_()))
            allowance = duration(slack[name] if isinstance(slack, Mapping) else slack)
            for instant in times:
                clocks[name] = _later(clocks[name], max(instant - allowance, MIN_TIME))
            if heartbeats is not None and name in heartbeats[i]:
                clocks[name] = _later(clocks[name], heartbeats[i][name])
        outcomes.append(Outcome(accepted, late, _query_clock(clocks), dict(clocks)))
    return outcomes


def _later(clock: int | None, reached: int) -> int:
    return reached if clock is None else max(clock, reached)


def _query_clock(clocks: Mapping[str, int | None]) -> int | None:
    instants = [clock for clock in clocks.values() if clock is not None]
    return min(instants) if instants and len(instants) == len(clocks) else None
