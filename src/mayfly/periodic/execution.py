"""One refresh: the readings of all queries that are due, with as few accesses as rules allow.

Idea: every query says what it reads of which synopses; readings that a computation rule puts
together are one access, which gives all their lengths at once. Each query then makes its answer of
the summaries it asked for. Without rules every reading is an access of its own: same answers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mayfly.kernels.lifetime_rows import whole
from mayfly.periodic.query import PeriodicQuery
from mayfly.periodic.sharing import COMPUTATION_RULES
from mayfly.periodic.sharing.sharing_rule import Combine, Divide, SynopsisReading
from mayfly.synopses.contents import Aggregate, Content, Keys, TableAlgebra
from mayfly.synopses.contents.partial_values import VALUE, Groups
from mayfly.synopses.join import JoinSynopsis
from mayfly.synopses.synopsis import Synopsis

Summaries = Mapping[tuple[str, str], pa.Table]
"""By query and synopsis."""


def accesses(
    readings: Iterable[SynopsisReading], rules: Collection[str]
) -> list[list[SynopsisReading]]:
    """The readings in groups that take one access each."""
    active = [rule for rule in COMPUTATION_RULES if rule.name in rules]
    groups: list[list[SynopsisReading]] = []
    ordered = sorted(readings, key=lambda reading: reading.synopsis.name)
    for _, same in groupby(ordered, key=lambda reading: reading.synopsis.name):
        mine: list[list[SynopsisReading]] = []
        for reading in same:
            fits = [
                group
                for group in mine
                if any(rule.together(reading, other) for rule in active for other in group)
            ]
            mine = [group for group in mine if group not in fits]
            mine.append([reading, *(other for group in fits for other in group)])
        groups += mine
    return groups


def read_together(
    readings: Iterable[SynopsisReading],
    synopses: Mapping[str, Synopsis[pa.Table] | JoinSynopsis[pa.Table]],
    rules: Collection[str],
) -> Summaries:
    """What each query asked for of each synopsis."""
    summaries = {}
    for group in accesses(readings, rules):
        synopsis: Any = synopses[group[0].synopsis.name]
        answers = synopsis.answers({reading.panes for reading in group})
        for reading in group:
            summaries[reading.query, reading.synopsis.name] = answers[reading.panes]
    return summaries


def answer_of(
    query: PeriodicQuery,
    readings: Iterable[SynopsisReading],
    summaries: Summaries,
    algebras: Mapping[str, TableAlgebra],
) -> pa.Table:
    """The answer of a query from what it has read: its keys, and a value for each group."""
    mine = {reading.synopsis.name: reading for reading in readings}
    access = next(iter(mine.values())).access
    parts = {name: summaries[query.name, name] for name in mine}
    if isinstance(access, Divide):
        return _divided(query, access, parts, algebras)
    algebra = algebras[access.synopses[0]]
    if isinstance(access, Combine):
        summary = algebra.merge([parts[name] for name in access.plus])
        if access.minus:
            summary = algebra.subtract(
                summary, algebra.merge([parts[name] for name in access.minus])
            )
    else:
        summary = parts[access.synopses[0]]
    return answer_rows(algebra.content, summary, query.keys, query.call)


def answer_rows(content: Content, summary: pa.Table, keys: Keys, call: Aggregate) -> pa.Table:
    """One row for each group; without keys always one."""
    rows = content.answer(summary, keys, call)
    if keys or rows.num_rows:
        return rows
    kind = rows.schema.field(VALUE).type
    nothing = pa.array([content.of_nothing(call)], None if pa.types.is_null(kind) else kind)
    others = {name: pa.nulls(1, rows.schema.field(name).type) for name in rows.schema.names}
    return pa.table(others | {VALUE: nothing})


def _divided(
    query: PeriodicQuery,
    access: Divide,
    parts: Mapping[str, pa.Table],
    algebras: Mapping[str, TableAlgebra],
) -> pa.Table:
    argument = query.call.argument
    total, count = (
        answer_rows(algebras[name].content, parts[name], query.keys, Aggregate(function, argument))
        for name, function in ((access.total, "SUM"), (access.count, "COUNT"))
    )
    if query.keys:
        both = pa.concat_tables([table.select(list(query.keys)) for table in (total, count)])
        # The groups of both are the same, in any order.
        number = Groups.of(both, query.keys).number
        place = np.empty(count.num_rows, np.int64)
        place[number[total.num_rows :]] = np.arange(count.num_rows)
        count = count.take(pa.array(place[number[: total.num_rows]]))
    counts = whole(count.column(VALUE)).cast(pa.float64())
    sums = whole(total.column(VALUE)).cast(pa.float64())
    means = pc.if_else(pc.equal(counts, 0), pa.scalar(None, pa.float64()), pc.divide(sums, counts))
    return total.set_column(total.num_columns - 1, VALUE, means)
