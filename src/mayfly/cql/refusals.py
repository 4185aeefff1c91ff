"""What sqlglot's parser, and ours, say to a text that is not in the language, and what to write."""

from __future__ import annotations

from mayfly.plan.types import TYPE_NAMES

ORDER_OF_CLAUSES = "SELECT … FROM … WHERE … GROUP BY … HAVING … ORDER BY … LIMIT …"

SEQUENCES = (
    "join the stream with itself and compare the times: s [NOW] a JOIN s [RANGE 1 MIN] b "
    "ON a.k = b.k AND b.ts < a.ts"
)
"""What to write for patterns of rows that follow each other."""
ESPER_VIEWS = ("WIN", "STD", "EXT", "EXT_TIMED", "STAT")
"""The parts before the colon of Esper's windows: s.win:time(30 sec)."""
HINTS = {
    "QUALIFY": "QUALIFY is not in the language; write SELECT … FROM (SELECT …, ROW_NUMBER() OVER "
    "(PARTITION BY k ORDER BY x) AS n FROM …) q WHERE n <= 3",
    "PIVOT": "PIVOT is not in the language; write one aggregate per column: "
    "SUM(x) FILTER (WHERE k = 'a') AS a, SUM(x) FILTER (WHERE k = 'b') AS b",
    "UNPIVOT": "UNPIVOT is not in the language; write SELECT 'a' AS name, a AS value FROM s "
    "[RANGE 10 MIN] UNION ALL SELECT 'b', b FROM s [RANGE 10 MIN]",
    "TABLESAMPLE": "sampling is not in the language; filter on a hash of the key instead",
    "LATERAL": "LATERAL belongs before explode(a); instead of a query write a join with the "
    "grouped query, or the query as a value in SELECT",
    "FETCH": "write LIMIT n instead of FETCH FIRST n ROWS ONLY",
    "WITH": "WITH belongs before a query: WITH q AS (SELECT …) SELECT … FROM q",
    "INTERSECT": "write it between two queries: SELECT … INTERSECT SELECT …",
    "MINUS": "write EXCEPT, or EXCEPT ALL to keep duplicates",
    "OVER": "write OVER after a function: SUM(x) OVER (PARTITION BY k ORDER BY ts)",
    "MATCH_RECOGNIZE": f"MATCH_RECOGNIZE is not in the language; {SEQUENCES}",
    "INTO": "a query has no INTO; write CREATE QUERY name TO … AS SELECT …",
    "VALUES": "VALUES is only in INSERT INTO; keep the rows in a RELATION and join it",
    "EMIT": "leave EMIT out: an answer is maintained, Istream(…) and Dstream(…) send what is new "
    "and what has gone, and windows of FROM TUMBLE(s, ts, …) are answered when they close",
    "SESSION": "write FROM SESSION(s PARTITION BY k, ts, INTERVAL '5' MINUTE) and group by k, "
    "window_start, window_end",
    "EVERY": "write FROM RESAMPLE s PARTITION BY k EVERY 10 SECONDS LINEAR, or LAST",
    "#": "write the window in brackets: FROM s [RANGE 30 SECONDS], FROM s [ROWS 5]",
    "ROWS": "write LIMIT 5 OFFSET 2; a window is written in brackets: FROM s [ROWS 5]",
    "TO": "write date_trunc('hour', ts)",
    "EXISTS": "write WHERE EXISTS (SELECT …), or x IN (SELECT …)",
    "APPLY": "write CROSS JOIN UNNEST(t.a) AS x(c), or a join with the sub-query",
    "INSERT": "write CREATE QUERY name TO parquet('folder') AS SELECT …; rows of relations are "
    "changed with INSERT INTO name VALUES (…) by execute(…)",
    "USING": "write JOIN … USING (x), or JOIN … ON a.x = b.x",
    "AS": "write the alias after the window: FROM s [RANGE 10 MIN] AS a",
    "[": "a window comes right after the name of a stream: FROM s [RANGE 10 MIN] AS a",
}


