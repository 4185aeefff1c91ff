"""How an n-way join evaluates and expires (thesis 5.2), and what it remembers and measures.

The probe order follows from rates, sizes and numbers of values as they are measured, rounded on a
logarithmic scale, so that the order changes only when they really do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, make_dataclass, replace
from enum import Enum
from functools import lru_cache
from math import log2
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa

from mayfly.arrays.order import distinct_of
from mayfly.errors import InvalidSetting
from mayfly.kernels.kept_rows import KeptRows, Shape
from mayfly.kernels.lifetime_rows import CODE, numbers
from mayfly.kernels.multiway_probe import Effort

REVIEW = 32
"""Values are counted after 1, 2, 4, … steps, and then every so many."""
MEMORY = 8
"""Arrivals are averaged over about so many steps."""
LONG_MEMORY = 8 * MEMORY
"""A burst is remembered for about so many: the rate of a bursty stream is over-estimated, because a
wrong order costs most while it bursts (thesis 5.3)."""
STEPS_PER_DOUBLING = 2


class Measured(NamedTuple):
    """One input while it runs: arrivals in recent steps, rows kept, values among them."""

    rate: float
    size: float
    values: float


Ordering: TypeAlias = Callable[[tuple[Measured, ...]], tuple[int, ...]]


def as_given(measured: tuple[Measured, ...]) -> tuple[int, ...]:
    """Always the order of the inputs."""
    return tuple(range(len(measured)))


class Algorithm(Enum):
    """The multi-way joins of thesis 5.2, tuple by tuple or all at once."""

    AT_ONCE = "at-once"
    """Algorithms 4 and 5 with one evaluation a step: all new tuples meet by merging."""

    EAGER = "eager"
    """Algorithm 2: every new tuple probes, after expired ones have been removed."""
    LAZY_EXPIRATION = "lazy-expiration"
    """Algorithm 3: every new tuple probes; expired ones are removed later."""
    LAZY = "lazy"
    """Algorithm 4: new tuples of one value probe together; no tuple waits to die unasked."""
    LAZY_RESTORE = "lazy-restore"
    """Algorithm 5: as 4, but tuples stay as long as they may make a short-lived result."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """An algorithm, its state, and how often it acts inside a step.

    ``buckets``: None gives every value its own, 1 makes nested loops. ``every``: µs between
    expirations (eager) or evaluations (lazy); None is once a step, and with Algorithm 2 always.
    """

    algorithm: Algorithm = Algorithm.AT_ONCE
    buckets: int | None = None
    every: int | None = None

    def __post_init__(self) -> None:
        if self.at_once and (self.buckets, self.every) != (None, None):
            raise InvalidSetting(
                f"buckets = {self.buckets} and every = {self.every} for a join all at once",
                "name an algorithm that goes tuple by tuple, such as 'lazy-restore'",
            )
        for name, least in (("buckets", 1), ("every", 1)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise InvalidSetting(f"{name} = {value}", f"use {least} or more, or None")

    @property
    def at_once(self) -> bool:
        return self.algorithm is Algorithm.AT_ONCE

    @property
    def eager(self) -> bool:
        return self.algorithm in (Algorithm.EAGER, Algorithm.LAZY_EXPIRATION)

    @property
    def allows_cuts(self) -> bool:
        return self.algorithm is not Algorithm.LAZY_EXPIRATION

    @property
    def drops_early(self) -> bool:
        return self.algorithm in (Algorithm.LAZY, Algorithm.AT_ONCE)

    @property
    def expiring(self) -> int | None:
        """µs between removals of expired tuples from the fronts of buckets during a step."""
        if self.algorithm is Algorithm.LAZY_EXPIRATION:
            return self.every
        return 0


@dataclass(frozen=True)
class Inputs:
    """The rows kept of every input, and what was measured; ``blank`` adds a field for each.

    Plain fields, so that a state is stored like that of any other operator.
    """

    count: int
    steps: int = 0
    probes: int = 0
    scanned: int = 0
    expired: int = 0

    @property
    def kept(self) -> list[KeptRows]:
        return [getattr(self, f"kept{member}") for member in range(self.count)]

    @property
    def rows(self) -> int:
        return sum(part.rows for part in self.kept)

    @property
    def bytes(self) -> int:
        return sum(part.bytes for part in self.kept)

    def after(self, kept: Sequence[KeptRows], fresh: Sequence[pa.Table], horizon: int) -> Inputs:
        """With new rows, without those dead at the horizon."""
        changed = {
            f"kept{member}": part.after(rows, horizon)
            for member, (part, rows) in enumerate(zip(kept, fresh, strict=True))
        }
        return replace(self, **changed)  # type: ignore[arg-type]

    def counted(self, effort: Effort) -> Inputs:
        """With what a step took; results that are drawn later have not taken it yet."""
        return replace(
            self,
            probes=self.probes + effort.probes,
            scanned=self.scanned + effort.scanned,
            expired=self.expired + effort.expired,
        )

    def measured(self, arrivals: Sequence[int]) -> Inputs:
        """After one more step."""
        changed: dict[str, int] = {"steps": self.steps + 1}
        review = self.steps % REVIEW == 0 or self.steps & (self.steps - 1) == 0
        for member, arrived in enumerate(arrivals):
            before: int = getattr(self, f"arrived{member}")
            changed[f"arrived{member}"] = before - before // MEMORY + arrived
            peak: int = getattr(self, f"burst{member}")
            changed[f"burst{member}"] = max(peak - peak // LONG_MEMORY, MEMORY * arrived)
            if review:
                runs = self.kept[member].runs
                codes = distinct_of(*(numbers(run.load(), CODE) for run in runs))
                changed[f"values{member}"] = len(codes)
        return replace(self, **changed)

    def measures(self) -> tuple[Measured, ...]:
        """What the probe order may depend on, rounded so that it seldom changes."""
        return tuple(
            Measured(
                _rounded(max(getattr(self, f"{name}{member}") for name in ("arrived", "burst"))),
                _rounded(part.rows),
                _rounded(getattr(self, f"values{member}")),
            )
            for member, part in enumerate(self.kept)
        )


def blank(shapes: Sequence[Shape]) -> Inputs:
    """The first state of a join of so many inputs."""
    made: Inputs = _class_for(len(shapes))(
        len(shapes), **{f"kept{member}": KeptRows(shape) for member, shape in enumerate(shapes)}
    )
    return made


@lru_cache
def _class_for(inputs: int) -> Any:
    counted = [
        (f"{name}{m}", int, 0) for name in ("arrived", "burst", "values") for m in range(inputs)
    ]
    kept = [(f"kept{member}", KeptRows, None) for member in range(inputs)]
    return make_dataclass("Inputs", [*counted, *kept], bases=(Inputs,), frozen=True)


def _rounded(count: int) -> float:
    power = round(STEPS_PER_DOUBLING * log2(count + 1)) / STEPS_PER_DOUBLING
    return float(2**power)
