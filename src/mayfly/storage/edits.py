"""Edits: the small changes a commit is made of. Each checks itself against the manifest."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from mayfly.errors import InvalidEdit
from mayfly.storage.directory import is_plain
from mayfly.storage.manifest import Manifest
from mayfly.storage.segment import DATA, Json, Segment, relabel


@dataclass(slots=True)
class Draft:
    """The manifest under construction; only edits change it."""

    segments: dict[str, Segment]
    properties: dict[str, Json]
    added: list[Segment] = field(default_factory=list)

    @staticmethod
    def of(base: Manifest) -> Draft:
        return Draft(dict(base.segments), dict(base.properties))

    def segment(self, path: str) -> Segment:
        if path not in self.segments:
            raise InvalidEdit(
                f"the segment {path} is not in the manifest",
                "take segments from the version the commit starts from",
            )
        return self.segments[path]


class Edit(Protocol):
    def apply(self, draft: Draft) -> None:
        """Change the draft, or raise InvalidEdit."""


def as_stored(values: Mapping[str, Json], what: str) -> dict[str, Json]:
    """The values as they will be read back, so that none works with what a file cannot hold."""
    try:
        stored: dict[str, Json] = json.loads(json.dumps(dict(values), allow_nan=False))
    except (TypeError, ValueError) as error:
        raise InvalidEdit(
            f"{what} cannot be stored: {error}", "use text, numbers, lists and dictionaries"
        ) from error
    return stored


@dataclass(frozen=True, slots=True)
class AddSegments:
    """Files that belong to the next version."""

    segments: tuple[Segment, ...]

    def apply(self, draft: Draft) -> None:
        for segment in self.segments:
            _check(segment)
            if segment.path in draft.segments:
                raise InvalidEdit(
                    f"the segment {segment.path} is already in the manifest",
                    "add a segment once; MoveSegments changes its group",
                )
            kept = replace(segment, tags=as_stored(segment.tags, f"a tag of {segment.path}"))
            draft.segments[segment.path] = kept
            draft.added.append(kept)


def _check(segment: Segment) -> None:
    if not (is_plain(segment.path) and segment.path.startswith(f"{DATA}/")):
        raise InvalidEdit(
            f"the segment {segment.path!r} lies outside {DATA}/", "write it with SegmentWriter"
        )
    if segment.rows <= 0 or segment.ts.low >= segment.exp.high:
        raise InvalidEdit(
            f"the segment {segment.path} holds no row that could be alive", "leave it out"
        )


@dataclass(frozen=True, slots=True)
class DropSegments:
    paths: tuple[str, ...]

    @staticmethod
    def of(segments: Iterable[Segment]) -> DropSegments:
        return DropSegments(tuple(segment.path for segment in segments))

    def apply(self, draft: Draft) -> None:
        for path in self.paths:
            del draft.segments[draft.segment(path).path]


@dataclass(frozen=True, slots=True)
class MoveSegments:
    """Segments change their group: a sub-index gets a new name, no data moves."""

    paths: tuple[str, ...]
    group: str

    def apply(self, draft: Draft) -> None:
        for path in self.paths:
            draft.segments[path] = relabel(draft.segment(path), self.group)


@dataclass(frozen=True, slots=True)
class TagSegment:
    """New tags for a segment (a deletion vector, the days it holds)."""

    path: str
    tags: Mapping[str, Json]

    def apply(self, draft: Draft) -> None:
        tags = as_stored(self.tags, f"a tag of {self.path}")
        draft.segments[self.path] = replace(draft.segment(self.path), tags=tags)


@dataclass(frozen=True, slots=True)
class SetProperties:
    properties: Mapping[str, Json]

    def apply(self, draft: Draft) -> None:
        draft.properties.update(as_stored(self.properties, "a property"))
