"""What a path names: a checkpoint, or a pipeline file with its checkpoint and archives."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from mayfly.cql import Create, parse
from mayfly.cql.script_files import text_of
from mayfly.errors import StorageError
from mayfly.keywords import known_settings
from mayfly.plan.catalog import ArchiveDefinition
from mayfly.serving.pipeline_reader import PipelineReader
from mayfly.storage import Repository

ARCHIVES = "archives"
"""The folder beside a pipeline file in which the archives it declares are kept."""
Place = str | os.PathLike[str]


@known_settings()
def open(path: Place, *, archives: Mapping[str, Place] | None = None) -> PipelineReader:
    """Open a pipeline for reading, running or stopped: its checkpoint, or the pipeline file that
    ``mayfly run`` was given. No Spark is started and nothing is written.

    ``archives`` are further ones for one-time queries, by name; those that a pipeline file declares
    are found.
    """
    if not is_pipeline_file(path):
        return PipelineReader.open(path, archives)
    checkpoint = existing_checkpoint_of(path)
    return PipelineReader.open(checkpoint, {**archives_of(path), **(archives or {})})


def is_pipeline_file(path: Place) -> bool:
    return Path(path).suffix == ".cql"


def checkpoint_of(file: Place) -> Path:
    """Where ``mayfly run`` keeps the state of a file, if no other place is named."""
    return Path(file).with_suffix(".state")


def existing_checkpoint_of(file: Place) -> Path:
    """Of a file that was run before: it must be there."""
    if not Path(file).is_file():
        raise StorageError(
            f"there is no file {os.fspath(file)}", "name a pipeline file, or a checkpoint"
        )
    checkpoint = checkpoint_of(file)
    if not Repository.exists(checkpoint):
        raise StorageError(
            f"{os.fspath(file)} has no checkpoint yet: there is none at {checkpoint}",
            f"run it: mayfly run {os.fspath(file)}; or name the checkpoint it runs on",
        )
    return checkpoint


def archives_of(file: Place) -> dict[str, Path]:
    """The archives that a pipeline file declares, as far as they were made."""
    statements = parse(text_of(Path(file)), name=os.fspath(file))
    definitions = [item.definition for item in statements if isinstance(item, Create)]
    folder = Path(file).resolve().parent / ARCHIVES
    names = [entry.name for entry in definitions if isinstance(entry, ArchiveDefinition)]
    return {name: folder / name for name in names if Repository.exists(folder / name)}
