"""OVER and ASOF: values over a frame of neighbouring rows, and the closest row of another input.

``Over`` hands on its input's columns and adds one for each call; calls of one node share partition
and order. ``appends`` is decided when the text is bound: over a stream that never expires, ordered
by its own time, with frames that end at the current row, no later row changes a value.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property

from mayfly.lifetime import format_micros
from mayfly.plan.aggregate_families import SPREADS
from mayfly.plan.expressions import Column, Expression
from mayfly.plan.logical_operators import AggregateCall, Equality, Node, Schema, SortKey
from mayfly.plan.types import DataType

NUMBERINGS = ("row_number", "rank", "dense_rank")
SHIFTS = ("lag", "lead")
PICKS = ("first_value", "last_value")


class FrameUnit(Enum):
    """What the bounds of a frame count."""

    ROWS = "ROWS"
    RANGE = "RANGE"


@dataclass(frozen=True, slots=True)
class Frame:
    """From ``start`` to ``end``, both inside; negative is PRECEDING, None is UNBOUNDED.

    Of a RANGE they are distances in the value of ORDER BY, in µs or days where that is a time.
    """

    unit: FrameUnit
    start: int | float | None
    end: int | float | None

    def cql(self, kind: str = "") -> str:
        bounds = (_bound_text(self.start, True, kind), _bound_text(self.end, False, kind))
        return f"{self.unit.value} BETWEEN {' AND '.join(bounds)}"


def _bound_text(bound: int | float | None, first: bool, kind: str) -> str:
    if bound == 0:
        return "CURRENT ROW"
    if bound is None:
        return f"UNBOUNDED {'PRECEDING' if first else 'FOLLOWING'}"
    size: int | float | str = abs(bound)
    if kind in ("timestamp", "timestamp_ntz"):
        size = f"INTERVAL {format_micros(int(abs(bound)))}"
    elif kind == "date":
        size = f"INTERVAL {size} DAY"
    return f"{size} {'PRECEDING' if bound < 0 else 'FOLLOWING'}"


class FrameReach(Enum):
    """Which earlier rows later frames of a call can reach, where these end at the current row."""

    INSTANT = "rows of the same instant"
    TIME = "rows of the frame's time"
    ROWS = "the last rows of a key"
    RUNNING = "one value per key"
    ALL = "all rows"


@dataclass(frozen=True)
class FrameCall:
    """A function over the frame of each row, offered as column ``name``.

    ``function`` is one of NUMBERINGS, SHIFTS and PICKS, or an aggregate, which is ``aggregate``
    then. ``offset`` and ``default`` are those of LAG and LEAD.
    """

    name: str
    function: str
    argument: Expression | None
    data_type: DataType
    frame: Frame
    aggregate: AggregateCall | None = None
    offset: int = 1
    default: Expression | None = None
    ignores_nulls: bool = False

    @property
    def nullable(self) -> bool:
        if self.aggregate is not None:
            return self.aggregate.nullable
        return self.function not in NUMBERINGS

    def column(self, relation: str) -> Column:
        return Column(relation, self.name, self.data_type, self.nullable)

    @property
    def expressions(self) -> tuple[Expression, ...]:
        own = (self.argument, self.default)
        return tuple(part for part in own if part is not None)

    @property
    def by_position(self) -> bool:
        """Whether the order among peers matters."""
        counted = self.frame.unit is FrameUnit.ROWS and (
            self.frame.start is not None or self.frame.end is not None
        )
        return counted or self.function in ("row_number", *SHIFTS, *PICKS)

    @property
    def is_measured(self) -> bool:
        """Whether a bound of its frame is a distance in the value of ORDER BY."""
        bounds = (self.frame.start, self.frame.end)
        own = self.function not in (*NUMBERINGS, *SHIFTS)
        return own and self.frame.unit is FrameUnit.RANGE and any(bounds)

    @property
    def reach(self) -> FrameReach:
        """What has to be kept for later rows; the frame ends at the current row, or before."""
        if self.function in NUMBERINGS:
            return FrameReach.RUNNING
        if self.function in SHIFTS:
            return FrameReach.ROWS
        start, end, rows = self.frame.start, self.frame.end, self.frame.unit is FrameUnit.ROWS
        if end == 0 and (self.function == "last_value" and not self.ignores_nulls):
            return FrameReach.INSTANT
        if start is None:
            return FrameReach.RUNNING if end == 0 and self._is_summed else FrameReach.ALL
        if rows:
            return FrameReach.ROWS if start < 0 else FrameReach.INSTANT
        return FrameReach.TIME if start < 0 else FrameReach.INSTANT

    @property
    def _is_summed(self) -> bool:
        """Whether one value per key tells all about rows that went before."""
        if self.function == "first_value":
            return not self.ignores_nulls
        call = self.aggregate
        if call is None or call.distinct:
            return False
        exact = call.argument is None or call.argument.type.name != "decimal"
        return call.function in ("count", "min", "max") or (
            exact and call.function in ("sum", "avg", *SPREADS)
        )

    @property
    def rows_back(self) -> int:
        """How many rows before its own it looks at, where it counts rows."""
        if self.function in SHIFTS:
            return self.offset
        return -int(self.frame.start or 0)


@dataclass(frozen=True, slots=True)
class NumberLimit:
    """Rows whose number by a call is larger than ``most`` are not needed."""

    call: str
    most: int


@dataclass(frozen=True)
class Over(Node):
    """The rows of the input, each with values over its frame.

    ``ties`` order rows that ORDER BY leaves equal. ``because`` says what makes results append-only,
    or what stands in the way.
    """

    inputs_of = ("child",)
    child: Node
    partition: tuple[Expression, ...]
    order: tuple[SortKey, ...]
    ties: tuple[Expression, ...]
    calls: tuple[FrameCall, ...]
    alias: str
    appends: bool
    because: str = field(compare=False)
    limit: NumberLimit | None = None

    @cached_property
    def schema(self) -> Schema:
        return (*self.child.schema, *(call.column(self.alias) for call in self.calls))

    def expressions(self) -> tuple[Expression, ...]:
        keys = tuple(key.expression for key in self.order)
        called = tuple(part for call in self.calls for part in call.expressions)
        return (*self.partition, *keys, *self.ties, *called)


class Match(Enum):
    """How the closest row of an ASOF join compares with its left row: ``R.t op L.t``."""

    AT_OR_BEFORE = "<="
    BEFORE = "<"
    AT_OR_AFTER = ">="
    AFTER = ">"

    @property
    def backward(self) -> bool:
        return self in (Match.AT_OR_BEFORE, Match.BEFORE)

    @property
    def inclusive(self) -> bool:
        return self in (Match.AT_OR_BEFORE, Match.AT_OR_AFTER)


@dataclass(frozen=True)
class AsofJoin(Node):
    """Each left row with the closest right row of its key; ``padded`` keeps those without (LEFT).

    Of right rows at one distance the one is taken that is next in the order of the right input:
    the last before a left row, the first behind it; ``ties`` tell that order.
    """

    inputs_of = ("left", "right")
    left: Node
    right: Node
    equalities: tuple[Equality, ...]
    match: Match
    left_time: Expression
    right_time: Expression
    ties: tuple[Expression, ...]
    padded: bool
    appends: bool
    because: str = field(compare=False)

    @cached_property
    def schema(self) -> Schema:
        right = self.right.schema
        if self.padded:
            right = tuple(replace(column, may_be_null=True) for column in right)
        return (*self.left.schema, *right)

    def expressions(self) -> tuple[Expression, ...]:
        pairs = tuple(side for pair in self.equalities for side in (pair.left, pair.right))
        return (*pairs, self.left_time, self.right_time, *self.ties)
