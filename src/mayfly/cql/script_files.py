"""Files of statements."""

from __future__ import annotations

from pathlib import Path

from mayfly.errors import InvalidSetting


def text_of(file: Path) -> str:
    """The text of a file of statements."""
    if not file.is_file():
        problem = f"{file} is a folder" if file.is_dir() else f"there is no file {file}"
        raise InvalidSetting(problem, "name a file of statements")
    try:
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise InvalidSetting(f"{file} is not UTF-8 text", "save it as UTF-8") from None
