"""The prompt of the SQL shell: history, several lines, colours, and completion from the catalog."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.lexers import PygmentsLexer
from pygments.lexers.sql import SqlLexer

from mayfly.cli.signals import interruptions
from mayfly.cli.sql_shell import Leaving, SqlShell, is_complete
from mayfly.errors import MayflyError
from mayfly.plan.catalog import ColumnDefinition
from mayfly.plan.types import quoted_name
from mayfly.serving.sql_session import SqlSession

PROMPT, MORE = "mayfly> ", "   ...> "
KEYWORDS = (
    "SELECT", "DISTINCT", "FROM", "WHERE", "GROUP BY", "HAVING", "ORDER BY", "LIMIT", "JOIN", "ON",
    "AND", "OR", "NOT", "EXISTS", "IN", "IS NULL", "BETWEEN", "LIKE", "AS", "CASE", "WHEN", "THEN",
    "ELSE", "END", "CAST", "UNION ALL", "EXCEPT ALL", "COUNT", "SUM", "AVG", "MIN", "MAX", "RANGE",
    "ROWS", "SLIDE", "PARTITION BY", "EXPLAIN", "SHOW", "STREAMS", "RELATIONS", "QUERIES",
    "ARCHIVES", "CREATE", "STREAM", "RELATION", "QUERY", "DROP", "INSERT INTO", "VALUES", "UPDATE",
    "SET", "DELETE FROM", "TIMESTAMP BY", "SLACK", "KEY", "KEEP", "WITH", "USING", "LEFT JOIN",
    "RIGHT JOIN", "FULL JOIN", "ASOF JOIN", "UNION", "INTERSECT", "EXCEPT", "OVER", "OFFSET",
    "DESC", "NULLS LAST", "GROUPING SETS", "ROLLUP", "CUBE", "TUMBLE", "HOP", "CUMULATE", "SESSION",
    "VIEW", "VIEWS", "SHARING", "BOUNDED STALENESS",
)  # fmt: skip
COMMANDS = ("\\d", "\\asof", "\\watch", "\\format", "\\timing", "\\?", "\\q")


class SqlCompleter(Completer):
    """Names of tables and columns, keywords, and commands."""

    def __init__(self, session: SqlSession) -> None:
        self.session = session

    def get_completions(
        self, document: Document, complete_event: CompleteEvent
    ) -> Iterator[Completion]:
        text = document.text_before_cursor
        word = document.get_word_before_cursor(WORD=text.startswith("\\") and " " not in text)
        begun = text.removesuffix(word).endswith("`")
        unquoted = self._choices(text) if text.startswith("\\") else KEYWORDS
        for choice in self._choices(text):
            if word and choice.casefold().startswith(word.casefold()) and choice != word:
                name = choice if choice in unquoted else quoted_name(choice)
                yield Completion(name.removeprefix("`") if begun else name, -len(word))

    def _choices(self, text: str) -> Collection[str]:
        if text.startswith("\\") and " " not in text:
            return COMMANDS
        places = self._places()
        if text.startswith("\\"):
            return list(places)
        columns = (column.name for listed in places.values() for column in listed)
        return dict.fromkeys([*places, *columns, *KEYWORDS])

    def _places(self) -> dict[str, tuple[ColumnDefinition, ...]]:
        """What can be read, and its columns."""
        try:
            places = {table.name: table.columns for table in self.session.tables()}
        except MayflyError:  # the next statement says what is wrong
            return {}
        streams = {stream.name: stream.definition.columns for stream in self.session.streams()}
        return {**streams, **places}


def talk(shell: SqlShell, history: Path | None) -> None:
    """Read statements from the terminal until the user leaves."""
    past: History = InMemoryHistory() if history is None else FileHistory(str(history))
    prompt: PromptSession[str] = PromptSession(
        history=past, multiline=True, lexer=PygmentsLexer(SqlLexer),
        completer=SqlCompleter(shell.session), complete_while_typing=False,
        key_bindings=_bindings(), prompt_continuation=MORE,
    )  # fmt: skip
    with interruptions():
        while True:
            try:
                text = prompt.prompt(PROMPT)
            except KeyboardInterrupt:
                continue
            except EOFError:
                return
            try:
                shell.run(text)
            except KeyboardInterrupt:
                shell.echo("")  # the terminal has shown ^C
            except Leaving:
                return


def _bindings() -> KeyBindings:
    """Enter ends what is complete, and begins a new line otherwise."""
    bindings = KeyBindings()

    @bindings.add("enter")
    def enter(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if is_complete(buffer.text):
            buffer.validate_and_handle()
        else:
            buffer.newline()

    return bindings
