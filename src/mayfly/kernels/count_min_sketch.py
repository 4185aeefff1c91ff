"""Count-Min: how often a value occurs, at most a share of the rows too often (Cormode 2005).

Idea: each of ``DEPTH`` rows of a matrix counts every value in one of ``WIDTH`` cells; the least of
its cells is the answer. Matrices add up. The format and the hashes of places are those of Spark's
``count_min_sketch`` over xxhash64 of the value, so that parts come from either; ours are packed.
Invariant: the answer is never too small, and too large by more than ε of the rows in one of twenty
cases. Cost: O(DEPTH · WIDTH) a merge.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, log, log1p
from typing import Any
from zlib import compress, decompress

import numpy as np
import pyarrow as pa

from mayfly.arrays.order import Int64s
from mayfly.kernels.functions.xxhash64 import xxhash64
from mayfly.kernels.value_sketches import Bounded, ValueSketch

SHARE, CONFIDENCE, SEED = 0.01, 0.95, 1
"""ε, how often it holds, and what the hashes are drawn from."""
WIDTH, DEPTH = ceil(2 / SHARE), ceil(-log1p(-CONFIDENCE) / log(2))
_MODULUS = (1 << 31) - 1
_HEAD = np.dtype([("version", ">i4"), ("rows", ">i8"), ("depth", ">i4"), ("width", ">i4")])


def _factors(count: int) -> Int64s:
    """What Java's ``new Random(SEED)`` draws below 2^31 - 1."""
    factors, state = list[int](), (SEED ^ 0x5DEECE66D) & ((1 << 48) - 1)
    while len(factors) < count:
        state = (state * 0x5DEECE66D + 0xB) & ((1 << 48) - 1)
        if (drawn := state >> 17) < _MODULUS:
            factors.append(drawn)
    return np.array(factors, np.int64)


FACTORS = _factors(DEPTH)


@dataclass(frozen=True)
class CountMatrix:
    """How many values, and the cells in which they are."""

    rows: int
    cells: Int64s


@dataclass(frozen=True)
class CountMinSketch(ValueSketch):
    """Count-Min of whole numbers and texts."""

    size: int = WIDTH

    @property
    def words(self) -> str:
        return (
            f"Count-Min of {DEPTH} by {WIDTH} cells: a count is never too small, and too large by "
            f"up to {100 * SHARE:g} % of the rows ({100 * CONFIDENCE:g} %)"
        )

    def made(self, values: pa.Array, counts: Int64s) -> bytes:
        cells = np.zeros((DEPTH, WIDTH), np.int64)
        for row, places in enumerate(_places(values)):
            np.add.at(cells[row], places, counts)
        return self.write(CountMatrix(int(counts.sum()), cells))

    def read(self, sketch: bytes) -> CountMatrix:
        data = sketch if sketch[:4] == b"\0\0\0\1" else decompress(sketch)
        head = np.frombuffer(data, _HEAD, 1)[0]
        cells = np.frombuffer(data, ">i8", offset=_HEAD.itemsize + 8 * DEPTH)
        return CountMatrix(int(head["rows"]), cells.astype(np.int64).reshape(DEPTH, WIDTH))

    def write(self, sketch: CountMatrix) -> bytes:
        head = np.array([(1, sketch.rows, DEPTH, WIDTH)], _HEAD)
        parts = (head, FACTORS.astype(">i8"), sketch.cells.astype(">i8"))
        return compress(b"".join(part.tobytes() for part in parts), 1)

    def joined(self, sketch: CountMatrix, other: CountMatrix) -> CountMatrix:
        return CountMatrix(sketch.rows + other.rows, sketch.cells + other.cells)

    def bounded(self, sketch: CountMatrix, parameter: Any) -> Bounded:
        """The parameter is the value that is asked for."""
        value = pa.array([parameter], pa.int64() if isinstance(parameter, int) else pa.string())
        most = min(int(sketch.cells[row, place[0]]) for row, place in enumerate(_places(value)))
        return most, max(0, most - int(SHARE * sketch.rows)), most


def _places(values: pa.Array) -> list[Int64s]:
    """The cell of each value in each row of a matrix."""
    if pa.types.is_integer(values.type):
        values = values.cast(pa.int64())
    hashes = xxhash64([values], len(values))
    places = []
    for factor in FACTORS:
        mixed = hashes * factor
        mixed += mixed >> 32
        places.append((mixed & _MODULUS) % WIDTH)
    return places
