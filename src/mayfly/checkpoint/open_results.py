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
            replace(known, ids=operator.passed(known.ids, side))
            for side in range(len(staged.local))
            if (one := program.source(staged, side)) is not None
            for known in [known_results(program, one, states, bucket)]
        ]
        ids = np.concatenate([NO_IDS, *(one.ids for one in parts)])
        return Identities(ids, any(one.keyless for one in parts))
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
    operator, found = staged.operator, [NO_IDS]
    if not operator.passes and not operator.passes_left:
        return NO_IDS
    for side in range(len(staged.local) if operator.passes else 1):
        one = program.source(staged, side)
        if one is not None:
            found.append(operator.passed(sent_results(program, one, states), side))
        elif operator.passes:
            (link,) = program.links_to(staged, side)
            buckets = max((len(one) for one in states.values()), default=0)
            known = [known_results(program, link.task, states, b).ids for b in range(buckets)]
            known.append(sent_results(program, link.task, states))
            found += [operator.passed(ids, side) for ids in known]
    return np.concatenate(found)
