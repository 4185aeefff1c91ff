"""WHERE as synopses see it: a disjunction of terms, compared as a set (thesis 8.3.3).

A term ``column op constant`` has a set of values, so two terms of one column can be shown to be
disjoint; anything else (conjunctions, LIKE) is *opaque*: equal to itself and disjoint from nothing.
NULL satisfies no term.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mayfly.errors import InvalidSetting
from mayfly.kernels.lifetime_rows import whole

Mask = npt.NDArray[np.bool_]
Span = tuple[Any, bool, Any, bool]
"""Lower end and whether it belongs, upper end and whether it belongs; None is open-ended."""
COMPARISONS: dict[str, Callable[..., Any]] = {
    "=": pc.equal,
    "!=": pc.not_equal,
    "<": pc.less,
    ">": pc.greater,
}


@dataclass(frozen=True)
class Term:
    """``column op value``."""

    column: str
    op: str
    value: Any

    def __post_init__(self) -> None:
        if self.op not in COMPARISONS:
            raise InvalidSetting(
                f"{self.op!r} in a term", f"use one of {', '.join(COMPARISONS)}, or an Opaque term"
            )

    def mask(self, rows: pa.Table) -> Mask:
        compared = COMPARISONS[self.op](whole(rows.column(self.column)), pa.scalar(self.value))
        mask: Mask = compared.fill_null(False).to_numpy(zero_copy_only=False)
        return mask

    def disjoint(self, other: Term | Opaque) -> bool:
        """Whether no row satisfies both."""
        if isinstance(other, Opaque) or self.column != other.column:
            return False
        return not any(_meet(a, b) for a in self._spans() for b in other._spans())

    def _spans(self) -> list[Span]:
        below, above = (None, False, self.value, False), (self.value, False, None, False)
        return {
            "=": [(self.value, True, self.value, True)],
            "<": [below],
            ">": [above],
            "!=": [below, above],
        }[self.op]

    def __str__(self) -> str:
        return f"{self.column} {self.op} {self.value!r}"


@dataclass(frozen=True)
class Opaque:
    """A condition known by its text only, and what tells which rows satisfy it."""

    text: str
    rows: Callable[[pa.Table], Mask] = field(compare=False, repr=False)

    def mask(self, rows: pa.Table) -> Mask:
        return self.rows(rows)

    def disjoint(self, other: Term | Opaque) -> bool:
        return False

    def __str__(self) -> str:
        return self.text


Predicate = frozenset[Term | Opaque]
EVERYTHING: Predicate = frozenset({Opaque("TRUE", lambda rows: np.ones(rows.num_rows, bool))})


def any_of(*terms: Term | Opaque) -> Predicate:
    """The disjunction of some terms."""
    return frozenset(terms)


def mask_of(predicate: Predicate, rows: pa.Table) -> Mask:
    """Which rows satisfy one of the terms."""
    mask: Mask = np.logical_or.reduce([term.mask(rows) for term in predicate])
    return mask


def are_disjoint(terms: Iterable[Term | Opaque]) -> bool:
    """Whether no row satisfies two of them."""
    return all(term.disjoint(other) for term, other in combinations(terms, 2))


def text_of(predicate: Predicate) -> str:
    return " OR ".join(sorted(map(str, predicate)))


def _meet(span: Span, other: Span) -> bool:
    """Whether two spans of a dense order have a value in common."""
    low = span if other[0] is None or _later(span, other) else other
    high = span if other[2] is None or _sooner(span, other) else other
    if low[0] is None or high[2] is None:
        return True
    return bool(low[0] < high[2] or (low[0] == high[2] and low[1] and high[3]))


def _later(span: Span, other: Span) -> bool:
    """Whether a span begins no sooner than another that has a beginning."""
    return span[0] is not None and bool((span[0], not span[1]) >= (other[0], not other[1]))


def _sooner(span: Span, other: Span) -> bool:
    return span[2] is not None and bool((span[2], span[3]) <= (other[2], other[3]))
