"""Many selections over the same rows, without looking at every row for every selection.

Idea: each column that selections compare with constants is sorted once per batch. Then ``c > 5``,
``c = 'x'`` or ``c >= 2 AND c < 7`` is one slice of that order, found by binary search, and only the
rows of a selection's smallest slice are looked at again, with its whole predicate. Invariant: a
slice holds at least the rows that satisfy the predicate. Cost: O(n log n) per compared column, then
O(log n + rows found) per selection, against O(n) for each alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from mayfly.arrays import compute as pc
from mayfly.arrays.order import Int64s
from mayfly.kernels.lifetime_rows import whole
from mayfly.plan.expressions import Cast, Column, Compare, Expression, Literal, conjuncts

MIRRORED = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
MANY_SELECTIONS = 4
"""So many selections over one stream are found by an index instead of one by one."""
WORTHWHILE = 2
"""A slice of more than one row in so many is not worth taking apart."""


@dataclass(frozen=True, slots=True)
class IndexedTerm:
    """``column op value``, one condition of a selection."""

    column: str
    op: str
    value: Any


@dataclass(frozen=True)
class PredicateIndex:
    """Per selection the conditions by which its rows can be found; none if it has no such."""

    terms: tuple[tuple[IndexedTerm, ...], ...]

    @staticmethod
    def of(predicates: Sequence[Expression]) -> PredicateIndex:
        return PredicateIndex(
            tuple(
                tuple(
                    term
                    for conjunct in conjuncts(predicate)
                    if (term := _term(conjunct)) is not None
                )
                for predicate in predicates
            )
        )

    def candidates(
        self, column: Callable[[str], pa.ChunkedArray], rows: int
    ) -> list[Int64s | None]:
        """Per selection the positions, ascending, among which its rows are; None: among all."""
        orders: dict[str, _Order] = {}
        position_lists: list[Int64s | None] = []
        for terms in self.terms:
            best: tuple[_Order, int, int] | None = None
            for name in dict.fromkeys(term.column for term in terms):
                if name not in orders:
                    orders[name] = _Order.of(column(name))
                own = [term for term in terms if term.column == name]
                low, high = orders[name].between(own)
                if best is None or high - low < best[2] - best[1]:
                    best = orders[name], low, high
            if best is None or (best[2] - best[1]) * WORTHWHILE > rows:
                position_lists.append(None)
            else:
                position_lists.append(np.sort(best[0].positions[best[1] : best[2]]))
        return position_lists


@dataclass(frozen=True, slots=True)
class _Order:
    """The positions of a column's values in ascending order, NULLs left out, NaN last."""

    positions: Int64s
    values: np.ndarray
    words: dict[Any, int] | None = None
    """Texts are sorted by their place in a dictionary: only equality can be asked for."""

    @staticmethod
    def of(column: pa.ChunkedArray) -> _Order:
        array, words = whole(column), None
        if pa.types.is_string(array.type):
            encoded = pc.dictionary_encode(array)
            words = {word: rank for rank, word in enumerate(encoded.dictionary.to_pylist())}
            array = encoded.indices
        present = np.flatnonzero(pc.is_valid(array).to_numpy(zero_copy_only=False))
        values = array.drop_null().to_numpy(zero_copy_only=False)
        order = np.argsort(values, kind="stable")
        return _Order(present[order].astype(np.int64), values[order], words)

    def between(self, terms: Sequence[IndexedTerm]) -> tuple[int, int]:
        """The slice that satisfies all conditions on this column."""
        low, high = 0, len(self.values)
        for term in terms:
            value = term.value
            if self.words is not None:
                value = self.words.get(value)
                if value is None:
                    return 0, 0
            before, behind = (
                int(np.searchsorted(self.values, value, "left")),
                int(np.searchsorted(self.values, value, "right")),
            )
            if term.op in ("=", ">=", ">"):
                low = max(low, behind if term.op == ">" else before)
            if term.op in ("=", "<=", "<"):
                high = min(high, before if term.op == "<" else behind)
        return low, max(low, high)


def _term(condition: Expression) -> IndexedTerm | None:
    """A comparison of a column with a constant that an order can answer."""
    if not isinstance(condition, Compare) or condition.op not in MIRRORED:
        return None
    left, right, op = _bare(condition.left), _bare(condition.right), condition.op
    if isinstance(left, Literal):
        left, right, op = right, left, MIRRORED[op]
    if not isinstance(left, Column) or not isinstance(right, Literal):
        return None
    value = right.value
    if isinstance(value, bool) or value is None:
        return None
    if left.type.is_integral and isinstance(value, int):
        return IndexedTerm(left.name, op, value)
    if left.type.name == "double" and isinstance(value, int | float) and value == value:
        return IndexedTerm(left.name, op, float(value))
    if left.type.name == "string" and isinstance(value, str) and op == "=":
        return IndexedTerm(left.name, op, value)
    return None


def _bare(expression: Expression) -> Expression:
    """Without a cast between integers, which keeps order and equality."""
    if isinstance(expression, Cast) and expression.type.is_integral:
        child = expression.child
        if child.type.is_integral and isinstance(child, Column | Literal):
            return child
    return expression
