"""The aggregates of the language and their types."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sqlglot import exp

from mayfly.cql.aging_aggregates import HISTOGRAMS, bind_aging, is_aging
from mayfly.cql.ordered_aggregates import FORMS, bind_ordered, is_ordered
from mayfly.cql.users_calls import bind_users_call, users_aggregate
from mayfly.cql.written_calls import WrittenCall, call_of
from mayfly.plan.aging_calls import DECAYED
from mayfly.plan.expressions import (
    Case,
    Expression,
    Literal,
    Value,
    as_type,
)
from mayfly.plan.frequent_call import (
    APPROXIMATE,
    EXACT,
    NO_FALSE_NEGATIVES,
    NO_FALSE_POSITIVES,
)
from mayfly.plan.logical_operators import AggregateCall
from mayfly.plan.ordered_calls import complete_entry
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
CONDITIONS = ("count_if", "bool_and", "bool_or")
SHARES = ("quantile", "percentile")
PAIRED = ("covar_pop", "covar_samp", "corr")
_OF_DISTINCT = (
    *("count", "sum", "avg", "var_samp", "stddev_samp", "var_pop", "stddev_pop"),
    *("collect_set", "string_agg"),
)
_SAME_DISTINCT = ("min", "max", "bool_and", "bool_or")
"""Of these, DISTINCT changes nothing."""
_APPROXIMATE_COUNTS = ("approx_count_distinct",)
_APPROXIMATE_SHARES = ("approx_percentile", "percentile_approx")
_APPROXIMATE_TOPS = ("approx_top_k", "approx_top")
_SKETCHED = (
    *("approx_count_distinct", "approx_frequency"),
    *(*_APPROXIMATE_SHARES, *_APPROXIMATE_TOPS),
)
"""Forms that a sketch may answer."""
_BOUNDS = {
    f"{form}_{bound}": (form, bound)
    for form in ("approx_count_distinct", "approx_percentile", "approx_top_k", "approx_frequency")
    for bound in ("low", "high")
}
"""Between what the exact answers of these forms lie."""
_KNOWN: dict[str, AggregateType] = {
    "count": _COUNT,
    "sum": AggregateType("SUM(x)", _sum, numeric=True),
    "avg": AggregateType("AVG(x)", _mean, numeric=True),
    "min": AggregateType("MIN(x)", lambda kind: kind),
    "max": AggregateType("MAX(x)", lambda kind: kind),
    "var_samp": _SPREAD,
    "stddev_samp": _SPREAD,
    "var_pop": _SPREAD,
    "stddev_pop": _SPREAD,
    "median": AggregateType("MEDIAN(x)", lambda kind: DOUBLE, numeric=True),
    "quantile": AggregateType("QUANTILE(x, q)", lambda kind: kind, parameters=1),
    "percentile": AggregateType("PERCENTILE(x, q)", lambda kind: DOUBLE, True, 1),
    "mode": AggregateType("MODE(x)", lambda kind: kind),
    "collect_set": AggregateType("COLLECT_SET(x)", array),
    "top": AggregateType("TOP(x, k)", _counted, parameters=1),
    "frequency": AggregateType("APPROX_FREQUENCY(x, value)", lambda kind: BIGINT, parameters=1),
    EXACT: AggregateType(
        "FREQUENT(x, k [, share] [, 'NO FALSE NEGATIVES'])", _bounded, parameters=1
    ),
    APPROXIMATE: AggregateType(
        "APPROX_FREQUENT(x, k [, share] [, 'NO FALSE NEGATIVES'])", _bounded, parameters=1
    ),
}
AGGREGATES = {
    **{name: name for name in _KNOWN if name != "frequency"},
    "approx_frequency": "frequency",
    "mean": "avg",
    "var": "var_samp",
    "variance": "var_samp",
    "stddev": "stddev_samp",
    "std": "stddev_samp",
    **{name: name for name in (*CONDITIONS, *FORMS, *PAIRED)},
    "countif": "count_if",
    "every": "bool_and",
    "logical_and": "bool_and",
    **dict.fromkeys(("some", "logical_or"), "bool_or"),
    "percentile_cont": "percentile",
    "percentile_disc": "quantile",
    **dict.fromkeys(_APPROXIMATE_SHARES, "quantile"),
    "approx_count_distinct": "count",
    **dict.fromkeys(_APPROXIMATE_TOPS, "top"),
    **{name: function for name, (function, _) in HISTOGRAMS.items()},
    **{name: name for name in DECAYED},
    **{
        name: {
            "approx_percentile": "quantile",
            "approx_top_k": "top",
            "approx_frequency": "frequency",
        }.get(form, "count")
        for name, (form, _) in _BOUNDS.items()
    },
    **dict.fromkeys(("any_value", "arbitrary"), "min"),
    "first_value": "first",
    "last_value": "last",
    **dict.fromkeys(("arg_min", "argmin"), "min_by"),
    **dict.fromkeys(("arg_max", "argmax"), "max_by"),
    "array_agg": "collect_list",
    "listagg": "string_agg",
}
"""Every name an aggregate is called by, with the name plans use."""
FOREIGN_AGGREGATES = {
    **dict.fromkeys(
        ("row_number", "rank", "dense_rank", "lag", "lead"), "write OVER (ORDER BY …) after it"
    ),
    **dict.fromkeys(
        ("explode", "unnest", "posexplode", "explode_outer", "flatten", "inline"),
        "write it in FROM: FROM s [RANGE 10 MIN] t, UNNEST(t.a) AS x(c)",
    ),
    "regr_slope": "write COVAR_POP(y, x) / VAR_POP(x)",
    "regr_r2": "write CORR(y, x) * CORR(y, x)",
    "group_concat": "write STRING_AGG(x, ',')",
    **dict.fromkeys(
        ("array_sort", "sort_array"), "order where it is made: COLLECT_LIST(x ORDER BY x)"
    ),
    "product": "write EXP(SUM(LN(x))) for positive numbers",
    "histogram": "write GROUP BY of the value, or TOP(x, k)",
    **dict.fromkeys(("bit_and", "bit_or", "bit_xor"), "compute the bits before the stream enters"),
    **dict.fromkeys(
        ("skewness", "kurtosis"), "write it with AVG of powers: AVG(x * x * x), VAR_POP(x)"
    ),
    **dict.fromkeys(("proctime", "rowtime"), "use the stream's time column"),
    "array": "arrays are carried along and taken apart, not made; COLLECT_LIST(x) makes one",
}
"""What to write for functions of other languages."""


def is_aggregate(node: exp.Expr) -> bool:
    call = call_of(node)
    if not isinstance(call, exp.Anonymous):
        return False
    return call.name.lower() in AGGREGATES or users_aggregate(call) is not None


def has_aggregate(node: exp.Expr) -> bool:
    """Whether an aggregate stands in the expression, not in a sub-query of it nor before OVER."""
    within = node.walk(prune=lambda part: isinstance(part, exp.Query | exp.Window))
    return any(is_aggregate(part) for part in within)


def bind_aggregate(node: exp.Expr, inputs: ScalarBinder) -> AggregateCall:
    """An aggregate call over the input columns; its name is still to be given."""
    written = WrittenCall.of(node)
    for place in (*written.arguments, *written.order):
        _refuse_aggregates(place, inputs)
    definition = users_aggregate(written.node)
    function = AGGREGATES[written.name.lower()] if definition is None else definition.name.lower()
    if written.distinct and function == "collect_list":
        function = "collect_set"
    _check_modifiers(written, function, inputs)
    if definition is not None:
        call = bind_users_call(written, definition, inputs)
    elif is_aging(written.name):
        call = bind_aging(written, inputs)
    elif is_ordered(function):
        call = bind_ordered(written, function, inputs)
    elif function in CONDITIONS:
        call = _conditional(written, function, inputs)
    elif function in PAIRED:
        call = _paired(written, function, inputs)
    elif function == "count" and written.distinct and len(written.arguments) > 1:
        call = _counted_rows(written, inputs)
    else:
        call = _bound(written, function, inputs)
    if written.condition is None:
        return call
    return _filtered(call, written.condition, inputs)


def _check_modifiers(call: WrittenCall, function: str, inputs: ScalarBinder) -> None:
    """DISTINCT, ORDER BY and IGNORE NULLS stand where they mean something."""
    if call.distinct and function not in (*_OF_DISTINCT, *_SAME_DISTINCT):
        problem = f"DISTINCT inside {call.name} is not in the language"
        raise inputs.error(call.node, problem, "aggregate over FROM (SELECT DISTINCT …)")
    if call.says_nulls and function not in ("first", "last"):
        hint = "aggregates pass over NULLs anyway; leave it out"
        raise inputs.error(call.node, f"{call.name} takes no IGNORE or RESPECT NULLS", hint)
    of_order = function == "mode" and call.within_group and not call.arguments
    if call.order and not (is_ordered(function) or of_order or _is_share_first(call, function)):
        problem = f"ORDER BY has no meaning in {call.name}"
        raise inputs.error(call.node, problem, "leave it out")


def _is_share_first(call: WrittenCall, function: str) -> bool:
    """``PERCENTILE_CONT(q) WITHIN GROUP (ORDER BY x)``."""
    return function in SHARES and call.within_group and len(call.arguments) == 1


def _conditional(call: WrittenCall, function: str, inputs: ScalarBinder) -> AggregateCall:
    """COUNT_IF, BOOL_AND and BOOL_OR in terms of COUNT, MIN and MAX."""
    if len(call.arguments) != 1 or isinstance(call.arguments[0], exp.Star):
        problem = f"{call.name} does not take {len(call.arguments)} argument(s)"
        hint = f"write {call.name}(condition)"
        raise inputs.error(call.node, problem, hint)
    place = call.arguments[0]
    condition = inputs.bind(place)
    if condition.type not in (BOOLEAN, VOID):
        problem = f"{call.name} needs a condition, not {condition.type}"
        raise inputs.error(place, problem, "compare it with something")
    condition = as_type(condition, BOOLEAN)
    if function == "count_if":
        counted = Case((condition,), (Literal(1, INT),), None, INT)
        return AggregateCall("", "count", counted, BIGINT)
    return AggregateCall("", "min" if function == "bool_and" else "max", condition, BOOLEAN)


def _paired(call: WrittenCall, function: str, inputs: ScalarBinder) -> AggregateCall:
    """COVAR_POP, COVAR_SAMP and CORR: over pairs of which no side is NULL."""
    if len(call.arguments) != 2:
        problem = f"{call.name} does not take {len(call.arguments)} argument(s)"
        raise inputs.error(call.node, problem, f"write {call.name}(y, x)")
    pair = AggregateType(f"{call.name}(y, x)", lambda kind: DOUBLE, numeric=True)
    sides = [as_type(_argument(call.node, p, pair, inputs), DOUBLE) for p in call.arguments]
    return AggregateCall("", function, complete_entry(sides), DOUBLE)


def _counted_rows(call: WrittenCall, inputs: ScalarBinder) -> AggregateCall:
    """COUNT(DISTINCT a, b): how many combinations there are, without those with a NULL."""
    parts = [_argument(call.node, place, _COUNT, inputs) for place in call.arguments]
    return AggregateCall("", "count", complete_entry(parts), BIGINT, distinct=True)


def _bound(call: WrittenCall, function: str, inputs: ScalarBinder) -> AggregateCall:
    arguments, node = call.arguments, call.node
    form, bound = _BOUNDS.get(call.name.lower(), (call.name.lower(), ""))
    if function == "count" and len(arguments) == 1 and isinstance(arguments[0], exp.Star):
        if call.distinct:
            raise inputs.error(node, "COUNT(DISTINCT *) has no meaning", "write COUNT(DISTINCT x)")
        if form in _APPROXIMATE_COUNTS:
            hint = f"write {call.name}(x)"
            raise inputs.error(node, f"{call.name}(*) has no meaning", hint)
        return AggregateCall("", "count", None, BIGINT)
    if function == "mode" and not arguments and len(call.order) == 1:
        # The standard's MODE() WITHIN GROUP (ORDER BY x)
        arguments = [call.order[0].this]
    if _is_share_first(call, function):
        return _within_group(call, function, inputs)
    aggregate = _KNOWN[function]
    extra = 2 if function in (EXACT, APPROXIMATE) else int(form in _APPROXIMATE_SHARES)
    if not 1 + aggregate.parameters <= len(arguments) <= 1 + aggregate.parameters + extra:
        problem = f"{call.name} does not take {len(arguments)} argument(s)"
        _, _, places = aggregate.form.rpartition("(")
        shape = f"{call.name}({places}" if form in _SKETCHED else aggregate.form
        shape = f"{call.name}(x)" if form in _APPROXIMATE_COUNTS else shape
        raise inputs.error(node, problem, f"write {shape}")
    argument = _argument(node, arguments[0], aggregate, inputs)
    parameters: tuple[Value, ...] = (
        (_value_of(argument, arguments[1], inputs),)
        if function == "frequency"
        else _parameters(function, arguments[1:], inputs)
    )
    kind = aggregate.result(argument.type)
    distinct = call.distinct and function in _OF_DISTINCT and function != "collect_set"
    distinct |= form in _APPROXIMATE_COUNTS
    approximate = form in _SKETCHED
    return AggregateCall(
        "", function, argument, kind, distinct, parameters, approximate, bound=bound
    )


def _value_of(argument: Expression, place: exp.Expr, inputs: ScalarBinder) -> Value:
    """A constant that the argument may be: a whole number or a text."""
    bound, kind = inputs.bind(place), argument.type
    if isinstance(bound, Literal) and bound.value is not None:
        is_number = kind.is_integral and bound.type.is_integral
        if is_number or (kind.name == "string" and bound.type.name == "string"):
            return bound.value
    raise inputs.error(
        place,
        f"APPROX_FREQUENCY needs a constant that {kind} is compared with: a whole number or a text",
        "write COUNT(*) FILTER (WHERE x = value) for other types",
    )


def _within_group(call: WrittenCall, function: str, inputs: ScalarBinder) -> AggregateCall:
    if len(call.order) != 1:
        problem = f"{call.name} is over one value"
        raise inputs.error(call.node, problem, "write WITHIN GROUP (ORDER BY x)")
    aggregate, place = _KNOWN[function], call.order[0]
    argument = _argument(call.node, place.this, aggregate, inputs)
    share = float(str(_share(call.arguments[0], inputs)))
    if place.args.get("desc"):
        if function == "quantile":
            hint = "write ORDER BY x with the share from below: 0.1 for 0.9"
            raise inputs.error(place, f"{call.name} counts from the smallest value", hint)
        share = round(1.0 - share, 15)
    return AggregateCall("", function, argument, aggregate.result(argument.type), False, (share,))


def _filtered(call: AggregateCall, place: exp.Expr, inputs: ScalarBinder) -> AggregateCall:
    """``agg(x) FILTER (WHERE p)``: NULL, which aggregates pass over, where p does not hold."""
    _refuse_aggregates(place, inputs)
    condition = inputs.condition(place)
    argument = Literal(1, INT) if call.argument is None else call.argument
    return replace(call, argument=Case((condition,), (argument,), None, argument.type))


def _argument(
    node: exp.Expr, place: exp.Expr, aggregate: AggregateType, inputs: ScalarBinder
) -> Expression:
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
    for part in place.walk(prune=lambda part: isinstance(part, exp.Query)):
        if is_aggregate(part):
            raise inputs.error(
                part,
                "an aggregate is not allowed inside another one",
                "compute the inner one in a sub-query, or use Wstream",
            )


def _parameters(function: str, places: list[exp.Expr], inputs: ScalarBinder) -> tuple[Value, ...]:
    if function in SHARES:
        for accuracy in places[1:]:
            _count(accuracy, inputs)  # the answer is exact anyway
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