_TELLS = "!"
"""In front of a hint where it is the word before that is not in the language."""
_GROUPED = (
    "write FROM SESSION(s PARTITION BY k, ts, INTERVAL '10' MINUTE) and group by k, window_start, "
    "window_end"
)
_WINDOWS = (
    "write FROM TUMBLE(s, ts, INTERVAL '1' HOUR), with the columns window_start and window_end"
)
_BEHIND = {
    **dict.fromkeys(
        (
            (f"{word}_{end}", "(")
            for word in ("TUMBLE", "HOP", "SESSION")
            for end in ("START", "END", "ROWTIME")
        ),
        _WINDOWS,
    ),
    ("SESSION", "("): _GROUPED,
    ("OFFSET", ""): "write LIMIT 5 OFFSET 2",
    ("STREAM", ""): _TELLS
    + "leave it out: a query over a stream is continuous; Istream(…) sends what "
    "is new",
    ("TOP", ""): _TELLS + "write ORDER BY x DESC LIMIT 5",
    ("EVERY", ""): "write FROM RESAMPLE s PARTITION BY k EVERY 10 SECONDS LINEAR, or LAST",
    ("KEEP", "("): _TELLS + "write MIN_BY(x, ts) or MAX_BY(x, ts)",
    ("OUTPUT", ""): _TELLS + "write a SLIDE: FROM s [RANGE 30 SECONDS SLIDE 5 SECONDS]",
    ("SAMPLE", "BY"): _TELLS
    + "write FROM TUMBLE(s, ts, INTERVAL '1' HOUR) and group by window_end",
    ("LATEST", "ON"): _TELLS + "write FROM s [PARTITION BY k ROWS 1]: the latest row of each k",
    ("TUMBLING", ""): _TELLS + "write FROM TUMBLE(s, ts, INTERVAL '30' SECOND) and group by "
    "window_start, window_end",
    (
        "SIZE",
        "",
    ): "write FROM TUMBLE(s, ts, INTERVAL '30' SECOND) and group by window_start, window_end",
    ("BOTH", ""): _TELLS + "write trim(x), ltrim(x) or rtrim(x); replace(x, 'a', '') for others",
    ("LEADING", ""): _TELLS + "write ltrim(x)",
    ("TRAILING", ""): _TELLS + "write rtrim(x)",
}
"""What to write, by the word before the place and what stands there; any word where it is ""."""

DERIVED = (
    "write a sub-query, FROM (SELECT Istream(…) FROM …) [RANGE 1 MIN], or name it: "
    "CREATE STREAM d AS SELECT Istream(…) FROM …"
)
TABLE_FUNCTIONS = {
    **dict.fromkeys(("ISTREAM", "DSTREAM", "RSTREAM"), DERIVED),
    "RESAMPLE": "write FROM RESAMPLE s PARTITION BY k EVERY 10 SECONDS LINEAR, or LAST",
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


def in_our_words(message: str, shown: str, before: str = "") -> tuple[str, str]:
    """sqlglot's complaint about what is shown as a problem and a hint in the words of the language;
    the word ``before`` it may say more."""
    fragment = shown or "the end"
    word = shown.split()[0].upper() if shown else ""
    hint = _BEHIND.get((before.upper(), word)) or _BEHIND.get((before.upper(), ""))
    hint = hint or HINTS.get(word, "")
    if hint and hint.startswith(_TELLS):
        return f"{before.upper()} is not in the language", hint.removeprefix(_TELLS)
    if message.startswith("Invalid expression"):
        return f"{fragment} is not allowed here", hint or f"the order is {ORDER_OF_CLAUSES}"
    if message.startswith("Expected TYPE"):
        return f"{fragment} is not a type", TYPE_NAMES
    if message.startswith("Expecting )"):
        within = "arguments are separated by commas: year(ts), substring(x, 1, 2)"
        advice = within if fragment.upper() in ("FROM", "FOR") else "close the parenthesis"
        return f"expected ), found {fragment}", hint or advice
    if message.startswith("Required"):
        return f"something is missing before {fragment}", hint or "complete the expression"
    return message[:1].lower() + message[1:], hint or "complete the expression"
