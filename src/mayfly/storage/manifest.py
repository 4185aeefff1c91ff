"""The manifest: one immutable value that says everything about a version.

It names the segments that make up the version and holds the owner's properties (clock, batch id,
layout state, …). A manifest file carries a checksum of its own content and the format version.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import xxhash

from mayfly.errors import CorruptFile, UnsupportedFormat
from mayfly.storage.segment import Json, Segment

FORMAT = "mayfly-manifest"
FORMAT_VERSION = 1


@dataclass(frozen=True, slots=True)
class Manifest:
    """Version ``version`` of a directory: its segments and its owner's properties."""

    version: int
    segments: Mapping[str, Segment] = field(default_factory=dict)
    properties: Mapping[str, Json] = field(default_factory=dict)
    written_at: int = 0
    """Wall clock of the commit, µs; used only for retention, never for meaning."""

    def in_group(self, prefix: str) -> Iterator[Segment]:
        """Segments of the group ``prefix`` or of groups below it (``prefix/…``)."""
        below = f"{prefix}/"
        for segment in self.segments.values():
            if segment.group == prefix or segment.group.startswith(below):
                yield segment

    @property
    def rows(self) -> int:
        return sum(segment.rows for segment in self.segments.values())

    @property
    def stored_bytes(self) -> int:
        return sum(segment.bytes for segment in self.segments.values())

    def encode(self) -> bytes:
        body = json.dumps(
            {
                "version": self.version,
                "written_at": self.written_at,
                "properties": dict(self.properties),
                "segments": [segment.to_json() for segment in self.segments.values()],
            },
            separators=(",", ":"),
            sort_keys=True,
        )
        head = {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "checksum": xxhash.xxh3_64_hexdigest(body.encode()),
        }
        return f"{json.dumps(head)}\n{body}\n".encode()

    @staticmethod
    def decode(data: bytes, name: str) -> Manifest:
        """Read what ``encode`` wrote; ``name`` is the file, for messages."""
        head, body = _parts(data, name)
        if head.get("format") != FORMAT:
            raise CorruptFile(f"{name} is not a Mayfly manifest", "check the directory's path")
        if head.get("format_version", 0) > FORMAT_VERSION:
            raise UnsupportedFormat(
                f"{name} has format version {head['format_version']}; "
                f"this version of Mayfly reads up to {FORMAT_VERSION}",
                "install a newer Mayfly",
            )
        if head.get("checksum") != xxhash.xxh3_64_hexdigest(body):
            raise CorruptFile(
                f"the manifest {name} differs from its checksum", "roll back to an older version"
            )
        stored = json.loads(body)
        segments = (Segment.from_json(one) for one in stored["segments"])
        return Manifest(
            version=stored["version"],
            segments={segment.path: segment for segment in segments},
            properties=stored["properties"],
            written_at=stored["written_at"],
        )


def _parts(data: bytes, name: str) -> tuple[dict[str, Any], bytes]:
    try:
        head, body, *_ = data.split(b"\n")
        return json.loads(head), body
    except ValueError as error:
        raise CorruptFile(f"the manifest {name} is truncated or damaged") from error
