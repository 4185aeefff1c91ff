"""pyarrow without pandas, in a process that never meets an object of it.

pyarrow looks for pandas when it first makes an array of Python values, to know its types among
them. It works without, but if pandas is installed (Spark needs it), loading it takes longer than
most one-time queries take to answer.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType


class _Absence:
    """A finder by which a package cannot be found."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name == "pandas":
            raise ModuleNotFoundError("pandas is left out", name=name)
        return None


def leave_pandas_out() -> None:
    """For good: pyarrow looks for it once. What is loaded already stays as it is."""
    if "pandas" in sys.modules:
        return
    import pyarrow as pa

    absence = _Absence()
    sys.meta_path.insert(0, absence)
    try:
        pa.array([])
    finally:
        sys.meta_path.remove(absence)
