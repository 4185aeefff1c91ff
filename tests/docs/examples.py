"""Reads the examples out of a Markdown file and runs them.

All ```python blocks of a file run in order in one namespace. A block may be followed by a line
``Output:`` and a ```text block: then what the python block printed must be exactly that, up to
blanks at line ends.
"""

from __future__ import annotations

import ast
import contextlib
import difflib
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

FENCE = re.compile(
    r"^(?P<fence>`{3,})(?P<language>[^\n`]*)\n(?P<body>.*?)^(?P=fence)[ \t]*$", re.M | re.S
)


@dataclass(frozen=True)
class Example:
    """A python block, the line its code starts at, and the output shown for it, if any."""

    code: str
    line: int
    output: str | None


class DocumentError(AssertionError):
    """An example in a document does not do what the document shows."""


def examples(text: str, name: str) -> list[Example]:
    """The examples of a document, in order."""
    found: list[Example] = []
    fences = list(FENCE.finditer(text))
    shown: set[int] = set()
    for at, fence in enumerate(fences):
        if fence["language"].strip() != "python":
            continue
        output = None
        for following in fences[at + 1 : at + 2]:
            between = text[fence.end() : following.start()].strip()
            if between == "Output:" and following["language"].strip() == "text":
                output = following["body"]
                shown.add(following.start())
        line = text.count("\n", 0, fence.start("body")) + 1
        found.append(Example(fence["body"], line, output))
    _refuse_stray_outputs(text, name, shown)
    return found


def _refuse_stray_outputs(text: str, name: str, shown: set[int]) -> None:
    """An ``Output:`` line that no check reads would look checked without being so."""
    for mark in re.finditer(r"^Output:[ \t]*\n\s*", text, re.M):
        inside = any(f.start() < mark.start() < f.end() for f in FENCE.finditer(text))
        if not inside and mark.end() not in shown:
            line = text.count("\n", 0, mark.start()) + 1
            raise DocumentError(
                f"{name}:{line}: 'Output:' must stand between a python block and a text block"
            )


def needs_spark(example: Example) -> bool:
    """Whether the code names a Spark session: ``spark``, or the ``Session`` of Mayfly."""
    for node in ast.walk(ast.parse(example.code)):
        if isinstance(node, ast.Name) and node.id == "spark":
            return True
        if isinstance(node, ast.Attribute | ast.alias):
            named = node.attr if isinstance(node, ast.Attribute) else node.name
            if named == "Session":
                return True
    return False


def run(found: list[Example], name: str, namespace: dict[str, object]) -> None:
    """Run the examples in one namespace; the first that errs or prints otherwise fails."""
    for example in found:
        printed = io.StringIO()
        # Leading newlines give tracebacks the line numbers of the document.
        code = compile("\n" * (example.line - 1) + example.code, name, "exec")
        try:
            with contextlib.redirect_stdout(printed):
                exec(code, namespace)
        except Exception as error:
            raise DocumentError(f"{name}:{_line(error, name, example)}: {error!r}") from error
        if example.output is not None:
            _compare(example, printed.getvalue(), name)


def _line(error: BaseException, name: str, example: Example) -> int:
    line, at = example.line, error.__traceback__
    while at:
        if at.tb_frame.f_code.co_filename == name:
            line = at.tb_lineno
        at = at.tb_next
    return line


def _compare(example: Example, printed: str, name: str) -> None:
    shown = [line.rstrip() for line in (example.output or "").rstrip().splitlines()]
    actual = [line.rstrip() for line in printed.rstrip().splitlines()]
    if shown != actual:
        difference = "\n".join(difflib.unified_diff(shown, actual, "shown", "printed", lineterm=""))
        raise DocumentError(f"{name}:{example.line}: the output differs:\n{difference}")


LINK = re.compile(r"\[[^\]]*\]\((?P<target>[^)\s]+)\)")


def broken_links(document: Path) -> Iterator[str]:
    """Relative links that lead to no file."""
    for link in LINK.finditer(FENCE.sub("", document.read_text(encoding="utf-8"))):
        target = link["target"].partition("#")[0]
        if target and ":" not in target and not (document.parent / target).exists():
            yield link["target"]
