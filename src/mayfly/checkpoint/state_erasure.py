"""Operator state without the bytes of expired rows, where an archive promises PHYSICAL WITHIN.

Idea: operators drop dead rows when that is cheap, so some linger in runs with living ones. Where
bytes must go, rows that expired before a given instant are left out of whatever a step stores.
Invariant: the instant is not beyond the clock, so no operator misses the rows.
Cost: runs with such rows are written anew.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mayfly.checkpoint.operator_state import parts_of
from mayfly.kernels.kept_rows import KeptRows
from mayfly.kernels.lifetime_rows import RowRun, chosen, numbers
from mayfly.kernels.pane_store import PaneState
from mayfly.storage.segment import EXP

COVERS = "covers"
"""Of a negation: when which hash of a key was covered. It holds nothing of any row."""


def without_expired(state: Any, before: int) -> Any:
    """A state without the bytes of rows that expired before an instant."""
    if isinstance(state, KeptRows):
        return _kept_from(state, before)
    changed: dict[str, Any] = {
        name: _kept_from(part, before)
        for name, part in parts_of(state).items()
        if isinstance(part, KeptRows) and name != COVERS
    }
    if isinstance(state, PaneState):
        left = (run for run in state.panes if run.exp.high >= before)
        changed["panes"] = tuple(_living(run, before) for run in left)
    return replace(state, **changed) if changed else state


def _kept_from(kept: KeptRows, before: int) -> KeptRows:
    if all(run.exp.low >= before for run in kept.runs):
        return kept
    living = (_living(run, before) for run in kept.runs if run.exp.high >= before)
    return replace(kept, runs=tuple(living))


def _living(run: RowRun, before: int) -> RowRun:
    if run.exp.low >= before:
        return run
    rows = run.load()
    rest = chosen(rows, numbers(rows, EXP) >= before).combine_chunks()
    return RowRun.of(rest, level=run.level, cell=run.cell)
