"""From an address to its store."""

from __future__ import annotations

import os
from collections.abc import Callable

from mayfly.storage.store.posix import PosixStore, local_root, path_text
from mayfly.storage.store.protocol import Store

_schemes: dict[str, Callable[[str], Store]] = {}


def register_scheme(scheme: str, opener: Callable[[str], Store]) -> None:
    """Have addresses that begin with ``scheme://`` opened by this function, in this process."""
    _schemes[scheme] = opener


def absolute_address(path: str | os.PathLike[str]) -> str:
    """The address of the store at a path or a URI, whatever folder this process is in."""
    return open_store(path).address


def open_store(address: str | os.PathLike[str], *, sync: bool = True) -> Store:
    """The store at a path or a URI; refused if its kind is unknown."""
    text = path_text(address)
    scheme, separator, _ = text.partition("://")
    if separator and scheme in _schemes:
        return _schemes[scheme](text)
    return PosixStore(os.fspath(local_root(text)), sync)
