"""The scalar functions of the language: Spark SQL's, deterministic, each with its types.

An argument is described by one letter: n number, i whole number, s text, b boolean, t instant
(TIMESTAMP or TIMESTAMP_NTZ), d date or instant, c anything comparable, a array, m array or map,
x anything. A letter followed by ? is optional, by * repeats.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from mayfly.plan.expressions import LONGEST_TEXT, Expression, Function, Literal, as_type
from mayfly.plan.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    STRING,
    TIMESTAMP,
    VOID,
    DataType,
    bounded_decimal,
    common_type,
)

Arguments: TypeAlias = Sequence[Expression]
Result: TypeAlias = DataType | Callable[[Arguments], DataType]


def _first(arguments: Arguments) -> DataType:
    return arguments[0].type


def _whole(arguments: Arguments) -> DataType:
    """ceil and floor."""
    kind = arguments[0].type
    if kind.name != "decimal":
        return BIGINT
    return bounded_decimal(kind.params[0] - kind.params[1] + 1, 0)


def _rounded(arguments: Arguments) -> DataType:
    kind = arguments[0].type
    if kind.name != "decimal":
        return kind
    places = arguments[1].value if len(arguments) > 1 and isinstance(arguments[1], Literal) else 0
    scale = min(kind.params[1], max(0, int(str(places))))
    return bounded_decimal(kind.params[0] - kind.params[1] + 1 + scale, scale)


def _element(arguments: Arguments) -> DataType:
    kind = arguments[0].type
    return kind.fields[-1][1]


@dataclass(frozen=True)
class Signature:
    """Arguments and result of one function; ``nullable`` None means: if any argument is."""

    arguments: str
    result: Result
    nullable: bool | None = None
    unify: int | None = None
    """From this argument on all are converted to their common type, which is the result's."""


_TEXT = Signature("s", STRING)
FUNCTIONS: dict[str, Signature] = {
    "abs": Signature("n", _first),
    "negative": Signature("n", _first),
    "sign": Signature("n", DOUBLE),
    "ceil": Signature("n", _whole),
    "floor": Signature("n", _whole),
    "round": Signature("n i?", _rounded),
    "sqrt": Signature("n", DOUBLE),
    "exp": Signature("n", DOUBLE),
    "ln": Signature("n", DOUBLE, nullable=True),
    "log2": Signature("n", DOUBLE, nullable=True),
    "log10": Signature("n", DOUBLE, nullable=True),
    "power": Signature("n n", DOUBLE),
    "sin": Signature("n", DOUBLE),
    "cos": Signature("n", DOUBLE),
    "tan": Signature("n", DOUBLE),
    "atan2": Signature("n n", DOUBLE),
    "radians": Signature("n", DOUBLE),
    "degrees": Signature("n", DOUBLE),
    "pmod": Signature("n n", _first, unify=0),
    "isnan": Signature("n", BOOLEAN, nullable=False),
    "coalesce": Signature("x x*", _first, unify=0),
    "nullif": Signature("c c", _first, nullable=True, unify=0),
    "greatest": Signature("c c c*", _first, unify=0),
    "least": Signature("c c c*", _first, unify=0),
    "if": Signature("b x x", lambda a: a[1].type, unify=1),
    "lower": _TEXT,
    "upper": _TEXT,
    "initcap": _TEXT,
    "reverse": _TEXT,
    "trim": _TEXT,
    "ltrim": _TEXT,
    "rtrim": _TEXT,
    "length": Signature("s", INT),
    "concat": Signature("s s*", STRING),
    "concat_ws": Signature("s s*", STRING, nullable=False),
    "substring": Signature("s i i?", STRING),
    "left": Signature("s i", STRING),
    "right": Signature("s i", STRING),
    "replace": Signature("s s s", STRING),
    "split_part": Signature("s s i", STRING),
    "instr": Signature("s s", INT),
    "lpad": Signature("s i s", STRING),
    "rpad": Signature("s i s", STRING),
    "startswith": Signature("s s", BOOLEAN),
    "endswith": Signature("s s", BOOLEAN),
    "contains": Signature("s s", BOOLEAN),
    "regexp_extract": Signature("s s i", STRING),
    "regexp_replace": Signature("s s s", STRING),
    "get_json_object": Signature("s s", STRING, nullable=True),
    "md5": Signature("s", STRING),
    "sha2": Signature("s i", STRING),
    "hash": Signature("c c*", INT, nullable=False),
    "xxhash64": Signature("c c*", BIGINT, nullable=False),
    "encode": Signature("s s", BINARY),
    "year": Signature("d", INT),
    "quarter": Signature("d", INT),
    "month": Signature("d", INT),
    "day": Signature("d", INT),
    "dayofweek": Signature("d", INT),
    "dayofyear": Signature("d", INT),
    "hour": Signature("t", INT),
    "minute": Signature("t", INT),
    "second": Signature("t", INT),
    "to_date": Signature("d", DATE),
    "date_add": Signature("d i", DATE),
    "date_sub": Signature("d i", DATE),
    "datediff": Signature("d d", INT),
    "date_trunc": Signature("s d", TIMESTAMP, nullable=True),
    "date_format": Signature("t s", STRING),
    "unix_micros": Signature("t", BIGINT),
    "unix_millis": Signature("t", BIGINT),
    "unix_seconds": Signature("t", BIGINT),
    "timestamp_micros": Signature("i", TIMESTAMP),
    "to_timestamp": Signature("s s?", TIMESTAMP),
    "try_to_timestamp": Signature("s s?", TIMESTAMP, nullable=True),
    "timestamp_millis": Signature("i", TIMESTAMP),
    "timestamp_seconds": Signature("n", TIMESTAMP),
    "size": Signature("m", INT),
    "element_at": Signature("m x", _element, nullable=True),
    "array_contains": Signature("a c", BOOLEAN, nullable=True),
}
SYNONYMS = {
    "ceiling": "ceil",
    "pow": "power",
    "nvl": "coalesce",
    "ifnull": "coalesce",
    "iff": "if",
    "lcase": "lower",
    "ucase": "upper",
    "char_length": "length",
    "len": "length",
    "substr": "substring",
    "signum": "sign",
    "log": "ln",
    "dayofmonth": "day",
    "cardinality": "size",
}
_CLOCKS = (
    "now",
    "current_timestamp",
    "current_date",
    "localtimestamp",
    "unix_timestamp",
    "curdate",
)
_CHANCE = ("rand", "random", "randn", "uuid", "shuffle", "monotonically_increasing_id")
_RUNS = ("spark_partition_id", "input_file_name", "current_user", "user", "version")
UNSTABLE = {
    **dict.fromkeys(_CLOCKS, "use the stream's time column, or a window"),
    **dict.fromkeys(_CHANCE, "use a hash of columns of the row, such as xxhash64(k)"),
    **dict.fromkeys(_RUNS, "bring it as a column of the row"),
}
"""Functions of the wall clock, of chance or of the run: the answer would depend on when it ran."""

