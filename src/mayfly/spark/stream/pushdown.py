"""Selections that Spark SQL makes before rows cross into Python.

Idea: a row of a stream that no query selects need not leave the JVM. Per stream the condition is
what all who read it have in common: the disjunction of their selections, as far as these compare
columns with constants. Invariant: whatever a query needs passes, and its own selection is made
again behind; so a term that is not understood is left out. Constants whose text a session
setting reads in its own way (instants, backslashes, quotes) are left to the kernels, and so is what
may raise an error. Clocks and counts are those of all rows: of the others only the time crosses.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mayfly.kernels.predicate_index import MANY_SELECTIONS
from mayfly.physical.stages import Feed
from mayfly.plan.expressions import (
    And,
    Case,
    Cast,
    Column,
    Compare,
    Expression,
    InList,
    IsNull,
    Literal,
    Not,
    Or,
    quoted,
)

_KNOWN = (Compare, And, Or, Not, IsNull, InList, Case)
_WHOLE = ("tinyint", "smallint", "int", "bigint")
_TYPES = (*_WHOLE, "boolean", "string", "double")


def wanted_rows(
    feeds: Sequence[Feed], named: Callable[[Column], str] = lambda column: quoted(column.name)
) -> str | None:
    """What the readers of one stream have in common, over columns as they are ``named``; None if
    one needs every row, or if there are so many that an index finds their rows sooner."""
    if not 0 < len(feeds) < MANY_SELECTIONS:
        return None
    conditions = []
    for feed in feeds:
        predicate = feed.selects
        terms = predicate.terms if isinstance(predicate, And) else (predicate,)
        understood = [term.sql(named) for term in terms if term and pushes(term)]
        if not understood:
            return None
        conditions.append(" AND ".join(understood))
    return " OR ".join(f"({condition})" for condition in dict.fromkeys(conditions))


def pushes(expression: Expression) -> bool:
    """Whether an expression means the same in every session, and cannot fail."""
    match expression:
        case Column():
            return expression.type.name in _TYPES
        case Literal(value=value):
            plain = not isinstance(value, str) or not {"\\", "'"} & set(value)
            return plain and expression.type.name in _TYPES
        case Cast(child=child):
            wider = _WHOLE[_WHOLE.index(child.type.name) :] if child.type.name in _WHOLE else ()
            return expression.type.name in wider and pushes(child)
    return isinstance(expression, _KNOWN) and all(map(pushes, expression.children()))
