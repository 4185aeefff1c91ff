"""Covers, disjoint covers and supercovers: the queries Q1 to Q6 of thesis 8.3.3."""

from __future__ import annotations

import pyarrow as pa
import pytest

from mayfly.errors import InvalidSetting
from mayfly.periodic import Aggregate, Opaque, PeriodicQuery, Predicate, QueryWorkload, Term, any_of
from mayfly.periodic.predicate import EVERYTHING, text_of
from mayfly.periodic.sharing.relevant import relevant
from mayfly.periodic.sharing.sharing_rule import Combine
from mayfly.synopses.contents import Content, DistinctSketch, Maximum, QuantileSketch, Total

TCP, UDP, ICMP = (Term("protocol", "=", name) for name in ("TCP", "UDP", "ICMP"))
USER = Term("user", "=", "U")
SUM, MAX, KLL, HLL = Total("x"), Maximum("x"), QuantileSketch("x"), DistinctSketch("x")
Q1, Q2, Q3, Q6 = any_of(TCP), any_of(UDP), any_of(TCP, UDP), any_of(TCP, USER)


@pytest.mark.parametrize(
    ("asked", "existing", "content", "sets"),
    [
        (Q3, {"Q1": Q1, "Q2": Q2}, SUM, Combine(("Q1", "Q2"))),
        (Q3, {"Q1": Q1, "Q2": Q2}, KLL, Combine(("Q1", "Q2"))),
        (Q3, {"Q1": Q1}, SUM, None),
        (Q1, {"Q3": Q3, "Q2": Q2}, SUM, Combine(("Q3",), ("Q2",))),
        (Q1, {"Q3": Q3, "Q2": Q2}, KLL, None),
        (Q1, {"Q3": Q3}, SUM, None),
        (Q6, {"Q4": Q1, "Q5": any_of(USER)}, MAX, Combine(("Q4", "Q5"))),
        (Q6, {"Q4": Q1, "Q5": any_of(USER)}, HLL, Combine(("Q4", "Q5"))),
        (Q6, {"Q4": Q1, "Q5": any_of(USER)}, SUM, None),
        (Q1, {"Q6": Q6, "Q5": any_of(USER)}, MAX, None),
        (any_of(TCP, UDP, ICMP), {"a": Q3, "b": any_of(UDP, ICMP)}, MAX, Combine(("a", "b"))),
        (any_of(TCP, UDP, ICMP), {"a": Q3, "b": any_of(UDP, ICMP)}, SUM, None),
        (Q6, {"own": Q6}, KLL, Combine(("own",))),
    ],
)
def test_the_relevant_set(
    asked: Predicate, existing: dict[str, Predicate], content: Content, sets: Combine | None
) -> None:
    assert relevant(asked, existing, content) == sets


def test_more_than_four_synopses_are_no_gain() -> None:
    terms = [Term("n", "=", n) for n in range(5)]
    existing = {f"s{n}": any_of(term) for n, term in enumerate(terms)}
    assert relevant(any_of(*terms[:4]), existing, SUM) == Combine(("s0", "s1", "s2", "s3"))
    assert relevant(any_of(*terms), existing, SUM) is None


@pytest.mark.parametrize(
    ("one", "other", "disjoint"),
    [
        (Term("n", "<", 5), Term("n", ">", 5), True),
        (Term("n", "<", 5), Term("n", "!=", 5), False),
        (Term("n", "=", 5), Term("n", "!=", 5), True),
        (Term("n", "<", 7), Term("n", ">", 5), False),
        (Term("n", "=", 5), Term("n", "<", 5), True),
        (Term("n", "=", 4), Term("n", "<", 5), False),
        (Term("n", ">", 5), Term("n", "=", 5), True),
        (Term("n", ">", 5), Term("n", ">", 7), False),
        (TCP, USER, False),
    ],
)
def test_terms_are_disjoint_if_no_value_satisfies_both(
    one: Term, other: Term, disjoint: bool
) -> None:
    assert one.disjoint(other) is other.disjoint(one) is disjoint


def test_an_opaque_term_is_disjoint_from_nothing() -> None:
    [everything] = EVERYTHING
    assert not everything.disjoint(TCP)
    assert not TCP.disjoint(everything)
    assert Opaque("a AND b", lambda rows: rows) == Opaque("a AND b", lambda rows: rows)
    assert text_of(Q3) == "protocol = 'TCP' OR protocol = 'UDP'"
    with pytest.raises(InvalidSetting, match="Opaque"):
        Term("n", "<=", 5)


ROWS = [
    ("TCP", "U", 7), ("TCP", "V", 5), ("UDP", "U", 9), ("UDP", "V", 2), ("ICMP", "U", 4),
    ("TCP", "V", 3),
]  # fmt: skip


@pytest.mark.parametrize(
    ("function", "existing", "asked", "rule", "value"),
    [
        ("SUM", [Q1, Q2], Q3, "SS4", 26),
        ("SUM", [Q3, Q2], Q1, "SS4", 15),
        ("SUM", [Q1], Q3, "own synopsis", 26),
        ("SUM", [Q1, any_of(USER)], Q6, "own synopsis", 28),
        ("MAX", [Q1, any_of(USER)], Q6, "SS4", 9),
        ("MAX", [Q6, any_of(USER)], Q1, "own synopsis", 7),
    ],
)
def test_the_answers_over_six_packets(
    function: str, existing: list[Predicate], asked: Predicate, rule: str, value: int
) -> None:
    schema = pa.schema(
        {"ts": pa.int64(), "protocol": pa.string(), "user": pa.string(), "length": pa.int64()}
    )
    workload = QueryWorkload(schema)
    call = Aggregate(function, "length")
    for number, where in enumerate([*existing, asked]):
        share = workload.add(PeriodicQuery(f"q{number}", call, (10,), 10, where=where))
    assert share.rule == rule
    rows = [dict(zip(schema.names, (n, *row), strict=True)) for n, row in enumerate(ROWS, 1)]
    answers = workload.feed(pa.Table.from_pylist(rows, schema), 11)
    assert answers[-1].rows.to_pylist() == [{"value": value}]
