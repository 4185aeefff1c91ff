"""Key bounds as JSON: every atomic value has one text form, so that nothing stored needs code."""

from __future__ import annotations

import base64
import math
from collections.abc import Callable
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

from mayfly.errors import StorageError, UnsupportedFormat

Scalar = Any
"""A Python value of an atomic type, as Arrow's ``as_py`` gives it."""


def encode(value: Scalar) -> Any:
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return {"double": value.hex() if math.isfinite(value) else str(value)}
    if isinstance(value, bytes):
        return {"binary": base64.b64encode(value).decode()}
    if isinstance(value, Decimal):
        return {"decimal": str(value)}
    if isinstance(value, datetime):
        return {"timestamp": value.isoformat()}
    if isinstance(value, date):
        return {"date": value.isoformat()}
    if isinstance(value, time):
        return {"time": value.isoformat()}
    raise StorageError(
        f"a {type(value).__name__} cannot be a key", "use a column of an atomic type"
    )


_DECODERS: dict[str, Callable[[Any], Scalar]] = {
    "double": lambda text: float.fromhex(text) if "x" in text else float(text),
    "binary": base64.b64decode,
    "decimal": Decimal,
    "timestamp": datetime.fromisoformat,
    "date": date.fromisoformat,
    "time": time.fromisoformat,
}


def decode(stored: Any) -> Scalar:
    if not isinstance(stored, dict):
        return stored
    ((kind, text),) = stored.items()
    if kind not in _DECODERS:
        raise UnsupportedFormat(
            f"a key bound of the unknown type {kind!r}", "install a newer Mayfly"
        )
    return _DECODERS[kind](text)
