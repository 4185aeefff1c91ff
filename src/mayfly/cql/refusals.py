"""What sqlglot's parser, and ours, say to a text that is not in the language, and what to write."""

from __future__ import annotations

from mayfly.plan.types import TYPE_NAMES

ORDER_OF_CLAUSES = "SELECT … FROM … WHERE … GROUP BY … HAVING … ORDER BY … LIMIT …"

HINTS = {
    "QUALIFY": "QUALIFY is not in the language; write SELECT … FROM (SELECT …, ROW_NUMBER() OVER "
    "(PARTITION BY k ORDER BY x) AS n FROM …) q WHERE n <= 3",
    "PIVOT": "PIVOT is not in the language; write one aggregate per column: "
    "SUM(x) FILTER (WHERE k = 'a') AS a, SUM(x) FILTER (WHERE k = 'b') AS b",
    "UNPIVOT": "UNPIVOT is not in the language; write SELECT 'a' AS name, a AS value FROM s "
    "[RANGE 10 MIN] UNION ALL SELECT 'b', b FROM s [RANGE 10 MIN]",
    "TABLESAMPLE": "sampling is not in the language; filter on a hash of the key instead",
    "LATERAL": "LATERAL stands before explode(a); instead of a query write a join with the grouped "
    "query, or the query as a value in SELECT",
    "FETCH": "write LIMIT n instead of FETCH FIRST n ROWS ONLY",
    "WITH": "WITH stands in front of a query: WITH q AS (SELECT …) SELECT … FROM q",
    "INTERSECT": "write it between two queries: SELECT … INTERSECT SELECT …",
    "MINUS": "write EXCEPT, or EXCEPT ALL to keep duplicates",
    "OVER": "write OVER behind a function: SUM(x) OVER (PARTITION BY k ORDER BY ts)",
    "MATCH_RECOGNIZE": "MATCH_RECOGNIZE is not in the language; join the stream with itself and "
    "compare the times: s [NOW] a JOIN s [RANGE 1 MIN] b ON a.k = b.k AND b.ts < a.ts",
    "INTO": "a query has no INTO; write CREATE QUERY name TO … AS SELECT …",
    "VALUES": "VALUES is only in INSERT INTO; keep the rows in a RELATION and join it",
    "USING": "write JOIN … USING (x), or JOIN … ON a.x = b.x",
    "AS": "write the alias behind the window: FROM s [RANGE 10 MIN] AS a",
    "[": "a window stands right behind the name of a stream: FROM s [RANGE 10 MIN] AS a",
}


DERIVED = (
    "write a sub-query, FROM (SELECT Istream(…) FROM …) [RANGE 1 MIN], or name it: "
    "CREATE STREAM d AS SELECT Istream(…) FROM …"
)
TABLE_FUNCTIONS = {
    **dict.fromkeys(("ISTREAM", "DSTREAM", "RSTREAM"), DERIVED),
    "TABLE": "write TABLE(TUMBLE(TABLE s, DESCRIPTOR(ts), INTERVAL '10' MINUTE)), or HOP, CUMULATE "
    "or SESSION in its place",
}
NO_TABLES = "FROM takes streams, relations, views, sub-queries and UNNEST(t.a) AS x(c)"

EXTRACTED = {
    **{name.upper(): name for name in ("year", "quarter", "month", "day", "hour", "minute")},
    "DOW": "dayofweek",
    "DAYOFWEEK": "dayofweek",
    "DOY": "dayofyear",
}
INTERVALS = "write INTERVAL 10 MIN, from MICROSECOND to DAY; months have no fixed length"


def in_our_words(message: str, shown: str) -> tuple[str, str]:
    """sqlglot's complaint as a problem and a hint in the words of the language."""
    fragment = shown or "the end"
    hint = HINTS.get(shown.split()[0].upper() if shown else "", "")
    if message.startswith("Invalid expression"):
        return f"{fragment} cannot stand here", hint or f"the order is {ORDER_OF_CLAUSES}"
    if message.startswith("Expected TYPE"):
        return f"{fragment} is not a type", TYPE_NAMES
    if message.startswith("Expecting )"):
        within = "arguments are separated by commas: year(ts), substring(x, 1, 2)"
        advice = within if fragment.upper() in ("FROM", "FOR") else "close the parenthesis"
        return f"expected ), found {fragment}", hint or advice
    if message.startswith("Required"):
        return f"something is missing before {fragment}", hint or "complete the expression"
    return message[:1].lower() + message[1:], hint or "complete the expression"
