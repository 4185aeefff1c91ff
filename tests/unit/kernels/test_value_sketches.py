"""Sketches of values: what they answer, how they merge, and how far off they may be."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from mayfly.cql import bind_query
from mayfly.kernels.pane_partials import _sketched
from mayfly.kernels.pane_sketches import SKETCHES
from mayfly.physical.explain.explainer import explain
from mayfly.plan.pane_functions import COUNT_MIN, HLL, ITEMS, KLL
from mayfly.runtime.local_session import LocalSession

WINDOW = "FROM s [RANGE 100 us SLIDE 10 us]"


def sketch_of(name: str, values: Sequence[object]) -> bytes:
    counted = pa.array(values).value_counts()
    counts = counted.field("counts").to_numpy(zero_copy_only=False)
    return SKETCHES[name].made(counted.field("values"), counts)


@pytest.mark.parametrize("seed", range(5))
def test_two_stacks_merge_what_lies_between(seed: int) -> None:
    rng = Random(seed)
    parts = [[rng.randint(0, 60) for _ in range(rng.randint(1, 5))] for _ in range(30)]
    sketches = [sketch_of(HLL, list(part)) for part in parts]
    first, last = [0], [0]
    while last[-1] < len(parts) or first[-1] < len(parts):
        last.append(min(len(parts), last[-1] + rng.randint(0, 4)))
        first.append(min(last[-1], first[-1] + rng.randint(0, 4)))
    answers = SKETCHES[HLL].along(sketches, np.array(first), np.array(last))
    for low, high, sketch in zip(first, last, answers, strict=True):
        expected = len({value for part in parts[low:high] for value in part})
        assert (0 if sketch is None else SKETCHES[HLL].bounded(sketch, None)[0]) == expected


def test_the_empty_text_and_equal_numbers_are_values() -> None:
    for values in (["", "a", "b"], [0, -1, 2**40]):
        sketch = SKETCHES[HLL].read(sketch_of(HLL, values))
        assert SKETCHES[HLL].bounded(sketch, None)[0] == 3


def explained(session: LocalSession, cql: str, **options: Any) -> object:
    return explain(bind_query(cql, session.catalog), session.catalog, cql, **options)


def run_over(rows: list[dict[str, object]], *calls: str) -> dict[str, object]:
    session = LocalSession()
    session.stream("s", {"ts": "BIGINT", "x": "BIGINT", "t": "STRING"})
    named = ", ".join(f"{call} AS c{n}" for n, call in enumerate(calls))
    run = session.query(f"SELECT {named} {WINDOW}")
    for start in range(0, len(rows), 4000):
        run.feed({"s": rows[start : start + 4000]})
    run.feed(heartbeats={"s": 101})
    answer: dict[str, object] = run.snapshot().to_pylist()[0]
    return answer


def test_answers_lie_within_what_explain_says() -> None:
    rng = Random(7)
    rows: list[dict[str, object]] = [
        {"ts": 1 + n // 120, "x": rng.randrange(8000), "t": f"t{rng.paretovariate(0.6):.0f}"}
        for n in range(12_000)
    ]
    answer = run_over(
        rows, "APPROX_COUNT_DISTINCT(x)", "APPROX_PERCENTILE(x, 0.5)", "APPROX_TOP_K(t, 3)",
        "COUNT(DISTINCT x)", "QUANTILE(x, 0.48)", "QUANTILE(x, 0.52)", "TOP(t, 3)",
    )  # fmt: skip
    exact = answer["c3"]
    assert isinstance(exact, int)
    assert abs(answer["c0"] - exact) <= 0.033 * exact  # type: ignore[operator]
    assert answer["c0"] != exact, "of so many values a sketch is no longer exact"
    assert answer["c4"] <= answer["c1"] <= answer["c5"]  # type: ignore[operator]
    for approximate, counted in zip(answer["c2"], answer["c6"], strict=True):  # type: ignore[call-overload]
        assert approximate["value"] == counted["value"]
        assert 0 <= counted["count"] - approximate["count"] <= 0.0035 * len(rows)


@pytest.mark.parametrize(
    ("call", "bound", "kept"),
    [
        ("APPROX_COUNT_DISTINCT(t)", "HLL of 2^12 counters: within 3.2 % (2 σ)", "HLL(s.t)"),
        ("APPROX_PERCENTILE(x, 0.9)", "the rank is off by up to 1.33 %", "KLL(s.x)"),
        ("APPROX_TOP_K(t, 3)", "a count lacks up to 0.34 % of the rows", "ITEMS(s.t)"),
    ],
)
def test_bounds_are_explained_and_sketches_may_be_switched_off(
    call: str, bound: str, kept: str
) -> None:
    session = LocalSession()
    session.stream("s", {"ts": "BIGINT", "x": "BIGINT", "t": "STRING"})
    text = str(session.explain(f"SELECT {call} {WINDOW}"))
    assert bound in text
    assert f"Panes {kept} BY pane" in text
    exact = str(explained(session, f"SELECT {call} {WINDOW}", without=["sketches"]))
    assert bound not in exact
    assert "values of s." in exact
    rows = str(session.explain(f"SELECT {call} FROM s [RANGE 100 us]"))
    assert bound not in rows


def test_exact_and_approximate_calls_stand_side_by_side() -> None:
    session = LocalSession()
    session.stream("s", {"ts": "BIGINT", "x": "BIGINT", "t": "STRING"})
    calls = "APPROX_COUNT_DISTINCT(x), COUNT(DISTINCT x), APPROX_TOP_K(t, 2), TOP(t, 2)"
    text = str(session.explain(f"SELECT {calls} {WINDOW}"))
    assert "Panes HLL(s.x), ITEMS(s.t), COUNT(*), values of s.t, values of s.x BY pane" in text
    assert len({HLL, KLL, ITEMS, COUNT_MIN}) == len(SKETCHES)


def test_parts_of_a_pane_are_one_sketch() -> None:
    parts = pa.array([sketch_of(HLL, ["a", "b"]), sketch_of(HLL, ["b", "c"]), None], pa.binary())
    (both,) = _sketched(f"{HLL} union", parts, np.array([0])).to_pylist()
    assert SKETCHES[HLL].bounded(SKETCHES[HLL].read(both), None)[0] == 3


def test_counters_of_earlier_steps_weigh_as_often_as_they_count() -> None:
    session = LocalSession()
    session.stream("s", {"ts": "BIGINT", "x": "BIGINT", "t": "STRING"})
    run = session.query("SELECT MEDIAN(x) AS m, TOP(x, 1) AS best FROM s [RANGE 8 us SLIDE 4 us]")
    run.feed({"s": [{"ts": 1, "x": 1, "t": ""}] * 5})
    run.feed(heartbeats={"s": 5})
    run.feed({"s": [{"ts": 5, "x": 2, "t": ""}] * 2})
    run.feed(heartbeats={"s": 9})
    assert run.snapshot().to_pylist() == [{"m": 1.0, "best": [{"value": 1, "count": 5}]}]


def test_the_least_cell_of_a_value_is_its_count() -> None:
    """Two thousand values in two hundred cells a row: the least of five is below the mean."""
    kind, values = SKETCHES[COUNT_MIN], pa.array(range(2_000))
    made = kind.read(kind.made(values, np.ones(2_000, np.int64)))
    answers = [kind.bounded(made, number)[0] for number in range(200)]
    assert min(answers) >= 1
    assert sum(answers) / 200 < 8
