"""The nodes and clauses of the language: everything else sqlglot understands is refused.

An allow-list: a node class not named here, or a named one with an argument not named here, is an
error, so nothing is ever read and then ignored.
"""

from __future__ import annotations

import re
from collections import Counter

from sqlglot import exp

from mayfly.cql.messages import SourceText
from mayfly.cql.places import error_on

_BINARY = ("this", "expression")
ALLOWED: dict[type[exp.Expr], tuple[str, ...]] = {
    exp.Select: (
        *("expressions", "distinct", "from_", "joins", "where", "group", "having"),
        *("order", "limit", "offset", "with_", "windows"),
    ),
    **dict.fromkeys(
        (exp.Union, exp.Except, exp.Intersect),
        (*_BINARY, "distinct", "order", "limit", "offset", "with_"),
    ),
    exp.With: ("expressions",),
    exp.CTE: ("this", "alias"),
    exp.Distinct: ("expressions",),
    exp.From: ("this",),
    exp.Join: ("this", "on", "using", "method", "side", "kind", "match_condition"),
    exp.Window: ("this", "partition_by", "order", "spec", "alias", "over"),
    exp.WindowSpec: ("kind", "start", "start_side", "end", "end_side"),
    exp.Where: ("this",),
    exp.Group: ("expressions",),
    **dict.fromkeys((exp.GroupingSets, exp.Rollup, exp.Cube), ("expressions",)),
    exp.Having: ("this",),
    exp.Order: ("this", "expressions"),
    exp.Ordered: ("this", "desc", "nulls_first"),
    exp.Limit: ("expression",),
    exp.Offset: ("expression",),
    exp.Subquery: ("this", "alias", "with_"),
    exp.Table: ("this", "alias"),
    exp.TableAlias: ("this", "columns"),
    exp.Unnest: ("expressions", "alias"),
    exp.Bracket: ("this", "expressions"),
    exp.Alias: ("this", "alias"),
    exp.Identifier: ("this", "quoted"),
    exp.Column: ("this", "table", "db", "catalog"),
    exp.Dot: _BINARY,
    exp.Star: (),
    exp.Literal: ("this", "is_string"),
    exp.Boolean: ("this",),
    exp.Null: (),
    exp.Interval: ("this",),
    exp.Paren: ("this",),
    exp.Tuple: ("expressions",),
    exp.Anonymous: ("this", "expressions"),
    exp.Cast: ("this", "to"),
    exp.TryCast: ("this", "to", "safe", "requires_string"),
    exp.DataType: ("this", "expressions", "nested", "kind", "values"),
    exp.DataTypeParam: ("this",),
    exp.ColumnDef: ("this", "kind"),
    exp.Case: ("this", "ifs", "default"),
    exp.If: ("this", "true"),
    exp.Neg: ("this",),
    exp.Not: ("this",),
    exp.Between: ("this", "low", "high", "negate"),
    exp.In: ("this", "expressions", "query"),
    exp.Exists: ("this",),
    exp.Filter: _BINARY,
    exp.WithinGroup: _BINARY,
    exp.IgnoreNulls: ("this",),
    exp.RespectNulls: ("this",),
    exp.Escape: _BINARY,
    exp.Div: (*_BINARY, "typed", "safe"),
    exp.DPipe: (*_BINARY, "safe"),
    **dict.fromkeys(
        (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.NullSafeNEQ),
        _BINARY,
    ),
    **dict.fromkeys((exp.Add, exp.Sub, exp.Mul, exp.Mod, exp.IntDiv, exp.And, exp.Or), _BINARY),
    **dict.fromkeys((exp.Is, exp.Like, exp.ILike, exp.RegexpLike), (*_BINARY, "negate")),
}

