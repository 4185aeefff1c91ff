"""The coming transitions of a wave as a plain-text table, one line per operation.

Idea: print what the state machine says. Operations after the dashed mark are pre-transition
work, done when the new day can already be queried. wave-indices-1997, Tables 1 to 7.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mayfly.archive.layouts.doubly_partitioned import Names, PartitionedLayout
from mayfly.archive.layouts.operations import Days, WaveState, format_days
from mayfly.archive.layouts.wave_layouts import Transition, WaveLayout, WaveScheme
from mayfly.errors import InvalidSetting

_THEN = "- - -"
MOST_DAYS = 10_000
"""Of a plan: it is followed day by day."""


def plan_table(
    scheme: WaveScheme | str, window: int, constituents: int, days: range, spread: bool = False
) -> list[str]:
    """The lines of the table for these days, counted from the start of the archive.

    >>> print("\\n".join(plan_table("WATA", 4, 2, range(4, 6))))
    WATA, window of 4 days, 2 constituents
    Day  Operation             I1       I2
      4  I2 ← BuildIndex({4})  {1,2,3}  {4}
         AddIndex(I2)
      5  AddToIndex({5}, I2)   {1,2,3}  {4,5}
    """
    layout = WaveLayout(WaveScheme(scheme), window, constituents, spread)
    return plan_lines(layout, WaveState(), days)


def plan_lines(layout: WaveLayout, state: WaveState, days: range) -> list[str]:
    """The lines of the table for these days, continuing from ``state``."""
    if len(days) == 0 or days.step != 1 or days[0] <= state.day:
        raise InvalidSetting(
            f"there is nothing to plan for {days} after day {state.day}",
            f"ask for consecutive days from {state.day + 1} on",
        )
    if len(range(state.day, days[-1])) > MOST_DAYS:
        raise InvalidSetting(
            f"a plan up to day {days[-1]:,} after day {state.day:,}",
            f"plan {MOST_DAYS:,} days at most, those of the first window included",
        )
    steps = [step for step in layout.run(state, days[-1]) if step.day in days]
    names = [f"I{number + 1}" for number in range(layout.constituents)]
    temporary = any(step.after.temporaries for step in steps)
    header = ["Day", "Operation", *names, *(["Temporaries"] if temporary else [])]
    rows = [header, *(row for step in steps for row in _rows(step, names))]
    title = f"{layout.scheme}, window of {layout.window} days, {layout.constituents} constituents"
    return [f"{title}, spread" if layout.spread else title, *_aligned(rows)]


def cell_lines(layout: PartitionedLayout, updates: range) -> list[str]:
    """What each of these updates does to the sub-indices of a doubly partitioned layout.

    >>> from mayfly.archive.layouts.doubly_partitioned import PartitionRule
    >>> print("\\n".join(cell_lines(PartitionedLayout(PartitionRule.LAZY, 8, 2, 2), range(14, 16))))
    lazy Rebuild 2x2, longest lifetime of 8 updates
    Update  Inserts into  Removes from  Throws away
        14  I3 I4         I4
        15  I1 I2         I3            I1 I2
    """
    if len(updates) > MOST_DAYS:
        raise InvalidSetting(f"a plan of {len(updates):,} updates", f"plan {MOST_DAYS:,} at most")
    rows = [["Update", "Inserts into", "Removes from", "Throws away"]]
    for update in updates:
        changes = (layout.inserts(update), layout.removes(update), layout.throws_away(update))
        rows.append([str(update), *(_listed(names) for names in changes)])
    return [f"{layout}, longest lifetime of {layout.rollover} updates", *_aligned(rows)]


def _listed(names: Names) -> str:
    return " ".join(sorted(names, key=lambda name: (len(name), name)))


def _rows(step: Transition, names: Sequence[str]) -> Iterator[list[str]]:
    operations = [str(operation) for operation in step.transition]
    if step.pre_transition:
        operations += [_THEN, *(str(operation) for operation in step.pre_transition)]
    held = [_held(step.after.constituents.get(name)) for name in names]
    temporaries = " ".join(
        f"{name}{format_days(days)}" for name, days in step.after.temporaries.items()
    )
    yield [str(step.day), operations[0], *held, temporaries]
    for operation in operations[1:]:
        yield ["", operation]


def _held(days: Days | None) -> str:
    return "-" if days is None else format_days(days)


def _aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    columns = max(len(row) for row in rows)
    widths = [
        max(len(row[column]) for row in rows if column < len(row)) for column in range(columns)
    ]
    for row in rows:
        first, *others = row
        cells = [first.rjust(widths[0])]
        cells += [cell.ljust(width) for cell, width in zip(others, widths[1:], strict=False)]
        yield "  ".join(cells).rstrip()
