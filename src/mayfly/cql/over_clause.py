"""Binds OVER: functions over the neighbours of each row.

Calls with one PARTITION BY and ORDER BY become one operator below the outputs of their block. Where
rows never expire, come in the order of their stream's time and no frame reaches beyond the current
row, results are append-only; otherwise they are a view whose rows change. The operator keeps the
reason in words, for EXPLAIN.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp

from mayfly.cql.aggregate_functions import AGGREGATES, bind_aggregate, has_aggregate
from mayfly.cql.context import BindingContext
from mayfly.cql.group_clause import aggregate_name
from mayfly.cql.messages import suggestion
from mayfly.cql.ordered_aggregates import is_ordered
from mayfly.cql.restrictions import kind_of
from mayfly.cql.scalar import ScalarBinder
from mayfly.cql.scope import Aliases, Scope
from mayfly.cql.stream_time import is_column, orders_of_arrival, stream_time, tie_order
from mayfly.cql.users_calls import users_aggregate
from mayfly.cql.written_calls import WrittenCall, call_of
from mayfly.patterns import Kind
from mayfly.plan.aging_calls import DECAYED
from mayfly.plan.expressions import Column, Expression, Literal, as_type
from mayfly.plan.frequent_call import APPROXIMATE, EXACT
from mayfly.plan.logical_operators import Node, SortKey
from mayfly.plan.over_frames import NUMBERINGS, PICKS, SHIFTS, Frame, FrameCall, FrameUnit, Over
from mayfly.plan.plan_text import expression_text
from mayfly.plan.types import BIGINT, DAY_TIME_INTERVAL, VOID, common_type

_OWN = (*NUMBERINGS, *SHIFTS, *PICKS)
_SPELLINGS = {"first": "first_value", "last": "last_value"}
_DAY = 86_400_000_000
_UNKNOWN = {
    "ntile": "number the rows with ROW_NUMBER() and divide",
    "percent_rank": "divide RANK() by COUNT(*) OVER (PARTITION BY …)",
    "cume_dist": "divide COUNT(*) OVER (… ORDER BY x) by COUNT(*) OVER (PARTITION BY …)",
    "nth_value": "write LAG(x, n), or FIRST_VALUE(x) over a frame that begins there",
}
_TO_CURRENT = Frame(FrameUnit.RANGE, None, 0)
_WHOLE = Frame(FrameUnit.ROWS, None, None)
_Spec = tuple[tuple[Expression, ...], tuple[SortKey, ...]]


def windows_in(place: exp.Expr) -> list[exp.Window]:
    """The functions with OVER in an expression, not those of queries inside it."""
    within = place.walk(prune=lambda part: isinstance(part, exp.Query | exp.Window))
    return [part for part in within if isinstance(part, exp.Window)]


def with_frames(context: BindingContext, block: exp.Select, scope: Scope, rows: Node) -> Node:
    """Rows with the values of functions with OVER beside them, by which the scope means them."""
    windows = [window for place in block.expressions for window in windows_in(place)]
    if not windows:
        return rows
    if block.args.get("group") or any(has_aggregate(place) for place in block.expressions):
        hint = "group in a sub-query: SELECT …, SUM(n) OVER (…) FROM (SELECT … GROUP BY k) q"
        raise context.error(
            windows[0], "OVER cannot be combined with GROUP BY or an aggregate", hint
        )
    named = _named_windows(context, block)
    specs: dict[_Spec, list[tuple[exp.Window, FrameCall]]] = {}
    time = stream_time(context, rows, windows=True)
    times = (*orders_of_arrival(context, rows), *([] if time is None else [time]))
    for window in windows:
        binder = _OverBinder(context, ScalarBinder(context.source, scope, "OVER"), named, times)
        spec, call = binder.bound(window)
        specs.setdefault(spec, []).append((window, call))
    # Rows that meet by a part of a key meet by the key as well, and travel once for both.
    for (partition, order), members in sorted(specs.items(), key=_breadth):
        rows = _over(context, scope, rows, partition, order, members)
    return rows


def _breadth(spec: tuple[_Spec, object]) -> tuple[bool, int]:
    """Whole partitions of few columns first; those of all rows need one task, so they come last."""
    (partition, _), _ = spec
    return not partition, len(partition)


def _named_windows(context: BindingContext, block: exp.Select) -> dict[str, exp.Window]:
    named: dict[str, exp.Window] = {}
    for window in block.args.get("windows") or []:
        name = window.this.name.casefold()
        if name in named:
            problem = f"two windows are called {window.this.name}"
            raise context.error(window, problem, "rename one of them")
        named[name] = window
    return named


def _over(
    context: BindingContext,
    scope: Scope,
    rows: Node,
    partition: tuple[Expression, ...],
    order: tuple[SortKey, ...],
    members: list[tuple[exp.Window, FrameCall]],
) -> Node:
    alias, names = context.aliases.fresh("over"), Aliases()
    calls: dict[FrameCall, FrameCall] = {}
    for window, call in members:
        if call not in calls:
            calls[call] = replace(call, name=names.fresh(call.name))
        value = context.aliases.fresh("value")
        window.meta["value"] = value
        scope.values[value] = calls[call].column(alias)
    by_position = any(call.by_position for call in calls)
    keys = [key.expression for key in order]
    ties = tie_order(context, scope, rows) if by_position else ()
    ties = tuple(tie for tie in ties if tie not in keys)
    obstacle = _obstacle(context, rows, order, tuple(calls))
    because = obstacle or _order_of_what_lasts(context, rows, expression_text(keys[0]))
    return Over(
        rows, partition, order, ties, tuple(calls.values()), alias, not obstacle, because,
        position=context.position(members[0][0]),
    )  # fmt: skip


def _order_of_what_lasts(context: BindingContext, rows: Node, key: str) -> str:
    if stream_time(context, rows) is not None:
        return f"{key} is the time of rows that never expire"
    return f"results of finished windows come in the order of {key} and never expire"


def _obstacle(
    context: BindingContext, rows: Node, order: tuple[SortKey, ...], calls: tuple[FrameCall, ...]
) -> str:
    """Why later rows may change a value; nothing if they may not."""
    if context.one_time:
        return "the rows of one instant are asked for"
    times = orders_of_arrival(context, rows)
    if not times:
        expire = kind_of(rows) is not Kind.MON
        return "its rows expire" if expire else "its rows are not those of one stream, as they came"
    first = order[0].expression if order else None
    if first is None or not any(is_column(first, time) for time in times):
        what = (
            "the time of the stream"
            if stream_time(context, rows)
            else "by which results are ordered"
        )
        return f"the first key of ORDER BY is not {times[0].name}, {what}"
    if order[0].descending:
        return f"ORDER BY {times[0].name} DESC puts later rows first"
    for call in calls:
        if call.function == "lead":
            return "LEAD looks at later rows"
        if call.function not in (*NUMBERINGS, "lag"):
            end = call.frame.end
            if end is None or end > 0:
                return "a frame ends after the current row"
    return ""


@dataclass(frozen=True)
class _OverBinder:
    context: BindingContext
    inputs: ScalarBinder
    named: dict[str, exp.Window]
    times: tuple[Column, ...] = ()
    """Columns that are times, also where they are whole numbers."""

    def bound(self, window: exp.Window) -> tuple[_Spec, FrameCall]:
        """What a call is over, and the call; its name is a proposal."""
        spec, form = self._form(window)
        partition = tuple(self._key(place) for place in form.args.get("partition_by") or [])
        order = tuple(self._sort_key(place) for place in self._ordered(form))
        return (partition, order), self._call(window, spec, order)

    def _form(self, window: exp.Window) -> tuple[exp.Expr | None, exp.Window]:
        """The frame, and the window that has partition and order: OVER w and OVER (w …)."""
        alias = window.args.get("alias")
        if alias is None:
            return window.args.get("spec"), window
        base = self.named.get(alias.name.casefold())
        if base is None:
            hint = (
                suggestion(alias.name, list(self.named), "windows")
                if self.named
                else (f"write WINDOW {alias.name} AS (PARTITION BY k ORDER BY ts) after the query")
            )
            raise self._error(window, f"there is no window called {alias.name}", hint)
        if base.args.get("alias") is not None:
            hint = "write PARTITION BY and ORDER BY in each of them"
            raise self._error(base, "a named window cannot be based on another one", hint)
        if window.args.get("partition_by") or window.args.get("order"):
            problem = f"{alias.name} has PARTITION BY and ORDER BY already"
            raise self._error(window, problem, f"write OVER {alias.name}")
        return window.args.get("spec") or base.args.get("spec"), base

    def _ordered(self, form: exp.Window) -> list[exp.Expr]:
        order = form.args.get("order")
        return list(order.expressions) if order is not None else []

    def _key(self, place: exp.Expr) -> Expression:
        self._refuse_nested(place)
        bound = self.inputs.bind(place)
        if not bound.type.is_comparable:
            problem = f"values of type {bound.type} cannot partition rows"
            raise self._error(place, problem, "use a member of it")
        return bound

    def _sort_key(self, place: exp.Expr) -> SortKey:
        self._refuse_nested(place.this)
        bound = self.inputs.bind(place.this)
        if isinstance(bound, Literal):
            problem = "ORDER BY inside OVER needs a column, not a constant"
            raise self._error(place, problem, "write the name of a column")
        if not bound.type.is_comparable:
            problem = f"values of type {bound.type} have no order"
            raise self._error(place, problem, "order by a member of it")
        nulls_first = bool(place.args.get("nulls_first"))
        return SortKey(bound, bool(place.args.get("desc")), nulls_first)

    def _refuse_nested(self, place: exp.Expr) -> None:
        for part in place.walk():
            if isinstance(part, exp.Window):
                hint = "compute the inner one in a sub-query"
                raise self._error(part, "OVER is not allowed inside OVER", hint)

    # ── calls ─────────────────────────────────────────────────────────────────────────────

    def _call(
        self, window: exp.Window, spec: exp.Expr | None, order: tuple[SortKey, ...]
    ) -> FrameCall:
        self._refuse_nested(window.this)
        node = call_of(window.this)
        written = WrittenCall.of(window.this)
        name = node.name.lower() if isinstance(node, exp.Anonymous) else ""
        name = _SPELLINGS.get(name, name)
        if users_aggregate(node) is not None:
            problem = f"{node.name} cannot be used with OVER"
            hint = "group by k over a window of the stream: aggregates of your own are for groups"
            raise self._error(window, problem, hint)
        if name in DECAYED:
            problem = f"{node.name.upper()} cannot be used with OVER"
            hint = "group over s [UNBOUNDED SLIDE 1 MIN]: it is answered at every refresh"
            raise self._error(window, problem, hint)
        if name not in _OWN and name not in AGGREGATES:
            hint = _UNKNOWN.get(name, "aggregates, ROW_NUMBER, RANK, DENSE_RANK, LAG, LEAD, "
                "FIRST_VALUE and LAST_VALUE can")  # fmt: skip
            problem = f"{node.name.upper() or 'this'} cannot be used with OVER"
            raise self._error(window, problem, hint)
        if name in (*NUMBERINGS, *SHIFTS):
            if not order:
                problem = f"{name.upper()} needs ORDER BY inside OVER"
                raise self._error(window, problem, f"write {name.upper()}(…) OVER (ORDER BY ts)")
            if spec is not None:
                problem = f"{name.upper()} takes no frame"
                raise self._error(window, problem, "leave ROWS or RANGE out")
        self._refuse_modifiers(window, written, name)
        frame = self._frame(window, spec, order)
        if name in NUMBERINGS:
            if written.arguments:
                raise self._error(window, f"{written.name} takes no argument", "leave it out")
            return FrameCall(name, name, None, BIGINT, frame)
        if name in SHIFTS:
            return self._shift(window, written, name, frame)
        if name in PICKS:
            return self._pick(window, written, name, frame)
        return self._aggregate(window, written, frame)

    def _refuse_modifiers(self, window: exp.Window, call: WrittenCall, name: str) -> None:
        if name not in _OWN:
            return
        if call.condition is not None or call.distinct or call.order or call.within_group:
            hint = "FILTER, DISTINCT and ORDER BY inside go with aggregates"
            raise self._error(window, f"{call.name} takes arguments only", hint)
        if call.says_nulls and name not in PICKS:
            hint = "leave it out, or use LAST_VALUE(x) IGNORE NULLS over a frame"
            raise self._error(window, f"{call.name} takes no IGNORE or RESPECT NULLS", hint)

    def _shift(self, window: exp.Window, call: WrittenCall, name: str, frame: Frame) -> FrameCall:
        form = f"write {call.name}(x), {call.name}(x, n) or {call.name}(x, n, default)"
        if not 1 <= len(call.arguments) <= 3:
            problem = f"{call.name} does not take {len(call.arguments)} argument(s)"
            raise self._error(window, problem, form)
        value, *rest = call.arguments
        argument = self._value(value)
        offset = self._whole(rest[0], f"the distance of {call.name}") if rest else 1
        default = None
        if len(rest) > 1:
            default = self.inputs.bind(rest[1])
            kind = common_type(argument.type, default.type)
            if kind is None:
                problem = f"{call.name} gives {argument.type}, its default is {default.type}"
                raise self._error(rest[1], problem, "CAST one of them")
            argument, default = as_type(argument, kind), as_type(default, kind)
        return FrameCall(
            self._name(name, argument), name, argument, argument.type, frame,
            offset=offset, default=default,
        )  # fmt: skip

    def _pick(self, window: exp.Window, call: WrittenCall, name: str, frame: Frame) -> FrameCall:
        if len(call.arguments) != 1:
            problem = f"{call.name} does not take {len(call.arguments)} argument(s)"
            raise self._error(window, problem, f"write {call.name}(x)")
        argument = self._value(call.arguments[0])
        return FrameCall(
            self._name(name, argument), name, argument, argument.type, frame,
            ignores_nulls=call.ignores_nulls,
        )  # fmt: skip

    def _value(self, place: exp.Expr) -> Expression:
        bound = self.inputs.bind(place)
        if bound.type == VOID:
            raise self._error(place, "a bare NULL has no type", "write CAST(NULL AS INT)")
        return bound

    def _aggregate(self, window: exp.Window, call: WrittenCall, frame: Frame) -> FrameCall:
        aggregate = bind_aggregate(window.this, self.inputs)
        if is_ordered(aggregate.function) or aggregate.function in (EXACT, APPROXIMATE):
            problem = f"{call.name} cannot be used with OVER"
            hint = "use FIRST_VALUE and LAST_VALUE, or group by the window of the stream"
            raise self._error(window, problem, hint)
        name = aggregate_name(aggregate)
        return FrameCall(
            name, aggregate.function, aggregate.argument, aggregate.data_type, frame, aggregate
        )

    def _name(self, function: str, argument: Expression) -> str:
        own = getattr(argument, "name", "")
        return f"{function}_{own}" if isinstance(own, str) and own.isidentifier() else function

    # ── frames ────────────────────────────────────────────────────────────────────────────

    def _frame(
        self, window: exp.Window, spec: exp.Expr | None, order: tuple[SortKey, ...]
    ) -> Frame:
        if spec is None:
            return _TO_CURRENT if order else _WHOLE
        kind = str(spec.args["kind"]).upper()
        if kind not in ("ROWS", "RANGE"):
            problem = f"a frame by {kind} is not in the language"
            raise self._error(window, problem, "use ROWS, or RANGE, which includes peers")
        unit = FrameUnit(kind)
        start = self._bound(window, spec, "start", unit, order)
        end: int | float | None = 0
        if spec.args.get("end") is not None:
            end = self._bound(window, spec, "end", unit, order)
        if (start is not None and start > 0 and spec.args.get("end") is None) or (
            start is not None and end is not None and start > end
        ):
            problem = "the frame ends before it begins"
            hint = "write the earlier bound first: BETWEEN 5 PRECEDING AND CURRENT ROW"
            raise self._error(window, problem, hint)
        return Frame(unit, start, end)

    def _bound(
        self, window: exp.Window, spec: exp.Expr, part: str, unit: FrameUnit,
        order: tuple[SortKey, ...],
    ) -> int | float | None:  # fmt: skip
        value, side = spec.args[part], str(spec.args.get(f"{part}_side") or "").upper()
        if value == "CURRENT ROW":
            return 0
        if side not in ("PRECEDING", "FOLLOWING"):
            hint = "write n PRECEDING, CURRENT ROW or n FOLLOWING"
            raise self._error(window, "a bound of the frame is missing", hint)
        if value == "UNBOUNDED":
            if (side == "PRECEDING") != (part == "start"):
                problem = f"a frame cannot {part} with UNBOUNDED {side}"
                hint = "it starts with UNBOUNDED PRECEDING and ends with UNBOUNDED FOLLOWING"
                raise self._error(window, problem, hint)
            return None
        if unit is FrameUnit.ROWS:
            size: int | float = self._whole(value, "a bound of ROWS")
        else:
            size = self._distance(window, value, order)
        return -size if side == "PRECEDING" else size

    def _whole(self, place: exp.Expr, what: str) -> int:
        bound = self.inputs.bind(place)
        if isinstance(bound, Literal) and bound.type.is_integral and bound.value is not None:
            number = int(str(bound.value))
            if number >= 0:
                return number
        problem = f"{what} must be a constant whole number from 0 on"
        raise self._error(place, problem, "write it like 10")

    def _distance(
        self, window: exp.Window, place: exp.Expr, order: tuple[SortKey, ...]
    ) -> int | float:
        """A bound of RANGE in the unit of the only key of ORDER BY."""
        if len(order) != 1:
            hint = "order by one number or time, or use ROWS"
            raise self._error(window, "RANGE with a distance needs one key of ORDER BY", hint)
        key = order[0].expression
        bound, kind = self.inputs.bind(place), key.type
        value = bound.value if isinstance(bound, Literal) else None
        number = float(str(value)) if value is not None and not isinstance(value, str) else -1.0
        if number >= 0:
            if bound.type == DAY_TIME_INTERVAL:
                counts_micros = any(is_column(key, time) for time in self.times)
                if kind.name in ("timestamp", "timestamp_ntz") or counts_micros:
                    return int(str(value))
                if kind.name == "date" and int(str(value)) % _DAY == 0:
                    return int(str(value)) // _DAY
            elif kind.is_integral and bound.type.is_integral:
                return int(str(value))
            elif kind.name in ("double", "float") and bound.type.is_numeric:
                return number
        hints = {"timestamp": "INTERVAL 10 MIN", "timestamp_ntz": "INTERVAL 10 MIN",
                 "date": "INTERVAL 1 DAY"}  # fmt: skip
        form = hints.get(kind.name, "a number, or CAST the key to DOUBLE or BIGINT")
        raise self._error(
            place, f"this is not a distance for ORDER BY a {kind}", f"write {form}, not below 0"
        )

    def _error(self, node: exp.Expr, problem: str, hint: str) -> Exception:
        return self.context.error(node, problem, hint)
