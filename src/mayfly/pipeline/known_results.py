"""Which of its results a task still knows: those that it may cut.

Idea: identities of results are made from those of their members, so they can be made again from
what an operator keeps. A superset does no harm: what is not in a log is not looked for. Operators
without state pass on what their inputs know. Cost: that of the state; a join is joined again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from mayfly.kernels.delta import ID, Delta, mixed_ids
from mayfly.kernels.difference import SINCE, ExceptAllRows
from mayfly.kernels.grouping import GroupRows
from mayfly.kernels.interval import Interval
from mayfly.kernels.kept import Kept
from mayfly.kernels.meeting import JoinRows, NrrState
from mayfly.kernels.multiway import MultiwayJoin
from mayfly.kernels.negation import OPEN, AntiJoinRows
from mayfly.kernels.rows import CODE, numbers
from mayfly.kernels.sorting import Int64s
from mayfly.kernels.stateless import MergeUnion, ProjectRows, SelectRows
from mayfly.kernels.windows import WindowState
from mayfly.lifetime import MIN_TIME, NEVER
from mayfly.pipeline.staging import StagedProgram, StagedTask
from mayfly.storage.segment import TS

_NONE = np.empty(0, np.int64)


@dataclass(frozen=True)
class Identities:
    """Of the results in one bucket that may be cut."""

    ids: Int64s
    keyless: bool = False
    """There may be others, of rows without a key: they are where NULL is."""
    linked: bool = False
    """There may be others, which came from another stage: they are where their ts is."""


def known_results(
    program: StagedProgram, task: int, states: Mapping[int, Sequence[Any]], bucket: int
) -> Identities:
    """Of a spread task in a bucket; ``states`` are those of all spread tasks, by bucket."""
    staged = program.tasks[task]
    operator, inputs = staged.operator, []
    if isinstance(operator, SelectRows | ProjectRows | MergeUnion | AntiJoinRows):
        inputs = [
            known_results(program, one, states, bucket) for one in staged.local if one is not None
        ]
    state = states[task][bucket] if task in states else None
    if isinstance(operator, SelectRows | ProjectRows):
        return inputs[0]
    if isinstance(operator, MergeUnion):
        return _union(staged, inputs)
    if isinstance(operator, AntiJoinRows):
        own = _uncovered(state)
        if operator.by_identity:
            return Identities(own)
        if staged.local[0] is None:
            return Identities(own, keyless=True)
        return replace(inputs[0], ids=np.concatenate([own, inputs[0].ids]))
    return Identities(_of_state(operator, state))


def _union(staged: StagedTask, inputs: Sequence[Identities]) -> Identities:
    ids, left = [_NONE], list(inputs)
    for salt, one in enumerate(staged.local):
        if one is not None:
            own = left.pop(0).ids
            ids.append(mixed_ids(own, np.full(len(own), salt, np.int64)))
    return Identities(
        np.concatenate(ids),
        any(one.keyless for one in inputs),
        None in staged.local or any(one.linked for one in inputs),
    )


def _of_state(operator: Any, state: Any) -> Int64s:
    if isinstance(state, WindowState):
        held = [] if state.held is None else [numbers(state.held, ID)]
        return np.concatenate([_NONE, *held, *_of(state.leaving, ID)])
    if isinstance(state, NrrState):
        return np.concatenate([_NONE, *_of(state.results, ID)])
    if isinstance(operator, GroupRows):
        return np.concatenate([_NONE, *_of(state.groups, ID)])
    if isinstance(operator, ExceptAllRows):
        parts = zip(_of(state.left, ID), _of(state.left, SINCE), strict=True)
        return np.concatenate([_NONE, *(mixed_ids(ids, since)[since != NEVER]
                                        for ids, since in parts)])  # fmt: skip
    if isinstance(operator, JoinRows):
        return _joined(operator, [state.left, state.right])
    if isinstance(operator, MultiwayJoin):
        return _joined(operator, state.kept)
    return _NONE


def _uncovered(state: Any) -> Int64s:
    """Left rows as they entered: when they came, or when their key was last uncovered."""
    codes = np.concatenate([_NONE, *_of(state.covers, CODE)])
    opened = np.concatenate([_NONE, *_of(state.covers, OPEN)])
    order = np.argsort(codes, kind="stable")
    codes, opened = codes[order], opened[order]
    found = [_NONE]
    for run in state.left.runs:
        rows = run.load()
        own, ts = numbers(rows, CODE), numbers(rows, TS)
        since = np.full(len(own), MIN_TIME)
        if len(codes):
            at = np.minimum(np.searchsorted(codes, own), len(codes) - 1)
            since = np.where(codes[at] == own, opened[at], MIN_TIME)
        found.append(mixed_ids(numbers(rows, ID), np.maximum(ts, since)))
    return np.concatenate(found)


def _joined(operator: JoinRows | MultiwayJoin, kept: Sequence[Kept]) -> Int64s:
    """The operator's own step over what it keeps, as if all of it came now."""
    inputs = []
    for one in kept:
        if not one.runs:
            return _NONE
        rows = pa.concat_tables([run.load() for run in one.runs]).combine_chunks()
        inputs.append(Delta(rows, rows.slice(0, 0)))
    _, delta = operator.step(operator.state(), inputs, Interval(MIN_TIME + 1, NEVER))  # type: ignore[arg-type]
    return numbers(delta.born, ID)


def _of(kept: Kept, column: str) -> list[Int64s]:
    return [numbers(run.load(), column) for run in kept.runs]
