"""SELECT as a dialect of sqlglot: Spark SQL expressions inside our own query skeleton.

sqlglot is liberal: it guesses, skips words and turns what it does not know into commands. So the
skeleton (SELECT, FROM, joins, windows, clauses and their order) is read here, strictly, and only
expressions and set operations are left to sqlglot. Functions keep the names they were written
with; ``grammar`` then walks the whole tree and refuses every node that is not in the language.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, TypeVar, cast

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ErrorLevel
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokenizer_core import Token, TokenType

from mayfly.cql.element_parser import WINDOW_WORDS, ElementParser, SyntaxProblem
from mayfly.cql.messages import CqlError, SourceText, TextSpan, error_at
from mayfly.cql.over_parser import NeighbourSyntax
from mayfly.cql.refusals import (
    ESPER_VIEWS,
    EXTRACTED,
    HINTS,
    INTERVALS,
    NO_TABLES,
    ORDER_OF_CLAUSES,
    SEQUENCES,
    TABLE_FUNCTIONS,
    in_our_words,
)
from mayfly.cql.resample_clause import is_resample, read_resample
from mayfly.cql.tokens import Cursor, is_operator, span_of
from mayfly.cql.window_clause import read_window
from mayfly.cql.window_functions import is_window_call, read_window_call
from mayfly.errors import InvalidSetting
from mayfly.lifetime import micros

T = TypeVar("T")
QUERY_STARTS = (TokenType.SELECT, TokenType.L_PAREN, TokenType.WITH)


_SEVERAL: dict[TokenType, type[exp.Expr]] = {
    TokenType.GROUPING_SETS: exp.GroupingSets,
    TokenType.ROLLUP: exp.Rollup,
    TokenType.CUBE: exp.Cube,
}


class CqlParser(ElementParser, NeighbourSyntax):
    """Reads one query, or one expression, from tokens."""

    FUNCTIONS: ClassVar[dict[str, Any]] = {}
    FUNCTION_PARSERS = {  # noqa: RUF012
        **{name: SparkParser.FUNCTION_PARSERS[name] for name in ("CAST", "TRY_CAST")},
        "EXTRACT": lambda parser: parser._extract(),
    }
    NO_PAREN_FUNCTION_PARSERS = {  # noqa: RUF012
        "CASE": SparkParser.NO_PAREN_FUNCTION_PARSERS["CASE"]
    }
    # sqlglot would also read JSON paths behind these operators, and log what it makes of them.
    COLUMN_OPERATORS = {  # noqa: RUF012
        kind: SparkParser.COLUMN_OPERATORS[kind] for kind in (TokenType.DOT, TokenType.DCOLON)
    }
    JSON_OPERATORS: ClassVar[dict[TokenType, Any]] = {}
    STRICT_CAST = True

    source: SourceText

    # ── errors and places ─────────────────────────────────────────────────────────────────

    def raise_error(self, message: str, token: Any = None) -> None:
        place = token or self._curr or None
        before = self._tokens[self._index - 1] if self._index else None
        words = in_our_words(message, self._shown(place), self._shown(before))
        raise SyntaxProblem(*words, place)

    def _shown(self, token: Token | None) -> str:
        return self.source.text[token.start : token.end + 1] if token else ""

    def _parse_function_call(self, *args: Any, **kwargs: Any) -> exp.Expr | None:
        token = self._curr
        return cast(
            "exp.Expr | None", self._placed(super()._parse_function_call(*args, **kwargs), token)
        )

    def _parse_unary(self) -> exp.Expr | None:
        token = self._curr
        return cast("exp.Expr | None", self._placed(super()._parse_unary(), token))

    def parse_set_operation(self, this: Any, *args: Any, **kwargs: Any) -> exp.SetOperation | None:
        token = self._curr
        if token.token_type in self.SET_OPERATIONS:
            ahead = [
                next_token.token_type
                for next_token in self._tokens[self._index + 1 : self._index + 3]
            ]
            queries = (TokenType.SELECT, TokenType.L_PAREN)
            if not any(kind in queries for kind in ahead):
                problem = f"expected a query after {token.text.upper()}"
                raise self._problem(problem, "write SELECT … UNION ALL SELECT …")
        operation = super().parse_set_operation(this, *args, **kwargs)
        return cast("exp.SetOperation | None", self._placed(operation, token))

    def _parse_csv(
        self, parse_method: Callable[[], T | None], sep: TokenType = TokenType.COMMA
    ) -> list[T]:
        items: list[T] = []
        while True:
            item = parse_method()
            if item is None:
                if items:
                    raise self._problem("something is missing after the comma", "remove the comma")
                return items
            items.append(item)
            if not self._match(sep):
                return items

    # ── the skeleton of a query ───────────────────────────────────────────────────────────

    def _parse_select(
        self, nested: bool = False, table: bool = False, *_: Any, **options: Any
    ) -> exp.Expr | None:
        token = self._curr
        query: exp.Expr
        if self._match(TokenType.WITH):
            return self._with_queries(token)
        if self._is_around_query(token):
            return self._operator_around(token)
        if self._match(TokenType.SELECT):
            query = self._placed(self._block(), token)
        elif nested and self._match(TokenType.L_PAREN):
            inner = self._parse_select(nested=True)
            if inner is None:
                hint = HINTS.get(self._curr.text.upper(), f"a query is {ORDER_OF_CLAUSES}")
                raise self._problem("expected SELECT", hint)
            self._match_r_paren()
            query = self._placed(exp.Subquery(this=inner), token)
        else:
            return None
        set_operations = options.get("parse_set_operation", True)
        return self._parse_set_operations(query) if set_operations else query

    def _is_around_query(self, token: Token) -> bool:
        """Whether ``Istream(SELECT …`` or one of its siblings comes next."""
        ahead = [part.token_type for part in self._tokens[self._index + 1 : self._index + 3]]
        if not is_operator(token.text) or token.token_type is TokenType.STRING:
            return False
        return len(ahead) == 2 and ahead[0] is TokenType.L_PAREN and ahead[1] in QUERY_STARTS

    def _operator_around(self, token: Token) -> exp.Expr:
        """``Istream(query)`` as ``SELECT Istream(…) …`` of that query."""
        self._advance(2)
        query = self._parse_select(nested=True)
        self._match_r_paren()
        call = self._placed(exp.Anonymous(this=token.text), token)
        if self._curr.token_type is TokenType.L_BRACKET:
            self._attach_window(call)
        if not isinstance(query, exp.Select):
            inner = self._placed(exp.Subquery(this=query), token)
            query = self._placed(exp.Select(expressions=[exp.Star()]), token)
            query.set("from_", exp.From(this=inner))
        outputs = query.expressions
        if query.args.get("distinct"):
            outputs = [self._placed(exp.Distinct(expressions=outputs), token)]
        call.set("expressions", outputs)
        query.set("expressions", [call])
        query.set("distinct", None)
        return cast("exp.Expr", query)

    def _with_queries(self, token: Token) -> exp.Expr:
        """``WITH name [(a, b)] AS (query), … query``."""
        if self._curr.text.upper() == "RECURSIVE" and self._next.token_type is not TokenType.ALIAS:
            hint = "a query of WITH sees those before it only; join a stream with itself instead"
            raise self._problem("recursive WITH is not in the language", hint)
        parts = self._parse_csv(self._common_query)
        query = self._parse_select(nested=True)
        if query is None:
            hint = "write WITH a AS (SELECT …), b AS (SELECT …) SELECT … FROM a, b"
            raise self._problem("expected SELECT after WITH", hint)
        query.set("with_", self._placed(exp.With(expressions=parts), token))
        return query

    def _common_query(self) -> exp.Expr | None:
        token, form = self._curr, "write WITH name AS (SELECT …)"
        alias = self._parse_table_alias()
        if alias is None or not alias.this:
            raise self._problem("a query of WITH needs a name", form)
        self._match(TokenType.ALIAS)
        if not self._match(TokenType.L_PAREN):
            raise self._problem(f"expected AS ( after {alias.name}", form)
        query = self._parse_select(nested=True)
        if query is None:
            raise self._problem("expected SELECT", form)
        self._match_r_paren()
        return cast("exp.Expr", self._placed(exp.CTE(this=query, alias=alias), token))

    def _block(self) -> exp.Select:
        self._match(TokenType.ALL)
        distinct = exp.Distinct() if self._match(TokenType.DISTINCT) else None
        if distinct and self._curr.text.upper() == "ON":
            hint = "write PARTITION BY k in ROW_NUMBER() OVER (…) AS n in a sub-query, and n = 1"
            raise self._problem("DISTINCT ON is not in the language", hint)
        outputs = self._parse_csv(self._parse_expression)
        if not outputs:
            raise self._problem(
                "SELECT needs at least one output column", "write SELECT * or names"
            )
        block = exp.Select(expressions=outputs, distinct=distinct)
        if self._match(TokenType.FROM):
            block.set("from_", exp.From(this=self._parse_table()))
            while join := self._parse_join():
                block.append("joins", join)
        block.set("where", self._parse_where())
        block.set("group", self._parse_group())
        block.set("having", self._parse_having())
        block.set("windows", self._parse_window_clause())
        self._parse_ordering(block)
        return block

    def _parse_ordering(self, query: exp.Query) -> None:
        query.set("order", self._parse_order())
        query.set("limit", self._number_behind(TokenType.LIMIT, exp.Limit))
        query.set("offset", self._number_behind(TokenType.OFFSET, exp.Offset))
        if self._match_set(self.QUERY_MODIFIER_TOKENS, advance=False):
            word = self._shown(self._curr)
            hint = HINTS.get(word.split()[0].upper(), f"the order is {ORDER_OF_CLAUSES}")
            raise self._problem(f"{word.upper()} is not allowed here", hint)

    def _parse_query_modifiers(self, this: Any) -> Any:
        """What sqlglot looks for behind a query: ours has read its own clauses already."""
        behind = (TokenType.ORDER_BY, TokenType.LIMIT, TokenType.OFFSET)
        if isinstance(this, exp.SetOperation) and self._match_set(behind, advance=False):
            self._parse_ordering(this)
        return this

    def _parse_order(self, *args: Any, **kwargs: Any) -> exp.Expr | None:
        token = self._curr
        return cast("exp.Expr | None", self._placed(super()._parse_order(*args, **kwargs), token))

    def _number_behind(self, kind: TokenType, clause: type[exp.Expr]) -> exp.Expr | None:
        """``LIMIT n`` or ``OFFSET n``."""
        token = self._curr
        if not self._match(kind):
            return None
        value = self._parse_primary()
        if value is None:
            word = token.text.upper()
            raise self._problem(f"{word} needs a whole number", f"write {word} 10")
        return cast("exp.Expr", self._placed(clause(expression=value), token))

    def _parse_group(self, skip_group_by_token: bool = False) -> exp.Group | None:
        token = self._curr
        if not self._match(TokenType.GROUP_BY):
            return None
        keys = self._parse_csv(self._grouping)
        if not keys:
            raise self._problem("GROUP BY needs at least one expression", "write GROUP BY a, b")
        if self._curr.token_type is TokenType.WITH and self._next.token_type in _SEVERAL:
            several = _SEVERAL[self._next.token_type]
            keys = [self._placed(several(expressions=keys), self._next)]
            self._advance(2)
        return cast("exp.Group", self._placed(exp.Group(expressions=keys), token))

    def _grouping(self) -> exp.Expr | None:
        """A key, or ROLLUP, CUBE and GROUPING SETS with keys and lists of keys."""
        token = self._curr
        if token.token_type not in _SEVERAL or self._next.token_type is not TokenType.L_PAREN:
            return self._parse_disjunction()
        self._advance(2)
        several = _SEVERAL[token.token_type](expressions=self._parse_csv(self._grouping))
        self._match_r_paren()
        return cast("exp.Expr", self._placed(several, token))

    def _parse_table(self, *_: Any, **__: Any) -> exp.Expr | None:
        """``name [window] alias`` or ``(query) [window] alias``."""
        token = self._curr
        source: exp.Expr
        if self._is_exploding():
            return self._unnest()
        ahead = self._tokens[self._index : self._index + 4]
        if is_window_call(ahead):
            source = read_window_call(self)
        elif is_resample(ahead):
            source = read_resample(self)
        elif self._match(TokenType.L_PAREN, advance=False):
            source = self._sub_query()
        else:
            name = self._parse_id_var(any_token=False)
            if name is None:
                word = self._shown(token)
                hint = HINTS.get(word.upper(), "write FROM stream [window] or FROM (SELECT …)")
                raise self._problem(
                    f"expected a stream, relation or sub-query, found {word or 'the end'}", hint
                )
            if self._match(TokenType.DOT, advance=False):
                view = self._next.text.upper()
                hint = HINTS["#"] if view in ESPER_VIEWS else "quote it: `a.b`"
                raise self._problem("names of streams and relations have one part", hint)
            if self._match(TokenType.L_PAREN, advance=False):
                hint = TABLE_FUNCTIONS.get(name.name.upper(), NO_TABLES)
                raise self._problem(f"{name.name}(…) in FROM is not in the language", hint)
            source = exp.Table(this=name)
        if source.name.upper() == "PATTERN" and self._next.text.upper() == "EVERY":
            raise self._problem("patterns are not in the language", SEQUENCES)
        self._attach_window(source)
        self._read_version(source)
        word = self._curr.text.upper()
        if word in HINTS and word != "USING" and self._next.token_type is TokenType.L_PAREN:
            raise self._problem(f"{word} is not allowed here", HINTS[word])
        source.set("alias", self._parse_table_alias())
        return cast("exp.Expr", self._placed(source, token))

    def _sub_query(self) -> exp.Expr:
        query = self._parse_select(nested=True, parse_set_operation=False)
        return query if isinstance(query, exp.Subquery) else exp.Subquery(this=query)

    def _attach_window(self, node: exp.Expr) -> None:
        if self._curr.token_type is not TokenType.L_BRACKET:
            return
        cursor = Cursor(self.source, self._tokens, self._index)
        node.meta["window"], node.meta["window_span"] = read_window(cursor)
        self._skip_to(cursor.position)

    # ── pieces of expressions that are ours ───────────────────────────────────────────────

    def _parse_bracket(self, this: exp.Expr | None = None) -> exp.Expr | None:
        if self._curr.token_type is TokenType.L_BRACKET:
            if isinstance(this, exp.Anonymous) and this.name.lower().startswith("wstream"):
                self._attach_window(this)
                return this
            if this is not None and self._next.text.upper() not in WINDOW_WORDS:
                return self._parse_bracket(self._element(this))
            raise self._problem("[ is not allowed here", HINTS["["])
        if self._curr.token_type is TokenType.L_BRACE:
            raise self._problem("{ is not allowed here", "remove it")
        return this

    def _extract(self) -> exp.Expr:
        """``EXTRACT(HOUR FROM ts)`` as ``hour(ts)``."""
        unit = self._curr
        name = EXTRACTED.get(unit.text.upper().rstrip("S"))
        if name is None or self._next.token_type is not TokenType.FROM:
            hint = f"write EXTRACT(HOUR FROM ts), with {', '.join(EXTRACTED)}"
            raise self._problem(f"EXTRACT does not take {self._shown(unit)} here", hint)
        self.read_apart.add(self._tokens[self._index - 2].start)
        self._skip_to(self._index + 2)
        call = exp.Anonymous(this=name, expressions=[self._parse_disjunction()])
        return cast("exp.Expr", self._placed(call, unit))

    def _parse_lambda(self, alias: bool = False) -> exp.Expr | None:
        """An argument; behind DISTINCT there may be aliases too: ``Rstream(DISTINCT a AS b)``."""
        token = self._curr
        if not self._match(TokenType.DISTINCT):
            return super()._parse_lambda(alias)
        arguments = self._parse_csv(self._parse_expression)
        distinct = exp.Distinct(expressions=[*arguments[:-1], self._parse_order(arguments[-1])])
        return cast("exp.Expr", self._placed(distinct, token))

    def _parse_string_as_identifier(self) -> None:
        """A string is never a name."""

    def _parse_alias(self, this: Any, explicit: bool = False) -> Any:
        ends = (TokenType.FROM, TokenType.COMMA, TokenType.WHERE, TokenType.R_PAREN)
        if self._curr.token_type is TokenType.ALIAS and self._next.token_type in ends:
            raise self._problem("AS needs a name", "write the name after AS, or remove it")
        return super()._parse_alias(this, explicit)

    def _parse_interval(self, *_: Any, **__: Any) -> Any:
        """``INTERVAL 10 MIN``, ``INTERVAL '10' MIN`` or ``INTERVAL '1 h 30 min'``."""
        token = self._curr
        if token.token_type is not TokenType.INTERVAL:
            return None
        if self._next.token_type is TokenType.STRING:
            span = self._quoted_interval()
        elif self._next.text[:1].isdecimal():
            cursor = Cursor(self.source, list(self._tokens), self._index + 1)
            span = cursor.duration("an interval", INTERVALS)
            self._skip_to(cursor.position)
        else:
            return None
        interval = exp.Interval(this=exp.Literal.number(span))
        return self._placed(interval, token)

    def _quoted_interval(self) -> int:
        self._skip_to(self._index + 2)
        text, span = self._prev.text, span_of(self._prev)
        if text.strip().isdecimal() and self._curr.text.isalpha():
            text = f"{text} {self._curr.text}"
            self._skip_to(self._index + 1)
        try:
            return micros(text)
        except InvalidSetting:
            problem = f"{text!r} is not an interval"
            raise error_at(self.source, span, problem, INTERVALS) from None


class Cql(Spark):
    """The dialect: Spark's lexical rules, with '' inside strings as a quote."""

    Parser = CqlParser

    class Tokenizer(Spark.Tokenizer):
        QUOTES = ["'"]  # noqa: RUF012
        STRING_ESCAPES = ["\\", "'"]  # noqa: RUF012
        # sqlglot takes the rest of SHOW, SET and other commands for one string.
        COMMANDS: ClassVar[set[TokenType]] = set()


def parse_query(source: SourceText, tokens: list[Token]) -> exp.Expr:
    """The syntax tree of one query."""
    first = tokens[0] if tokens else None
    if first is None or not (first.token_type in QUERY_STARTS or is_operator(first.text)):
        word = first.text if first else "nothing"
        span = span_of(first) if first else TextSpan(0, 1)
        hint = HINTS.get(word.upper(), f"a query is {ORDER_OF_CLAUSES}")
        raise error_at(source, span, f"expected SELECT, found {word}", hint)
    return _parsed(source, tokens, lambda parser: parser._parse_select(nested=True))


def parse_expression(source: SourceText, tokens: list[Token]) -> exp.Expr:
    """The syntax tree of one expression, as in UPDATE and DELETE."""
    return _parsed(source, tokens, lambda parser: parser._parse_disjunction())


def _parsed(
    source: SourceText, tokens: list[Token], method: Callable[[Any], exp.Expr | None]
) -> exp.Expr:
    parser = CqlParser(error_level=ErrorLevel.IMMEDIATE, dialect=Cql)
    parser.source, parser.read_apart = source, set()
    try:
        trees = parser._parse(method, tokens, source.text)
    except SyntaxProblem as problem:
        raise _placed_error(source, tokens, problem) from None
    except RecursionError:
        raise _too_deep(source, tokens) from None
    tree = trees[0] if trees else None
    if tree is None:
        place = Cursor(source, tokens).place
        raise error_at(source, place, "expected an expression", "write a value")
    tree.meta["read_apart"] = parser.read_apart
    return tree


def _placed_error(source: SourceText, tokens: list[Token], problem: SyntaxProblem) -> CqlError:
    end = tokens[-1].end + 1
    span = span_of(problem.token) if problem.token else TextSpan(end, end + 1)
    return error_at(source, span, problem.problem, problem.hint)


def _too_deep(source: SourceText, tokens: list[Token]) -> CqlError:
    hint = "use sub-queries, or fewer parentheses"
    return error_at(source, span_of(tokens[0]), "this is nested too deeply", hint)
