"""Binds calls of aggregates that users wrote."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from mayfly.cql.functions import FUNCTIONS, SYNONYMS, UNSTABLE
from mayfly.cql.written_calls import WrittenCall
from mayfly.errors import InvalidSetting
from mayfly.keywords import names, text
from mayfly.plan.catalog import Catalog
from mayfly.plan.expressions import Expression, as_type
from mayfly.plan.logical_operators import AggregateCall
from mayfly.plan.ordered_calls import complete_entry
from mayfly.plan.types import VOID, DataType, common_type, parse_type
from mayfly.plan.user_aggregates import AggregateDefinition, check_code

if TYPE_CHECKING:
    from mayfly.cql.scalar import ScalarBinder

_MARK = "users aggregate"


def users_aggregate_of(
    name: str, code: Any, takes: str | Sequence[str], gives: str
) -> AggregateDefinition:
    """An aggregate as a session declares it; types are texts, such as ``"DOUBLE"``."""
    types = tuple(map(parse_type, names("takes", takes)))
    check_code(text("the name of an aggregate", name), code)
    check_aggregate_name(name)
    return AggregateDefinition(name, types, parse_type(text("gives", gives)), code=code)


def check_aggregate_name(name: str) -> None:
    """Refuse the name of a function of the language."""
    from mayfly.cql.aggregate_functions import AGGREGATES  # it reads calls of users' aggregates

    if name.lower() in {*AGGREGATES, *FUNCTIONS, *SYNONYMS, *UNSTABLE}:
        raise InvalidSetting(
            f"{name} is a function of the language", "choose another name for the aggregate"
        )


def mark_users_calls(tree: exp.Expr, catalog: Catalog) -> None:
    """Note at every call of a user's aggregate which one it is."""
    if not catalog.of_kind(AggregateDefinition):
        return
    for node in tree.find_all(exp.Anonymous):
        entry = catalog.lookup(node.name)
        if isinstance(entry, AggregateDefinition):
            node.meta[_MARK] = entry


def users_aggregate(node: exp.Expr) -> AggregateDefinition | None:
    """The user's aggregate that a call means."""
    entry = node.meta.get(_MARK)
    return entry if isinstance(entry, AggregateDefinition) else None


def bind_users_call(
    call: WrittenCall, definition: AggregateDefinition, inputs: ScalarBinder
) -> AggregateCall:
    """A call over rows of which no argument is NULL."""
    if len(call.arguments) != len(definition.takes):
        problem = f"{call.name} does not take {len(call.arguments)} argument(s)"
        raise inputs.error(call.node, problem, f"write {definition.form}")
    parts = [
        _argument(place, kind, definition, inputs)
        for place, kind in zip(call.arguments, definition.takes, strict=True)
    ]
    argument = parts[0] if len(parts) == 1 else complete_entry(parts)
    return AggregateCall("", definition.name.lower(), argument, definition.gives, user=definition)


def _argument(
    place: exp.Expr, kind: DataType, definition: AggregateDefinition, inputs: ScalarBinder
) -> Expression:
    if isinstance(place, exp.Star):
        raise inputs.error(place, f"{definition.name} takes values", f"write {definition.form}")
    bound = inputs.bind(place)
    if bound.type != VOID and common_type(bound.type, kind) != kind:
        problem = f"{definition.name} takes {kind} here, not {bound.type}"
        raise inputs.error(place, problem, f"write CAST({place.sql()} AS {kind})")
    return as_type(bound, kind)
