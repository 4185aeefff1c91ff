"""The bounds of approximate answers, as columns: exact answers of the same rows lie between."""

from __future__ import annotations

from bisect import bisect
from collections import Counter
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from mayfly.cql.messages import CqlError
from mayfly.kernels.value_sketches import KllSketch
from mayfly.runtime.local_session import LocalSession

DECLARED = (
    "CREATE STREAM s (ts BIGINT, k BIGINT, g STRING) FROM parquet('x') TIMESTAMP BY ts SLACK 0 us"
)
CALLS = ("APPROX_COUNT_DISTINCT{}(k)", "APPROX_PERCENTILE{}(k, 0.3)", "APPROX_TOP_K{}(g, 3)")
LISTED = ", ".join(
    f"{call.format(bound)} AS c{n}{bound}"
    for n, call in enumerate(CALLS)
    for bound in ("", "_LOW", "_HIGH")
)
ASKED = {"v0": "v0", "v5": "v5"}
LISTED += "".join(
    f", APPROX_FREQUENCY{bound}({column}, {value}) AS {name}{bound}"
    for column, value, name in (("g", "'v0'", "v0"), ("g", "'v5'", "v5"), ("k", "7", "n7"))
    for bound in ("", "_LOW", "_HIGH")
)
FIRST, LAST, ROWS = 1, 60, 12_000


def rows(seed: int) -> tuple[list[int], list[int], list[str]]:
    """Skewed values, more of them than sketches hold."""
    rng = Random(seed)
    times = sorted(rng.randint(FIRST, LAST) for _ in range(ROWS))
    values = [rng.randint(0, 9_000) for _ in times]
    texts = [f"v{rng.randint(0, 5 if rng.random() < 0.3 else 4_000)}" for _ in times]
    return times, values, texts


def answered(window: str, seed: int, batches: int) -> dict[int, dict[str, Any]]:
    session = LocalSession()
    session.execute(DECLARED)
    run = session.query(f"SELECT {LISTED} FROM s {window}")
    times, values, texts = rows(seed)
    table = pa.table({"ts": times, "k": values, "g": texts})
    for part in range(batches):
        run.feed({"s": table.slice(part * ROWS // batches, ROWS // batches)})
    run.finish()
    return {at: run.snapshot(at).to_pylist()[0] for at in (40, 50, 60)}


@pytest.mark.parametrize(("seed", "batches"), [(1, 1), (2, 4)])
def test_exact_answers_lie_between_the_bounds_that_are_shown(seed: int, batches: int) -> None:
    times, values, texts = rows(seed)
    for at, row in answered("[RANGE 40 us SLIDE 10 us]", seed, batches).items():
        alive = [n for n, ts in enumerate(times) if at - 40 < ts <= at]
        distinct = len({values[n] for n in alive})
        assert row["c0_LOW"] < row["c0"] < row["c0_HIGH"]
        assert row["c0_LOW"] <= distinct <= row["c0_HIGH"]
        ordered = sorted(values[n] for n in alive)
        assert row["c1_LOW"] <= row["c1"] <= row["c1_HIGH"]
        assert row["c1_LOW"] < row["c1_HIGH"]
        for bound in ("c1_LOW", "c1_HIGH"):
            # KLL draws by lot: that the exact one is between them holds in 99 of 100.
            assert abs(bisect(ordered, row[bound]) / len(ordered) - 0.3) < 0.06
        counts = Counter(texts[n] for n in alive)
        least, most = (
            {item["value"]: item["count"] for item in row[name]} for name in ("c2_LOW", "c2_HIGH")
        )
        assert row["c2"] == row["c2_LOW"]
        assert len(least) == 3
        assert any(most[value] > least[value] for value in least)
        assert all(least[value] <= counts[value] <= most[value] for value in least)
        # Count-Min is never too small; here its bounds hold for each value.
        for name, value in ASKED.items():
            assert row[f"{name}_LOW"] < row[name] == row[f"{name}_HIGH"]
            assert row[f"{name}_LOW"] <= counts[value] <= row[name], (name, counts[value])
        seldom = Counter(values[n] for n in alive)[7]
        assert row["n7_LOW"] <= seldom < row["n7"] < 0.01 * len(alive)


def test_an_answer_and_its_bounds_are_merged_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers with other parameters have merged sketches of their own."""
    merged = list[int]()
    joined = KllSketch.joined

    def counted(kind: KllSketch, sketch: Any, other: Any) -> Any:
        merged[-1] += 1
        return joined(kind, sketch, other)

    monkeypatch.setattr(KllSketch, "joined", counted)
    times, values, texts = rows(3)
    table = pa.table({"ts": times, "k": values, "g": texts}).slice(0, 6_000)
    bounds = ("", "_LOW", "_HIGH")
    asked = [("", 0.3)], [(bound, 0.3) for bound in bounds], [("", 0.3), ("", 0.9)]
    answers = []
    for calls in asked:
        merged.append(0)
        listed = [f"APPROX_PERCENTILE{bound}(k, {q}) AS c{n}" for n, (bound, q) in enumerate(calls)]
        session = LocalSession()
        session.execute(DECLARED)
        run = session.query(f"SELECT {', '.join(listed)} FROM s [RANGE 20 us SLIDE 5 us]")
        run.feed({"s": table})
        run.finish()
        answers.append(run.snapshot(20).to_pylist()[0])
    assert 0 < merged[0] == merged[1] < merged[2]
    assert answers[2]["c0"] < answers[2]["c1"]


def test_where_answers_are_exact_the_bounds_are_they() -> None:
    for row in answered("[RANGE 40 us]", 1, 2).values():
        for n in range(len(CALLS)):
            assert row[f"c{n}_LOW"] == row[f"c{n}"] == row[f"c{n}_HIGH"]
        assert row["v0_LOW"] == row["v0"] == row["v0_HIGH"] > 0


@pytest.mark.parametrize(
    ("call", "hint"),
    [
        ("APPROX_COUNT_DISTINCT(*)", r"write APPROX_COUNT_DISTINCT\(x\)"),
        ("APPROX_COUNT_DISTINCT_LOW(*)", r"write APPROX_COUNT_DISTINCT_LOW\(x\)"),
        ("APPROX_PERCENTILE_HIGH(k)", r"write APPROX_PERCENTILE_HIGH\(x, q\)"),
        ("APPROX_TOP_K_LOW(k)", r"write APPROX_TOP_K_LOW\(x, k\)"),
        ("APPROX_FREQUENCY(k)", r"write APPROX_FREQUENCY\(x, value\)"),
        ("APPROX_FREQUENCY(k, g)", r"write COUNT\(\*\) FILTER"),
        ("APPROX_FREQUENCY_LOW(k, 'a')", r"write COUNT\(\*\) FILTER"),
    ],
)
def test_wrong_calls_are_told_how_to_be_written(call: str, hint: str) -> None:
    session = LocalSession()
    session.execute(DECLARED)
    with pytest.raises(CqlError, match=hint):
        session.query(f"SELECT {call} FROM s [RANGE 9 us SLIDE 3 us]")