_NO_CLOCK = "a query's time is event time: use the stream's time column, or a window"
_NO_BITS = "use AND, OR and NOT, or compute the bits before the stream enters"
_REFUSED: dict[type[exp.Expr], tuple[str, str]] = {
    exp.Lambda: ("lambda functions are not in the language", "expand the array before it enters"),
    exp.Placeholder: ("there are no parameters in the language", "write the value itself"),
    exp.Parameter: ("there are no parameters in the language", "write the value itself"),
    exp.SessionParameter: ("there are no parameters in the language", "write the value itself"),
    exp.CurrentTimestamp: ("CURRENT_TIMESTAMP is not in the language", _NO_CLOCK),
    exp.CurrentDate: ("CURRENT_DATE is not in the language", _NO_CLOCK),
    exp.CurrentTime: ("CURRENT_TIME is not in the language", _NO_CLOCK),
    exp.Aliases: ("a column has one name", "write AS name"),
    exp.Any: (
        "ANY is not in the language",
        "write x IN (SELECT …) for = ANY, or EXISTS (SELECT … WHERE x < y)",
    ),
    exp.All: ("ALL is not in the language", "write NOT EXISTS (SELECT … WHERE NOT …)"),
    exp.BitwiseAnd: ("& is not in the language", _NO_BITS),
    exp.BitwiseOr: ("| is not in the language", _NO_BITS),
    exp.BitwiseXor: ("^ is not in the language", _NO_BITS),
    exp.BitwiseNot: ("~ is not in the language", _NO_BITS),
    exp.BitwiseLeftShift: ("<< is not in the language", _NO_BITS),
    exp.BitwiseRightShift: (">> is not in the language", _NO_BITS),
    exp.AtTimeZone: (
        "AT TIME ZONE is not in the language",
        "declare the zone of the stream, TIME ZONE 'Europe/Berlin', or bring another column",
    ),
    exp.SimilarTo: ("SIMILAR TO is not in the language", "write RLIKE '^(a|b)$'"),
    exp.Hint: ("hints are not in the language", "leave /*+ … */ out: EXPLAIN shows the plan"),
    exp.Concat: ("strings side by side are not one string", "write 'a' || 'b'"),
}
_REFUSED_PARTS: dict[tuple[type[exp.Expr], str], tuple[str, str]] = {
    (exp.WindowSpec, "exclude"): ("EXCLUDE is not in the language", "subtract the value itself"),
    (exp.Star, "except_"): ("* EXCEPT is not in the language", "list the columns"),
    (exp.Star, "replace"): ("* REPLACE is not in the language", "list the columns"),
    (exp.Star, "rename"): ("* RENAME is not in the language", "list the columns"),
    (exp.Select, "hint"): (
        "hints are not in the language",
        "leave /*+ … */ out: the optimizer chooses, and EXPLAIN shows what",
    ),
    (exp.Union, "by_name"): ("UNION BY NAME is not in the language", "order the columns alike"),
    (exp.Between, "symmetric"): ("BETWEEN SYMMETRIC is not in the language", "order the bounds"),
    (exp.In, "field"): ("IN needs a list or a query in parentheses", "write IN (1, 2, 3)"),
    (exp.In, "unnest"): ("UNNEST is not in the language", "write IN (1, 2, 3)"),
    (exp.Cast, "format"): (
        "CAST … FORMAT is not in the language",
        "use to_timestamp(text, format)",
    ),
}


MOST_NESTED = 120
"""Levels of a syntax tree; what goes down it takes a few of Python's 1,000 frames per level."""
MOST_LINKED: dict[type[exp.Expr], tuple[int, str]] = {
    exp.Or: (5_000, "write x IN (…), or keep the values in a relation and join it"),
    exp.And: (5_000, "write x NOT IN (…), or keep the values in a relation and join it"),
    exp.Dot: (1_000, "give the member of a struct that is asked for"),
    exp.Union: (1_000, "declare one stream over several sources, or run several queries"),
}
"""So many of a kind in one text, and what to write instead: planning takes time for each."""
MOST_COMPUTED = 2_000
"""Items of SELECT lists that are more than a column of the first one, in one text."""
_CHAINS = (exp.And, exp.Or, exp.DPipe, exp.Union, exp.Dot)
"""A chain of these is one level, however long."""


def check_tree(source: SourceText, tree: exp.Expr) -> None:
    """Refuse the first node, or clause of a node, that is not in the language or too deep."""
    depths, linked = {id(tree): 1}, Counter[type[exp.Expr]]()
    selects = computed = 0
    for node in tree.walk():
        if isinstance(node, exp.Select):
            items = [item.unalias() for item in node.expressions]
            if selects == 0:
                items = [item for item in items if not isinstance(item, exp.Column | exp.Star)]
            selects, computed = selects + 1, computed + len(items)
            if computed > MOST_COMPUTED:
                raise error_on(
                    source,
                    node,
                    f"more than {MOST_COMPUTED:,} computed columns, or columns of sub-queries",
                    _FEWER,
                )
        if type(node) in MOST_LINKED:
            linked[type(node)] += 1
            most, hint = MOST_LINKED[type(node)]
            if linked[type(node)] > most:
                raise error_on(source, node, f"more than {most:,} {_words(node)}s", hint)
        chained = isinstance(node, _CHAINS) and type(node.parent) is type(node)
        depths[id(node)] = depths.get(id(node.parent), 0) + (not chained)
        if depths[id(node)] > MOST_NESTED:
            raise error_on(source, node, "this is nested too deeply", _FLATTER)
        allowed = ALLOWED.get(type(node))
        if allowed is None:
            problem, hint = _REFUSED.get(type(node), (f"{_words(node)} is not in the language", ""))
            raise error_on(source, node, problem, hint or "see docs/language.md for what is")
        for part, value in node.args.items():
            if part not in allowed and value not in (None, False, []):
                default = f"{_words(node)} with {part.strip('_')} is not in the language"
                problem, hint = _REFUSED_PARTS.get((type(node), part), (default, ""))
                raise error_on(source, node, problem, hint or "see docs/language.md for what is")


_FEWER = "compute some of them in a query of its own"
_FLATTER = (
    f"at most {MOST_NESTED} levels: write fewer parentheses, sub-queries or operators in a row, "
    "or compute a part in a query of its own"
)


def _words(node: exp.Expr) -> str:
    """The class of a node as words: ``SimilarTo`` becomes SIMILAR TO."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(node).__name__).upper()
