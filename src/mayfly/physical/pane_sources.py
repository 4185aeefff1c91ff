"""What panes hold for a grouping over a window with SLIDE, told from its plan without kernels."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from mayfly.plan.aggregate_families import COUNTED, SPREADS
from mayfly.plan.expressions import Column, Expression, conjuncts
from mayfly.plan.logical_operators import (
    AggregateCall,
    GroupAggregate,
    Node,
    Project,
    Select,
    StreamScan,
)
from mayfly.plan.pane_functions import COUNT, MAX, MIN, MOMENTS, ROWS, SUM, sketch_name

VALUES = "values"
"""Not a number of a pane, but what tells its rows apart."""


@dataclass(frozen=True)
class PaneSource:
    """Rows of a stream as a grouping gets them, in terms of the stream: selections are conditions
    and projections are written out, so that equal rows are so in every query."""

    scan: StreamScan
    columns: Mapping[tuple[str, str], Expression]
    conditions: tuple[Expression, ...] = ()

    @staticmethod
    def of(node: Node) -> PaneSource:
        if isinstance(node, StreamScan):
            own = {
                (column.relation, column.name): replace(column, relation=node.stream)
                for column in node.schema
            }
            return PaneSource(node, own)
        assert isinstance(node, Select | Project)
        below = PaneSource.of(node.child)
        if isinstance(node, Select):
            terms = map(below.over, conjuncts(node.predicate))
            return replace(below, conditions=(*below.conditions, *terms))
        computed = {
            (column.relation, column.name): below.over(output.expression)
            for column, output in zip(node.schema, node.outputs, strict=True)
        }
        return replace(below, columns=computed)

    def over(self, expression: Expression) -> Expression:
        """An expression over the grouping's input, in columns of the stream."""

        def written_out(part: Expression) -> Expression:
            if not isinstance(part, Column):
                return part
            return self.columns.get((part.relation, part.name), part)

        return expression.transform(written_out)


@dataclass(frozen=True)
class CallParts:
    """What an aggregate reads of panes: a ``function`` of an argument, and its ``weight``, the
    number of rows or of values that says how often that counts, if there is one."""

    call: AggregateCall
    function: str
    argument: Expression | None
    weight: str = ""

    @property
    def numbers(self) -> tuple[tuple[str, Expression | None], ...]:
        """The numbers of a pane among these, by function and argument."""
        own = () if self.function == VALUES else ((self.function, self.argument),)
        if not self.weight:
            return own
        return (*own, (self.weight, None if self.weight == ROWS else self.argument))


def call_parts(
    node: GroupAggregate,
    over: Callable[[Expression], Expression],
    *,
    sketches: bool,
    joined: bool = False,
) -> list[CallParts]:
    """Of each aggregate of a grouping; ``over`` says its expressions in columns of streams.
    ``joined``: of a join, where what lies together may have come apart."""
    asked = [call if sketches and _is_sketched(call) else call.exact for call in node.aggregates]
    # Where one function counts values, others read the same counters.
    counted = {
        over(call.argument)
        for call in asked
        if call.argument is not None and call.function in COUNTED and not call.approximate
    }
    listed = []
    for call in asked:
        argument, weight = call.argument and over(call.argument), ""
        if argument is None:
            function = ROWS
        elif call.approximate:
            sketch = sketch_name(call.function, argument.type)
            assert sketch is not None
            function = sketch
        elif call.distinct or call.function in ("collect_set", *COUNTED):
            function, weight = VALUES, ROWS if argument in counted else ""
        elif call.function == "count":
            function = COUNT
        elif call.function in (MIN, MAX):
            function = call.function
        elif call.function in SPREADS:
            function = MOMENTS
        else:
            function, weight = SUM, COUNT if joined or call.function == "avg" else ""
        listed.append(CallParts(call, function, argument, weight))
    return listed


def _is_sketched(call: AggregateCall) -> bool:
    if not call.approximate or call.argument is None:
        return False
    counts_rows = call.function == "count" and not call.distinct
    return not counts_rows and sketch_name(call.function, call.argument.type) is not None
