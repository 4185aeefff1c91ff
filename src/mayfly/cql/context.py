"""What every part of the binder shares while one query is bound."""

from __future__ import annotations

from dataclasses import dataclass, field

from sqlglot import exp

from mayfly.cql.messages import CqlError, SourceText, TextSpan, error_at
from mayfly.cql.places import error_on, position_of
from mayfly.cql.scope import Aliases
from mayfly.plan.catalog import Catalog
from mayfly.plan.logical_operators import Node, Position


@dataclass(frozen=True)
class BindingContext:
    """The text, what it may refer to, and the aliases used so far."""

    source: SourceText
    catalog: Catalog
    one_time: bool = False
    in_negation: bool = False
    aliases: Aliases = field(default_factory=Aliases)

    @property
    def relations_suffice(self) -> bool:
        """Whether a block may do without a stream."""
        return self.one_time or self.in_negation

    def error(self, node: exp.Expr, problem: str, hint: str) -> CqlError:
        """The error for what stands at a syntax node."""
        return error_on(self.source, node, problem, hint)

    def position(self, node: exp.Expr) -> Position:
        return position_of(self.source, node)

    def error_for(self, node: Node, problem: str, hint: str) -> CqlError:
        """The error for what stands where a plan node came from."""
        start = self.source.offset(node.position) if node.position else 0
        return error_at(self.source, TextSpan(start, self.source.word_end(start)), problem, hint)
