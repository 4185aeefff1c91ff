"""Whose turn it is: updates come in order, gaps are filled, repeated batches do nothing.

Idea: compare an arriving batch with the last committed update and the batch ids already
committed; what the writer must do follows without looking at a single row.
Invariant: ``empty_updates`` and ``update`` continue the committed numbers without a hole.
Cost: one dictionary lookup.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mayfly.archive.model.calendar import UpdateCalendar
from mayfly.errors import BadInput

FAR = 366 * 86_400_000_000


@dataclass(frozen=True, slots=True)
class Turn:
    """What an arriving batch is to the archive."""

    update: int
    empty_updates: range = range(0)
    """Updates that were missed: they run first, without rows, in the same commit."""
    repeated: bool = False
    """The batch id is already committed, as this update: nothing is to be done."""


def turn_id(batch_id: str | None, update: int) -> str:
    """By what a batch is known; without an id of its own, by the number of its update."""
    return batch_id or f"update {update}"


def require_plausible(update: int, last_update: int, calendar: UpdateCalendar, now: int) -> None:
    """Refuse a number that would carry an archive further than can be meant: every row in it
    would expire, and no update of its own time could follow."""
    latest = max(now, calendar.time_of(last_update))
    if update > calendar.update_of(latest + FAR):
        raise BadInput(
            f"update {update} lies more than a year ahead: the last one was update {last_update}, "
            f"and the update of this moment is number {max(1, calendar.update_of(now))}",
            "check the number; updates are counted from the archive's origin. at=… names an update "
            "by its time",
        )


def take_turn(
    update: int, batch_id: str, last_update: int, committed_batches: Mapping[str, int]
) -> Turn:
    """The turn of a batch, given the last committed update (0 before the first)."""
    if batch_id in committed_batches:
        return Turn(committed_batches[batch_id], repeated=True)
    if update <= last_update:
        raise BadInput(
            f"batch {batch_id!r} is for update {update}, but update {last_update} is already "
            "committed",
            f"send update {last_update + 1} or later; rows of earlier updates can come with it "
            "as late rows",
        )
    return Turn(update, range(last_update + 1, update))
