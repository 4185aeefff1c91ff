"""Java's regular expressions and replacement texts, written over for Python's ``re``.

Letters, digits and word boundaries are ASCII, as in Java 19 and later without flags. What Java
has and Python has not is written out: classes of properties and POSIX names, unions and
intersections of classes, quoting by \\Q…\\E, flags in the middle, other line ends. What remains is
an error.

Searching takes time linear in the text: RE2 does it. What RE2 has not (looking around, references
to groups, possessive repetition; a final line end before $, other than ASCII letters under (?i)) is
left to Python's ``re``, which backtracks, and refused where that may take too long.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

import re2

from mayfly.kernels.functions.operands import Undefined, check_length

_LINE_ENDS = "\\n\\r\\u0085\\u2028\\u2029"
_ANY = f"[^{_LINE_ENDS}]"
_END = f"(?:(?=(?:\\r\\n|[{_LINE_ENDS}])?\\Z)(?!(?<=\\r)\\n\\Z))"
_ESCAPES = {
    "h": "[ \\t\\xa0\\u1680\\u180e\\u2000-\\u200a\\u202f\\u205f\\u3000]",
    "H": "[^ \\t\\xa0\\u1680\\u180e\\u2000-\\u200a\\u202f\\u205f\\u3000]",
    "v": "[\\n\\x0b\\f\\r\\x85\\u2028\\u2029]",
    "V": "[^\\n\\x0b\\f\\r\\x85\\u2028\\u2029]",
    "R": "(?:\\r\\n|[\\n\\x0b\\f\\r\\x85\\u2028\\u2029])",
    "z": "(?:\\Z)",
    "Z": _END,
    "e": "\\x1b",
}
_POSIX = {
    "Lower": "a-z",
    "Upper": "A-Z",
    "ASCII": "\\x00-\\x7f",
    "Alpha": "a-zA-Z",
    "Digit": "0-9",
    "Alnum": "a-zA-Z0-9",
    "Punct": "!-/:-@\\[-`{-~",
    "Graph": "!-~",
    "Print": " -~",
    "Blank": " \\t",
    "Cntrl": "\\x00-\\x1f\\x7f",
    "XDigit": "0-9a-fA-F",
    "Space": " \\t\\n\\x0b\\f\\r",
}
_CLASSES = {"d": "0-9", "w": "a-zA-Z0-9_", "s": " \\t\\n\\x0b\\f\\r"}
_ENDS = ("\n", "\r", "\u0085", "\u2028", "\u2029")


MOST_STEPS = 200_000_000
"""What backtracking may cost at worst: some seconds."""


@dataclass(frozen=True)
class JavaPattern:
    """A pattern for both engines; ``linear`` is None where RE2 cannot express it."""

    written: str
    backtracking: re.Pattern[str]
    linear: Any
    ends: bool
    folds: bool
    repeats: int
    nested: bool

    @property
    def groups(self) -> int:
        return self.backtracking.groups

    def number(self, group: str | int) -> int:
        return group if isinstance(group, int) else self.backtracking.groupindex[group]

    def search(self, text: str) -> Any:
        """The first match, or None."""
        engine, units = self._engine(text)
        return engine.search(units)

    def matches(self, text: str) -> Iterator[Any]:
        """All matches; after an empty one Java goes on one character further."""
        engine, units = self._engine(text)
        position = 0
        while position <= len(units) and (match := engine.search(units, position)):
            yield match
            position = match.end()
            if match.start() == position:
                position += 1
                while (
                    isinstance(units, bytes)
                    and units[position : position + 1]
                    and units[position] & 0xC0 == 0x80
                ):
                    position += 1

    def _engine(self, text: str) -> tuple[Any, str | bytes]:
        """What searches a text, and the text as it takes it: RE2 takes UTF-8."""
        same_end = not self.ends or text[-1:] not in _ENDS
        if self.linear is not None and same_end and (not self.folds or text.isascii()):
            return self.linear, text.encode()
        steps = len(text) ** (1 + self.repeats)
        if steps > MOST_STEPS or (self.nested and len(text) > 1):
            reason = "repeats what is itself repeated or a choice" if self.nested else "repeats"
            raise Undefined(
                f"{self.written!r} {reason}, and looks around, refers to its groups or takes all "
                f"it can: searching {len(text):,} characters may take too long"
            )
        return self.backtracking, text


@cache
def _every_character() -> frozenset[int]:
    return frozenset(range(0x110000))


@lru_cache(maxsize=512)
def compiled(pattern: str) -> JavaPattern:
    """The pattern that matches what Java's would."""
    try:
        translation = _Translation(pattern)
        text = translation.text()
        backtracking = re.compile(text, re.ASCII)
    except (re.error, OverflowError, RecursionError) as error:
        raise Undefined(f"{pattern!r} is not a regular expression: {error}") from None
    return JavaPattern(
        pattern,
        backtracking,
        _linear(text),
        _END in text,
        translation.folds,
        translation.repeats,
        translation.nested,
    )


