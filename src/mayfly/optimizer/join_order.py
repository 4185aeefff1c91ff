"""The order in which an n-way window join probes its inputs.

Idea: a new tuple of input i probes the others in the global order; what is scanned is the other
windows, once per match so far. Start with the smallest binary result, append by smallest
intermediate result, then try to move fast inputs into the top third; keep the cheapest.
Invariant: the order changes the cost, never the answer.
Cost: O(n²) to build the order and per candidate order, of which there are O(f²n) for f fast inputs
of at most MOST_MOVED, where the thesis looks at n^f. Thesis 5.3.1 (formulas), 5.3.2 (heuristic).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import ceil

Order = tuple[int, ...]

MOST_MOVED = 16
"""Inputs of the largest join whose fast inputs are moved: that takes up to n⁵ steps."""


@dataclass(frozen=True, slots=True)
class JoinInput:
    """One input of the join: λ tuples per unit time, ``size`` alive, v values per join attribute.

    Attributes that are equated share a name, so that two inputs with a common name are joined on
    it. ``buckets`` is the number of hash buckets of the state, 1 for nested loops.
    """

    rate: float
    size: float
    distinct: Mapping[str, float]
    buckets: float = 1.0

    @classmethod
    def windowed(
        cls, rate: float, length: float, values: float, buckets: float = 1.0, on: str = "a"
    ) -> JoinInput:
        """A time window of the given length joined on one attribute."""
        return cls(rate, rate * length, {on: values}, buckets)


@dataclass(slots=True)
class _Pipeline:
    """What has been joined so far: how many rows, and how many values of each attribute."""

    rows: float
    values: dict[str, float]

    def append(self, other: JoinInput) -> float:
        """Join one more input and return how many of its tuples were scanned for it.

        Sizes follow from containment of value sets and uniform values.
        """
        choices, shared = 1.0, False
        for name, count in other.distinct.items():
            mine = self.values.get(name)
            if mine is None:
                self.values[name] = count
            else:
                shared = True
                choices *= max(mine, count)
                self.values[name] = min(mine, count)
        reached = self.rows * other.size
        self.rows = reached / max(choices, 1.0)
        return reached / other.buckets if shared else reached


def result_size(inputs: Sequence[JoinInput], members: Sequence[int]) -> float:
    """φ: the expected number of alive results of joining the given members."""
    return _pipeline(inputs, members).rows


def _pipeline(inputs: Sequence[JoinInput], members: Sequence[int]) -> _Pipeline:
    first, *rest = members
    pipeline = _Pipeline(inputs[first].size, dict(inputs[first].distinct))
    for member in rest:
        pipeline.append(inputs[member])
    return pipeline


def origin_cost(inputs: Sequence[JoinInput], order: Order, origin: int) -> float:
    """X_i: tuples scanned per unit time for the new tuples of one input."""
    scanned = 0.0
    pipeline = _Pipeline(1.0, dict(inputs[origin].distinct))
    for member in order:
        if member != origin:
            scanned += pipeline.append(inputs[member])
    return inputs[origin].rate * scanned


def order_cost(inputs: Sequence[JoinInput], order: Order) -> float:
    """Tuples scanned per unit time by the whole join under a global order."""
    return sum(origin_cost(inputs, order, origin) for origin in order)


def by_selectivity(inputs: Sequence[JoinInput]) -> list[Order]:
    """The orders that always append the smallest intermediate result, one per order of the pair."""
    pairs = combinations(range(len(inputs)), 2)
    order: Order = min(
        pairs, key=lambda pair: (*_rank(_pipeline(inputs, pair[:1]), inputs[pair[1]]), pair)
    )
    pipeline = _pipeline(inputs, order)
    rest = [member for member in range(len(inputs)) if member not in order]
    while rest:
        following = min(rest, key=lambda member: (*_rank(pipeline, inputs[member]), member))
        pipeline.append(inputs[following])
        rest.remove(following)
        order += (following,)
    return [order, (order[1], order[0], *order[2:])]


def _rank(joined: _Pipeline, last: JoinInput) -> tuple[bool, float]:
    """Connected results before cross products, then by size."""
    crossed = joined.values.keys().isdisjoint(last.distinct)
    pipeline = _Pipeline(joined.rows, dict(joined.values))
    pipeline.append(last)
    return crossed, pipeline.rows


def choose_order(inputs: Sequence[JoinInput]) -> Order:
    """The cheapest order the heuristic finds; the given order wins ties."""
    if len(inputs) < 2:
        return tuple(range(len(inputs)))
    query_order = tuple(range(len(inputs)))
    starts = by_selectivity(inputs)
    improved = [_move_fast_up(inputs, start) for start in starts if len(inputs) <= MOST_MOVED]
    return min([query_order, *starts, *improved], key=lambda order: order_cost(inputs, order))


def _move_fast_up(inputs: Sequence[JoinInput], order: Order) -> Order:
    """Move fast inputs up one at a time, each time the one that saves most, while any does."""
    cost = order_cost(inputs, order)
    while True:
        moved = min(
            _fast_moves(inputs, order), key=lambda tried: order_cost(inputs, tried), default=order
        )
        if order_cost(inputs, moved) >= cost:
            return order
        order, cost = moved, order_cost(inputs, moved)


def _fast_moves(inputs: Sequence[JoinInput], order: Order) -> Iterator[Order]:
    mean = sum(member.rate for member in inputs) / len(inputs)
    top = ceil(len(order) / 3)
    for member in order:
        if inputs[member].rate > mean:
            others = tuple(other for other in order if other != member)
            for place in range(min(top, order.index(member))):
                yield (*others[:place], member, *others[place:])
