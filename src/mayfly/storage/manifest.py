"""The manifest: one immutable value that says everything about a version.

It names the segments that make up the version and holds the owner's properties (clock, batch id,
layout state, …). A manifest file is two lines: a head with format version and checksum, and the
body the checksum is taken of.
"""

from __future__ import annotations

import json
import uuid
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache

import xxhash

from mayfly.display import Facts, counted
from mayfly.errors import CorruptFile, StorageError, UnsupportedFormat
from mayfly.storage.segment import Json, Segment

FORMAT = "mayfly-manifest"
FORMAT_VERSION = 1
LINEAGE = 32


@dataclass(frozen=True, repr=False)
class Manifest(Facts):
    """Version ``version`` of a directory: its segments and its owner's properties."""

    version: int
    segments: Mapping[str, Segment] = field(default_factory=dict)
    properties: Mapping[str, Json] = field(default_factory=dict)
    written_at: int = 0
    """Wall clock of the commit, µs; used only for retention, never for meaning."""
    lineage: tuple[str, ...] = ()
    """Random ids of this commit and of those before it, newest first: they tell apart two commits
    of one number, of which vacuum may leave neither."""
    marked: bool = False
    """Whether the newest version had a mark of its own beside its manifest when this was written:
    where there is none now, it was removed."""
    after: int | None = None
    """The version before it, where a rollback left out numbers that lost versions have had."""

    def facts(self) -> Mapping[str, object]:
        """Which version it is, and how much it names."""
        return {"version": self.version, "of": counted(len(self.segments), "segment")}

    def commit_id(self, version: int) -> str | None:
        """The id of the commit that made ``version``, if it is among the last ones."""
        ago = self.version - version
        return self.lineage[ago] if 0 <= ago < len(self.lineage) else None

    def followed_by(self, **changes: Json) -> Manifest:
        """The next version, with a lineage of its own."""
        lineage = (uuid.uuid4().hex[:8], *self.lineage)[:LINEAGE]
        version = self.version + 1
        changes = {"marked": version > 0, "after": None, **changes}
        return replace(self, version=version, lineage=lineage, **changes)

    @cached_property
    def _by_group(self) -> Mapping[str, tuple[Segment, ...]]:
        """Segments by group, groups in order of their names."""
        groups: dict[str, list[Segment]] = {}
        for segment in self.segments.values():
            groups.setdefault(segment.group, []).append(segment)
        return {group: tuple(groups[group]) for group in sorted(groups)}

    @cached_property
    def groups(self) -> tuple[str, ...]:
        return tuple(self._by_group)

    def in_group(self, prefix: str) -> Iterator[Segment]:
        """Segments of the group ``prefix`` and of groups below it (``prefix/…``).

        Costs what it finds, not what the manifest holds, from the second look on. Within a group
        the segments come in the order in which they were added.
        """
        yield from self._by_group.get(prefix, ())
        below = f"{prefix}/"
        for index in range(bisect_left(self.groups, below), len(self.groups)):
            if not self.groups[index].startswith(below):
                break
            yield from self._by_group[self.groups[index]]

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
                "lineage": self.lineage,
                "properties": dict(self.properties),
                "segments": [segment.to_json() for segment in self.segments.values()],
                **({"marked": True} if self.marked else {}),
                **({} if self.after is None else {"after": self.after}),
            },
            separators=(",", ":"),
            sort_keys=True,
            allow_nan=False,
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
        return _decoded(data, name)


def _parts(data: bytes, name: str) -> tuple[Mapping[str, Json], bytes]:
    try:
        head_line, body, rest = data.split(b"\n")
        head = json.loads(head_line)
    except ValueError as error:
        raise _damaged(f"the manifest {name} is truncated or damaged") from error
    if rest or not isinstance(head, dict):
        raise _damaged(f"the manifest {name} is damaged")
    return head, body


def _damaged(what: str) -> CorruptFile:
    return CorruptFile(what, "restore it from a copy, or roll back to an older version")


@lru_cache(maxsize=4)
def _decoded(data: bytes, name: str) -> Manifest:
    """Versions are read again and again, by readers, commits and vacuum: what is the same bytes is
    not parsed again."""
    head, body = _parts(data, name)
    if head.get("format") != FORMAT:
        raise CorruptFile(f"{name} is not a Mayfly manifest", "check the directory's path")
    if head.get("format_version") != FORMAT_VERSION:
        raise UnsupportedFormat(
            f"{name} has format version {head.get('format_version')}; "
            f"this version of Mayfly reads version {FORMAT_VERSION}",
            "install a newer Mayfly",
        )
    if head.get("checksum") != xxhash.xxh3_64_hexdigest(body):
        raise _damaged(f"the manifest {name} differs from its checksum")
    try:
        stored = json.loads(body)
        segments = (Segment.from_json(entry) for entry in stored["segments"])
        return Manifest(
            version=stored["version"],
            segments={segment.path: segment for segment in segments},
            properties=stored["properties"],
            written_at=stored["written_at"],
            lineage=tuple(stored["lineage"]),
            marked=bool(stored.get("marked")),
            after=stored.get("after"),
        )
    except StorageError as error:
        raise type(error)(f"the manifest {name}: {error.message}", error.hint) from error
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise _damaged(f"the manifest {name} lacks a part: {error}") from error
