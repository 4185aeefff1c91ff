"""The panes of groups as queues: which of them each version of a group has.

Idea: a pane that begins later ends no sooner, so a group's panes come and go in one order. Laid out
group by group, those before a step and then those that come in it, the panes of a version are a
stretch: contents that cannot be subtracted are answered by two stacks.
Cost: a pass over panes and events.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from mayfly.arrays.order import Int64s
from mayfly.kernels.group_events import Events
from mayfly.kernels.holistic import Versions


@dataclass(frozen=True)
class PaneQueues:
    """Contents of panes group by group, and of each version where its own begin and end. Where one
    of these falls, a queue ends and another begins."""

    contents: pa.Array
    first: Int64s
    last: Int64s

    @staticmethod
    def of(events: Events, versions: Versions, argument: str) -> PaneQueues:
        fresh, before = events.values(argument), versions.alive_before
        held = before.values(argument, fresh.type)
        comes = np.flatnonzero(events.sign > 0)
        group = events.group_of_event[comes]
        contents = pa.concat_arrays([held, fresh.take(pa.array(comes))])
        # Where panes go: behind what other groups have, and behind what is there already.
        came, gone = (np.append(0, np.cumsum(sign)) for sign in (events.sign > 0, events.sign < 0))
        begins = events.first_of_group
        ahead = before.starts[:-1] + came[begins]
        places = np.concatenate(
            [np.arange(len(held)) + came[begins][before.owner],
             before.starts[1:][group] + np.arange(len(comes))]
        )  # fmt: skip
        order = np.empty(len(places), np.int64)
        order[places] = np.arange(len(places))
        last, owner = events.marks
        lengths = np.diff(before.starts)
        start = ahead[owner]
        return PaneQueues(
            contents.take(pa.array(order)),
            start + gone[last + 1] - gone[begins[owner]],
            start + lengths[owner] + came[last + 1] - came[begins[owner]],
        )
