"""The n-way join step by step: what each algorithm probes, expires, keeps and cuts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from mayfly.errors import InvalidSetting
from mayfly.kernels import multiway as module
from mayfly.kernels.delta import END, ID, Delta
from mayfly.kernels.evaluation import Algorithm, Evaluation, Inputs
from mayfly.kernels.interval import Interval
from mayfly.kernels.kept_rows import Shape
from mayfly.kernels.lifetime_rows import numbers
from mayfly.kernels.multiway import MultiwayJoin, SharedKey
from mayfly.lifetime import NEVER
from mayfly.physical.whole_joins import CheapestOrder
from mayfly.plan.expressions import Column, Compare
from mayfly.plan.strategy import Structure
from mayfly.plan.types import BIGINT, STRING
from mayfly.plan.window_kinds import Slide
from mayfly.storage.segment import EXP, TS

Rows = Sequence[tuple[Any, ...]]
"""Rows as (key, ts, exp, id); cut ones as (key, ts, exp, id, end)."""
EVALUATIONS = [
    Evaluation(algorithm, buckets)
    for algorithm in Algorithm
    for buckets in ((None,) if algorithm is Algorithm.AT_ONCE else (None, 1, 3))
]


def named(evaluations: Sequence[Evaluation]) -> list[Any]:
    return [pytest.param(one, id=f"{one.algorithm.value}-{one.buckets}") for one in evaluations]


ALL = named(EVALUATIONS)
WITH_CUTS = named([one for one in EVALUATIONS if one.allows_cuts])


def join(
    evaluation: Evaluation, inputs: str = "abc", kind: Any = BIGINT, **settings: Any
) -> MultiwayJoin:
    keys = tuple((Column(name, "k", kind),) for name in inputs)
    arrow = pa.int64() if kind is BIGINT else pa.string()
    return MultiwayJoin(
        "j",
        SharedKey(keys, (kind,), kind is BIGINT),
        settings.pop("residual", ()),
        tuple(pa.schema([(f"{name}.k", arrow)]) for name in inputs),
        tuple(Shape(Structure.FIFO, 100) for _ in inputs),
        evaluation,
        **settings,
    )


def delta(name: str, born: Rows = (), cut: Rows = (), kind: Any = None) -> Delta:
    def table(rows: Rows, names: Sequence[str]) -> pa.Table:
        kinds = [kind or pa.int64(), *[pa.int64()] * 4]
        columns = list(zip(*rows, strict=True)) if rows else [()] * len(names)
        arrays = [pa.array(c, k) for c, k in zip(columns, kinds, strict=False)]
        return pa.table(arrays, names=list(names))

    names = (f"{name}.k", TS, EXP, ID)
    return Delta(table(born, names), table(cut, (*names, END)))


def step(
    operator: MultiwayJoin, state: Inputs, began: int, clock: int, *deltas: Delta
) -> tuple[Inputs, list[tuple[int, int]], list[tuple[int, int, int]]]:
    """The next state, the lifetimes born, and the lifetimes cut with their ends."""
    state, found = operator.step(state, deltas, Interval(began, clock))
    born = zip(numbers(found.born, TS), numbers(found.born, EXP), strict=True)
    cut = zip(*(numbers(found.cut, name) for name in (TS, EXP, END)), strict=True)
    return state, sorted(born), sorted(cut)


@pytest.mark.parametrize("evaluation", ALL)
def test_a_result_lives_from_its_last_ts_to_its_first_exp(evaluation: Evaluation) -> None:
    operator = join(evaluation)
    state, born, _ = step(
        operator, operator.state(), 0, 20,
        delta("a", [(7, 1, 30, 1), (7, 2, 9, 2), (8, 3, 40, 3)]), delta("b", [(7, 5, 50, 4)]),
        delta("c"),
    )  # fmt: skip
    assert born == []
    _, born, _ = step(
        operator, state, 20, 40,
        delta("a", [(7, 29, 60, 5)]), delta("b"), delta("c", [(7, 25, 28, 6), (8, 30, 44, 7)]),
    )  # fmt: skip
    # The row that died at 9 met nobody; 29 comes after the c-row that ends at 28.
    assert born == [(25, 28)]


@pytest.mark.parametrize("evaluation", ALL)
def test_members_that_arrive_in_one_step_are_tested_against_each_other(
    evaluation: Evaluation,
) -> None:
    """Both new: dead for each other though both are alive for the kept row."""
    operator = join(evaluation)
    state, _, _ = step(
        operator, operator.state(), 0, 10, delta("a", [(1, 0, 99, 1)]), delta("b"), delta("c")
    )
    _, born, _ = step(
        operator, state, 10, 50, delta("a"), delta("b", [(1, 11, 20, 2)]),
        delta("c", [(1, 20, 90, 3), (1, 19, 90, 4)]),
    )  # fmt: skip
    assert born == [(19, 20)]


@pytest.mark.parametrize("evaluation", WITH_CUTS)
def test_negative_tuples_cut_what_they_met_and_nothing_else(evaluation: Evaluation) -> None:
    operator = join(evaluation, strict=True)
    state, born, _ = step(
        operator, operator.state(), 0, 10,
        delta("a", [(1, 0, NEVER, 1), (1, 1, NEVER, 2)]), delta("b", [(1, 2, 15, 3)]),
        delta("c", [(1, 3, NEVER, 4), (2, 3, NEVER, 5)]),
    )  # fmt: skip
    assert born == [(3, 15), (3, 15)]
    state, born, cut = step(
        operator, state, 10, 20, delta("a", cut=[(1, 0, NEVER, 1, 12)]),
        delta("b", [(1, 11, NEVER, 6), (1, 12, NEVER, 7)]),
        delta("c", cut=[(1, 3, NEVER, 4, 16), (2, 3, NEVER, 5, 17)]),
    )  # fmt: skip
    # With the first a-row, b at 11 makes a result of one instant: its end is already known.
    assert born == [(11, 12), (11, 16), (12, 16)]
    # The c-row's end comes after the b-row's, so only the results of the first a-row are cut.
    assert cut == [(3, 15, 12)]
    assert [kept.rows for kept in state.kept] == [1, 2, 0]


@pytest.mark.parametrize("evaluation", ALL)
def test_what_the_key_does_not_say_is_checked(evaluation: Evaluation) -> None:
    earlier = Compare("<", Column("a", "k", BIGINT), Column("c", "k", BIGINT))
    never = join(evaluation, residual=(earlier,))
    rows = [delta(name, [(1, n, 50, n)]) for n, name in enumerate("abc")]
    assert step(never, never.state(), 0, 10, *rows)[1] == []
    same = Compare("=", Column("a", "k", BIGINT), Column("c", "k", BIGINT))
    always = join(evaluation, residual=(same,))
    assert step(always, always.state(), 0, 10, *rows)[1] == [(2, 50)]


@pytest.mark.parametrize("evaluation", ALL)
def test_results_in_pieces_have_the_wanted_columns_only(evaluation: Evaluation) -> None:
    """Conditions read the others all the same."""
    same = Compare("=", Column("a", "k", BIGINT), Column("c", "k", BIGINT))
    operator = join(evaluation, residual=(same,))
    rows = [delta(name, [(1, n, 50, n)]) for n, name in enumerate("abc")]
    state, expected = operator.step(operator.state(), rows, Interval(0, 10))
    after, pieces = operator.giving({"b.k"}).pieces(operator.state(), rows, Interval(0, 10))
    assert after.rows == state.rows == 3
    (piece,) = pieces
    assert piece.born.equals(expected.born.select(["b.k", TS, EXP, ID]))
    assert not piece.cut.num_rows


def test_a_lazy_join_probes_once_for_new_tuples_of_one_value() -> None:
    old = [delta("a", [(1, 0, 99, n) for n in range(5)]), delta("b", [(1, 0, 99, 9)]), delta("c")]
    new = [delta("a"), delta("b"), delta("c", [(1, 10 + n, 99, 20 + n) for n in range(4)])]
    effort = {}
    for algorithm in Algorithm:
        operator = join(Evaluation(algorithm))
        state, _, _ = step(operator, operator.state(), 0, 10, *old)
        before = state.probes, state.scanned
        state, born, _ = step(operator, state, 10, 20, *new)
        assert len(born) == 20
        effort[algorithm.value] = state.probes - before[0], state.scanned - before[1]
    # Eager: 4 tuples look up 5 rows of a, and 20 pairs look up b. Lazy: one group, then 5 of them.
    assert effort["eager"] == effort["lazy-expiration"] == (24, 40)
    assert effort["lazy"] == effort["lazy-restore"] == (6, 10)
    # At once: the value is looked up once in a and in b, whose rows each tuple then walks down.
    assert effort["at-once"] == (2, 40)


def test_eager_expiration_spares_the_scan_and_lazy_expiration_does_not() -> None:
    """Inside one step: rows of a die at 10 and 20, one b-row probes at 30."""
    rows = [
        delta("a", [(1, 0, 10, 1), (1, 1, 20, 2), (1, 2, 90, 3)]),
        delta("b", [(1, 30, 80, 4)]),
        delta("c", [(1, 29, 90, 5)]),
    ]
    eager, late = (
        step(join(one), join(one).state(), 0, 50, *rows)
        for one in (Evaluation(Algorithm.EAGER), Evaluation(Algorithm.LAZY_EXPIRATION))
    )
    assert eager[1] == late[1] == [(30, 80)]
    assert (eager[0].expired, late[0].expired) == (4, 0)
    assert late[0].scanned - eager[0].scanned == 4


def test_expired_tuples_are_removed_at_intervals() -> None:
    rows = [delta("a", [(1, n, n + 5, n) for n in range(40)]), delta("b"), delta("c")]
    rows[1] = delta("b", [(1, n, n + 5, 100 + n) for n in range(40)])
    rows[2] = delta("c", [(1, n, n + 5, 200 + n) for n in range(40)])
    scanned = []
    for every in (1, 10, 30, None):
        operator = join(Evaluation(Algorithm.LAZY_EXPIRATION, 1, every))
        state, born, _ = step(operator, operator.state(), 0, 50, *rows)
        scanned.append(state.scanned)
        assert len(born) == len(set(born)) + sum(born.count(one) - 1 for one in set(born))
    assert scanned == sorted(scanned)
    assert scanned[0] < scanned[-1]


def test_a_lazy_join_drops_what_dies_before_the_next_refresh() -> None:
    """Refreshes every 10: after 21 a row that ends at 30 meets no later row, at 20 it may."""
    kept = {}
    for algorithm in (Algorithm.LAZY, Algorithm.LAZY_RESTORE, Algorithm.AT_ONCE):
        for clock in (20, 21):
            operator = join(Evaluation(algorithm), slide=Slide(period=10))
            rows = delta("a", [(1, 10, 30, 1), (2, 10, 40, 2)])
            state, _, _ = step(operator, operator.state(), 0, clock, rows, delta("b"), delta("c"))
            kept[algorithm.value, clock] = state.rows
    restored = {("lazy-restore", 20): 2, ("lazy-restore", 21): 2}
    early = {
        (name, clock): rows for name in ("lazy", "at-once") for clock, rows in ((20, 2), (21, 1))
    }
    assert kept == {**early, **restored}


def test_with_negative_tuples_nothing_is_dropped_by_forecast() -> None:
    operator = join(Evaluation(Algorithm.LAZY), slide=Slide(period=10), strict=True)
    rows = delta("a", [(1, 20, 30, 1), (2, 20, 40, 2)])
    state, _, _ = step(operator, operator.state(), 0, 21, rows, delta("b"), delta("c"))
    assert state.rows == 2


def test_lazy_expiration_and_negative_tuples_exclude_each_other() -> None:
    with pytest.raises(InvalidSetting, match=r"has negative tuples"):
        join(Evaluation(Algorithm.LAZY_EXPIRATION), strict=True)


@pytest.mark.parametrize("settings", [{"buckets": 0}, {"every": 0}, {"every": -1}])
@pytest.mark.parametrize("algorithm", [Algorithm.LAZY, Algorithm.AT_ONCE])
def test_settings_that_make_no_sense(algorithm: Algorithm, settings: dict[str, int]) -> None:
    with pytest.raises(InvalidSetting, match=next(iter(settings))):
        Evaluation(algorithm, **settings)


@pytest.mark.parametrize("evaluation", ALL)
def test_keys_that_share_a_code_are_told_apart(
    evaluation: Evaluation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every string gets the same code."""
    coded = "mayfly.kernels.window_join.key_codes"
    monkeypatch.setattr(coded, lambda keys, _: pa.array([1] * len(keys[0]), pa.int64()))
    operator = join(evaluation, kind=STRING)
    rows = [
        delta(name, [("x", n, 50, n), ("y", n + 3, 60, 10 + n)], kind=pa.string())
        for n, name in enumerate("abc")
    ]
    assert step(operator, operator.state(), 0, 10, *rows)[1] == [(2, 50), (5, 60)]


