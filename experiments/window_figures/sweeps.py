"""What each figure compares; T is the report's balanced tree (AVL), H has 100 chained buckets."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from random import Random
from typing import Any

import numpy as np

from experiments.window_figures.loads import POWER, UNIFORM, Setting, point, settings, timed
from mayfly.windows import Frequent, Rows, SlidingWindow
from mayfly.windows.rings import Ring

Config = dict[str, Any]
Points = list[dict[str, Any]]
INDEXES = {"L": "L", "T": "AVL", "H": "H", "UH": "UH"}
STORAGES = ("LIST", "AGGR", "HASH")


def maintenance(config: Config) -> Points:
    """Figures 7 and 8a: maintenance of every index over every storage."""
    return [
        point("7", f"{name} {storage}", setting, timed(setting, [window]))
        for setting in settings(config, (UNIFORM, POWER))
        for name, index in INDEXES.items()
        for storage in STORAGES
        for window in [setting.start(index=index, storage=storage)]
    ]


def groups(config: Config) -> Points:
    """Figure 8b: maintenance of groups, of T over LIST, and of bare basic windows."""
    return [
        point("8b", name, setting, timed(setting, [window]))
        for setting in settings(config)
        for name, window in _coarse(setting).items()
    ]


def _coarse(setting: Setting) -> dict[str, SlidingWindow]:
    grouped = {
        f"G {g}": setting.start(index="G", storage="GROUP", groups=setting.edges(g))
        for g in setting.config["groups"]
    }
    return {**grouped, "T LIST": setting.start(index="AVL"), "LIST": setting.start(index=None)}


def histograms(config: Config) -> Points:
    """Figure 9: a histogram after each slide; with None, of the basic windows alone."""
    points = []
    for setting in settings(config):
        chosen: list[tuple[str, str | None, str]] = [
            (name, INDEXES[name], storage) for name in "LTH" for storage in STORAGES
        ]
        chosen += [("no index", None, "LIST"), ("no index", None, "AGGR")]
        for name, index, storage in chosen:
            window = setting.start(index=index, storage=storage)
            # As arrays: lists of Python would take longer than the indexes.
            figures = timed(setting, [window], partial(window._content.counts, "histogram"))
            points.append(point("9", f"{name} {storage}", setting, figures))
    return points


def intersections(config: Config) -> Points:
    """Figure 10: two windows and their intersection after each slide."""
    points = []
    for setting in settings(config):
        for name in ("G 10", "G 50", "T", "H"):
            if name.startswith("G"):
                edges = setting.edges(int(name[2:]))
                pair = [setting.start(index="G", storage="GROUP", groups=edges) for _ in range(2)]
            else:
                first = setting.start(index="AVL") if name == "T" else setting.start(index="H")
                second = SlidingWindow(
                    by=first.by,
                    slots=first.slots,
                    index=first.index_kind,
                    purge_every=first.purge_every,
                    share=first,
                )
                pair = [first, second]
            figures = timed(setting, pair, partial(pair[0].intersection, pair[1]))
            points.append(point("10", name, setting, figures))
    return points


def deletions(config: Config) -> Points:
    """Figure 11a: the seconds that rings take to let a basic window go, and what they touch."""
    points = []
    for setting in settings(config, (UNIFORM, POWER)):
        for name in ("plain", "AUX", "BW", "DB", "numbered"):
            window = setting.start(index="T", ring=name)
            expiry = _Expiry(window.ring)
            timed(setting, [window])
            rate = 100_000 / max(1, expiry.tuples)
            ring = window.ring
            figures = {
                "seconds": expiry.seconds * rate,
                "visits": expiry.touched / max(1, expiry.tuples),
                "with_insertion": (ring.walk + ring.writes) / ring._arrived,
            }
            points.append(point("11a", name, setting, figures))
    return points


class _Expiry:
    """Times the expiry of a ring whose window is full."""

    def __init__(self, ring: Ring) -> None:
        self.seconds, self.tuples, self.touched = 0.0, 0, 0
        inner: Callable[[Any], Any] = ring._expire

        def expire(old: Any) -> Any:
            walked, began = ring.walk + ring.writes, time.process_time()
            cells = inner(old)
            self.seconds += time.process_time() - began
            self.touched += ring.walk + ring.writes - walked
            self.tuples += len(old)
            return cells

        ring._expire = expire  # type: ignore[method-assign]


def rings(config: Config) -> Points:
    """Figures 11b and 11c: maintenance of rings on L, alone and with a sort after each slide."""
    points = []
    short = {**config, "repetitions": 1, "tuples": config["tuples"] // 2}
    for setting in settings(short):
        for figure in ("11b", "11c"):
            for name in ("AUX", "BW", "DB"):
                window = setting.start(index="L", ring=name)
                query = partial(_sort, window) if figure == "11c" else None
                points.append(point(figure, name, setting, timed(setting, [window], query)))
    return points


def _sort(window: SlidingWindow) -> None:
    """The numbers of all rows in the order of values, without fetching the rows."""
    for node in window._index.ascend().tolist():
        window.ring.lookup(node)


# ── frequent items ────────────────────────────────────────────────────────────────────────


def frequent(config: Config) -> Points:
    """Figure 6.3: the error bound, what is found, memory and errors of counts, against counting."""
    figure, points = config["frequent"], []
    names = range(figure["names"])
    weights = [(i + 1) ** -float(figure["exponent"]) for i in names]
    length = figure["window"] + figure["apart"] * (figure["starts"] - 1)
    items = np.array(Random(figure["seed"]).choices(names, weights, k=length))
    for basic in figure["sub_windows"]:
        for k in figure["k"]:
            answers = list(_answers(items, basic, k, figure))
            means = {name: float(np.mean([a[name] for a in answers])) for name in answers[0]}
            points.append({"figure": "6.3", "b": basic, "k": k, **means, "first": answers[0]})
    return points


def _answers(
    items: np.ndarray, basic: int, k: int, figure: dict[str, Any]
) -> Iterator[dict[str, float]]:
    size, apart = figure["window"], figure["apart"]
    window = Frequent(k=k, slots=size // basic, by=Rows(basic))
    window.append(items[:size])
    for start in range(0, len(items) - size + 1, apart):
        if start:
            window.append(items[start + size - apart : start + size])
        true = np.bincount(items[start : start + size], minlength=figure["names"])
        answer = window.items()
        over = int((true > answer.delta).sum())
        errors = [(true[i.value] - i.low) / true[i.value] for i in answer.items]
        yield {
            "delta_percent": 100 * answer.delta / size,
            "over": over,
            "reported": len(answer.items),
            "share": len(answer.items) / over if over else 1.0,
            "stored": window.stored,
            "error_percent": 100 * float(np.mean(errors)) if errors else 0.0,
        }
