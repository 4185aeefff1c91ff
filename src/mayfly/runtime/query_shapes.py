"""One-time queries that differ only by the constants they look up: bound once for all of them.

Idea: programs ask for one key after the other, and to bind a text takes longer than to read a row.
So a text is cut into its shape and the constants that are compared by ``=``; the second text of a
shape is bound with stand-ins for these, and later ones put their constants in the place of those.
Invariant: a shape serves only where every stand-in is compared with a column of its own type, above
one table and nothing else; there no plan depends on a value. All other texts are bound as they are.
Cost: a regular expression for each text, and one more binding for each shape.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from mayfly.cql import CqlError
from mayfly.plan.expressions import Column, Compare, Expression, Literal, conjuncts
from mayfly.plan.logical_operators import Node, Output, Select
from mayfly.plan.types import BIGINT, INT, STRING
from mayfly.runtime.prepared_query import PreparedQuery

KEPT = 100
"""Queries that are kept prepared, and as many shapes."""
_NOT_PLAIN = re.compile(r"[^\x20-\x7e\n\t]|[\\`\"]|--|/\*")
"""Quotes, escapes and comments that need the tokens of the language."""
_CONSTANT = re.compile(r"(?<![<>!=])(=\s*)(?:(\d{1,9})(?![\w.])|'([^']*)'(?!\s*'))|'[^']*'")
_HOLE = "\0"
LOOKED_UP = (INT, BIGINT, STRING)
Constant = int | str
Shape = tuple[str, tuple[type, ...]]


@dataclass(frozen=True)
class ShapedText:
    """A text without the constants that are compared by ``=``."""

    shape: Shape
    constants: tuple[Constant, ...]

    @staticmethod
    def of(text: str) -> ShapedText | None:
        """None if it has no such constants, or is not plain.

        >>> ShapedText.of("SELECT n FROM t WHERE k = 5 AND s='a' AND n > 3").constants
        (5, 'a')
        """
        if _NOT_PLAIN.search(text):
            return None
        constants: list[Constant] = []

        def cut(match: re.Match[str]) -> str:
            sign, number, letters = match.groups()
            if sign is None:
                return match[0]
            constants.append(letters if number is None else int(number))
            return f"{sign}{_HOLE}"

        remainder = _CONSTANT.sub(cut, text)
        if not constants:
            return None
        return ShapedText((remainder, tuple(map(type, constants))), tuple(constants))

    def text(self, constants: tuple[Constant, ...]) -> str:
        """A text of this shape."""
        written = iter(f"'{c}'" if isinstance(c, str) else str(c) for c in constants)
        return re.sub(_HOLE, lambda _: next(written), self.shape[0])


@dataclass(frozen=True)
class ShapedQuery:
    """A query that was bound with stand-ins."""

    prepared: PreparedQuery
    stand_ins: tuple[Constant, ...]

    @staticmethod
    def of(shaped: ShapedText, bind: Callable[[str], PreparedQuery]) -> ShapedQuery | None:
        """None if a plan of this shape may depend on the constants."""
        stand_ins = tuple(
            f"stand-in {place:06}" if isinstance(constant, str) else 987_000_000 + place
            for place, constant in enumerate(shaped.constants)
        )
        if any(str(stand_in) in shaped.shape[0] for stand_in in stand_ins):
            return None
        try:
            prepared = bind(shaped.text(stand_ins))
        except CqlError:  # a text that is a date, say, is compared with a date
            return None
        return ShapedQuery(prepared, stand_ins) if _fits(prepared, stand_ins) else None

    def with_constants(self, text: str, constants: tuple[Constant, ...]) -> PreparedQuery:
        """The query of a text of this shape."""
        values = dict(zip(self.stand_ins, constants, strict=True))

        def filled(node: Node) -> Node:
            if isinstance(node, Select):
                return replace(node, predicate=node.predicate.transform(put))
            return node

        def put(part: Expression) -> Expression:
            if isinstance(part, Literal) and isinstance(part.value, int | str):
                return replace(part, value=values.get(part.value, part.value))
            return part

        bound = self.prepared.bound.transform(filled)
        assert isinstance(bound, Output)
        return replace(self.prepared, text=text, bound=bound)


@dataclass
class KnownShape:
    """A shape of texts that were met."""

    met: int = 0
    query: ShapedQuery | None = None
    """None while it was met once, or if plans may depend on the constants."""


@dataclass
class PreparedQueries:
    """The last one-time queries, by text and by shape."""

    texts: OrderedDict[str, PreparedQuery] = field(default_factory=OrderedDict)
    shapes: OrderedDict[Shape, KnownShape] = field(default_factory=OrderedDict)

    def find(self, text: str, bind: Callable[[str], PreparedQuery]) -> PreparedQuery:
        """The query of a text, which is bound if it has to be."""
        if (prepared := self.texts.pop(text, None)) is None:
            shaped = ShapedText.of(text)
            if shaped is not None and (query := self._shaped(shaped, bind)) is not None:
                return query.with_constants(text, shaped.constants)
            prepared = bind(text)
        if not prepared.synopses:  # which are those of one version
            self.texts[text] = prepared
            while len(self.texts) > KEPT:
                self.texts.popitem(last=False)
        return prepared

    def _shaped(
        self, shaped: ShapedText, bind: Callable[[str], PreparedQuery]
    ) -> ShapedQuery | None:
        shape = self.shapes.pop(shaped.shape, None) or KnownShape()
        shape.met += 1
        if shape.met == 2:
            shape.query = ShapedQuery.of(shaped, bind)
        self.shapes[shaped.shape] = shape
        while len(self.shapes) > KEPT:
            self.shapes.popitem(last=False)
        return shape.query


def _fits(prepared: PreparedQuery, stand_ins: tuple[Constant, ...]) -> bool:
    """Whether each stand-in is compared with a column of its type, and is nowhere else."""
    if prepared.row_read is None or prepared.synopses:
        return False
    steps = prepared.row_read.steps
    predicates = [step.predicate for step in steps if isinstance(step, Select)]
    terms = [term for predicate in predicates for term in conjuncts(predicate)]
    compared = [
        term.right.value
        for term in terms
        if isinstance(term, Compare)
        and (term.op == "=" and isinstance(term.left, Column) and isinstance(term.right, Literal))
        and (term.left.type == term.right.type and term.left.type in LOOKED_UP)
    ]
    plan = repr(prepared.bound)
    return all(value in compared and plan.count(str(value)) == 1 for value in stand_ins)