@pytest.mark.parametrize("evaluation", ALL)
def test_results_come_in_bounded_pieces(
    evaluation: Evaluation, monkeypatch: pytest.MonkeyPatch
) -> None:
    operator = join(evaluation)
    rows = [delta(name, [(1, n, 50, n) for n in range(6)]) for name in "abc"]
    wanted = step(operator, operator.state(), 0, 10, *rows)
    monkeypatch.setattr(module, "PAIRS_AT_ONCE", 5)
    pieces: list[int] = []
    monkeypatch.setattr(
        MultiwayJoin, "_results", _noting(MultiwayJoin._results, pieces)
    )  # fmt: skip
    found = step(operator, operator.state(), 0, 10, *rows)
    assert found[1] == wanted[1]
    assert len(found[1]) == 216
    assert max(pieces) <= 5
    assert sum(pieces) == 216


def _noting(results: Any, sizes: list[int]) -> Any:
    def noted(self: MultiwayJoin, found: Any, tables: Any, exp: Any) -> pa.Table:
        sizes.append(len(found.codes))
        return results(self, found, tables, exp)

    return noted


def test_the_probe_order_follows_what_is_measured() -> None:
    """Of a and c one is fast with few values, the other slow with many; halfway they swap."""
    operator = join(Evaluation(Algorithm.LAZY_RESTORE, 1), ordering=CheapestOrder(1))
    state, orders = operator.state(), []
    for number in range(60):
        life = (number * 10, number * 10 + 40)
        fast = [(k % 3, *life, k) for k in range(60)]
        slow = [(3 * (number % 50) + k, *life, k) for k in range(3)]
        some = [(k, *life, k) for k in range(3)]
        rows = (fast, some, slow) if number < 30 else (slow, some, fast)
        state, _, _ = step(
            operator, state, life[0], life[0] + 10,
            *(delta(name, mine) for name, mine in zip("abc", rows, strict=True)),
        )  # fmt: skip
        orders.append(operator.ordering(state.measures()))
    assert orders[29].index(2) < orders[29].index(0)
    assert orders[59].index(0) < orders[59].index(2)


def test_the_rate_of_a_bursty_stream_is_over_estimated() -> None:
    """As many tuples of b as of a, but all in every twentieth step."""
    state = join(Evaluation()).state()
    rates = []
    for number in range(200):
        state = state.measured([5, 100 if number % 20 == 0 else 0, 1])
        rates.append([one.rate for one in state.measures()])
    steady, bursty, slow = zip(*rates[100:], strict=True)
    assert max(steady) / min(steady) < 1.5
    assert min(bursty) > 10 * max(steady)
    assert max(slow) < min(steady)


def test_nested_loops_look_at_every_row_and_buckets_at_a_part() -> None:
    rng = np.random.default_rng(1)
    rows = [
        delta(name, [(int(k), n, 500, n) for n, k in enumerate(rng.integers(0, 50, 100))])
        for name in "abc"
    ]
    scanned = {}
    for buckets in (1, 5, None):
        operator = join(Evaluation(Algorithm.EAGER, buckets))
        scanned[buckets] = step(operator, operator.state(), 0, 200, *rows)[0].scanned
    assert scanned[None] < scanned[5] < scanned[1] / 4
