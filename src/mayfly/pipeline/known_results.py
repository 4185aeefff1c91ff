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
from mayfly.physical.stages import StagedProgram
from mayfly.storage.segment import TS

_NONE = np.empty(0, np.int64)


@dataclass(frozen=True)
class Identities:
    """Of the results in one bucket that may be cut."""

    ids: Int64s
    keyless: bool = False
    """There may be others, of rows without a key: they are where NULL is."""


def known_results(
    program: StagedProgram, task: int, states: Mapping[int, Sequence[Any]], bucket: int
) -> Identities:
    """Of a spread task in a bucket; ``states`` are those of all spread tasks, by bucket."""
    staged = program.tasks[task]
    operator = staged.operator
    state = states[task][bucket] if task in states else None
    if isinstance(operator, SelectRows | ProjectRows | MergeUnion):
        parts = [
            _salted(operator, side, known_results(program, one, states, bucket))
            for side in range(len(staged.local))
            if (one := program.source(staged, side)) is not None
        ]
        ids = np.concatenate([_NONE, *(one.ids for one in parts)])
        return Identities(ids, any(one.keyless for one in parts))
    if not isinstance(operator, AntiJoinRows):
        return Identities(_of_state(operator, state))
    own, left = _uncovered(state), program.source(staged, 0)
    if operator.by_identity:
        return Identities(own)
    if left is None:
        return Identities(own, keyless=True)
    passed = known_results(program, left, states, bucket)
    return Identities(np.concatenate([own, passed.ids]), passed.keyless)


def sent_results(program: StagedProgram, task: int, states: Mapping[int, Sequence[Any]]) -> Int64s:
    """Of results that a union has from other stages: these lie where their ts sends them."""
    staged = program.tasks[task]
    operator, found = staged.operator, [_NONE]
    passing = isinstance(operator, SelectRows | ProjectRows | MergeUnion)
    if not passing and not isinstance(operator, AntiJoinRows):
        return _NONE
    for side in range(len(staged.local) if passing else 1):
        one = program.source(staged, side)
        if one is not None:
            ids = sent_results(program, one, states)
            found.append(_salted(operator, side, Identities(ids)).ids)
        elif passing:
            (link,) = program.links_to(staged, side)
            buckets = max((len(one) for one in states.values()), default=0)
            known = [known_results(program, link.task, states, b).ids for b in range(buckets)]
            known.append(sent_results(program, link.task, states))
            found += [_salted(operator, side, Identities(ids)).ids for ids in known]
    return np.concatenate(found)


def _salted(operator: Any, side: int, known: Identities) -> Identities:
    """Under the identities that a union gives to what it passes on."""
    if not isinstance(operator, MergeUnion):
        return known
    return replace(known, ids=mixed_ids(known.ids, np.full(len(known.ids), side, np.int64)))


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
