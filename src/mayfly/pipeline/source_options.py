"""The options of sources: which there are, and which values they take, told without Spark.

Spark ignores an option that it does not know without a word, and looks at the value of many
only when the first file is read. Of sources that are not part of Spark we know the usual options
only: there what is nearly one of them is refused, and others are passed on.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches

from mayfly.errors import InvalidSetting
from mayfly.plan.catalog import Connector, check_zone

FILES = ("parquet", "json", "csv", "orc", "text", "avro", "delta")
PAYLOAD = "payload"
"""An option of sources whose columns Spark gives: what their column ``value`` holds."""
_OPEN = ("kafka", "avro", "delta")
"""Sources that may have options of which we do not know."""


@dataclass(frozen=True)
class OptionKind:
    """The values that an option takes, in words and as a test."""

    words: str
    takes: Callable[[str], bool]


def _matching(words: str, pattern: str) -> OptionKind:
    form = re.compile(pattern, re.IGNORECASE)
    return OptionKind(words, lambda value: form.fullmatch(value.strip()) is not None)


TEXT = OptionKind("a text", lambda value: True)
SOME_TEXT = OptionKind("a text that is not empty", bool)
LETTER = OptionKind("one letter or sign", lambda value: len(value) <= 1)
FLAG = _matching("true or false", "true|false")
NUMBER = _matching("a whole number", r"-?\d{1,9}")
COUNT = _matching("a whole number of 1 or more", r"0*[1-9]\d{0,17}")
COUNT_OR_NONE = _matching("a whole number of 0 or more", r"\d{1,9}")
SHARE = _matching("a number from 0 to 1", r"0(\.\d*)?|1(\.0*)?|\.\d+")
SPAN = _matching("a time such as 100ms, 50s, 10min, 2h or 7d", r"-?\d{1,12}(us|ms|s|m|min|h|d)?")
PORT = OptionKind(
    "a port from 1 to 65535", lambda value: value.isdecimal() and 0 < int(value) < 65536
)
REBASING = _matching("CORRECTED, LEGACY or EXCEPTION", "corrected|legacy|exception")
ZONE = OptionKind("a zone such as Europe/Berlin or +02:00", lambda value: _is_zone(value))
_OFFSET = re.compile(r"Z|[A-Z]{3}|(?:UTC|GMT|UT)?[+-]\d{1,2}(?::?\d{2}){0,2}")


def _is_zone(value: str) -> bool:
    """Whether Java knows it: a region, an offset, or one of its names of three letters."""
    try:
        check_zone(value)
    except InvalidSetting:
        return _OFFSET.fullmatch(value) is not None
    return True


CLEANING = _matching("archive, delete or off", "archive|delete|off")
_PATTERN = re.compile(r"(?:'[^']*'|[GyDMLdQqEFahKkHmsSVzOXx]|[^A-Za-z'#{}])+")
_GLOB = re.compile(r"(?:\\.|\[(?:\\.|[^]\\])+\]|\{(?:\\.|[^}\\])*\}|[^\\\[{])*", re.DOTALL)
ENCODING = _matching(
    "UTF-8, UTF-16, UTF-16BE, UTF-16LE, UTF-32, ISO-8859-1 or US-ASCII, or convert the files",
    "utf-(8|16|16be|16le|32)|iso-8859-1|us-ascii",
)
CODEC = _matching(
    "bzip2, deflate, gzip, lz4, snappy or none; files are unpacked by the ends of their names",
    "bzip2|deflate|gzip|lz4|snappy|none|uncompressed",
)
QUOTING = _matching(
    "STOP_AT_CLOSING_QUOTE, BACK_TO_DELIMITER, STOP_AT_DELIMITER, SKIP_VALUE or RAISE_ERROR",
    "stop_at_closing_quote|back_to_delimiter|stop_at_delimiter|skip_value|raise_error",
)
SIZE = _matching("a whole number from 1 to 999,999,999", r"0*[1-9]\d{0,8}")
LENGTH = _matching("-1, or a whole number of 1 or more", r"-1|0*[1-9]\d{0,8}")
SEPARATOR = OptionKind("one or two letters or signs", lambda value: 0 < len(value) < 3)
DELIMITER = OptionKind("a text such as ; or \\t", lambda value: value not in ("", "\\"))
PATTERN = OptionKind(
    "a pattern of Spark such as yyyy-MM-dd HH:mm:ss, other letters in '…'",
    lambda value: _PATTERN.fullmatch(value) is not None,
)
GLOB = OptionKind(
    "a pattern such as *.json or part-{a,b}*",
    lambda value: _GLOB.fullmatch(value) is not None,
)
MODE = _matching("PERMISSIVE, DROPMALFORMED or FAILFAST", "permissive|dropmalformed|failfast")

Options = Mapping[str, OptionKind]
_OF_ALL_FILES: Options = {
    "pathGlobFilter": GLOB, "basePath": SOME_TEXT, "recursiveFileLookup": FLAG,
    "ignoreCorruptFiles": FLAG, "ignoreMissingFiles": FLAG,
}  # fmt: skip
_OF_NEW_FILES: Options = {
    "maxFilesPerTrigger": COUNT, "maxBytesPerTrigger": COUNT, "latestFirst": FLAG,
    "fileNameOnly": FLAG, "maxFileAge": SPAN, "maxCachedFiles": COUNT_OR_NONE,
    "discardCachedInputRatio": SHARE, "cleanSource": CLEANING, "sourceArchiveDir": SOME_TEXT,
}  # fmt: skip
"""How a stream looks for files; a relation is read once."""
_OF_OLD_FILES: Options = {"modifiedBefore": SOME_TEXT, "modifiedAfter": SOME_TEXT}
"""Which files a relation is read from; Spark refuses both in streams."""
_OF_TEXTS: Options = {
    "encoding": ENCODING, "charset": ENCODING, "lineSep": SOME_TEXT, "compression": CODEC,
    "multiLine": FLAG, "mode": MODE, "columnNameOfCorruptRecord": SOME_TEXT, "locale": SOME_TEXT,
    "timeZone": ZONE, "dateFormat": PATTERN, "timeFormat": PATTERN,
    "timestampFormat": PATTERN, "timestampNTZFormat": PATTERN,
    "enableDateTimeParsingFallback": FLAG,
}  # fmt: skip
_OF_JSON: Options = {
    **_OF_TEXTS,
    **dict.fromkeys(
        (
            "allowComments", "allowUnquotedFieldNames", "allowSingleQuotes",
            "allowNumericLeadingZeros", "allowBackslashEscapingAnyCharacter",
            "allowUnquotedControlChars", "allowNonNumericNumbers",
        ),
        FLAG,
    ),
}  # fmt: skip
_OF_CSV: Options = {
    **_OF_TEXTS,
    "lineSep": SEPARATOR, "sep": DELIMITER, "delimiter": DELIMITER,
    "quote": LETTER, "escape": LETTER, "comment": LETTER,
    "charToEscapeQuoteEscaping": LETTER, "header": FLAG, "enforceSchema": FLAG,
    "ignoreLeadingWhiteSpace": FLAG, "ignoreTrailingWhiteSpace": FLAG, "columnPruning": FLAG,
    "nullValue": TEXT, "emptyValue": TEXT, "nanValue": TEXT, "positiveInf": TEXT,
    "negativeInf": TEXT, "maxColumns": SIZE, "maxCharsPerColumn": LENGTH,
    "inputBufferSize": SIZE, "unescapedQuoteHandling": QUOTING,
}  # fmt: skip
_OF_FORMAT: Mapping[str, Options] = {
    "parquet": {"mergeSchema": FLAG, "datetimeRebaseMode": REBASING, "int96RebaseMode": REBASING},
    "orc": {"mergeSchema": FLAG},
    "text": {"wholetext": FLAG, "lineSep": SOME_TEXT, "encoding": ENCODING},
    "json": _OF_JSON,
    "csv": _OF_CSV,
    "avro": {"mode": MODE, "avroSchema": SOME_TEXT, "ignoreExtension": FLAG},
    "delta": {"ignoreDeletes": FLAG, "ignoreChanges": FLAG, "skipChangeCommits": FLAG},
    "rate": {"rowsPerSecond": COUNT, "rampUpTime": SPAN, "numPartitions": COUNT},
    "socket": {"host": SOME_TEXT, "port": PORT, "includeTimestamp": FLAG, PAYLOAD: TEXT},
    "kafka": {
        "subscribe": SOME_TEXT, "subscribePattern": SOME_TEXT, "assign": SOME_TEXT,
        "startingOffsets": SOME_TEXT, "startingTimestamp": NUMBER,
        "startingOffsetsByTimestamp": SOME_TEXT, "startingOffsetsByTimestampStrategy": SOME_TEXT,
        "failOnDataLoss": FLAG, "maxOffsetsPerTrigger": COUNT, "minOffsetsPerTrigger": COUNT,
        "maxTriggerDelay": SPAN, "minPartitions": COUNT, "maxRecordsPerPartition": COUNT,
        "kafka.bootstrap.servers": SOME_TEXT, "includeHeaders": FLAG, "groupIdPrefix": SOME_TEXT,
        PAYLOAD: TEXT,
    },
}  # fmt: skip
_NEEDED = {
    "socket": (("host",), ("port",)),
    "kafka": (("kafka.bootstrap.servers",), ("subscribe", "subscribePattern", "assign")),
}
"""Of each of these options a source needs one."""
_APART = (("maxFilesPerTrigger", "maxBytesPerTrigger"),)
"""Options of which Spark takes one at most."""


def check_options(owner: str, source: Connector, *, streaming: bool) -> None:
    """Refuse options that would have no effect, values that Spark would refuse later, and the
    lack of what a source needs."""
    if source.format not in _OF_FORMAT:
        return
    options = _options(source.format, streaming)
    spellings = {name.casefold(): name for name in options}
    values: dict[str, str] = {}
    for name, value in source.options:
        folded = name.casefold()
        if folded in values:
            raise InvalidSetting(
                f"the source of {owner} has the option {name} twice", "keep one of them"
            )
        values[folded] = value
        if folded not in spellings:
            _refuse_unknown(owner, source.format, name, spellings)
        elif not options[spellings[folded]].takes(value):
            raise InvalidSetting(
                f"the option {spellings[folded]} of the source of {owner} is {value!r}",
                f"write {options[spellings[folded]].words}",
            )
    _check_together(owner, source.format, values)


def _options(form: str, streaming: bool) -> Options:
    of_files = {**_OF_ALL_FILES, **(_OF_NEW_FILES if streaming else _OF_OLD_FILES)}
    return {**(of_files if form in FILES else {}), **_OF_FORMAT[form]}


def _refuse_unknown(owner: str, form: str, name: str, spellings: Mapping[str, str]) -> None:
    near = get_close_matches(name.casefold(), spellings, 1, cutoff=0.85)
    if near:
        hint = f"write {spellings[near[0]]}"
    elif form in _OPEN:
        return
    else:
        hint = f"leave it out; the options are {', '.join(spellings.values())}"
    raise InvalidSetting(f"the source {form} of {owner} has no option {name}", hint)


def _check_together(owner: str, form: str, options: Mapping[str, str]) -> None:
    for choice in _NEEDED.get(form, ()):
        if not _named(choice, options):
            raise InvalidSetting(
                f"the source {form} of {owner} cannot be read without {' or '.join(choice)}",
                f"write {form}({choice[0]} => '…', …)",
            )
    for pair in _APART:
        if len(_named(pair, options)) == len(pair):
            raise InvalidSetting(
                f"the source of {owner} has both {' and '.join(pair)}", "keep one of them"
            )
    if form == "json" and options.get("multiline", "").casefold() != "true":
        _check_lines(owner, options)
    archived = options.get("cleansource", "").casefold() == "archive"
    if archived and "sourcearchivedir" not in options:
        raise InvalidSetting(
            f"the source of {owner} archives what is read, but does not say where",
            "write sourceArchiveDir => 'folder', …",
        )


def _check_lines(owner: str, options: Mapping[str, str]) -> None:
    """Refuse JSON in an encoding whose ends of lines Spark does not find by itself."""
    encoding = options.get("encoding", options.get("charset", "UTF-8")).upper()
    if encoding in ("UTF-16", "UTF-32") or (encoding != "UTF-8" and "linesep" not in options):
        raise InvalidSetting(
            f"the source of {owner} is JSON in {encoding}, whose lines Spark cannot tell apart",
            "write multiLine => 'true', a value per file, or convert the files to UTF-8",
        )


def _named(names: Iterable[str], options: Mapping[str, str]) -> list[str]:
    return [name for name in names if name.casefold() in options]
