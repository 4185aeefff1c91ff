"""The types of columns and expressions: Spark SQL's atomic types, arrays and structs.

Arrays, structs and maps travel as opaque payload: they are carried and returned, never compared.
The common-type rules are those of Spark's ANSI mode, without its silent casts from strings.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from mayfly.arrays import arrow as pa
from mayfly.errors import InvalidSetting


@dataclass(frozen=True, slots=True)
class DataType:
    """A type; ``params`` holds decimal(p, s), ``fields`` the members of a nested type."""

    name: str
    params: tuple[int, ...] = ()
    fields: tuple[tuple[str, DataType], ...] = ()

    def __hash__(self) -> int:
        # Equal types have equal names; expressions are hashed by the thousand.
        return hash(self.name)

    def sql(self) -> str:
        """The type as Spark SQL writes it."""
        if self.name == "decimal":
            return f"decimal({self.params[0]},{self.params[1]})"
        if self.name == "struct":
            return f"struct<{','.join(f'{quoted_name(n)}:{t.sql()}' for n, t in self.fields)}>"
        if self.fields:
            return f"{self.name}<{','.join(t.sql() for _, t in self.fields)}>"
        return self.name

    def __str__(self) -> str:
        return self.sql().upper() if not self.fields else self.sql()

    @property
    def is_numeric(self) -> bool:
        return self.name in _NUMERIC

    @property
    def is_integral(self) -> bool:
        return self.name in _INTEGRAL

    @property
    def is_nested(self) -> bool:
        return bool(self.fields) or self.name == "struct"

    @property
    def is_interval(self) -> bool:
        return self.name.startswith("interval")

    @property
    def is_stored(self) -> bool:
        """Whether kernels and files can hold values of it."""
        return self != YEAR_MONTH_INTERVAL and all(member.is_stored for _, member in self.fields)

    @property
    def is_comparable(self) -> bool:
        """Whether values may be compared, joined on, grouped by or made distinct."""
        return not self.is_nested


BOOLEAN = DataType("boolean")
TINYINT = DataType("tinyint")
SMALLINT = DataType("smallint")
INT = DataType("int")
BIGINT = DataType("bigint")
FLOAT = DataType("float")
DOUBLE = DataType("double")
STRING = DataType("string")
BINARY = DataType("binary")
DATE = DataType("date")
TIMESTAMP = DataType("timestamp")
TIMESTAMP_NTZ = DataType("timestamp_ntz")
DAY_TIME_INTERVAL = DataType("interval day to second")
YEAR_MONTH_INTERVAL = DataType("interval year to month")
VOID = DataType("void")
"""The type of a bare NULL; it fits every other type."""

_ATOMIC = {
    kind.name
    for kind in (
        BOOLEAN, TINYINT, SMALLINT, INT, BIGINT, FLOAT, DOUBLE, STRING, BINARY, DATE, TIMESTAMP,
        TIMESTAMP_NTZ, DAY_TIME_INTERVAL, YEAR_MONTH_INTERVAL, VOID,
    )
}  # fmt: skip
_INTEGRAL = ("tinyint", "smallint", "int", "bigint")
_NUMERIC = (*_INTEGRAL, "decimal", "float", "double")
_TEMPORAL = ("date", "timestamp_ntz", "timestamp")
_INTEGRAL_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 20}
MAX_PRECISION = 38


def decimal(precision: int, scale: int) -> DataType:
    """decimal(p, s), checked as Spark checks it."""
    if not (1 <= precision <= MAX_PRECISION and 0 <= scale <= precision):
        raise InvalidSetting(
            f"decimal({precision},{scale}) is not a type",
            f"use a precision from 1 to {MAX_PRECISION} and a scale from 0 to the precision",
        )
    return DataType("decimal", (precision, scale))


def array(element: DataType) -> DataType:
    return DataType("array", (), (("element", element),))


def struct(**fields: DataType) -> DataType:
    return DataType("struct", (), tuple(fields.items()))


def as_decimal(kind: DataType) -> DataType:
    """The decimal type that holds every value of an integral type."""
    return kind if kind.name == "decimal" else decimal(_INTEGRAL_DIGITS[kind.name], 0)


def common_type(left: DataType, right: DataType) -> DataType | None:
    """The type in which both sides are compared, joined, merged or tested; None if there is none.

    Strings are never cast to numbers or times here: the text must say CAST.
    """
    if left == right:
        return left
    if VOID in (left, right):
        return right if left == VOID else left
    if left.is_numeric and right.is_numeric:
        return _common_numeric(left, right)
    if left.name in _TEMPORAL and right.name in _TEMPORAL:
        return max(left, right, key=lambda t: _TEMPORAL.index(t.name))
    return None


def _common_numeric(left: DataType, right: DataType) -> DataType:
    names = {left.name, right.name}
    if "decimal" in names and not names & {"float", "double"}:
        return _wider_decimal(as_decimal(left), as_decimal(right))
    # Spark: a float beside a bigint, int or decimal would lose digits, so both become double.
    if "double" in names or ("float" in names and names & {"decimal", "bigint", "int"}):
        return DOUBLE
    return max(left, right, key=lambda t: _NUMERIC.index(t.name))


def _wider_decimal(left: DataType, right: DataType) -> DataType:
    scale = max(left.params[1], right.params[1])
    whole = max(left.params[0] - left.params[1], right.params[0] - right.params[1])
    return bounded_decimal(whole + scale, scale)


def bounded_decimal(precision: int, scale: int) -> DataType:
    """A result type cut to 38 digits the way Spark cuts it: whole digits before fractions."""
    if precision <= MAX_PRECISION:
        return decimal(precision, scale)
    whole = precision - scale
    return decimal(MAX_PRECISION, max(MAX_PRECISION - whole, min(scale, 6)))


def is_widening(source: DataType, target: DataType) -> bool:
    """Whether a cast keeps every value exactly, so that it may be done anywhere."""
    if source in (target, VOID):
        return True
    if source.is_integral and target.is_integral:
        return _INTEGRAL.index(source.name) <= _INTEGRAL.index(target.name)
    if target == DOUBLE:
        return source.name in ("tinyint", "smallint", "int", "float")
    if target == FLOAT:
        return source.name in ("tinyint", "smallint")
    return False


def check_stored(kind: DataType) -> None:
    """Refuse a type of which kernels and files cannot hold values."""
    for _, member in kind.fields:
        check_stored(member)
    if kind == YEAR_MONTH_INTERVAL:
        raise InvalidSetting(
            f"a column of type {kind} cannot be stored", "store it as a number of months"
        )


@cache
def _arrow_types() -> dict[str, pa.DataType]:
    return {
        "boolean": pa.bool_(),
        "tinyint": pa.int8(),
        "smallint": pa.int16(),
        "int": pa.int32(),
        "bigint": pa.int64(),
        "float": pa.float32(),
        "double": pa.float64(),
        "string": pa.string(),
        "binary": pa.binary(),
        "date": pa.date32(),
        "timestamp": pa.timestamp("us", tz="UTC"),
        "timestamp_ntz": pa.timestamp("us"),
        "interval day to second": pa.duration("us"),
        "void": pa.null(),
    }


def arrow_type(kind: DataType) -> pa.DataType:
    """The Arrow type in which kernels and files hold a column of this type."""
    if kind.name == "decimal":
        return pa.decimal128(*kind.params)
    if kind.name == "array":
        return pa.list_(arrow_type(kind.fields[0][1]))
    if kind.name == "struct":
        return pa.struct([(name, arrow_type(member)) for name, member in kind.fields])
    if kind.name == "map":
        return pa.map_(arrow_type(kind.fields[0][1]), arrow_type(kind.fields[1][1]))
    check_stored(kind)
    return _arrow_types()[kind.name]


def from_arrow(kind: pa.DataType) -> DataType:
    """The type of an Arrow column; that of a dictionary is the type of its values."""
    if pa.types.is_dictionary(kind):
        return from_arrow(kind.value_type)
    if pa.types.is_decimal(kind):
        return decimal(kind.precision, kind.scale)
    if pa.types.is_timestamp(kind):
        return TIMESTAMP if kind.tz else TIMESTAMP_NTZ
    if pa.types.is_struct(kind):
        fields = tuple((field.name, from_arrow(field.type)) for field in kind)
        return DataType("struct", (), fields)
    if pa.types.is_map(kind):
        return _map(from_arrow(kind.key_type), from_arrow(kind.item_type))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return array(from_arrow(kind.value_type))
    if pa.types.is_large_string(kind):
        return STRING
    if pa.types.is_large_binary(kind):
        return BINARY
    for name, arrow in _arrow_types().items():
        if arrow == kind:
            return DataType(name)
    raise InvalidSetting(f"the Arrow type {kind} has no Spark type", "cast the column first")


_SYNONYMS = {
    "bool": "boolean",
    "byte": "tinyint",
    "short": "smallint",
    "integer": "int",
    "long": "bigint",
    "real": "float",
    "dec": "decimal",
    "numeric": "decimal",
    "varchar": "string",
    "char": "string",
    "text": "string",
    "timestamp_ltz": "timestamp",
    "interval": "interval day to second",
}
_TYPE_TOKEN = re.compile(r"\s*(`(?:[^`]|``)*`|\w+|[<>(),:])", re.UNICODE)


TYPE_NAMES = (
    "use BOOLEAN, TINYINT, SMALLINT, INT, BIGINT, FLOAT, DOUBLE, DECIMAL(p, s), STRING, BINARY,"
    " DATE, TIMESTAMP, TIMESTAMP_NTZ, INTERVAL DAY TO SECOND, ARRAY<…>, MAP<…> or STRUCT<…>"
)


def parse_type(text: str) -> DataType:
    """The type written as Spark DDL: ``decimal(10,2)``, ``array<struct<a:int>>``.

    >>> parse_type("array<decimal(5, 2)>").sql()
    'array<decimal(5,2)>'
    """
    tokens = _TYPE_TOKEN.findall(text)
    if "".join("".join(tokens).split()) != "".join(text.split()):
        raise _unreadable(text)
    reader = _TypeReader(text, tokens)
    kind = reader.type()
    if reader.tokens:
        raise _unreadable(text)
    return kind


def _unreadable(text: str) -> InvalidSetting:
    return InvalidSetting(f"{text} is not a type", TYPE_NAMES)


def quoted_name(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z_]\w*", name) else f"`{name.replace('`', '``')}`"


def _map(key: DataType, value: DataType) -> DataType:
    return DataType("map", (), (("key", key), ("value", value)))


class _TypeReader:
    """Recursive descent over the tokens of one type."""

    def __init__(self, text: str, tokens: list[str]) -> None:
        self.text = text
        self.tokens = tokens

    def next(self) -> str:
        if not self.tokens:
            raise _unreadable(self.text)
        return self.tokens.pop(0)

    def expect(self, token: str) -> None:
        if self.next() != token:
            raise _unreadable(self.text)

    def comma(self) -> bool:
        if self.tokens and self.tokens[0] == ",":
            self.tokens.pop(0)
            return True
        return False

    def type(self) -> DataType:
        name = self.next().lower()
        if name == "interval":
            return self.interval()
        name = _SYNONYMS.get(name, name)
        if name == "decimal":
            numbers = self.numbers() or [10, 0]
            return decimal(numbers[0], numbers[1] if len(numbers) > 1 else 0)
        if name == "string":
            self.numbers()
            return STRING
        if name in ("array", "map", "struct"):
            return self.nested(name)
        if name not in _ATOMIC:
            raise _unreadable(self.text)
        return DataType(name)

    def interval(self) -> DataType:
        words = []
        while self.tokens and self.tokens[0].lower() in (*_DAY_TIME, "year", "month", "to"):
            words.append(self.tokens.pop(0).lower())
        months = bool(words) and words[0] in ("year", "month")
        return YEAR_MONTH_INTERVAL if months else DAY_TIME_INTERVAL

    def numbers(self) -> list[int]:
        if not self.tokens or self.tokens[0] != "(":
            return []
        self.tokens.pop(0)
        parameters = [self.number()]
        while self.comma():
            parameters.append(self.number())
        self.expect(")")
        return parameters

    def number(self) -> int:
        token = self.next()
        if not token.isdecimal():
            raise _unreadable(self.text)
        return int(token)

    def nested(self, name: str) -> DataType:
        self.expect("<")
        members = [self.member(name)]
        while self.comma():
            members.append(self.member(name))
        self.expect(">")
        labels = {"array": ("element",), "map": ("key", "value")}.get(name)
        if labels is None:
            return DataType("struct", (), tuple(members))
        if len(members) != len(labels):
            raise _unreadable(self.text)
        types = (kind for _, kind in members)
        return DataType(name, (), tuple(zip(labels, types, strict=True)))

    def member(self, parent: str) -> tuple[str, DataType]:
        if parent != "struct":
            return "", self.type()
        label = self.next().strip("`").replace("``", "`")
        self.expect(":") if self.tokens and self.tokens[0] == ":" else None
        return label, self.type()


_DAY_TIME = ("day", "hour", "minute", "second")
