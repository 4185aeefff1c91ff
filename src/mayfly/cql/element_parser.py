"""Reads what takes arrays and maps apart: UNNEST, LATERAL VIEW explode, and ``x[i]``.

All ways to write one row per element become ``exp.Unnest`` in a join, so that the binder knows one
form: ``CROSS JOIN UNNEST(a) AS x(c)``, where OUTER is a LEFT JOIN ON TRUE.
"""

from __future__ import annotations

from typing import Any, cast

from sqlglot import exp
from sqlglot.errors import ParseError
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokenizer_core import Token, TokenType

EXPLODING = {"UNNEST": False, "EXPLODE": False, "EXPLODE_OUTER": True, "POSEXPLODE": False,
             "POSEXPLODE_OUTER": True}  # fmt: skip
"""What makes rows of elements, and whether a row without elements stays."""
WINDOW_WORDS = ("RANGE", "ROWS", "NOW", "UNBOUNDED", "PARTITION", "LANDMARK")
UNNEST_FORM = "write FROM s [RANGE 10 MIN] t, UNNEST(t.a) AS x(c)"


class SyntaxProblem(ParseError):
    """Raised while sqlglot may still backtrack; it becomes a CqlError when it escapes."""

    def __init__(self, problem: str, hint: str, token: Token | None) -> None:
        super().__init__(problem)
        self.problem, self.hint, self.token = problem, hint, token


class ElementParser(SparkParser):
    """The part of the parser that reads elements, and says where what it reads stands."""

    read_apart: set[int]
    """Where the tokens start that windows and intervals took out of sqlglot's hands."""

    def _problem(self, problem: str, hint: str) -> SyntaxProblem:
        return SyntaxProblem(problem, hint, self._curr or None)

    def _placed(self, node: Any, token: Token) -> Any:
        if isinstance(node, exp.Expression) and "start" not in node.meta:
            node.update_positions(token)
        return node

    def _skip_to(self, index: int) -> None:
        self.read_apart.update(token.start for token in self._tokens[self._index : index])
        self._advance(index - self._index)

    def _is_exploding(self) -> bool:
        """Whether ``UNNEST(…`` or one of its siblings comes next, perhaps behind LATERAL."""
        ahead = self._next if self._curr.token_type is TokenType.LATERAL else self._curr
        place = self._tokens.index(ahead, self._index) + 1 if ahead in self._tokens else 0
        behind = self._tokens[place] if 0 < place < len(self._tokens) else None
        called = behind is not None and behind.token_type is TokenType.L_PAREN
        return ahead is not None and ahead.text.upper() in EXPLODING and called

    def _unnest(self) -> exp.Expr:
        """``[LATERAL] UNNEST(x) [WITH ORDINALITY] [AS] alias[(a, b)]``."""
        self._match(TokenType.LATERAL)
        unnest = self._exploded()
        if self._curr.text.upper() == "WITH" and self._next.text.upper() == "ORDINALITY":
            self._skip_to(self._index + 2)
            unnest.meta["counts_from"] = 1
        unnest.set("alias", self._parse_table_alias())
        return unnest

    def _exploded(self) -> exp.Expr:
        token = self._curr
        self._skip_to(self._index + 1)
        self._match(TokenType.L_PAREN)
        values = self._parse_csv(self._parse_disjunction)
        self._match_r_paren()
        name = token.text.upper()
        if len(values) != 1:
            raise self._problem(f"{name} takes one array or map", UNNEST_FORM)
        unnest = self._placed(exp.Unnest(expressions=values), token)
        unnest.meta["function"], unnest.meta["outer"] = name, EXPLODING[name]
        if name.startswith("POS"):
            unnest.meta["counts_from"] = 0
        return cast("exp.Expr", unnest)

    def _lateral_view(self) -> exp.Join | None:
        """``LATERAL VIEW [OUTER] explode(x) alias [AS a, b]`` behind FROM."""
        token = self._curr
        if token.token_type is not TokenType.LATERAL or self._next.text.upper() != "VIEW":
            return None
        self._skip_to(self._index + 2)
        outer = self._curr.text.upper() == "OUTER"
        if outer:
            self._skip_to(self._index + 1)
        if self._curr.text.upper() not in EXPLODING:
            form = "write LATERAL VIEW explode(a) x AS c"
            raise self._problem(f"LATERAL VIEW takes explode, not {self._curr.text}", form)
        unnest = self._exploded()
        unnest.meta["outer"] |= outer
        name = None if self._curr.token_type is TokenType.ALIAS else self._parse_id_var()
        columns = self._parse_csv(self._parse_id_var) if self._match(TokenType.ALIAS) else []
        alias = exp.TableAlias(this=name or exp.to_identifier("exploded"), columns=columns)
        unnest.set("alias", alias)
        join = exp.Join(this=unnest, kind="CROSS")
        return cast("exp.Join", self._placed(join, token))

    def _element(self, this: exp.Expr) -> exp.Expr:
        """``x[i]``, perhaps again."""
        token = self._curr
        self._match(TokenType.L_BRACKET)
        index = self._parse_disjunction()
        if index is None or not self._match(TokenType.R_BRACKET):
            raise self._problem("[…] takes one index or key", "write a[0] or m['key']")
        return cast("exp.Expr", self._placed(exp.Bracket(this=this, expressions=[index]), token))
