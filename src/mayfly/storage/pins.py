"""Readers' claims on versions: what a vacuum leaves in place for them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from types import TracebackType

from mayfly.errors import CorruptFile
from mayfly.storage.directory import Directory
from mayfly.storage.manifest import Manifest
from mayfly.storage.sealed_files import seal_json, unseal_json


@dataclass(frozen=True, slots=True)
class Pin:
    """A reader's claim on a version: vacuum keeps its files until it is released or runs out.

    A reader that may not write to the directory reads without a claim: a vacuum can then take the
    version away, which the reader gets as an error (VersionExpired).
    """

    directory: Directory
    name: str | None
    """None if the claim could not be written."""
    manifest: Manifest

    @property
    def held(self) -> bool:
        return self.name is not None

    def release(self) -> None:
        if self.name is not None:
            self.directory.remove(self.name)

    def __enter__(self) -> Manifest:
        return self.manifest

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()


@dataclass(frozen=True, slots=True)
class Claim:
    """What a pin file says: ``version`` is needed until the wall clock passes ``until``."""

    version: int
    until: int

    def encode(self) -> bytes:
        claim = {"version": self.version, "until": self.until, "process": os.getpid()}
        return seal_json(claim)

    @staticmethod
    def decode(data: bytes, name: str) -> Claim:
        hint = "remove it once no reader of that time is left"
        stored = unseal_json(data, f"the pin {name}", hint)
        try:
            return Claim(int(stored["version"]), int(stored["until"]))
        except (KeyError, TypeError, ValueError) as error:
            raise CorruptFile(f"the pin {name} is damaged", hint) from error