_LETTERS: dict[str, tuple[str, Callable[[DataType], bool]]] = {
    "n": ("a number", lambda t: t.is_numeric),
    "i": ("a whole number", lambda t: t.is_integral),
    "s": ("text", lambda t: t == STRING),
    "b": ("a condition", lambda t: t == BOOLEAN),
    "t": ("an instant", lambda t: t.name.startswith("timestamp")),
    "d": ("a date or instant", lambda t: t == DATE or t.name.startswith("timestamp")),
    "c": ("a comparable value", lambda t: t.is_comparable),
    "a": ("an array", lambda t: t.name == "array"),
    "m": ("an array or map", lambda t: t.name in ("array", "map")),
    "x": ("any value", lambda t: True),
}


class Misuse(Exception):
    """The arguments do not fit; ``position`` is the argument at fault, if it is one."""

    def __init__(self, problem: str, hint: str, position: int | None = None) -> None:
        super().__init__(problem)
        self.problem, self.hint, self.position = problem, hint, position


def usage(name: str) -> str:
    """How a function is called: ``substring(text, a whole number [, a whole number])``."""
    parts = []
    for letter in FUNCTIONS[name].arguments.split():
        words = _LETTERS[letter[0]][0]
        parts.append({"?": f"[{words}]", "*": "…"}.get(letter[1:], words))
    return f"{name}({', '.join(parts)})"


def call(name: str, arguments: Arguments) -> Expression:
    """A function over bound arguments; raises Misuse where they do not fit."""
    signature = FUNCTIONS[name]
    letters = _expanded(name, signature.arguments.split(), len(arguments))
    for position, (letter, argument) in enumerate(zip(letters, arguments, strict=True)):
        words, fits = _LETTERS[letter]
        if argument.type != VOID and not fits(argument.type):
            raise Misuse(
                f"{name} needs {words} here, not {argument.type}",
                f"use it as {usage(name)}, or CAST the argument",
                position,
            )
    _check_length(name, arguments)
    unified = _unified(name, signature, arguments)
    result = signature.result(unified) if callable(signature.result) else signature.result
    return Function(name, tuple(unified), result, _nullable(name, signature, unified))


