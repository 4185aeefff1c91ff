"""From text to plan: one query."""

from __future__ import annotations

from dataclasses import replace

from sqlglot.tokenizer_core import Token, TokenType

from mayfly.cql.completeness import check_complete
from mayfly.cql.context import BindingContext
from mayfly.cql.dialect import parse_query
from mayfly.cql.grammar import check_tree
from mayfly.cql.messages import SourceText, error_at
from mayfly.cql.query_binder import bind_output
from mayfly.cql.serve_clause import check_served, read_serve_clause, read_staleness
from mayfly.cql.tokens import Cursor, span_of, tokenize
from mayfly.cql.users_calls import mark_users_calls
from mayfly.plan.catalog import Catalog, QueryDefinition, ViewDefinition
from mayfly.plan.expressions import quoted
from mayfly.plan.logical_operators import Output
from mayfly.plan.serving_terms import Isolation, ServeClause


def bind_query(text: str, catalog: Catalog, *, one_time: bool = False, name: str = "") -> Output:
    """The logical plan of one query; a one-time query is answered once and may be ordered.

    ``name`` is the file the text came from, for messages.
    """
    source = SourceText(text, name)
    tokens = tokenize(source)
    if tokens and tokens[-1].token_type is TokenType.SEMICOLON:
        tokens = tokens[:-1]
    for token in tokens:
        if token.token_type is TokenType.SEMICOLON:
            hint = "ask one after the other; mayfly sql takes several, and so does parse()"
            raise error_at(source, span_of(token), "expected one query, found more", hint)
    tokens, serve = _take_serve(source, tokens)
    return bind_tokens(source, tokens, catalog, one_time, serve)


def bind_tokens(
    source: SourceText,
    tokens: list[Token],
    catalog: Catalog,
    one_time: bool,
    serve: ServeClause | None = None,
) -> Output:
    """The plan of the query these tokens spell."""
    tokens, staleness = _take_staleness(source, tokens, one_time)
    tokens, isolation = _take_isolation(source, tokens, one_time)
    tokens, exact_sums = _take_exact_sums(tokens)
    tree = parse_query(source, tokens)
    check_tree(source, tree)
    mark_users_calls(tree, catalog)
    check_complete(source, tokens, tree)
    context = BindingContext(source, catalog, one_time)
    output = bind_output(context, tree, isolation, staleness, exact_sums)
    if serve is None:
        return output
    check_served(context, output)
    return replace(output, serve=serve)


def _take_serve(source: SourceText, tokens: list[Token]) -> tuple[list[Token], ServeClause | None]:
    """``SERVE … AS SELECT …``, as checkpoints have the text of a served query."""
    cursor = Cursor(source, tokens)
    if not cursor.take("SERVE"):
        return tokens, None
    serve = read_serve_clause(cursor)
    cursor.expect("AS", "write SERVE … AS SELECT …")
    return tokens[cursor.position :], serve


def _take_staleness(
    source: SourceText, tokens: list[Token], one_time: bool
) -> tuple[list[Token], int | None]:
    """``… BOUNDED STALENESS 5 SECONDS`` behind a one-time query."""
    for start, token in enumerate(tokens):
        cursor = Cursor(source, tokens, start)
        if token.text.upper() != "BOUNDED" or not cursor.take("BOUNDED", "STALENESS"):
            continue
        bound = read_staleness(cursor)
        cursor.finish("the query")
        if not one_time:
            problem = "BOUNDED STALENESS is for one-time queries and those of a server"
            hint = "leave it out: this query is kept up; or write SERVE BOUNDED STALENESS d AS …"
            raise error_at(source, span_of(token), problem, hint)
        return tokens[:start], bound
    return tokens, None


def written_out(text: str, plan: Output, catalog: Catalog) -> str:
    """The text of a query with the views and queries that it reads by name as its WITH, so that it
    can be bound where only streams and relations are declared."""
    parts = []
    for name in plan.names:
        entry = catalog.lookup(name)
        assert isinstance(entry, QueryDefinition | ViewDefinition)
        source = SourceText(entry.text)
        tokens, _ = _take_serve(source, tokenize(source))
        tokens, _ = _take_exact_sums(tokens)
        parts.append(f"{quoted(name)} AS ({entry.text[tokens[0].start : tokens[-1].end + 1]})")
    if not parts:
        return text
    first, second = tokenize(SourceText(text))[:2]
    if first.token_type is TokenType.WITH:
        return f"WITH {', '.join(parts)}, {text[second.start :]}"
    return f"WITH {', '.join(parts)} {text}"


def _take_exact_sums(tokens: list[Token]) -> tuple[list[Token], bool]:
    """``… FLOAT SUMS EXACT`` behind a query."""
    words = [token.text.upper() for token in tokens[-3:]]
    if words != ["FLOAT", "SUMS", "EXACT"]:
        return tokens, False
    return tokens[:-3], True


def _take_isolation(
    source: SourceText, tokens: list[Token], one_time: bool
) -> tuple[list[Token], Isolation | None]:
    """``… ISOLATION LATEST``, ``WINDOW`` or ``SNAPSHOT`` behind a one-time query."""
    before, word = tokens[-3:-1] if len(tokens) > 2 else (None, None)
    if before is None or word is None or word.token_type is not TokenType.VAR:
        return tokens, None
    if word.text.upper() != "ISOLATION" or before.token_type in _NAMES_FOLLOW:
        return tokens, None
    cursor = Cursor(source, tokens, len(tokens) - 1)
    level = cursor.one_of([level.value for level in Isolation], "LATEST, WINDOW or SNAPSHOT")
    if not one_time:
        problem = "ISOLATION is for one-time queries and those of a server"
        hint = f"leave it out: this query is kept up; or write SERVE ISOLATION {level} AS SELECT …"
        raise error_at(source, span_of(word), problem, hint)
    return tokens[:-2], Isolation(level)


_NAMES_FOLLOW = (
    *(TokenType.FROM, TokenType.JOIN, TokenType.COMMA, TokenType.ALIAS, TokenType.DOT),
    *(TokenType.ORDER_BY, TokenType.GROUP_BY),
)
"""Behind these, ``isolation`` is the name of something."""
