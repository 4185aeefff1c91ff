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
        """Those of the parts from ``first`` to before ``last``, both of which never fall."""
        count, mean, squares = np.zeros((3, len(first)))
        parts = (self.count, self.mean, self.squares)
        counts, means, distances = (np.ascontiguousarray(part) for part in parts)
        _play_queue(counts, means, distances, first, last, count, mean, squares)
        return MomentParts(count, mean, squares)

    def spreads(self, root: bool, spare: int) -> pa.Array:
        """Variances, or their roots; NULL without values beside those to ``spare``."""
        with np.errstate(invalid="ignore"):
            values = self.squares / np.maximum(self.count - spare, 1)
            return pa.array(np.sqrt(values) if root else values, mask=self.count <= spare)


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
        if low >= end:
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
