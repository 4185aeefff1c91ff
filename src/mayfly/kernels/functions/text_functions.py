"""Functions of text. A character is a Unicode code point; places count from 1."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

import pyarrow as pa

from mayfly.arrays import compute as pc
from mayfly.kernels.functions.java_regex import compiled, replaced
from mayfly.kernels.functions.json_path import json_object
from mayfly.kernels.functions.like_patterns import like_pattern
from mayfly.kernels.functions.operands import Operand, Undefined, check_length, each
from mayfly.plan.types import DataType, arrow_type

Compute = Callable[[Sequence[Operand], DataType], Operand]
_INT_MAX = 2**31 - 1


def _per_value(function: Callable[..., object]) -> Compute:
    return lambda values, kind: each(function, values, arrow_type(kind))


def _ascii_or(simple: Callable[[Operand], Operand], full: Callable[[str], str]) -> Compute:
    """Arrow's own function where all text is ASCII: it maps single characters only."""

    def compute(values: Sequence[Operand], kind: DataType) -> Operand:
        plain = pc.string_is_ascii(values[0])
        ascii_only = plain.as_py() if isinstance(plain, pa.Scalar) else pc.all(plain).as_py()
        return simple(values[0]) if ascii_only else each(full, values, pa.string())

    return compute


def _initcap(text: str) -> str:
    return " ".join(word[:1].title() + word[1:].lower() for word in text.split(" "))


def _substring(text: str, start: int, length: int = _INT_MAX) -> str:
    begin = start - 1 if start > 0 else len(text) + start if start < 0 else 0
    end = begin + length
    return text[max(begin, 0) : end] if end > max(begin, 0) else ""


def _right(text: str, length: int) -> str:
    return text[-length:] if length > 0 else ""


def _replace(text: str, old: str, new: str) -> str:
    if len(new) > len(old):
        check_length(text.count(old) * len(new) if old else 0)
    return text.replace(old, new) if old else text


def _split_part(text: str, delimiter: str, number: int) -> str:
    if number == 0:
        raise Undefined("split_part counts from 1, there is no part 0")
    parts = text.split(delimiter) if delimiter else [text]
    index = number - 1 if number > 0 else len(parts) + number
    return parts[index] if 0 <= index < len(parts) else ""


def _padding(length: int, missing: int, pad: str) -> str:
    check_length(length)
    return (pad * (missing // len(pad) + 1))[:missing] if pad and missing > 0 else ""


def _lpad(text: str, length: int, pad: str) -> str:
    return (
        (_padding(length, length - len(text), pad) + text)[: max(length, 0)]
        if (length < len(text) or pad)
        else text
    )


def _rpad(text: str, length: int, pad: str) -> str:
    return (text + _padding(length, length - len(text), pad))[: max(length, 0)]


def _regexp_extract(text: str, pattern: str, group: int) -> str:
    expression = compiled(pattern)
    match = expression.search(text)
    if match is None:
        return ""
    if not 0 <= group <= expression.groups:
        raise Undefined(f"{pattern!r} has no group {group}")
    value = match[group] or ""
    return value.decode() if isinstance(value, bytes) else value


def _sha2(text: str, bits: int) -> str | None:
    name = {0: "sha256", 224: "sha224", 256: "sha256", 384: "sha384", 512: "sha512"}.get(bits)
    return hashlib.new(name, text.encode()).hexdigest() if name else None


_CHARSETS = {
    "US-ASCII": "ascii",
    "ISO-8859-1": "latin-1",
    "UTF-8": "utf-8",
    "UTF-16BE": "utf-16-be",
    "UTF-16LE": "utf-16-le",
    "UTF-32": "utf-32-be",
}


def _encode(text: str, charset: str) -> bytes:
    name = charset.upper()
    try:
        if name == "UTF-16":
            return b"\xfe\xff" + text.encode("utf-16-be") if text else b""
        return text.encode(_CHARSETS[name])
    except KeyError:
        names = ", ".join(sorted((*_CHARSETS, "UTF-16")))
        raise Undefined(f"{charset!r} is not a known character set; use {names}") from None
    except UnicodeEncodeError:
        raise Undefined(f"{text!r} has characters that {charset} lacks") from None


def _concat(values: Sequence[Operand], kind: DataType) -> Operand:
    return pc.binary_join_element_wise(*values, "")


def _concat_ws(values: Sequence[Operand], kind: DataType) -> Operand:
    def joined(separator: str | None, *parts: str | None) -> str | None:
        if separator is None:
            return None
        return separator.join(part for part in parts if part is not None)

    return each(joined, values, pa.string(), nulls=True)


def like(op: str, text: Operand, pattern: Operand, escape: str) -> Operand:
    """LIKE, ILIKE and RLIKE."""

    def matches(value: str, pattern: str) -> bool:
        if op == "RLIKE":
            return compiled(pattern).search(value) is not None
        if op == "ILIKE":
            value, pattern = value.lower(), pattern.lower()
        return like_pattern(pattern, escape).matches(value)

    return each(matches, (text, pattern), pa.bool_())


TEXT_FUNCTIONS: dict[str, Compute] = {
    "lower": _ascii_or(pc.ascii_lower, str.lower),
    "upper": _ascii_or(pc.ascii_upper, str.upper),
    "initcap": _per_value(_initcap),
    "reverse": _per_value(lambda text: text[::-1]),
    "trim": lambda values, kind: pc.utf8_trim(values[0], " "),
    "ltrim": lambda values, kind: pc.utf8_ltrim(values[0], " "),
    "rtrim": lambda values, kind: pc.utf8_rtrim(values[0], " "),
    "length": lambda values, kind: pc.utf8_length(values[0]),
    "concat": _concat,
    "concat_ws": _concat_ws,
    "substring": _per_value(_substring),
    "left": _per_value(lambda text, length: _substring(text, 1, length)),
    "right": _per_value(_right),
    "replace": _per_value(_replace),
    "split_part": _per_value(_split_part),
    "instr": _per_value(lambda text, part: text.find(part) + 1),
    "lpad": _per_value(_lpad),
    "rpad": _per_value(_rpad),
    "startswith": _per_value(str.startswith),
    "endswith": _per_value(str.endswith),
    "contains": _per_value(str.__contains__),
    "regexp_extract": _per_value(_regexp_extract),
    "regexp_replace": _per_value(replaced),
    "get_json_object": _per_value(json_object),
    "md5": _per_value(lambda text: hashlib.md5(text.encode()).hexdigest()),
    "sha2": _per_value(_sha2),
    "encode": _per_value(_encode),
}
