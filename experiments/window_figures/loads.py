"""The windows and tuples of the report's section 7, and how a run is timed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mayfly.windows import Rows, SlidingWindow

Int64s = npt.NDArray[np.int64]
UNIFORM, POWER = "uniform", "power law"


@dataclass(frozen=True)
class Setting:
    """Basic windows, possible values and their spread, with what all settings have in common."""

    n: int
    values: int
    spread: str
    config: dict[str, Any]

    @property
    def basic(self) -> int:
        return int(self.config["window"]) // self.n

    def tuples(self, count: int, seed: int) -> Int64s:
        """Uniform, or with a power law of coefficient 1 over values in random order."""
        random = np.random.default_rng([self.config["seed"], self.values, seed])
        if self.spread == UNIFORM:
            return random.integers(0, self.values, count)
        weights = 1 / np.arange(1, self.values + 1)
        ranks = random.choice(self.values, count, p=weights / weights.sum())
        order = np.random.default_rng(self.config["seed"]).permutation(self.values)
        return order[ranks].astype(np.int64)

    def start(self, **options: Any) -> SlidingWindow:
        if options.get("index") in ("H", "UH"):
            options["buckets"] = self.config["buckets"]
        return SlidingWindow(
            by=Rows(self.basic),
            slots=self.n,
            basic_buckets=self.config["basic_buckets"],
            purge_every=max(1, self.n // self.config["purges"]),
            **options,
        )

    def edges(self, groups: int) -> list[int]:
        edges: list[int] = np.linspace(0, self.values, groups + 1, dtype=np.int64)[1:-1].tolist()
        return edges


def settings(config: dict[str, Any], spreads: tuple[str, ...] = (UNIFORM,)) -> Iterator[Setting]:
    for spread in spreads:
        for values in config["values"]:
            for n in config["basic_windows"]:
                yield Setting(n, values, spread, config)


def timed(
    setting: Setting,
    windows: list[SlidingWindow],
    query: Callable[[], object] | None = None,
) -> dict[str, float]:
    """Fill the windows, then time tuples, with a query after each slide; CPU seconds, visits.

    Seconds are per 100,000 tuples, as the report counts them, and the least of the repetitions.
    """
    window, count = setting.config["window"], setting.config["tuples"]
    count = count // setting.basic * setting.basic
    for seed, one in enumerate(windows):
        one.append(setting.tuples(window, seed))
    if query is not None:
        windows[-1].on_refresh(lambda *_: _ask(query))
    seconds, before = [], [one.visits for one in windows]
    for turn in range(setting.config["repetitions"]):
        batches = [
            np.split(setting.tuples(count, 100 * turn + 10 + seed), count // setting.basic)
            for seed in range(len(windows))
        ]
        began = time.process_time()
        if query is None:
            for one, parts in zip(windows, batches, strict=True):
                one.append(np.concatenate(parts))
        else:
            for slide in zip(*batches, strict=True):
                for one, part in zip(windows, slide, strict=True):
                    one.append(part)
        seconds.append(time.process_time() - began)
    visits = sum(
        getattr(one.visits, kind) - getattr(old, kind)
        for one, old in zip(windows, before, strict=True)
        for kind in ("storage", "probe", "attach", "expire")
    )
    tuples = setting.config["repetitions"] * count * len(windows)
    return {
        "seconds": min(seconds) * 100_000 / (count * len(windows)),
        "visits": visits / tuples,
    }


def _ask(query: Callable[[], object]) -> None:
    query()


def point(
    figure: str, structure: str, setting: Setting, figures: dict[str, float]
) -> dict[str, Any]:
    return {
        "figure": figure,
        "structure": structure,
        "n": setting.n,
        "values": setting.values,
        "spread": setting.spread,
        **figures,
    }
