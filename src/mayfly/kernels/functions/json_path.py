"""get_json_object: the value at a path such as ``$.a[0].b`` or ``$.list[*].name``.

A wildcard gathers the values it meets; a single one stands alone, several become an array, and
two wildcards in a row dissolve inner arrays. Text that is no JSON, a path that is none, and
members that are missing or null give NULL.
"""

from __future__ import annotations

import json
import re
from enum import Enum
from functools import lru_cache
from typing import Any, TypeAlias

from mayfly.kernels.functions.java_numbers import shortest

Step: TypeAlias = str | int | None
"""A member's name, an index, or None for the wildcard of an array."""

_STEP = re.compile(r"\.([^.\[]+)|\[(\d+)\]|\['([^'?]+)'\]|(\[\*\])")


class Style(Enum):
    """How found values are written: bare, as JSON, or as JSON with arrays dissolved."""

    RAW = "raw"
    QUOTED = "quoted"
    FLAT = "flat"


class _WrittenNumber(str):
    """A number as it is written out."""


class _Object(list[tuple[str, Any]]):
    """Members in their order; a name may occur more than once."""


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(
    parse_float=lambda text: _WrittenNumber(shortest(float(text))),
    parse_int=lambda text: _WrittenNumber(int(text)),
    parse_constant=_refuse_constant,
    object_pairs_hook=_Object,
    strict=False,
)
_STRINGS = re.compile(r'"(?:[^"\\]|\\.)*"|\'((?:[^\'\\]|\\.)*)\'', re.DOTALL)


def _in_double_quotes(match: re.Match[str]) -> str:
    if match[1] is None:
        return match[0]
    return '"' + match[1].replace("\\'", "'").replace('"', '\\"') + '"'


def json_object(text: str, path: str) -> str | None:
    steps = _steps(path)
    if steps is None:
        return None
    try:
        # Spark takes text in single quotes, too.
        text = _STRINGS.sub(_in_double_quotes, text) if "'" in text else text
        value, _ = _DECODER.raw_decode(text.lstrip(" \t\r\n"))
    except (ValueError, RecursionError):
        return None
    pieces, hit = _pieces_at(value, steps, Style.RAW)
    return "".join(pieces) if hit else None


@lru_cache(maxsize=256)
def _steps(path: str) -> tuple[Step, ...] | None:
    if not path.startswith("$"):
        return None
    steps: list[Step] = []
    position = 1
    while position < len(path):
        match = _STEP.match(path, position)
        if match is None:
            return None
        name = match[1] or match[3]
        if name == "*":
            return None
        steps.append(name if name else int(match[2]) if match[2] else None)
        position = match.end()
    return tuple(steps)


def _pieces_at(value: Any, steps: tuple[Step, ...], style: Style) -> tuple[list[str], bool]:
    """The pieces of JSON found below, and whether anything was; Spark's rules case by case."""
    if not steps:
        return _whole(value, style)
    step, rest = steps[0], steps[1:]
    if isinstance(step, str):
        return _in_object(value, step, rest, style)
    if isinstance(value, _Object) or not isinstance(value, list):
        return [], False
    if step is None:
        return _in_array(value, rest, style)
    if step >= len(value):
        return [], False
    return _pieces_at(value[step], rest, Style.QUOTED if rest[:1] == (None,) else style)


def _whole(value: Any, style: Style) -> tuple[list[str], bool]:
    if style is Style.RAW and isinstance(value, str):
        return [str(value)], True
    if style is Style.FLAT and isinstance(value, list) and not isinstance(value, _Object):
        return _gathered(value, (), style)
    return [_written(value)], True


def _in_object(
    value: Any, name: str, rest: tuple[Step, ...], style: Style
) -> tuple[list[str], bool]:
    for label, member in value if isinstance(value, _Object) else ():
        if label == name and member is not None:
            pieces, hit = _pieces_at(member, rest, style)
            if hit:
                return pieces, True
    return [], False


def _in_array(values: list[Any], rest: tuple[Step, ...], style: Style) -> tuple[list[str], bool]:
    if rest[:1] == (None,):
        pieces, hit = _gathered(values, rest[1:], Style.FLAT)
        return [f"[{','.join(pieces)}]"], hit
    if style is Style.QUOTED:
        pieces, hit = _gathered(values, rest, style)
        return [f"[{','.join(pieces)}]"], hit
    below = Style.QUOTED if style is Style.RAW else style
    met = [_pieces_at(element, rest, below) for element in values]
    listed = ",".join(piece for pieces, _ in met for piece in pieces)
    count = sum(hit for _, hit in met)
    return [f"[{listed}]" if count > 1 else listed], count > 0


def _gathered(values: list[Any], rest: tuple[Step, ...], style: Style) -> tuple[list[str], bool]:
    met = [_pieces_at(element, rest, style) for element in values]
    return [piece for pieces, _ in met for piece in pieces], any(hit for _, hit in met)


_ESCAPED = str.maketrans(
    {
        **{chr(code): f"\\u{code:04X}" for code in range(32)},
        **{"\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"},
        **{'"': '\\"', "\\": "\\\\"},
    }
)


def _written(value: Any) -> str:
    """Compact JSON."""
    if isinstance(value, _WrittenNumber):
        return str(value)
    if isinstance(value, str):
        return f'"{value.translate(_ESCAPED)}"'
    if isinstance(value, _Object):
        return "{" + ",".join(f"{_written(n)}:{_written(v)}" for n, v in value) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_written, value)) + "]"
    return "null" if value is None else "true" if value else "false"
