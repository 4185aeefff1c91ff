"""Expressions of every kind over the table of awkward values, written in the language."""

from __future__ import annotations

import re

from mayfly.cql import bind_query
from mayfly.plan.expressions import Cast, Expression
from mayfly.plan.logical_operators import Project
from mayfly.plan.types import DAY_TIME_INTERVAL
from tests.integration.expression_values import NUMBERS, OTHERS, catalog

CATALOG = catalog()


def bound(text: str) -> Expression:
    """The expression in the text; casts to intervals have none, they are built."""
    cast = re.fullmatch(r"(TRY_)?CAST\((\w+) AS interval day to second\)", text)
    if cast:
        return Cast(bound(cast[2]), DAY_TIME_INTERVAL, safe=bool(cast[1]))
    plan = bind_query(f"SELECT {text} AS c FROM t [NOW]", CATALOG).child
    assert isinstance(plan, Project)
    return plan.outputs[0].expression


_EXACT = ("ti", "si", "i", "l", "m", "w", "h")
_REAL = ["sign", "sqrt", "exp", "ln", "log2", "log10", "sin", "cos", "tan"]
_REAL += ["radians", "degrees", "isnan"]
_TIMES = ["year", "quarter", "month", "day", "dayofweek", "dayofyear", "to_date"]
_CLOCK = ["hour", "minute", "second", "unix_micros", "unix_millis", "unix_seconds"]
_TEXT = ["lower", "upper", "initcap", "reverse", "trim", "ltrim", "rtrim", "length", "md5"]
_ATOMIC = {**NUMBERS, **OTHERS}


def _operators() -> list[str]:
    found = []
    for name in NUMBERS:
        for op in ("+", "-", "*", "/", "%"):
            found += [f"{name} {op} {name}2", f"{name} {op} 2", f"3 {op} {name}", f"{name} {op} m2"]
        found += [f"pmod({name}, {name}2)", f"pmod({name}, 3)", f"-{name}", f"abs({name})"]
    found += [f"{name} div {name}2" for name in _EXACT] + [
        "l div 3",
        "m div l",
        "w div m2",
        "3 div i",
    ]
    found += ["i + l2", "ti * d2", "f / f2", "h / w2", "w * h2", "m * w2", "h + w2", "i % d2"]
    for time in ("ts", "tn"):
        found += [f"{time} + iv", f"{time} - iv", f"iv + {time}", f"{time} - {time}2"]
    found += ["da - da2", "iv + iv2", "iv - iv2", "ts - INTERVAL '1 day 2 h'", "iv > INTERVAL 1 s"]
    for name in _ATOMIC:
        found += [f"{name} {op} {name}2" for op in ("=", "<", ">=", "<>", "<=>")]
        found += [f"{name} IN ({name}2, NULL)", f"nullif({name}, {name}2)", f"{name} IS NULL"]
        for call in ("least", "greatest", "coalesce"):
            found.append(f"{call}({name}, {name}2)")
        found += [f"if(o, {name}, {name}2)", f"CASE WHEN o THEN {name} WHEN o2 THEN {name}2 END"]
    return found


