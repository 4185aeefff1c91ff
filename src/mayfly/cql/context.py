"""What every part of the binder shares while one query is bound."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice

from sqlglot import exp

from mayfly.cql.messages import CqlError, SourceText, TextSpan, error_at
from mayfly.cql.places import error_on, position_of
from mayfly.cql.scope import Aliases
from mayfly.plan.catalog import Catalog
from mayfly.plan.logical_operators import Node, Position

MOST_OPERATORS = 2_000
"""Of one plan, copies included: what is read by name twice, and outer joins, multiply."""


@dataclass(frozen=True)
class NamedQuery:
    """A query that FROM may read by its name."""

    name: str
    node: Node
    columns: tuple[str, ...]


@dataclass(frozen=True)
class BindingContext:
    """The text, what it may refer to, and the aliases used so far."""

    source: SourceText
    catalog: Catalog
    one_time: bool = False
    in_negation: bool = False
    aliases: Aliases = field(default_factory=Aliases)
    common: Mapping[str, NamedQuery] = field(default_factory=dict)
    """What WITH has named so far."""
    recursive: frozenset[str] = frozenset()
    """The queries of WITH that are just being bound."""
    inlined: dict[str, NamedQuery] = field(default_factory=dict)
    """The views and queries read by name so far, in the whole text."""

    @property
    def relations_suffice(self) -> bool:
        """Whether a block may do without a stream."""
        return self.one_time or self.in_negation

    def check_size(self, place: exp.Expr, node: Node) -> None:
        """Refuse a plan that copies of copies have made too large."""
        if sum(1 for _ in islice(node.walk(), MOST_OPERATORS + 1)) > MOST_OPERATORS:
            problem = f"this makes a plan of more than {MOST_OPERATORS:,} operators"
            hint = "read fewer names more than once, or use fewer outer joins in a row"
            raise self.error(place, problem, hint)

    def error(self, node: exp.Expr, problem: str, hint: str) -> CqlError:
        """The error for what stands at a syntax node."""
        return error_on(self.source, node, problem, hint)

    def position(self, node: exp.Expr) -> Position:
        return position_of(self.source, node)

    def error_for(self, node: Node, problem: str, hint: str) -> CqlError:
        """The error for what stands where a plan node came from."""
        start = self.source.offset(node.position) if node.position else 0
        return error_at(self.source, TextSpan(start, self.source.word_end(start)), problem, hint)
