"""``pyarrow``, imported with the first use of a name of it.

It brings NumPy along, and takes longer to load than a file of queries takes to check or a command
to be written into a control log.
"""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    import pyarrow

    part = getattr(pyarrow, name)
    globals()[name] = part
    return part
