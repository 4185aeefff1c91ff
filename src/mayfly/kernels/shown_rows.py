"""The state of a view whose answer is a part of its rows, perhaps with something beside them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mayfly.arrays.order import Int64s
from mayfly.kernels.delta import ID, mixed_ids
from mayfly.kernels.kept_rows import KeptRows
from mayfly.kernels.operator import NO_IDS

SINCE = "_since"


@dataclass(frozen=True, slots=True)
class ShownRows:
    """The rows that are or may come into the answer, and what of them is in it, since when."""

    members: KeptRows
    shown: KeptRows

    @property
    def rows(self) -> int:
        return self.members.rows + self.shown.rows

    @property
    def bytes(self) -> int:
        return self.members.bytes + self.shown.bytes


def shown_identities(shown: KeptRows) -> Int64s:
    """Of results: those of their rows, with the instants since which these are shown."""
    parts = zip(shown.column(ID), shown.column(SINCE), strict=True)
    return np.concatenate([NO_IDS, *(mixed_ids(ids, since) for ids, since in parts)])
