"""GROUP BY, aggregates and HAVING: which expressions may stand above a grouping.

Above the grouping only its keys and aggregates exist; every other column is an error at its
place. Equal expressions are one column, so ``SELECT a + 1 … GROUP BY a + 1`` is understood.
"""

from __future__ import annotations

import re
from dataclasses import replace

from sqlglot import exp

from mayfly.cql.aggregate_functions import bind_aggregate, has_aggregate, is_aggregate
from mayfly.cql.messages import listing
from mayfly.cql.places import error_on
from mayfly.cql.scalar import ScalarBinder
from mayfly.cql.scope import Aliases
from mayfly.plan.expressions import Column, Expression
from mayfly.plan.logical_operators import AggregateCall, Named
from mayfly.plan.ordered_calls import entry_of
from mayfly.plan.types import BIGINT, TINYINT


class Grouping:
    """The keys and aggregates of one block, collected while its outputs are bound."""

    def __init__(self, alias: str, inputs: ScalarBinder) -> None:
        self.alias = alias
        self.inputs = inputs
        self.keys: list[Named] = []
        self.aggregates: list[AggregateCall] = []
        self.places: list[exp.Expr] = []
        self._names = Aliases()
        self.sets: list[frozenset[str]] = []
        """The names of the keys of each grouping."""
        self.indicators: dict[Column, tuple[str, ...]] = {}
        """Columns of GROUPING, and the keys they tell about."""
        self._key_columns: dict[Expression, Column] = {}
        self._call_columns: dict[AggregateCall, Column] = {}

    def add_set(self, keys: list[exp.Expr]) -> None:
        """One more grouping, by these keys; a key that another one lacks may be NULL."""
        self.sets.append(frozenset(self._key_name(key) for key in keys))
        for expression, column in self._key_columns.items():
            if any(column.name not in names for names in self.sets):
                self._key_columns[expression] = replace(column, may_be_null=True)

    def add_to_all(self, keys: list[Expression]) -> None:
        """Keys that every grouping has, whether it lists them or not."""
        names = frozenset(self.add_bound_key(key).name for key in keys)
        self.sets = [own | names for own in self.sets]

    def _key_name(self, node: exp.Expr) -> str:
        bound = self.inputs.bind(node)
        if not bound.type.is_comparable:
            problem = f"values of type {bound.type} cannot be grouped"
            raise error_on(self.inputs.source, node, problem, "group by a member of it")
        return self.add_bound_key(bound).name

    def add_bound_key(self, bound: Expression) -> Column:
        if bound not in self._key_columns:
            base_name = bound.name if isinstance(bound, Column) else f"key_{len(self.keys) + 1}"
            key = Named(self._names.fresh(base_name), bound)
            self.keys.append(key)
            self._key_columns[bound] = key.column(self.alias)
        return self._key_columns[bound]

    def fresh_name(self, base: str) -> str:
        """A name that no column of the groups has."""
        return self._names.fresh(base)

    def key(self, bound: Expression) -> Column | None:
        return self._key_columns.get(bound)

    def indicator(self, node: exp.Expr) -> Column:
        """The column of GROUPING(a) or GROUPING_ID(a, b): which keys a row's grouping lacks."""
        word = node.name.upper()
        if len(self.sets) < 2:
            hint = f"leave it out, or write GROUP BY ROLLUP({', '.join(k.name for k in self.keys)})"
            raise self.inputs.error(node, f"{word} needs GROUPING SETS, ROLLUP or CUBE", hint)
        names = tuple(self._asked_key(node, place) for place in node.expressions)
        if not names and word == "GROUPING":
            raise self.inputs.error(node, "GROUPING needs a key of GROUP BY", "write GROUPING(a)")
        names = names or tuple(key.name for key in self.keys)
        kind = TINYINT if word == "GROUPING" and len(names) == 1 else BIGINT
        for column, listed in self.indicators.items():
            if (listed, column.type) == (names, kind):
                return column
        column = Column(self.alias, self._names.fresh("grouping"), kind, may_be_null=False)
        self.indicators[column] = names
        return column

    def _asked_key(self, node: exp.Expr, place: exp.Expr) -> str:
        column = self.key(self.inputs.bind(place))
        if column is None:
            problem = f"{node.name.upper()} asks about keys of GROUP BY only"
            raise self.inputs.error(
                place, problem, f"they are {listing(k.name for k in self.keys)}"
            )
        return column.name

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
    entry = entry_of(call)
    value = entry.arguments[-1] if entry else call.argument
    argument = value.name if isinstance(value, Column) else ""
    parts = [call.function.removesuffix("_samp"), "distinct" if call.distinct else "", argument]
    return re.sub(r"\W+", "_", "_".join(part for part in parts if part))


def _is_indicator(node: exp.Expr) -> bool:
    return isinstance(node, exp.Anonymous) and node.name.lower() in ("grouping", "grouping_id")


class GroupedBinder(ScalarBinder):
    """Binds outputs, HAVING and ORDER BY of a block with groups."""

    def __init__(self, grouping: Grouping, clause: str) -> None:
        super().__init__(grouping.inputs.source, grouping.inputs.scope, clause)
        self.grouping = grouping
        self.inputs = ScalarBinder(self.source, self.scope, clause)

    def bind(self, node: exp.Expr) -> Expression:
        if is_aggregate(node):
            return self.grouping.aggregate(node)
        if _is_indicator(node):
            return self.grouping.indicator(node)
        if not has_aggregate(node) and not any(map(_is_indicator, node.walk())):
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
