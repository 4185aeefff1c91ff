"""Errors that point at the place in the text and say what is allowed there."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property

from mayfly.errors import InvalidSetting, MayflyError
from mayfly.plan.logical_operators import Position

SHOWN_WIDTH = 100


@dataclass(frozen=True)
class TextSpan:
    """Characters ``start`` to ``end`` (exclusive) of a text."""

    start: int
    end: int


@dataclass(frozen=True)
class SourceText:
    """A text of the language and the name of the file it came from, if any."""

    text: str
    name: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.text, str):
            raise InvalidSetting(f"{self.text!r} is not a statement or query", "give it as a text")
        # Editors put a byte order mark before a text; a blank keeps all places as they are.
        if self.text.startswith("\ufeff"):
            object.__setattr__(self, "text", f" {self.text[1:]}")

    def position(self, offset: int) -> Position:
        offset = min(offset, len(self.text))
        line = bisect_right(self._starts, offset)
        return Position(line, offset - self._starts[line - 1] + 1)

    @cached_property
    def _starts(self) -> list[int]:
        """Where the lines begin."""
        return [0, *(newline.end() for newline in re.finditer("\n", self.text))]

    def offset(self, position: Position) -> int:
        return self._starts[position.line - 1] + position.column - 1

    def word_end(self, start: int) -> int:
        """Where the word, name or sign that begins at ``start`` ends."""
        word = re.compile(r"`[^`]*`|\w+|.").match(self.text, start)
        return word.end() if word else start + 1

    def excerpt(self, span: TextSpan) -> str:
        """The line of the place with carets under it; long lines are cut around the place.

        What UTF-8 cannot hold is shown as ``?``, so that the message can be printed and stored.
        """
        position = self.position(span.start)
        line = self.text.split("\n")[position.line - 1].replace("\t", " ").rstrip("\r")
        line = line.encode(errors="replace").decode()
        offset = position.column - 1
        width = max(1, min(span.end - span.start, len(line) - offset))
        cut = max(0, offset - 2 * SHOWN_WIDTH // 3) if len(line) > SHOWN_WIDTH else 0
        shown = ("…" if cut else "") + line[cut : cut + SHOWN_WIDTH]
        shown += "…" if len(line) > cut + SHOWN_WIDTH else ""
        indent = offset - cut + bool(cut)
        gutter = " " * len(str(position.line))
        carets = "^" * min(width, max(1, len(shown) - indent))
        return f"  {position.line} | {shown}\n  {gutter} | {' ' * indent}{carets}"


class CqlError(MayflyError):
    """A text that is not in the language, or names what does not exist or does not fit.

    ``problem`` is the complaint alone, ``position`` where it is; ``message`` holds both and the
    line of the text with a caret under the place.
    """

    def __init__(
        self, message: str, hint: str = "", problem: str = "", position: Position | None = None
    ) -> None:
        super().__init__(message, hint)
        self.problem = problem or message
        self.position = position

    def __reduce__(self) -> tuple[type[CqlError], tuple[object, ...]]:  # type: ignore[override]
        return type(self), (self.message, self.hint, self.problem, self.position)


def error_at(source: SourceText, span: TextSpan, problem: str, hint: str = "") -> CqlError:
    """The error for a place in a text."""
    position = source.position(span.start)
    where = f"{source.name}:{position.line}:{position.column}" if source.name else str(position)
    return CqlError(f"{where}: {problem}\n{source.excerpt(span)}", hint, problem, position)


def listing(names: Iterable[str], word: str = "and") -> str:
    """Names in words: ``a, b and c``."""
    *rest, last = [*names] or ["nothing"]
    return f"{', '.join(rest)} {word} {last}" if rest else last


def with_article(kind: str) -> str:
    return f"{'an' if kind[0] in 'aN' else 'a'} {kind}"


def suggestion(name: str, candidates: Iterable[str], what: str) -> str:
    """A hint for a misspelt name: the closest known one, or all of them."""
    names = list(candidates)
    return closest(name, names) or f"{what}: {', '.join(names) or 'none'}"


def closest(name: str, candidates: Iterable[str], similarity: float = 0.6) -> str:
    """``did you mean …?`` with the closest known name; "" if none is close."""
    folded = {candidate.casefold(): candidate for candidate in candidates}
    close = get_close_matches(name.casefold(), folded, n=1, cutoff=similarity)
    return f"did you mean {folded[close[0]]}?" if close else ""
