"""GROUP BY, aggregates and HAVING: which expressions may stand above a grouping.

Above the grouping only its keys and aggregates exist; every other column is an error at its
place. Equal expressions are one column, so ``SELECT a + 1 … GROUP BY a + 1`` is understood.
"""

from __future__ import annotations

import re
from dataclasses import replace

from sqlglot import exp

from mayfly.cql.aggregate_types import bind_aggregate, has_aggregate, is_aggregate
from mayfly.cql.places import error_on
from mayfly.cql.scalar import ScalarBinder
from mayfly.cql.scope import Aliases
from mayfly.plan.expressions import Column, Expression
from mayfly.plan.logical_operators import AggregateCall, Named


class Grouping:
    """The keys and aggregates of one block, collected while its outputs are bound."""

    def __init__(self, alias: str, inputs: ScalarBinder) -> None:
        self.alias = alias
        self.inputs = inputs
        self.keys: list[Named] = []
        self.aggregates: list[AggregateCall] = []
        self.places: list[exp.Expr] = []
        self._names = Aliases()
        self._key_columns: dict[Expression, Column] = {}
        self._call_columns: dict[AggregateCall, Column] = {}

    def add_key(self, node: exp.Expr) -> None:
        bound = self.inputs.bind(node)
        if not bound.type.is_comparable:
            problem = f"values of type {bound.type} cannot be grouped"
            raise error_on(self.inputs.source, node, problem, "group by a member of it")
        if bound not in self._key_columns:
            base_name = bound.name if isinstance(bound, Column) else f"key_{len(self.keys) + 1}"
            key = Named(self._names.fresh(base_name), bound)
            self.keys.append(key)
            self._key_columns[bound] = key.column(self.alias)

    def key(self, bound: Expression) -> Column | None:
        return self._key_columns.get(bound)

    def aggregate(self, node: exp.Expr) -> Column:
        """The column of an aggregate call; the same call twice is one column."""
        call = bind_aggregate(node, self.inputs)
        if call not in self._call_columns:
            named = replace(call, name=self._names.fresh(aggregate_name(call)))
            self.aggregates.append(named)
            self.places.append(node)
            self._call_columns[call] = named.column(self.alias)
        return self._call_columns[call]


def aggregate_name(call: AggregateCall) -> str:
    """The default name of an aggregate's column: sum_bytes, count, count_distinct_src."""
    argument = call.argument.name if isinstance(call.argument, Column) else ""
    parts = [call.function.removesuffix("_samp"), "distinct" if call.distinct else "", argument]
    return re.sub(r"\W+", "_", "_".join(part for part in parts if part))


class GroupedBinder(ScalarBinder):
    """Binds outputs, HAVING and ORDER BY of a block with groups."""

    def __init__(self, grouping: Grouping, clause: str) -> None:
        super().__init__(grouping.inputs.source, grouping.inputs.scope, clause)
        self.grouping = grouping
        self.inputs = ScalarBinder(self.source, self.scope, clause)

    def bind(self, node: exp.Expr) -> Expression:
        if is_aggregate(node):
            return self.grouping.aggregate(node)
        if not has_aggregate(node):
            bound = self.inputs.bind(node)
            key = self.grouping.key(bound)
            if key is not None:
                return key
            if isinstance(node, exp.Column | exp.Dot):
                raise self.error(
                    node,
                    f"{bound.sql().replace('`', '')} is neither in GROUP BY nor in an aggregate",
                    f"add it to GROUP BY, or use MIN({node.sql()}) or another aggregate",
                )
        return super().bind(node)
