"""Reads a whole text: statements separated by semicolons, each sees those before it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from sqlglot.tokenizer_core import Token, TokenType

from mayfly.cql.binder import bind_query, bind_tokens
from mayfly.cql.changes import read_delete, read_insert, read_update
from mayfly.cql.messages import SourceText, suggestion, with_article
from mayfly.cql.registrations import (
    read_aggregate,
    read_archive,
    read_derived_stream,
    read_query,
    read_view,
)
from mayfly.cql.statements import (
    Create,
    Drop,
    Explain,
    ExplainSharing,
    OneTimeQuery,
    Show,
    Statement,
    apply,
)
from mayfly.cql.stream_declarations import placed, read_relation, read_stream
from mayfly.cql.tokens import Cursor, is_operator, tokenize
from mayfly.plan.catalog import Catalog, Definition, QueryDefinition, StreamDefinition
from mayfly.plan.expressions import quoted
from mayfly.plan.logical_operators import Position
from mayfly.plan.window_kinds import Range

_KINDS = ("STREAM", "RELATION", "NRR", "VIEW", "QUERY", "ARCHIVE", "AGGREGATE")
_PLURALS = {
    "STREAMS": "stream",
    "RELATIONS": "relation",
    "NRRS": "NRR",
    "VIEWS": "view",
    "QUERIES": "query",
    "ARCHIVES": "archive",
    "AGGREGATES": "aggregate",
}
_INSTEAD = {
    "TABLE": "write CREATE RELATION for a table that changes, CREATE STREAM for rows that come, "
    "CREATE QUERY for an answer that is maintained",
    "SINK": "write CREATE QUERY name TO parquet('folder') AS SELECT …",
    "FUNCTION": "write CREATE AGGREGATE name (x DOUBLE) RETURNS DOUBLE FROM "
    "python('module:Class') for an aggregate; other functions belong to the source",
    "SOURCE": "write CREATE STREAM name (ts TIMESTAMP, …) FROM kafka(…) TIMESTAMP BY ts",
}
_FORMS = ("TEXT", "JSON", "MERMAID")
"""How EXPLAIN SHARING may be shown."""
_FIRST_WORDS = ("CREATE", "DROP", "INSERT", "UPDATE", "DELETE", "SHOW", "EXPLAIN", "SELECT", "WITH")
_REFUSED_WORDS = {
    "ALTER": "DROP it and CREATE it anew",
    "SET": "settings belong to the session, not to the language",
    "USE": "there are no databases; names have one part",
    "MERGE": "use INSERT, UPDATE and DELETE",
    "TRUNCATE": "use DELETE FROM name",
}


def parse(text: str, catalog: Catalog | None = None, *, name: str = "") -> list[Statement]:
    """The statements of a text, bound; ``name`` is its file, for messages.

    What a CREATE or DROP changes is seen by the statements behind it; the catalog given is not
    changed (``catalog_after`` tells what it becomes).
    """
    source = SourceText(text, name)
    current_catalog = catalog or Catalog()
    statements: list[Statement] = []
    for tokens in _split(tokenize(source)):
        cursor = Cursor(source, tokens)
        span = cursor.place
        statement = _statement(cursor, current_catalog)
        cursor.finish("this statement")
        for part in (statement, *_kept(statement)):
            current_catalog = placed(cursor, span, partial(apply, current_catalog, part))
            statements.append(part)
    return statements


def _kept(statement: Statement) -> Iterator[Create]:
    """The query that KEEP of a stream stands for."""
    match statement:
        case Create(definition=StreamDefinition(keep=int()) as stream):
            catalog = Catalog().declare(stream)
            text = f"SELECT * FROM {quoted(stream.name)} {Range(duration=stream.keep or 0).cql()}"
            query = QueryDefinition(f"kept_{stream.name}", bind_query(text, catalog), text)
            yield Create(position=statement.position, definition=query)


def catalog_after(statements: list[Statement], catalog: Catalog | None = None) -> Catalog:
    """What exists once all statements are carried out."""
    current_catalog = catalog or Catalog()
    for statement in statements:
        current_catalog = apply(current_catalog, statement)
    return current_catalog


def _split(tokens: list[Token]) -> Iterator[list[Token]]:
    part: list[Token] = []
    for token in tokens:
        if token.token_type is TokenType.SEMICOLON:
            if part:
                yield part
            part = []
        else:
            part.append(token)
    if part:
        yield part


def _statement(cursor: Cursor, catalog: Catalog) -> Statement:
    position = cursor.source.position(cursor.place.start)
    word = cursor.word()
    if _begins_query(word):
        return _select(cursor, catalog, position)
    if word in _REFUSED_WORDS:
        raise cursor.error(f"{word} is not in the language", _REFUSED_WORDS[word])
    if word not in _READERS:
        hint = suggestion(word, _FIRST_WORDS, "a statement starts with")
        raise cursor.error(f"no statement starts with {cursor.shown}", hint)
    cursor.position += 1
    return _READERS[word](cursor, catalog, position)


def _begins_query(word: str) -> bool:
    return word in ("SELECT", "WITH", "(") or is_operator(word)


def _select(cursor: Cursor, catalog: Catalog, position: Position) -> OneTimeQuery:
    tokens = cursor.tokens
    plan = bind_tokens(cursor.source, tokens, catalog, one_time=True)
    cursor.position = len(tokens)
    text = cursor.source.text[tokens[0].start : tokens[-1].end + 1]
    return OneTimeQuery(position=position, plan=plan, text=text)


def _create(cursor: Cursor, catalog: Catalog, position: Position) -> Statement:
    if cursor.word() == "OR":
        raise cursor.error("CREATE OR REPLACE is not in the language", "DROP it first")
    definition: Definition
    if cursor.word() == "PERIODIC":
        raise cursor.error(
            "CREATE PERIODIC QUERY is not in the language any more",
            "write CREATE QUERY name SERVE AS SELECT …, with PRIORITY, OVERLOAD, ISOLATION and "
            "BOUNDED STALENESS after SERVE",
        )
    if cursor.word() == "MATERIALIZED":
        raise cursor.error(
            "CREATE MATERIALIZED VIEW is not in the language",
            "write CREATE QUERY name AS SELECT …, whose answer is maintained and may be read by "
            "other queries",
        )
    if (word := cursor.word()) in _INSTEAD:
        raise cursor.error(f"CREATE {word} is not in the language", _INSTEAD[word])
    kind = cursor.one_of(_KINDS, "what to create")
    if cursor.word() == "IF":
        raise cursor.error("CREATE … IF NOT EXISTS is not in the language", "DROP it first")
    if kind == "STREAM":
        behind = Cursor(cursor.source, cursor.tokens, cursor.position + 1)
        is_derived = behind.word() == "AS"
        definition = read_derived_stream(cursor, catalog) if is_derived else read_stream(cursor)
    elif kind == "QUERY":
        definition = read_query(cursor, catalog)
    elif kind == "VIEW":
        definition = read_view(cursor, catalog)
    elif kind == "ARCHIVE":
        definition = read_archive(cursor, catalog)
    elif kind == "AGGREGATE":
        definition = read_aggregate(cursor)
    else:
        definition = read_relation(cursor, retroactive=kind == "RELATION")
    return Create(position=position, definition=definition)


def _drop(cursor: Cursor, catalog: Catalog, position: Position) -> Statement:
    kind = cursor.one_of(_KINDS, "what to drop").lower().replace("nrr", "NRR")
    optional = cursor.take("IF", "EXISTS")
    place = cursor.place
    name = cursor.name(f"the name of the {kind}")
    entry = catalog.lookup(name)
    if entry is None and not optional:
        names = [definition.name for definition in catalog if definition.kind == kind]
        hint = suggestion(name, names, "declared")
        raise cursor.error(f"there is no {kind} called {name}", hint, place)
    if entry is not None and entry.kind != kind:
        hint = f"write DROP {entry.kind.upper()} {entry.name}"
        problem = f"{entry.name} is {with_article(entry.kind)}, not {with_article(kind)}"
        raise cursor.error(problem, hint, place)
    return Drop(position=position, kind=kind, name=entry.name if entry else name)


def _show(cursor: Cursor, catalog: Catalog, position: Position) -> Statement:
    return Show(position=position, kind=_PLURALS[cursor.one_of(_PLURALS, "what to show")])


def _explain(cursor: Cursor, catalog: Catalog, position: Position) -> Statement:
    if catalog.lookup("sharing") is None and cursor.take("SHARING"):
        form = "TEXT" if cursor.word() == "" else cursor.one_of(_FORMS, "how to show it")
        return ExplainSharing(position=position, form=form)
    compare = cursor.take("COMPARE")
    if _begins_query(cursor.word()):
        tokens = cursor.tokens[cursor.position :]
        plan = bind_tokens(cursor.source, tokens, catalog, one_time=False)
        cursor.position = len(cursor.tokens)
        return Explain(position=position, plan=plan, compare=compare)
    cursor.take("QUERY")
    place = cursor.place
    name = cursor.name("SELECT or the name of a query")
    entry = catalog.lookup(name)
    if not isinstance(entry, QueryDefinition):
        names = [definition.name for definition in catalog.of_kind(QueryDefinition)]
        hint = suggestion(name, names, "queries")
        raise cursor.error(f"there is no query called {name}", hint, place)
    return Explain(position=position, plan=entry.plan, compare=compare, name=entry.name)


_READERS: dict[str, Callable[[Cursor, Catalog, Position], Statement]] = {
    "CREATE": _create,
    "DROP": _drop,
    "INSERT": read_insert,
    "UPDATE": read_update,
    "DELETE": read_delete,
    "SHOW": _show,
    "EXPLAIN": _explain,
}
