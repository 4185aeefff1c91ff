"""Whether a syntax tree holds all of its text: sqlglot skips words it can do without."""

from __future__ import annotations

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from mayfly.cql.messages import SourceText, error_at
from mayfly.cql.tokens import span_of

_NOISE = (
    *("NULLS", "FIRST", "LAST", "ALL", "INNER", "CROSS", "OUTER"),
    *("IGNORE", "RESPECT", "WITHIN", "GROUP"),
)


def check_complete(source: SourceText, tokens: list[Token], tree: exp.Expr) -> None:
    """Every name and constant of the text is in the tree: sqlglot skips words it can do without."""
    starts = {node.meta["start"] for node in tree.walk() if "start" in node.meta}
    starts |= tree.meta["read_apart"]
    for before, token in zip([None, *tokens], tokens, strict=False):
        if before is not None and before.token_type is TokenType.DOT and token.text[0].isdecimal():
            continue  # .5 is one number in two tokens
        if token.token_type not in (*_NAMES, TokenType.STRING, TokenType.NUMBER):
            continue
        if token.start not in starts and token.text.upper() not in _NOISE:
            problem = f"{source.text[token.start : token.end + 1]} has no meaning here"
            raise error_at(source, span_of(token), problem, "remove it")


_NAMES = (TokenType.VAR, TokenType.IDENTIFIER)
