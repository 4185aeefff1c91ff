"""Users' aggregates: the tree of values, what stays in memory, errors, and what an event costs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from random import Random

import pytest

from mayfly import LocalSession
from mayfly.errors import BadInput, InvalidSetting, MayflyError
from mayfly.kernels import resident
from mayfly.kernels.group_by import GroupRows
from mayfly.kernels.resident import RESIDENTS
from mayfly.kernels.users_values import ValueNode, ValueTree, users_way
from mayfly.plan.types import BIGINT, DOUBLE
from mayfly.plan.user_aggregates import AggregateDefinition

SECOND = 1_000_000


class Sum:
    """A sum of floating-point numbers, which depends on their order."""

    merges = 0

    def __init__(self) -> None:
        self.sum = 0.0

    def add(self, value: float) -> None:
        self.sum += value

    def merge(self, other: Sum) -> None:
        type(self).merges += 1
        self.sum += other.sum

    def result(self) -> float:
        return self.sum


class Count:
    def __init__(self) -> None:
        self.rows = 0

    def add(self, value: float) -> None:
        self.rows += 1

    def subtract(self, value: float) -> None:
        self.rows -= 1

    def merge(self, other: Count) -> None:
        self.rows += other.rows

    def result(self) -> int:
        return self.rows


class Faulty(Count):
    """Fails where its name says."""

    def add(self, value: float) -> None:
        self.rows += 1
        if value == 13.0:
            raise KeyError("thirteen")

    def subtract(self, value: float) -> None:
        if value == 14.0:
            raise RuntimeError("kept")
        super().subtract(value)

    def result(self) -> object:  # type: ignore[override]
        return {3: "three", 4: 1 / (self.rows - 4) if self.rows != 4 else 4}.get(self.rows, 0)


def session() -> LocalSession:
    local = LocalSession()
    local.stream("s", {"ts": "BIGINT", "k": "STRING", "x": "DOUBLE"})
    local.aggregate("own_sum", Sum, takes="DOUBLE", gives="DOUBLE")
    local.aggregate("own_count", Count, takes="DOUBLE", gives="BIGINT")
    local.aggregate("faulty", Faulty, takes="DOUBLE", gives="BIGINT")
    return local


def shape(node: ValueNode | None) -> object:
    return node and (node.row, node.count, shape(node.left), shape(node.right))


def nodes(node: ValueNode | None) -> Iterator[ValueNode]:
    if node is not None:
        yield from nodes(node.left)
        yield node
        yield from nodes(node.right)


@pytest.mark.parametrize("seed", range(20))
def test_the_tree_depends_on_its_values_alone(seed: int) -> None:
    """Also bit by bit, though the sums of the user's class round."""
    rng = Random(seed)
    values = [rng.choice((0.1, 0.2, 0.3, 1e17, -1e17, rng.random())) for _ in range(60)]
    gone = [rng.random() for _ in range(30)]
    straight, wandering = ValueTree(Sum), ValueTree(Sum)
    for value in values:
        straight = straight.changed((value,), 1)
    moves = [(value, 1) for value in values] + [(value, 1) for value in gone]
    rng.shuffle(moves)
    for value, sign in (*moves, *((value, -1) for value in gone)):
        wandering = wandering.changed((value,), sign)
    assert shape(straight.root) == shape(wandering.root)
    assert straight.result() == wandering.result()
    listed = [(node.row[0], node.count) for node in nodes(straight.root)]
    assert listed == sorted((value, values.count(value)) for value in set(values))


def test_a_tree_that_was_left_behind_is_as_it_was() -> None:
    first = ValueTree(Sum).changed((1.0,), 1).changed((2.0,), 1)
    second = first.changed((2.0,), -1).changed((5.0,), 1)
    assert (first.result(), second.result()) == (3.0, 6.0)
    assert ValueTree(Sum).changed((1.0,), 1).changed((1.0,), -1).root is None


def test_nan_and_texts_have_a_place() -> None:
    tree = ValueTree(Sum)
    for value in (float("nan"), 1.0, float("nan"), float("inf")):
        tree = tree.changed((value,), 1)
    assert [node.count for node in nodes(tree.root)] == [1, 1, 2]


