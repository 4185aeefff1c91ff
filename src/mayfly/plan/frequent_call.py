"""What a call of FREQUENT asks for, read from its parameters."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from mayfly.plan.logical_operators import AggregateCall

EXACT, APPROXIMATE = "frequent", "approx_frequent"
NO_FALSE_POSITIVES, NO_FALSE_NEGATIVES = "NO FALSE POSITIVES", "NO FALSE NEGATIVES"


@dataclass(frozen=True)
class Frequency:
    """Lists of ``k`` values over ``sub_windows``; items beyond a ``share`` of the rows, or δ.

    ``misses`` says that items may be missing and none is wrong; otherwise the other way round.
    """

    k: int
    sub_windows: int
    share: Fraction | None
    misses: bool
    approximate: bool

    @staticmethod
    def is_asked(call: AggregateCall) -> bool:
        return call.function in (EXACT, APPROXIMATE)

    @staticmethod
    def of(call: AggregateCall) -> Frequency:
        k, sub_windows, *rest = call.parameters
        shares = [number for number in rest if not isinstance(number, str)]
        # As people write it: 0.29 of 100 rows are 29. Products with counts fit 64 bits.
        share = Fraction(str(shares[0])).limit_denominator(10**9) if shares else None
        return Frequency(
            int(str(k)), int(str(sub_windows)), share, NO_FALSE_NEGATIVES not in rest,
            call.function == APPROXIMATE,
        )  # fmt: skip


def sub_windows(length: int, slide: int) -> int:
    """In how many parts a window comes and goes: its slides; if the slide does not divide the
    length, what one slide brings leaves in two parts, and of the oldest the first has left."""
    return length // slide if length % slide == 0 else 2 * (length // slide) + 1
