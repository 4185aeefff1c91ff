"""Tokens of the language, and a cursor that reads them with errors that point at the place.

The lexer is sqlglot's for Spark SQL; every token knows its offsets in the whole file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import Token, TokenType

from mayfly.cql.messages import CqlError, SourceText, TextSpan, error_at, listing, suggestion
from mayfly.errors import InvalidSetting
from mayfly.lifetime import NEVER, instant, micros, unit_micros

_COUNT_DIGITS = 18
"""Of counts: rows, copies, versions."""
_BLANK = r"(?:\s|/\*(?:[^*]|\*(?!/))*\*/|--[^\n]*(?:\n|$))*"
_TERM = re.compile(rf"{_BLANK}(\d+(?:\.\d+)?){_BLANK}([a-zµ]+)", re.IGNORECASE)
_PIECE = re.compile(
    r"[^-/'`\"]+|--[^\n]*|/\*.*?\*/|'(?:[^'\\]|\\.|'')*'|`(?:[^`]|``)*`|\"(?:[^\"\\]|\\.)*\"|/\*|.",
    re.DOTALL,
)
_HALF_OF_A_PAIR = re.compile("[\ud800-\udfff]")
_NAMES_OF_OPENERS = {"'": "string", "`": "quoted name", '"': "string", "/*": "comment"}


STREAM_OPERATORS = ("istream", "dstream", "rstream", "wstream")


def is_operator(word: str) -> bool:
    """Whether a word is that of a stream operator or its restore form."""
    return word.lower().removesuffix("_restore") in STREAM_OPERATORS


def span_of(token: Token) -> TextSpan:
    return TextSpan(token.start, token.end + 1)


def tokenize(source: SourceText) -> list[Token]:
    """All tokens of a text; the offsets count from its beginning."""
    # The dialect is built on the parser, which reads windows with the cursor of this module.
    from mayfly.cql.dialect import Cql

    _refuse_half_pairs(source)
    _refuse_double_quotes(source)
    try:
        tokens = Cql().tokenize(source.text)
    except TokenError:
        raise _unterminated(source) from None
    return _joined(tokens)


def statement_texts(text: str) -> list[str]:
    """The statements of a text, without the semicolons behind them.

    >>> statement_texts("SELECT ';' FROM a; SELECT b FROM a;")
    ["SELECT ';' FROM a", 'SELECT b FROM a']
    """
    starts, ends = [0], []
    for token in tokenize(SourceText(text)):
        if token.token_type is TokenType.SEMICOLON:
            ends.append(token.start)
            starts.append(token.end + 1)
    pieces = (text[start:end] for start, end in zip(starts, [*ends, len(text)], strict=True))
    return [piece.strip() for piece in pieces if piece.strip()]


def _pieces(source: SourceText) -> Iterable[re.Match[str]]:
    return _PIECE.finditer(source.text)


def _refuse_half_pairs(source: SourceText) -> None:
    """Neither files nor columns nor Spark can hold them, wherever they stand in the text."""
    if not source.text.isascii() and (half := _HALF_OF_A_PAIR.search(source.text)):
        raise error_at(
            source,
            TextSpan(*half.span()),
            f"{half[0]!a} is half of a pair (a lone surrogate), which is not Unicode",
            "write the whole letter; only text that UTF-8 can hold is read",
        )


def _refuse_double_quotes(source: SourceText) -> None:
    for piece in _pieces(source):
        if piece[0].startswith('"') and len(piece[0]) > 1:
            raise error_at(
                source,
                TextSpan(*piece.span()),
                "double quotes mean a name in some systems and a string in others",
                "write 'text' for a string and `name` for a quoted name",
            )


def _unterminated(source: SourceText) -> CqlError:
    for piece in _pieces(source):
        if piece[0] in _NAMES_OF_OPENERS:
            what = _NAMES_OF_OPENERS[piece[0]]
            closer = "*/" if what == "comment" else piece[0]
            return error_at(
                source,
                TextSpan(*piece.span()),
                f"this {what} has no end",
                f"close it with {closer}",
            )
    return error_at(
        source, TextSpan(0, 1), "this text cannot be split into words", "check its quotes"
    )


_TWO_WORDS = {
    "GROUP": TokenType.GROUP_BY,
    "ORDER": TokenType.ORDER_BY,
    "PARTITION": TokenType.PARTITION_BY,
}
_OPERATORS = ("ISTREAM", "DSTREAM", "RSTREAM", "WSTREAM")
_FIRST = {*_OPERATORS, *_TWO_WORDS}


def _joined(tokens: list[Token]) -> list[Token]:
    """Words that belong together as one token.

    ``Istream-restore`` is one word, as in the thesis (3.4), not a subtraction; and sqlglot sees
    GROUP BY only where no comment stands between the two.
    """
    joined: list[Token] = []
    position = 0
    while position < len(tokens):
        word = tokens[position].text.upper()
        if word not in _FIRST:
            joined.append(tokens[position])
            position += 1
            continue
        first, *rest = tokens[position : position + 4]
        texts = [token.text.upper() for token in rest]
        if word in _OPERATORS and texts == ["-", "RESTORE", "("]:
            joined.append(_merged(TokenType.VAR, f"{first.text}_restore", first, rest[1]))
            position += 3
        elif word in _TWO_WORDS and texts[:1] == ["BY"]:
            joined.append(_merged(_TWO_WORDS[word], f"{word} BY", first, rest[0]))
            position += 2
        else:
            joined.append(first)
            position += 1
    return joined


def _merged(kind: TokenType, text: str, first: Token, last: Token) -> Token:
    return Token(kind, text, first.line, first.col, first.start, last.end)


class Cursor:
    """Reads tokens one by one; every refusal names what would have been right."""

    def __init__(self, source: SourceText, tokens: list[Token], position: int = 0) -> None:
        self.source = source
        self.tokens = tokens
        self.position = position

    @property
    def current(self) -> Token | None:
        return self.tokens[self.position] if self.position < len(self.tokens) else None

    @property
    def place(self) -> TextSpan:
        """Where the cursor stands; just behind the last token at the end."""
        if self.current:
            return span_of(self.current)
        end = self.tokens[-1].end + 1 if self.tokens else len(self.source.text)
        return TextSpan(end, end + 1)

    @property
    def shown(self) -> str:
        """What stands at the cursor, for messages."""
        token = self.current
        return self.source.text[token.start : token.end + 1] if token else "the end"

    def error(self, problem: str, hint: str, span: TextSpan | None = None) -> CqlError:
        return error_at(self.source, span or self.place, problem, hint)

    def word(self) -> str:
        """The bare word at the cursor in upper case; "" for strings and quoted names."""
        token = self.current
        quoted = token is None or token.token_type in (TokenType.STRING, TokenType.IDENTIFIER)
        return "" if quoted or token is None else " ".join(token.text.upper().split())

    def take(self, *words: str) -> bool:
        """Step over these words if they come next."""
        start = self.position
        for word in words:
            if self.word() != word:
                self.position = start
                return False
            self.position += 1
        return True

    def expect(self, word: str, hint: str) -> None:
        if not self.take(word):
            raise self.error(f"expected {word}, found {self.shown}", hint)

    def one_of(self, words: Iterable[str], what: str) -> str:
        """Step over one of the words and return it."""
        word, choices = self.word(), list(words)
        if word not in choices:
            hint = (
                suggestion(word, choices, "allowed") if word else f"allowed: {', '.join(choices)}"
            )
            raise self.error(f"expected {what}, found {self.shown}", hint)
        self.position += 1
        return word

    def name(self, what: str) -> str:
        """A plain or backquoted name."""
        token = self.current
        plain = token is not None and re.fullmatch(r"[^\W\d]\w*", token.text)
        if token is None or not (token.token_type is TokenType.IDENTIFIER or plain):
            hint = "quote unusual names: `my name`" if token else "the text ends too early"
            raise self.error(f"expected {what}, found {self.shown}", hint)
        if token.token_type is TokenType.STRING:
            raise self.error(
                f"expected {what}, found a string", "quote names with backticks: `my name`"
            )
        self.position += 1
        return str(token.text)

    def names(self, what: str) -> tuple[str, ...]:
        """A list of names separated by commas."""
        identifiers = [self.name(what)]
        while self.take(","):
            identifiers.append(self.name(what))
        return tuple(identifiers)

    def string(self, what: str) -> str:
        token = self.current
        if token is None or token.token_type is not TokenType.STRING:
            raise self.error(f"expected {what}, found {self.shown}", "write it in single quotes")
        self.position += 1
        return str(token.text)

    def count(self, what: str) -> int:
        """A whole number of at least 1."""
        token = self.current
        whole = token is not None and token.text.isdecimal() and len(token.text) <= _COUNT_DIGITS
        if token is None or not whole or int(token.text) < 1:
            raise self.error(
                f"expected {what}, found {self.shown}", "write a whole number from 1 on"
            )
        self.position += 1
        return int(token.text)

    def duration(self, what: str, hint: str = "", *, zero: bool = False) -> int:
        """A duration such as ``10 MIN`` or ``1 h 30 s``, in microseconds, at least 1.

        With ``zero`` it may be 0, with or without a unit.
        """
        advice = hint or "write a number and a unit from MICROSECOND to DAY, like 10 MIN"
        start = end = self.place.start
        smallest, text = NEVER, ""
        while term := _TERM.match(self.source.text, end):
            unit = unit_micros(term[2])
            if unit is None or unit >= smallest:
                break
            smallest, end = unit, term.end()
            text += f" {term[1]} {term[2]}"
        if end == start and zero and self.take("0"):
            return 0
        if end == start:
            raise self._no_duration(what, advice)
        text, span = text.strip(), TextSpan(start, end)
        while self.current and self.current.start < end:
            self.position += 1
        try:
            total = micros(text)
        except InvalidSetting as error:
            raise error_at(self.source, span, error.message, error.hint) from None
        if total < 1 and not zero:
            raise self.error(f"{what} of {text} is empty", "use at least 1 microsecond", span)
        return total

    def _no_duration(self, what: str, hint: str) -> CqlError:
        written = re.compile(r"(\d+)\s*(\w*)").match(self.source.text, self.place.start)
        if written and written[2]:
            return self.error(
                f"{written[2]} is not a unit of time", hint, TextSpan(*written.span(2))
            )
        if written:
            return self.error(f"{written[1]} has no unit of time", hint)
        return self.error(f"expected {what}, found {self.shown}", hint)

    def instant(self, what: str) -> int:
        """``[TIMESTAMP] 'ISO text'``, in microseconds since the epoch (UTC unless it says so)."""
        self.take("TIMESTAMP")
        span = self.place
        text = self.string(what)
        try:
            return instant(text)
        except InvalidSetting as error:
            raise error_at(self.source, span, error.message, error.hint) from None

    def finish(self, what: str, allowed: Iterable[str] = ()) -> None:
        """Refuse anything that is left."""
        if self.current:
            alternatives = list(allowed)
            hint = (
                f"allowed here: {listing(alternatives, 'or')}"
                if alternatives
                else "end it here, or with ;"
            )
            if self.word() and alternatives:
                hint = suggestion(self.word(), alternatives, "allowed here")
            raise self.error(f"{self.shown} does not belong to {what}", hint)