def _guards() -> list[str]:
    return [
        "CASE WHEN i2 <> 0 THEN i / i2 ELSE -1 END",
        "CASE WHEN i2 = 0 THEN NULL WHEN i > 0 THEN i % i2 ELSE i2 END",
        "CASE i WHEN 1 THEN 'one' WHEN 2 THEN CAST(1 / (i - 2) AS STRING) ELSE s END",
        "CASE WHEN i2 > 0 THEN 10 / i2 WHEN i2 < 0 THEN 20 / i2 END",
        "i2 <> 0 AND i / i2 > 1",
        "i2 = 0 OR i / i2 > 1",
        "i / i2 > 1 AND i2 <> 0",
        "o AND 1 / (i2 - 1) > 0",
        "o OR 1 / (i2 - 1) > 0",
        "if(i2 = 0, 0, i / i2)",
        "coalesce(o, 1 / i2 > 0)",
        "coalesce(i, 1 div i2)",
        "ti + 1 div i2",
        "(1 / i2) / nullif(i, 1)",
        "nullif(i, 1) / (1 / i2)",
        "substring(s, 1 div i2, i div i2)",
        "nullif(o, true) <=> (1 / i2 > 0)",
        "nullif(o, true) = (1 / i2 > 0)",
        "concat(s, CAST(1 div i2 AS STRING))",
        "concat_ws(s, CAST(1 div i2 AS STRING), part)",
        "CASE WHEN NULL THEN 1 / i2 ELSE 5 END",
        "CASE WHEN true THEN i ELSE 1 div i2 END",
        "TRY_CAST(1 / i2 AS INT)",
        "least(i, 1 div i2)",
        "i IN (1 div i2, 2)",
        "NOT (i2 <> 0 AND i % i2 = 0)",
        "CASE WHEN i > 0 THEN arr END",
        "CASE WHEN i > 0 THEN st ELSE NULL END",
        "coalesce(arr, arr)",
        "if(o, lookup, NULL)",
    ]


def _texts() -> list[str]:
    found = [f"{call}({argument})" for call in _TEXT for argument in ("s", "likened", "subject")]
    found += [
        "concat(s, part)",
        "concat(s, NULL)",
        "s || '-' || part",
        "concat_ws(',', s, part, s2)",
    ]
    found += [
        "concat_ws(part, s, part2)",
        "concat_ws('-', s, NULL)",
        "substring(s, n)",
        "concat(s)",
    ]
    found += [
        "substring(s, n, 2)",
        "substring(s, n, i)",
        "substring(s, 2, n)",
        "left(s, n)",
        "right(s, n)",
    ]
    found += ["replace(s, part, part2)", "replace(s, 'a', '')", "split_part(s, part, n)"]
    found += ["split_part('a.b.c', '.', n)", "instr(s, part)", "lpad(s, least(n, 9), part)"]
    found += ["rpad(s, least(n, 9), part)", "lpad(s, 5, '')", "rpad(s, 5, 'ab')", "sha2(s, n)"]
    found += [f"{call}(s, part)" for call in ("startswith", "endswith", "contains")]
    found += [f"sha2(s, {bits})" for bits in (0, 224, 256, 384, 512, 1)]
    found += [
        "regexp_extract(subject, re, 0)",
        "regexp_extract(subject, re, 1)",
        "subject RLIKE re",
    ]
    found += ["regexp_extract(subject, re, n)", "regexp_replace(subject2, re2, rp)"]
    found += ["regexp_replace(s, '[a-c]', '<$0>')", r"s RLIKE '\\s'", "likened LIKE lk"]
    found += ["likened ILIKE lk", "likened NOT LIKE lk", "likened LIKE 'A!%%' ESCAPE '!'"]
    found += [
        "s LIKE 'a%'",
        "s ILIKE '%É%'",
        "get_json_object(j, path)",
        "get_json_object(j, '$.a')",
    ]
    found += ["encode(s, charset)", "encode(s, 'UTF-8')", "lower(NULL)", "substring(s, NULL, 2)"]
    return found


def _hashes() -> list[str]:
    found = [f"{call}({name})" for call in ("hash", "xxhash64") for name in _ATOMIC]
    listed = ", ".join(_ATOMIC)
    return [
        *found,
        f"hash({listed})",
        f"xxhash64({listed})",
        "hash(s, s2, 1)",
        "xxhash64(i, s, NULL)",
    ]


def _numbers() -> list[str]:
    found = [f"{call}({name})" for call in [*_REAL, "ceil", "floor", "round"] for name in NUMBERS]
    for name in NUMBERS:
        found += [f"round({name}, {places})" for places in (2, -1, -3, 9, -40, 0)]
    found += [
        f"{call}({a}, {b})" for call in ("power", "atan2") for a, b in (("d", "d2"), ("i", "f"))
    ]
    found += ["power(m, 2)", "power(l, -1)", "atan2(m, l)", "power(2, i)"]
    return found


