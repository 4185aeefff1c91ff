"""Slots: one row format for streams with different columns.

All streams of a query travel in one DataFrame. A stream's column goes to the first free slot of
its type, so streams of the same shape share every slot and no row carries padding for the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

STREAM = "_stream"
"""The column that says of which stream a row is, by number."""
HEARTBEAT = -1


@dataclass(slots=True)
class Slots:
    """Slot names with their types (Spark DDL), and who uses which."""

    types: dict[str, str] = field(default_factory=dict)

    def place(self, columns: Sequence[tuple[str, str]]) -> dict[str, str]:
        """Slots for one stream's (column, type) list: slot → column, in the stream's order."""
        placed: dict[str, str] = {}
        for column, kind in columns:
            free = (
                slot for slot, held in self.types.items() if held == kind and slot not in placed
            )
            slot = next(free, None)
            if slot is None:
                slot = f"s{len(self.types)}"
                self.types[slot] = kind
            placed[slot] = column
        return placed


def projection(types: Mapping[str, str], filled: Mapping[str, str]) -> list[str]:
    """SQL expressions that fill every slot: from a quoted source column, or with NULL."""
    return [
        f"{filled[slot]} AS {slot}" if slot in filled else f"CAST(NULL AS {kind}) AS {slot}"
        for slot, kind in types.items()
    ]