def _linear(text: str) -> Any:
    """RE2's pattern for one that is written for Python; None if it has none."""
    options = re2.Options()
    options.log_errors = False
    plain = re.sub(
        r"\\(u[0-9a-f]{4}|U[0-9a-f]{8}|.)", _for_re2, text.replace(_END, r"\Z"), flags=re.S
    )
    try:
        return re2.compile(plain.encode(), options)
    except (re2.error, UnicodeEncodeError):
        return None


def _for_re2(escape: re.Match[str]) -> str:
    code = escape[1]
    if len(code) > 1:
        return f"\\x{{{int(code[1:], 16):x}}}"
    spaces = " \\t\\n\\x0b\\f\\r"
    written = {"Z": "\\z", "s": f"[{spaces}]", "S": f"[^{spaces}]"}
    if code in written:
        return written[code]
    return escape[0] if code.isalnum() else f"\\x{{{ord(code):x}}}"


class _Head(str):
    """The beginning of a group for flags that hold from here to the end of the group around."""

    __slots__ = ()


_COUNT = re.compile(r"\d+(?:,\d*)?\}", re.ASCII)


class _Translation:
    """One pass over a Java pattern; ``dotall`` and ``lines`` are the flags in force."""

    def __init__(self, pattern: str) -> None:
        self.pattern, self.position = pattern, 0
        self.dotall = self.lines = self.comments = False
        self.folds = self.nested = False
        self.repeats = self.choices = 0

    def text(self) -> str:
        translation = self._alternatives()
        if self.position < len(self.pattern):
            raise re.error("unbalanced parenthesis")
        return translation

    def _next(self, count: int = 1) -> str:
        piece = self.pattern[self.position : self.position + count]
        if len(piece) < count:
            raise re.error("the pattern ends too early")
        self.position += count
        return piece

    def _looking_at(self, text: str) -> bool:
        return self.pattern.startswith(text, self.position)

    def _alternatives(self) -> str:
        """Up to the parenthesis that closes this group; flags set inside end with it."""
        flags = self.dotall, self.lines, self.comments
        parts: list[str] = []
        heads: list[str] = []
        while self.position < len(self.pattern) and not self._looking_at(")"):
            part = self._element()
            if part == "|":
                part = ")" * len(heads) + "|" + "".join(heads)
            elif isinstance(part, _Head):
                heads.append(part)
            parts.append(part)
        self.dotall, self.lines, self.comments = flags
        return "".join(parts) + ")" * len(heads)

    def _element(self) -> str:
        letter = self._next()
        if letter == "\\":
            return self._escape()
        if letter == "[":
            return _written(self._class())
        if letter == "(":
            return self._group()
        if letter == ".":
            return "(?s:.)" if self.dotall else _ANY
        if letter == "^":
            return f"(?:(?<![^{_LINE_ENDS}])(?!(?<=\\r)\\n)(?!\\Z))" if self.lines else "(?:\\A)"
        if letter == "$":
            return f"(?:(?=[{_LINE_ENDS}])(?!(?<=\\r)\\n)|\\Z)" if self.lines else _END
        if self.comments and letter in "# \t\n\r\f\v":
            return self._comment(letter)
        if letter == "{" and not _COUNT.match(self.pattern, self.position):
            raise re.error("{ needs a number of repetitions")
        self.repeats += letter in "*+{"
        self.choices += letter in "?|"
        return letter if letter in "*+?{}|" else re.escape(letter)

    def _comment(self, letter: str) -> str:
        while letter == "#" and self.position < len(self.pattern) and self._next() != "\n":
            pass
        return ""

    def _group(self) -> str:
        head = "("
        if self._looking_at("?"):
            match = re.compile(r"\?(?:[:=!>]|<[=!]|<([a-zA-Z][a-zA-Z0-9]*)>)").match(
                self.pattern, self.position
            )
            if match is None:
                return self._flags()
            self.position = match.end()
            head = f"(?P<{match[1]}>" if match[1] else f"({match[0]}"
        return self._closed(head)

    def _closed(self, head: str) -> str:
        """The rest of a group; one that repeats or has a choice is costly to repeat."""
        before = self.repeats + self.choices
        body = self._alternatives()
        if self._next() != ")":
            raise re.error("unbalanced parenthesis")
        repeated = self.pattern[self.position : self.position + 1] in ("*", "+", "{")
        self.nested |= repeated and self.repeats + self.choices > before
        return f"{head}{body})"

    def _flags(self) -> str:
        match = re.compile(r"\?([idmsuxU]*)(?:-([idmsuxU]*))?([:)])").match(
            self.pattern, self.position
        )
        if match is None:
            raise re.error("unknown group")
        self.position = match.end()
        kept = self.dotall, self.lines, self.comments
        for flags, value in ((match[1], True), (match[2] or "", False)):
            self.dotall = value if "s" in flags else self.dotall
            self.lines = value if "m" in flags else self.lines
            self.comments = value if "x" in flags else self.comments
        on = "i" if "i" in match[1] else ""
        self.folds |= bool(on)
        off = "-i" if "i" in (match[2] or "") else ""
        head = _Head(f"(?{on}{off}:")
        if match[3] == ")":
            return head
        group = self._closed(head)
        self.dotall, self.lines, self.comments = kept
        return group

    def _escape(self) -> str:
        letter = self._next()
        if letter == "Q":
            quoted, _, _ = self.pattern[self.position :].partition("\\E")
            self.position = min(len(self.pattern), self.position + len(quoted) + 2)
            return re.escape(quoted)
        if letter in _ESCAPES:
            return _ESCAPES[letter]
        if letter in "pP":
            return _written(self._property(letter == "P"))
        if letter in "dDwWsS":
            return f"\\{letter}"
        if letter in "123456789bBA":
            return f"(?:\\{letter})"
        if letter == "k":
            name = re.compile(r"<([a-zA-Z][a-zA-Z0-9]*)>").match(self.pattern, self.position)
            if name is None:
                raise re.error("\\k needs the name of a group")
            self.position = name.end()
            return f"(?P={name[1]})"
        return re.escape(self._character(letter))

    def _character(self, letter: str) -> str:
        """The one character that an escape stands for."""
        simple = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "a": "\a", "e": "\x1b"}
        if letter in simple:
            return simple[letter]
        if letter == "x" and self._looking_at("{"):
            digits = self.pattern[self.position + 1 : self.pattern.index("}", self.position)]
            self.position += len(digits) + 2
            return chr(int(digits, 16))
        if letter in "xu":
            return chr(int(self._next(2 if letter == "x" else 4), 16))
        if letter == "0":
            octal = re.compile(r"[0-3]?[0-7]{1,2}").match(self.pattern, self.position)
            if octal is None:
                raise re.error("\\0 needs an octal number")
            self.position = octal.end()
            return chr(int(octal[0], 8))
        if letter == "c":
            return chr(ord(self._next()) ^ 64)
        if letter.isascii() and letter.isalpha():
            raise re.error(f"\\{letter} is unknown")
        return letter

    def _property(self, negated: bool) -> frozenset[int]:
        name = self._next()
        if name == "{":
            end = self.pattern.find("}", self.position)
            if end < 0:
                raise re.error("\\p{ is not closed")
            name, self.position = self.pattern[self.position : end], end + 1
        characters = _property(name)
        return _every_character() - characters if negated else characters

    def _class(self) -> frozenset[int]:
        """A class in brackets as the set of its characters; the bracket is behind us."""
        negated = self._looking_at("^")
        self.position += negated
        members: frozenset[int] = frozenset()
        both: frozenset[int] | None = None
        first = True
        while first or not self._looking_at("]"):
            if self._looking_at("&&"):
                self.position += 2
                both, members = members if both is None else both & members, frozenset()
            else:
                members |= self._member()
            first = False
        self.position += 1
        members = members if both is None else both & members
        return _every_character() - members if negated else members

    def _member(self) -> frozenset[int]:
        letter = self._next()
        if letter == "[":
            return self._class()
        if letter == "\\":
            letter = self._next()
            if letter in "pP":
                return self._property(letter == "P")
            if letter.lower() in _CLASSES:
                characters = _characters(_CLASSES[letter.lower()])
                return characters if letter.islower() else _every_character() - characters
            if letter in "hHvV":
                return (
                    _characters(_ESCAPES[letter.lower()][1:-1])
                    if letter.islower()
                    else (_every_character() - _characters(_ESCAPES[letter.lower()][1:-1]))
                )
            letter = self._character(letter)
        if self._looking_at("-") and not self._looking_at("-]") and not self._looking_at("-["):
            self.position += 1
            last = self._next()
            last = self._character(self._next()) if last == "\\" else last
            if last < letter:
                raise re.error(f"the range {letter}-{last} is empty")
            return frozenset(range(ord(letter), ord(last) + 1))
        return frozenset((ord(letter),))


