"""TUMBLE, HOP, CUMULATE and SESSION as FROM writes them: which windows, by which time column."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from mayfly.cql.messages import TextSpan
from mayfly.cql.tokens import Cursor
from mayfly.errors import InvalidSetting
from mayfly.lifetime import micros
from mayfly.plan.finished_windows import FinishedWindows, PeriodicWindows, Sessions

if TYPE_CHECKING:
    from mayfly.cql.dialect import CqlParser

CALL = "window_call"
"""Under which a node of FROM has its call."""
FORMS = {
    "TUMBLE": "write TUMBLE(s, ts, INTERVAL '10' MINUTE), an offset may follow",
    "HOP": "write HOP(s, ts, INTERVAL '1' MINUTE, INTERVAL '10' MINUTE): the slide, then the size",
    "CUMULATE": "write CUMULATE(s, ts, INTERVAL '10' MINUTE, INTERVAL '1' HOUR): the step, then "
    "the size, a multiple of it",
    "SESSION": "write SESSION(s PARTITION BY k, ts, INTERVAL '5' MINUTE): the gap ends a session",
}
_LENGTHS = {
    "TUMBLE": ("the size",),
    "HOP": ("the slide", "the size"),
    "CUMULATE": ("the step", "the size"),
    "SESSION": ("the gap",),
}


@dataclass(frozen=True)
class WindowCall:
    """The windows of an entry of FROM, and what the text calls the time of its rows."""

    windows: FinishedWindows
    time: str
    span: TextSpan


def is_window_call(ahead: Sequence[Token]) -> bool:
    """Whether these tokens begin ``TUMBLE(…``, one of its siblings, or ``TABLE(TUMBLE(…``."""
    words = [token.text.upper() for token in ahead]
    if words[:2] == ["TABLE", "("]:
        words = words[2:]
    quoted = not ahead or ahead[0].token_type is TokenType.IDENTIFIER
    return not quoted and len(words) > 1 and words[0] in FORMS and words[1] == "("


def read_window_call(parser: CqlParser) -> exp.Expr:
    """What the call is about, a stream or a sub-query, with a note of its windows."""
    is_long = parser._curr.token_type is TokenType.TABLE
    if is_long:
        parser._skip_to(parser._index + 2)
    word = parser._curr.text.upper()
    parser._skip_to(parser._index + 2)
    if [token.text.upper() for token in parser._tokens[parser._index :][:2]] == ["DATA", "=>"]:
        parser._skip_to(parser._index + 2)
    if parser._curr.token_type is TokenType.TABLE:
        parser._skip_to(parser._index + 1)
    if parser._curr.token_type is TokenType.L_PAREN:
        source = parser._sub_query()
    else:
        name = parser._parse_id_var(any_token=False)
        if name is None:
            raise parser._problem(f"{word} needs a stream or a sub-query", FORMS[word])
        source = exp.Table(this=name)
    _refuse_brackets(parser, word)
    cursor = Cursor(parser.source, parser._tokens, parser._index)
    source.meta[CALL] = _arguments(cursor, word)
    if is_long:
        cursor.expect(")", "close TABLE(")
    parser._skip_to(cursor.position)
    _refuse_brackets(parser, word)
    return source


def _refuse_brackets(parser: CqlParser, word: str) -> None:
    if parser._curr.token_type is TokenType.L_BRACKET:
        raise parser._problem(f"{word} makes the windows: remove […]", FORMS[word])


def _arguments(cursor: Cursor, word: str) -> WindowCall:
    """``[PARTITION BY k], ts, length … )``: what stands behind the source of a call."""
    start, form = cursor.place.start, FORMS[word]
    partition: tuple[str, ...] = ()
    if word == "SESSION" and cursor.take("PARTITION BY"):
        partition, time = _partition(cursor, form)
    else:
        cursor.expect(",", form)
        time = _time(cursor, form)
    lengths = _lengths(cursor, word, form)
    offset = 0
    if word != "SESSION" and cursor.take(","):
        cursor.take("OFFSET", "=>")
        sign = -1 if cursor.take("-") else 1
        offset = sign * _length(cursor, "the offset", form, zero=True)
    if cursor.word() != ")":
        raise cursor.error(f"{cursor.shown} does not belong to {word}", form)
    span = TextSpan(start, cursor.place.end)
    cursor.take(")")
    if word == "CUMULATE" and lengths[1] % lengths[0]:
        raise cursor.error("the size of CUMULATE has to be a multiple of its step", form, span)
    return WindowCall(windows_of(word, lengths, offset, partition), time, span)


def _lengths(cursor: Cursor, word: str, form: str) -> list[int]:
    """``, length`` for each that the windows have, or ``, SIZE => length`` in any order."""
    lengths: dict[str, int] = {}
    for place in _LENGTHS[word]:
        cursor.expect(",", form)
        named = [role for role in _LENGTHS[word] if cursor.take(role.split()[1].upper(), "=>")]
        role = next(iter(named), place)
        if role in lengths:
            raise cursor.error(f"{role} is given twice", form)
        lengths[role] = _length(cursor, role, form)
    return [lengths[role] for role in _LENGTHS[word]]


def windows_of(
    word: str, lengths: list[int], offset: int = 0, partition: tuple[str, ...] = ()
) -> FinishedWindows:
    """The windows of a call; an offset counts within the distance of two starts."""
    if word == "SESSION":
        return Sessions(lengths[0], partition)
    period, size, cumulative = lengths[0], lengths[-1], word == "CUMULATE"
    return PeriodicWindows(size, period, offset % (size if cumulative else period), cumulative)


def _partition(cursor: Cursor, form: str) -> tuple[tuple[str, ...], str]:
    """``k1, k2, ts`` or ``(k1, k2), ts``: the last of the names is the time."""
    if cursor.take("("):
        names = cursor.names("a column to partition by")
        cursor.expect(")", form)
        cursor.expect(",", form)
        return names, _time(cursor, form)
    listed = [cursor.name("a column to partition by")]
    while cursor.take(","):
        if cursor.word() in ("DESCRIPTOR", "TIMECOL"):
            return tuple(listed), _time(cursor, form)
        listed.append(cursor.name("the time column"))
        following = cursor.tokens[cursor.position + 1 : cursor.position + 2]
        is_name = following and following[0].token_type in (TokenType.VAR, TokenType.IDENTIFIER)
        if cursor.word() == "," and not is_name:
            break
    if len(listed) < 2:
        raise cursor.error(f"expected the time column, found {cursor.shown}", form)
    return tuple(listed[:-1]), listed[-1]


def _time(cursor: Cursor, form: str) -> str:
    """``ts``, ``s.ts`` or ``DESCRIPTOR(ts)``, perhaps behind ``TIMECOL =>``."""
    cursor.take("TIMECOL", "=>")
    described = cursor.take("DESCRIPTOR", "(")
    name = cursor.name("the time column")
    if cursor.take("."):
        name = cursor.name("the time column")
    if described:
        cursor.expect(")", form)
    return name


def _length(cursor: Cursor, role: str, form: str, *, zero: bool = False) -> int:
    """``INTERVAL '10' MINUTE``, ``INTERVAL 10 MIN``, ``'10 minutes'`` or ``10 MIN``; what may be
    zero may also be ``'-10 minutes'``."""
    cursor.take("INTERVAL")
    token, place = cursor.current, cursor.place
    if token is None or token.token_type is not TokenType.STRING:
        return cursor.duration(role, form, zero=zero)
    text = cursor.string(role)
    sign = -1 if zero and text.strip().startswith("-") else 1
    text = text.strip().removeprefix("-") if sign < 0 else text
    if text.strip().isdecimal() and cursor.word().isalpha():
        text = f"{text} {cursor.word()}"
        cursor.position += 1
    return sign * _micros(cursor, text, role, form, place, zero)


def _micros(cursor: Cursor, text: str, role: str, form: str, place: TextSpan, zero: bool) -> int:
    try:
        length = micros(text)
    except InvalidSetting:
        raise cursor.error(f"{text!r} is not an interval", form, place) from None
    if not length and not zero:
        raise cursor.error(f"{role} is empty", "use at least 1 microsecond", place)
    return length
