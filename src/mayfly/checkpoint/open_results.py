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

from mayfly.arrays.order import Int64s
from mayfly.kernels.operator import NO_IDS, Moving
from mayfly.physical.stages import StagedProgram


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
    if operator.passes:
        parts = [
            replace(identities, ids=operator.passed(identities.ids, side))
            for side in range(len(staged.local))
            if (source := program.source(staged, side)) is not None
            for identities in [known_results(program, source, states, bucket)]
        ]
        ids = np.concatenate([NO_IDS, *(part.ids for part in parts)])
        return Identities(ids, any(part.keyless for part in parts))
    own = operator.identities(states[task][bucket]) if task in states else NO_IDS
    if not operator.passes_left or operator.moving is Moving.OWNED:
        return Identities(own)
    left = program.source(staged, 0)
    if left is None:
        return Identities(own, keyless=True)
    passed = known_results(program, left, states, bucket)
    return Identities(np.concatenate([own, passed.ids]), passed.keyless)


def sent_results(program: StagedProgram, task: int, states: Mapping[int, Sequence[Any]]) -> Int64s:
    """Of results that a union has from other stages: these lie where their ts sends them."""
    staged = program.tasks[task]
    operator, id_arrays = staged.operator, [NO_IDS]
    if not operator.passes and not operator.passes_left:
        return NO_IDS
    for side in range(len(staged.local) if operator.passes else 1):
        source = program.source(staged, side)
        if source is not None:
            id_arrays.append(operator.passed(sent_results(program, source, states), side))
        elif operator.passes:
            (link,) = program.links_to(staged, side)
            buckets = max((len(task_states) for task_states in states.values()), default=0)
            link_ids = [known_results(program, link.task, states, b).ids for b in range(buckets)]
            link_ids.append(sent_results(program, link.task, states))
            id_arrays += [operator.passed(ids, side) for ids in link_ids]
    return np.concatenate(id_arrays)
