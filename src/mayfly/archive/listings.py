"""Lists that an archive gives out: plain lists, which show themselves briefly."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from html import escape
from typing import Any, TypeVar

from mayfly.archive.model.reports import report_facts
from mayfly.archive.model.state import ArchiveVersion
from mayfly.display import html_table, one_line

T = TypeVar("T")


class BriefList(list[T]):
    """A list with a short ``repr``."""

    def __repr__(self) -> str:
        return one_line(self, f"of {len(self):,}")


class PlanLines(BriefList[str]):
    """A plan as the lines of a table, of which the first says what is planned."""

    def __repr__(self) -> str:
        return one_line(self, *self[:1], f"{len(self):,} lines")

    def __str__(self) -> str:
        return "\n".join(self)

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"


class PastUpdate(dict[str, Any]):
    """The kept report of an update."""

    def __repr__(self) -> str:
        return one_line(self, *(f"{name} {fact}" for name, fact in report_facts(self).items()))

    def _repr_html_(self) -> str:
        return html_table(f"Update {self['update']}", report_facts(self))


class PastUpdates(BriefList[Mapping[str, Any]]):
    """The kept reports of updates, oldest first."""

    def __init__(self, reports: Iterable[Mapping[str, Any]]) -> None:
        super().__init__(PastUpdate(report) for report in reports)

    def _repr_html_(self) -> str:
        lines = {f"update {report['update']}": report_facts(report) for report in self}
        return _table(type(self).__name__, lines)


class RetainedVersions(BriefList[ArchiveVersion]):
    """Retained versions, oldest first."""

    def _repr_html_(self) -> str:
        lines = {f"version {version.manifest.version}": version.facts() for version in self}
        return _table(type(self).__name__, lines)


def _table(title: str, lines: Mapping[str, Mapping[str, object]]) -> str:
    """One line for each, its facts apart by commas."""
    shown = {
        name: ", ".join(f"{fact} {value}" for fact, value in facts.items() if fact not in name)
        for name, facts in lines.items()
    }
    return html_table(title, shown)
