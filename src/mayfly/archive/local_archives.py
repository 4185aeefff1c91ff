"""Archives without Spark: created, updated with Arrow tables and read in this process.

Reading never needs Spark, whichever process wrote the archive. Updates in one process are for
notebooks, tests and small data; ``Session.open_archive`` updates the same archive by Spark jobs.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from typing import Any, Unpack

from mayfly.archive.advice.cell_advice import AUTO, laid_out_for, with_advised_layout
from mayfly.archive.advice.cell_advisor import CellAdvice
from mayfly.archive.advice.wave_advice import Workload
from mayfly.archive.archive import Archive
from mayfly.archive.archive_options import ArchiveOptions, chosen_options
from mayfly.archive.model.declaration import Declaration, WindowRequest
from mayfly.archive.model.lifetime_declaration import LifetimeRequest
from mayfly.archive.model.settings import brought_columns
from mayfly.archive.write.local_jobs import InProcess
from mayfly.errors import InvalidSetting
from mayfly.keywords import check_settings, known_settings
from mayfly.lifetime import Duration
from mayfly.storage.store import local_root

_OF_WINDOWS = frozenset({"window", "scheme", "constituents", "technique", "spread"})
_OF_LAYOUTS = frozenset({"groups", "lanes", "rebuild", "span", "fan_in", "clustered"})
_OF_LIFETIMES = frozenset({"exp", "lifetime", "counts", "layout", "contract", "young", "expect"})


@known_settings()
def open(path: str | os.PathLike[str]) -> Archive:
    """Open an archive for reading, and for updates with Arrow tables."""
    return Archive.open(path, InProcess())


@known_settings(ArchiveOptions)
def create(
    path: str | os.PathLike[str],
    columns: Any,
    *,
    key: str | Sequence[str],
    window: int | str | timedelta | None = None,
    max_lifetime: Duration | None = None,
    refresh: Duration | None = None,
    **settings: Unpack[ArchiveOptions],
) -> Archive:
    """Create an archive; ``columns`` is DDL text, a mapping, an Arrow schema, or rows that have
    the columns (an Arrow table, a pandas DataFrame, a list of dicts).

    With a ``window`` the settings are those of ``archive.model.declaration.WindowRequest``, and
    have its defaults. With ``max_lifetime`` in place of it every row has its own lifetime, and the
    settings are those of ``archive.model.lifetime_declaration.LifetimeRequest``; there
    ``layout="auto"`` with ``expect=Workload(…)`` takes the layout that would do the least work.
    """
    options = chosen_options(
        settings, key=key, window=window, max_lifetime=max_lifetime, refresh=refresh
    )
    listed, advice = brought_columns(columns), None
    if max_lifetime is not None:
        declared, advice = declared_for(path, listed, options)
    else:
        declared = declared_window(listed, options)
    return Archive.create(
        path,
        declared.settings,
        InProcess(),
        origin_is_open=declared.origin_is_open,
        properties=laid_out_for(advice),
    )


def declared_window(
    columns: str | Mapping[str, str], settings: Mapping[str, Any], without: Collection[str] = ()
) -> Declaration:
    """The declaration of an archive of a window; what is ``without`` is left to be decided."""
    others = (_OF_LAYOUTS | _OF_LIFETIMES) & settings.keys()
    _refuse_others(others, "an archive of a window", "max_lifetime=…")
    if "window" not in settings:
        raise InvalidSetting(
            "nothing says how long rows are kept",
            "give window=…, or max_lifetime=… where every row has its own lifetime",
        )
    check_settings(WindowRequest, settings)
    options = {name: value for name, value in settings.items() if name not in without}
    return WindowRequest(columns, **options).declaration()


def declared_for(
    path: str | os.PathLike[str], columns: str | Mapping[str, str], settings: Mapping[str, Any]
) -> tuple[Declaration, CellAdvice | None]:
    """The declaration of rows with their own lifetimes; with ``layout="auto"`` the layout is the
    one that does the least work under the ``expect``-ed load, and the advice says why."""
    _refuse_others(_OF_WINDOWS & settings.keys(), "rows with their own lifetimes", "window=…")
    options = dict(settings)
    load = options.pop("expect", None)
    check_settings(LifetimeRequest, options)
    if str(options.get("layout")).lower() != AUTO:
        if load not in (None, Workload()):
            raise InvalidSetting(
                f"a load is expected ({load}), but the layout is not to be chosen for it",
                'give layout="auto", or leave it out',
            )
        return LifetimeRequest(columns, **options).declaration(), None
    if decided := sorted(_OF_LAYOUTS & settings.keys()):
        raise InvalidSetting(
            f'layout="auto" decides about {", ".join(decided)}', "leave them out, or name a layout"
        )
    del options["layout"]
    request = LifetimeRequest(columns, **options)
    return with_advised_layout(request.declaration(), local_root(path), load)


def _refuse_others(names: Collection[str], kind: str, instead: str) -> None:
    if names:
        raise InvalidSetting(
            f"{', '.join(sorted(names))} does not go with {kind}",
            f"leave it out, or give {instead} in place of what there is",
        )
