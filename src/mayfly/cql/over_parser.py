"""OVER, ASOF JOIN and FOR SYSTEM_TIME AS OF: the parts of the skeleton that name neighbours."""

from __future__ import annotations

from typing import Any, cast

from sqlglot import exp
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokenizer_core import TokenType

_FRAME_WORDS = (
    *("ROWS", "RANGE", "BETWEEN", "UNBOUNDED", "PRECEDING", "FOLLOWING", "CURRENT", "ROW"),
    *("GROUPS", "PARTITION", "OVER", "FIRST", "LAST", "NULLS"),
)
ASOF_FORM = "write s ASOF JOIN r MATCH_CONDITION (r.ts <= s.ts) ON r.k = s.k"


class NeighbourSyntax(SparkParser):
    """Reads windows of functions and joins by closest time for the parser of queries."""

    def _parse_window(self, this: exp.Expr | None, alias: bool = False) -> exp.Expr | None:
        token, start = self._curr, self._index
        window = super()._parse_window(this, alias)
        if window is not this and isinstance(window, exp.Window):
            self._note_words(start)
            cast("Any", self)._placed(window, token)
        return window

    def _note_words(self, start: int) -> None:
        """The words of a frame have no node of their own."""
        apart = cast("Any", self).read_apart
        for token in self._tokens[start : self._index]:
            if token.text.upper() in _FRAME_WORDS and token.token_type is not TokenType.IDENTIFIER:
                apart.add(token.start)

    def _parse_join(self, *_: Any, **__: Any) -> exp.Join | None:
        parser = cast("Any", self)
        token = self._curr
        if (view := parser._lateral_view()) is not None:
            return cast("exp.Join", view)
        if self._match(TokenType.COMMA):
            table = self._parse_table()
            return cast("exp.Join", parser._placed(exp.Join(this=table, kind="CROSS"), token))
        method, side, kind = self._parse_join_parts()
        if method is None and side is not None and self._match(TokenType.ASOF):
            method = self._prev
        if not self._match(TokenType.JOIN):
            if method or side or kind:
                raise parser._problem("expected JOIN", "write JOIN … ON …")
            return None
        words = {"method": method, "side": side, "kind": kind}
        texts = {name: word.text.upper() for name, word in words.items() if word}
        join = exp.Join(this=self._parse_table(), **texts)
        self._match_condition(join)
        if self._match(TokenType.ON):
            condition = self._parse_disjunction()
            if condition is None:
                raise parser._problem("ON needs a condition", "write ON a.x = b.x")
            join.set("on", condition)
        elif self._match(TokenType.USING):
            join.set("using", self._parse_using_identifiers())
        return cast("exp.Join", parser._placed(join, token))

    def _parse_table_alias(self, *options: Any, **named: Any) -> exp.TableAlias | None:
        if self._curr.text.upper() == "MATCH_CONDITION":
            return None
        return super()._parse_table_alias(*options, **named)

    def _match_condition(self, join: exp.Join) -> None:
        """``MATCH_CONDITION (r.t <= l.t)`` behind the table of an ASOF join."""
        token = self._curr
        if token.text.upper() != "MATCH_CONDITION":
            return
        parser = cast("Any", self)
        if join.args.get("method") != "ASOF":
            raise parser._problem("MATCH_CONDITION belongs to ASOF JOIN", ASOF_FORM)
        parser._skip_to(self._index + 1)
        if not self._match(TokenType.L_PAREN):
            raise parser._problem("expected ( after MATCH_CONDITION", ASOF_FORM)
        join.set("match_condition", self._parse_disjunction())
        self._match_r_paren()

    def _read_version(self, source: exp.Expr) -> None:
        """``FOR SYSTEM_TIME AS OF l.ts`` behind a table, or ``FOR SYSTEM_TIME AS OF`` of Flink."""
        words = [token.text.upper() for token in self._tokens[self._index : self._index + 4]]
        if words[:2] != ["FOR", "SYSTEM_TIME"]:
            return
        parser = cast("Any", self)
        if words != ["FOR", "SYSTEM_TIME", "AS", "OF"]:
            hint = "write JOIN r FOR SYSTEM_TIME AS OF s.ts ON r.k = s.k"
            raise parser._problem("expected FOR SYSTEM_TIME AS OF", hint)
        parser._skip_to(self._index + 4)
        start = self._index
        moment = self._parse_column()
        parser.read_apart.update(token.start for token in self._tokens[start : self._index])
        if moment is None or self._curr.token_type is TokenType.STRING:
            raise parser._problem(
                "FOR SYSTEM_TIME AS OF needs the time of a row",
                "write JOIN r FOR SYSTEM_TIME AS OF s.ts ON r.k = s.k",
            )
        source.meta["version"] = moment
