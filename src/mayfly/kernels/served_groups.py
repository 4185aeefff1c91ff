"""Groups that a server makes of panes: these are kept for it here, and no answer is computed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np

from mayfly.arrays.order import Int64s
from mayfly.kernels.delta import Delta
from mayfly.kernels.interval import Interval
from mayfly.kernels.operator import Holding, StateKey, Working
from mayfly.kernels.pane_groups import PaneGroups
from mayfly.kernels.pane_partials import PaneNumber
from mayfly.kernels.pane_readers import PaneReaders
from mayfly.kernels.pane_store import PaneStore
from mayfly.kernels.stateless import Nothing


@dataclass(frozen=True)
class ServedGroups(PaneGroups):
    """Reads no pane; ``reads`` says which ones have to be there for who does, and ``also`` which
    numbers of them beside those of the query."""

    also: tuple[str, ...] = ()

    @staticmethod
    def of(groups: PaneGroups, store: PaneStore) -> ServedGroups:
        """What stands for groups over the panes of a store."""
        own = {part.name: getattr(groups, part.name) for part in fields(groups) if part.init}
        return ServedGroups(**own, also=tuple(PaneNumber.schema(store.contents).names))

    def state_key(self) -> StateKey:
        return replace(super().state_key(), kind="ServedGroups")

    @property
    def title(self) -> str:
        return "Serve"

    def holdings(self) -> tuple[Holding, ...]:
        return ()

    def workings(self) -> tuple[Working, ...]:
        return ()

    @property
    def numbers_read(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*super().numbers_read, *self.also)))

    @property
    def answers_alone(self) -> bool:
        return False

    def joint(self) -> PaneReaders | None:
        return None  # nothing is answered, so nothing together

    @property
    def quiet(self) -> bool:
        return True

    def identities(self, state: Nothing) -> Int64s:  # type: ignore[override]
        return np.empty(0, np.int64)

    def state(self) -> Nothing:  # type: ignore[override]
        return Nothing()

    def step(  # type: ignore[override]
        self, state: Nothing, inputs: Sequence[Delta], interval: Interval
    ) -> tuple[Nothing, Delta]:
        return state, self._output.nothing