@lru_cache(maxsize=64)
def _characters(members: str) -> frozenset[int]:
    """The characters that a Python class matches."""
    test = re.compile(f"[{members}]")
    return frozenset(code for code in range(0x3001) if test.match(chr(code)))


@lru_cache(maxsize=64)
def _property(name: str) -> frozenset[int]:
    if name in _POSIX:
        return _characters(_POSIX[name])
    tests = {
        "javaLowerCase": str.islower,
        "javaUpperCase": str.isupper,
        "javaWhitespace": str.isspace,
        "IsAlphabetic": str.isalpha,
        "IsLetter": str.isalpha,
        "IsDigit": str.isdecimal,
        "IsLowercase": str.islower,
        "IsUppercase": str.isupper,
        "IsWhite_Space": str.isspace,
    }
    if name in tests:
        return frozenset(code for code in range(0x110000) if tests[name](chr(code)))
    category = re.sub("^(Is|general_category=|gc=)", "", name)
    characters = frozenset(
        code for code in range(0x110000) if unicodedata.category(chr(code)).startswith(category)
    )
    if not characters or len(category) > 2:
        raise re.error(f"the property {name} is unknown")
    return characters


def _written(members: frozenset[int]) -> str:
    """A Python class of exactly these characters."""
    if not members:
        return "[^\\U00000000-\\U0010ffff]"
    return f"[{_ranges(members)}]"


