"""A workload as Arrow tables and a head in JSON, and back: what a restart needs.

Stored are queries with how they are answered and their next refresh, the cuts of panes, and of each
synopsis what it keeps and what waits in open panes. Opaque terms are stored by their text; the
caller who restores a workload hands them in again, since nothing that is stored may be executed.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np
import pyarrow as pa

from mayfly.errors import CorruptFile, InvalidSetting
from mayfly.periodic.panes import Cut
from mayfly.periodic.predicate import EVERYTHING, Opaque, Predicate, Term
from mayfly.periodic.query import PeriodicQuery
from mayfly.periodic.refresh_order import RegisteredQuery
from mayfly.periodic.sharing.sharing_rule import (
    Access,
    Combine,
    Divide,
    Forward,
    Probe,
    SynopsisPlan,
)
from mayfly.periodic.sharing_set import PANE, KeptSynopsis, SharingSet, by_pane
from mayfly.periodic.workload import QueryWorkload
from mayfly.synopses.contents import CONTENTS, Aggregate, Content, FloatTotal, TableAlgebra
from mayfly.synopses.stored_form import restored_synopsis, stored_table

Json = Any
FORMAT = 1
ACCESSES: dict[str, Any] = {
    "Probe": Probe, "Divide": Divide, "Combine": Combine, "Forward": Forward,
}  # fmt: skip
STORED_CONTENTS: dict[str, Any] = {content.__name__: content for content in CONTENTS}
STORED_CONTENTS["FloatTotal"] = FloatTotal


@dataclass(frozen=True)
class StoredWorkload:
    """A head in JSON, and tables by name."""

    head: str
    tables: Mapping[str, pa.Table]


def store(workload: QueryWorkload) -> StoredWorkload:
    """Everything that a workload needs to go on elsewhere."""
    tables: dict[str, pa.Table] = {}
    sets = []
    for number, some in enumerate(workload.sets):
        for name, kept in some.synopses.items():
            tables[f"{number}/{name}/kept"] = stored_table(kept.synopsis)
            tables[f"{number}/{name}/open"] = _open_table(kept)
        sets.append(_set_head(some))
    head = {"format": FORMAT, "clock": workload.clock, "late": workload.late, "sets": sets}
    head |= {"first": workload.first, "last": workload.last}
    return StoredWorkload(json.dumps(head), tables)


def restore(
    stored: StoredWorkload,
    rows: pa.Schema,
    *,
    time: str = "ts",
    without: Collection[str] = (),
    opaque: Iterable[Opaque] = (),
) -> QueryWorkload:
    """The workload that was stored, over rows of the same schema."""
    head = json.loads(stored.head)
    if head.get("format") != FORMAT:
        raise CorruptFile(
            f"a workload of the format {head.get('format')}", "use the version that stored it"
        )
    terms = {term.text: term for term in (*EVERYTHING, *opaque) if isinstance(term, Opaque)}
    workload = QueryWorkload(rows, time=time, without=without)
    workload.clock, workload.late = head["clock"], head["late"]
    workload.first, workload.last = head["first"], head["last"]
    for number, set_head in enumerate(head["sets"]):
        some = SharingSet(rows, workload.rules)
        _fill(some, set_head, terms)
        for plan in set_head["synopses"]:
            kept = _kept(plan, f"{number}/{plan['name']}", stored.tables, rows, terms)
            some.synopses[plan["name"]] = kept
        workload.sets.append(some)
    return workload


def _set_head(some: SharingSet) -> Json:
    return {
        "clock": some.clock,
        "first": some.first,
        "horizon": some.panes.horizon,
        "cuts": [[cut.behind, sorted(cut.edges)] for cut in some.panes.cuts],
        "ends": some.ends,
        "seen": some.seen,
        "queries": [_query_head(registered) for registered in some.queries.values()],
        "synopses": [_synopsis_head(kept) for kept in some.synopses.values()],
    }


def _fill(some: SharingSet, head: Json, terms: Mapping[str, Opaque]) -> None:
    some.clock, some.first = head["clock"], head["first"]
    some.panes.horizon = head["horizon"]
    some.panes.cuts = [
        Cut(behind, frozenset((period, phase) for period, phase in edges))
        for behind, edges in head["cuts"]
    ]
    some.ends, some.seen = list(head["ends"]), list(head["seen"])
    for entry in head["queries"]:
        query = PeriodicQuery(
            entry["name"], Aggregate(*entry["call"]), tuple(entry["lengths"]), entry["period"],
            entry["origin"], _predicate(entry["where"], terms), tuple(entry["keys"]),
        )  # fmt: skip
        how, parts = entry["access"]
        access: Access = ACCESSES[how](*(tuple(p) if isinstance(p, list) else p for p in parts))
        some.queries[query.name] = RegisteredQuery(
            query, access, entry["rule"], entry["since"], entry["next"]
        )


def _query_head(registered: RegisteredQuery) -> Json:
    query, access = registered.query, registered.access
    return {
        "name": query.name,
        "call": list(asdict(query.call).values()),
        "lengths": query.lengths,
        "period": query.period,
        "origin": query.origin,
        "where": _terms(query.where),
        "keys": query.keys,
        "access": [type(access).__name__, list(asdict(access).values())],
        "rule": registered.rule,
        "since": registered.since,
        "next": registered.next,
    }


def _synopsis_head(kept: KeptSynopsis) -> Json:
    plan = kept.plan
    settings = {f.name: getattr(plan.content, f.name) for f in fields(plan.content) if f.compare}
    return {
        "name": plan.name,
        "kind": plan.kind,
        "content": [type(plan.content).__name__, settings],
        "keys": plan.keys,
        "where": _terms(plan.where),
        "length": plan.length,
        "since": kept.since,
    }


def _kept(
    head: Json,
    place: str,
    tables: Mapping[str, pa.Table],
    rows: pa.Schema,
    terms: Mapping[str, Opaque],
) -> KeptSynopsis:
    name, settings = head["content"]
    content: Content = STORED_CONTENTS[name](**settings)
    where = _predicate(head["where"], terms)
    keys = tuple(head["keys"])
    plan = SynopsisPlan(head["name"], head["kind"], content, keys, where, head["length"])
    algebra = TableAlgebra(content, keys, rows)
    kept = KeptSynopsis(
        plan, algebra, restored_synopsis(tables[f"{place}/kept"], algebra), head["since"]
    )
    kept.open = {end: [part] for end, part in by_pane(tables[f"{place}/open"])}
    return kept


def _open_table(kept: KeptSynopsis) -> pa.Table:
    """The partial values of open panes, merged, with the last instant of their pane."""
    parts = {end: kept.algebra.merge(some) for end, some in kept.open.items()} or {
        0: kept.algebra.zero
    }
    return pa.concat_tables(
        part.append_column(PANE, pa.array(np.full(part.num_rows, end, np.int64)))
        for end, part in parts.items()
    )


def _terms(predicate: Predicate) -> Json:
    for term in predicate:
        if isinstance(term, Term) and not isinstance(term.value, str | int | float):
            raise InvalidSetting(
                f"{term} cannot be stored: {term.value!r} is not a text or number",
                "compare with a text or number, or use an Opaque term",
            )
    return [
        term.text if isinstance(term, Opaque) else [term.column, term.op, term.value]
        for term in sorted(predicate, key=str)
    ]


def _predicate(stored: Json, terms: Mapping[str, Opaque]) -> Predicate:
    missing = [text for text in stored if isinstance(text, str) and text not in terms]
    if missing:
        raise InvalidSetting(
            f"the term {missing[0]!r} was stored by its text only", "hand it in as opaque=[…]"
        )
    return frozenset(terms[term] if isinstance(term, str) else Term(*term) for term in stored)
