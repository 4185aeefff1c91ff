"""A slow and obvious evaluator of logical plans: the answer of a plan at one instant.

It knows nothing of patterns or state. A window keeps the tuples that are alive by its definition;
every operator is its textbook definition over lists of rows.
"""

from __future__ import annotations

import operator
import statistics
from collections import Counter
from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from itertools import product
from math import ceil, fmod
from typing import Any

import numpy as np

from mayfly.plan.expressions import (
    And,
    Arithmetic,
    Case,
    Cast,
    Column,
    Compare,
    Expression,
    Function,
    InList,
    IsNull,
    Like,
    Literal,
    Not,
    Or,
)
from mayfly.plan.finished_operators import Finished, InWindows
from mayfly.plan.finished_windows import PeriodicWindows
from mayfly.plan.logical_operators import (
    AggregateCall,
    AntiJoin,
    Distinct,
    Equality,
    ExceptAll,
    GroupAggregate,
    Join,
    Negation,
    Node,
    Output,
    Project,
    RelationJoin,
    RelationScan,
    Select,
    Shared,
    Sort,
    StreamScan,
    SubqueryWindow,
    Top,
    UnionAll,
)
from mayfly.plan.ordered_calls import directions
from mayfly.plan.window_kinds import Cumulative, Landmark, PartitionRows, RowsWindow, Window

Row = dict[tuple[str, str], Any]
Tables = Mapping[str, list[dict[str, Any]]]
TIME = ("", "ts!")


def answer(plan: Node, tables: Tables, at: int) -> Counter[tuple[Any, ...]]:
    """The multiset of rows of a plan at an instant; ``tables`` hold all rows there will ever be."""
    rows = evaluate(plan, tables, at)
    return Counter(tuple(row[c.relation, c.name] for c in plan.schema) for row in rows)


def evaluate(node: Node, tables: Tables, at: int) -> list[Row]:
    inputs = (
        []
        if isinstance(node, SubqueryWindow)
        else [evaluate(child, tables, at) for child in node.children()]
    )
    match node:
        case StreamScan():
            return _alive(node.window, _history(node, tables, at), at)
        case SubqueryWindow(child=child, window=window):
            return _alive(window, _history(child, tables, at), at)
        case RelationScan(relation=name, alias=alias):
            return [{(alias, c.name): row[c.name] for c in node.columns} for row in tables[name]]
        case Select(predicate=predicate):
            return [row for row in inputs[0] if value(predicate, row) is True]
        case Project(outputs=outputs, alias=alias):
            return [
                {(alias, out.name): value(out.expression, row) for out in outputs}
                for row in inputs[0]
            ]
        case Join(equalities=pairs, residual=rest) | RelationJoin(equalities=pairs, residual=rest):
            merged = ({k: v for row in rows for k, v in row.items()} for rows in product(*inputs))
            return [row for row in merged if _matches(row, pairs, rest)]
        case AntiJoin():
            return [row for row in inputs[0] if _survives(node, row, inputs[1])]
        case Distinct():
            return list({tuple(row.items()): row for row in inputs[0]}.values())
        case UnionAll(inputs=children):
            names = [(c.relation, c.name) for c in node.schema]
            return [
                dict(zip(names, _values(row, child), strict=True))
                for child, rows in zip(children, inputs, strict=True)
                for row in rows
            ]
        case ExceptAll(left=left, right=right):
            taken = Counter(_values(row, right) for row in inputs[1])
            kept = []
            for row in inputs[0]:
                taken[_values(row, left)] -= 1
                if taken[_values(row, left)] < 0:
                    kept.append(row)
            return kept
        case GroupAggregate():
            return _groups(node, inputs[0])
        case Sort() | Top():
            return _sorted(node, inputs[0])
        case InWindows():
            return _in_windows(node, inputs[0], tables, at)
        case Finished(child=child):
            return [row for instant in range(at + 1) for row in evaluate(child, tables, instant)]
        case Output() | Shared():
            return inputs[0]
    raise TypeError(f"the oracle does not know {type(node).__name__}")


def _values(row: Row, node: Node) -> tuple[Any, ...]:
    return tuple(row[c.relation, c.name] for c in node.schema)


def _sorted(node: Sort | Top, rows: list[Row]) -> list[Row]:
    """In order, NULLs where they are asked for, ties by the row's values; then the limit."""

    def nulls_first(part: Any) -> tuple[bool, Any]:
        return (part is not None, part)

    rows = sorted(rows, key=lambda row: [nulls_first(v) for v in _values(row, node)])
    for key in reversed(node.keys):
        rows.sort(key=lambda row: nulls_first(value(key.expression, row)), reverse=key.descending)
        rows.sort(key=lambda row: (value(key.expression, row) is None) is not key.nulls_first)
    end = None if node.limit is None else node.offset + node.limit
    return rows[node.offset : end]


