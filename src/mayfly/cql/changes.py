"""Reads INSERT, UPDATE and DELETE on relations and NRRs."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp
from sqlglot.tokenizer_core import Token

from mayfly.cql.completeness import check_complete
from mayfly.cql.dialect import parse_expression
from mayfly.cql.grammar import check_tree
from mayfly.cql.literals import folded_cast
from mayfly.cql.messages import TextSpan, suggestion, with_article
from mayfly.cql.places import error_on
from mayfly.cql.scalar import ScalarBinder
from mayfly.cql.scope import Item, Scope
from mayfly.cql.statements import Delete, Insert, Update
from mayfly.cql.tokens import Cursor
from mayfly.display import counted
from mayfly.errors import InvalidSetting
from mayfly.plan.catalog import Catalog, ColumnDefinition, RelationDefinition
from mayfly.plan.expressions import Column, Expression, Literal, as_type
from mayfly.plan.logical_operators import Position, RelationScan
from mayfly.plan.types import VOID, common_type


@dataclass(frozen=True)
class _Change:
    """A relation to be changed, and the cursor that reads how."""

    cursor: Cursor
    relation: RelationDefinition
    position: Position

    def bind(self, tokens: list[Token], clause: str, constant: bool = False) -> Expression:
        """One expression over the relation's columns, or over nothing."""
        source = self.cursor.source
        if not tokens:
            raise self.cursor.error(f"expected an expression in {clause}", "write a value")
        tree = parse_expression(source, tokens)
        check_tree(source, tree)
        check_complete(source, tokens, tree)
        column = tree.find(exp.Column)
        if constant and column is not None:
            raise error_on(source, column, "VALUES takes constants only", "write the value itself")
        items = () if constant else (Item(self.relation.name, self._scan()),)
        binder = ScalarBinder(source, Scope(source, items), clause)
        return binder.condition(tree) if clause == "WHERE" else binder.bind(tree)

    def _scan(self) -> RelationScan:
        name = self.relation.name
        columns = tuple(Column(name, c.name, c.type, c.nullable) for c in self.relation.columns)
        return RelationScan(name, name, columns, self.relation.retroactive, self.relation.key)

    def column(self) -> ColumnDefinition:
        place = self.cursor.place
        name = self.cursor.name("a column")
        for column in self.relation.columns:
            if column.name.casefold() == name.casefold():
                return column
        names = [column.name for column in self.relation.columns]
        problem = f"{self.relation.name} has no column {name}"
        raise self.cursor.error(problem, suggestion(name, names, "columns"), place)

    def fitted(self, value: Expression, column: ColumnDefinition, span: TextSpan) -> Expression:
        """The value in the column's type."""
        if isinstance(value, Literal) and value.value is None and not column.nullable:
            hint = "give a value: the column is NOT NULL or part of the key"
            raise self.cursor.error(f"{column.name} cannot be NULL", hint, span)
        if value.type == column.type:
            return value
        try:
            folded = folded_cast(value, column.type) if isinstance(value, Literal) else None
        except InvalidSetting as error:
            raise self.cursor.error(error.message, error.hint, span) from None
        if folded is not None:
            return folded
        computed = value.type.is_numeric and column.type.is_numeric and bool(value.columns())
        fits = value.type == VOID or common_type(value.type, column.type) == column.type
        if not (fits or computed):
            problem = f"{column.name} has type {column.type}, this is {value.type}"
            raise self.cursor.error(problem, f"CAST it to {column.type}", span)
        return as_type(value, column.type)

    def instant(self) -> int | None:
        return self.cursor.instant("the instant of the change") if self.cursor.take("AT") else None


def read_insert(cursor: Cursor, catalog: Catalog, position: Position) -> Insert:
    """``INTO name [(columns)] VALUES (…), (…) [AT 'instant']``"""
    cursor.expect("INTO", "write INSERT INTO name VALUES (…)")
    change = _Change(cursor, _relation(cursor, catalog), position)
    columns = _insert_columns(change)
    if cursor.word() == "SELECT":
        hint = "write the rows after VALUES; rows of a stream belong in a query"
        raise cursor.error("INSERT takes constants", hint)
    cursor.expect("VALUES", "write INSERT INTO name VALUES (1, 'a'), (2, 'b')")
    rows = [_row(change, columns)]
    while cursor.take(","):
        rows.append(_row(change, columns))
    name = change.relation.name
    return Insert(position=position, relation=name, rows=tuple(rows), instant=change.instant())


