"""A checkpoint that commands are sent to, without a run behind it."""

from __future__ import annotations

from mayfly.cql import catalog_after, parse
from mayfly.pipeline.commands import Commands
from mayfly.pipeline.control_requests import Control
from mayfly.plan.catalog import RelationDefinition
from mayfly.runtime.relation_log import Changing
from mayfly.storage import SetProperties

CATALOG = catalog_after(
    parse(
        """
        CREATE STREAM s (ts TIMESTAMP, n BIGINT, k INT, name STRING, p DECIMAL(10, 2))
          TIMESTAMP BY ts SEQUENCE n SLACK 2 s;
        CREATE STREAM other (at BIGINT) TIMESTAMP BY at;
        CREATE RELATION r (id INT, name STRING) KEY id;
        CREATE NRR fixed (id INT) KEY id;
        """
    )
)
INSERT = "INSERT INTO r VALUES (1, 'one')"
RUNNING = {"q": ("s",), "p": ("s",)}
CLICKS = "CREATE STREAM clicks (ts TIMESTAMP, k INT)\n  FROM json('in/clicks') TIMESTAMP BY ts"


def commands(control: Control, opened: list[tuple[str, str | None]] | None = None) -> Commands:
    definition = CATALOG.lookup("r")
    assert isinstance(definition, RelationDefinition)
    noted = [] if opened is None else opened
    return Commands.of(
        control,
        CATALOG,
        {"r": Changing(definition)},
        lambda one, folder: noted.append((one.name, folder)),
    )


def committed(control: Control, applied: Commands) -> None:
    base = control.repository.current()
    control.repository.commit(base, [SetProperties(applied.property())])


def names(applied: Commands) -> list[str]:
    return [row["name"] for row in applied.relations["r"].rows.to_pylist()]