@lru_cache(maxsize=256)
def _ranges(members: frozenset[int]) -> str:
    ordered = sorted(members)
    pieces, start = [], ordered[0]
    for code, following in zip(ordered, [*ordered[1:], -1], strict=True):
        if following != code + 1:
            pieces.append(f"\\U{start:08x}-\\U{code:08x}" if code > start else f"\\U{start:08x}")
            start = following
    return "".join(pieces)


def replaced(text: str, pattern: str, replacement: str) -> str:
    """Every match replaced; in the replacement $1 and ${name} are groups, \\ takes a letter."""
    expression = compiled(pattern)
    done: list[str] = []
    rest: str | bytes | None = None
    start = size = 0
    for match in expression.matches(text):
        rest = match.string
        done.append(_text(match.string[start : match.start()]))
        for literal, piece in _replacement(replacement, expression.groups):
            try:
                done.append(str(piece) if literal else _text(match[expression.number(piece)] or ""))
            except (IndexError, KeyError):
                raise Undefined(f"{replacement!r} names a group that {pattern!r} lacks") from None
            size += len(done[-1])
        check_length(size)
        start = match.end()
    return text if rest is None else "".join(done) + _text(rest[start:])


def _text(units: str | bytes) -> str:
    return units.decode() if isinstance(units, bytes) else units


@lru_cache(maxsize=512)
def _replacement(text: str, groups: int) -> tuple[tuple[bool, str | int], ...]:
    pieces: list[tuple[bool, str | int]] = []
    position = 0
    while position < len(text):
        if text[position] == "\\":
            if position + 1 == len(text):
                raise Undefined(f"the replacement {text!r} ends in a backslash")
            pieces.append((True, text[position + 1]))
            position += 2
        elif text[position] == "$":
            named = re.compile(r"\$\{([a-zA-Z][a-zA-Z0-9]*)\}").match(text, position)
            group: str | int
            if named:
                group, position = named[1], named.end()
            else:
                group, position = _group_number(text, position + 1, groups)
            pieces.append((False, group))
        else:
            plain = re.compile(r"[^\\$]+").match(text, position)
            assert plain is not None
            pieces.append((True, plain[0]))
            position = plain.end()
    return tuple(pieces)


def _group_number(text: str, position: int, groups: int) -> tuple[int, int]:
    """As many digits as still name a group; the first one always counts."""
    if not text[position : position + 1].isdigit():
        raise Undefined(f"$ names no group in the replacement {text!r}")
    number, position = int(text[position]), position + 1
    while text[position : position + 1].isdigit() and number * 10 + int(text[position]) <= groups:
        number, position = number * 10 + int(text[position]), position + 1
    return number, position
