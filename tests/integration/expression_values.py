"""A table of awkward values of every type, and what the language knows of its columns.

Columns that belong together hold every combination of their values and NULL, repeated to the
length of the table.
"""

from __future__ import annotations

import itertools
import math
from datetime import date
from decimal import Decimal
from typing import Any

import pyarrow as pa

from mayfly.plan.catalog import Catalog, ColumnDefinition, StreamDefinition
from mayfly.plan.types import arrow_type, parse_type

ROWS = 700
INF = math.inf
NUMBERS = {
    "ti": "tinyint",
    "si": "smallint",
    "i": "int",
    "l": "bigint",
    "f": "float",
    "d": "double",
    "m": "decimal(12,3)",
    "w": "decimal(38,10)",
    "h": "decimal(38,0)",
}
OTHERS = {
    "o": "boolean",
    "s": "string",
    "x": "binary",
    "da": "date",
    "ts": "timestamp",
    "tn": "timestamp_ntz",
    "iv": "interval day to second",
}


def _whole(bits: int) -> tuple[int, ...]:
    top = 2 ** (bits - 1) - 1
    return (0, 1, -1, 2, -7, 100, 45, -55, top, -top - 1)


FLOATS = (0.0, -0.0, 1.5, -2.5, 0.1, 1e-5, 123456.789, 1e7, 1e20, 3e9, math.nan, INF, -INF)
INSTANTS = (
    *(0, -1, 1_700_000_000_123_456, -62_135_596_800_000_000, 253_402_300_799_999_999),
    *(951_782_400_000_000, -14_182_940_000_000, 1_709_251_199_999_000, 32_536_771_200_000_000),
    *(-65_000_000_000_000_000, 300_000_000_000_000_000),
)
VALUES: dict[str, tuple[Any, ...]] = {
    "ti": _whole(8),
    "si": _whole(16),
    "i": _whole(32),
    "l": _whole(64),
    "f": FLOATS,
    "d": (*FLOATS, 5e-324, 1.7976931348623157e308, 2.5, 0.5, -0.5, 9.3e18, 12345678.9),
    "m": tuple(map(Decimal, ("0", "-0.001", "999999999.999", "12.5", "-12.5", "0.445", "2", "-7"))),
    "w": tuple(
        map(
            Decimal,
            ("0", "1", "-3.1415926535", "9999999999999999999999999999.9999999999", "0.0000000001"),
        )
    ),
    "h": tuple(map(Decimal, ("0", "7", "-9223372036854775809", "9" * 38, "-3"))),
    "o": (True, False),
    "s": (
        *("", " ", "a", "A b", "abcabc", "éÉß ñandú", "𝄞x𝄞", "  trim me  ", "it's \\ 'so'"),
        *("İSTANBUL ΟΔΥΣΣΕΥΣ", "ǆ ﬁx", "hello wORLD-foo bar's", "\t\ttab\n", "x.y.z", "1", "12a"),
    ),
    "x": (b"", b"\x00", b"abc", b"\x7f", "ü".encode()),
    "da": (
        *(date(1970, 1, 1), date(1, 1, 1), date(9999, 12, 31), date(2024, 2, 29)),
        *(date(1969, 12, 31), date(2000, 1, 1), date(1582, 10, 10), date(2023, 10, 1)),
    ),
    "ts": INSTANTS,
    "tn": INSTANTS,
    "iv": (0, -1, 86_400_000_000, -90_061_000_001, 9_000_000_000_000_000_000, 1_500_000),
}
WHOLE_TEXTS = (
    *("0", "1", "-1", "+7", "127", "128", "-128", "-129", "32767", "32768", "2147483648"),
    *("9223372036854775807", "9223372036854775808", " 12 ", "\t5\n", "1.5", "1e2", "", "  ", "+"),
    *("-", "abc", "0x1F", "1_000", "١٢", "00012", "1 2", "\x7f8", "\u20029", "1L"),
)
REAL_TEXTS = (
    *("1.5", "-.5", "5.", ".", "1e3", "1E-5", "1e400", "-1e400", "1e-400", "NaN", "nan", "NAN"),
    *("Infinity", "-Infinity", "inf", "+inf", "-INF", "+infinity", "1d", "1f", "1.0D", "0x1p3"),
    *(" 2.5 ", "1,5", "--1", "1e", "e5", "1.2.3", "12345678901234567890123456789012345678"),
    *("123456789012345678901234567890123456789", "0.12345678901", "-0.0", "9.9995", "1e28"),
    *("0.0000000000000000000000000000000000000000001", "1e-50", "999999999.9994", "999999999.9995"),
)
BOOLEAN_TEXTS = (
    "true",
    "FALSE",
    "t",
    "f",
    "y",
    "no",
    "Yes",
    "1",
    "0",
    " true ",
    "on",
    "",
    "2",
    "tru",
)
DATE_TEXTS = (
    *("2024-02-29", "2023-02-29", "2024-1-5", "2024", "2024-07", "2024-07-", "-0044-03-15"),
    *("+12345-01-01", "0001-01-01", "2024-01-01T", "2024-01-01 ", "2024-01-01 junk"),
    *("2024-01-01Tjunk", "2024-01-01junk", "24-01-01", "2024-13-01", "2024-00-01", "2024-01-32"),
    *(" 2024-01-01 ", "20240101", "2024/01/01", "", "epoch", "1234567-01-01", "12345678-01-01"),
    *("2024-001-01", "+2024-01-01", "2024-01-01T00:00:00Z", "5881580-07-11", "5881580-07-12"),
)
INSTANT_TEXTS = (
    *("2024-02-29 12:34:56", "2024-02-29T12:34:56.123456789", "2024-02-29 1:2:3.5"),
    *("2024-02-29 12:34", "2024-02-29 12", "2024-02-29 12:", "2024-02-29", "2024", "2024-2"),
    *("2024-02-29 12:34:56Z", "2024-02-29 12:34:56 UTC", "2024-02-29 12:34:56+01:00"),
    *("2024-02-29 12:34:56-8", "2024-02-29 12:34:56+0530", "2024-02-29 12:34:56+5:30"),
    *("2024-02-29 12:34:56 Europe/Paris", "2024-07-29 12:34:56 Europe/Paris"),
    *(
        "2024-02-29 12:34:56 America/New_York",
        "2024-02-29 12:34:56 GMT+3",
        "2024-02-29 12:34:56+19",
    ),
    *("2024-02-29 12:34:56 Mars/Base", "2024-02-29 24:00:00", "2024-02-29 23:60:00"),
    *("2024-02-29 23:59:60", "2023-02-29 00:00:00", "0001-01-01 00:00:00", " 2024-02-29 12:34:56 "),
    *("+12345-01-01 00:00:00", "-0044-03-15 12:00:00", "2024-02-29 12:34:56.", "2024-02-29T"),
    *("2024-02-29 12:34:56.1234567", "2024-02-29 12:34:56.5Z", "2024-02-29 12:34+02:00", "junk"),
    *("", "2024-02-29  12:34:56", "2024-02-29 12:34:56 +01:00", "2024-02-29 12:34:56+01:00:30"),
    *(
        "2024-03-31 02:30:00 Europe/Paris",
        "2024-10-27 02:30:00 Europe/Paris",
        "2024-02-29 12:34:56z",
    ),
    *("294247-01-10 04:00:54.775807", "294247-01-10 04:00:54.775808", "1234567-01-01 00:00:00"),
    *(
        "2024-02-29 12:34:56 EST",
        "2024-02-29 12:34:56 PST",
        "2024-02-29 12Z",
        "2024-02-29 12:34:56UTC+01:00",
    ),
)
INTERVAL_TEXTS = (
    *("1 02:03:04.5", "-1 02:03:04", "+1 2:3:4", "0 00:00:00.000001", "1 24:00:00", "1 00:60:00"),
    *("INTERVAL '1 02:03:04.5' DAY TO SECOND", "INTERVAL -'1 02:03:04' DAY TO SECOND", "", "junk"),
    *("interval '1 02:03:04' day to second", "INTERVAL '-1 02:03:04' DAY TO SECOND", "1 02:03"),
    *("1", " 1 02:03:04 ", "1 02:03:04.1234567", "106751991 04:00:54.775807"),
    *("106751991 04:00:54.775808", "-106751991 04:00:54.775808", "1  02:03:04", "1 002:03:04"),
    *("INTERVAL -'-1 02:03:04' DAY TO SECOND", "1 02:03:04.123456789", "1 02:03:04."),
)
JSONS = (
    '{"a": 1, "b": {"c": "x", "d": [1, 2.50, "y", null, true]}}',
    '{"a": [{"b": 1}, {"b": "two"}, {"c": 3}], "x y": 1e5, "z": null}',
    '[1, [2, 3], {"a": "é\\u00e9\\n\\"q\\""}]',
    '{"a": 1, "a": 2, "b": {"b": {"b": 5}}}',
    '{"a": {"b": [[1, 2], [3]]}}',
    '  {"a": "padded"} trailing',
    '{"a": 1',
    "{'a': 'single'}",
    '"text"',
    "12.340",
    "null",
    "true",
    "",
    "junk",
    '{"a": "", "b": "tab\there"}',
    '{"a": 12345678901234567890123, "b": 1.0E+2, "d": -0.0}',
    '{"a": [], "b": {}}',
    '{"a": [null, null], "b": [1], "d": "\\u001f/\\\\ \\b"}',
    '{"a": [[{"b": 1}], [{"b": [2, 3]}, []]], "*": 1}',
    "[[[1, 2], []], [[3]], 4]",
)
PATHS = (
    *("$", "$.a", "$.b.d[1]", "$.b.d", "$.a[*].b", "$[2].a", "$['x y']", "$.a[5]", "$.z"),
    *("$.b.d[*]", "$[*]", "$.a.b[*][0]", "a", "$.", "$.*", "$.b.b.b", "$.a[-1]", "$.a.b[*][*]"),
    *(
        "$[0]",
        "$.b",
        "$.d",
        "$..a",
        "$.a[*]",
        "$[1][0]",
        "$[*][*]",
        "$[*][*][*]",
        "$[0][*]",
        "$[0][*][0]",
        "$.a[*][*].b",
        "$.a[*][0].b",
    ),
)
REGEXES = (
    *("a", "", "(b)(c)?", "[a-c]+", "^a|c$", r"\w+", r"\bwo", "(?i)HELLO", r"\p{L}+", r"\p{Lu}"),
    *(r"[^\s]+", r"(?<first>\S)\S*", "a.c", r"\d", "[a-z&&[^bc]]+", r"\Qx.y\E", "(", "[", "*a"),
    *("a{2,3}", "(a|b)*?c", r"\s+$", "(?s)t.*e", "x*", r"(.)\1", "[[:alpha:]]", "a++", r"\Aa"),
    *(r"é", r"\x{1D11E}", r"\u0061", "[A-Z]", r"\p{Punct}", "(?:ab)+", "a(?=b)", "[^a]", "]", "}"),
)
REPLACEMENTS = ("-", "", "[$0]", "<$1>", r"\$", "$", "${first}", "$12", "é")
LIKES = (
    "%",
    "_",
    "a%",
    "%b%",
    "",
    r"\%",
    "a_c%",
    "A%",
    "é%",
    "%\\",
    r"a\b",
    "%trim%",
    "𝄞_𝄞",
    "%'%",
)
FORMATS = (
    *(
        "yyyy-MM-dd HH:mm:ss.SSSSSS",
        "y yy yyy yyyyy",
        "M MM MMM MMMM",
        "L LL LLL LLLL",
        "d dd D DDD",
    ),
    *(
        "E EE EEE EEEE",
        "a h hh K KK k kk",
        "S SSS SSSSSSSSS",
        "Q QQ QQQ QQQQ q",
        "G GGGG yyyy",
        "VV z",
    ),
    *("zzzz O OOOO", "X XX XXX x xx xxx", "Z ZZZ ZZZZ ZZZZZ", "'quoted ''q'' text' ''yyyy", "F"),
    *(
        "YYYY",
        "w",
        "u",
        "e",
        "MMMMM",
        "yyyyyyy",
        "",
        "[yyyy]",
        "{",
        "'open",
        "é/,.-_ yyyy",
        "GGGGG",
    ),
    *(
        "n",
        "A",
        "B",
        "QQQQQ",
        "EEEEE",
        "HHH",
        "DDDD",
        "FF",
        "aa",
        "V",
        "SSSSSSSSSS",
        "XXXXXX",
        "OO",
    ),
    *(
        "XXXX XXXXX",
        "xxxx xxxxx",
        "#",
        "yyyyyy",
        "c",
        "p",
        "N",
        "I",
        "VVVV",
        "zzzzz",
        "v",
        "vvvv",
        "DD",
    ),
)
UNITS = (
    *("year", "YYYY", "yy", "quarter", "month", "MON", "mm", "week", "day", "DD", "hour", "minute"),
    *("second", "millisecond", "microsecond", "decade", "", "weeks", "Century"),
)
COUNTS = (0, 1, 2, 3, -1, -2, -4, 7, 100, 2**31 - 1, -(2**31))
CHARSETS = (
    "UTF-8",
    "utf-8",
    "US-ASCII",
    "ISO-8859-1",
    "UTF-16",
    "UTF-16BE",
    "UTF-16LE",
    "UTF-32",
    "latin1",
    "",
)
NAMED: dict[str, tuple[str, tuple[Any, ...]]] = {
    "whole": ("string", WHOLE_TEXTS),
    "real": ("string", REAL_TEXTS),
    "yes": ("string", BOOLEAN_TEXTS),
    "dated": ("string", DATE_TEXTS),
    "timed": ("string", INSTANT_TEXTS),
    "spans": ("string", INTERVAL_TEXTS),
    "unit": ("string", UNITS),
    "fmt": ("string", FORMATS),
    "charset": ("string", CHARSETS),
    "n": ("int", COUNTS),
    "arr": ("array<int>", ([], [1], [3, None, 5], [None], [-7, 0, 1, 2, 100])),
    "texts": ("array<string>", ([], ["a"], ["a", None, "", "é"], ["A b"])),
    "reals": ("array<double>", ([], [0.0], [math.nan, None], [-0.0, 1.5])),
    "lookup": ("map<string,int>", ([], [("a", 1)], [("a", None), ("", 5), ("é", 7)])),
    "numbered": ("map<int,string>", ([], [(1, "one"), (2, None)], [(-1, "x"), (100, "")])),
    "st": (
        "struct<p:int,q:string,r:struct<t:timestamp>>",
        ({"p": 1, "q": "z", "r": {"t": 5}}, {"p": None, "q": "", "r": None}),
    ),
}
TOGETHER: tuple[dict[str, tuple[Any, ...]], ...] = (
    {"j": JSONS, "path": PATHS},
    {"re": REGEXES, "subject": ("aabcabc", "x.y.z éa Hello", " \t")},
    {"re2": REGEXES[:12], "rp": REPLACEMENTS, "subject2": ("abcabc", "", "Hello wO")},
    {"lk": LIKES, "likened": ("", "a", "abc", "A%b", "é\n", "  trim me  ", "𝄞x𝄞", "it's", "\\")},
    {"part": ("", "a", "b", "é", "x.y.z", ".", "𝄞"), "part2": ("", "--", "é")},
)


