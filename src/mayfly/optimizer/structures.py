"""Which structure each operator keeps its state in, why, and what keeping it costs.

Idea: the pattern of what is stored decides. FIFO for WKS; a calendar queue for WK; for STR a
calendar queue with negative tuples for early deaths, or a hash on identity where most deaths are
early. NT hashes everything, DIRECT keeps insertion order and scans.
Invariant: the structure changes the cost, never the content.
Cost: figures are tuples touched per second. Thesis 3.5.2, 3.6.1 (lazy expiration at 5 %).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from math import prod

from mayfly.optimizer.estimates import Estimated, Flow, row_bytes
from mayfly.patterns import MON, WK, Kind, Pattern
from mayfly.plan.expressions import Expression
from mayfly.plan.finished_operators import InWindows
from mayfly.plan.logical_operators import (
    AntiJoin,
    Distinct,
    Equality,
    ExceptAll,
    GroupAggregate,
    Join,
    Output,
    OutputKind,
    Project,
    RelationJoin,
    RelationScan,
    Select,
    Sort,
    StreamScan,
    SubqueryWindow,
    Top,
    UnionAll,
)
from mayfly.plan.over_frames import AsofJoin, Over
from mayfly.plan.strategy import Strategy, Structure

EXPIRATION_RUNS = 20
"""Times per lifetime that state is searched for the dead, unless it is in order of expiration."""

_COUNTER_BYTES = 16


@dataclass(frozen=True, slots=True)
class Cost:
    """Tuples touched per second: by operators, by state maintenance, by negative tuples."""

    processing: float = 0.0
    state: float = 0.0
    negative: float = 0.0

    @property
    def total(self) -> float:
        return self.processing + self.state + self.negative

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.processing + other.processing,
            self.state + other.state,
            self.negative + other.negative,
        )


@dataclass(frozen=True, slots=True)
class StateEstimate:
    """One structure as the optimizer reckons with it: what it holds, by which key, how large.

    ``maintenance`` is tuples touched per second; ``grows`` says that nothing bounds it, in which
    case rows and bytes are those after one day.
    """

    structure: Structure
    holds: str
    keyed_by: tuple[str, ...]
    reason: str
    rows: float
    bytes: float
    maintenance: float
    grows: bool = False


class Strict(Enum):
    """How STR state learns of deaths: by time and some negative tuples, or by these alone."""

    CALENDAR = "calendar queue + negative tuples"
    HASH = "negative tuples only"


@dataclass(frozen=True, slots=True)
class Upkeep:
    """The choices under which state is costed."""

    strategy: Strategy = Strategy.UPA
    strict: Strict = Strict.CALENDAR
    partitions: int = 10

    def negatives(self, pattern: Pattern, flow: Flow) -> float:
        """Negative tuples per second on an edge."""
        if pattern.kind is Kind.MON:
            return 0.0
        if self.strategy is Strategy.NT:
            return flow.rate
        if pattern.kind is not Kind.STR:
            return 0.0
        return flow.rate if self.announces_all else flow.premature

    @property
    def announces_all(self) -> bool:
        return self.strategy is Strategy.NT or (
            self.strategy is Strategy.UPA and self.strict is Strict.HASH
        )


def structure_for(pattern: Pattern, upkeep: Upkeep) -> tuple[Structure, str]:
    """The structure for tuples that expire by a pattern, and the reason."""
    if pattern.kind is Kind.MON:
        return Structure.APPEND, "nothing expires"
    if upkeep.strategy is Strategy.NT:
        return Structure.HASH, "NT: a negative tuple names each tuple to delete"
    if upkeep.strategy is Strategy.DIRECT:
        return Structure.BUFFER, "DIRECT: dead tuples are found by scanning"
    if pattern.kind is Kind.WKS:
        return Structure.FIFO, "WKS: tuples expire in the order they arrived"
    if pattern.kind is Kind.WK:
        return Structure.CALENDAR, "WK: expirations are known but come in any order"
    if upkeep.announces_all:
        return Structure.HASH, "STR: announcing deaths costs less than searching for some"
    return Structure.CALENDAR_NEGATIVE, "STR: few tuples die early, and only those are announced"


def maintenance(structure: Structure, flow: Flow, upkeep: Upkeep, buckets: float = 1.0) -> float:
    """Tuples touched per second to insert and to expire."""
    dated = max(flow.rate, EXPIRATION_RUNS * flow.rate / upkeep.partitions)
    match structure:
        case Structure.APPEND | Structure.GROUPS:
            return flow.rate
        case Structure.BUFFER:
            searched = flow.premature * flow.size / buckets
            return flow.rate + EXPIRATION_RUNS * flow.rate + searched
        case Structure.CALENDAR:
            return flow.rate + dated
        case Structure.CALENDAR_NEGATIVE:
            return flow.rate + dated + flow.premature * flow.size / buckets
    return 2 * flow.rate


def kept(estimated: Estimated, upkeep: Upkeep) -> tuple[StateEstimate, ...]:
    """Everything the operator has to keep."""
    return tuple(_kept(estimated, upkeep))


def _kept(estimated: Estimated, upkeep: Upkeep) -> Iterator[StateEstimate]:
    node, inputs = estimated.node, estimated.inputs
    match node:
        case StreamScan(window=window) | SubqueryWindow(window=window):
            named = window.cql()
            if window.counts_rows:
                yield _fifo(estimated, named, "later tuples displace the oldest", upkeep)
            elif upkeep.strategy is Strategy.NT and window.lifetime is not None:
                yield _fifo(estimated, named, "NT: the window announces each expiration", upkeep)
        case Join(equalities=equalities):
            for child in inputs:
                yield _stored(child, _keys_of(child, equalities), upkeep)
        case RelationJoin(equalities=equalities, retroactive=True):
            yield _stored(inputs[0], _keys_of(inputs[0], equalities), upkeep)
        case AntiJoin(equalities=equalities):
            for child in inputs:
                yield _stored(child, _keys_of(child, equalities), upkeep)
        case ExceptAll():
            for child in inputs:
                yield _stored(child, child.node.schema, upkeep)
        case Distinct():
            yield from _distinct_state(estimated, upkeep)
        case GroupAggregate():
            yield from _aggregate_state(estimated, node, upkeep)
        case InWindows(windows=windows):
            yield _fifo(estimated, windows.cql(), "rows of windows that are open", upkeep)
        case Top():
            yield _stored(inputs[0], (), upkeep)
        case Over(appends=False, partition=partition):
            yield _stored(inputs[0], partition, upkeep)
        case AsofJoin(appends=False, equalities=equalities):
            for child in inputs:
                yield _stored(child, _keys_of(child, equalities), upkeep)
        case Output():
            yield from _result_state(estimated, node, upkeep)


def _stored(child: Estimated, keys: tuple[Expression, ...], upkeep: Upkeep) -> StateEstimate:
    """An input kept whole, under a key."""
    structure, reason = structure_for(child.label.held, upkeep)
    buckets = prod(child.flow.values(key) for key in keys)
    return StateEstimate(
        structure,
        _name(child),
        tuple(key.sql(lambda column: column.name) for key in keys),
        reason,
        child.flow.size,
        child.flow.size * row_bytes(child.node.schema),
        maintenance(structure, child.flow, upkeep, buckets),
        child.flow.grows,
    )


def _fifo(estimated: Estimated, holds: str, reason: str, upkeep: Upkeep) -> StateEstimate:
    flow, schema = estimated.flow, estimated.node.schema
    touched = maintenance(Structure.FIFO, flow, upkeep)
    return StateEstimate(
        Structure.FIFO, holds, (), reason, flow.size, flow.size * row_bytes(schema), touched
    )


def _distinct_state(estimated: Estimated, upkeep: Upkeep) -> Iterator[StateEstimate]:
    """δ*: the output and at most one spare per value (3.5.2). Strict δ: a count per value."""
    source, flow, schema = estimated.inputs[0], estimated.flow, estimated.node.schema
    names, grows = tuple(column.name for column in schema), source.flow.grows
    width = row_bytes(schema)
    if estimated.label.pattern.kind is not Kind.STR:
        expires = estimated.label.pattern.kind is not Kind.MON
        structure, reason = structure_for(WK if expires else MON, upkeep)
        rows = min(2 * flow.size, source.flow.size) if expires else flow.size
        holds = "output and one spare per value" if expires else "output"
        touched = maintenance(structure, source.flow, upkeep, max(1.0, flow.size))
        yield StateEstimate(
            structure, holds, names, f"δ*; {reason}", rows, rows * width, touched, grows
        )
        return
    yield _stored(source, schema, upkeep)
    touched = maintenance(Structure.COUNTS, source.flow, upkeep)
    reason = "strict δ: a negative tuple when a count reaches 0"
    size = flow.size * (width + _COUNTER_BYTES)
    yield StateEstimate(Structure.COUNTS, "values", names, reason, flow.size, size, touched, grows)


def _aggregate_state(
    estimated: Estimated, node: GroupAggregate, upkeep: Upkeep
) -> Iterator[StateEstimate]:
    source, flow = estimated.inputs[0], estimated.flow
    keys = tuple(key.expression for key in node.keys)
    yield _stored(source, keys, upkeep)
    names = tuple(key.name for key in node.keys)
    size = flow.size * row_bytes(node.schema)
    touched = maintenance(Structure.GROUPS, flow, upkeep)
    reason = "a new value replaces the old one, without a negative tuple"
    grows = source.flow.grows and bool(keys)
    yield StateEstimate(Structure.GROUPS, "groups", names, reason, flow.size, size, touched, grows)


def _result_state(estimated: Estimated, node: Output, upkeep: Upkeep) -> Iterator[StateEstimate]:
    """The maintained answer; groups are already an array, appended results need no copy."""
    (source,) = estimated.inputs
    if isinstance(source.node, Sort):  # the order and the limit are applied to what is reported
        (source,) = source.inputs
    pattern = source.label.pattern
    appended = pattern == MON and node.kind is not OutputKind.VIEW
    if node.one_time or appended or is_grouped(source):
        return
    structure, reason = structure_for(pattern, upkeep)
    flow = source.flow
    touched = maintenance(structure, flow, upkeep)
    size = flow.size * row_bytes(source.node.schema)
    grows = pattern == MON
    yield StateEstimate(structure, "answer", (), reason, flow.size, size, touched, grows)


def is_grouped(estimated: Estimated) -> bool:
    """Whether results are groups, perhaps selected and projected: values that replace others."""
    while isinstance(estimated.node, Select | Project | Sort | Output):
        (estimated,) = estimated.inputs
    return isinstance(estimated.node, GroupAggregate)


def _keys_of(child: Estimated, equalities: tuple[Equality, ...]) -> tuple[Expression, ...]:
    """The equated expressions one input offers, each once."""
    offered = {(column.relation, column.name) for column in child.node.schema}
    sides = (side for equality in equalities for side in (equality.left, equality.right))
    mine = (s for s in sides if {(c.relation, c.name) for c in s.columns()} <= offered)
    return tuple(dict.fromkeys(mine))


def _name(estimated: Estimated) -> str:
    """What an input is called in the algebra of its sources: ``a``, ``a ⋈ b``, ``a − b``."""
    match estimated.node:
        case StreamScan(alias=alias) | RelationScan(alias=alias):
            return alias
        case AntiJoin() | ExceptAll():
            sign = " − "
        case UnionAll():
            sign = " ∪ "
        case _:
            sign = " ⋈ "
    names = [_name(child) for child in estimated.inputs]
    return sign.join(f"({name})" if " " in name and len(names) > 1 else name for name in names)