# ── windows ───────────────────────────────────────────────────────────────────────────────


def _history(node: Node, tables: Tables, at: int) -> list[Row]:
    """Everything a stream, or a selection or projection of one, has brought until an instant."""
    match node:
        case StreamScan(stream=stream, alias=alias):
            rows = [row for row in tables[stream] if row["ts"] <= at]
            rows.sort(key=lambda row: (row["ts"], [(v is not None, v) for v in row.values()]))
            return [
                {TIME: row["ts"]} | {(alias, c.name): row[c.name] for c in node.columns}
                for row in rows
            ]
        case Select(child=child, predicate=predicate):
            return [r for r in _history(child, tables, at) if value(predicate, r) is True]
        case Project(child=child, outputs=outputs, alias=alias):
            return [
                {TIME: row[TIME]} | {(alias, o.name): value(o.expression, row) for o in outputs}
                for row in _history(child, tables, at)
            ]
    raise TypeError(f"the oracle knows no windows over {type(node).__name__}")


def _alive(window: Window, history: list[Row], at: int) -> list[Row]:
    slide = window.slide
    if slide is not None and slide.period:
        at -= (at - slide.origin) % slide.period
        history = [row for row in history if row[TIME] <= at]
    if isinstance(window, RowsWindow):
        history = history[-window.count :]
    elif isinstance(window, PartitionRows):
        history = _latest_of_each(window, history, at)
    elif isinstance(window, Landmark):
        end = window.until if window.until is not None else at + 1
        history = [row for row in history if window.start <= row[TIME] < end]
    elif isinstance(window, Cumulative):
        history = [row for row in history if at < window.over_after(row[TIME])]
    elif window.lifetime is not None:
        history = [row for row in history if at < row[TIME] + window.lifetime]
    return [{key: v for key, v in row.items() if key != TIME} for row in history]


def _in_windows(node: InWindows, rows: list[Row], tables: Tables, at: int) -> list[Row]:
    """The rows of windows whose last instant this is; a session ends the gap after its last row."""
    windows, names = node.windows, [(c.relation, c.name) for c in (node.start, node.end)]
    if isinstance(windows, PeriodicWindows):
        if (at - windows.slide.origin) % windows.period:
            return []
        start = at + 1 - windows.size
        if windows.cumulative:
            start = at - (at - windows.offset) % windows.size
        return [row | dict(zip(names, (start, at + 1), strict=True)) for row in rows]
    sessions: dict[Any, list[Row]] = {}
    ended: list[Row] = []
    for row in [*_history(node.child, tables, at), None]:
        for key, members in list(sessions.items()):
            end = members[-1][TIME] + windows.gap
            if end < (at + 1 if row is None else row[TIME]):
                bounds = dict(zip(names, (members[0][TIME], end), strict=True))
                ended += [member | bounds for member in sessions.pop(key) if end == at]
        if row is not None:
            key = tuple(row[node.start.relation, name] for name in windows.partition_by)
            sessions.setdefault(key, []).append(row)
    return [{key: v for key, v in row.items() if key != TIME} for row in ended]


def _latest_of_each(window: PartitionRows, history: list[Row], at: int) -> list[Row]:
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in history:
        key = tuple(v for (_, name), v in row.items() if name in window.partition_by)
        groups.setdefault(key, []).append(row)
    latest = [row for rows in groups.values() for row in rows[-window.count :]]
    length = window.duration
    return [row for row in latest if length is None or at < row[TIME] + length]


# ── conditions ────────────────────────────────────────────────────────────────────────────


def _matches(row: Row, pairs: tuple[Equality, ...], rest: Expression | None) -> bool:
    equal = all(value(Compare("=", e.left, e.right), row) is True for e in pairs)
    return equal and (rest is None or value(rest, row) is True)


def _survives(node: AntiJoin, left: Row, right: list[Row]) -> bool:
    if node.kind is Negation.NOT_EXISTS:
        return not any(_matches(left | row, node.equalities, node.residual) for row in right)
    (pair,) = node.equalities
    found = [value(Compare("=", pair.left, pair.right), left | row) for row in right]
    return all(result is False for result in found)


_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_COMPUTE: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "%": lambda a, b: int(fmod(a, b)),
}
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "abs": abs,
    "negative": operator.neg,
    "length": len,
    "upper": str.upper,
    "concat": lambda *parts: "".join(parts),
}