def table() -> pa.Table:
    """The awkward table; column k numbers its rows."""
    columns: dict[str, pa.Array] = {"k": pa.array(range(ROWS), pa.int32())}

    def add(kinds: dict[str, str], values: dict[str, tuple[Any, ...]]) -> None:
        combined = itertools.product(*((None, *values[name]) for name in kinds))
        rows = list(itertools.islice(itertools.cycle(combined), ROWS))
        for (name, kind), column in zip(kinds.items(), zip(*rows, strict=True), strict=True):
            columns[name] = pa.array(column, arrow_type(parse_type(kind)))

    for name, kind in {**NUMBERS, **OTHERS}.items():
        add({name: kind, f"{name}2": kind}, {name: VALUES[name], f"{name}2": VALUES[name]})
    for name, (kind, values) in NAMED.items():
        add({name: kind}, {name: values})
    for group in TOGETHER:
        add(dict.fromkeys(group, "string"), group)
    return pa.table(columns)


def catalog() -> Catalog:
    kinds = {
        "k": "int",
        **{f"{n}{two}": k for n, k in {**NUMBERS, **OTHERS}.items() for two in ("", "2")},
    }
    kinds |= {name: kind for name, (kind, _) in NAMED.items()}
    kinds |= {name: "string" for group in TOGETHER for name in group}
    columns = [ColumnDefinition(name, parse_type(kind)) for name, kind in kinds.items()]
    time = ColumnDefinition("at", parse_type("timestamp"))
    return Catalog().declare(StreamDefinition("t", (*columns, time), "at"))