def _times() -> list[str]:
    found = [f"{call}({name})" for call in _TIMES for name in ("da", "ts", "tn")]
    found += [f"{call}({name})" for call in _CLOCK for name in ("ts", "tn")]
    for name in ("da", "ts", "tn"):
        found += [
            f"{call}({name}, {by})" for call in ("date_add", "date_sub") for by in ("i", "ti", "7")
        ]
        found += [f"datediff({name}, da2)", f"datediff(da2, {name})", f"date_trunc(unit, {name})"]
        found += [f"date_trunc('{unit}', {name})" for unit in ("YEAR", "week", "hour", "odd")]
    found += ["date_format(ts, fmt)", "date_format(tn, fmt)", "date_format(ts, 'yyyy-MM-dd')"]
    found += [
        f"timestamp_{unit}({name})" for unit in ("micros", "millis") for name in ("ti", "i", "l")
    ]
    found += [f"timestamp_seconds({name})" for name in NUMBERS]
    return found


def _nested() -> list[str]:
    return [
        *("size(arr)", "size(texts)", "size(lookup)", "element_at(arr, n)", "element_at(texts, 1)"),
        *("element_at(arr, -1)", "element_at(lookup, part)", "element_at(lookup, 'a')"),
        *("element_at(numbered, n)", "element_at(numbered, 1)", "array_contains(arr, i)"),
        *("array_contains(arr, 1)", "array_contains(arr, l)", "array_contains(texts, part)"),
        *("array_contains(reals, d)", "array_contains(arr, d)"),
        *("st.p", "st.q", "st.r.t", "st.p + 1", "st.r", "arr", "lookup", "element_at(arr, ti)"),
    ]


_FORBIDDEN = {
    "boolean": "binary date timestamp timestamp_ntz interval",
    "float": "binary date timestamp_ntz interval",
    "double": "binary date timestamp_ntz interval",
    "binary": "boolean tinyint smallint int bigint float double decimal date timestamp"
    " timestamp_ntz interval",
    "date": "boolean tinyint smallint int bigint float double decimal binary interval",
    "timestamp": "boolean binary interval",
    "timestamp_ntz": "boolean tinyint smallint int bigint float double decimal binary interval",
    "interval": "boolean float double binary date timestamp timestamp_ntz",
}
"""Casts that Spark refuses; from the other numbers only these: binary, date, timestamp_ntz."""


def _may_cast(source: str, target: str) -> bool:
    one, other = (kind.split("(")[0].split(" ")[0] for kind in (source, target))
    if one == "string":
        return True
    return other not in _FORBIDDEN.get(one, "binary date timestamp_ntz").split()


def _casts() -> list[str]:
    targets = [*_ATOMIC.values(), "decimal(3,1)", "decimal(38,38)", "decimal(20,6)"]
    found = []
    for name, source in _ATOMIC.items():
        for target in targets:
            if source != target and _may_cast(source, target):
                found += [f"{word}({name} AS {target})" for word in ("CAST", "TRY_CAST")]
    for name in ("whole", "real", "yes", "dated", "timed", "spans"):
        found += [f"CAST({name} AS {target})" for target in targets if target != "string"]
    found += ["TRY_CAST(whole AS INT)", "TRY_CAST(real AS DOUBLE)", "TRY_CAST(timed AS TIMESTAMP)"]
    found += ["TRY_CAST(dated AS DATE)", "TRY_CAST(real AS DECIMAL(12,3))", "CAST(NULL AS STRING)"]
    return found


def cases() -> dict[str, list[str]]:
    """The texts of all expressions, by part."""
    parts = {
        "operators": _operators(),
        "guards": _guards(),
        "numbers": _numbers(),
        "texts": _texts(),
        "hashes": _hashes(),
        "times": _times(),
        "nested": _nested(),
        "casts": _casts(),
    }
    return {part: list(dict.fromkeys(texts)) for part, texts in parts.items()}
