"""Outer joins in terms of joins and negations, and the way back.

``L LEFT JOIN R`` is a union of the pairs and of L's rows without a partner, padded with NULLs. The
first part of such a union gives the columns their names, so that it reads like a join.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mayfly.plan.expressions import Column, Expression, Literal
from mayfly.plan.logical_operators import (
    AntiJoin,
    Equality,
    Join,
    Named,
    Node,
    Position,
    Project,
    RelationJoin,
    Schema,
    UnionAll,
)


def left_join(
    left: Node,
    right: Node,
    equalities: tuple[Equality, ...],
    residual: Expression | None,
    alias: str,
    position: Position | None,
) -> UnionAll:
    """Rows of the left with each partner, or with NULLs; ``alias`` is free."""
    pairs = Join((left, right), equalities, residual, position=position)
    lonely = AntiJoin(left, right, equalities, residual=residual, position=position)
    padded = without_partner(lonely, (*left.schema, *right.schema), alias)
    return UnionAll((pairs, padded), None, position=position)


def without_partner(lonely: AntiJoin, schema: Schema, alias: str) -> Project:
    """Rows without a partner, with NULL for its columns."""
    own = set(lonely.schema)
    outputs = tuple(
        Named(f"column_{number}", column if column in own else Literal(None, column.type))
        for number, column in enumerate(schema, start=1)
    )
    return Project(lonely, outputs, alias, position=lonely.position)


@dataclass(frozen=True)
class OuterJoin:
    """An outer join as it stands in a plan: the pairs, and its padded parts."""

    pairs: Node
    padded: tuple[Project, ...]

    @staticmethod
    def of(node: Node) -> OuterJoin | None:
        """The outer join that a union is, if it is one."""
        if not isinstance(node, UnionAll) or node.alias is not None:
            return None
        pairs, *others = node.inputs
        if not isinstance(pairs, Join | RelationJoin) or not all(map(_is_padded, others)):
            return None
        return OuterJoin(pairs, tuple(part for part in others if isinstance(part, Project)))


def _is_padded(node: Node) -> bool:
    return isinstance(node, Project) and isinstance(node.child, AntiJoin)


def nulls_of(padded: Project, schema: Sequence[Column]) -> dict[Column, Literal]:
    """The columns of the union that a padded part fills with NULL."""
    pairs = zip(schema, padded.outputs, strict=True)
    return {
        column: output.expression
        for column, output in pairs
        if isinstance(output.expression, Literal) and output.expression.value is None
    }
