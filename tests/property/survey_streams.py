"""Streams for the forms of the survey: ties, NULLs, bursts and silence, arrays and maps."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa

from mayfly import LocalSession
from mayfly.testing.instant_oracle import SECOND, InstantOracle, TimedStreams, TwoTexts
from mayfly.testing.users_forms import declare_users_aggregates

S = pa.schema(
    {"ts": pa.int64(), "seq": pa.int64(), "k": pa.int32(), "i": pa.int64(), "x": pa.float64(),
     "y": pa.float64(), "d": pa.decimal128(6, 2), "t": pa.string(), "a": pa.list_(pa.int32()),
     "m": pa.map_(pa.string(), pa.int32())}
)  # fmt: skip
R = pa.schema({"ts": pa.int64(), "seq": pa.int64(), "k": pa.int32(), "z": pa.float64()})


def _row(rng: Random) -> dict[str, Any]:
    return {
        "k": rng.choice((1, 1, 2, 3, None)),
        "i": rng.choice((0, 1, 2, 3, -4, None)),
        "x": rng.choice((0.5, 1.25, -2.0, 4.75, 4.75, None)),
        "y": rng.choice((0.25, 1.0, 3.5, -7.0, None)),
        "d": rng.choice((Decimal("0.25"), Decimal("-3.50"), Decimal("10.00"), None)),
        "t": rng.choice(("a", "b", "ab", "", None)),
        "a": rng.choice(([], [1], [3, 1, None], [2, 2], [None], None)),
        "m": rng.choice(([], [("p", 1)], [("p", None), ("q", 7)], None)),
    }


def _other(rng: Random) -> dict[str, Any]:
    return {"k": rng.choice((1, 2, 3, None)), "z": rng.choice((0.5, 1.0, 3.0, -1.75, None))}


def _times(rng: Random, count: int) -> list[int]:
    now, times = rng.randint(0, 3) * SECOND, list[int]()
    for _ in range(count):
        now += rng.choice((0, 0, 1, 1, 2, 3, 40 if rng.random() < 0.1 else 1)) * SECOND
        times.append(now)
    return times


def random_streams(rng: Random) -> TimedStreams:
    rows = {
        name: [
            {"ts": ts, "seq": seq, **make(rng)}
            for seq, ts in enumerate(_times(rng, rng.choice((0, 3, 9, 18))))
        ]
        for name, make in (("s", _row), ("r", _other))
    }
    return TimedStreams(rows, {"s": S, "r": R}, rng.choice((1, 4, 9)) * SECOND)


def session() -> LocalSession:
    local = LocalSession()
    local.stream("s", S, sequence="seq")
    local.stream("r", R, sequence="seq")
    declare_users_aggregates(local)
    return local


def check_forms(
    rng: Random, make: Callable[[Random, str], TwoTexts], count: int, before: str = ""
) -> None:
    """So many queries over streams of their own, each right at every instant."""
    streams = random_streams(rng)
    oracle, local = InstantOracle(streams), session()
    if before:
        local.execute(before)
    window = f"RANGE {streams.length // SECOND} SECONDS"
    for _ in range(count):
        case = make(rng, window)
        strategy = rng.choice(("UPA", "UPA", "NT", "DIRECT"))
        run = local.query(case.cql, strategy=strategy, buckets=rng.choice((1, 1, 3)))
        own = run.clocks.streams
        for batch in streams.batches(rng):
            run.feed({name: table for name, table in batch.items() if name in own})
        run.feed({}, dict.fromkeys(own, oracle.end + 1))
        problem = oracle.difference(case, run)
        assert not problem, f"{strategy}: {problem}"
    oracle.close()
