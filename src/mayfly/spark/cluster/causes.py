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
    found = list(_OURS.finditer(str(error)))
    if not found:
        return None
    kind, message, hint = found[-1].groups()
    known = getattr(errors, kind, MayflyError)
    made: MayflyError = known(message, hint or "")
    return made


def said(error: Exception) -> str:
    """The sentence in which Spark tells why it gave up."""
    text = str(error).split("\n\nJVM stacktrace")[0].strip()
    if found := _JAVA.findall(text):
        return str(found[-1])
    if found := _PYTHON.findall(text):
        return str(found[-1])
    first = text.partition("\n")[0] or type(error).__name__
    return _STREAM.sub("", first)
