"""Sources and sinks that statements name, checked without Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from mayfly.errors import InvalidSetting
from mayfly.pipeline.control_requests import stream_of
from mayfly.pipeline.pipeline_file import PipelineFile
from mayfly.pipeline.source_checks import check_stream, python_file

STREAM = "CREATE STREAM s (ts TIMESTAMP, k STRING) FROM {} TIMESTAMP BY ts;\n"
PARQUET = STREAM.format("parquet('in')")
ARCHIVE = "CREATE ARCHIVE a KEY k REFRESH 1 MIN AS SELECT k, {} FROM s [RANGE 1 HOUR];\n"
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
        ("CREATE RELATION r (a INT) KEY a FROM rate();", "source of relation r is rate"),
        ("CREATE RELATION r (a INT) KEY a FROM csv('nowhere');", "there is no folder"),
        (PARQUET, "has no query to run"),
        (PARQUET + QUERY.format("TO console('x')"), "no place of its own"),
        (PARQUET + ARCHIVE.format("k AS _v"), "'_v' cannot be stored"),
        (PARQUET + ARCHIVE.format("k AS `a.b`"), "'a.b' cannot be stored"),
        (STREAM.format("text('in')"), "a text file gives one"),
        (STREAM.replace("k STRING", "k ARRAY<INT>").format("csv('in')"), "CSV files cannot hold"),
        (STREAM.format("json('')"), "does not say where the files are"),
        (STREAM.format("json('in', maxFilesPerTrigger => 'abc')"), "maxFilesPerTrigger .* 'abc'"),
        (STREAM.format("json('in', maxFilesPerTrigger => '0')"), "maxFilesPerTrigger .* '0'"),
        (STREAM.format("json('in', multiline => 'maybe')"), "multiLine .* 'maybe'"),
        (STREAM.format("json('in', mode => 'LAX')"), "mode .* 'LAX'"),
        (STREAM.format("csv('in', quote => 'ab')"), "quote .* 'ab'"),
        (STREAM.format("json('in', maxFileAge => '5 days')"), "maxFileAge .* '5 days'"),
        (STREAM.format("json('in', cleanSource => 'archive')"), "does not say where"),
        (STREAM.format("json('in', encoding => 'foo')"), "encoding .* 'foo'"),
        (STREAM.format("csv('in', charset => 'latin1')"), "charset .* 'latin1'"),
        (STREAM.format("json('in', encoding => 'UTF-16')"), "cannot tell apart"),
        (STREAM.format("json('in', encoding => 'US-ASCII')"), "cannot tell apart"),
        (STREAM.format("csv('in', lineSep => 'abc')"), "lineSep .* 'abc'"),
        (STREAM.format("csv('in', compression => 'xz')"), "compression .* 'xz'"),
        (STREAM.format("json('in', timeZone => 'berlin')"), "timeZone .* 'berlin'"),
        (STREAM.format("json('in', timestampFormat => 'foo')"), "timestampFormat .* 'foo'"),
        (STREAM.format("json('in', dateFormat => 'YYYY')"), "dateFormat .* 'YYYY'"),
        (STREAM.format("json('in', timestampFormat => 'yyyy''T')"), "timestampFormat .* is"),
        (STREAM.format(r"csv('in', sep => '\\')"), "sep of"),
        (STREAM.format("csv('in', maxColumns => '99999999999')"), "maxColumns .* '9"),
        (STREAM.format("csv('in', maxCharsPerColumn => '0')"), "maxCharsPerColumn .* '0'"),
        (STREAM.format("csv('in', unescapedQuoteHandling => 'foo')"), "Handling .* 'foo'"),
        (STREAM.format("parquet('in', int96RebaseMode => 'foo')"), "int96RebaseMode .* 'foo'"),
        (STREAM.format("json('in', pathGlobFilter => '[')"), "pathGlobFilter .* '\\['"),
        (STREAM.format("json('in', pathGlobFilter => '{a')"), "pathGlobFilter .* '{a'"),
        (STREAM.format("json('in', basePath => '/nowhere')"), "which is not above"),
        (
            STREAM.format("json('in', columnNameOfCorruptRecord => 'TS')"),
            "column ts of stream s is for records that cannot be read",
        ),
        (STREAM.format("json('in', modifiedAfter => '2026-01-01')"), "no option modifiedAfter"),
        (
            STREAM.format("json('in', maxFilesPerTrigger => '1', maxBytesPerTrigger => '1')"),
            "both maxFilesPerTrigger and maxBytesPerTrigger",
        ),
        (STREAM.format("json('in', latestFirst => 'true', LATESTFIRST => 'false')"), "twice"),
        (STREAM.format("json('in', colour => 'red')"), "no option colour"),
        (
            STREAM.format("kafka(`kafka.bootstrap.servers` => 'b:1', payload => 'json')"),
            "without subscribe or subscribePattern or assign",
        ),
        ("CREATE RELATION r (a INT) KEY a FROM csv('in', header => 'yes');", "header .* 'yes'"),
        (
            "CREATE RELATION r (a INT) KEY a FROM csv('in', maxFilesPerTrigger => '1');",
            "no option maxFilesPerTrigger",
        ),
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
        "json('in', encoding => 'utf-8', timeZone => 'Europe/Berlin', pathGlobFilter => '*.{a,b}')",
        "json('in', encoding => 'ISO-8859-1', lineSep => '\n', timeZone => '+02:00')",
        "json('in', encoding => 'UTF-16', multiLine => 'true', columnNameOfCorruptRecord => 'k')",
        "csv('in', sep => '||', lineSep => ';', maxCharsPerColumn => '-1', timeZone => 'CET')",
        "csv('in', timestampFormat => 'yyyy-MM-dd''T''HH:mm:ss[.SSS][XXX]', compression => 'gzip')",
        "json('in', pathGlobFilter => '[0-9]*.json', dateFormat => 'dd.MM.yyyy')",
    ],
)
@pytest.mark.parametrize("sink", ["", "TO console()", "TO parquet('out')"])
def test_what_could_run_is_not_refused(folder: Path, source: str, sink: str) -> None:
    found = read(folder, STREAM.format(source) + QUERY.format(sink))
    assert list(found.queries) == ["q"]


def test_columns_that_options_add_are_given(folder: Path) -> None:
    text = "CREATE STREAM s (timestamp TIMESTAMP, value STRING) FROM socket({}) TIMESTAMP BY value;"
    asked = "host => 'h', port => '1'"
    with pytest.raises(InvalidSetting, match="which socket does not give"):
        read(folder, text.format(asked).replace("BY value", "BY timestamp"))
    timed = text.format(f"{asked}, includeTimestamp => 'true'").replace("BY value", "BY timestamp")
    query = "CREATE QUERY q AS SELECT value FROM s [RANGE 1 SEC];"
    assert len(read(folder, timed + query).statements) == 2


def test_python_runs_only_where_it_is_allowed(folder: Path) -> None:
    (folder / "own.py").write_text("class Source: ...")
    text = STREAM.format("python('own:Source')")
    with pytest.raises(InvalidSetting, match="would run Python code") as refusal:
        read(folder, text)
    assert "--allow-python" in refusal.value.hint
    assert len(read(folder, text + QUERY.format(""), allow_python=True).statements) == 2


@pytest.mark.parametrize(
    ("code", "problem"),
    [
        ("", "no class Source in"),
        ("class Other: ...\ndef f():\n    class Source: ...", "no class Source in"),
        ("class Source(:", "is not Python"),
        ("\x00", "is not Python"),
    ],
)
def test_the_class_of_a_python_source_is_looked_for(folder: Path, code: str, problem: str) -> None:
    (folder / "own.py").write_text(f"{code}\nraise SystemExit('this must never run')")
    with pytest.raises(InvalidSetting, match=problem):
        read(folder, STREAM.format("python('own:Source')") + QUERY.format(""), allow_python=True)


@pytest.mark.parametrize(
    "code",
    [
        "class Source: ...",
        "from somewhere import Source",
        "from somewhere import Other as Source",
        "from somewhere import *",
        "Source = make()",
        "try:\n    from a import Source\nexcept ImportError:\n    Source = None",
        "def __getattr__(name): ...",
    ],
)
def test_a_class_may_come_from_anywhere(folder: Path, code: str) -> None:
    (folder / "own.py").write_text(f"{code}\nraise SystemExit('this must never run')")
    text = STREAM.format("python('own:Source', colour => 'red')") + QUERY.format("")
    assert read(folder, text, allow_python=True).queries


def test_columns_of_text_files_may_be_computed_or_named_by_folders(folder: Path) -> None:
    (folder / "in" / "day=3" / "town=Kiel").mkdir(parents=True)
    text = (
        "CREATE STREAM s (value STRING, DAY INT, town STRING, k AS (split_part(value, ',', 1)),"
        " ts AS (CAST(split_part(value, ',', 2) AS TIMESTAMP)))"
        " FROM text('in') TIMESTAMP BY ts;"
    )
    assert read(folder, text + QUERY.format("")).queries


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
    (folder / "own.py").write_text("class Source: ...")
    with pytest.raises(InvalidSetting, match="is not a class of a file beside the pipeline"):
        python_file("the stream s", path, folder)


def test_links_do_not_lead_out_of_the_folder(folder: Path) -> None:
    (folder / "linked.py").symlink_to(folder.parent / "elsewhere.py")
    with pytest.raises(InvalidSetting, match="leads out of the folder"):
        python_file("the stream s", "linked:Source", folder)
    (folder / "own.py").write_text("class Source: ...")
    (folder.parent / "alias").symlink_to(folder)
    file, name = python_file("the stream s", "own:Source", folder.parent / "alias")
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
        python_file("the stream s", "json:JSONDecoder", folder)


def before_spark(folder: Path, source: str, **settings: str) -> PipelineFile:
    file = folder / "p.cql"
    file.write_text(STREAM.format(source) + QUERY.format(""))
    given = {name.replace("_", "."): value for name, value in settings.items()}
    return PipelineFile.before_spark(file, given)


NEEDY = {
    "avro": "avro('in')",
    "delta": "delta('in')",
    "kafka": "kafka(subscribe => 't', `kafka.bootstrap.servers` => 'b:1', payload => 'json')",
}


@pytest.mark.parametrize("form", NEEDY)
def test_a_connector_that_nobody_brings_is_missed_before_spark_starts(
    folder: Path, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = folder.parent / "spark"
    (home / "jars").mkdir(parents=True)
    (home / "conf").mkdir()
    monkeypatch.setenv("SPARK_HOME", str(home))
    for name in ("PYSPARK_SUBMIT_ARGS", "SPARK_CONF_DIR"):
        monkeypatch.delenv(name, raising=False)
    source = NEEDY[form]
    with pytest.raises(InvalidSetting, match=f"stream s reads {form}, which needs a conn") as got:
        before_spark(folder, source, spark_driver_memory="4g")
    assert "--conf spark.jars.packages=" in got.value.hint
    assert before_spark(folder, source, spark_jars_packages="a:b:1")
    assert before_spark(folder, source, spark_jars="connector.jar")
    assert before_spark(folder, "json('in')")
    with monkeypatch.context() as context:
        context.setenv("PYSPARK_SUBMIT_ARGS", "--packages a:b:1 pyspark-shell")
        assert before_spark(folder, source)
    defaults = home / "conf" / "spark-defaults.conf"
    defaults.write_text("# spark.jars.packages a:b:1\nspark.driver.memory 4g\n")
    with pytest.raises(InvalidSetting, match="needs a connector"):
        before_spark(folder, source)
    defaults.write_text("spark.jars.packages  a:b:1\n")
    assert before_spark(folder, source)
    defaults.unlink()
    file = {"avro": "spark-avro_2.13-4.3.0", "delta": "delta-spark_2.13-4.0.0"}
    (home / "jars" / f"{file.get(form, 'spark-sql-kafka-0-10_2.13-4.3.0')}.jar").touch()
    assert before_spark(folder, source)


def test_pyspark_itself_brings_no_connectors(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SPARK_HOME", "PYSPARK_SUBMIT_ARGS", "SPARK_CONF_DIR"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(InvalidSetting, match="needs a connector"):
        before_spark(folder, NEEDY["avro"])