def value(expression: Expression, row: Row) -> Any:
    """SQL's value of an expression: None is NULL, and unknown."""
    match expression:
        case Column(relation=relation, name=name):
            return row[relation, name]
        case Literal(value=constant):
            return constant
        case Cast(child=child):
            return value(child, row)
        case IsNull(child=child):
            return value(child, row) is None
        case Not(child=child):
            truth = value(child, row)
            return None if truth is None else not truth
        case And(terms=terms) | Or(terms=terms):
            decisive = isinstance(expression, Or)
            truths = [value(term, row) for term in terms]
            if decisive in truths:
                return decisive
            return None if None in truths else not decisive
        case InList(child=child, choices=choices):
            equal = tuple(Compare("=", child, choice) for choice in choices)
            return value(Or(equal), row)
        case Case(conditions=conditions, results=results, otherwise=otherwise):
            for condition, result in zip(conditions, results, strict=True):
                if value(condition, row) is True:
                    return value(result, row)
            return value(otherwise, row) if otherwise else None
        case Function(name="coalesce", arguments=arguments):
            found = (value(argument, row) for argument in arguments)
            return next((each for each in found if each is not None), None)
        case Function(name="struct", arguments=arguments):
            return tuple(value(argument, row) for argument in arguments)
        case Function(name="greatest", arguments=arguments):
            values = [v for argument in arguments if (v := value(argument, row)) is not None]
            return max(values, default=None)
        case Function(name=name, arguments=arguments):
            given = [value(argument, row) for argument in arguments]
            return None if None in given else _FUNCTIONS[name](*given)
        case Like(op="LIKE", child=child, pattern=pattern):
            text, like = value(child, row), value(pattern, row)
            return None if text is None else fnmatchcase(text, like.replace("%", "*"))
        case Compare(op=op, left=left, right=right) | Arithmetic(op=op, left=left, right=right):
            a, b = value(left, row), value(right, row)
            if op == "<=>":
                return a == b
            if a is None or b is None:
                return None
            return (_COMPARE | _COMPUTE)[op](a, b)
    raise TypeError(f"the oracle does not know {type(expression).__name__}")


# ── groups ────────────────────────────────────────────────────────────────────────────────


def _groups(node: GroupAggregate, rows: list[Row]) -> list[Row]:
    groups: dict[tuple[Any, ...], list[Row]] = {} if node.keys else {(): []}
    for row in rows:
        groups.setdefault(tuple(value(k.expression, row) for k in node.keys), []).append(row)
    found = []
    for key, members in groups.items():
        out = {(node.alias, k.name): v for k, v in zip(node.keys, key, strict=True)}
        out |= {(node.alias, call.name): _aggregate(call, members) for call in node.aggregates}
        if node.having is None or value(node.having, out) is True:
            found.append(out)
    return found


def _aggregate(call: AggregateCall, rows: list[Row]) -> Any:
    if call.argument is None:
        return len(rows)
    given = [v for row in rows if (v := value(call.argument, row)) is not None]
    given = list(dict.fromkeys(given)) if call.distinct else given
    if directions(call):
        return _ordered(call, given)
    if call.function == "count":
        return len(given)
    if not given or (call.function in ("var_samp", "stddev_samp") and len(given) < 2):
        return None
    return _FOLDS[call.function](sorted(given), *call.parameters)


def _ordered(call: AggregateCall, entries: list[tuple[Any, ...]]) -> Any:
    for place, direction in reversed(list(enumerate(directions(call)))):
        turned = direction.startswith("DESC")
        entries.sort(key=lambda entry: _nulls_first(entry[place]), reverse=turned)
    values = [entry[-1] for entry in entries]
    if call.function == "collect_list":
        return values
    if call.function == "string_agg":
        return str(call.parameters[-1]).join(values) if values else None
    return values[0] if values else None


def _nulls_first(member: Any) -> tuple[bool, Any]:
    return (False, 0) if member is None else (True, member)


_FOLDS: dict[str, Callable[..., Any]] = {
    "sum": sum,
    "min": min,
    "max": max,
    "avg": statistics.fmean,
    "var_samp": statistics.variance,
    "stddev_samp": statistics.stdev,
    "var_pop": statistics.pvariance,
    "stddev_pop": statistics.pstdev,
    "percentile": lambda given, q: float(np.quantile(given, float(q))),
    "median": statistics.median,
    "mode": statistics.mode,
    "collect_set": lambda given: list(dict.fromkeys(given)),
    "quantile": lambda given, q: given[max(0, ceil(len(given) * float(q)) - 1)],
}
