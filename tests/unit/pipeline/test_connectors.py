"""Sources and sinks that statements name, checked without Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from mayfly.errors import InvalidSetting
from mayfly.pipeline.connectors import check_stream, python_file
from mayfly.pipeline.control import stream_of
from mayfly.pipeline.pipeline_file import PipelineFile
from mayfly.plan.catalog import Connector

STREAM = "CREATE STREAM s (ts TIMESTAMP, k STRING) FROM {} TIMESTAMP BY ts;\n"
PARQUET = STREAM.format("parquet('in')")
QUERY = "CREATE QUERY q {} AS SELECT k FROM s [RANGE 1 SEC];\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of a pipeline, with something beside it."""
    made = tmp_path / "pipeline"
    made.mkdir()
    (made / "in").mkdir()
    (tmp_path / "elsewhere.py").write_text("raise SystemExit('this must never run')")
    return made


def read(folder: Path, text: str, *, allow_python: bool = False) -> PipelineFile:
    file = folder / "p.cql"
    file.write_text(text)
    return PipelineFile.read(file, allow_python=allow_python)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (STREAM.format("parquet('nowhere')"), "there is no folder"),
        (STREAM.format("memory()"), "is memory, which cannot be read"),
        (STREAM.format("rate()"), "which rate does not give"),
        (STREAM.format("socket(host => 'h', port => '1')"), "which socket does not give"),
        (STREAM.format("socket(payload => 'json')"), "cannot be read without host"),
        (STREAM.format("json('in', maxFilesPerTriger => '1')"), "has no option maxFilesPerTriger"),
        (
            STREAM.format("parquet('in')").replace(";", " DEAD LETTERS TO json('late');"),
            "dead letters of s go to json",
        ),
        ("CREATE STREAM s (ts TIMESTAMP) TIMESTAMP BY ts;", "no source"),
        ("CREATE RELATION r (a INT) KEY a FROM rate();", "source of r is rate"),
        ("CREATE RELATION r (a INT) KEY a FROM csv('nowhere');", "there is no folder"),
        (PARQUET + QUERY.format("TO json('x')"), "goes to json"),
        (PARQUET + QUERY.format("TO memory()"), "goes to memory"),
        (PARQUET + QUERY.format("TO console(rows => '3')"), "with rows"),
        (PARQUET + QUERY.format("TO parquet('in')"), "where stream s reads"),
        (
            PARQUET
            + QUERY.format("TO parquet('out')")
            + QUERY.replace("q", "p", 1).format("TO parquet('./out')"),
            "go to one folder",
        ),
    ],
)
def test_what_could_not_run_is_refused(folder: Path, text: str, problem: str) -> None:
    with pytest.raises(InvalidSetting, match=problem):
        read(folder, text)


@pytest.mark.parametrize(
    "source",
    [
        "parquet('in')",
        "kafka(subscribe => 't', `kafka.bootstrap.servers` => 'b:1', payload => 'json')",
        "socket(host => 'h', port => '1', payload => 'json')",
    ],
)
@pytest.mark.parametrize("sink", ["", "TO console()", "TO parquet('out')"])
def test_what_could_run_is_not_refused(folder: Path, source: str, sink: str) -> None:
    found = read(folder, STREAM.format(source) + QUERY.format(sink))
    found.check_queries()
    assert list(found.queries) == ["q"]


def test_columns_that_options_add_are_given(folder: Path) -> None:
    text = "CREATE STREAM s (timestamp TIMESTAMP, value STRING) FROM socket({}) TIMESTAMP BY value;"
    asked = "host => 'h', port => '1'"
    with pytest.raises(InvalidSetting, match="which socket does not give"):
        read(folder, text.format(asked).replace("BY value", "BY timestamp"))
    timed = text.format(f"{asked}, includeTimestamp => 'true'").replace("BY value", "BY timestamp")
    assert len(read(folder, timed).statements) == 1


def test_python_runs_only_where_it_is_allowed(folder: Path) -> None:
    (folder / "own.py").write_text("")
    text = STREAM.format("python('own:Source')")
    with pytest.raises(InvalidSetting, match="would run Python code") as refusal:
        read(folder, text)
    assert "--allow-python" in refusal.value.hint
    assert len(read(folder, text, allow_python=True).statements) == 1


@pytest.mark.parametrize(
    "path",
    [
        "../elsewhere:Source",
        "/elsewhere:Source",
        "sub/own:Source",
        "sub.own:Source",
        "own:Source.inner",
        "own:",
        ":Source",
        "own",
        "..:Source",
        "own\x00:Source",
    ],
)
def test_a_python_source_has_no_way_out_of_the_folder(folder: Path, path: str) -> None:
    (folder / "own.py").write_text("")
    with pytest.raises(InvalidSetting, match="is no class of a file beside the pipeline"):
        python_file("s", Connector("python", path), folder)


def test_links_do_not_lead_out_of_the_folder(folder: Path) -> None:
    (folder / "linked.py").symlink_to(folder.parent / "elsewhere.py")
    with pytest.raises(InvalidSetting, match="leads out of the folder"):
        python_file("s", Connector("python", "linked:Source"), folder)
    (folder / "own.py").write_text("")
    (folder.parent / "alias").symlink_to(folder)
    file, name = python_file("s", Connector("python", "own:Source"), folder.parent / "alias")
    assert (file, name) == ((folder / "own.py").resolve(), "Source")


def test_a_command_brings_no_folder_of_its_own_for_code(folder: Path) -> None:
    """The folder of a command is for the paths of data."""
    brought = folder.parent / "brought"
    brought.mkdir()
    (brought / "own.py").write_text("raise SystemExit('this must never run')")
    definition = stream_of(STREAM.format("python('own:Source')"))
    with pytest.raises(InvalidSetting, match="would run Python code"):
        check_stream(definition, brought, None)
    with pytest.raises(InvalidSetting, match=r"has no file own\.py"):
        check_stream(definition, brought, folder)


def test_an_installed_module_is_no_source(folder: Path) -> None:
    with pytest.raises(InvalidSetting, match=r"has no file json\.py"):
        python_file("s", Connector("python", "json:JSONDecoder"), folder)
