"""Floating-point numbers as Java writes and reads them.

Java 19 and later write the shortest text that reads back; older ones sometimes write more digits.
"""

from __future__ import annotations

import math
import re
from decimal import Decimal

import numpy as np

_SPECIAL = {
    **dict.fromkeys(("inf", "+inf", "infinity", "+infinity"), math.inf),
    **dict.fromkeys(("-inf", "-infinity"), -math.inf),
    "nan": math.nan,
}
_DECIMAL_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?[dDfF]?", re.ASCII)
_HEX_NUMBER = re.compile(
    r"[+-]?0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?\d+[dDfF]?", re.ASCII
)


def _digits(value: float, single: bool) -> tuple[str, int]:
    """The shortest digits that read back as this number, and its decimal exponent."""
    number = np.float32(value) if single else np.float64(value)
    text = np.format_float_scientific(number, unique=True, trim="-")
    mantissa, exponent = text.split("e")
    if len(mantissa) == 1:
        # Java writes two digits at least, and takes the two that are nearest.
        mantissa, exponent = f"{value:.1e}".split("e")
    return mantissa.replace(".", ""), int(exponent)


def shortest(value: float, single: bool = False) -> str:
    """The number as Java's toString writes it: 1.0, 1.0E10, NaN, -Infinity."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value) or value == 0:
        text = "Infinity" if value else "0.0"
        return text if math.copysign(1.0, value) > 0 else f"-{text}"
    if not single and 1e-3 <= abs(value) < 1e7:
        return repr(value)
    sign = "-" if value < 0 else ""
    digits, exponent = _digits(abs(value), single)
    if -3 <= exponent < 7:
        return sign + _plainly(digits, exponent)
    return f"{sign}{digits[0]}.{digits[1:].rstrip('0') or '0'}E{exponent}"


def _plainly(digits: str, exponent: int) -> str:
    if exponent < 0:
        whole, fraction = "0", "0" * (-exponent - 1) + digits
    else:
        digits = digits.ljust(exponent + 1, "0")
        whole, fraction = digits[: exponent + 1], digits[exponent + 1 :]
    return f"{whole}.{fraction.rstrip('0') or '0'}"


def exact(value: float, single: bool = False) -> Decimal:
    """The decimal number that Java's toString writes."""
    return Decimal(repr(value) if not single and abs(value) > 1e-300 else shortest(value, single))


def read_float(text: str) -> float | None:
    """A number as Java's parseDouble reads it, or Spark's names for infinity and NaN."""
    text = text.strip("".join(map(chr, range(33))))
    if _DECIMAL_NUMBER.fullmatch(text):
        return float(text.rstrip("dDfF"))
    if _HEX_NUMBER.fullmatch(text):
        return float.fromhex(text.rstrip("dDfF"))
    return _SPECIAL.get(text.lower())
