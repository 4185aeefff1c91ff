"""Count, mean and squared distances to it (M2): what VAR and STDDEV need of a set of values.

Idea: parts are merged without their values. The mean of all is the weighted one, and each part adds
how far its own mean is from that; distances to one of the means are small where values are large
and close together. A queue of parts is answered from two stacks, as M2 cannot be subtracted.
Invariant: what merged parts give differs from that of their values by rounding only; a value that
is no number makes M2 none. Cost: O(1) per part, amortized.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from mayfly.arrays import compute as pc
from mayfly.arrays.compilation import compiled
from mayfly.arrays.order import Int64s
from mayfly.kernels.exact_sums import Floats
from mayfly.plan.types import BIGINT, DOUBLE, arrow_type, struct

MOMENTS_TYPE = struct(count=BIGINT, mean=DOUBLE, squares=DOUBLE)


@dataclass(frozen=True)
class MomentParts:
    """The moments of some sets of values; the mean of none is 0."""

    count: Floats
    mean: Floats
    squares: Floats

    @staticmethod
    def of_values(values: pa.Array) -> MomentParts:
        """Each value as a set of its own, NULL as none."""
        valid = pc.is_valid(values).to_numpy(zero_copy_only=False)
        floats = pc.fill_null(values.cast(pa.float64(), safe=False), 0.0)
        mean = floats.to_numpy(zero_copy_only=False)
        with np.errstate(invalid="ignore"):
            return MomentParts(valid.astype(np.float64), mean, mean * 0.0)

    @staticmethod
    def of_structs(structs: pa.Array) -> MomentParts:
        columns = [
            pc.fill_null(pc.struct_field(structs, name), 0).cast(pa.float64())
            for name in ("count", "mean", "squares")
        ]
        return MomentParts(*(column.to_numpy(zero_copy_only=False) for column in columns))

    def structs(self) -> pa.Array:
        kind = arrow_type(MOMENTS_TYPE)
        arrays = [pa.array(self.count.astype(np.int64)), pa.array(self.mean)]
        return pa.StructArray.from_arrays([*arrays, pa.array(self.squares)], fields=list(kind))

    def merged(self, group: Int64s, groups: int) -> MomentParts:
        """Those of the parts of each group together."""

        def summed(amounts: Floats) -> Floats:
            return np.bincount(group, amounts, groups).astype(np.float64)

        total, present = summed(self.count), self.count > 0
        with np.errstate(invalid="ignore", over="ignore"):
            base = np.zeros(groups)
            base[group[present]] = self.mean[present]
            away = np.where(present, self.mean - base[group], 0.0)
            centre = summed(self.count * away) / np.maximum(total, 1)
            distances = summed(self.squares + self.count * (away - centre[group]) ** 2)
            return MomentParts(total, base + centre, distances)

    def between(self, first: Int64s, last: Int64s) -> MomentParts:
        """Those of the parts from ``first`` to before ``last``: a queue, and where one of these
        falls, another one."""
        count, mean, squares = np.zeros((3, len(first)))
        parts = (self.count, self.mean, self.squares)
        counts, means, distances = (np.ascontiguousarray(part) for part in parts)
        _play_queue(counts, means, distances, first, last, count, mean, squares)
        return MomentParts(count, mean, squares)

    def until(
        self, slots: PartSlots, events: MomentParts, sign: Int64s, last: Int64s
    ) -> MomentParts:
        """Those of what is there after each of the ``last`` events: these parts are there before
        the first one, each event brings one, or empties its slot."""
        nodes = np.zeros((3, 2 * int(slots.starts[-1])))
        played = np.zeros((3, len(last)))
        _play_slots(
            np.array([self.count, self.mean, self.squares]), slots.held,
            np.array([events.count, events.mean, events.squares]), slots.events,
            sign, slots.starts, slots.group_of_event, last, nodes, played,
        )  # fmt: skip
        return MomentParts(played[0], played[1], played[2])

    def spreads(self, root: bool, spare: int) -> pa.Array:
        """Variances, or their roots; NULL without values beside those to ``spare``."""
        with np.errstate(invalid="ignore"):
            values = self.squares / np.maximum(self.count - spare, 1)
            return pa.array(np.sqrt(values) if root else values, mask=self.count <= spare)


@dataclass(frozen=True)
class PartSlots:
    """Where parts lie that leave together: slots of groups, one group's behind the other's."""

    starts: Int64s
    """Where those of each group begin, and the end."""
    held: Int64s
    events: Int64s
    """The slot of each part that is there before, and of each event."""
    group_of_event: Int64s

    @staticmethod
    def of(
        owner: Int64s, leaves: Int64s, group_of_event: Int64s, event_leaves: Int64s, groups: int
    ) -> PartSlots:
        """By the group of parts and events, and the instant at which each leaves."""
        group = np.concatenate([owner, group_of_event])
        instant = np.concatenate([leaves, event_leaves])
        order = np.lexsort((instant, group))
        new = np.ones(len(order), np.int64)
        sorted_group, sorted_instant = group[order], instant[order]
        new[1:] = (sorted_group[1:] != sorted_group[:-1]) | (
            sorted_instant[1:] != sorted_instant[:-1]
        )
        slot = np.empty(len(order), np.int64)
        slot[order] = np.cumsum(new) - 1
        sizes = np.bincount(sorted_group[new == 1], minlength=groups)
        starts = np.append(0, np.cumsum(sizes)).astype(np.int64)
        return PartSlots(starts, slot[: len(owner)], slot[len(owner) :], group_of_event)


@compiled()
def _joined(
    count: float, mean: float, squares: float, more: float, centre: float, distances: float
) -> tuple[float, float, float]:
    if count == 0.0:
        return more, centre, distances
    if more == 0.0:
        return count, mean, squares
    total, away = count + more, centre - mean
    moved = mean + away * (more / total)
    return total, moved, squares + distances + away * away * (count * more / total)


@compiled()
def _play_queue(
    count: Floats, mean: Floats, squares: Floats, first: Int64s, last: Int64s, counts: Floats,
    means: Floats, distances: Floats,
) -> None:  # fmt: skip
    size = len(count)
    # From each place to where the front stack ends; what came behind it is one value.
    front = np.zeros((3, size + 1))
    end, done = 0, 0
    n, m, d = 0.0, 0.0, 0.0
    for version in range(len(first)):
        low, high = first[version], last[version]
        fell = version > 0 and (low < first[version - 1] or high < last[version - 1])
        if low >= end or fell:
            end = done = high
            n, m, d = 0.0, 0.0, 0.0
            front[:, high] = 0.0
            for place in range(high - 1, low - 1, -1):
                front[0, place], front[1, place], front[2, place] = _joined(
                    count[place], mean[place], squares[place],
                    front[0, place + 1], front[1, place + 1], front[2, place + 1],
                )  # fmt: skip
        while done < high:
            n, m, d = _joined(n, m, d, count[done], mean[done], squares[done])
            done += 1
        counts[version], means[version], distances[version] = _joined(
            front[0, low], front[1, low], front[2, low], n, m, d
        )


@compiled()
def _play_slots(
    held: Floats, slot_of_held: Int64s, events: Floats, slot_of_event: Int64s, came: Int64s,
    starts: Int64s, group: Int64s, last: Int64s, nodes: Floats, played: Floats,
) -> None:  # fmt: skip
    """A tree of merged slots for each group, its root at 1 and its leaves from their number on."""
    for part in range(len(slot_of_held)):
        # Leaves lie behind the inner nodes of their group.
        slot = slot_of_held[part]
        owner = np.searchsorted(starts, slot, "right") - 1
        node = starts[owner + 1] + slot
        nodes[0, node], nodes[1, node], nodes[2, node] = _joined(
            nodes[0, node], nodes[1, node], nodes[2, node],
            held[0, part], held[1, part], held[2, part],
        )  # fmt: skip
    for owner in range(len(starts) - 1):
        first, size = 2 * starts[owner], starts[owner + 1] - starts[owner]
        for node in range(size - 1, 0, -1):
            _merge_below(nodes, first, node)
    version = 0
    for event in range(len(slot_of_event)):
        owner = group[event]
        first, size = 2 * starts[owner], starts[owner + 1] - starts[owner]
        node = size + slot_of_event[event] - starts[owner]
        place = first + node
        if came[event] > 0:
            nodes[0, place], nodes[1, place], nodes[2, place] = _joined(
                nodes[0, place], nodes[1, place], nodes[2, place],
                events[0, event], events[1, event], events[2, event],
            )  # fmt: skip
        elif came[event] < 0:
            nodes[:, place] = 0.0
        node = node // 2
        while node > 0:
            _merge_below(nodes, first, node)
            node = node // 2
        if version < len(last) and last[version] == event:
            played[:, version] = nodes[:, first + 1]
            version += 1


@compiled()
def _merge_below(nodes: Floats, first: int, node: int) -> None:
    left, right, own = first + 2 * node, first + 2 * node + 1, first + node
    nodes[0, own], nodes[1, own], nodes[2, own] = _joined(
        nodes[0, left], nodes[1, left], nodes[2, left],
        nodes[0, right], nodes[1, right], nodes[2, right],
    )  # fmt: skip
