"""What really went wrong, in an error that Spark hands on with much around it."""

from __future__ import annotations

import re

from mayfly import errors
from mayfly.errors import MayflyError

_OURS = re.compile(r"^mayfly\.errors\.(\w+): (.+)(?:\n  → (.+))?", re.MULTILINE)
_JAVA = re.compile(r"^(?:Caused by)?: [\w.$]+: (.+)", re.MULTILINE)
_PYTHON = re.compile(r"^\w+(?:\.\w+)*(?:Error|Exception): .+", re.MULTILINE)
_STREAM = re.compile(r"^\[STREAM_FAILED\].*? terminated with exception: ")


def own_error(error: Exception) -> MayflyError | None:
    """The error of Mayfly that was raised in a worker, if that is what ended a job."""
    matches = list(_OURS.finditer(str(error)))
    if not matches:
        return None
    kind, message, hint = matches[-1].groups()
    error_class = getattr(errors, kind, MayflyError)
    made: MayflyError = error_class(message, hint or "")
    return made


def said(error: Exception) -> str:
    """The sentence in which Spark gives the reason of its failure."""
    text = str(error).split("\n\nJVM stacktrace")[0].strip()
    if causes := _JAVA.findall(text):
        return str(causes[-1])
    if causes := _PYTHON.findall(text):
        return str(causes[-1])
    first = text.partition("\n")[0] or type(error).__name__
    return _STREAM.sub("", first)
