"""Frequent items, played sub-window by sub-window over their summaries (thesis ch. 6, Algorithm 6).

Idea: ``total`` sums the listed counts of a value, δ the δ_S of all sub-windows and ``covered`` the
δ_S of those that list it: total ≤ f ≤ total + δ − covered + error. A value is reported while its
lower bound is beyond the threshold (δ if none is given) or, to miss none, its upper bound. Two
tournaments over the values of a group, one for each bound, find these.
Invariant: no false positive, or no false negative where the threshold is δ or more; whatever occurs
more than 2δ times is reported. Cost: O(log kn) per listed count and per reported item.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mayfly.arrays import compute as pc
from mayfly.arrays.order import Int64s
from mayfly.kernels.group_events import Events
from mayfly.kernels.holistic import AggregateUpkeep, Versions
from mayfly.kernels.summaries import field
from mayfly.lifetime import MIN_TIME
from mayfly.plan.frequent_call import Frequency
from mayfly.plan.logical_operators import AggregateCall
from mayfly.plan.types import arrow_type
from mayfly.windows.nodes import jit
from mayfly.windows.rank_counts import Ranked

UNLISTED = MIN_TIME
"""A bound below all others: of a value that no sub-window lists."""


def frequent_items(
    call: AggregateCall, events: Events, versions: Versions, argument: str
) -> pa.Array:
    """The answer of FREQUENT at every version."""
    asked, before = Frequency.of(call), versions.alive_before
    fresh = events.values(argument)
    parts = pa.concat_arrays([before.values(argument, fresh.type), fresh])
    owner = np.concatenate([before.owner, events.group_of_event])
    values, size = pc.struct_field(parts, "value"), len(events.codes)
    nothing: Int64s = np.empty(0, np.int64)
    ranked = Ranked.of(values.slice(0, 0), nothing, values, owner, size)
    count, error, delta, pane = (field(parts, name) for name in ("count", "error", "delta", "pane"))
    begun = (pane + 1 >= asked.sub_windows).astype(np.int64)
    # What a row adds: to a value (total, covered, error) or to its group (rows, δ, full).
    amounts = np.ascontiguousarray(
        np.stack([count, delta, np.where(ranked.ids >= 0, error, begun)], axis=1)
    )
    held = len(before.owner)
    by_value, by_group = np.zeros((len(ranked.values), 3), np.int64), np.zeros((size, 3), np.int64)
    ids, listed = ranked.ids[:held], ranked.ids[:held] >= 0
    np.add.at(by_value, ids[listed], amounts[:held][listed])
    np.add.at(by_group, owner[:held][~listed], amounts[:held][~listed])
    outcomes = _played(
        ranked.starts, by_value, by_group, ranked.ids[held:], amounts[held:], events.sign,
        events.last_of_instant, events.group_of_instant,
        *((-1, 1) if asked.share is None else asked.share.as_integer_ratio()), asked.misses,
    )  # fmt: skip
    return _answers(call, ranked.values, _Found(*outcomes), versions.full)


@dataclass(frozen=True)
class _Found:
    """Per version: how many items, δ, rows, whether it is full and complete; then the items."""

    versions: npt.NDArray[np.int64]
    items: npt.NDArray[np.int64]


def _answers(
    call: AggregateCall, values: pa.Array, outcomes: _Found, full: npt.NDArray[np.bool_]
) -> pa.Array:
    kind = arrow_type(call.data_type)
    filled, delta, rows, begun, complete = outcomes.versions.T
    version = np.repeat(np.arange(len(filled)), filled)
    place, low, high = outcomes.items.T
    order = np.lexsort((place, -low, version))
    pairs = kind.field("items").type
    members = [values.take(pa.array(place[order])), pa.array(low[order]), pa.array(high[order])]
    items = pa.StructArray.from_arrays(
        [array.cast(part.type) for array, part in zip(members, pairs.value_type, strict=True)],
        fields=list(pairs.value_type),
    )
    offsets = pa.array(np.append(0, np.cumsum(filled)), pa.int32())
    answers = {
        "items": pa.ListArray.from_arrays(offsets, items, type=pairs),
        "delta": pa.array(delta),
        "rows": pa.array(rows),
        "partial": pa.array(~(full | (begun > 0))),
        "complete": pa.array(complete > 0),
    }
    return pa.StructArray.from_arrays(
        [answers[struct_field.name] for struct_field in kind], fields=list(kind)
    )


@jit
def _played(
    starts: Int64s, by_value: npt.NDArray[np.int64], by_group: npt.NDArray[np.int64], ids: Int64s,
    amounts: npt.NDArray[np.int64], sign: Int64s, last: Int64s, group: Int64s, share: int,
    parts: int, misses: bool,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:  # fmt: skip
    """``share`` of ``parts`` of the rows is the threshold, below zero δ; ``misses`` tells whether
    items that may be beyond it may be left out."""
    versions = np.empty((len(last), 5), np.int64)
    items = np.empty((max(64, len(last)), 3), np.int64)
    lows, highs = np.full(2, UNLISTED), np.full(2, UNLISTED)
    event, current, start, leaves, size = 0, -1, 0, 1, 0
    for version in range(len(last)):
        if group[version] != current:
            current = group[version]
            start, leaves = starts[current], 1
            while leaves < starts[current + 1] - start:
                leaves *= 2
            lows, highs = np.full(2 * leaves, UNLISTED), np.full(2 * leaves, UNLISTED)
            for value in range(start, starts[current + 1]):
                _rank(by_value[value], lows, highs, leaves + value - start)
        while event <= last[version]:
            if ids[event] >= 0:
                by_value[ids[event]] += sign[event] * amounts[event]
                _rank(by_value[ids[event]], lows, highs, leaves + ids[event] - start)
            else:
                by_group[current] += sign[event] * amounts[event]
            event += 1
        rows, delta, begun = by_group[current]
        threshold = delta if share < 0 else rows // parts * share + rows % parts * share // parts
        sure = _beyond(lows, leaves, threshold)
        maybe = _beyond(highs, leaves, threshold - delta)
        reported = sure if misses else maybe
        if size + len(reported) > len(items):
            grown = np.empty((2 * (size + len(reported)), 3), np.int64)
            grown[:size] = items[:size]
            items = grown
        for leaf in reported:
            total, covered, error = by_value[start + leaf]
            items[size, 0], items[size, 1] = start + leaf, total
            items[size, 2] = total + delta - covered + error
            size += 1
        complete = threshold >= delta and (not misses or len(sure) == len(maybe))
        versions[version, 0], versions[version, 1], versions[version, 2] = (
            len(reported),
            delta,
            rows,
        )
        versions[version, 3], versions[version, 4] = begun, 1 if complete else 0
    return versions, items[:size]


@jit
def _rank(sums: Int64s, lows: Int64s, highs: Int64s, leaf: int) -> None:
    """Put the bounds of a value, without the δ that all share, at its leaf."""
    total, covered, error = sums
    _raise(lows, leaf, total if total > 0 else UNLISTED)
    _raise(highs, leaf, total - covered + error if total > 0 else UNLISTED)


@jit
def _raise(best: Int64s, leaf: int, bound: int) -> None:
    best[leaf] = bound
    node = leaf >> 1
    while node:
        largest = max(best[2 * node], best[2 * node + 1])
        if best[node] == largest:
            break
        best[node] = largest
        node >>= 1


@jit
def _beyond(best: Int64s, leaves: int, threshold: int) -> Int64s:
    """The leaves whose bound is larger than the threshold, by going down where one is."""
    hits, size = np.empty(16, np.int64), 0
    ahead, waiting = np.empty(128, np.int64), 1
    ahead[0] = 1
    while waiting:
        waiting -= 1
        node = ahead[waiting]
        if best[node] <= threshold or best[node] == UNLISTED:
            continue
        if node < leaves:
            ahead[waiting], ahead[waiting + 1] = 2 * node + 1, 2 * node
            waiting += 2
            continue
        if size == len(hits):
            grown = np.empty(2 * size, np.int64)
            grown[:size] = hits
            hits = grown
        hits[size] = node - leaves
        size += 1
    return hits[:size]


FREQUENT = AggregateUpkeep(
    "the largest counts of each sub-window, and two tournaments over their sums",
    "k counts and a bound stand for all rows of a sub-window (thesis ch. 6)",
    frequent_items,
)
