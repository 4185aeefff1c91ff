"""Blocks over finished windows: everything in them happens once per window, when it is over.

FROM offers the rows of TUMBLE, HOP, CUMULATE or SESSION at the last instant of their window, with
the columns window_start and window_end; joins are by both, groups by both too, and what a window
gives stays. A query over such results that joins or groups by both goes on window by window.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import combinations
from math import gcd

from sqlglot import exp

from mayfly.cql.context import BindingContext
from mayfly.cql.messages import error_at, listing, suggestion
from mayfly.cql.scope import Item, Scope
from mayfly.cql.window_functions import CALL, WindowCall
from mayfly.plan.catalog import StreamDefinition
from mayfly.plan.expressions import Column, Expression
from mayfly.plan.finished_operators import Finished, InWindows
from mayfly.plan.finished_windows import END, START, PeriodicWindows, Sessions
from mayfly.plan.logical_operators import (
    AntiJoin,
    Distinct,
    ExceptAll,
    GroupAggregate,
    Join,
    Node,
    Output,
    OutputKind,
    PaddedNrrJoin,
    Project,
    RelationJoin,
    RelationScan,
    Schema,
    Select,
    Shared,
    StreamScan,
    SubqueryWindow,
    Top,
    UnionAll,
)
from mayfly.plan.over_frames import AsofJoin, Over
from mayfly.plan.resample import Interpolation, Resample
from mayfly.plan.window_kinds import Unbounded

_BOTH = "write … ON a.k = b.k AND a.window_start = b.window_start AND a.window_end = b.window_end"


# ── entries of FROM ───────────────────────────────────────────────────────────────────────


def call_of(place: exp.Expr) -> WindowCall | None:
    """The window function that stands around an entry of FROM, if one does."""
    call: WindowCall | None = place.meta.get(CALL)
    return call


def windowed(context: BindingContext, place: exp.Expr, node: Node) -> Node:
    """An entry of FROM in the windows that its call asks for."""
    call = call_of(place)
    if call is None:
        return node
    if context.one_time:
        word = call.windows.word
        problem = f"{word} is answered as windows end, and a one-time SELECT shows one instant"
        hint = "declare it: CREATE QUERY q AS SELECT …, and ask SELECT … FROM q"
        raise context.error(place, problem, hint)
    time = _time_column(context, call, place, node)
    for column in node.schema:
        if column.name.casefold() in (START, END):
            problem = f"{place.alias or place.name or 'the sub-query'} has a column {column.name}"
            hint = f"rename it: SELECT {column.name} AS inner_{column.name} … in a sub-query"
            raise error_at(context.source, call.span, f"{problem} already", hint)
    windows = _with_spelling(context, call, node.schema)
    relation, position = node.schema[0].relation, context.position(place)
    if isinstance(node, StreamScan):
        rows: Node = StreamScan(
            node.stream, node.alias, windows.extent, node.columns, position=position
        )
    elif isinstance(windows, Sessions):
        rows = node
    else:
        rows = SubqueryWindow(node, windows.extent, position=position)
    bounds = (Column(relation, name, time.type, False) for name in (START, END))
    return InWindows(rows, windows, *bounds, position=position)


def _time_column(context: BindingContext, call: WindowCall, place: exp.Expr, node: Node) -> Column:
    """The column that is the time of rows; it has to be the one that the call names."""
    word, asked = call.windows.word, call.time.casefold()
    named = next((c for c in node.schema if c.name.casefold() == asked), None)
    if named is None:
        hint = suggestion(call.time, [column.name for column in node.schema], "columns")
        raise error_at(context.source, call.span, f"there is no column {call.time}", hint)
    entry = context.catalog.lookup(node.stream) if isinstance(node, StreamScan) else None
    if isinstance(entry, StreamDefinition):
        time = next(column for column in node.schema if column.name == entry.time)
        declared = next(c for c in entry.columns if c.name == entry.time).computed
        behind = () if declared is None else declared.columns()
        if named.name == time.name or named.name in {column.name for column in behind}:
            return time
        problem = f"the time of {entry.name} is {entry.time}, not {call.time}"
        raise error_at(context.source, call.span, problem, f"write {word}(…, {entry.time}, …)")
    times = time_columns(context, node)
    if (named.relation, named.name) not in times:
        names = sorted(name for _, name in times)
        hint = f"its rows have the time {listing(names)}" if names else "use the stream itself"
        problem = f"{call.time} is not the time of these rows"
        hint = f"{hint}; a result has the time of its window's end"
        raise error_at(context.source, call.span, problem, hint)
    return named


def _with_spelling(context: BindingContext, call: WindowCall, schema: Schema) -> Sessions:
    windows = call.windows
    if not isinstance(windows, Sessions):
        return windows  # type: ignore[return-value]
    names = {column.name.casefold(): column for column in schema}
    for name in windows.partition_by:
        column = names.get(name.casefold())
        if column is None:
            hint = suggestion(name, [c.name for c in schema], "columns")
            problem = f"there is no column {name} to partition by"
            raise error_at(context.source, call.span, problem, hint)
        if not column.type.is_comparable:
            problem = f"{name} has type {column.type}, which cannot partition sessions"
            raise error_at(context.source, call.span, problem, "partition by a member of it")
    return Sessions(windows.gap, tuple(names[n.casefold()].name for n in windows.partition_by))


def time_columns(context: BindingContext, node: Node) -> frozenset[tuple[str, str]]:
    """Which columns of an append-only answer say when its rows came."""
    match node:
        case StreamScan(stream=stream, alias=alias, window=Unbounded()):
            entry = context.catalog.lookup(stream)
            return frozenset({(alias, entry.time)} if isinstance(entry, StreamDefinition) else ())
        case Finished():
            return frozenset((c.relation, c.name) for c in window_bounds(node)[1])
        case Resample(filling=Interpolation.LAST, time=time, alias=alias):
            return frozenset({(alias, time.name)})
        case Project(child=child, outputs=outputs, alias=alias):
            below = time_columns(context, child)
            return frozenset(
                (alias, output.name)
                for output in outputs
                if isinstance(output.expression, Column)
                and (output.expression.relation, output.expression.name) in below
            )
        case Select(child=child) | Shared(child=child) | RelationJoin(child=child):
            return time_columns(context, child)
        case PaddedNrrJoin(child=child):
            return time_columns(context, child)
        case Over(child=child, appends=True) | AsofJoin(left=child, appends=True):
            return time_columns(context, child)
    return frozenset()


# ── where columns of windows go ───────────────────────────────────────────────────────────


def window_bounds(node: Node) -> tuple[frozenset[Column], frozenset[Column]]:
    """The columns of a node that say where windows start, and where they end."""
    match node:
        case InWindows(start=start, end=end):
            return frozenset({start}), frozenset({end})
        case Project(child=child, outputs=outputs, alias=alias):
            return _renamed(window_bounds(child), outputs, alias)
        case GroupAggregate(child=child, keys=keys, alias=alias):
            return _renamed(window_bounds(child), keys, alias)
        case UnionAll(inputs=inputs):
            parts = [_places(child) for child in inputs]
            shared = tuple(
                frozenset(node.schema[n] for n in set.intersection(*(p[side] for p in parts)))
                for side in (0, 1)
            )
            return shared[0], shared[1]
        case AntiJoin(left=left) | ExceptAll(left=left):
            return window_bounds(left)
        case StreamScan() | RelationScan():
            return frozenset(), frozenset()
    parts_below = [window_bounds(child) for child in node.children()]
    return (
        frozenset[Column]().union(*(starts for starts, _ in parts_below)),
        frozenset[Column]().union(*(ends for _, ends in parts_below)),
    )


def _renamed(
    bounds: tuple[frozenset[Column], frozenset[Column]], outputs: Iterable[object], alias: str
) -> tuple[frozenset[Column], frozenset[Column]]:
    starts, ends = ({_id(c) for c in side} for side in bounds)
    listed = [(o, _id(o.expression)) for o in outputs if isinstance(o.expression, Column)]  # type: ignore[attr-defined]
    return (
        frozenset(o.column(alias) for o, key in listed if key in starts),  # type: ignore[attr-defined]
        frozenset(o.column(alias) for o, key in listed if key in ends),  # type: ignore[attr-defined]
    )


def _places(node: Node) -> tuple[set[int], set[int]]:
    starts, ends = ({_id(c) for c in side} for side in window_bounds(node))
    pairs = list(enumerate(map(_id, node.schema)))
    return {n for n, key in pairs if key in starts}, {n for n, key in pairs if key in ends}


def _id(column: object) -> tuple[str, str]:
    assert isinstance(column, Column)
    return column.relation, column.name


# ── blocks ────────────────────────────────────────────────────────────────────────────────


def is_per_window(items: Iterable[Item]) -> bool:
    """Whether a window function stands in FROM."""
    return any(isinstance(item.node, InWindows) for item in items)


def check_entries(context: BindingContext, block: exp.Select, items: list[Item]) -> None:
    """Beside a window function there may be others, their results, and stored tables."""
    origin = block.args["from_"]
    places = [origin.this, *(join.this for join in block.args.get("joins") or [])]
    for item, place in zip(items, places, strict=True):
        if not _is_finished(item.node):
            raise context.error(
                place,
                f"{item.name} has no finished windows, but another entry of FROM has",
                f"write TUMBLE({item.name}, ts, …) here too, or [RANGE …] for both",
            )


def _is_finished(node: Node) -> bool:
    match node:
        case InWindows() | Finished() | RelationScan():
            return True
        case Project(child=child) | Select(child=child) | Shared(child=child):
            return _is_finished(child)
    return False


def group_bounds(context: BindingContext, block: exp.Select, scope: Scope) -> list[Expression]:
    """By what a grouping is per window, whether it says so or not."""
    for item in scope.items:
        starts, ends = (sorted(side, key=_id) for side in window_bounds(item.node))
        if starts and ends:
            return [starts[0], ends[0]]
        columns = [item.column(name) for name in (START, END)]
        if all(column is not None and not column.nullable for column in columns):
            return [column for column in columns if column is not None]
    problem = "either side of this join may be missing, so that no column says which window it is"
    hint = "join in a sub-query with USING (window_start, window_end), and group its results"
    raise context.error(block, problem, hint)


def finished(context: BindingContext, node: Node) -> Node:
    """What a block over window functions gives: the answer of each window, for ever."""
    bare = _bare(node)
    for part in _parts(bare):
        if isinstance(part, Join | AntiJoin) and not _joins_both(part):
            raise context.error_for(
                part, "a join of finished windows is by both bounds of their windows", _BOTH
            )
        if isinstance(part, Join | AntiJoin) and (apart := _apart(part)):
            problem = f"{apart[0].cql()} and {apart[1].cql()} have no window in common"
            hint = "use the same windows on both sides, or windows over the results of windows"
            raise context.error_for(part, f"{problem}: both bounds are never equal", hint)
    return Finished(bare, position=node.position)


def continued(node: Node) -> Node:
    """A query over results of finished windows, window by window if it can be: where it joins,
    groups and partitions by both bounds, so that nothing of a window is needed when it is over."""
    bare = _bare(node)
    parts = list(_parts(bare))
    leaves = [part for part in parts if isinstance(part, InWindows | StreamScan | SubqueryWindow)]
    heavy = any(isinstance(part, Join | AntiJoin | GroupAggregate) for part in parts)
    if bare is node or not heavy or not all(isinstance(leaf, InWindows) for leaf in leaves):
        return node
    possible = all(map(_stays_in_window, parts))
    return Finished(bare, position=node.position) if possible else node


def _stays_in_window(part: Node) -> bool:
    match part:
        case Join() | AntiJoin():
            return _joins_both(part)
        case GroupAggregate(child=child, keys=keys):
            starts, ends = ({_id(c) for c in side} for side in window_bounds(child))
            by = {_id(key.expression) for key in keys if isinstance(key.expression, Column)}
            return bool(starts & by and ends & by)
        case Distinct() | ExceptAll():
            return all(window_bounds(part))
        case Over(child=child, partition=partition):
            within = {_id(key) for key in partition if isinstance(key, Column)}
            return all(within & {_id(c) for c in side} for side in window_bounds(child))
        case AsofJoin() | Top() | Shared() | RelationJoin() | Finished():
            return False
    return True


def _bare(node: Node) -> Node:
    """The plan of a block with what is alive in windows in the place of what they gave."""
    match node:
        case Finished(child=child):
            return child
        case Shared() | InWindows() | StreamScan() | SubqueryWindow() | RelationScan():
            return node
    children = node.children()
    rebuilt = tuple(map(_bare, children))
    if all(old is new for old, new in zip(children, rebuilt, strict=True)):
        return node
    if isinstance(node, Over):
        node = replace(node, appends=False, because="its rows are those of one window")
    return node.with_children(rebuilt)


def _parts(node: Node) -> Iterable[Node]:
    """The operators of a block, down to its windows."""
    yield node
    if not isinstance(node, InWindows | Finished | SubqueryWindow | Shared):
        for child in node.children():
            yield from _parts(child)


def _joins_both(node: Join | AntiJoin) -> bool:
    """Whether all inputs with windows are joined by where these start and where they end."""
    bounds = [window_bounds(child) for child in node.children()]
    return all(_connected(node, [pair[side] for pair in bounds]) for side in (0, 1))


def _connected(node: Join | AntiJoin, columns: list[frozenset[Column]]) -> bool:
    home = {_id(c): n for n, side in enumerate(columns) for c in side}
    groups = [{n} for n, side in enumerate(columns) if side]
    if len(groups) != len(columns):
        return False
    for equality in node.equalities:
        if isinstance(equality.left, Column) and isinstance(equality.right, Column):
            ends = home.get(_id(equality.left)), home.get(_id(equality.right))
            if None not in ends:
                joined = [group for group in groups if group & set(ends)]
                groups = [g for g in groups if g not in joined]
                groups.append(set().union(*joined))
    return len(groups) <= 1


def _apart(node: Join | AntiJoin) -> tuple[PeriodicWindows, PeriodicWindows] | None:
    """Windows of two inputs of which no two are the same."""
    kinds = [
        {part.windows for part in _parts(child) if isinstance(part, InWindows)}
        for child in node.children()
    ]
    for first, second in combinations([windows for side in kinds for windows in side], 2):
        if isinstance(first, PeriodicWindows) and isinstance(second, PeriodicWindows):
            if first.cumulative or second.cumulative:
                continue
            steps = gcd(first.period, second.period)
            if first.size != second.size or (first.offset - second.offset) % steps:
                return first, second
    return None


def check_kind(context: BindingContext, output: Output) -> None:
    """Results of finished windows never leave, so Dstream would send nothing."""
    if output.kind is OutputKind.DSTREAM and isinstance(output.child, Finished):
        raise context.error_for(
            output,
            "Dstream sends nothing: what a finished window gave never leaves",
            "write Istream, which sends each result once",
        )
