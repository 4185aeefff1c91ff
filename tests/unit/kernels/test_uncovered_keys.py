"""NOT EXISTS forgets keys that nobody asks for, not those of rows that have just come."""

from __future__ import annotations

from typing import Any

from mayfly import LocalSession

NAMES = ("s", "t")
SOME = 100


def rows(ts: int, *keys: int) -> list[dict[str, Any]]:
    return [{"ts": ts, "k": key} for key in keys]


def test_the_key_of_a_new_row_is_known_when_covers_are_merged() -> None:
    session = LocalSession()
    for name in NAMES:
        session.stream(name, {"ts": "BIGINT", "k": "BIGINT"})
    run = session.query(
        "SELECT k FROM s WHERE NOT EXISTS (SELECT * FROM t [RANGE 1000 us] WHERE t.k = s.k)"
    )
    run.feed({"t": [*rows(0, 0), *rows(5, *range(1, SOME))]}, {"s": 6, "t": 6})
    run.feed({"t": rows(6, *range(SOME, 2 * SOME))}, {"s": 7, "t": 7})
    # The row comes while its key is covered, and enters in the step in which that ends.
    run.feed({"s": rows(900, 0)}, {"s": 1_001, "t": 1_001})
    assert run.snapshot().to_pylist() == [{"k": 0}]
    run.feed({"t": rows(1_100, 0)}, {"s": 1_200, "t": 1_200})
    assert run.snapshot().to_pylist() == []
    assert run.lifetimes().select(["ts", "exp"]).to_pylist() == [{"ts": 1_000, "exp": 1_100}]
