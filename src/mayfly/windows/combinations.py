"""Which storages, indexes and rings go together."""

from __future__ import annotations

from mayfly.errors import InvalidSetting
from mayfly.windows.rings import RINGS

STORAGES = ("LIST", "AGGR", "HASH", "GROUP")
INDEXES = ("T", "H", "AVL", "L", "UH", "G")


def check_settings(
    storage: str, index: str | None, ring: str | None, grouped: bool, buckets: int | None
) -> None:
    """Refuse names that do not exist and combinations that make no sense."""
    _check_name("storage", storage, STORAGES)
    if index is not None:
        _check_name("index", index, INDEXES)
    if ring is not None:
        _check_name("ring", ring, tuple(RINGS))
        if storage != "LIST" or index in (None, "G"):
            raise InvalidSetting(
                "a ring needs whole tuples and a value index",
                'use storage="LIST" and one of the indexes T, H, AVL, L, UH',
            )
    if (index == "G" or storage == "GROUP") != grouped:
        raise InvalidSetting(
            "groups belong to storage GROUP or index G, and to nothing else",
            'give groups=[…] together with index="G"',
        )
    if storage == "GROUP" and index not in (None, "G"):
        raise InvalidSetting(
            f"GROUP basic windows hold no values for index {index}", 'use index="G" or index=None'
        )
    if index == "G" and storage not in ("GROUP", "LIST"):
        raise InvalidSetting(f"index G over {storage} basic windows", "use storage GROUP or LIST")
    if buckets is not None and index not in ("H", "UH"):
        raise InvalidSetting(
            f"index {index} has no buckets", 'give buckets= with index="H" or index="UH"'
        )


def _check_name(setting: str, name: str, names: tuple[str, ...]) -> None:
    if name not in names:
        raise InvalidSetting(f"there is no {setting} {name!r}", f"use one of {', '.join(names)}")
