"""Edits: the small changes a commit is made of. Each checks itself against the manifest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from mayfly.errors import InvalidEdit
from mayfly.storage.manifest import Manifest
from mayfly.storage.segment import Json, Segment, relabel


@dataclass(slots=True)
class Draft:
    """The manifest under construction; only edits change it."""

    segments: dict[str, Segment]
    properties: dict[str, Json]
    added: list[Segment] = field(default_factory=list)

    @staticmethod
    def of(base: Manifest) -> Draft:
        return Draft(dict(base.segments), dict(base.properties))


class Edit(Protocol):
    def apply(self, draft: Draft) -> None:
        """Change the draft, or raise InvalidEdit."""


@dataclass(frozen=True, slots=True)
class AddSegments:
    segments: tuple[Segment, ...]

    def apply(self, draft: Draft) -> None:
        for segment in self.segments:
            if segment.path in draft.segments:
                raise InvalidEdit(f"the segment {segment.path} is already in the manifest")
            if segment.rows <= 0 or segment.ts.low >= segment.exp.high:
                raise InvalidEdit(f"the segment {segment.path} holds no row that could be alive")
            draft.segments[segment.path] = segment
            draft.added.append(segment)


@dataclass(frozen=True, slots=True)
class DropSegments:
    paths: tuple[str, ...]

    @staticmethod
    def of(segments: Iterable[Segment]) -> DropSegments:
        return DropSegments(tuple(segment.path for segment in segments))

    def apply(self, draft: Draft) -> None:
        for path in self.paths:
            if draft.segments.pop(path, None) is None:
                raise InvalidEdit(f"the segment {path} is not in the manifest")


@dataclass(frozen=True, slots=True)
class MoveSegments:
    """Segments change their group: a sub-index gets a new name, no data moves."""

    paths: tuple[str, ...]
    group: str

    def apply(self, draft: Draft) -> None:
        for path in self.paths:
            if path not in draft.segments:
                raise InvalidEdit(f"the segment {path} is not in the manifest")
            draft.segments[path] = relabel(draft.segments[path], self.group)


@dataclass(frozen=True, slots=True)
class TagSegment:
    """New tags for a segment (a deletion vector, the days it holds)."""

    path: str
    tags: Mapping[str, Json]

    def apply(self, draft: Draft) -> None:
        if self.path not in draft.segments:
            raise InvalidEdit(f"the segment {self.path} is not in the manifest")
        draft.segments[self.path] = replace(draft.segments[self.path], tags=dict(self.tags))


@dataclass(frozen=True, slots=True)
class SetProperties:
    properties: Mapping[str, Json]

    def apply(self, draft: Draft) -> None:
        draft.properties.update(self.properties)
