"""GROUP BY window(ts, '10 minutes') and session_window(ts, '5 minutes'), as Spark writes them.

Such a block becomes one over TUMBLE, HOP or SESSION: the stream of FROM gets the windows, the call
the keys window_start and window_end, and window.start and window.end mean these. The sessions of
Spark are those of the other keys, of the rows that WHERE leaves.
"""

from __future__ import annotations

from sqlglot import exp

from mayfly.cql.context import BindingContext
from mayfly.cql.messages import TextSpan
from mayfly.cql.window_functions import CALL, WindowCall, windows_of
from mayfly.errors import InvalidSetting
from mayfly.lifetime import micros
from mayfly.plan.finished_windows import END, START

_FORM = "write window(ts, '10 minutes'[, '1 minute'[, '5 seconds']]): the size, slide and offset"
_SESSION_FORM = "write session_window(ts, '5 minutes')"
_PARTS = {"start": START, "end": END}


def is_call(node: exp.Expr) -> bool:
    return isinstance(node, exp.Anonymous) and node.name.lower() in ("window", "session_window")


def move_window_calls(context: BindingContext, block: exp.Select) -> None:
    """Put the windows of a block into FROM, if GROUP BY has them."""
    group = block.args.get("group")
    calls = [key for key in group.expressions if is_call(key)] if group is not None else []
    if group is None or not calls:
        return
    call = calls[0]
    if len(calls) > 1:
        raise context.error(calls[1], "rows are grouped by one kind of window", "remove one")
    call_name = call.name.lower()
    others = [key for key in group.expressions if not is_call(key)]
    _put_in_from(context, block, call, others)
    bounds = [_column(name, call) for name in (START, END)]
    group.set("expressions", [*others, *bounds])
    for item in [*block.expressions, block.args.get("having"), block.args.get("order")]:
        if item is not None:
            _replace_parts(context, item, call_name)


def _put_in_from(
    context: BindingContext, block: exp.Select, call: exp.Expr, keys: list[exp.Expr]
) -> None:
    origin = block.args["from_"]
    place = origin.this
    if block.args.get("joins") or CALL in place.meta or "window" in place.meta:
        problem = f"{call.name} needs a single stream in FROM, without a window"
        hint = "join in a sub-query, or write TUMBLE(s, ts, …) in FROM"
        raise context.error(call, problem, hint)
    is_session = call.name.lower() == "session_window"
    if is_session and (where := block.args.get("where")) is not None:
        # Rows that WHERE leaves out make no session longer.
        name = place.alias or place.name
        inner = exp.Select(expressions=[exp.Star()], from_=exp.From(this=place), where=where)
        inner.meta.update(place.meta)
        alias = exp.TableAlias(this=exp.to_identifier(name))
        place = exp.Subquery(this=inner, alias=alias)
        place.meta.update(inner.meta)
        origin.set("this", place)
        block.set("where", None)
    place.meta[CALL] = _read(context, call, keys)


def _read(context: BindingContext, call: exp.Expr, keys: list[exp.Expr]) -> WindowCall:
    is_session = call.name.lower() == "session_window"
    form, most = (_SESSION_FORM, 2) if is_session else (_FORM, 4)
    time, *rest = call.expressions or [None]
    if not isinstance(time, exp.Column) or not 1 <= len(rest) < most:
        raise context.error(call, f"{call.name} takes a time column and lengths", form)
    lengths = [_length(context, part, form, zero=n == 2) for n, part in enumerate(rest)]
    start = call.meta.get("start", 0)
    span = TextSpan(start, start + len(call.name))
    if is_session:
        plain = [key.name for key in keys if isinstance(key, exp.Column)]
        if len(plain) < len(keys):
            problem = "the sessions of session_window are those of the other keys: columns"
            hint = "compute the key in a sub-query, and group by its column"
            raise context.error(keys[0], problem, hint)
        return WindowCall(windows_of("SESSION", lengths, 0, tuple(plain)), time.name, span)
    size = lengths[0]
    slide, offset = (*lengths[1:], *(size, 0)[len(lengths) - 1 :])
    return WindowCall(windows_of("HOP", [slide, size], offset), time.name, span)


def _length(context: BindingContext, part: exp.Expr, form: str, *, zero: bool) -> int:
    text = part.name if isinstance(part, exp.Literal) and part.is_string else ""
    try:
        sign = -1 if zero and text.startswith("-") else 1
        text = text.removeprefix("-") if sign < 0 else text
        length = int(part.this.name) if isinstance(part, exp.Interval) else sign * micros(text)
    except InvalidSetting:
        raise context.error(part, "this is not a constant length of time", form) from None
    if not length and not zero:
        raise context.error(part, "this length is empty", "use at least 1 microsecond")
    return length


def _column(name: str, place: exp.Expr) -> exp.Expr:
    column = exp.Column(this=exp.to_identifier(name))
    for node in (column, column.this):
        node.meta.update(place.meta)
    return column


def _replace_parts(context: BindingContext, item: exp.Expr, call_name: str) -> None:
    """Let ``window.start`` and ``window.end`` mean the columns of the windows."""
    parts = [node for node in item.walk() if _is_part(node, call_name)]
    for node in parts:
        named = node.expression.name if isinstance(node, exp.Dot) else node.name
        column = _column(_PARTS[named.lower()], node)
        if node is item or node.parent is item.parent:
            column = exp.Alias(this=column, alias=exp.to_identifier(named))
            column.meta.update(node.meta)
        node.replace(column)
    for node in item.walk():
        bare = isinstance(node, exp.Column) and not node.table and node.name.lower() == call_name
        if bare or is_call(node):
            hint = f"write {call_name}.start and {call_name}.end"
            raise context.error(node, f"{call_name} is not a column of its own here", hint)


def _is_part(node: exp.Expr, call_name: str) -> bool:
    if isinstance(node, exp.Column):
        return node.table.lower() == call_name and node.name.lower() in _PARTS
    if isinstance(node, exp.Dot) and is_call(node.this):
        return node.expression.name.lower() in _PARTS
    return False
