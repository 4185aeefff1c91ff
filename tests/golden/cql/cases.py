"""Golden cases of the language: a text, and what is said about it.

A file holds cases separated by a line of ``=``; text and answer are separated by a line of
``-``. With MAYFLY_UPDATE_GOLDEN=1 the answers are written instead of compared, to be reviewed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from mayfly.cql import catalog_after, parse
from mayfly.plan.catalog import Catalog

HERE = Path(__file__).parent
UPDATING = os.environ.get("MAYFLY_UPDATE_GOLDEN") == "1"
BETWEEN_CASES = "=" * 100
BEFORE_ANSWER = "-" * 100


@dataclass(frozen=True)
class Case:
    file: Path
    number: int
    text: str
    answer: str

    def __str__(self) -> str:
        return f"{self.file.stem}-{self.number}"


def catalog() -> Catalog:
    path = HERE / "catalog.cql"
    return catalog_after(parse(path.read_text(encoding="utf-8"), name=path.name))


def cases(folder: str) -> list[Case]:
    return [case for file in sorted((HERE / folder).glob("*.txt")) for case in read(file)]


def read(file: Path) -> list[Case]:
    found = []
    parts = re.split(r"^={10,}\n", file.read_text(encoding="utf-8"), flags=re.MULTILINE)
    for number, part in enumerate((part for part in parts if part.strip()), start=1):
        text, _, answer = (
            re.split(r"(^-{10,}\n)", f"{part}", maxsplit=1, flags=re.MULTILINE)
            if re.search(r"^-{10,}\n", part, re.MULTILINE)
            else (part, "", "")
        )
        found.append(Case(file, number, text.rstrip("\n"), answer.rstrip("\n")))
    return found


def rewrite(file: Path, answer: Callable[[str], str]) -> None:
    """Write the file anew with the answers given now."""
    blocks = [f"{case.text}\n{BEFORE_ANSWER}\n{answer(case.text)}\n" for case in read(file)]
    file.write_text(f"{BETWEEN_CASES}\n".join(blocks), encoding="utf-8")
