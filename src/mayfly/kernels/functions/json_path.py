"""get_json_object: the value at a path such as ``$.a[0].b`` or ``$.list[*].name``.

One wildcard step gathers the values it meets; a single one stands alone, several become an array.
Text that is no JSON, a path that is none and a value that is missing or null all give NULL.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import Any, TypeAlias

Step: TypeAlias = str | int | None
"""A member's name, an index, or None for the wildcard of an array."""

_STEP = re.compile(r"\.([^.\[]+)|\[(\d+)\]|\['([^'?]+)'\]|(\[\*\])")


class _Number(str):
    """A number as the text writes it."""


class _Object(list[tuple[str, Any]]):
    """Members in their order; a name may occur more than once."""


_DECODER = json.JSONDecoder(
    parse_float=_Number, parse_int=_Number, object_pairs_hook=_Object, strict=False
)


def json_object(text: str, path: str) -> str | None:
    steps = _steps(path)
    if steps is None:
        return None
    try:
        value, _ = _DECODER.raw_decode(text.lstrip(" \t\r\n"))
    except (ValueError, RecursionError):
        return None
    found = _at(value, steps)
    return None if found is None else found if isinstance(found, str) else _written(found)


@lru_cache(maxsize=256)
def _steps(path: str) -> tuple[Step, ...] | None:
    if not path.startswith("$"):
        return None
    steps: list[Step] = []
    at = 1
    while at < len(path):
        found = _STEP.match(path, at)
        if found is None:
            return None
        name = found[1] or found[3]
        steps.append(name if name else int(found[2]) if found[2] else None)
        at = found.end()
    return tuple(steps)


def _at(value: Any, steps: tuple[Step, ...]) -> Any:
    for number, step in enumerate(steps):
        if isinstance(step, str):
            if not isinstance(value, _Object):
                return None
            members = (_at(member, steps[number + 1 :]) for name, member in value if name == step)
            return next((member for member in members if member is not None), None)
        if isinstance(value, _Object) or not isinstance(value, list):
            return None
        if step is None:
            rest = [_at(one, steps[number + 1 :]) for one in value]
            found = [one for one in rest if one is not None]
            return found if len(found) > 1 else found[0] if found else None
        if step >= len(value):
            return None
        value = value[step]
    return value


def _written(value: Any) -> str:
    """Compact JSON."""
    if isinstance(value, _Number):
        return str(value)
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, _Object):
        return "{" + ",".join(f"{_written(n)}:{_written(v)}" for n, v in value) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_written, value)) + "]"
    return "null" if value is None else "true" if value else "false"
