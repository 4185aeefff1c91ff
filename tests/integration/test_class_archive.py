"""Spark's stored classes: used when they are there, and never in the way."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mayfly.spark.cluster import class_archive

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_this_spark_maps_the_file_of_its_java_if_there_is_one(spark: SparkSession) -> None:
    machine = spark._jvm.java.lang.management.ManagementFactory.getRuntimeMXBean()  # type: ignore[union-attr]
    given = [word for word in machine.getInputArguments() if "SharedArchiveFile" in word]
    file = class_archive.path()
    assert file is not None
    assert given == ([f"-XX:SharedArchiveFile={file}"] if file.exists() else [])


def test_without_a_file_nothing_is_asked_of_java(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    assert class_archive.java_options() == ""


def test_a_file_that_does_not_fit_is_passed_over_in_silence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    file = class_archive.path()
    assert file is not None
    file.parent.mkdir(parents=True)
    file.write_bytes(b"from another Java" * 1000)
    words = ["java", *shlex.split(class_archive.java_options())]
    assert f"-XX:SharedArchiveFile={file}" in words
    plain = subprocess.run(["java", "-version"], capture_output=True, text=True, check=True)
    done = subprocess.run([*words, "-version"], capture_output=True, text=True, check=True)
    assert done.stdout == plain.stdout
    assert done.stderr.replace(", sharing", "") == plain.stderr.replace(", sharing", "")


def test_without_java_there_is_no_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert class_archive.path() is None