def _check_length(name: str, arguments: Arguments) -> None:
    length = arguments[1] if name in ("lpad", "rpad") else None
    characters = length.value if isinstance(length, Literal) else 0
    if isinstance(characters, int) and characters > LONGEST_TEXT:
        problem = f"{name} to {characters:,} characters would fill the memory"
        raise Misuse(problem, f"use at most {LONGEST_TEXT:,}", 1)


def _expanded(name: str, letters: list[str], count: int) -> list[str]:
    required = [letter for letter in letters if len(letter) == 1]
    repeated = letters[-1].endswith("*")
    if count < len(required) or (count > len(letters) and not repeated):
        raise Misuse(f"{name} does not take {count} argument(s)", f"use it as {usage(name)}")
    return [letters[min(index, len(letters) - 1)][0] for index in range(count)]


def _unified(name: str, signature: Signature, arguments: Arguments) -> Arguments:
    if signature.unify is None:
        return arguments
    fixed, free = arguments[: signature.unify], arguments[signature.unify :]
    kind: DataType | None = VOID
    for argument in free:
        kind = common_type(kind, argument.type) if kind else None
    if kind is None:
        types = " and ".join(dict.fromkeys(str(argument.type) for argument in free))
        raise Misuse(f"the arguments of {name} have no common type: {types}", "CAST one of them")
    return [*fixed, *(as_type(argument, kind) for argument in free)]


def _nullable(name: str, signature: Signature, arguments: Arguments) -> bool:
    if name in ("coalesce", "greatest", "least"):
        return all(argument.nullable for argument in arguments)
    if signature.nullable is not None:
        return signature.nullable
    return any(argument.nullable for argument in arguments)


_TUMBLE = "write FROM TUMBLE(s, ts, INTERVAL '1' MINUTE) and group by window_start, window_end"
FOREIGN_WINDOWS = {
    "tumble": _TUMBLE,
    "hop": _TUMBLE.replace("TUMBLE(s, ts,", "HOP(s, ts, INTERVAL '10' SECONDS,"),
    **dict.fromkeys(
        ("window", "session_window"),
        "GROUP BY window(ts, '1 minute') makes windows; window.start and window.end are selected",
    ),
    **dict.fromkeys(
        ("tumble_start", "tumble_end", "hop_start", "hop_end", "session_start", "session_end"),
        "the windows belong in FROM, as TUMBLE(s, ts, INTERVAL '1' MINUTE), with the columns "
        "window_start and window_end",
    ),
}
"""Functions that other systems group by, and what to write instead."""
_SECONDS = "subtract: unix_seconds(b) - unix_seconds(a) counts seconds; divide for minutes or hours"
FOREIGN = {
    **FOREIGN_WINDOWS,
    "split_index": "write split_part(text, delimiter, n + 1), which counts from 1",
    **dict.fromkeys(
        ("mz_now", "proctime", "getdate", "sysdate"),
        "put a window on the stream: "
        "FROM s [RANGE 5 MIN] holds the rows of the last five minutes of its time",
    ),
    **dict.fromkeys(
        ("date_bin", "time_bucket", "timestamp_trunc"),
        "write date_trunc('minute', ts), or FROM TUMBLE(s, ts, INTERVAL '5' MINUTE)",
    ),
    **dict.fromkeys(("timestampdiff", "timestamp_diff", "date_diff"), _SECONDS),
    "timestampadd": "add an interval: ts + INTERVAL 5 MINUTES",
    **dict.fromkeys(("to_char", "strftime"), "write date_format(ts, 'yyyy-MM-dd')"),
    **dict.fromkeys(("to_unixtime", "to_epoch"), "write unix_seconds(ts)"),
    "from_unixtime": "write timestamp_seconds(n)",
    **dict.fromkeys(("strpos", "position", "charindex", "locate"), "write instr(text, part)"),
    **dict.fromkeys(("tumblingwindow", "hoppingwindow", "slidingwindow"), _TUMBLE),
    **dict.fromkeys(
        ("json_value", "json_extract", "json_extract_scalar"), "write get_json_object(text, '$.a')"
    ),
    "regexp_substr": "write regexp_extract(text, pattern, 0)",
    "array_length": "write size(a)",
    "array_contains_any": "write array_contains(a, x) OR array_contains(a, y)",
    "system": "use the stream's time column",
}
"""Functions of other systems, and what to write instead."""
