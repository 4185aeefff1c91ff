"""From a query with SERVE to panes that a pipeline keeps for a server (spec/periodic 8).

The windows move by panes (``slides.in_panes``); what would group these computes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from mayfly.errors import InvalidSetting
from mayfly.kernels.pane_edges import period_of
from mayfly.kernels.pane_partials import PaneNumber
from mayfly.kernels.pane_store import PaneStore
from mayfly.lifetime import NEVER
from mayfly.physical.pane_plan import pane_number
from mayfly.plan.pane_functions import COUNT, ROWS, SUM
from mayfly.plan.plan_text import expression_text
from mayfly.plan.serving_terms import ServeClause
from mayfly.plan.types import BIGINT
from mayfly.plan.window_kinds import Range


def panes_spared(panes: int) -> int:
    """How many more than a window has are kept for a server that reads commits later."""
    return panes + 16


def for_server(store: PaneStore, serve: ServeClause) -> PaneStore:
    """Panes that are kept until a server has read them, and can be taken out of a total again
    where it is to do that: the numbers of rows and of values say whether something is left."""
    store = replace(store, windows=tuple(map(_lengthened, store.windows)))
    if not serve.subtracting:
        return store
    fixed = [number.words for number in store.contents if not _subtracts(number)]
    fixed += [f"values of {expression_text(value)}" for value in store.values]
    if fixed:
        raise InvalidSetting(
            f"{serve.subtracting} subtracts what leaves, which {', '.join(fixed)} cannot",
            f"leave {'UNDO' if serve.undo else 'SCAN'} out: the synopsis is scanned then",
        )
    counts = {counted.column.name: counted for counted in _counts(store.contents)}
    return store.united(replace(store, contents=tuple(counts.values())))


def _subtracts(number: PaneNumber) -> bool:
    """Whether what was added can be taken out again: sums of DOUBLE are rounded."""
    return number.adds and (number.column.type.is_integral or number.column.type.name == "decimal")


def _lengthened(window: Range) -> Range:
    pane = period_of(window)
    spare = panes_spared(window.duration // pane) * pane
    return replace(window, duration=min(window.duration + spare, NEVER // 4))


def _counts(contents: Sequence[PaneNumber]) -> Iterator[PaneNumber]:
    yield pane_number(ROWS, None, BIGINT)
    for number in contents:
        if number.function == SUM:
            yield pane_number(COUNT, number.argument, BIGINT)


def cannot_serve(reason: str) -> InvalidSetting:
    return InvalidSetting(
        f"SERVE answers from panes, and this query has none: {reason}",
        "leave SERVE out: the pipeline answers such a query at every refresh",
    )
