"""Aggregates written in Python, random queries over them, and DuckDB's SQL for the same.

Streams as those of ``survey_forms``: s (k, i, x, y, d, t, …), r (k, z).
"""

from __future__ import annotations

from decimal import Decimal
from random import Random
from typing import TYPE_CHECKING, Any, Protocol

from mayfly.testing.instant_oracle import TwoTexts

if TYPE_CHECKING:
    from collections.abc import Sequence


class NumberExtent:
    """The distance of the largest number to the smallest; nothing is taken back."""

    def __init__(self) -> None:
        self.ends: tuple[int, int] | None = None

    def add(self, value: int) -> None:
        self._join(value, value)

    def merge(self, other: NumberExtent) -> None:
        if other.ends is not None:
            self._join(*other.ends)

    def _join(self, low: int, high: int) -> None:
        ends = self.ends or (low, high)
        self.ends = min(low, ends[0]), max(high, ends[1])

    def result(self) -> int | None:
        return None if self.ends is None else self.ends[1] - self.ends[0]


class DotProduct:
    """The sum of products of whole numbers, of which a row can be taken back."""

    def __init__(self) -> None:
        self.sum = 0

    def add(self, left: int, right: int) -> None:
        self.sum += left * right

    def subtract(self, left: int, right: int) -> None:
        self.sum -= left * right

    def merge(self, other: DotProduct) -> None:
        self.sum += other.sum

    def result(self) -> int:
        return self.sum


class Texts:
    """Different texts in their order, as one."""

    def __init__(self) -> None:
        self.texts: tuple[str, ...] = ()

    def add(self, text: str) -> None:
        self.texts = (text,)

    def merge(self, other: Texts) -> None:
        ends = self.texts[-1:] == other.texts[:1]
        self.texts += other.texts[1:] if ends else other.texts

    def result(self) -> str:
        return "|".join(self.texts)


class DecimalPeak:
    """The largest amount, NULL below zero."""

    def __init__(self) -> None:
        self.peak: Decimal | None = None

    def add(self, value: Decimal) -> None:
        self.peak = value if self.peak is None else max(self.peak, value)

    def merge(self, other: DecimalPeak) -> None:
        if other.peak is not None:
            self.add(other.peak)

    def result(self) -> Decimal | None:
        return None if self.peak is None or self.peak < 0 else self.peak


USERS = (
    ("extent", NumberExtent, ("BIGINT",), "BIGINT"),
    ("dot", DotProduct, ("BIGINT", "BIGINT"), "BIGINT"),
    ("texts", Texts, ("STRING",), "STRING"),
    ("decimal_peak", DecimalPeak, ("DECIMAL(6, 2)",), "DECIMAL(6, 2)"),
)
"""Name, class, types of arguments, type of the answer."""
_CALLS = (
    ("extent(i)", "max(i) - min(i){}"),
    ("Extent(k)", "max(k) - min(k){}"),
    ("dot(i, k)", "CAST(sum(i * k) AS BIGINT){}"),
    ("DOT(i + 1, i)", "CAST(sum((i + 1) * i) AS BIGINT){}"),
    ("texts(t)", "array_to_string(list_sort(list(DISTINCT t){}), '|')"),
    ("decimal_peak(d)", "CASE WHEN max(d){} >= 0 THEN max(d){} END"),
)
_CALLED = ("max(i)", "min(i)", "max(k)", "min(k)", "max(d)", "sum(i * k)", "sum((i + 1) * i)")
_CONDITIONS = ("", "", "i > 0", "x < 2")
"""The same in both languages."""


class Declared(Protocol):
    """A session of either kind."""

    def aggregate(self, name: str, code: type, *, takes: Sequence[str], gives: str) -> Any: ...


def declare_users_aggregates(session: Declared) -> None:
    for name, code, takes, gives in USERS:
        session.aggregate(name, code, takes=takes, gives=gives)


def _filtered(sql: str, where: str) -> str:
    """FILTER at every call; a list has no NULLs."""
    if "list(" in sql:
        condition = f"t IS NOT NULL{f' AND {where}' if where else ''}"
        return sql.replace("{}", f" FILTER (WHERE {condition})")
    some = f" FILTER (WHERE {where})" if where else ""
    for call in _CALLED:
        sql = sql.replace(call, call + some)
    return sql.replace("{}", "")


def users_aggregates(rng: Random, window: str) -> TwoTexts:
    """Some calls over groups, all rows, the pairs of a join or distinct rows."""
    calls = []
    for _ in range(rng.randint(1, 4)):
        (cql, sql), where = rng.choice(_CALLS), rng.choice(_CONDITIONS)
        calls.append((cql + (f" FILTER (WHERE {where})" if where else ""), _filtered(sql, where)))
    names = ", ".join(f"{cql} AS o{number}" for number, (cql, _) in enumerate(calls))
    sql = ", ".join(sql for _, sql in calls)
    form = rng.choice(("k", "t", "", "join", "distinct", "having"))
    if not form:
        whole = f"SELECT i.tau, {sql} FROM _instants i LEFT JOIN s USING (tau) GROUP BY i.tau"
        return TwoTexts(f"SELECT {names} FROM s [{window}]", whole)
    if form == "join":
        columns = "s.k AS k, s.i AS i, s.t AS t, s.d AS d, s.x AS x, r.z AS z"
        return TwoTexts(
            f"SELECT z, {names} FROM (SELECT {columns} FROM s [{window}] JOIN r [{window}] "
            "ON r.k = s.k) q GROUP BY z",
            f"SELECT tau, z, {sql} FROM (SELECT s.tau AS tau, {columns} FROM s JOIN r "
            "ON r.k = s.k AND r.tau = s.tau) GROUP BY tau, z",
        )
    if form == "distinct":
        return TwoTexts(
            f"SELECT k, {names} FROM (SELECT DISTINCT k, i, t, d, x FROM s [{window}]) q "
            "GROUP BY k",
            f"SELECT tau, k, {sql} FROM (SELECT DISTINCT tau, k, i, t, d, x FROM s) "
            "GROUP BY tau, k",
        )
    if form == "having":
        return TwoTexts(
            f"SELECT k, {names} FROM s [{window}] GROUP BY k HAVING extent(i) > 1",
            f"SELECT tau, k, {sql} FROM s GROUP BY tau, k HAVING max(i) - min(i) > 1",
        )
    return TwoTexts(
        f"SELECT {form}, {names} FROM s [{window}] GROUP BY {form}",
        f"SELECT tau, {form}, {sql} FROM s GROUP BY tau, {form}",
    )
