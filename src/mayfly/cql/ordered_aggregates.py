"""Binds FIRST, LAST, MIN_BY, MAX_BY, COLLECT_LIST and STRING_AGG: values by an order of rows.

The order is the stream's, by its time and SEQUENCE, then by the values of the row, unless the call
brings its own; it is part of the plan, so that kernels see plain entries.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from mayfly.cql.written_calls import WrittenCall
from mayfly.plan.expressions import Case, Expression, IsNull, Literal, Not, Value
from mayfly.plan.logical_operators import AggregateCall
from mayfly.plan.ordered_calls import (
    ASCENDING,
    DESCENDING,
    LISTS,
    NULLS_FIRST,
    NULLS_LAST,
    PICKS,
    entry,
)
from mayfly.plan.types import BOOLEAN, STRING, array

if TYPE_CHECKING:
    from mayfly.cql.scalar import ScalarBinder

FORMS = {
    "first": "FIRST(x) or FIRST(x ORDER BY y)",
    "last": "LAST(x) or LAST(x ORDER BY y)",
    "min_by": "MIN_BY(x, y)",
    "max_by": "MAX_BY(x, y)",
    "collect_list": "COLLECT_LIST(x) or COLLECT_LIST(x ORDER BY y)",
    "string_agg": "STRING_AGG(x, ', ') or STRING_AGG(x, ', ' ORDER BY y)",
}
_ARGUMENTS = {"first": (1, 2), "last": (1, 2), "collect_list": (1, 1), "string_agg": (1, 2)}
_OPPOSITE = {
    ASCENDING: DESCENDING,
    DESCENDING: ASCENDING,
    ASCENDING + NULLS_LAST: DESCENDING + NULLS_FIRST,
    DESCENDING + NULLS_FIRST: ASCENDING + NULLS_LAST,
}
Order = list[tuple[Expression, str]]


def is_ordered(function: str) -> bool:
    return function in (*PICKS, *LISTS)


def bind_ordered(call: WrittenCall, function: str, inputs: ScalarBinder) -> AggregateCall:
    """A call whose rows have an order; places of arguments were looked at for aggregates."""
    _check_form(call, function, inputs)
    value = _value(call, function, inputs)
    if call.distinct:
        return _each_once(call, function, value, inputs)
    beside: Expression | None = None
    if function in ("min_by", "max_by"):
        beside = _comparable(call.arguments[1], inputs)
        order = [(beside, ASCENDING if function == "min_by" else DESCENDING)]
    else:
        order = [_key(place, inputs) for place in call.order]
    rest = [(key, ASCENDING) for key in inputs.scope.stream_order() if key not in dict(order)]
    if not order and not rest:
        raise inputs.error(
            call.node,
            f"{call.name} needs an order: what FROM names has no time of its own",
            f"write {_with_order(call, function)}",
        )
    members = [*order, *rest, (value, ASCENDING)]
    if function == "last":
        members = [(key, _OPPOSITE[direction]) for key, direction in members]
    argument: Expression = entry([key for key, _ in members[:-1]], value)
    required = beside or (value if function in LISTS or call.ignores_nulls else None)
    if required is not None and required.nullable:
        argument = Case((Not(IsNull(required)),), (argument,), None, argument.type)
    kind = array(value.type) if function == "collect_list" else value.type
    parameters: list[Value] = [direction for _, direction in members]
    if function == "string_agg":
        parameters.append(_separator(call, inputs))
    return AggregateCall("", function, argument, kind, parameters=tuple(parameters))


def _each_once(
    call: WrittenCall, function: str, value: Expression, inputs: ScalarBinder
) -> AggregateCall:
    """``STRING_AGG(DISTINCT x, ', ')``: in the order of the values, or against it."""
    keys = [_key(place, inputs) for place in call.order]
    if any(key != value for key, _ in keys) or len(keys) > 1:
        problem = f"{call.name}(DISTINCT x) is ordered by x alone"
        raise inputs.error(call.node, problem, f"leave ORDER BY out, or write {call.name}(x)")
    direction = keys[0][1] if keys else ASCENDING
    argument: Expression = entry([], value)
    if value.nullable:
        argument = Case((Not(IsNull(value)),), (argument,), None, argument.type)
    parameters: list[Value] = [direction, _separator(call, inputs)]
    return AggregateCall("", function, argument, value.type, True, tuple(parameters))


def _check_form(call: WrittenCall, function: str, inputs: ScalarBinder) -> None:
    least, most = _ARGUMENTS.get(function, (2, 2))
    if not least <= len(call.arguments) <= most:
        problem = f"{call.name} does not take {len(call.arguments)} argument(s)"
        raise inputs.error(call.node, problem, f"write {FORMS[function]}")
    if call.order and function in ("min_by", "max_by"):
        problem = f"ORDER BY has no meaning in {call.name}"
        raise inputs.error(call.node, problem, f"write {FORMS[function]}")


def _with_order(call: WrittenCall, function: str) -> str:
    value = call.arguments[0].sql()
    if function in PICKS:
        return f"{'MAX_BY' if function == 'last' else 'MIN_BY'}({value}, y)"
    return f"{call.name}({value}{', …' if function == 'string_agg' else ''} ORDER BY y)"


def _value(call: WrittenCall, function: str, inputs: ScalarBinder) -> Expression:
    value = _comparable(call.arguments[0], inputs)
    if function == "string_agg" and value.type != STRING:
        problem = f"{call.name} joins text, not {value.type}"
        raise inputs.error(call.arguments[0], problem, "CAST it to STRING")
    if function in ("first", "last") and len(call.arguments) == 2:
        flag = inputs.bind(call.arguments[1])
        if not (isinstance(flag, Literal) and flag.type == BOOLEAN):
            problem = f"the second argument of {call.name} says TRUE to pass over NULLs"
            raise inputs.error(call.arguments[1], problem, f"write {call.name}(x) IGNORE NULLS")
        call.ignores_nulls |= bool(flag.value)
    return value


def _comparable(place: exp.Expr, inputs: ScalarBinder) -> Expression:
    bound = inputs.bind(place)
    if not bound.type.is_comparable:
        problem = f"values of type {bound.type} have no order"
        raise inputs.error(place, problem, "use a member of it")
    return bound


def _key(place: exp.Expr, inputs: ScalarBinder) -> tuple[Expression, str]:
    key = _comparable(place.this, inputs)
    descending, nulls_first = bool(place.args.get("desc")), bool(place.args.get("nulls_first"))
    direction = DESCENDING if descending else ASCENDING
    if nulls_first == descending:
        direction += NULLS_FIRST if nulls_first else NULLS_LAST
    return key, direction


def _separator(call: WrittenCall, inputs: ScalarBinder) -> str:
    if len(call.arguments) == 1:
        return ""
    bound = inputs.bind(call.arguments[1])
    if isinstance(bound, Literal) and isinstance(bound.value, str):
        return bound.value
    problem = f"{call.name} needs a constant text between values"
    raise inputs.error(call.arguments[1], problem, f"write {FORMS['string_agg']}")
