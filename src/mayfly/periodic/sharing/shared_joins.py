"""SS3 in running queries: one continuous join for aggregates over windows of any length.

    Q1: SUM over a [1 hour] ⋈ b [1 hour]; Q2: MAX over a [1 min] ⋈ b [1 min] where b.v > 5
    →   one join of 1 hour; Q2 puts b.v > 5 on its results and reads those of the last minute

Queries that come together share a join of the same streams on the same equalities, with the longest
windows and the conditions that all have, where that costs less than joins of their own. The texts
of those that share it are remembered with each, so it stays as it is when some of them go.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from mayfly.optimizer.selectivity import selectivity
from mayfly.physical.join_pane_plan import JoinSource, SharedJoin, joined_groupings
from mayfly.physical.program import Program
from mayfly.physical.shared_program import streams_of
from mayfly.plan.expressions import Expression
from mayfly.plan.strategy import Strategy


@dataclass(frozen=True)
class OwnJoin:
    """A query that keeps values of a join's results, and what its join asks."""

    text: str
    source: JoinSource
    place: tuple[object, ...]
    """What is equal where a join may be shared."""

    @staticmethod
    def of(text: str, program: Program) -> OwnJoin | None:
        answers = [t for t in program.tasks() if t.operator.reads_join is not None]
        groupings = joined_groupings(program.plan)
        if len(answers) != 1 or len(groupings) != 1 or program.strategy is Strategy.NT:
            return None
        source = JoinSource.of(groupings[0])
        return OwnJoin(text, source, (source.kind, streams_of(program)))


def choose_joins(
    programs: Mapping[str, tuple[str, Program]], newcomers: Collection[str]
) -> dict[str, tuple[str, ...]]:
    """With whom newcomers share a join: the texts of all that do, in the order in which they came.
    Queries are given by name, with text and program."""
    sets: list[list[OwnJoin]] = []
    names: dict[str, str] = {}
    for name in (name for name in programs if name in newcomers):
        text, program = programs[name]
        query = OwnJoin.of(text, program)
        if query is None:
            continue
        names[name] = text
        if any(query.text == other.text for others in sets for other in others):
            continue
        fitting = next((others for others in sets if _pays(others, query)), None)
        if fitting is None:
            sets.append([query])
        else:
            fitting.append(query)
    texts = {other.text: tuple(o.text for o in others) for others in sets for other in others}
    return {name: texts[text] for name, text in names.items() if len(texts[text]) > 1}


def _pays(others: Sequence[OwnJoin], query: OwnJoin) -> bool:
    if query.place != others[0].place:
        return False
    together = tuple(other.source for other in others)
    cost = _cost(SharedJoin((*together, query.source)))
    return cost <= _cost(SharedJoin(together)) + _cost(SharedJoin((query.source,)))


def _cost(join: SharedJoin) -> float:
    """Rows that are kept and results that are made, for streams of one row per microsecond that
    match one row of each other in a window."""
    first = join.members[0]
    kept = sum(
        join.window(number).duration * _share(term for term in side.terms if term in join.terms)
        for number, side in enumerate(first.sides)
    )
    return kept + join.reach * _share(join.terms)


def _share(terms: Iterable[Expression]) -> float:
    """The part of rows that satisfies some conditions."""
    return prod(selectivity(term, lambda _: None) for term in terms)
