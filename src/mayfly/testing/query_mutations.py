"""Other spellings of a query, damaged ones, and ones that are wrong at a known place."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

_PIECES = re.compile(r"'[^']*'|[A-Za-z_]\w*|\d+|\s+|[^\w\s]")
_KEYWORDS = {
    *("select", "distinct", "from", "where", "group", "by", "having", "and", "or", "not", "as"),
    *("join", "cross", "on", "exists", "in", "between", "like", "is", "null", "case", "when"),
    *("then", "else", "end", "union", "except", "all", "order", "limit", "range", "rows", "slide"),
    *("origin", "partition", "now", "unbounded", "landmark", "until", "count", "sum", "avg", "min"),
    *("max", "istream", "dstream", "rstream", "abs", "coalesce", "upper", "length", "median"),
}
_BLANKS = (" ", "\n", "\t", "  ", " /* x */ ", " -- y\n", " /* ; ' */ ")
_NOISE = (
    *("SELECT", "FROM", "WHERE", "(", ")", "[", "]", ",", "'", "`", '"', ";", "*", "=", "<", "1"),
    *("OVER", "LEFT JOIN", "WITH", "VALUES", "NULL", "DISTINCT", "GROUP BY", "ROWS", "INTERNAL"),
    *("1e999", "::", "->", "{", "}", ":x", "?", "@", "\\", "é", "\x00", "EXISTS", "INTERVAL", "."),
)


def respelled(text: str, rng: Random) -> str:
    """The same query with other letters in its keywords, other blanks, and comments."""
    written = []
    for piece in _PIECES.findall(text):
        if piece.isspace():
            written.append(rng.choice(_BLANKS))
        elif piece.lower() in _KEYWORDS:
            written.append("".join(rng.choice((c.lower(), c.upper())) for c in piece))
        else:
            written.append(piece)
    return "".join(written)


def damaged(text: str, rng: Random) -> str:
    """The query with some words removed, doubled, exchanged or put in; it may still be valid."""
    pieces = _PIECES.findall(text)
    for _ in range(rng.randint(1, 3)):
        position, other = rng.randrange(len(pieces)), rng.randrange(len(pieces))
        kind = rng.randrange(4)
        if kind == 0:
            pieces[position] = ""
        elif kind == 1:
            pieces[position] += f" {rng.choice(_NOISE)} "
        elif kind == 2:
            pieces[position] = f" {rng.choice(_NOISE)} "
        else:
            pieces[position], pieces[other] = pieces[other], pieces[position]
    return "".join(pieces)


@dataclass(frozen=True)
class BrokenQuery:
    """A query with one mistake; ``place`` is the offset an error must point at."""

    text: str
    place: int
    mistake: str


@dataclass(frozen=True)
class _Mistake:
    """Text that matches ``pattern`` becomes ``wrong``; the error stands ``shift`` behind its start.

    A shift of -1 means the last word of the wrong text.
    """

    name: str
    pattern: str
    wrong: Callable[[re.Match[str]], str]
    shift: int = 0


_MISTAKES = (
    _Mistake("unknown column", r"\b(t\d)\.([kgvxhw])\b", lambda m: f"{m[1]}.nosuch"),
    _Mistake("unknown entry of FROM", r"\b(t\d)\.([kgvxhw])\b", lambda m: f"u1.{m[2]}"),
    _Mistake("unknown stream", r"\b(s[123]) (?=\[|AS|t)", lambda m: "s9 "),
    _Mistake("unknown function", r"\bupper\(", lambda m: "uper("),
    _Mistake("text for a number", r"\bupper\(", lambda m: "abs(", len("abs(")),
    _Mistake("unknown unit", r"\bRANGE \d+ (\w+)", lambda m: m[0][: -len(m[1])] + "ages", -1),
    _Mistake("no rows", r"\bROWS (\d+)", lambda m: "ROWS 0", len("ROWS ")),
    _Mistake("parameter", r"'%a%'", lambda m: ":a"),
    _Mistake("misspelt operator", r"\bRstream\(", lambda m: "Rsteam("),
    _Mistake("foreign operator", r"\(t\d\.\w+ % 3\)", lambda m: m[0].replace("%", "|"), 1),
)


def broken(text: str, rng: Random) -> BrokenQuery | None:
    """The query with one mistake made at one place; None if none of the mistakes fits it."""
    for mistake in rng.sample(_MISTAKES, len(_MISTAKES)):
        places = list(re.finditer(mistake.pattern, text))
        if places:
            place = rng.choice(places)
            wrong = mistake.wrong(place)
            shift = mistake.shift if mistake.shift >= 0 else len(wrong) - len("ages")
            damaged_text = text[: place.start()] + wrong + text[place.end() :]
            return BrokenQuery(damaged_text, place.start() + shift, mistake.name)
    return None
