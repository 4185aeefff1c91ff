"""The aggregates of the language and their types."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sqlglot import exp

from mayfly.plan.expressions import Case, Expression, Literal, Value, as_type
from mayfly.plan.frequent_call import (
    APPROXIMATE,
    EXACT,
    NO_FALSE_NEGATIVES,
    NO_FALSE_POSITIVES,
)
from mayfly.plan.logical_operators import AggregateCall
from mayfly.plan.types import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    INT,
    VOID,
    DataType,
    array,
    bounded_decimal,
    struct,
)

if TYPE_CHECKING:
    from mayfly.cql.scalar import ScalarBinder


def _sum(kind: DataType) -> DataType:
    if kind.name == "decimal":
        return bounded_decimal(kind.params[0] + 10, kind.params[1])
    return BIGINT if kind.is_integral else DOUBLE


def _mean(kind: DataType) -> DataType:
    if kind.name == "decimal":
        return bounded_decimal(kind.params[0] + 4, kind.params[1] + 4)
    return DOUBLE


def _counted(kind: DataType) -> DataType:
    return array(struct(value=kind, count=BIGINT))


def _bounded(kind: DataType) -> DataType:
    item = struct(value=kind, low=BIGINT, high=BIGINT)
    return struct(items=array(item), delta=BIGINT, rows=BIGINT, partial=BOOLEAN, complete=BOOLEAN)


@dataclass(frozen=True)
class AggregateType:
    """What an aggregate takes and gives; ``form`` shows how it is written."""

    form: str
    result: Callable[[DataType], DataType]
    numeric: bool = False
    parameters: int = 0


_COUNT = AggregateType("COUNT(*), COUNT(x) or COUNT(DISTINCT x)", lambda kind: BIGINT)
_SPREAD = AggregateType("VAR(x), STDDEV(x)", lambda kind: DOUBLE, numeric=True)
_KNOWN: dict[str, AggregateType] = {
    "count": _COUNT,
    "sum": AggregateType("SUM(x)", _sum, numeric=True),
    "avg": AggregateType("AVG(x)", _mean, numeric=True),
    "min": AggregateType("MIN(x)", lambda kind: kind),
    "max": AggregateType("MAX(x)", lambda kind: kind),
    "var_samp": _SPREAD,
    "stddev_samp": _SPREAD,
    "median": AggregateType("MEDIAN(x)", lambda kind: DOUBLE, numeric=True),
    "quantile": AggregateType("QUANTILE(x, q)", lambda kind: kind, parameters=1),
    "mode": AggregateType("MODE(x)", lambda kind: kind),
    "collect_set": AggregateType("COLLECT_SET(x)", array),
    "top": AggregateType("TOP(x, k)", _counted, parameters=1),
    EXACT: AggregateType(
        "FREQUENT(x, k [, share] [, 'NO FALSE NEGATIVES'])", _bounded, parameters=1
    ),
    APPROXIMATE: AggregateType(
        "APPROX_FREQUENT(x, k [, share] [, 'NO FALSE NEGATIVES'])", _bounded, parameters=1
    ),
}
AGGREGATES = {
    **{name: name for name in _KNOWN},
    "mean": "avg",
    "var": "var_samp",
    "variance": "var_samp",
    "stddev": "stddev_samp",
    "std": "stddev_samp",
}
"""Every name an aggregate is called by, with the name plans use."""
_LATEST = "the latest row of each k is s [PARTITION BY k ROWS 1]"
_LISTED = "COLLECT_SET(x) gives the values, each once, in their order"
_TRUTH = "write MIN or MAX(CASE WHEN … THEN 1 ELSE 0 END)"
FOREIGN_AGGREGATES = {
    **dict.fromkeys(("first", "first_value", "any_value"), "write MIN(x), or join with MIN(ts)"),
    **dict.fromkeys(("last", "last_value", "latest"), _LATEST),
    **dict.fromkeys(("min_by", "arg_min"), "write a sub-query with ORDER BY y LIMIT 1"),
    **dict.fromkeys(("max_by", "arg_max"), "write a sub-query with ORDER BY y DESC LIMIT 1"),
    **dict.fromkeys(("collect_list", "array_agg", "string_agg", "listagg"), _LISTED),
    **dict.fromkeys(("bool_and", "bool_or", "every"), _TRUTH),
    **dict.fromkeys(("count_if", "countif"), "write COUNT(*) FILTER (WHERE …)"),
    **dict.fromkeys(("percentile", "percentile_cont"), "write QUANTILE(x, 0.9) or MEDIAN(x)"),
    **dict.fromkeys(("row_number", "rank", "dense_rank"), "write ORDER BY x LIMIT n"),
}
"""What to write for aggregates of other languages."""


def is_aggregate(node: exp.Expr) -> bool:
    if isinstance(node, exp.Filter):
        node = node.this
    return isinstance(node, exp.Anonymous) and node.name.lower() in AGGREGATES


def has_aggregate(node: exp.Expr) -> bool:
    """Whether an aggregate stands in the expression (not in a sub-query of it)."""
    within = node.walk(prune=lambda part: isinstance(part, exp.Query))
    return any(is_aggregate(part) for part in within)


def bind_aggregate(node: exp.Expr, inputs: ScalarBinder) -> AggregateCall:
    """An aggregate call over the input columns; its name is still to be given."""
    if isinstance(node, exp.Filter):
        return _filtered(bind_aggregate(node.this, inputs), node.expression.this, inputs)
    function = AGGREGATES[node.name.lower()]
    aggregate = _KNOWN[function]
    arguments, distinct = list(node.expressions), False
    if len(arguments) == 1 and isinstance(arguments[0], exp.Distinct):
        distinct, arguments = True, list(arguments[0].expressions)
    if distinct and function != "count":
        problem = f"DISTINCT inside {node.name.upper()} is not in the language"
        raise inputs.error(node, problem, "aggregate over FROM (SELECT DISTINCT …)")
    if function == "count" and len(arguments) == 1 and isinstance(arguments[0], exp.Star):
        if distinct:
            raise inputs.error(node, "COUNT(DISTINCT *) has no meaning", "write COUNT(DISTINCT x)")
        return AggregateCall("", "count", None, BIGINT)
    extra = 2 if function in (EXACT, APPROXIMATE) else 0
    if not 1 + aggregate.parameters <= len(arguments) <= 1 + aggregate.parameters + extra:
        problem = f"{node.name.upper()} does not take {len(arguments)} argument(s)"
        raise inputs.error(node, problem, f"write {aggregate.form}")
    argument = _argument(node, arguments[0], aggregate, inputs)
    parameters = _parameters(function, arguments[1:], inputs)
    kind = aggregate.result(argument.type)
    return AggregateCall("", function, argument, kind, distinct, parameters)


def _filtered(call: AggregateCall, place: exp.Expr, inputs: ScalarBinder) -> AggregateCall:
    """``agg(x) FILTER (WHERE p)``: NULL, which aggregates pass over, where p does not hold."""
    _refuse_aggregates(place, inputs)
    condition = inputs.condition(place)
    argument = Literal(1, INT) if call.argument is None else call.argument
    return replace(call, argument=Case((condition,), (argument,), None, argument.type))


def _argument(
    node: exp.Expr, place: exp.Expr, aggregate: AggregateType, inputs: ScalarBinder
) -> Expression:
    _refuse_aggregates(place, inputs)
    bound = inputs.bind(place)
    if aggregate.numeric:
        if not bound.type.is_numeric and bound.type != VOID:
            raise inputs.error(
                place, f"{node.name.upper()} needs a number, not {bound.type}", "CAST it"
            )
        return as_type(bound, DOUBLE) if bound.type == VOID else bound
    if not bound.type.is_comparable:
        problem = f"{node.name.upper()} cannot compare values of type {bound.type}"
        raise inputs.error(place, problem, "use a member of it")
    return bound


def _refuse_aggregates(place: exp.Expr, inputs: ScalarBinder) -> None:
    for part in place.walk():
        if is_aggregate(part):
            raise inputs.error(
                part,
                "an aggregate cannot stand in another one",
                "compute the inner one in a sub-query, or use Wstream",
            )


def _parameters(function: str, places: list[exp.Expr], inputs: ScalarBinder) -> tuple[Value, ...]:
    if function == "quantile":
        return (_share(places[0], inputs),)
    if function in (EXACT, APPROXIMATE):
        return (_count(places[0], inputs), *_threshold(places[1:], inputs))
    return tuple(_count(place, inputs) for place in places)


def _threshold(places: list[exp.Expr], inputs: ScalarBinder) -> tuple[Value, ...]:
    """A share of the rows, and which errors FREQUENT may make; either may be left out."""
    values: list[Value] = []
    for index, place in enumerate(places):
        bound = inputs.bind(place)
        if index == len(places) - 1 and isinstance(bound, Literal) and isinstance(bound.value, str):
            values.append(_errors(place, bound.value, inputs))
        elif index == 0:
            values.append(_share(place, inputs))
        else:
            raise inputs.error(place, "this must say which errors to avoid", _ERRORS)
    return tuple(values)


_ERRORS = f"write '{NO_FALSE_POSITIVES}' or '{NO_FALSE_NEGATIVES}'"


def _errors(place: exp.Expr, text: str, inputs: ScalarBinder) -> Value:
    if text.upper() not in (NO_FALSE_POSITIVES, NO_FALSE_NEGATIVES):
        raise inputs.error(place, f"there is no kind of error {text!r}", _ERRORS)
    return text.upper()


def _share(place: exp.Expr, inputs: ScalarBinder) -> Value:
    bound = inputs.bind(place)
    if isinstance(bound, Literal) and bound.type.is_numeric and bound.value is not None:
        value = float(str(bound.value))
        if 0.0 <= value <= 1.0:
            return value
    raise inputs.error(place, "this must be a constant from 0 to 1", "write it like 0.95")


def _count(place: exp.Expr, inputs: ScalarBinder) -> Value:
    bound = inputs.bind(place)
    if isinstance(bound, Literal) and bound.type.is_integral and bound.value is not None:
        value = int(str(bound.value))
        if value >= 1:
            return value
    raise inputs.error(place, "k must be a constant whole number from 1 on", "write it like 10")
