"""A logical plan as an indented text, one operator per line, in the words of the language."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mayfly.lifetime import format_micros
from mayfly.plan.aging_calls import half_life_of, is_decayed
from mayfly.plan.derived_stream import Derived
from mayfly.plan.expressions import Case, Column, Expression, Function, Literal
from mayfly.plan.finished_operators import InWindows
from mayfly.plan.logical_operators import (
    AggregateCall,
    AntiJoin,
    Equality,
    GroupAggregate,
    Join,
    Named,
    Node,
    Output,
    PaddedNrrJoin,
    Project,
    RelationJoin,
    RelationScan,
    Select,
    Shared,
    Sort,
    SortKey,
    StreamScan,
    SubqueryWindow,
    Top,
)
from mayfly.plan.ordered_calls import ASCENDING, directions, entry_of
from mayfly.plan.over_frames import NUMBERINGS, SHIFTS, AsofJoin, FrameCall, Match, Over
from mayfly.plan.resample import Resample
from mayfly.plan.unnest import Unnest


def plan_text(node: Node) -> str:
    """The whole tree; inputs are indented below their operator."""
    return "\n".join(plan_lines(node))


def plan_lines(node: Node, depth: int = 0) -> Iterator[str]:
    """The tree line by line: names may hold ends of lines."""
    yield "  " * depth + " ".join(filter(None, (node_name(node), node_detail(node))))
    for child in node.children():
        yield from plan_lines(child, depth + 1)


def node_name(node: Node) -> str:
    """What the operator is called."""
    match node:
        case Output(kind=kind, restore=restore):
            return f"{kind.value}-restore" if restore else kind.value
        case AntiJoin(kind=kind):
            return kind.value
        case RelationJoin(retroactive=retroactive):
            return "Relation join" if retroactive else "NRR join"
        case SubqueryWindow(wstream=wstream):
            return "Wstream" if wstream else "Window"
        case RelationScan(retroactive=retroactive):
            return "Relation" if retroactive else "NRR"
    return _NAMES.get(type(node).__name__, type(node).__name__)


_NAMES = {
    "StreamScan": "Stream",
    "GroupAggregate": "Aggregate",
    "UnionAll": "UNION ALL",
    "PaddedNrrJoin": "NRR left join",
    "ExceptAll": "EXCEPT ALL",
    "Derived": "Derived stream",
    "AsofJoin": "ASOF join",
}


def node_detail(node: Node) -> str:
    """What the operator does, in one line."""
    match node:
        case StreamScan(stream=stream, alias=alias, window=window, columns=columns):
            return f"{_aliased(stream, alias)} {window.cql()} ({_column_names(columns)})"
        case RelationScan(relation=relation, alias=alias, columns=columns):
            return f"{_aliased(relation, alias)} ({_column_names(columns)})"
        case SubqueryWindow(window=window):
            return window.cql()
        case InWindows(windows=windows):
            return windows.cql()
        case Shared(name=name):
            return name
        case Resample():
            return f"{node.cql()}; append-only: {node.because}"
        case Select(predicate=predicate):
            return expression_text(predicate)
        case Derived(kind=kind, restore=restore):
            return f"{kind.value}-restore" if restore else kind.value
        case Unnest(value=value, columns=columns, outer=outer):
            shown = f"{expression_text(value)} AS {_column_names(columns)}"
            return f"{shown} OUTER" if outer else shown
        case Project(outputs=outputs, alias=alias):
            named = ", ".join(_named(output) for output in outputs)
            return f"{named} as {alias}" if alias else named
        case Join(equalities=equalities, residual=residual):
            return conditions_text(equalities, residual) or "(every pair)"
        case (
            RelationJoin(equalities=equalities, residual=residual)
            | PaddedNrrJoin(equalities=equalities, residual=residual)
        ):
            return conditions_text(equalities, residual) or "(every pair)"
        case AntiJoin(equalities=equalities, residual=residual):
            return conditions_text(equalities, residual)
        case GroupAggregate(keys=keys, aggregates=calls, having=having, alias=alias):
            text = aggregate_text([key.expression for key in keys], calls, having)
            return f"{text} as {alias}".strip()
        case (
            Sort(keys=order, limit=limit, offset=offset)
            | Top(keys=order, limit=limit, offset=offset)
        ):
            return sort_text(order, limit, offset)
        case Over(partition=partition, order=order, calls=calls):
            most = f"; numbers up to {node.limit.most}" if node.limit else ""
            return f"{over_text(partition, order, calls)}{most}; {_case(node)}"
        case AsofJoin(equalities=equalities, match=match, left_time=left, right_time=right):
            padded = "LEFT " if node.padded else ""
            return f"{padded}{asof_text(match, (left, right), equalities)}; {_case(node)}"
    return ""


def _case(node: Over | AsofJoin) -> str:
    return f"{'append-only' if node.appends else 'a view'}: {node.because}"


def over_text(
    partition: Sequence[Expression], order: Sequence[SortKey], calls: Sequence[FrameCall]
) -> str:
    """Calls with their OVER, as the language writes them."""
    by = ", ".join(map(expression_text, partition))
    ordered = sort_text(order, None, 0)
    head = [f"PARTITION BY {by}" if by else "", f"ORDER {ordered}" if ordered else ""]
    kind = order[0].expression.type.name if order else ""
    texts = []
    for call in calls:
        framed = call.function not in (*NUMBERINGS, *SHIFTS)
        words = [*head, call.frame.cql(kind) if framed else ""]
        texts.append(f"{_frame_call(call)} OVER ({' '.join(filter(None, words))})")
    return ", ".join(texts)


def _frame_call(call: FrameCall) -> str:
    if call.aggregate is not None:
        return _call(call.aggregate)
    parts = [expression_text(call.argument)] if call.argument is not None else []
    parts += [str(call.offset)] if call.function in SHIFTS else []
    parts += [expression_text(call.default)] if call.default is not None else []
    nulls = " IGNORE NULLS" if call.ignores_nulls else ""
    return f"{call.function.upper()}({', '.join(parts)}{nulls})"


def asof_text(
    match: Match, times: tuple[Expression, Expression], equalities: tuple[Equality, ...]
) -> str:
    """The condition of an ASOF join, as the language writes it."""
    left, right = map(expression_text, times)
    return f"MATCH_CONDITION ({right} {match.value} {left}) ON {conditions_text(equalities, None)}"


def expression_text(expression: Expression) -> str:
    """An expression as people write it: no backticks or type suffixes where none are needed."""
    text = _plain(expression).sql(_column_name)
    return text[1:-1] if text.startswith("(") and _encloses(text) else text


def conditions_text(equalities: tuple[Equality, ...], residual: Expression | None) -> str:
    pairs = [f"{expression_text(e.left)} = {expression_text(e.right)}" for e in equalities]
    rest = [expression_text(residual)] if residual is not None else []
    return " AND ".join([*pairs, *rest])


def _column_name(column: Column) -> str:
    return f"{column.relation}.{column.name}" if column.relation else column.name


def _plain(expression: Expression) -> Expression:
    def change(part: Expression) -> Expression:
        if isinstance(part, Literal) and part.data_type.is_integral and part.value is not None:
            return _BareNumber(part.value, part.data_type)
        return part

    return expression.transform(change)


class _BareNumber(Literal):
    """A whole number without the suffix of its type."""

    def sql(self, naming: object = None) -> str:
        return str(self.value)


def _encloses(text: str) -> bool:
    """Whether the first parenthesis closes at the very end."""
    depth = 0
    for place, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if depth == 0:
            return place == len(text) - 1
    return False


def _aliased(name: str, alias: str) -> str:
    return name if name == alias else f"{name} {alias}"


def _column_names(columns: tuple[Column, ...]) -> str:
    return ", ".join(column.name for column in columns)


def _named(output: Named) -> str:
    text = expression_text(output.expression)
    short = isinstance(output.expression, Column) and output.expression.name == output.name
    return text if short else f"{text} AS {output.name}"


def aggregate_text(
    keys: Sequence[Expression], calls: Sequence[AggregateCall], having: Expression | None
) -> str:
    parts = [_call(call) for call in calls]
    by = f" BY {', '.join(map(expression_text, keys))}" if keys else ""
    kept = f" HAVING {expression_text(having)}" if having is not None else ""
    return f"{', '.join(parts)}{by}{kept}".strip()


def _call(call: AggregateCall) -> str:
    entry = entry_of(call)
    if entry is not None:
        return _ordered_call(call, entry)
    argument = _argument(call.argument) if call.argument else "*"
    said = [format_micros(half_life_of(call))] if is_decayed(call) else map(str, call.parameters)
    arguments = [argument, *said]
    distinct = "DISTINCT " if call.distinct else ""
    approximate = "APPROX " if call.approximate else ""
    bound = f" {call.bound.upper()}" if call.bound else ""
    return f"{approximate}{call.function.upper()}({distinct}{', '.join(arguments)}){bound}"


def _argument(argument: Expression) -> str:
    """What a call is over; of a combination of values its members, which are not NULL."""
    whole = argument
    while isinstance(whole, Case):
        whole = whole.results[0]
    if isinstance(whole, Function) and whole.name == "struct":
        return ", ".join(map(expression_text, whole.arguments))
    return expression_text(argument)


def _ordered_call(call: AggregateCall, entry: Function) -> str:
    *keys, value = entry.arguments
    order = [
        expression_text(key) + ("" if direction == ASCENDING else f" {direction}")
        for key, direction in zip(keys, directions(call), strict=False)
    ]
    rest = [repr(str(parameter)) for parameter in call.parameters[len(keys) + 1 :]]
    distinct = "DISTINCT " if call.distinct else ""
    shown = distinct + ", ".join([expression_text(value), *rest])
    by = f" ORDER BY {', '.join(order)}" if order else ""
    conditions, argument = [], call.argument
    while isinstance(argument, Case):
        conditions.append(expression_text(argument.conditions[0]))
        argument = argument.results[0]
    some = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    return f"{call.function.upper()}({shown}{by}){some}"


def sort_text(keys: Sequence[SortKey], limit: int | None, offset: int) -> str:
    by = ", ".join(map(_sort_key_text, keys))
    most = f"LIMIT {limit}" if limit is not None else ""
    first = f"OFFSET {offset}" if offset else ""
    return " ".join(part for part in (f"BY {by}" if by else "", most, first) if part)


def _sort_key_text(key: SortKey) -> str:
    text = expression_text(key.expression) + (" DESC" if key.descending else "")
    usual = key.nulls_first is not key.descending
    return text if usual else f"{text} NULLS {'FIRST' if key.nulls_first else 'LAST'}"
