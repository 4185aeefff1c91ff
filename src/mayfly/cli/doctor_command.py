"""``mayfly doctor``: whether this machine can run pipelines, and what to do where it cannot.

Every check gives one finding: fine, doubtful, or failed with advice. A failed one ends the command
with exit code 1; what is doubtful is only told.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import typer

from mayfly.cli.output import print_json
from mayfly.errors import MayflyError
from mayfly.storage.directory import Directory

FINE, DOUBTFUL, FAILED = "fine", "doubtful", "failed"
SIGNS = {FINE: "✓", DOUBTFUL: "?", FAILED: "✗"}
JAVA = 17
LITTLE_DISK, LITTLE_MEMORY = 2 << 30, 3 << 30
"""Less free space than this fills up soon; Spark and its workers want so much memory."""
OPEN_FILES = 1024
_VERSION = re.compile(r'version "(\d+)(?:\.(\d+))?')


@dataclass(frozen=True)
class Finding:
    """What a check found, and what to do about it."""

    name: str
    verdict: str
    observation: str
    advice: str = ""


def doctor_command(
    folder: Annotated[
        Path, typer.Argument(help="Where checkpoints and results will be.", metavar="FOLDER")
    ] = Path(),
    spark: Annotated[
        bool, typer.Option("--spark/--no-spark", help="Start Spark and run a job on it.")
    ] = True,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
) -> None:
    """Check Java, Spark, packages, memory, disk and permissions; exit code 1 if one fails."""
    checks: list[Callable[[], Finding]] = [
        check_python,
        check_packages,
        check_java,
        check_memory,
        check_open_files,
        lambda: check_folder(folder),
        lambda: check_space("disk", folder),
        lambda: check_space("disk for Spark", Path(tempfile.gettempdir())),
    ]
    findings: list[Finding] = []
    for check in checks:
        findings.append(check())
        if not json:
            _print(findings[-1])
    if spark and all(finding.verdict != FAILED for finding in findings):
        findings.append(check_spark())
        if not json:
            _print(findings[-1])
    if json:
        print_json([asdict(finding) for finding in findings])
    failed = [finding.name for finding in findings if finding.verdict == FAILED]
    if failed:
        raise typer.Exit(1)
    if not json:
        typer.echo("pipelines can run here")


def _print(finding: Finding) -> None:
    typer.echo(f"{SIGNS[finding.verdict]} {finding.name}: {finding.observation}")
    if finding.advice:
        typer.echo(f"    → {finding.advice}")


# ── checks ────────────────────────────────────────────────────────────────────────────────


def check_python() -> Finding:
    return Finding("Python", FINE, f"{platform.python_version()} at {sys.executable}")


def check_packages() -> Finding:
    """The packages Mayfly was declared to need, in the versions it was declared for."""
    wrong, seen = [], []
    for name, bounds in _required():
        try:
            version = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            wrong.append(f"{name} is missing")
            continue
        seen.append(f"{name} {version}")
        broken = [bound for bound in bounds if not _within(version, bound)]
        if broken:
            wrong.append(f"{name} is {version}, not {','.join(bounds)}")
    if wrong:
        advice = "install Mayfly again in this environment: pip install --upgrade mayfly"
        return Finding("packages", FAILED, "; ".join(wrong), advice)
    return Finding("packages", FINE, ", ".join(seen))


def _required() -> Iterator[tuple[str, list[str]]]:
    """Name and version bounds of what the installed Mayfly needs, extras left out."""
    for text in importlib.metadata.requires("mayfly") or []:
        needed, _, marker = text.partition(";")
        if "extra" in marker:
            continue
        match = re.match(r"\s*([A-Za-z0-9_.-]+)\s*(.*)", needed)
        if match:
            yield match[1], [bound.strip() for bound in match[2].split(",") if bound.strip()]


def _within(version: str, bound: str) -> bool:
    match = re.match(r"(>=|<)\s*(\S+)", bound)
    if match is None:
        return True
    ours, theirs = _numbers(version), _numbers(match[2])
    return ours >= theirs if match[1] == ">=" else ours < theirs


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3])


def check_java() -> Finding:
    """The Java that Spark would start."""
    advice = f"install Java {JAVA} or later, or set JAVA_HOME to where it is"
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if java is None:
        return Finding("Java", FAILED, "not found", advice)
    try:
        process = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired) as error:
        return Finding("Java", FAILED, f"{java} does not run: {error}", advice)
    match = _VERSION.search(process.stderr)
    if match is None:
        return Finding("Java", FAILED, f"{java} does not tell its version", advice)
    major = int(match[2] or 0) if match[1] == "1" else int(match[1])
    if major < JAVA:
        return Finding("Java", FAILED, f"{java} is Java {major}", advice)
    return Finding("Java", FINE, f"{major} at {java}")


def check_memory() -> Finding:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    description = f"{memory / 2**30:.1f} GiB, {os.cpu_count()} cores"
    if memory < LITTLE_MEMORY:
        advice = "Spark may be short of memory; leave it at least 3 GiB"
        return Finding("memory", DOUBTFUL, description, advice)
    return Finding("memory", FINE, description)


def check_open_files() -> Finding:
    import resource

    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    description = "no limit" if limit == resource.RLIM_INFINITY else f"{limit:,}"
    if 0 < limit < OPEN_FILES:
        return Finding(
            "open files", DOUBTFUL, description, f"allow more: ulimit -n {OPEN_FILES * 4}"
        )
    return Finding("open files", FINE, description)


def check_folder(folder: Path) -> Finding:
    """Whether commits are possible there: a file is written and linked exclusively."""
    place = _existing(folder)
    name = "permissions"
    try:
        with tempfile.TemporaryDirectory(prefix=".mayfly-doctor-", dir=place) as scratch:
            directory = Directory.at(scratch)
            made = [directory.put_if_absent("commit", b"x") for _ in range(2)]
        if made != [True, False]:
            advice = "use a local or shared POSIX file system"
            return Finding(name, FAILED, f"{place.absolute()}: links are not exclusive", advice)
    except (MayflyError, OSError) as error:
        advice = getattr(error, "hint", "") or "give this user the right to write there"
        message = getattr(error, "message", str(error))
        return Finding(name, FAILED, f"{place.absolute()}: {message}", advice)
    return Finding(name, FINE, f"{place.absolute()} takes commits")


def check_space(name: str, folder: Path) -> Finding:
    place = _existing(folder)
    free = shutil.disk_usage(place).free
    description = f"{free / 2**30:,.1f} GiB free at {place.absolute()}"
    if free < LITTLE_DISK:
        return Finding(name, DOUBTFUL, description, "free some space, or use another folder")
    return Finding(name, FINE, description)


def _existing(folder: Path) -> Path:
    """The folder, or the nearest one above it that exists."""
    place = folder.absolute()
    while not place.exists():
        place = place.parent
    return place


def check_spark() -> Finding:
    """Start a local Spark and send rows through a Python worker, as every query does."""
    try:
        from mayfly.spark.cluster.local_spark import local_spark

        session = local_spark(1, memory="1g")
        try:
            sent = session.range(1000).mapInArrow(_same, "id BIGINT").count()
            version = session.version
        finally:
            session.stop()
    except Exception as error:
        advice = getattr(error, "hint", "") or "see what Spark says, and check Java and memory"
        return Finding("Spark", FAILED, str(error).splitlines()[0], advice)
    if sent != 1000:
        advice = "check that PYSPARK_PYTHON is this Python"
        return Finding("Spark", FAILED, f"{sent} of 1000 rows came back", advice)
    return Finding("Spark", FINE, f"{version} ran a job")


def _same(batches: Iterator[object]) -> Iterator[object]:
    yield from batches