def _insert_columns(change: _Change) -> list[ColumnDefinition]:
    cursor, all_columns = change.cursor, list(change.relation.columns)
    if not cursor.take("("):
        return all_columns
    columns = [change.column()]
    while cursor.take(","):
        place = cursor.place
        column = change.column()
        if column in columns:
            raise cursor.error(f"{column.name} is listed twice", "keep one of them", place)
        columns.append(column)
    cursor.expect(")", "close the list of columns")
    for column in all_columns:
        if not column.nullable and column not in columns:
            hint = "list it: the column is NOT NULL or part of the key"
            raise cursor.error(f"{column.name} is missing", hint)
    return columns


def _row(change: _Change, columns: list[ColumnDefinition]) -> tuple[Expression, ...]:
    cursor = change.cursor
    start = cursor.place
    cursor.expect("(", "write VALUES (1, 'a'), (2, 'b')")
    values: dict[str, Expression] = {}
    while True:
        tokens = _until(cursor, (",", ")"))
        span = TextSpan(tokens[0].start, tokens[-1].end + 1) if tokens else cursor.place
        bound = change.bind(tokens, "VALUES", constant=True)
        if len(values) < len(columns):
            column = columns[len(values)]
            values[column.name] = change.fitted(bound, column, span)
        else:
            problem = f"this row has more than {counted(len(columns), 'value')}"
            raise cursor.error(problem, "give one value per column", span)
        if not cursor.take(","):
            break
    cursor.expect(")", "close the row")
    if len(values) < len(columns):
        problem = f"this row has {counted(len(values), 'value')}, {len(columns)} are needed"
        raise cursor.error(problem, "give one value per column", start)
    return tuple(
        values.get(column.name, Literal(None, column.type)) for column in change.relation.columns
    )


def read_update(cursor: Cursor, catalog: Catalog, position: Position) -> Update:
    """``name SET a = …, b = … [WHERE …] [AT 'instant']``"""
    change = _Change(cursor, _relation(cursor, catalog), position)
    cursor.expect("SET", "write UPDATE name SET a = 1 WHERE b = 2")
    assignments = [_assignment(change)]
    while cursor.take(","):
        assignments.append(_assignment(change))
    names = [name for name, _ in assignments]
    for name in names:
        if names.count(name) > 1:
            raise cursor.error(f"{name} is set twice", "keep one of them")
    return Update(
        position=position,
        relation=change.relation.name,
        assignments=tuple(assignments),
        condition=_condition(change),
        instant=change.instant(),
    )


def _assignment(change: _Change) -> tuple[str, Expression]:
    cursor, place = change.cursor, change.cursor.place
    column = change.column()
    if not change.relation.retroactive and column.name in change.relation.key:
        hint = "delete the row and insert one with a new key: keys of an NRR are never used again"
        raise cursor.error(f"{column.name} is the key of an NRR and cannot change", hint, place)
    cursor.expect("=", "write SET a = 1")
    tokens = _until(cursor, (",", "WHERE", "AT"))
    span = TextSpan(tokens[0].start, tokens[-1].end + 1) if tokens else cursor.place
    return column.name, change.fitted(change.bind(tokens, "SET"), column, span)


def read_delete(cursor: Cursor, catalog: Catalog, position: Position) -> Delete:
    """``FROM name [WHERE …] [AT 'instant']``"""
    cursor.expect("FROM", "write DELETE FROM name WHERE …")
    change = _Change(cursor, _relation(cursor, catalog), position)
    condition = _condition(change)
    name = change.relation.name
    return Delete(position=position, relation=name, condition=condition, instant=change.instant())


def _condition(change: _Change) -> Expression | None:
    if not change.cursor.take("WHERE"):
        return None
    return change.bind(_until(change.cursor, ("AT",)), "WHERE")


def _until(cursor: Cursor, ends: tuple[str, ...]) -> list[Token]:
    """The tokens up to one of the words, outside parentheses."""
    start, depth = cursor.position, 0
    while cursor.current and not (depth == 0 and cursor.word() in ends):
        depth += {"(": 1, ")": -1}.get(cursor.word(), 0)
        cursor.position += 1
    return cursor.tokens[start : cursor.position]


def _relation(cursor: Cursor, catalog: Catalog) -> RelationDefinition:
    place = cursor.place
    name = cursor.name("the name of a relation or NRR")
    entry = catalog.lookup(name)
    if isinstance(entry, RelationDefinition):
        return entry
    names = [relation.name for relation in catalog.of_kind(RelationDefinition)]
    if entry is None:
        hint = suggestion(name, names, "relations and NRRs")
        raise cursor.error(f"there is no relation or NRR called {name}", hint, place)
    hint = "statements change relations and NRRs only; rows of a stream come from its source"
    raise cursor.error(f"{entry.name} is {with_article(entry.kind)}", hint, place)