@pytest.mark.parametrize("least", [2, 4096])
@pytest.mark.parametrize("forget", [False, True])
def test_answers_are_the_same_whatever_stays_in_memory(
    least: int, forget: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A restart has none of it."""
    monkeypatch.setattr(resident, "LEAST_ROWS", least)
    RESIDENTS.clear()
    rng, local = Random(least), session()
    query = "SELECT k, own_sum(x) AS a, own_count(x) AS b FROM s [RANGE 20 s] GROUP BY k"
    rows = [
        {"ts": number // 3 * SECOND, "k": rng.choice("ab"), "x": rng.choice((0.1, 0.7, None, 1e16))}
        for number in range(120)
    ]
    whole, cut = local.query(query), local.query(query)
    whole.feed({"s": rows})
    while rows:
        size = rng.choice((1, 4, 9))
        cut.feed({"s": rows[:size]})
        rows = rows[size:]
        if forget:
            RESIDENTS.clear()
    for run in (whole, cut):
        run.feed({}, {"s": 90 * SECOND})
    columns = ["k", "a", "b", "ts", "exp"]
    assert (
        cut.lifetimes()
        .select(columns)
        .sort_by([(c, "ascending") for c in columns])
        .equals(whole.lifetimes().select(columns).sort_by([(c, "ascending") for c in columns]))
    )


@pytest.mark.parametrize(
    ("values", "end", "problem"),
    [
        ([1.0, 13.0], 5, r"faulty of the group \('a'\) failed in add: KeyError: 'thirteen', at "
         "1970-01-01 00:00:01"),
        ([1.0, 14.0, 2.0], 30, "failed in subtract: RuntimeError: kept, at 1970-01-01 00:00:11"),
        ([1.0, 2.0, 3.0], 5, "gives 'three', which is not BIGINT, at 1970-01-01 00:00:02"),
    ],
)  # fmt: skip
def test_an_error_tells_group_and_instant(values: list[float], end: int, problem: str) -> None:
    run = session().query("SELECT k, faulty(x) AS f FROM s [RANGE 10 s] GROUP BY k")
    rows = [{"ts": n * SECOND, "k": "a", "x": x} for n, x in enumerate(values)]
    with pytest.raises(BadInput, match=problem) as refusal:
        run.feed({"s": rows}, {"s": end * SECOND})
    assert "Faulty" in refusal.value.hint


class Unmade:
    def __init__(self, size: int) -> None:
        self.size = size

    def add(self, value: float) -> None: ...
    def merge(self, other: Unmade) -> None: ...
    def result(self) -> float:
        return 0.0


@pytest.mark.parametrize(
    ("name", "code", "takes", "problem"),
    [
        ("sum", Sum, "DOUBLE", "is a function of the language"),
        ("a b", Sum, "DOUBLE", "cannot name an aggregate"),
        ("s", Sum, "DOUBLE", "already a stream"),
        ("own", 5, "DOUBLE", "which is not a class"),
        ("own", str, "DOUBLE", "has no add and no merge and no result"),
        ("own", Unmade, "DOUBLE", r"Unmade\(\) of the aggregate own fails: TypeError"),
        ("own", Sum, (), "takes no values"),
        ("own", Sum, "ARRAY<INT>", "cannot take values of type"),
        ("own", Sum, "MONEY", "is not a type"),
    ],
)
def test_what_is_no_aggregate_is_refused(name: str, code: type, takes: str, problem: str) -> None:
    with pytest.raises(MayflyError, match=problem):
        session().aggregate(name, code, takes=takes, gives="DOUBLE")


def test_statements_do_not_run_code_in_a_local_session() -> None:
    with pytest.raises(InvalidSetting, match="would run Python code"):
        session().execute("CREATE AGGREGATE o (x INT) RETURNS INT FROM python('a:B')")


def test_an_aggregate_is_dropped_and_kept_while_it_is_read() -> None:
    local = session()
    local.execute("CREATE VIEW v AS SELECT k, own_sum(x) AS a FROM s [RANGE 1 s] GROUP BY k")
    with pytest.raises(MayflyError, match="own_sum is still read by v"):
        local.execute("DROP AGGREGATE own_sum")
    local.execute("DROP VIEW v; DROP AGGREGATE own_sum")
    with pytest.raises(MayflyError, match="there is no function own_sum"):
        local.query("SELECT own_sum(x) FROM s [RANGE 1 s]")


def test_a_larger_window_costs_an_event_little_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Merges per event at 10 times the window, with as many results."""
    monkeypatch.setattr(resident, "LEAST_ROWS", 2)
    costs = []
    for length in (100, 1000):
        RESIDENTS.clear()
        run, rng = session().query(f"SELECT own_sum(x) FROM s [RANGE {length} s]"), Random(1)
        rows = [{"ts": n * SECOND, "k": "", "x": rng.random()} for n in range(length + 100)]
        run.feed({"s": rows[:length]})
        Sum.merges = 0
        for row in rows[length:]:
            run.feed({"s": [row]})
        costs.append(Sum.merges / 200)
    assert costs[1] <= 2.0 * costs[0], costs


def test_another_class_under_the_name_finds_nothing_of_the_former(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What stays in memory is found by the code too: a program may be started anew in a process."""
    monkeypatch.setattr(resident, "LEAST_ROWS", 2)
    RESIDENTS.clear()

    class Twice(Count):
        def result(self) -> int:
            return 2 * self.rows

    same = AggregateDefinition("own_count", (DOUBLE,), BIGINT, code=Count)
    assert same.digest == AggregateDefinition("own_count", (DOUBLE,), BIGINT, code=Count).digest
    assert same.digest != same.with_code(Twice).digest
    local = session()
    run = local.query("SELECT own_count(x) AS n FROM s [RANGE 9 s]")
    run.feed({"s": [{"ts": n, "k": "", "x": 1.0} for n in range(5)]})
    operators = [task.operator for task in run.program.answer.walk()]
    (groups,) = [operator for operator in operators if isinstance(operator, GroupRows)]
    owners = {owner for owner, _ in RESIDENTS._entries}
    assert groups._owner in owners
    (call,) = groups.calls
    calls = (replace(call, user=same.with_code(Twice)),)
    assert replace(groups, calls=calls)._owner not in owners


def test_zeros_of_both_signs_are_one_value() -> None:
    run = session().query("SELECT own_sum(x) AS a FROM s [RANGE 9 s]")
    run.feed({"s": [{"ts": 0, "k": "", "x": -0.0}, {"ts": 1, "k": "", "x": 0.0}]}, {"s": 5})
    assert str(run.snapshot()["a"][0].as_py()) == "0.0"


def test_what_is_kept_is_said() -> None:
    definition = AggregateDefinition("own", (DOUBLE,), BIGINT)
    assert "a tree" in users_way(definition.with_code(Sum)).structure
    assert users_way(definition.with_code(Count)).structure == "one instance of the user's class"
    assert "does not load it" in users_way(definition).why
