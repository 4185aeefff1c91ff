"""RESAMPLE as FROM writes it: ``RESAMPLE s [PARTITION BY k, …] EVERY d [LINEAR | LAST]``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from mayfly.cql.messages import TextSpan
from mayfly.cql.tokens import Cursor
from mayfly.plan.resample import Interpolation

if TYPE_CHECKING:
    from mayfly.cql.dialect import CqlParser

RESAMPLED = "resampled"
"""Under which an entry of FROM has what RESAMPLE says of it."""
ELSEWHERE = ("CUBIC", "SPLINE", "NEAREST", "NEXT", "PREV", "PREVIOUS", "FILL", "MEAN")
"""How other systems fill, which is no alias here."""
FORM = "write RESAMPLE s PARTITION BY k EVERY 10 SECONDS LINEAR, or LAST"


@dataclass(frozen=True)
class ResampleCall:
    """What RESAMPLE says behind its source."""

    partition_by: tuple[str, ...]
    period: int
    filling: Interpolation
    span: TextSpan


def is_resample(ahead: Sequence[Token]) -> bool:
    """Whether these tokens begin ``RESAMPLE s EVERY``, or leave out a part of it, and are not a
    stream of that name."""
    words = [token.text.upper() for token in ahead]
    if len(ahead) < 2 or words[0] != "RESAMPLE" or ahead[0].token_type is TokenType.IDENTIFIER:
        return False
    if ahead[1].token_type is TokenType.L_PAREN:
        return words[2:3] in (["SELECT"], ["WITH"])
    return words[2:3] in (["EVERY"], ["PARTITION BY"], ["LINEAR"], ["LAST"])


def read_resample(parser: CqlParser) -> exp.Expr:
    """The source, a stream or a sub-query, with a note of how it is resampled."""
    parser._skip_to(parser._index + 1)
    if parser._curr.token_type is TokenType.L_PAREN:
        source = parser._sub_query()
    else:
        source = exp.Table(this=parser._parse_id_var(any_token=False))
    cursor = Cursor(parser.source, parser._tokens, parser._index)
    start, partition = cursor.place.start, tuple[str, ...]()
    if cursor.take("PARTITION BY"):
        partition = cursor.names("a column to partition by")
    cursor.expect("EVERY", FORM)
    period = cursor.duration("the time between two rows", FORM)
    filling = Interpolation.LINEAR if cursor.take("LINEAR") else Interpolation.LAST
    if filling is Interpolation.LAST:
        cursor.take("LAST")
    if cursor.word() in ELSEWHERE:
        raise cursor.error(f"RESAMPLE does not fill by {cursor.word()}", FORM)
    span = TextSpan(start, cursor.place.start)
    source.meta[RESAMPLED] = ResampleCall(partition, period, filling, span)
    parser._skip_to(cursor.position)
    return source


def resample_of(place: exp.Expr) -> ResampleCall | None:
    """How an entry of FROM is resampled, if it is."""
    call: ResampleCall | None = place.meta.get(RESAMPLED)
    return call


def source_of(place: exp.Expr) -> exp.Expr:
    """The entry as it would be without RESAMPLE, and the window that stands behind it."""
    bare = place.copy()
    for name in (RESAMPLED, "window", "window_span"):
        bare.meta.pop(name, None)
    return bare
