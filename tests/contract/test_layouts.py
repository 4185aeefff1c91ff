"""What every layout promises, checked against an enumeration of all cells.

A new layout joins by one line in LAYOUTS.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from mayfly.state import CalendarQueue, FifoQueue
from mayfly.storage.layout import Cell, Layout


@dataclass(frozen=True)
class Case:
    name: str
    layout: Layout
    soft: bool = False
    """Dead cells may stay until their group is dropped."""
    first: int = 1
    """The first update this layout can be asked about."""

    @property
    def span(self) -> int:
        return self.layout.lifetimes[-1]

    @property
    def settled(self) -> range:
        """Three spans of updates, from the first at which every cell that could exist does."""
        start = self.first + 2 * self.span
        return range(start, start + 3 * self.span + 1)


LAYOUTS = [
    Case(f"{kind.__name__} {lifetime}/{interval} in {partitions}", kind(*shape))
    for kind in (FifoQueue, CalendarQueue)
    for shape in [(8, 4, 1), (8, 3, 1), (7, 10, 1), (50, 5, 10), (47, 3, 5), (1, 1, 1), (36, 6, 1)]
    for lifetime, partitions, interval in [shape]
] + [
    # Absolute numbering: nothing special happens where updates pass zero.
    Case("FifoQueue across zero", FifoQueue(12, 5, 2), first=-20),
    Case("CalendarQueue across zero", CalendarQueue(12, 5, 2), first=-20),
]


@pytest.fixture(params=LAYOUTS, ids=lambda case: case.name)
def case(request: pytest.FixtureRequest) -> Case:
    chosen: Case = request.param
    return chosen


def inserted_by(case: Case, update: int) -> Iterator[Cell]:
    for length in case.layout.lifetimes:
        yield Cell(update, update + length)


def removed_by(case: Case, update: int) -> Iterator[Cell]:
    for length in case.layout.lifetimes:
        yield Cell(update - length, update)


def stored_before(case: Case, update: int) -> Iterator[Cell]:
    """Cells inserted before ``update`` that are not removed before it."""
    for inserted in range(update - case.span, update):
        yield from (cell for cell in inserted_by(case, inserted) if cell.removed >= update)


def test_lifetimes_are_positive_and_in_order(case: Case) -> None:
    lengths = list(case.layout.lifetimes)
    assert lengths
    assert lengths == sorted(set(lengths))
    assert lengths[0] >= 1


def test_an_update_inserts_into_exactly_the_groups_of_its_cells(case: Case) -> None:
    for update in case.settled:
        expected = {case.layout.group_of(cell) for cell in inserted_by(case, update)}
        assert case.layout.touched(update).inserts == expected, update


def test_an_update_removes_from_the_groups_of_the_cells_that_leave(case: Case) -> None:
    for update in case.settled:
        expected = {case.layout.group_of(cell) for cell in removed_by(case, update)}
        touched = case.layout.touched(update)
        if case.soft:
            assert touched.removes <= expected, update
        else:
            assert touched.removes == expected, update


def test_a_drop_takes_no_live_cell(case: Case) -> None:
    for update in case.settled:
        dropped = case.layout.touched(update).drops
        for cell in stored_before(case, update):
            if cell.removed > update:
                assert case.layout.group_of(cell) not in dropped, (update, cell)


def test_a_group_is_dropped_once_nothing_in_it_is_alive(case: Case) -> None:
    """Hard layouts drop at the very update that takes the last cell of a group."""
    for update in case.settled:
        leaving = {case.layout.group_of(cell) for cell in removed_by(case, update)}
        staying = {
            case.layout.group_of(cell)
            for cell in stored_before(case, update)
            if cell.removed > update
        }
        dropped = case.layout.touched(update).drops
        if case.soft:
            assert dropped.isdisjoint(staying), update
        else:
            assert dropped == leaving - staying, update


def test_replaying_all_updates_stores_every_live_cell_once(case: Case) -> None:
    """Do only what touched() says, from the first update on, and compare with what should live."""
    layout, stored = case.layout, dict[int, set[Cell]]()
    for update in range(case.first, case.settled[-1] + 1):
        touched = layout.touched(update)
        for group in touched.drops:
            stored.pop(group, None)
        for group in touched.removes & stored.keys():
            stored[group] = {cell for cell in stored[group] if cell.removed > update}
        for cell in inserted_by(case, update):
            group = layout.group_of(cell)
            assert group in touched.inserts
            stored.setdefault(group, set()).add(cell)

        alive = [cell for cells in stored.values() for cell in cells if cell.removed > update]
        expected = [
            cell
            for inserted in range(case.first, update + 1)
            for cell in inserted_by(case, inserted)
            if cell.removed > update
        ]
        assert sorted(alive) == sorted(expected), update
        for group, cells in stored.items():
            dead = [cell for cell in cells if cell.removed <= update]
            assert not dead or (case.soft and len(dead) < len(cells)), (update, group, dead)


def test_the_number_of_groups_touched_is_what_len_says(case: Case) -> None:
    for update in case.settled:
        touched = case.layout.touched(update)
        assert len(touched) == len(touched.inserts | touched.removes | touched.drops)
