"""Binds DECAYED_SUM, DECAYED_COUNT, DECAYED_AVG, APPROX_COUNT and APPROX_SUM."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from mayfly.cql.written_calls import WrittenCall
from mayfly.plan.aging_calls import COUNT, DECAYED
from mayfly.plan.expressions import Expression, Literal
from mayfly.plan.logical_operators import AggregateCall
from mayfly.plan.types import BIGINT, DAY_TIME_INTERVAL, DOUBLE

if TYPE_CHECKING:
    from mayfly.cql.scalar import ScalarBinder

HISTOGRAMS = {
    f"approx_{function}{end}": (function, bound)
    for function in ("count", "sum")
    for end, bound in (("", ""), ("_low", "low"), ("_high", "high"))
}
"""By the name of a call: its function, and which bound it shows."""
_LONGEST = 100 * 365 * 86_400_000_000
_HALF_LIFE = "write it like INTERVAL '1' HOUR"


def is_aging(name: str) -> bool:
    return name.lower() in (*DECAYED, *HISTOGRAMS)


def bind_aging(call: WrittenCall, inputs: ScalarBinder) -> AggregateCall:
    """A call of a value, or ``*``, and what says how it ages."""
    name = call.name.lower()
    counts = name == COUNT or name.startswith("approx_count")
    second = "INTERVAL '1' HOUR" if name in DECAYED else "0.05"
    form = f"write {call.name}({'*' if counts else 'x'}, {second})"
    if call.distinct:
        hint = "write APPROX_COUNT_DISTINCT(x)" if "count" in name else "leave it out"
        raise inputs.error(call.node, f"DISTINCT inside {call.name} is not in the language", hint)
    if len(call.arguments) != 2:
        problem = f"{call.name} does not take {len(call.arguments)} argument(s)"
        raise inputs.error(call.node, problem, form)
    place, parameter = call.arguments
    if isinstance(place, exp.Star) and not counts:
        raise inputs.error(call.node, f"{call.name}(*) has no meaning", form)
    argument = None if isinstance(place, exp.Star) else inputs.bind(place)
    if name in DECAYED:
        if argument is not None and not counts:
            _check(place, argument.type.is_numeric, "a number", argument, call, inputs)
        half_life = _half_life(parameter, inputs)
        return AggregateCall("", name, argument, DOUBLE, parameters=(half_life,))
    function, bound = HISTOGRAMS[name]
    if argument is not None and not counts:
        _check(place, argument.type.is_integral, "a whole number", argument, call, inputs)
    error = _error(parameter, inputs)
    return AggregateCall(
        "", function, argument, BIGINT, parameters=(error,), approximate=True, bound=bound
    )


def _check(
    place: exp.Expr,
    fits: bool,
    what: str,
    argument: Expression,
    call: WrittenCall,
    inputs: ScalarBinder,
) -> None:
    if not fits:
        hint = "CAST it" if what == "a number" else "use SUM, or CAST it AS BIGINT"
        raise inputs.error(place, f"{call.name} needs {what}, not {argument.type}", hint)


def _half_life(place: exp.Expr, inputs: ScalarBinder) -> int:
    bound = inputs.bind(place)
    if not isinstance(bound, Literal) or bound.type != DAY_TIME_INTERVAL:
        raise inputs.error(place, "the half-life must be a constant time", _HALF_LIFE)
    micros = int(str(bound.value))
    if not 0 < micros <= _LONGEST:
        raise inputs.error(place, "the half-life must be above 0, at most 100 years", _HALF_LIFE)
    return micros


def _error(place: exp.Expr, inputs: ScalarBinder) -> float:
    bound = inputs.bind(place)
    if isinstance(bound, Literal) and bound.type.is_numeric and bound.value is not None:
        value = float(str(bound.value))
        if 0.0001 <= value < 1.0:
            return value
    problem = "the error must be a constant share, from 0.0001 to below 1"
    raise inputs.error(place, problem, "write it like 0.05 for 5 %")
