"""The script that counts statements counts what it says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "scripts" / "statements.py"
TEXT = '''"""One."""

import os

def f(x):
    """Two."""
    if x:
        return os

class A:
    y = 1
'''


def test_statements_and_docstrings_are_counted(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "one.py").write_text(TEXT)
    (tmp_path / "empty.py").touch()
    told = subprocess.run(
        [sys.executable, SCRIPT, tmp_path], capture_output=True, text=True, check=True
    ).stdout
    # import, def, if, return, class, y = 1; of four that may have one, two have a docstring.
    assert "2 files, 6 statements, docstrings at 2 of 4" in told
