"""LIKE: a pattern of fixed pieces, matched in time linear in the text."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from mayfly.kernels.functions.operands import Undefined


@dataclass(frozen=True)
class LikePattern:
    """Pieces of fixed length with any text between them, found from the left one by one.

    The leftmost place is always good enough for a piece, so nothing is tried twice.
    """

    pieces: tuple[re.Pattern[str], ...]
    lengths: tuple[int, ...]

    def matches(self, text: str) -> bool:
        first, last = self.pieces[0], self.pieces[-1]
        if len(self.pieces) == 1:
            return first.fullmatch(text) is not None
        position, end = self.lengths[0], len(text) - self.lengths[-1]
        if end < position or not first.match(text) or not last.match(text, end):
            return False
        for piece in self.pieces[1:-1]:
            match = piece.search(text, position, end)
            if match is None:
                return False
            position = match.end()
        return True


@lru_cache(maxsize=512)
def like_pattern(pattern: str, escape: str) -> LikePattern:
    """LIKE: % any text, _ any character, the escape character takes the next one literally."""
    pieces: list[list[str]] = [[]]
    position = 0
    while position < len(pattern):
        letter = pattern[position]
        if letter == escape:
            following = pattern[position + 1 : position + 2]
            if following not in ("_", "%", escape) or not following:
                raise Undefined(f"{escape} must come before _, % or itself in {pattern!r}")
            pieces[-1].append(re.escape(following))
            position += 1
        elif letter == "%":
            pieces.append([])
        else:
            pieces[-1].append("." if letter == "_" else re.escape(letter))
        position += 1
    return LikePattern(
        tuple(re.compile("".join(piece), re.DOTALL) for piece in pieces),
        tuple(map(len, pieces)),
    )
