"""What a served query will ask of a server, told from its plan: to compile it takes longer.

Invariant: windows, panes and what is shared are those of ``stored_query.bound_query``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from mayfly.optimizer.optimize import optimize
from mayfly.physical.pane_sources import VALUES, PaneSource, call_parts
from mayfly.physical.slides import outer_slide, slid_window
from mayfly.plan.logical_operators import GroupAggregate, Output, StreamScan
from mayfly.plan.pane_functions import COUNT, ROWS, SUM
from mayfly.plan.window_kinds import Range
from mayfly.serving.periodic.served_window import ServedWindow

OWN_COLUMNS = 3
"""Of a row of a pane: its group, its time and its end."""


@dataclass(frozen=True)
class PlannedWindow(ServedWindow):
    """``columns`` is how many values a row of its panes has."""

    number: int
    columns: int

    @property
    def synopsis(self) -> str:
        return str(self.number)


def planned_windows(plans: Mapping[str, Output]) -> list[PlannedWindow]:
    """Of queries with SERVE, by name; those that group the same rows alike share panes."""
    numbers: dict[object, int] = {}
    listed = []
    for name, plan in plans.items():
        chosen = optimize(plan).plan
        node = next(
            part
            for part in chosen.walk()
            if isinstance(part, GroupAggregate) and slid_window(part) is not None
        )
        source = PaneSource.of(node.child)
        parts = call_parts(node, source.over, sketches=True)
        keys = tuple(source.over(key.expression) for key in node.keys)
        values = frozenset(each.argument for each in parts if each.function == VALUES)
        held = {number for each in parts for number in each.numbers}
        assert plan.serve is not None
        if plan.serve.subtracting:
            held |= {(ROWS, None), *((COUNT, argument) for kind, argument in held if kind == SUM)}
        shared = (source.scan.stream, frozenset(source.conditions), keys, values)
        number = numbers.setdefault(shared, len(numbers))
        columns = len(keys) + len(values) + len(held) + OWN_COLUMNS
        window = _window(plan)
        listed.append(PlannedWindow(name, plan.serve, source.scan.stream, window, number, columns))
    return listed


def _window(plan: Output) -> Range:
    (scan,) = (node for node in plan.walk() if isinstance(node, StreamScan))
    assert isinstance(scan.window, Range)
    return replace(scan.window, slide=outer_slide(plan))
