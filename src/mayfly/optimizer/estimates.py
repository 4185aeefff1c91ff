"""How much flows along every edge of a plan: rates, alive tuples, distinct values, early deaths.

Idea: bottom-up, with the assumptions of thesis 5.3 (uniform values, containment of value sets)
and a steady state, where as many results leave per second as are produced.
Invariant: every figure is finite; what grows without bound is reckoned for one day and says so.
Cost: one pass over the plan. Thesis 5.3.1 (join sizes), 3.5.2 (premature expirations).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import exp, expm1, prod
from typing import TypeAlias

from mayfly.optimizer.join_order import JoinInput, result_size
from mayfly.optimizer.labels import Labelled, UnknownNodeError
from mayfly.optimizer.selectivity import selectivity
from mayfly.optimizer.statistics import Statistics
from mayfly.patterns import Kind, Label
from mayfly.plan.derived_stream import Derived
from mayfly.plan.expressions import Column, Expression
from mayfly.plan.finished_operators import Finished, InWindows
from mayfly.plan.finished_windows import FinishedWindows, PeriodicWindows
from mayfly.plan.logical_operators import (
    AntiJoin,
    Distinct,
    Equality,
    ExceptAll,
    GroupAggregate,
    Join,
    Named,
    Node,
    Output,
    PaddedNrrJoin,
    Project,
    RelationJoin,
    RelationScan,
    Schema,
    Select,
    Shared,
    Sort,
    StreamScan,
    SubqueryWindow,
    Top,
    UnionAll,
)
from mayfly.plan.over_frames import AsofJoin, Over
from mayfly.plan.resample import Resample
from mayfly.plan.types import DataType
from mayfly.plan.unnest import Unnest
from mayfly.plan.window_kinds import PartitionRows, RowsWindow, Unbounded, Window

SECOND = 1_000_000
UNBOUNDED_HORIZON = 86_400.0
DEFAULT_PARTITIONS = 1000.0
ELEMENTS = 3.0
"""Of an array, where nothing is known of it."""
ColumnId: TypeAlias = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Flow:
    """What crosses an edge: results per second, those announced dead early, those alive."""

    rate: float
    size: float
    premature: float = 0.0
    distinct: Mapping[ColumnId, float] = field(default_factory=dict)
    grows: bool = False

    def known_values(self, expression: Expression) -> float | None:
        """How many values an expression takes, if its columns were counted."""
        counts = [self.distinct.get((c.relation, c.name)) for c in expression.columns()]
        figures = [count for count in counts if count is not None]
        return max(1.0, prod(figures)) if len(figures) == len(counts) else None

    def values(self, expression: Expression) -> float:
        """How many values an expression takes; as many as there are rows, if not counted."""
        count = self.known_values(expression)
        return max(1.0, self.size) if count is None else count

    def present(self, *expressions: Expression) -> float:
        """How many of the possible combinations of values are alive at one time."""
        possible = prod(self.values(expression) for expression in expressions)
        return max(1.0, -possible * expm1(-self.size / possible))

    def scaled(self, share: float) -> Flow:
        """The same flow with only a share of the tuples."""
        rate, size, early = self.rate * share, self.size * share, self.premature * share
        return Flow(rate, size, early, self.distinct, self.grows)

    def limited(self, rows: int) -> Flow:
        return replace(self, size=min(self.size, rows))

    @property
    def lifetime(self) -> float:
        """Mean seconds a tuple stays alive."""
        return self.size / self.rate if self.rate else 0.0


@dataclass(frozen=True, slots=True)
class Estimated:
    """A labelled node with the flow of its output edge."""

    node: Node
    label: Label
    flow: Flow
    inputs: tuple[Estimated, ...]

    def walk(self) -> Iterator[Estimated]:
        yield self
        for child in self.inputs:
            yield from child.walk()


def estimate_plan(labelled: Labelled, statistics: Statistics) -> Estimated:
    inputs = tuple(estimate_plan(child, statistics) for child in labelled.inputs)
    flow = _flow(labelled, [child.flow for child in inputs], statistics)
    return Estimated(labelled.node, labelled.label, flow, inputs)


def _flow(labelled: Labelled, inputs: list[Flow], statistics: Statistics) -> Flow:
    node = labelled.node
    match node:
        case StreamScan(stream=stream, columns=columns, window=window):
            return _windowed(
                window, statistics.rate(stream), _counted(columns, statistics.distinct(stream))
            )
        case RelationScan(relation=name, columns=columns):
            rows = statistics.rows(name)
            values = _counted(columns, statistics.distinct(name))
            if len(node.key) == 1:
                values[node.alias, node.key[0]] = rows
            return Flow(
                statistics.rate(name) if statistics.has_rate(name) else 0.0, rows, 0.0, values
            )
        case SubqueryWindow(window=window):
            return _windowed(window, inputs[0].rate, inputs[0].distinct)
        case Select(predicate=predicate):
            return inputs[0].scaled(selectivity(predicate, inputs[0].known_values))
        case Derived():
            return _windowed(Unbounded(), inputs[0].rate, inputs[0].distinct)
        case Unnest():
            return inputs[0].scaled(ELEMENTS)
        case Project(outputs=outputs, alias=alias):
            return _renamed(inputs[0], outputs, alias)
        case Join():
            return _joined(node, inputs)
        case RelationJoin():
            return _related(node, *inputs)
        case PaddedNrrJoin():
            inner = RelationJoin(node.child, node.relation, node.equalities, node.residual)
            flow, source = _related(inner, *inputs), inputs[0]
            return replace(flow, rate=max(flow.rate, source.rate), size=max(flow.size, source.size))
        case AntiJoin(equalities=pairs):
            kept, blocking = inputs
            return _negated(kept, blocking, _values(kept, pairs, 0), _values(blocking, pairs, 1))
        case ExceptAll(left=left, right=right):
            kept, blocking = inputs
            return _negated(kept, blocking, _rows(kept, left), _rows(blocking, right))
        case Distinct():
            return _distinct(inputs[0], node, strict=labelled.pattern.kind is Kind.STR)
        case GroupAggregate():
            return _grouped(inputs[0], node)
        case UnionAll():
            return _merged(node, inputs)
        case Sort(limit=limit):
            return inputs[0] if limit is None else inputs[0].limited(limit)
        case Top():
            return _topped(inputs[0], node)
        case InWindows(windows=windows):
            return _in_windows(windows, inputs[0])
        case Finished():
            flow = inputs[0]
            return replace(flow, size=flow.rate * UNBOUNDED_HORIZON, premature=0.0, grows=True)
        case Over(appends=appends) | AsofJoin(appends=appends):
            return _beside(inputs, appends)
        case Resample():
            return _resampled(node, inputs[0])
        case Output() | Shared():
            return inputs[0]
    raise UnknownNodeError(
        f"there is no estimate for {type(node).__name__}",
        "a new plan node needs an estimate and a case here",
    )


def _resampled(node: Resample, source: Flow) -> Flow:
    """A row of each key at every multiple of the period."""
    keys = source.present(*node.partition) if node.partition else 1.0
    rate = keys * SECOND / node.period
    distinct = {
        (node.alias, name): count
        for (_, name), count in source.distinct.items()
        if any(key.name == name for key in node.partition)
    }
    return _windowed(Unbounded(), rate, distinct)


def _in_windows(windows: FinishedWindows, source: Flow) -> Flow:
    """Rows that are looked at once in each window, and then gone."""
    if isinstance(windows, PeriodicWindows):
        rate = source.size * SECOND / windows.period
        return Flow(rate, source.size, 0.0, source.distinct)
    return Flow(source.rate, source.rate * windows.gap / SECOND, 0.0, source.distinct)


def _counted(columns: Schema, counts: Mapping[str, float]) -> dict[ColumnId, float]:
    return {(c.relation, c.name): counts[c.name] for c in columns if c.name in counts}


def _windowed(window: Window, rate: float, distinct: Mapping[ColumnId, float]) -> Flow:
    size, grows = rate * UNBOUNDED_HORIZON, False
    if isinstance(window, RowsWindow):
        size = float(window.count)
    elif isinstance(window, PartitionRows):
        names = {name: count for (_, name), count in distinct.items()}
        counts = [names[name] for name in window.partition_by if name in names]
        size = prod(counts) * window.count if counts else DEFAULT_PARTITIONS * window.count
        if window.duration is not None:
            size = min(size, rate * window.duration / SECOND)
    elif window.lifetime is not None:
        size = rate * window.lifetime / SECOND
    else:
        grows = True
    return Flow(rate, size, rate if window.counts_rows else 0.0, distinct, grows)


def _renamed(source: Flow, outputs: tuple[Named, ...], alias: str) -> Flow:
    counts = {(alias, out.name): source.known_values(out.expression) for out in outputs}
    return replace(source, distinct=_certain(counts))


def _certain(counts: Mapping[ColumnId, float | None]) -> dict[ColumnId, float]:
    return {column: count for column, count in counts.items() if count is not None}


def join_inputs(node: Join, flows: list[Flow], whole: bool = True) -> list[JoinInput]:
    """The join's inputs as the ordering model sees them; equated expressions share a name.

    What is joined ``whole`` is kept by the key that all inputs share, if they do.
    """
    classes = equality_classes(node.equalities)
    members = []
    for child, flow in zip(node.inputs, flows, strict=True):
        offered = {(c.relation, c.name) for c in child.schema}
        distinct = {
            f"k{number}": flow.values(member)
            for number, members in enumerate(classes)
            for member in members
            if {(c.relation, c.name) for c in member.columns()} <= offered
        }
        members.append(JoinInput(flow.rate, flow.size, distinct))
    common = set.intersection(*(set(member.distinct) for member in members)) if whole else set()
    return [
        replace(
            member,
            buckets=max(
                1.0, prod(v for k, v in member.distinct.items() if k in common or not common)
            ),
        )
        for member in members
    ]


def equality_classes(equalities: tuple[Equality, ...]) -> list[list[Expression]]:
    """Expressions that are equal in every result, grouped by transitivity."""
    classes: dict[Expression, list[Expression]] = {}
    for equality in equalities:
        left = classes.setdefault(equality.left, [equality.left])
        right = classes.setdefault(equality.right, [equality.right])
        if left is not right:
            left.extend(right)
            classes.update(dict.fromkeys(right, left))
    return list({id(members): members for members in classes.values()}.values())


def _joined(node: Join, flows: list[Flow]) -> Flow:
    members = join_inputs(node, flows)
    distinct = {column: v for flow in flows for column, v in flow.distinct.items()}
    _narrow_equated(distinct, node.equalities)
    size = result_size(members, range(len(members)))
    size *= selectivity(node.residual, Flow(1.0, size, 0.0, distinct).known_values)
    per_tuple = [size / flow.size if flow.size else 0.0 for flow in flows]
    rate = sum(flow.rate * fan for flow, fan in zip(flows, per_tuple, strict=True))
    early = sum(flow.premature * fan for flow, fan in zip(flows, per_tuple, strict=True))
    return Flow(rate, size, early, distinct, all(flow.grows for flow in flows))


def _narrow_equated(distinct: dict[ColumnId, float], equalities: tuple[Equality, ...]) -> None:
    """Equated columns keep the values of the one that has fewest."""
    for members in equality_classes(equalities):
        columns = [(m.relation, m.name) for m in members if isinstance(m, Column)]
        counted = [distinct[column] for column in columns if column in distinct]
        if counted:
            distinct.update(dict.fromkeys(columns, min(counted)))


def _related(node: RelationJoin, source: Flow, table: Flow) -> Flow:
    left, right = _values(source, node.equalities, 0), _values(table, node.equalities, 1)
    distinct = {**source.distinct, **table.distinct}
    _narrow_equated(distinct, node.equalities)
    fan_out = table.size / max(left, right)
    fan_out *= selectivity(node.residual, replace(source, distinct=distinct).known_values)
    changes = table.rate * source.size / left if node.retroactive else 0.0
    size = source.size * fan_out
    return Flow(source.rate * fan_out + changes, size, changes, distinct, source.grows)


def _values(flow: Flow, equalities: tuple[Equality, ...], side: int) -> float:
    """How many key values one side of the equalities takes."""
    return prod(flow.values((each.left, each.right)[side]) for each in equalities)


def _rows(flow: Flow, node: Node) -> float:
    """How many different rows there can be."""
    return prod(flow.values(column) for column in node.schema)


def _negated(left: Flow, right: Flow, left_values: float, right_values: float) -> Flow:
    """Negation: a left value is blocked while the right holds it.

    A value of the right is absent with probability e^(-N2/v2). Each of its arrivals after an
    absence withdraws the value's N1/v1 left tuples; each departure brings as many back.
    """
    shared = min(left_values, right_values)
    absent = exp(-right.size / right_values)
    passing = 1 - shared / left_values * (1 - absent)
    turns = shared * right.rate / right_values * absent
    flips = turns * left.size / left_values
    kept = left.scaled(passing)
    return replace(kept, rate=kept.rate + flips, premature=kept.premature + flips)


def _distinct(source: Flow, node: Distinct, strict: bool) -> Flow:
    size = min(source.size, source.present(*node.schema))
    if strict:
        rate = source.rate * exp(-source.size / _rows(source, node))
        return replace(source, rate=rate, size=size, premature=rate)
    # A δ* result lives for at most one input lifetime, so this is the least rate possible.
    rate = size / source.lifetime if source.lifetime and not source.grows else source.rate
    return replace(source, rate=min(source.rate, rate), size=size)


def _grouped(source: Flow, node: GroupAggregate) -> Flow:
    groups = source.present(*(key.expression for key in node.keys)) if node.keys else 1.0
    updates = source.rate + (0.0 if source.grows else source.rate)
    period = _period(node)
    rate = min(updates, groups * SECOND / period) if period else updates
    counts = {(node.alias, key.name): source.known_values(key.expression) for key in node.keys}
    return Flow(rate, groups, rate, _certain(counts))


def _topped(source: Flow, node: Top) -> Flow:
    """Top-N: a tuple that comes is among the first N of the alive by chance; others make room."""
    first = node.offset + node.limit
    share = min(1.0, first / max(source.size, 1.0))
    rate = 2 * source.rate * share if node.limit else 0.0
    size = max(0.0, min(source.size - node.offset, node.limit))
    return replace(source, rate=rate, size=size, premature=rate, grows=False)


def _beside(inputs: list[Flow], appends: bool) -> Flow:
    """OVER and ASOF JOIN: as many rows as the first input has; those of a view change when others
    of their key come and go, of which one at a time is assumed."""
    first, *others = inputs
    distinct = {column: count for flow in inputs for column, count in flow.distinct.items()}
    if appends:
        return replace(first, distinct=distinct)
    changes = first.rate + sum(other.rate for other in others)
    return replace(
        first, rate=first.rate + changes, premature=first.premature + changes, distinct=distinct
    )


def _period(node: Node) -> int | None:
    """The slide of the windows below, if they have one."""
    for below in node.walk():
        if isinstance(below, StreamScan | SubqueryWindow):
            slide = below.window.slide
            return slide.period if slide else None
    return None


def _merged(node: UnionAll, inputs: list[Flow]) -> Flow:
    distinct: dict[ColumnId, float] = {}
    for place, column in enumerate(node.schema):
        parts = zip(node.inputs, inputs, strict=True)
        counts = [flow.known_values(child.schema[place]) for child, flow in parts]
        figures = [count for count in counts if count is not None]
        if len(figures) == len(counts):
            distinct[column.relation, column.name] = max(figures)
    return Flow(
        sum(flow.rate for flow in inputs),
        sum(flow.size for flow in inputs),
        sum(flow.premature for flow in inputs),
        distinct,
        any(flow.grows for flow in inputs),
    )


_WIDTHS = {"boolean": 1, "tinyint": 1, "smallint": 2, "int": 4, "float": 4, "date": 4}
_LIFETIME_BYTES = 16


def row_bytes(columns: tuple[Column, ...]) -> int:
    """Bytes of a stored tuple: its columns, ts and exp. Texts count 24, decimals 16."""
    return _LIFETIME_BYTES + sum(_width(column.type) for column in columns)


def _width(kind: DataType) -> int:
    if kind.name in _WIDTHS:
        return _WIDTHS[kind.name]
    if kind.name in ("bigint", "double") or kind.name.startswith(("timestamp", "interval")):
        return 8
    return 16 if kind.name == "decimal" else 24
