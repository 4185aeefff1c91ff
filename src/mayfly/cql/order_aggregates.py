"""Aggregates that only ORDER BY asks for: ``SELECT user FROM v GROUP BY user ORDER BY COUNT(*)``.

Groups compute the aggregates of the outputs, so what ORDER BY adds becomes an output, which is
dropped when the rows are in order.
"""

from __future__ import annotations

from sqlglot import exp

from mayfly.cql.aggregate_functions import has_aggregate
from mayfly.cql.scope import Aliases


def add_order_aggregates(query: exp.Expr) -> int:
    """Add them to the outputs of a block without DISTINCT; how many there are."""
    order = query.args.get("order")
    if not isinstance(query, exp.Select) or not order or query.args.get("distinct"):
        return 0
    if not query.args.get("group") and not any(map(has_aggregate, query.expressions)):
        return 0
    names = Aliases(part.name for part in query.find_all(exp.Identifier))
    outputs = [output.unalias() for output in query.expressions]
    added = 0
    for place in order.expressions:
        asked = place.this
        if not has_aggregate(asked) or asked in outputs:
            continue
        name = exp.column(names.fresh("order"))
        name.meta.update(asked.meta)
        query.append("expressions", exp.alias_(asked.copy(), name.name))
        place.set("this", name)
        added += 1
    return added
